"""Drift reports to show, made by hand: one in order, and weeks of one in which all has happened."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import msgspec

from auditor.drift.facts import Area, Drift, Fix, Fixes, OwnPatch
from auditor.drift.runs import Run, moved, run_of
from auditor.formats.drift_words import Standing
from auditor.formats.verdict import decide
from auditor.model import Evidence, SideInfo, Symbol
from tests.formats.sample import POOL, finding, report

DAY = datetime(2026, 3, 2, 7, 30, tzinfo=timezone.utc)
HOSTILE = (
    "</title></style></svg><script>alert(1)</script><img src=//e.example/x onerror=a>"
    " {{ 7*7 }}\x1b[31m\u202e'\"&amp;"
)
LONG = "srt/" + "a_very_long_name_without_any_end" * 6


def patch(sha, age, state="own", **changes):
    plain = OwnPatch(sha, "", age, "own", ("srt",), (), 1, 1, 1, state, "", (), None, ())
    return msgspec.structs.replace(plain, **changes)


def fix(sha, state="absent", **changes):
    plain = Fix(
        *(sha, "", f"Fix {sha[:4]}", None, True, state, "", (), (), (), "held", False),
        *(1, 1, 1, None, 1.0),
    )
    return msgspec.structs.replace(plain, **changes)


def drift(fixes=(), patches=(), **changes):
    plain = Drift(
        *("v0.5.18", "c" * 40, "b" * 40, 3, 40, "2026-03-01T00:00:00+00:00", ("a.py",)),
        *((), Fixes(listed=tuple(fixes)), tuple(patches), (), ()),
    )
    return msgspec.structs.replace(plain, **changes)


def side(ref="deployed", commit="f" * 40, repository=""):
    return SideInfo("fork", ref, "worktree", commit, 1, 1, "", repository)


def line(found=(), state=None, when=DAY, last=None, **changes):
    return run_of(report(*found, **changes), state or drift(), when, last)


def sha(number):
    return f"{number:012x}".ljust(40, "0")


def weeks(number=10, text="Overlap the copy with the wait"):
    """The last of so many weekly runs; ``text`` is the fork's wherever it can say something."""
    runs: list[Run] = []
    for week in range(number):
        fixes = [
            fix(
                sha(n),
                ("present", "absent", "undecided")[n % 3],
                subject=f"{text} ({n})",
                reason=text,
                evidence=(Evidence(f"{text}.py", 3, text, text),),
                symbols=(Symbol(POOL, text),),
                conflicts=(f"{text}/{LONG}.py",) if n % 2 else (),
                in_target="taken-back" if n == 7 else "held",
                repairs=n != 4,
            )
            for n in range(1, 3 + week)
        ]
        patches = [
            patch(
                sha(1000 + n),
                None if n == 5 else 40 * n + week,
                ("own", "upstream", "partly-upstream", "unknown")[n % 4],
                subject=f"{text} {LONG if n == 3 else n}",
                areas=("srt/mem_cache", LONG) if n == 3 else ("srt/mem_cache",),
                reason=text,
                upstream_since=(Symbol(POOL, text),) * (n % 3),
                conflicts=None if n == 2 else (f"{text}/{LONG}.py",) * (n % 2),
                findings=(f"{n:016x}",) if n == 1 else (),
                added=12345 if n == 3 else 7,
            )
            for n in range(2 + week)
        ]
        areas = (
            Area(
                "srt/mem_cache",
                tuple(p.sha for p in patches),
                (POOL,),
                (f"{text}/{LONG}.py",),
                tuple(f.sha for f in fixes if f.owed),
                (f"{1:016x}",),
            ),
            Area(LONG, (sha(1003),)),
        )
        state = drift(
            fixes,
            patches,
            ahead=30 + week,
            behind=None if week == 4 else 700 + 37 * week,
            both_changed=(POOL, *(f"{text}-{n}.py" for n in range(week))),
            conflicts=None if week == 2 else (f"{text}/{LONG}.py", POOL),
            areas=areas,
            notes=(text,),
            target=f"v0.5.18{text if text == HOSTILE else ''}",
        )
        found = [
            finding(
                fingerprint=f"{n:016x}",
                origin=("introduced", "inherited", "regressed", "fixed-upstream")[n % 4],
                severity=("high", "medium", "low")[n % 3],
                category="serve" if n % 5 == 0 else "sync",
                path=f"{text}.py" if n % 2 else POOL,
                symbol=f"{text}.{LONG}" if n == 1 else text,
                message=text,
            )
            for n in range(week // 3, 4 + week)
        ]
        whole = report(*found, fork=side(text))
        last = runs[-1] if runs else None
        runs.append(run_of(whole, state, DAY + timedelta(weeks=week), last))
    told = moved(runs[-2], runs[-1], whole, state) if number > 1 else None
    return Standing(whole, state, decide(whole, "never", False), told, tuple(runs), (text,))
