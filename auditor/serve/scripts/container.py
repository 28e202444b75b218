"""Reads Dockerfiles: each stage's environment, folder and image, and the command that it runs."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from auditor.model import Launch, Pin, Skipped
from auditor.serve.scripts.shell import read_text
from auditor.serve.scripts.values import Placed
from auditor.serve.scripts.variables import MOST_BYTES, Read
from auditor.serve.scripts.words import Setting

Part = tuple[str, int, int]
"""A text with its line and column."""

_MOST_INSTRUCTIONS = 2_000
_MOST_STAGES = 32
_HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_]\w*)\1")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")
_OPTIONS = re.compile(r"[ \t]*(?:--[a-z]+(?:=\S+)?[ \t]+)*")
_PAIR = re.compile(r"([A-Za-z_]\w*)=")


@dataclass(frozen=True)
class _Instruction:
    """An instruction: its name in capitals and the lines of its text, continuations included."""

    name: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text on one line, as docker joins it."""
        return "".join(re.sub(r"\\[ \t]*\n$", "", part) for part, _, _ in self.parts).strip()


@dataclass
class _Stage:
    """What a stage has been told so far; ``script`` is the same as a shell would be told it."""

    script: list[Part] = field(default_factory=list)
    setting: Setting = field(default_factory=Setting)
    folder: str = "/"
    entrypoint: _Instruction | None = None
    command: _Instruction | None = None
    inherited: bool = False
    starts: bool = False


