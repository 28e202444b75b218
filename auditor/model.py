"""The frozen values that flow from the snapshots to the report."""

from __future__ import annotations

from typing import Literal

import msgspec

from auditor.claims import Claim, LostWait

Severity = Literal["critical", "high", "medium", "low", "info"]
Confidence = Literal["high", "medium", "low"]
Category = Literal["sync", "serve", "concurrency", "drift", "advisory"]
Origin = Literal["introduced", "regressed", "inherited", "fixed-upstream", "unknown"]
Reach = Literal["live", "latent", "unknown"]
Disposition = Literal["active", "suppressed", "baselined"]
Side = Literal["fork", "upstream", "base", "target"]
ChangeStatus = Literal["added", "deleted", "modified", "renamed"]

SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
CONFIDENCES: tuple[Confidence, ...] = ("high", "medium", "low")
ORIGINS: tuple[Origin, ...] = ("introduced", "regressed", "inherited", "fixed-upstream", "unknown")
CATEGORIES: tuple[Category, ...] = ("sync", "serve", "concurrency", "drift", "advisory")


class Symbol(msgspec.Struct, frozen=True, order=True):
    """A named piece of code: a package-relative path and a dotted name within that file.

    ``qualname`` is ``Class.method``, ``function`` or empty for the module itself.
    """

    path: str
    qualname: str = ""


class Location(msgspec.Struct, frozen=True, order=True):
    """A place in a file; lines and columns are 1-based, columns count code points.

    The end is excluded; ``end_column`` 0 says that it is not known.
    """

    symbol: Symbol
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0


class Evidence(msgspec.Struct, frozen=True, order=True):
    """A place that supports a finding, and what it shows there (``note``, a short clause).

    ``side`` says in whose tree the line is: a gate that the fork lost is a line of upstream.
    ``sibling`` says that it is the wait of another reader; of these the nearest comes first. The
    columns and ``end_line`` are those of a ``Location``, 0 where only the line is known.
    """

    path: str
    line: int
    symbol: str
    note: str
    side: Side = "fork"
    sibling: bool = False
    column: int = 0
    end_line: int = 0
    end_column: int = 0


class Skipped(msgspec.Struct, frozen=True, order=True):
    """Something the audit could not look at: nothing is dropped silently."""

    side: Side
    path: str
    stage: str
    reason: str


class Rewrite(msgspec.Struct, frozen=True):
    """The word at a hit's place (``value``: the value that follows its flag), spelled otherwise.

    ``same`` says that the tree itself names the new spelling and that it means the same.
    """

    old: str
    new: str
    same: bool
    value: bool = False


class Disagreement(msgspec.Struct, frozen=True, order=True):
    """A hit, or the wait of a sibling, that the second parser does not see; it is not reported."""

    where: Location
    rule: str
    reason: str
    side: Side = "fork"


Confirmed = Literal["", "yes", "unconfirmed"]
"""What a second parser says of a hit: empty for what it was not asked."""


class Hit(msgspec.Struct, frozen=True):
    """What a check saw at one place, before any comparison between sides.

    ``anchor`` is the text that, with the qualified name, identifies the defect across edits (a
    buffer, a parameter; never a line). ``cause`` names the root that several hits share.
    ``rewrite`` is given where a script only has to say something otherwise, ``claim`` where a
    second parser can be asked. ``about`` is the gate, or what is waited for, by its last name: of
    several checks that miss one wait one speaks.
    """

    where: Location
    anchor: str
    message: str
    evidence: tuple[Evidence, ...]
    confidence: Confidence
    reach: Reach
    reach_reason: str
    fix: str
    cause: str
    rewrite: Rewrite | None = None
    about: str = ""
    claim: Claim | LostWait | None = None
    confirmed: Confirmed = ""


class Repair(msgspec.Struct, frozen=True):
    """The commit of upstream's that ended a finding; ``date`` is ISO 8601."""

    sha: str
    date: str
    subject: str


class Condition(msgspec.Struct, frozen=True, order=True):
    """What must be so before the code of a finding runs with its gate armed.

    ``text`` is what a person would write or check: ``--enable-hierarchical-cache``,
    ``--disaggregation-mode decode``, ``SGLANG_X=1``, ``the model is a DeepseekV32ForCausalLM``,
    ``an NPU``. ``path`` and ``line`` are where the tree asks for it (a report path).
    """

    kind: Literal["flag", "variable", "model", "platform", "other"]
    text: str
    path: str
    line: int


