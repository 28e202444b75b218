"""Runs of the tool: as a command that prints its JSON, or many within one process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from auditor.model import Confidence
from auditor.rulebook import load

CHECKOUT = Path(__file__).resolve().parents[2]

GATES = {rule.id for rule in load().rules if rule.check == "sibling-gates"}
"""The rules whose findings are scored."""


@dataclass(frozen=True)
class Found:
    """An active finding of a gate that is missed, of at least medium confidence.

    ``path`` is from ``sglang/`` on.
    """

    rule: str
    path: str
    line: int
    symbol: str
    cause: str
    origin: str
    message: str
    fingerprint: str
    evidence: frozenset[tuple[str, str]]
    severity: str = ""
    confidence: str = ""
    reach: str = ""
    reach_reason: str = ""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line} {self.symbol} [{self.rule}]"


def audit(fork: Path, upstream: str, *options: str) -> dict[str, Any]:
    """The JSON report of the command on two trees (a folder each, or a ``pypi:`` upstream).

    Raises ``SystemExit`` with what the command printed if it could not decide.
    """
    command = [sys.executable, "-m", "auditor", "-C", str(fork), "--upstream", upstream]
    done = subprocess.run(
        [*command, "-o", "json", *options],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"audit of {fork} ended with status {done.returncode}: {done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


class Session:
    """Many audits of folders in this process, with one cache of their own between them.

    The defaults of the command hold; a hundred runs save a hundred starts of the interpreter.
    """

    def __enter__(self) -> Session:
        self._folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def findings(self, fork: Path, upstream: Path) -> list[Found]:
        """What the default settings show of synchronization in the fork."""
        return sync_findings(self.document(fork, upstream))

    def document(
        self,
        fork: Path,
        upstream: Path,
        *,
        select: tuple[str, ...] = (),
        confidence: Confidence = "medium",
    ) -> dict[str, Any]:
        """The JSON report under the default settings, the verdict's status in its summary.

        ``select`` are the only rules, ``confidence`` the least that is shown.
        """
        from auditor.formats.json import document
        from auditor.formats.verdict import decide
        from auditor.runs.audit import run
        from auditor.runs.request import AuditRequest

        request = AuditRequest(
            root=fork,
            rev=None,
            upstream=str(upstream),
            targets=(),
            rules_dirs=(),
            select=select,
            ignore=(),
            min_confidence=confidence,
            origins=(),
            jobs=0,
            cache=Path(self._folder.name),
            configuration={},
        )
        report = run(request)
        return dict(document(report, decide(report, "high", False)))


def sync_findings(document: dict[str, Any]) -> list[Found]:
    """What the report says of synchronization, as the defaults show it."""
    return [
        Found(
            rule=finding["rule"],
            path=from_package(finding["path"]),
            line=finding["line"],
            symbol=finding["symbol"],
            cause=finding["cause"],
            origin=finding["origin"],
            message=finding["message"],
            fingerprint=finding["fingerprint"],
            evidence=frozenset(
                (from_package(item["path"]), item["symbol"]) for item in finding["evidence"]
            ),
            severity=finding["severity"],
            confidence=finding["confidence"],
            reach=finding["reach"],
            reach_reason=finding["reach_reason"],
        )
        for finding in document["findings"]
        if finding["rule"] in GATES
        and finding["confidence"] != "low"
        and finding["disposition"] == "active"
    ]


def from_package(path: str) -> str:
    """A path from ``sglang/`` on, wherever the package lies."""
    _, package, after = path.rpartition("sglang/srt/")
    return f"{package}{after}" if package else path


def by_function(session: Session, tree: Path, rule: str) -> dict[str, str]:
    """With which confidence a rule reports what functions of a tree by itself, by path and name."""
    document = session.document(tree, tree, select=(rule,), confidence="low")
    return {
        f"{from_package(row['path'])} {row['symbol']}": row["confidence"]
        for row in document["findings"]
        if row["rule"] == rule
    }
