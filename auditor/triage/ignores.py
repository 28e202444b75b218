"""Reads the suppressions of a configuration, with the lines that each stands on."""

from __future__ import annotations

import datetime
import fnmatch
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from auditor.errors import UsageProblem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KEYS = ("rule", "path", "symbol", "reason", "expires")
_MOST = 5_000
LONGEST = 1_000  # characters of a rule, path or symbol
MOST_PARTS = 64  # parts of a glob between slashes
_HEADER = re.compile(r"\s*\[\[\s*(?:tool\s*\.\s*audit\s*\.\s*)?ignore\s*\]\]")
_OTHER_HEADER = re.compile(r"\s*\[")
_KEY = re.compile(r"\s*(?:tool\.audit\.)?ignore\s*=")


class Ignore(msgspec.Struct, frozen=True):
    """One configured suppression; ``path`` is a glob of report paths, empty for all of them.

    ``symbol`` is a qualified name and stands for all that lies in it too. ``name`` is the file it
    was written in, ``line`` where the table begins; ``rule_line`` and ``expires_line`` where these
    keys stand.
    """

    rule: str
    path: str = ""
    symbol: str = ""
    reason: str = ""
    expires: datetime.date | None = None
    name: str = ""
    line: int = 1
    rule_line: int = 1
    expires_line: int = 1
    brought_by: Literal["fork", "user"] = "user"

    def covers(self, path: str) -> bool:
        """Whether the suppression is about a path."""
        return not self.path or matches(self.path, path)

    def holds(self, path: str, symbol: str) -> bool:
        """Whether it is about a place."""
        inside = not self.symbol or f"{symbol}.".startswith(f"{self.symbol}.")
        return inside and self.covers(path)


def matches(glob: str, path: str) -> bool:
    """Whether a glob is that of a path: ``*`` stays within a folder, ``**`` does not."""
    return _matches(tuple(glob.split("/")), tuple(path.split("/")))


def _matches(glob: Sequence[str], path: Sequence[str]) -> bool:
    # Which beginnings of the path each part can end at: hostile globs cost no more than others.
    reached = {0}
    for part in glob:
        if part == "**":
            reached = set(range(min(reached), len(path) + 1))
        else:
            reached = {
                at + 1 for at in reached if at < len(path) and fnmatch.fnmatchcase(path[at], part)
            }
        if not reached:
            return False
    return len(path) in reached


def read(
    tables: Sequence[object], text: str, name: str, brought_by: Literal["fork", "user"]
) -> tuple[Ignore, ...]:
    """The suppressions of ``ignore`` in a configuration file of that name and text.

    A rule and a reason are what makes one: where they are wrong the table is kept and becomes a
    finding. Raises UsageProblem, naming the key, for what is not as a table must be.
    """
    if len(tables) > _MOST:
        raise UsageProblem(f"{name}: ignore: more than {_MOST:,} suppressions")
    starts = _starts(text, len(tables))
    lines = text.split("\n")
    found = []
    for number, table in enumerate(tables, start=1):
        where = f"{name}: ignore[{number}]"
        if not isinstance(table, Mapping):
            raise UsageProblem(f"{where}: must be a rule's id, or a table with rule and reason")
        line = starts[number - 1]
        keys = _key_lines(lines, line)
        found.append(
            Ignore(
                **{key: _text(where, key, table) for key in KEYS[:-1]},
                expires=_date(where, table.get("expires")),
                name=name,
                line=line,
                rule_line=keys.get("rule", line),
                expires_line=keys.get("expires", line),
                brought_by=brought_by,
            )
        )
        for key in table:
            if key not in KEYS:
                raise UsageProblem(
                    f"{where}: there is no key {str(key)[:60]!r}; known are {', '.join(KEYS)}"
                )
    return tuple(found)


def of_example(text: str) -> tuple[Ignore, ...]:
    """The suppressions of an ``audit.toml`` that a rule's example holds. Raises UsageProblem."""
    try:
        tables = tomllib.loads(text).get("ignore", [])
    except tomllib.TOMLDecodeError as problem:
        raise UsageProblem(f"audit.toml: {problem}") from problem
    if not isinstance(tables, list):
        raise UsageProblem("audit.toml: ignore is no list of tables")
    return read([t for t in tables if not isinstance(t, str)], text, "audit.toml", "fork")


def _text(where: str, key: str, table: Mapping[str, object]) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise UsageProblem(f"{where}.{key}: must be text")
    value = value.strip()
    if key != "reason" and len(value) > LONGEST:
        raise UsageProblem(f"{where}.{key}: is longer than {LONGEST:,} characters")
    if key == "path" and value.count("/") >= MOST_PARTS:
        raise UsageProblem(f"{where}.path: has more than {MOST_PARTS} parts")
    if key in ("path", "symbol") and key in table and not value:
        raise UsageProblem(f"{where}.{key}: is empty")
    return value


def _date(where: str, value: object) -> datetime.date | None:
    if isinstance(value, datetime.datetime):
        return value.date()
    if value is None or isinstance(value, datetime.date):
        return value
    if isinstance(value, str):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            pass
    raise UsageProblem(f"{where}.expires: must be a date such as 2026-12-31")


def _starts(text: str, number: int) -> list[int]:
    """The line at which each table begins, as far as the file is laid out as usual."""
    lines = text.split("\n")
    headers = [at for at, line in enumerate(lines, start=1) if _HEADER.match(line)]
    if len(headers) == number:
        return headers
    first = next((at for at, line in enumerate(lines, start=1) if _KEY.match(line)), 1)
    inline = [at for at, line in enumerate(lines, start=1) if at >= first and "{" in line]
    return inline if len(inline) == number else [first] * number


def _key_lines(lines: Sequence[str], start: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for at in range(start + 1, len(lines) + 1):
        line = lines[at - 1]
        if _OTHER_HEADER.match(line):
            break
        key = line.partition("=")[0].strip()
        if key in KEYS:
            found.setdefault(key, at)
    return found
