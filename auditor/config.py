"""Settles the settings of a run from the command line, a configuration file and the defaults."""

from __future__ import annotations

import difflib
import os
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import msgspec

from auditor.errors import UsageProblem
from auditor.formats import NAMES
from auditor.formats.verdict import FailOn
from auditor.model import CONFIDENCES, ORIGINS, SEVERITIES, Confidence, Origin
from auditor.triage.ignores import Ignore
from auditor.triage.ignores import read as read_ignores

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = ("audit.toml", "pyproject.toml")
_LARGEST_FILE = 256 * 2**10  # bytes
MOST_JOBS = 256
_MOST_ENTRIES = 10_000  # files below a tree's own folder of rules

_TYPED = "--output"
_SUFFIXES = {
    ".html": "html",
    ".json": "json",
    ".md": "markdown",
    ".sarif": "sarif",
    ".txt": "table",
    ".xml": "junit",
}
"""The format that the name of a file stands for."""

Kind = Literal["text", "texts", "list", "choice", "choices", "number", "flag"]


class Option(NamedTuple):
    """What a key of the configuration, which is also a long option, takes.

    ``list`` and ``choices`` split at commas, ``texts`` (paths, references) do not.
    """

    kind: Kind
    choices: Sequence[str] = ()


OPTIONS: dict[str, Option] = {
    "upstream": Option("text"),
    "rev": Option("text"),
    "target": Option("texts"),
    "serve": Option("texts"),
    "select": Option("list"),
    "ignore": Option("list"),
    "min-confidence": Option("choice", CONFIDENCES),
    "fail-on": Option("choice", (*SEVERITIES, "never")),
    "origin": Option("choices", ORIGINS),
    "since": Option("text"),
    "baseline": Option("text"),
    "no-suppress": Option("flag"),
    "reachable": Option("flag"),
    "output": Option("texts"),
    "rules": Option("texts"),
    "strict": Option("flag"),
    "jobs": Option("number"),
    "color": Option("flag"),
    "verbose": Option("flag"),
    "quiet": Option("flag"),
}

# What decides on the findings and the exit status: listed in the report.
_DECISIVE = (
    *("upstream", "rev", "target", "serve", "select", "ignore", "min-confidence", "fail-on"),
    *("origin", "since", "baseline", "no-suppress", "reachable", "rules", "strict"),
)


class Output(NamedTuple):
    """A format and the file it goes to; None is standard output."""

    format: str
    file: Path | None


class Settings(msgspec.Struct, frozen=True):
    """All settings of a run; ``configuration`` says which are in force and where they come from.

    ``serve`` are paths from ``serve_base``; ``serve_trusted`` says that a user named them, not the
    fork. ``ignore`` are ids of rules that are not run, ``ignores`` the suppressions beside them.
    """

    root: Path
    upstream: str | None = None
    rev: str | None = None
    targets: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    serve_base: Path = Path()
    serve_trusted: bool = True
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    min_confidence: Confidence = "medium"
    fail_on: FailOn = "high"
    origins: tuple[Origin, ...] = ()
    since: str | None = None
    baseline: Path | None = None
    comments: bool = True
    reachable: bool = False
    ignores: tuple[Ignore, ...] = ()
    outputs: tuple[Output, ...] = (Output("table", None),)
    rules_dirs: tuple[Path, ...] = ()
    strict: bool = False
    jobs: int = 0
    color: bool | None = None
    verbose: bool = False
    quiet: bool = False
    configuration: dict[str, str] = {}


class _Source(NamedTuple):
    """A configuration file; a tree's own is hostile input, one that the user named is trusted."""

    path: Path
    name: str
    tree: Path | None  # the fork that brings it; None where the user named the file

    def where(self, key: str) -> str:
        return f"{self.name}: {key}"


def fork_root(path: Path) -> Path:
    """The top of the checkout that holds ``path``, or ``path`` itself outside of one."""
    try:
        folder = path.resolve()
    except (OSError, RuntimeError, ValueError) as problem:
        raise UsageProblem(f"cannot open {path}: {problem}") from problem
    for parent in (folder, *folder.parents):
        marker = parent / ".git"
        if marker.is_file() or os.path.lexists(marker / "HEAD"):
            return parent
    return folder


