"""Finds scripts, tells their notation, and reads the launches of all of them."""

from __future__ import annotations

import glob
import os
import posixpath
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec

from auditor.errors import Unreadable
from auditor.model import Argument, Launch, Skipped
from auditor.serve.scripts.container import read_dockerfile
from auditor.serve.scripts.inner import read_inner, restored
from auditor.serve.scripts.manifest import read_config, read_manifest
from auditor.serve.scripts.masking import mask
from auditor.serve.scripts.program import read_program
from auditor.serve.scripts.shell import read_shell
from auditor.serve.scripts.traced import Traced
from auditor.serve.scripts.unit import read_makefile, read_unit
from auditor.serve.scripts.variables import Read
from auditor.serve.scripts.words import Setting

LARGEST = 10 * 1024 * 1024
"""Bytes of one file; scripts have kilobytes."""

NO_SUCH = "no such file or folder"
"""Why a pattern that matches nothing is skipped."""

MOST_FILES = 20_000
MOST_ENTRIES = 500_000

_SHELL = re.compile(r"\.(?:sh|bash|slurm|sbatch|command|ksh|zsh)$")
_CONTAINER = re.compile(r"^(?:Dockerfile|Containerfile)(?:[.-].*)?$|\.(?:dockerfile|Dockerfile)$")
_MAKE = re.compile(r"^(?:GNUm|M|m)akefile(?:\..*)?$|\.mk$")
_TEMPLATE = re.compile(r"\.(?:j2|jinja2?|tpl|tmpl|gotmpl)$")
_PROSE = re.compile(r"\.(?:mdx?|rst|txt|ipynb|adoc|html?)$")
_SHEBANG = re.compile(rb"#!\s*(?:\S*/)?(?:env\s+(?:-S\s+)?(?:\S*/)?)?([\w.]+)")
_BEGINNINGS = (
    (re.compile(rb"(?:\s*#[^\n]*\n|\s*\n)*(?:FROM|ARG)\s+\S", re.IGNORECASE), "dockerfile"),
    (re.compile(rb"(?:\s*[#;][^\n]*\n|\s*\n)*\[(?:Unit|Service|Install)\]"), "systemd"),
    (re.compile(rb"(?:\s*#[^\n]*\n|\s*\n|---\s*\n)*(?:apiVersion|services|kind):"), "yaml"),
)
_MENTION = re.compile(rb"sglang|sgl\.Engine|launch_server|launch_router|sgl-router|\bsmg\b")
_IN_PYTHON = re.compile(
    rb"sglang\.launch_server|sglang['\"\s,]+serve|popen_launch_server|launch_server_cmd|sglang_router"
    rb"|launch_router|\b(?:Engine|Runtime|ServerArgs)\("
)
_LEFT_OUT = frozenset({".git", "node_modules", "__pycache__", ".venv", "site-packages", ".tox"})


@dataclass
class Found:
    """What a search found: launches by place, what could not be read, and files without a launch.

    ``silent`` are files that were read, mention sglang or were named, and start nothing. What was
    reached from another file, which sources the one that holds it, is in ``through`` as well.
    """

    launches: list[Launch] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    through: list[Launch] = field(default_factory=list)


def find_named(
    patterns: Sequence[str],
    base: Path = Path(),
    also: Sequence[Path] = (),
    instead: Mapping[Path, bytes] | None = None,
) -> Found:
    """Reads the files, folders and globs that a user named, relative to the folder ``base``.

    Paths keep the spelling as typed, a folder's joined with the path inside of it. What scripts
    source or name is read in the named folder (of a named file: the folder it lies in, and those
    of ``also`` that hold it), never outside of it, whatever links say. A named file that cannot be
    read is ``Skipped``, a pattern that matches nothing as well. ``instead`` are contents that count
    in the place of what is on disk, by full path.
    """
    found = Found()
    for pattern in dict.fromkeys(patterns):
        matched = _matched(pattern, base)
        if not matched:
            found.skipped.append(_skipped(pattern, NO_SUCH))
        for path in matched:
            folder = base / path
            named = not folder.is_dir()
            roots = _roots(folder.parent if named else folder, also)
            files = [path] if named else list(_walk(path, base, found))
            _read_all(files, _reader(base, roots, instead or {}), found, named)
    return _sorted(found)


def find_in_tree(
    listing: Iterable[str],
    read: Callable[[str], bytes | None],
    is_upstream: Callable[[str, bytes], bool],
) -> Found:
    """Reads all files of a tree that mention sglang and are not upstream's own.

    ``listing`` are paths from the tree's root with ``/``, ``read`` gives the bytes of one. Python
    files within a package named sglang are the server and not what starts it.
    """
    found = Found()
    candidates = []
    for path in sorted(listing):
        parts = PurePosixPath(path).parts
        if _LEFT_OUT & set(parts) or (path.endswith(".py") and "sglang" in parts[:-1]):
            continue
        if not _may_be_script(parts[-1]):
            continue
        candidates.append(path)

    def is_own(path: str, data: bytes) -> bool:
        return not is_upstream(path, data)

    for path in _speaking(candidates[:MOST_FILES], read, is_own):
        data = read(path)
        if data is not None:
            _read_one(path, data, read, found, named=False)
    if len(candidates) > MOST_FILES:
        found.skipped.append(_skipped("", f"more than {MOST_FILES} files may be scripts"))
    return _sorted(found)