class TurnedOn(msgspec.Struct, frozen=True, order=True):
    """A setting of a launch that turns the code of a finding on, and where it stands."""

    path: str
    line: int
    setting: str


class Deployment(msgspec.Struct, frozen=True):
    """Whether this deployment runs the code of a finding.

    ``conditions`` are alternatives, all conditions of one of which must hold. ``state``: ``on``
    by ``turned_on`` of a launch, ``off`` where no launch does, ``undecided`` for ``reason`` (a
    clause), ``no-launch`` where no launch was found. ``mitigation`` is what to do until the
    defect is fixed, and what that costs; empty where no setting helps.
    """

    state: Literal["on", "off", "undecided", "no-launch"]
    conditions: tuple[tuple[Condition, ...], ...] = ()
    turned_on: tuple[TurnedOn, ...] = ()
    reason: str = ""
    mitigation: str = ""


class Excerpt(msgspec.Struct, frozen=True):
    """A function of one side, or the lines of a script around a setting, with one place marked.

    ``role`` says what it shows: the read (or the setting) of the finding, the nearest sibling's
    wait, or upstream's version of the function. ``first`` is the number of the first of ``lines``;
    ``line``, ``column`` and ``end_column`` (excluded; 0: to the end of the line) mark the place,
    1-based, in code points. ``path`` is a report path.
    """

    role: Literal["read", "sibling", "upstream"]
    side: Side
    path: str
    symbol: str
    first: int
    lines: tuple[str, ...]
    line: int
    column: int
    end_column: int
    note: str = ""


class Finding(msgspec.Struct, frozen=True):
    """A hit judged: by which rule, how bad, and where it came from.

    ``fixed_in`` is the release whose same symbol no longer has it, ``fixed_by`` the commit of it,
    where the repository has both. ``since_base`` names the upstream side where the defect came
    with later code of upstream's, which the fork has taken; empty otherwise. ``effect`` says in
    some six words what users of the server would see, ``means`` in a sentence; both are the rule's.
    """

    rule: str
    category: Category
    severity: Severity
    hit: Hit
    fingerprint: str
    origin: Origin
    origin_reason: str
    fixed_in: str | None = None
    disposition: Disposition = "active"
    disposition_reason: str = ""
    fixed_by: Repair | None = None
    since_base: str = ""
    effect: str = ""
    means: str = ""
    deployment: Deployment | None = None


class Release(msgspec.Struct, frozen=True):
    """One of a row of releases: how a report names it, what it is, and how much of it was read."""

    ref: str
    kind: Literal["worktree", "revision", "directory", "release"]
    commit: str | None
    python_files: int
    read_files: int
    findings: int


class Lifetime(msgspec.Struct, frozen=True):
    """A finding over a row of releases: from the first that has it to the first that does not.

    ``finding`` is that of the last release which has it. ``anchor`` and the symbol identify it;
    ``names`` are the symbols that it bore before. ``ended`` is None where the last release of the
    row still has it. What ended and came back has two lifetimes.
    """

    finding: Finding
    appeared: str
    appeared_reason: str
    last: str
    ended: str | None = None
    ended_reason: str = ""
    names: tuple[Symbol, ...] = ()
    repair: Repair | None = None


