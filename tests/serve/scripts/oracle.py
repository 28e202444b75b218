"""Bash as the judge of what is read out of a script: what its runs really start.

A script is run under bash once for each of its inputs. The programs on its path are stubs that
write down their words and end. What the reader says of the same text is held against that.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from auditor.model import Argument, Launch, Skipped
from auditor.serve.scripts.shell import read_shell
from tests.serve.scripts.draft import Input, Script

Pair = tuple[str, "str | None"]
Vector = tuple[Pair, ...]
"""What one command line says, in its order."""

_STUBS = ("python", "python3", "sglang")
_SECONDS = 10
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*(?:=.*)?$", re.DOTALL)
_UNKNOWN = re.compile(r"\$\w+|\$[@*#?$!0-9-]|`[^`]*`")
_MANY = "\0"
"""Stands where any words may be, flags among them."""


@dataclass(frozen=True)
class Run:
    """What a script does under one input: the command lines that it starts the server with."""

    given: Input
    vectors: tuple[Vector, ...]
    status: int


@dataclass
class Verdict:
    """How what is read compares with what runs; all lists are in words for a person."""

    script: Script
    runs: tuple[Run, ...]
    launches: tuple[Launch, ...]
    skipped: tuple[Skipped, ...] = ()
    pairs: set[Pair] = field(default_factory=set)
    read: set[Pair] = field(default_factory=set)
    exact: set[Pair] = field(default_factory=set)
    invented: set[Pair] = field(default_factory=set)
    wrong_certain: set[Pair] = field(default_factory=set)
    has_worlds: bool = False
    joined: bool = False
    followed: int = 0
    launched: int = 0
    unseen: list[Vector] = field(default_factory=list)
    """What runs start and no world is."""
    untrue: list[Vector] = field(default_factory=list)
    """What worlds without unknown words say and no run starts."""

    @property
    def missing(self) -> set[Pair]:
        return self.pairs - self.read

    @property
    def agrees(self) -> bool:
        return not (
            self.missing or self.invented or self.wrong_certain or self.unseen or self.untrue
        )

    def told(self) -> str:
        """What differs, a line each."""
        lines = [f"skipped: {item.path}: {item.reason}" for item in self.skipped]
        for name in ("missing", "invented", "wrong_certain"):
            pairs: set[Pair] = getattr(self, name)
            lines += [f"{name}: {spelled(pair)}" for pair in sorted(pairs, key=str)]
        lines += [f"run without a world: {line(vector)}" for vector in self.unseen]
        lines += [f"world without a run: {line(vector)}" for vector in self.untrue]
        return "\n".join(lines)


def spelled(pair: Pair) -> str:
    return pair[0] if pair[1] is None else f"{pair[0]} {pair[1]!r}"


def line(vector: Vector) -> str:
    return " ".join(map(spelled, vector))


class Bash:
    """Runs scripts in folders of its own, with stubs in the place of the server's programs."""

    def __enter__(self) -> Bash:
        self._folder = tempfile.TemporaryDirectory()
        # The name of the folder is part of values that a script makes out of its own path.
        self._top = Path(self._folder.name).resolve()
        self._calls = self._top / "calls"
        self._bin = self._top / "bin"
        self._bin.mkdir()
        self._number = 0
        for name in _STUBS:
            stub = self._bin / name
            # One write each, so that two servers at once do not mix their words.
            stub.write_text(
                f"#!/bin/sh\nprintf '%s\\0' $(($# + 1)) {name} \"$@\" >> '{self._calls}'\n"
            )
            stub.chmod(0o755)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def runs(self, script: Script) -> tuple[Run, ...]:
        """Every run of a script; one that hangs has started nothing."""
        self._number += 1
        folder = self._top / f"tree{self._number}"
        file = folder / script.path
        file.parent.mkdir(parents=True)
        file.write_text(script.text)
        return tuple(self._run(script, folder, given) for given in script.inputs)

    def _run(self, script: Script, folder: Path, given: Input) -> Run:
        self._calls.write_bytes(b"")
        environment = {"PATH": f"{self._bin}:/usr/bin:/bin", "HOME": str(self._top / "home")}
        try:
            status = subprocess.run(
                ["bash", posixpath.join(".", script.path), *given.arguments],
                cwd=folder,
                env=environment | dict(given.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return Run(given, (), -1)
        found = tuple(
            vector
            for words in _calls(self._calls.read_bytes())
            if (vector := vector_of(words, folder)) is not None
        )
        return Run(given, found, status)


def _calls(data: bytes) -> Iterator[list[str]]:
    words = data.decode("utf-8", "replace").split("\0")
    at = 0
    while at < len(words) - 1:
        count = int(words[at])
        yield words[at + 1 : at + 1 + count]
        at += 1 + count


def vector_of(words: Sequence[str], folder: Path | None = None) -> Vector | None:
    """The flags and values of a command line, None where it starts no server."""
    rest = list(words)
    if rest[:2] == ["sglang", "serve"]:
        rest = rest[2:]
        if rest and not rest[0].startswith("-"):
            rest.insert(0, "--model-path")
    elif "sglang.launch_server" in rest and rest[0].startswith("python"):
        rest = rest[rest.index("sglang.launch_server") + 1 :]
    else:
        return None
    found: list[tuple[str, list[str] | None, bool]] = []
    for word in rest:
        if _FLAG.match(word):
            name, equals, own = word.partition("=")
            found.append((name, [own] if equals else None, bool(equals)))
        elif found and not found[-1][2]:
            name, values, _ = found[-1]
            found[-1] = (name, [*(values or []), word], False)
    return tuple(
        (name, None if values is None else normal(" ".join(values), folder))
        for name, values, _ in found
    )


def normal(value: str, folder: Path | None = None) -> str:
    """A value with paths of the script's folder as the reader writes them."""
    if folder is not None:
        value = value.replace(f"{folder}/", "").replace(str(folder), ".")
    if "/" in value and " " not in value and "{" not in value:
        return posixpath.normpath(value)
    return value


def judge(script: Script, runs: Sequence[Run], read: Sequence[Launch] | None = None) -> Verdict:
    """Holds what is read (or what a test says was read) against what was run."""
    skipped: Sequence[Skipped] = ()
    if read is None:
        read, skipped = read_shell(script.text.encode(), script.path, lambda path: None)
    launches = tuple(launch for launch in read if launch.program == "server")
    verdict = Verdict(script, tuple(runs), launches, tuple(skipped))
    vectors = list(dict.fromkeys(vector for run in runs for vector in run.vectors))
    arguments = [argument for launch in launches for argument in launch.arguments]
    observed = {pair for vector in vectors for pair in vector}
    # What replaces a default is a text that the script does not have.
    given = {text for one in script.inputs for _, text in one.environment}
    given |= {text for one in script.inputs for text in one.arguments}
    for pair in observed:
        if pair[0] in script.open:
            continue
        if any(fits(argument, pair) for argument in arguments):
            verdict.read.add(pair)
        elif pair[0] in script.soft and pair[1] in given:
            if any(argument.flag == pair[0] for argument in arguments):
                continue
        verdict.pairs.add(pair)
        if any(argument.resolved and fits(argument, pair) for argument in arguments):
            verdict.exact.add(pair)
    verdict.invented = {
        pair_of(argument)
        for argument in arguments
        if argument.resolved and pair_of(argument) not in observed
    }
    for vector in vectors:
        lacking = [_lacking(launch, vector, script.soft) for launch in launches]
        if lacking:
            # Of several launches one is this command.
            verdict.wrong_certain |= min(lacking, key=len)
    _judge_worlds(verdict, vectors)
    return verdict


def _lacking(launch: Launch, vector: Vector, soft: frozenset[str]) -> set[Pair]:
    certain = {
        pair_of(argument)
        for argument in launch.arguments
        if argument.resolved and not argument.conditional
    }
    flags = {flag for flag, _ in vector}
    return {
        pair
        for pair in certain
        if pair not in vector and not (pair[0] in soft and pair[0] in flags)
    }


def pair_of(argument: Argument) -> Pair:
    return argument.flag, None if argument.value is None else normal(argument.value)


def fits(argument: Argument, pair: Pair) -> bool:
    """Whether an argument is what a run passes; unknown parts of it may be anything."""
    if argument.resolved:
        return pair_of(argument) == pair
    if not pattern(argument.flag).fullmatch(pair[0]):
        return False
    # What is unknown may be no word at all.
    return pattern(argument.value or "").fullmatch(pair[1] or "") is not None


def pattern(text: str) -> re.Pattern[str]:
    """What a text may be whose expansions are unknown."""
    out = ""
    literal = ""
    at = 0
    while at < len(text):
        end = _unknown_end(text, at)
        if end > at:
            # What is unknown may be no word at all, and then there is no blank either.
            if literal.endswith(" "):
                out += re.escape(literal[:-1]) + "(?: .*)?"
            elif text[end : end + 1] == " ":
                out += re.escape(literal) + "(?:.* )?"
                end += 1
            else:
                out += re.escape(literal) + ".*"
            literal, at = "", end
        else:
            literal += text[at]
            at += 1
    return re.compile(out + re.escape(literal), re.DOTALL)


def _unknown_end(text: str, at: int) -> int:
    """Where the expansion that begins here ends; the same place where none does."""
    pairs = {"${": "{}", "$(": "()"}
    brackets = pairs.get(text[at : at + 2])
    if brackets is None:
        found = _UNKNOWN.match(text, at)
        return found.end() if found else at
    depth = 0
    for index in range(at + 1, len(text)):
        depth += (text[index] == brackets[0]) - (text[index] == brackets[1])
        if depth == 0:
            return index + 1
    return len(text)


# Worlds: all arguments of one command line at once.


def _judge_worlds(verdict: Verdict, vectors: Sequence[Vector]) -> None:
    """Holds each run's arguments, all together, against what is read as possible together."""
    launches = verdict.launches
    if not launches or not all(launch.worlds for launch in launches):
        return
    verdict.has_worlds = True
    verdict.joined = any(getattr(launch, "joined", False) for launch in launches)
    script = verdict.script
    worlds = [world for launch in launches for world in worlds_of(launch)]
    for vector in vectors:
        verdict.launched += 1
        own = [pair for pair in vector if pair[0] not in script.open]
        if any(_is_world(world, own, script.soft) for world in worlds):
            verdict.followed += 1
        else:
            verdict.unseen.append(vector)
    known = {_grouped(vector) for vector in vectors}
    for launch in launches:
        if getattr(launch, "joined", False) or launch.unresolved:
            continue
        for world in worlds_of(launch):
            if all(argument.resolved for argument in world):
                pairs = tuple(pair_of(argument) for argument in world)
                if _grouped(pairs) not in known:
                    verdict.untrue.append(pairs)


def worlds_of(launch: Launch) -> list[list[Argument]]:
    """The arguments of each possible command line, as the reader sees them."""
    return [[launch.arguments[index] for index in world] for world in launch.worlds]


def _grouped(vector: Iterable[Pair]) -> frozenset[tuple[str, tuple[str | None, ...]]]:
    """The values of each flag in their order: between flags the order says nothing."""
    found: dict[str, list[str | None]] = defaultdict(list)
    for flag, value in vector:
        found[flag].append(value)
    return frozenset((flag, tuple(values)) for flag, values in found.items())


def _is_world(world: Sequence[Argument], vector: Sequence[Pair], soft: frozenset[str]) -> bool:
    left = list(vector)
    for argument in sorted(world, key=lambda a: not a.resolved):
        for pair in left:
            if fits(argument, pair) or (argument.flag == pair[0] and pair[0] in soft):
                left.remove(pair)
                break
        else:
            if argument.resolved or pattern(argument.flag).pattern == re.escape(argument.flag):
                return False
    # A word that may be anything may be all that is left.
    return not left or any(
        not argument.resolved and not argument.flag.startswith("--") for argument in world
    )
