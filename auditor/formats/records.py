"""The JSON document, ``audit/1``: what stands in it, which the schema is made from."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import msgspec

from auditor.formats.verdict import FailOn, Status
from auditor.model import (
    Applicability,
    Category,
    ChangeStatus,
    Confidence,
    Disposition,
    Origin,
    Reach,
    Severity,
    Side,
)
from auditor.serve.tables.facts import Tables

Count = Annotated[int, msgspec.Meta(ge=0)]


Line = Annotated[int, msgspec.Meta(ge=1)]


class ToolRecord(TypedDict):
    """Who wrote the report."""

    name: Literal["audit"]
    version: str


class SideRecord(TypedDict):
    """One of the trees that were compared; ``ref`` is what was asked for."""

    side: Side
    ref: str
    kind: Literal["worktree", "revision", "directory", "release"]
    commit: str | None
    python_files: Count
    read_files: Count
    note: str


class FileChangeRecord(TypedDict):
    """How a file differs from upstream; line counts are null for binary and huge files."""

    path: str
    status: ChangeStatus
    area: str
    added: Count | None
    removed: Count | None
    old_path: str
    symbols: list[str]


class CommitRecord(TypedDict):
    """One of the fork's own commits since the merge base."""

    sha: str
    date: str
    subject: str
    areas: list[str]


class ChangesRecord(TypedDict):
    """All that differs; counts and ``commits`` are null without shared history.

    ``own_commits`` counts the fork's own commits, merges aside; ``commits`` lists the newest.
    """

    base: SideRecord | None
    files: list[FileChangeRecord]
    commits: list[CommitRecord] | None
    ahead: Count | None
    behind: Count | None
    history_note: str
    own_commits: Count | None


class _Span(TypedDict, total=False):
    """The columns of what is meant on a line, and where it ends; left out where that is unknown.

    The end is excluded.
    """

    column: Line
    end_line: Line
    end_column: Line


class EvidenceRecord(_Span):
    """A place that supports a finding; ``side`` says in whose tree."""

    path: str
    line: Line
    symbol: str
    note: str
    side: Side


class RepairRecord(TypedDict):
    """The commit of upstream's that ended a finding."""

    sha: str
    date: str
    subject: str


class ConditionRecord(TypedDict):
    """What must be so before a finding's code runs with its gate armed, and where the tree asks."""

    kind: Literal["flag", "variable", "model", "platform", "other"]
    text: str
    path: str
    line: Line


class TurnedOnRecord(TypedDict):
    """A setting of a launch that turns a finding's code on."""

    path: str
    line: Line
    setting: str


class DeploymentRecord(TypedDict):
    """Whether this deployment runs a finding's code; all conditions of one alternative must hold.

    ``mitigation`` is what to do until the defect is fixed, empty where no setting helps.
    """

    state: Literal["on", "off", "undecided", "no-launch"]
    conditions: list[list[ConditionRecord]]
    turned_on: list[TurnedOnRecord]
    reason: str
    mitigation: str


class _Added(TypedDict, total=False):
    """Keys that reports of earlier versions lack; every report has them now."""

    since_base: str
    effect: str
    means: str
    deployment: DeploymentRecord | None
    end_column: Line
    confirmed: Literal["yes", "unconfirmed"]


class FindingRecord(_Added):
    """A defect at a place; ``path`` is relative to the fork's root, lines are 1-based.

    ``applicability`` is that of the edit which ``audit fix`` would try, ``display`` without one; it
    is null where that was not worked out, as only formats that show edits need it. ``since_base``
    names the upstream side after which upstream itself brought the defect, empty where that is not
    so. ``deployment`` is null where what arms the code is not known. ``end_column`` (excluded) is
    left out where the end is not known, ``confirmed`` where no second parser was asked.
    """

    rule: str
    category: Category
    severity: Severity
    confidence: Confidence
    origin: Origin
    origin_reason: str
    reach: Reach
    reach_reason: str
    cause: str
    fixed_in: str | None
    fixed_by: RepairRecord | None
    path: str
    line: Line
    column: Line
    end_line: Line
    symbol: str
    message: str
    fix: str
    applicability: Applicability | None
    evidence: list[EvidenceRecord]
    fingerprint: str
    disposition: Disposition
    disposition_reason: str