class Timeline(msgspec.Struct, frozen=True):
    """What a row of releases says of every finding in any of them; the oldest release is first."""

    tool_version: str
    releases: tuple[Release, ...]
    lifetimes: tuple[Lifetime, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    configuration: dict[str, str]
    timings: dict[str, float]
    hidden: int = 0


class Comment(msgspec.Struct, frozen=True, order=True):
    """A comment of a file, from its sign on, and the lines of the statement that it belongs to."""

    line: int
    column: int
    text: str
    first: int
    last: int


class BaselineEntry(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """A finding that was accepted once; ``path`` and ``symbol`` only say where it was then.

    ``fingerprint`` is without what told equal findings of one run apart.
    """

    rule: str
    fingerprint: str
    path: str
    symbol: str


class Baseline(msgspec.Struct, frozen=True):
    """What a baseline did in a run; ``stale`` are entries that match nothing any more."""

    name: str
    entries: int
    absorbed: int
    stale: tuple[BaselineEntry, ...] = ()


class Suppression(msgspec.Struct, frozen=True, order=True):
    """A suppression in force: where it stands, what it accepts and why.

    ``applies_to`` and ``symbol`` bound a configured one (a glob of paths, a qualified name), empty
    for anything. ``brought_by`` tells a comment that upstream's same file has from the fork's own,
    and the user's configuration from the fork's. ``matched`` counts findings, before any filter.
    """

    path: str
    line: int
    column: int
    rules: tuple[str, ...]
    reason: str
    source: Literal["comment", "configuration"]
    brought_by: Literal["fork", "upstream", "user"]
    applies_to: str = ""
    symbol: str = ""
    expires: str | None = None
    matched: int = 0


Applicability = Literal["safe", "unsafe", "display"]
"""``display``: no edit, the sentence only. A gate that is put in is never ``safe``."""


class Replacement(msgspec.Struct, frozen=True):
    """What stands between two places of a file, replaced by ``text``.

    ``path`` is a report path; lines and columns are 1-based and count code points; the end is
    excluded, so that equal places are a point where something is put in.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Proposal(msgspec.Struct, frozen=True):
    """The fix of a finding as a report offers it: worked out, and not tried on the audit.

    ``how`` says what the edit does; of ``display`` it is the sentence that a person follows.
    ``replacement`` is None for ``display``, and where positions in the file cannot be told.
    """

    applicability: Applicability
    how: str
    replacement: Replacement | None = None


class Fix(msgspec.Struct, frozen=True):
    """What became of the fix of one finding.

    ``made`` is in the files, or would be where only a patch was asked for; ``held-back`` waits for
    ``--unsafe``; ``rolled-back`` was tried and did not put the audit right; ``none`` has no edit.
    ``how`` says what the edit does, ``reason`` why it was not made; both are short clauses.
    """

    finding: Finding
    applicability: Applicability
    state: Literal["made", "held-back", "rolled-back", "none"]
    how: str
    reason: str = ""


class FileChange(msgspec.Struct, frozen=True, order=True):
    """How one file differs from upstream; ``added``/``removed`` are lines, None for binary or huge.

    ``path`` and ``old_path`` are relative to the package root (``sglang/srt/…``); ``area`` is the
    folder the report groups by (``srt/mem_cache``). ``symbols`` are the qualified names whose code
    differs (empty where the file is no Python).
    """

    path: str
    status: ChangeStatus
    area: str
    added: int | None
    removed: int | None
    old_path: str = ""
    symbols: tuple[str, ...] = ()


class Commit(msgspec.Struct, frozen=True):
    """One of the fork's own commits since the merge base; ``date`` is ISO 8601."""

    sha: str
    date: str
    subject: str
    areas: tuple[str, ...]


class ChangeSet(msgspec.Struct, frozen=True):
    """All that differs between the fork and upstream.

    ``commits`` is None where there is no shared history (``history_note`` says why).
    ``ahead``/``behind`` count commits against the upstream reference, None without history.
    ``own`` counts the commits, merges aside, that no reference of upstream's in the repository has;
    ``commits`` are the newest of these.
    """

    files: tuple[FileChange, ...]
    commits: tuple[Commit, ...] | None = None
    ahead: int | None = None
    behind: int | None = None
    history_note: str = ""
    own: int | None = None


class SideInfo(msgspec.Struct, frozen=True):
    """What a report says of one side: never an absolute path, clock or this machine's name.

    ``repository`` is the URI of the repository that the side was cloned from, without user, secret
    or query; empty where that is unknown or lies on this machine.
    """

    side: Side
    ref: str
    kind: Literal["worktree", "revision", "directory", "release"]
    commit: str | None
    python_files: int
    read_files: int
    note: str = ""
    repository: str = ""


class Checked(msgspec.Struct, frozen=True, order=True):
    """Something that was looked at on the fork: how many of the places hold the norm.

    Ruling a suspect out is half of the work, so what is in order is reported too.
    """

    category: Category
    subject: str
    held: int
    total: int
    path: str
    symbol: str
    evidence: tuple[Evidence, ...] = ()


class Argument(msgspec.Struct, frozen=True, order=True):
    """One setting of a launch: a flag as written, its value and where the flag stands.

    ``flag`` keeps its spelling (``--tp``, ``--enable_metrics``); ``value`` is None for a flag
    without one, several values are joined by a space. ``resolved`` is False where part of the value
    is known at run time only: the value then keeps the text of the script (``$MODEL``) and no rule
    may guess on it. ``conditional`` says that only some runs of the script pass it, ``joined`` that
    flag and value are one word (``--config=serve.yaml``), ``outside`` that the caller of the script
    gives what is not resolved. ``words`` are the value's own words where there are several, all up
    to the next flag: which of them the flag takes, its tree says.
    """

    flag: str
    value: str | None
    path: str
    line: int
    column: int = 1
    resolved: bool = True
    conditional: bool = False
    joined: bool = False
    outside: bool = False
    words: tuple[str, ...] = ()


class Passed(msgspec.Struct, frozen=True, order=True):
    """One word of a command line, as the program gets it, and where it stands.

    With ``resolved`` False it may be any word; with ``many`` it may be any number of them, flags
    too, as ``"$@"`` is. ``conditional`` says that only some runs pass it, or pass it like this.
    """

    text: str
    path: str
    line: int
    column: int = 1
    resolved: bool = True
    conditional: bool = False
    many: bool = False


class Variable(msgspec.Struct, frozen=True, order=True):
    """A variable of the environment that a launch is given, and where it is set."""

    name: str
    value: str
    path: str
    line: int
    column: int = 1
    resolved: bool = True
    conditional: bool = False


class Pin(msgspec.Struct, frozen=True, order=True):
    """What a script says of the sglang that it starts: an image or a requirement, as written."""

    kind: Literal["image", "requirement"]
    text: str
    path: str
    line: int
    column: int = 1


class Launch(msgspec.Struct, frozen=True, order=True):
    """A start of a program found in a script.

    ``program`` says which command line it is: only ``server`` takes the flags of the tree;
    ``command`` keeps the words that tell so (``sglang serve``). ``model`` is the model path as far
    as it is resolved, else None. ``unresolved`` counts the words that could not be expanded.
    ``folder`` is where relative paths of the launch start, as far as the script tells (the script's
    own folder otherwise); ``mounts`` are (path in the container, path outside) of that launch.
    ``form`` names the notation (``shell``, ``dockerfile``, ``yaml``, ``recipe``, ``systemd``,
    ``makefile``, ``python``). ``words`` are all that stands behind the program, in order; those of
    a file that ``--config`` names are in ``arguments`` alone.

    ``worlds`` are what its possible runs pass, each as places in ``arguments``; ``when`` says of
    each, in the words of the script, which runs these are, empty for all. With ``joined`` there are
    more runs than were followed. Of notations without branches there is no more to say than
    ``arguments`` does, and ``worlds`` are empty.
    """

    path: str
    line: int
    program: Literal["server", "diffusion", "router", "foreign"]
    command: str
    role: Literal["plain", "prefill", "decode"]
    model: str | None
    arguments: tuple[Argument, ...]
    environment: tuple[Variable, ...]
    unresolved: int
    form: str
    folder: str = ""
    pins: tuple[Pin, ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()
    worlds: tuple[tuple[int, ...], ...] = ()
    when: tuple[str, ...] = ()
    joined: bool = False
    words: tuple[Passed, ...] = ()


class Likeness(msgspec.Struct, frozen=True):
    """How many of the files of a release a tree holds unchanged, of all Python files of it."""

    ref: str
    equal: int
    total: int


class Closest(msgspec.Struct, frozen=True):
    """The release that a fork is based on, by its files.

    ``found`` is the closest first; ``note`` is what qualifies it (a ``dist-info`` that says
    otherwise), a clause.
    """

    found: tuple[Likeness, ...]
    note: str = ""


class Report(msgspec.Struct, frozen=True):
    """Everything a format needs.

    ``upstream`` is None where only serve scripts were held against one tree. ``undecided`` are
    reasons, short clauses, for which the run cannot be called in order. ``proposals`` are fixes by
    fingerprint, for the findings for which they were worked out, ``excerpts`` source lines, the
    finding's own place first. ``mismatch`` says that upstream is not the release that the fork is
    based on (``closest``), a sentence that stands under the verdict; empty where it is.
    ``disagreements`` are what the second parser did not see of what the first did.
    """

    tool_version: str
    fork: SideInfo
    upstream: SideInfo | None
    base: SideInfo | None
    targets: tuple[SideInfo, ...]
    changes: ChangeSet
    findings: tuple[Finding, ...]
    hidden: dict[str, int]
    checked: tuple[Checked, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    configuration: dict[str, str]
    timings: dict[str, float]
    launches: tuple[Launch, ...] = ()
    undecided: tuple[str, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    baseline: Baseline | None = None
    proposals: dict[str, Proposal] = {}
    excerpts: dict[str, tuple[Excerpt, ...]] = {}
    closest: Closest | None = None
    mismatch: str = ""
    disagreements: tuple[Disagreement, ...] = ()