def settle(
    given: Mapping[str, object],
    root: Path,
    file: Path | None = None,
    isolated: bool = False,
    formats: Sequence[str] = NAMES,
) -> Settings:
    """The settings of a run on ``root``: what is ``given`` on the command line, else configured.

    ``file`` is a configuration file that the user named; ``isolated`` ignores the fork's own.
    ``formats`` are those that the command writes: others are refused on the command line, and left
    out where they are configured, for the audit.
    Raises ``UsageProblem``, naming the option, or the file and the key.
    """
    if not root.is_dir():
        raise UsageProblem(f"-C {root}: there is no such folder")
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    ignores: tuple[Ignore, ...] = ()
    source = _source(root, file, isolated)
    if source:
        for key, given_value in _table(source).items():
            value = given_value
            if key == "ignore":
                value, ignores = _suppressions(source, value)
            values[key] = _configured(source, key, value)
            origin[key] = source.name
    for key, value in given.items():
        values[key] = _value(f"--{key}", OPTIONS[key], value)
        origin[key] = "command line"
    if values.get("verbose") and values.get("quiet"):
        raise UsageProblem("--verbose and --quiet exclude each other")
    defaults = Settings(root)
    if source and origin.get("output") == source.name:
        outputs = outputs_of(values["output"], source.where("output"))
        outputs = _to_screen([output for output in outputs if output.format in formats])
    else:
        outputs = outputs_of(values.get("output", ()), names=formats)
    settings = Settings(
        root=root,
        upstream=values.get("upstream"),
        rev=values.get("rev"),
        targets=tuple(values.get("target", ())),
        serve=tuple(values.get("serve", ())),
        serve_base=source.path.parent if source and origin.get("serve") == source.name else Path(),
        serve_trusted=not (source and source.tree and origin.get("serve") == source.name),
        select=tuple(values.get("select", ())),
        ignore=tuple(values.get("ignore", ())),
        min_confidence=cast(Confidence, values.get("min-confidence", defaults.min_confidence)),
        fail_on=cast(FailOn, values.get("fail-on", defaults.fail_on)),
        origins=cast("tuple[Origin, ...]", tuple(values.get("origin", ()))),
        since=values.get("since"),
        baseline=Path(values["baseline"]) if "baseline" in values else None,
        comments=not values.get("no-suppress", False),
        reachable=values.get("reachable", False),
        ignores=ignores,
        outputs=outputs,
        rules_dirs=tuple(Path(folder) for folder in values.get("rules", ())),
        strict=values.get("strict", False),
        jobs=values.get("jobs", 0),
        color=values.get("color"),
        verbose=values.get("verbose", False),
        quiet=values.get("quiet", False),
    )
    values.setdefault("min-confidence", settings.min_confidence)
    values.setdefault("fail-on", settings.fail_on)
    return msgspec.structs.replace(settings, configuration=_in_force(values, origin, root))


def _in_force(values: Mapping[str, Any], origin: Mapping[str, str], root: Path) -> dict[str, str]:
    told = {}
    for key in _DECISIVE:
        value = values.get(key)
        if value in (None, (), [], False):
            continue
        shown = [
            _shown(str(item), root) for item in (value if isinstance(value, list) else [value])
        ]
        text = "yes" if value is True else ", ".join(shown)
        told[key] = f"{text} ({origin.get(key, 'default')})"
    return told


def _shown(value: str, root: Path) -> str:
    """A value as the report may hold it: paths relative to the fork, or a name; never a host's."""
    path = Path(value)
    if not path.is_absolute():
        return value
    top = fork_root(root)
    return path.relative_to(top).as_posix() if path.is_relative_to(top) else path.name


def _source(root: Path, file: Path | None, isolated: bool) -> _Source | None:
    if file is not None:
        return _Source(file, file.name, None)
    if isolated:
        return None
    tree = fork_root(root)
    found = []
    for name in FILES:
        path = tree / name
        if os.path.lexists(path):
            source = _Source(path, name, tree)
            if name == "audit.toml" or _has_table(source):
                found.append(source)
    if len(found) > 1:
        raise UsageProblem(
            "audit.toml and [tool.audit] in pyproject.toml are both there; keep one of them, or"
            " choose with --config FILE or --isolated"
        )
    return found[0] if found else None


def _has_table(source: _Source) -> bool:
    """Whether a ``pyproject.toml`` configures audit; most do not and need not be parsed."""
    if b"audit" not in _bytes(source):
        return False
    tool = _parsed(source).get("tool")
    return isinstance(tool, dict) and "audit" in tool