def form_of(name: str, data: bytes) -> str:
    """The notation of a file by its name, then by how it begins; empty where it is none of ours.

    A name's template ending says nothing: ``values.yaml.j2`` is YAML, ``job.j2`` what it begins as.
    """
    bare = _TEMPLATE.sub("", name)
    if _PROSE.search(bare):
        return ""
    if bare.endswith((".yaml", ".yml")):
        return "yaml"
    if _SHELL.search(bare):
        return "shell"
    if _CONTAINER.search(bare):
        return "dockerfile"
    if bare.endswith((".service", ".conf", ".container")):
        return "systemd"
    if _MAKE.search(bare):
        return "makefile"
    if bare.endswith(".py"):
        return "python"
    shebang = _SHEBANG.match(data)
    if shebang:
        return _interpreted(shebang.group(1))
    return next((form for pattern, form in _BEGINNINGS if pattern.match(data)), "")


def is_template(path: str) -> bool:
    """Whether a file is one that a template engine writes, by its name."""
    return _TEMPLATE.search(path) is not None


def _interpreted(program: bytes) -> str:
    if program.startswith(b"python"):
        return "python"
    return "shell" if program.endswith(b"sh") else ""


def _may_be_script(name: str) -> bool:
    """Whether a file of that name is worth its bytes: known names, and those without an ending."""
    return bool(form_of(name, b"")) or "." not in name or is_template(name)


_READERS: dict[str, Callable[[bytes, str, Read], tuple[list[Launch], list[Skipped]]]] = {
    "dockerfile": read_dockerfile,
    "makefile": read_makefile,
    "python": read_program,
    "shell": read_shell,
    "systemd": read_unit,
    "yaml": read_manifest,
}


# Files


def _matched(pattern: str, base: Path) -> list[str]:
    """The paths that a pattern stands for, spelled as it is."""
    if (base / pattern).exists():
        return [pattern.rstrip("/") or pattern]
    # pathlib would spell the paths anew.
    try:
        if Path(pattern).is_absolute():
            found = glob.glob(pattern, recursive=True)  # noqa: PTH207
        else:
            found = glob.glob(pattern, root_dir=base, recursive=True)  # noqa: PTH207
    except (OSError, ValueError, re.error):
        return []
    return sorted(path for path in found if (base / path).exists())[:MOST_FILES]


def _walk(top: str, base: Path, found: Found) -> Iterator[str]:
    """The files of a folder that may be scripts, links to folders not followed."""
    entries = files = 0
    for folder, folders, names in os.walk(base / top):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        inner = Path(folder).relative_to(base / top).as_posix()
        for name in sorted(names):
            entries += 1
            if not _may_be_script(name):
                continue
            files += 1
            if files > MOST_FILES or entries > MOST_ENTRIES:
                found.skipped.append(_skipped(top, f"more than {MOST_FILES} files may be scripts"))
                return
            yield posixpath.join(*(part for part in (top, inner) if part != "."), name)


def _roots(folder: Path, also: Sequence[Path]) -> tuple[Path, ...]:
    real = folder.resolve()
    around = [root.resolve() for root in also]
    return (real, *(root for root in around if real.is_relative_to(root)))


def _reader(base: Path, roots: tuple[Path, ...], instead: Mapping[Path, bytes]) -> Read:
    """Reads files below the roots only, with links resolved before the comparison."""

    def read(path: str) -> bytes | None:
        try:
            real = (base / path).resolve()
            if not any(real.is_relative_to(root) for root in roots) or not real.is_file():
                return None
            if real in instead:
                return instead[real]
            with real.open("rb") as file:
                data = file.read(LARGEST + 1)
        except (OSError, ValueError, RuntimeError):
            return None
        return data

    return read


# Reading


def _read_all(files: Sequence[str], read: Read, found: Found, named: bool) -> None:
    speaking = [] if named else _speaking(files, read, lambda path, data: True)
    for path in files if named else speaking:
        data = read(path)
        if data is not None:
            _read_one(path, data, read, found, named)
        elif named:
            found.skipped.append(_skipped(path, "cannot be read, or a link out of its folder"))


def _speaking(files: Sequence[str], read: Read, wanted: Callable[[str, bytes], bool]) -> list[str]:
    """The files that mention what starts a server, and scripts that source one of these.

    The latter hold the variables of a launch that stands in a file for many to source.
    """
    told = [p for p in files if (data := read(p)) is not None and _mentions(p, data)]
    names = {posixpath.basename(path) for path in told if form_of(path, b"") in ("shell", "")}
    if names:
        alternatives = b"|".join(sorted(re.escape(name.encode()) for name in names))
        sourcing = re.compile(
            rb"(?m)^[^#\n]*(?:\bsource|(?:^|[\s;&])\.)\s[^\n]*(?:" + alternatives + rb")"
        )
        known = set(told)
        for path in files:
            if path not in known and _SHELL.search(path):
                data = read(path)
                if data is not None and sourcing.search(data):
                    told.append(path)
    # Asking for upstream's file costs more than looking for a name.
    return sorted(p for p in told if (data := read(p)) is not None and wanted(p, data))


