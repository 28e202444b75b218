"""What became of the fixes, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.formats.text import Paint, Screen, count, finished, scrub, wrap, wrap_phrases
from auditor.model import Finding, Fix

_PROSE = 110
_STATES = ("made", "held-back", "rolled-back", "none")
_LABELS = {
    "made": "fixed",
    "held-back": "held back",
    "rolled-back": "rolled back",
    "none": "no edit",
}
_LABEL = 14


def page(fixes: Sequence[Fix], revealed: Sequence[Finding], screen: Screen, *, dry: bool) -> str:
    """One line of counts, then the fixes; of a patch only (``dry``) those that are not in it.

    ``revealed`` are findings that are seen only now.
    """
    lines = list(_lines([scrub(fix) for fix in fixes], screen, dry))
    if not screen.quiet:
        lines += _revealed([scrub(finding) for finding in revealed])
    return finished(lines, screen)


def _lines(fixes: Sequence[Fix], screen: Screen, dry: bool) -> Iterator[str]:
    paint = Paint(screen.colour)
    done = all(fix.state == "made" for fix in fixes)
    tone = paint.good if done else paint.warn
    for line in wrap_phrases(" · ".join(_counts(fixes, dry)), screen.width):
        yield tone(line)
    if screen.quiet:
        return
    for fix in sorted(fixes, key=lambda fix: _STATES.index(fix.state)):
        if fix.state == "made" and dry:
            continue
        where = fix.finding.hit.where
        yield ""
        place = f"{where.symbol.path}:{where.line} {where.symbol.qualname}".rstrip()
        yield f"  {_LABELS[fix.state].ljust(_LABEL - 2)}{paint.bold(place)}"
        told = f"{fix.finding.rule} · {fix.applicability} · {fix.how}"
        indent = " " * _LABEL
        yield from wrap(told, min(screen.width, _PROSE), indent)
        if fix.reason:
            yield from wrap(fix.reason, min(screen.width, _PROSE), indent)


def _revealed(findings: Sequence[Finding]) -> Iterator[str]:
    if findings:
        yield ""
        yield "  found only now, and upstream's own:"
    for finding in findings:
        where = finding.hit.where
        yield f"    {where.symbol.path}:{where.line} {where.symbol.qualname} · {finding.rule}"


def _counts(fixes: Sequence[Fix], dry: bool) -> Iterator[str]:
    if not fixes:
        yield "nothing to fix"
        return
    numbers = {state: sum(fix.state == state for fix in fixes) for state in _STATES}
    verb = "would be fixed" if dry else "fixed"
    yield f"{numbers['made']} of {count(len(fixes), 'finding')} {verb}"
    if numbers["held-back"]:
        yield f"{numbers['held-back']} held back: --unsafe makes them, with --diff as a patch"
    if numbers["rolled-back"]:
        yield f"{numbers['rolled-back']} rolled back"
    if numbers["none"]:
        yield f"{numbers['none']} without an edit"