def _table(source: _Source) -> dict[str, Any]:
    table: Any = _parsed(source)
    tool = table.get("tool")
    if isinstance(tool, dict) and "audit" in tool:
        table = tool["audit"]
    elif source.name == "pyproject.toml":
        raise UsageProblem(f"{source.name}: there is no [tool.audit] in it")
    if not isinstance(table, dict):
        raise UsageProblem(f"{source.name}: tool.audit is no table")
    for key in table:
        if key not in OPTIONS:
            near = difflib.get_close_matches(key.replace("_", "-"), OPTIONS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(OPTIONS)}"
            raise UsageProblem(f"{source.name}: there is no key {_quoted(key)}; {hint}")
    return table


def _bytes(source: _Source) -> bytes:
    """The file's bytes; a link out of the tree, a pipe or a huge file is refused, not read."""
    way_out = " (--isolated ignores it)" if source.tree else ""
    try:
        path = source.path.resolve()
        if source.tree and not path.is_relative_to(source.tree):
            raise UsageProblem(f"{source.name}: is a link out of the fork{way_out}")
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageProblem(f"{source.name}: is no file{way_out}")
        if status.st_size > _LARGEST_FILE:
            raise UsageProblem(
                f"{source.name}: is larger than {_LARGEST_FILE // 1024} KiB{way_out}"
            )
        return path.read_bytes()
    except (OSError, RuntimeError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UsageProblem(f"{source.name}: cannot be read: {reason}{way_out}") from problem


def _parsed(source: _Source) -> dict[str, Any]:
    way_out = " (--isolated ignores it)" if source.tree else ""
    try:
        return tomllib.loads(_bytes(source).decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise UsageProblem(
            f"{source.name}: is not UTF-8 (byte {problem.start}){way_out}"
        ) from problem
    except tomllib.TOMLDecodeError as problem:
        raise UsageProblem(f"{source.name}: is not TOML: {problem}{way_out}") from problem
    except RecursionError as problem:
        raise UsageProblem(f"{source.name}: is nested too deeply{way_out}") from problem


def _configured(source: _Source, key: str, value: object) -> object:
    """The checked value of a key, its paths made absolute from the file's folder.

    What the tree's own file names stays inside the tree, and it cannot write.
    """
    where = source.where(key)
    checked = _value(where, OPTIONS[key], value)
    folder = source.path.parent
    if key == "output" and source.tree and any("=" in text for text in cast("list[str]", checked)):
        raise UsageProblem(
            f"{where}: the fork's own configuration cannot write files; name a format"
        )
    if key == "output":
        return [_output_from(folder, text) for text in cast("list[str]", checked)]
    if key == "rules":
        return [_rules_folder(source, where, text) for text in cast("list[str]", checked)]
    if key == "baseline":
        if source.tree:
            _inside(source.tree, folder / cast(str, checked), where, cast(str, checked))
        return str(folder / cast(str, checked))
    if key == "serve" and source.tree:
        for text in cast("list[str]", checked):
            _inside(source.tree, folder / text, where, text)
    if key == "upstream":
        return _reference(source, where, cast(str, checked))
    if key == "target":
        return [_reference(source, where, text) for text in cast("list[str]", checked)]
    return checked


def _suppressions(source: _Source, value: object) -> tuple[object, tuple[Ignore, ...]]:
    """What ``ignore`` holds, apart: the ids of rules not to run, and the tables."""
    if not isinstance(value, list):
        return value, ()
    tables = [item for item in value if isinstance(item, dict)]
    brought_by: Literal["fork", "user"] = "fork" if source.tree else "user"
    text = _bytes(source).decode("utf-8") if tables else ""
    ids = [item for item in value if not isinstance(item, dict)]
    return ids, read_ignores(tables, text, source.name, brought_by)


def _output_from(folder: Path, text: str) -> str:
    name, equals, file = text.partition("=")
    return f"{name}={folder / file}" if equals and file else text


def _rules_folder(source: _Source, where: str, text: str) -> str:
    folder = source.path.parent / text
    if not _exists(folder):
        raise UsageProblem(f"{where}: there is no folder {_quoted(text)}")
    if source.tree:
        _inside(source.tree, folder, where, text)
        for entry in _entries(folder, where):
            _inside(source.tree, entry, where, text)
    return str(folder)


def _entries(folder: Path, where: str) -> Iterator[Path]:
    """Everything below a tree's own folder of rules; what could block or flood is refused."""
    total = 0
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            total += 1
            entry = Path(parent, name)
            if total > _MOST_ENTRIES:
                raise UsageProblem(f"{where}: holds more than {_MOST_ENTRIES} files")
            if name in files and not entry.is_file():
                raise UsageProblem(f"{where}: {_quoted(name)} is no file")
            yield entry


def _reference(source: _Source, where: str, text: str) -> str:
    """A reference as a run takes it: a folder by its full path, the rest as it is.

    A reference of the tree's own that is a folder anywhere, from the tree or from where the
    command runs, must be one inside the tree.
    """
    if text.startswith("pypi:"):
        return text
    folder = source.path.parent / text
    if source.tree:
        if text.startswith("~"):
            raise UsageProblem(f"{where}: {_quoted(text)} is outside of the fork")
        for candidate in (folder, Path.cwd() / text):
            if _exists(candidate):
                _inside(source.tree, candidate, where, text)
    return str(folder.resolve()) if _exists(folder) and folder.is_dir() else text


def _exists(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):
        return False


def _inside(tree: Path, path: Path, where: str, text: str) -> None:
    try:
        # From Python 3.13 on a link that leads to itself resolves without complaint.
        inside = path.resolve().is_relative_to(tree) and (path.exists() or not path.is_symlink())
    except (OSError, RuntimeError, ValueError):
        inside = False
    if not inside:
        raise UsageProblem(
            f"{where}: {_quoted(text)} leads out of the fork, which its own configuration cannot"
            " ask for; use the command line, or --config FILE"
        )


def _value(where: str, option: Option, value: object) -> object:
    """The value in the type of the option: text, list of text, number or flag."""
    if option.kind == "flag":
        return _typed(where, value, bool, "true or false")
    if option.kind == "number":
        number = _typed(where, value, int, "a number")
        if not 0 <= number <= MOST_JOBS:
            raise UsageProblem(f"{where}: must be from 0 (all processors) to {MOST_JOBS}")
        return number
    if option.kind in ("text", "choice"):
        text = _text(where, value)
        return _chosen(where, text, option.choices) if option.kind == "choice" else text
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    texts = [_text(where, item) for item in several]
    if option.kind in ("list", "choices"):
        texts = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    if option.kind == "choices":
        return [_chosen(where, text, option.choices) for text in texts]
    return texts


def _typed(where: str, value: object, kind: type[Any], told: str) -> Any:
    # bool is a subclass of int, yet no number of jobs
    if type(value) is not kind:
        raise UsageProblem(f"{where}: must be {told}, not {_quoted(value)}")
    return value


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageProblem(f"{where}: must be text, not {_quoted(value)}")
    if not value.strip() or "\0" in value:
        raise UsageProblem(f"{where}: is empty" if not value.strip() else f"{where}: holds a NUL")
    return value


def _chosen(where: str, text: str, choices: Sequence[str]) -> str:
    if text not in choices:
        near = difflib.get_close_matches(text, choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageProblem(f"{where}: {_quoted(text)} is none of {', '.join(choices)}{hint}")
    return text


def outputs_of(
    texts: Sequence[str], where: str = _TYPED, names: Sequence[str] = NAMES
) -> tuple[Output, ...]:
    """The outputs in the order given; the terminal's page where none goes to standard output.

    Raises UsageProblem for a format that is none of ``names``.
    """
    outputs = []
    for text in texts:
        name, equals, file = text.partition("=")
        form = _SUFFIXES.get(Path(name).suffix.lower())
        if where == _TYPED and not equals and form in names:
            told = shlex.quote(f"{form}={name}")
            raise UsageProblem(f"{where}: {_quoted(name)} is no format; to write a file: -o {told}")
        _chosen(where, name, names)
        if equals and not file:
            raise UsageProblem(f"{where}: {_quoted(text)} names no file")
        outputs.append(Output(name, Path(file) if file else None))
    on_stdout = [output.format for output in outputs if output.file is None]
    if len(on_stdout) > 1:
        raise UsageProblem(f"{where}: only one format can go to standard output; use FORMAT=FILE")
    files = [output.file for output in outputs if output.file is not None]
    if len(set(files)) < len(files):
        raise UsageProblem(f"{where}: two formats go to one file")
    return _to_screen(outputs)


def _to_screen(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """The outputs, with the terminal's page where none goes to standard output."""
    shown = any(output.file is None for output in outputs)
    return (*outputs, *(() if shown else (Output("table", None),)))


def _quoted(value: object) -> str:
    """A value of a hostile file in a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