def _read_one(path: str, data: bytes, read: Read, found: Found, named: bool) -> None:
    name = posixpath.basename(path)
    form = form_of(name, data[:4096])
    if not form and named and not _PROSE.search(name) and b"\0" not in data[:4096]:
        form = "shell"
    if not form:
        if named:
            found.skipped.append(_skipped(path, "in no notation of scripts that is read"))
        return
    if len(data) > LARGEST:
        found.skipped.append(_skipped(path, f"larger than {LARGEST // 1024 // 1024} MiB"))
        return
    try:
        launches, skipped = _read_form(form, path, data, read)
    except Unreadable as problem:
        launches, skipped = [], [_skipped(path, str(problem))]
    except (RecursionError, MemoryError):
        launches, skipped = [], [_skipped(path, "nested too deeply")]
    if not launches and not skipped:
        found.silent.append(path)
    for launch in launches:
        whole = _with_config(launch, read, skipped)
        found.launches.append(whole)
        if launch.path != path:
            found.through.append(whole)
    found.skipped.extend(skipped)


def _mentions(path: str, data: bytes) -> bool:
    """Whether the bytes may hold a launch; most files of a tree need no more than this."""
    form = form_of(posixpath.basename(path), data[:4096])
    return bool(form) and (_IN_PYTHON if form == "python" else _MENTION).search(data) is not None


def _read_form(form: str, path: str, data: bytes, read: Read) -> tuple[list[Launch], list[Skipped]]:
    if is_template(path) and form == "shell":
        return _read_template(data, path, read)
    return _READERS[form](data, path, read)


def _read_template(data: bytes, path: str, read: Read) -> tuple[list[Launch], list[Skipped]]:
    """A shell script that a template engine writes."""
    masked = mask(data.decode("utf-8", "replace"))
    starts = [0, *(match.end() for match in re.finditer("\n", masked.text))]
    text = Traced(masked.text, list(range(len(masked.text))))

    def position(offset: int) -> tuple[int, int]:
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    launches, skipped = read_inner(text, path, Setting(), position, "shell", read)
    return [restored(launch, masked) for launch in launches], skipped


def _with_config(launch: Launch, read: Read, skipped: list[Skipped]) -> Launch:
    """Puts the flags of the file that ``--config`` names before those of the command line.

    So does the server (server_args_config_parser.py); ``--config=FILE`` it never merges.
    """
    if launch.program != "server":
        return launch
    named = [argument for argument in launch.arguments if argument.flag == "--config"]
    if len(named) != 1 or not named[0].resolved or not named[0].value:
        return launch
    if _is_attached(named[0], read):
        return launch
    for path in dict.fromkeys(
        posixpath.normpath(posixpath.join(folder, named[0].value))
        for folder in (launch.folder, posixpath.dirname(launch.path))
    ):
        data = read(path)
        if data is None:
            continue
        try:
            config = read_config(data, path)
        except Unreadable as problem:
            skipped.append(_skipped(path, str(problem)))
            return launch
        return _merged(launch, config.arguments, config) if config else launch
    return launch


def _is_attached(argument: Argument, read: Read) -> bool:
    """Whether a flag is written with an equals sign before its value."""
    lines = (read(argument.path) or b"").decode("utf-8", "replace").split("\n")
    if argument.line > len(lines):
        return False
    written = lines[argument.line - 1][argument.column - 1 :].lstrip("'\"")
    return written.startswith(f"{argument.flag}=")


def _merged(launch: Launch, arguments: tuple[Argument, ...], config: Launch) -> Launch:
    return msgspec.structs.replace(
        launch,
        arguments=(*arguments, *launch.arguments),
        model=launch.model or config.model,
        role=config.role if launch.role == "plain" else launch.role,
        unresolved=launch.unresolved + config.unresolved,
    )


def _sorted(found: Found) -> Found:
    """Puts all in the order of the files; a file that a launch merged is no launch of its own.

    Nor is what a file starts where another sources it: the caller's variables are known there.
    """
    reached = {(launch.path, launch.line) for launch in found.through}
    through = set(found.through)
    merged = {
        a.path for launch in found.launches for a in launch.arguments if a.path != launch.path
    }
    launches = {
        launch: None
        for launch in found.launches
        if not (launch.form == "recipe" and launch.path in merged)
        if launch in through or (launch.path, launch.line) not in reached
    }
    order = sorted(launches, key=lambda launch: (launch.path, launch.line, launch.command))
    return Found(order, sorted(set(found.skipped)), sorted(set(found.silent)), found.through)


def _skipped(path: str, reason: str) -> Skipped:
    return Skipped("fork", path, "serve", reason)