def read_dockerfile(text: bytes, path: str, read: Read) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a Dockerfile, one for each stage that says what it runs.

    Commands in ``RUN`` count, too. What ``COPY`` brings is in ``mounts``: a path of the build
    context stays as written, since the file does not say where the context is.
    """
    if len(text) > MOST_BYTES:
        reason = f"larger than {MOST_BYTES // 1_000_000} MB"
        return [], [Skipped("fork", path, "serve", reason)]
    launches: dict[Launch, None] = {}
    skipped: dict[Skipped, None] = {}
    stages: dict[str, _Stage] = {}
    stage: _Stage | None = None
    arguments: dict[str, str] = {}
    finished: list[_Stage] = []
    for number, instruction in enumerate(_instructions(text.decode("utf-8", "replace"))):
        if number >= _MOST_INSTRUCTIONS or len(finished) > _MOST_STAGES:
            what = "instructions" if number >= _MOST_INSTRUCTIONS else "stages"
            reason = f"holds more {what} than are followed; read in part"
            skipped[Skipped("fork", path, "serve", reason)] = None
            break
        if instruction.name == "FROM":
            stage = _from(instruction, arguments, stages, path)
            finished.append(stage)
        elif instruction.name == "ARG" and stage is None:
            name, equals, value = instruction.text.partition("=")
            if equals:
                arguments[name.strip()] = _expanded(value.strip().strip("\"'"), arguments)
        elif stage is not None:
            _take(stage, instruction, arguments)
    for stage in finished:
        script = [*stage.script, *(_start(stage) if stage.starts else ())]
        found, problems = read_text(Placed(path, script), stage.setting, "dockerfile", read)
        launches.update(dict.fromkeys(found))
        skipped.update(dict.fromkeys(problems))
    return list(launches), list(skipped)


def _instructions(text: str) -> Iterator[_Instruction]:
    lines = text.splitlines(keepends=True)
    at = 0
    while at < len(lines):
        match = re.match(r"[ \t]*([A-Za-z]+)[ \t]+", lines[at])
        if match is None:
            at += 1
            continue
        parts: list[Part] = []
        first = match.end()
        while at < len(lines):
            line = lines[at]
            # A comment within a continued instruction is no part of it; an empty line is none.
            if first == 0 and (re.match(r"[ \t]*#", line) or not line.strip()):
                at += 1
                continue
            parts.append((line[first:], at + 1, first + 1))
            first = 0
            at += 1
            if not re.search(r"\\[ \t]*\r?\n?$", line):
                break
        takes_text = match.group(1).upper() in {"RUN", "COPY"}
        written = "".join(part for part, _, _ in parts) if takes_text else ""
        for _, end in _HEREDOC.findall(written):
            while at < len(lines):
                parts.append((lines[at], at + 1, 1))
                at += 1
                if lines[at - 1].strip() == end:
                    break
        yield _Instruction(match.group(1).upper(), tuple(parts))


def _from(
    instruction: _Instruction, arguments: dict[str, str], stages: dict[str, _Stage], path: str
) -> _Stage:
    words = [word for word in instruction.text.split() if not word.startswith("--")]
    image = _expanded(words[0], arguments) if words else ""
    parent = stages.get(image.lower())
    if parent is not None:
        stage = replace(parent, script=list(parent.script), inherited=True, starts=False)
    else:
        part, line, column = instruction.parts[0]
        column += max(0, part.find(words[0]) if words else 0)
        stage = _Stage(setting=Setting(pins=(Pin("image", image, path, line, column),)))
    if len(words) >= 3 and words[1].lower() == "as":
        stages[words[2].lower()] = stage
    return stage


def _take(stage: _Stage, instruction: _Instruction, arguments: dict[str, str]) -> None:
    name, text = instruction.name, instruction.text
    if name == "ENV":
        stage.script += _environment(instruction)
    elif name == "ARG":
        variable, equals, value = text.partition("=")
        value = value if equals else arguments.get(variable.strip(), "")
        if value and re.fullmatch(r"\w+", variable.strip()):
            _, line, column = instruction.parts[0]
            stage.script.append((f"{variable.strip()}={value}\n", line, column))
    elif name == "WORKDIR":
        stage.folder = posixpath.join(stage.folder, text)
        _, line, column = instruction.parts[0]
        stage.script += [("cd ", line, column), *instruction.parts, _newline(instruction)]
    elif name == "RUN":
        stage.script += _run(instruction)
    elif name in {"COPY", "ADD"}:
        _copy(stage, instruction)
    elif name == "ENTRYPOINT":
        # A new entry point forgets the command of the image below.
        stage.entrypoint, stage.starts = instruction, True
        if stage.inherited:
            stage.command = None
    elif name == "CMD":
        stage.command, stage.starts, stage.inherited = instruction, True, False


def _environment(instruction: _Instruction) -> list[Part]:
    first, line, column = instruction.parts[0]
    if _PAIR.match(first.lstrip()):
        return [("export ", line, column), *instruction.parts, _newline(instruction)]
    name, _, value = instruction.text.partition(" ")
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return []
    quoted = value.strip().replace('"', '\\"')
    return [(f'export {name}="{quoted}"\n', line, column)]


def _newline(instruction: _Instruction) -> Part:
    _, line, column = instruction.parts[-1]
    return ("\n", line, column)


def _run(instruction: _Instruction) -> list[Part]:
    parts = list(instruction.parts)
    while True:
        text, line, column = parts[0]
        options = _OPTIONS.match(text)
        skip = options.end() if options else 0
        parts[0] = (text[skip:], line, column + skip)
        if len(parts) == 1 or parts[0][0].strip() not in {"", "\\"}:
            break
        del parts[0]
    words = _exec(replace(instruction, parts=tuple(parts)))
    if words is not None:
        return [*words, _newline(instruction)]
    heredoc = _HEREDOC.match(parts[0][0])
    if heredoc:
        parts = [part for part in parts[1:] if part[0].strip() != heredoc.group(2)]
    _, last, end = parts[-1] if parts else ("", line, column)
    return [("(\n", line, column), *parts, ("\n)\n", last, end)]


def _copy(stage: _Stage, instruction: _Instruction) -> None:
    """Keeps where a file of the build context comes to lie, or the script that is written."""
    if _HEREDOC.search(instruction.parts[0][0]):
        first, line, column = instruction.parts[0]
        target = first.split()[-1]
        heredoc = _HEREDOC.search(first)
        if heredoc:
            stage.script += [
                (f"cat > {target} {heredoc.group()}\n", line, column),
                *instruction.parts[1:],
                _newline(instruction),
            ]
        return
    text = instruction.text
    if re.match(r"(?:--\S+\s+)*--from=", text):
        return
    text = re.sub(r"^(?:--\S+\s+)*", "", text)
    try:
        items = json.loads(text) if text.startswith("[") else text.split()
    except (ValueError, RecursionError):
        return
    if not all(isinstance(item, str) for item in items) or len(items) < 2 or "$" in text:
        return
    *sources, target = items
    inside = posixpath.join(stage.folder, target)
    mounts = []
    for source in sources:
        into = target.endswith("/") or len(sources) > 1 or target in {".", ".."}
        is_file = "." in posixpath.basename(source.rstrip("/")).lstrip(".")
        if into and is_file:
            mounts.append((posixpath.join(inside, posixpath.basename(source)), source))
        else:
            mounts.append((inside, source))
    normal = tuple((posixpath.normpath(one), other) for one, other in mounts)
    stage.setting = replace(stage.setting, mounts=(*stage.setting.mounts, *normal))


def _start(stage: _Stage) -> list[Part]:
    """The command line of a stage: its entry point with its command."""
    entrypoint, command = stage.entrypoint, stage.command
    if entrypoint is None:
        if command is None:
            return []
        words = _exec(command)
        return [*(words if words is not None else command.parts), _newline(command)]
    words = _exec(entrypoint)
    if words is None:
        # In shell form the command is not looked at.
        return [*entrypoint.parts, _newline(entrypoint)]
    rest: list[Part] = []
    if command is not None:
        given = _exec(command)
        if given is None:
            _, line, column = command.parts[0]
            quoted = command.text.replace("'", "'\\''")
            given = [("/bin/sh -c '", line, column), (quoted, line, column), ("'", line, column)]
        rest = given
    return [*words, *rest, _newline(entrypoint)]


def _exec(instruction: _Instruction) -> list[Part] | None:
    """The words of the exec form (a JSON list), quoted for a shell; None for the shell form."""
    text = "".join(
        re.sub(r"\\[ \t]*\r?\n$", lambda match: " " * len(match.group()), part)
        for part, _, _ in instruction.parts
    )
    start = len(text) - len(text.lstrip())
    if not text[start:].startswith("["):
        return None
    decoder = json.JSONDecoder()
    parts: list[Part] = []
    at = start + 1
    while True:
        gap = re.compile(r"[\s,]*").match(text, at)
        at = gap.end() if gap else at
        if text[at : at + 1] == "]":
            return parts
        if text[at : at + 1] != '"':
            return None
        try:
            word, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        line, column = _where(instruction, at + 1)
        for index, piece in enumerate(word.split("'")):
            if index:
                parts.append(("'\\''", line, column))
            else:
                parts.append(("'", line, column))
            parts.append((piece, line, column))
        parts.append(("' ", line, column))
        at = end


def _where(instruction: _Instruction, offset: int) -> tuple[int, int]:
    for part, line, column in instruction.parts:
        if offset < len(part):
            return line, column + offset
        offset -= len(part)
    _, line, column = instruction.parts[-1]
    return line, column


def _expanded(text: str, arguments: dict[str, str]) -> str:
    """Puts the values of ``ARG`` into a ``FROM`` line; a name without one stays as written."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        return arguments.get(name) or match.group(3) or match.group(0)

    return _VARIABLE.sub(value, text)[:4096]