class CheckedRecord(TypedDict):
    """What was looked at: ``held`` of ``total`` places keep to the norm."""

    category: Category
    subject: str
    held: Count
    total: Count
    path: str
    symbol: str
    evidence: list[EvidenceRecord]


class SkippedRecord(TypedDict):
    """What could not be looked at, and why."""

    side: Side
    path: str
    stage: str
    reason: str


class SuppressionRecord(TypedDict):
    """A suppression in force; ``matched`` counts the findings it is for, before any filter.

    ``applies_to`` and ``symbol`` bound a configured one, empty for anything.
    """

    path: str
    line: Line
    column: Line
    rules: list[str]
    reason: str
    source: Literal["comment", "configuration"]
    brought_by: Literal["fork", "upstream", "user"]
    applies_to: str
    symbol: str
    expires: str | None
    matched: Count


class BaselineEntryRecord(TypedDict):
    """A finding that was accepted once; ``path`` and ``symbol`` say where it was then."""

    rule: str
    fingerprint: str
    path: str
    symbol: str


class BaselineRecord(TypedDict):
    """A baseline and what it accepted; ``stale`` are entries that match nothing any more."""

    name: str
    entries: Count
    absorbed: Count
    stale: list[BaselineEntryRecord]


class LikenessRecord(TypedDict):
    """How many of the Python files of a release the fork holds unchanged."""

    ref: str
    equal: Count
    total: Count


class ClosestRecord(TypedDict):
    """The releases that the fork holds most of, the closest first."""

    found: list[LikenessRecord]
    note: str


class SummaryRecord(TypedDict):
    """The verdict; ``findings`` counts the active ones, ``failing`` those that set status 1.

    ``mismatch`` says that upstream is not the release which the fork is based on, else empty.
    """

    exit_status: Status
    fail_on: FailOn
    verdict: str
    findings: Count
    failing: Count
    by_severity: dict[str, Count]
    by_origin: dict[str, Count]
    suppressed: Count
    baselined: Count
    hidden: dict[str, Count]
    undecided: list[str]
    mismatch: str
    warnings: list[str]
    configuration: dict[str, str]


class SettingRecord(TypedDict):
    """A flag of a launch as written; ``resolved`` is false where a run decides on the value."""

    flag: str
    value: str | None
    path: str
    line: Line
    column: Line
    resolved: bool
    conditional: bool


class VariableRecord(TypedDict):
    """A variable that a launch is given."""

    name: str
    value: str
    path: str
    line: Line
    column: Line
    resolved: bool
    conditional: bool


class WorldRecord(TypedDict):
    """What the runs pass of which ``when`` says, in the words of the script; empty for all runs."""

    when: str
    flags: list[Count]


class LaunchRecord(TypedDict):
    """A start of a program found in a script; ``unresolved`` counts words that a run decides on.

    ``worlds`` are the command lines of its possible runs, as places in ``flags``; with ``joined``
    there are more than were followed.
    """

    path: str
    line: Line
    program: Literal["server", "diffusion", "router", "foreign"]
    command: str
    form: str
    role: Literal["plain", "prefill", "decode"]
    model: str | None
    flags: list[SettingRecord]
    environment: list[VariableRecord]
    unresolved: Count
    worlds: list[WorldRecord]
    joined: bool


class Document(TypedDict):
    """A report of ``audit``; ``tables`` is null unless ``audit serve --tables`` asked for them."""

    schema: Literal["audit/1"]
    tool: ToolRecord
    fork: SideRecord
    upstream: SideRecord | None
    target: list[SideRecord]
    closest: ClosestRecord | None
    changes: ChangesRecord
    findings: list[FindingRecord]
    checked: list[CheckedRecord]
    launches: list[LaunchRecord]
    tables: Tables | None
    skipped: list[SkippedRecord]
    suppressions: list[SuppressionRecord]
    baseline: BaselineRecord | None
    summary: SummaryRecord
