"""The report as JUnit XML, for whatever shows the results of tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree import ElementTree as ET

from auditor.formats.order import deployment, origin, rank
from auditor.formats.text import printable
from auditor.formats.verdict import Verdict
from auditor.model import CATEGORIES, Checked, Finding, Report


def render(report: Report, verdict: Verdict) -> str:
    """A suite for the verdict and one for each category, as ASCII.

    A finding at or above ``--fail-on`` is a failed test, any other one a skipped test that says
    why it does not fail; what was found in order passed. The verdict is a test too, in error where
    the run could not decide, so that there is always one.
    """
    root = ET.Element("testsuites", name="audit")
    suites = [("verdict", [_verdict(report, verdict)])]
    failing = set(verdict.failing)
    for category in CATEGORIES:
        cases = [
            *_found(report, category, failing, verdict.fail_on),
            *(_case(*_subject(entry)) for entry in _in_order(report, category)),
        ]
        if cases:
            suites.append((category, cases))
    for name, cases in suites:
        suite = ET.SubElement(root, "testsuite", {"name": f"audit.{name}", **_counts(cases)})
        suite.extend(cases)
    root.attrib.update(_counts([case for _, cases in suites for case in cases]))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root).decode("ascii") + "\n"


def _verdict(report: Report, verdict: Verdict) -> ET.Element:
    case = _case("audit", "everything that decides could be read")
    if verdict.undecided:
        error = ET.SubElement(case, "error", message=printable("; ".join(verdict.undecided)))
        error.text = _lines(f"{s.side}: {s.path} — {s.reason}" for s in sorted(report.skipped))
    else:
        ET.SubElement(case, "system-out").text = printable(verdict.line())
    return case


def _found(report: Report, category: str, failing: set[Finding], bar: str) -> Iterator[ET.Element]:
    for finding in sorted(report.findings, key=rank):
        if finding.category == category:
            yield _finding(finding, finding in failing, bar)


def _finding(finding: Finding, fails: bool, bar: str) -> ET.Element:
    hit, where = finding.hit, finding.hit.where
    name = f"{where.symbol.path}:{where.line} {where.symbol.qualname}".rstrip()
    case = _case(finding.rule, name)
    # GitLab links the test to this file.
    case.attrib.update(file=printable(where.symbol.path), line=str(where.line))
    if not fails:
        why = f"{finding.severity}, below --fail-on {bar}"
        if finding.disposition != "active":
            why = ": ".join(filter(None, (finding.disposition, finding.disposition_reason)))
        ET.SubElement(case, "skipped", message=printable(f"{why} — {hit.message}"))
        return case
    failure = ET.SubElement(case, "failure", message=printable(hit.message), type=finding.severity)
    evidence = [f"{e.path}:{e.line} ({e.side}) {e.symbol} — {e.note}" for e in hit.evidence]
    told = [f"{name} · {hit.confidence} confidence · {origin(finding)}", hit.message]
    told += [finding.means, deployment(finding), *evidence]
    told += [f"To do: {hit.fix}", f"audit explain {finding.fingerprint}"]
    failure.text = _lines(filter(None, told))
    return case


def _in_order(report: Report, category: str) -> Iterator[Checked]:
    for entry in sorted(report.checked):
        if entry.category == category and entry.held == entry.total:
            yield entry


def _subject(entry: Checked) -> tuple[str, str]:
    return entry.path, f"{entry.subject}: {entry.held} of {entry.total} in order"


def _case(classname: str, name: str) -> ET.Element:
    return ET.Element("testcase", classname=printable(classname), name=printable(name))


def _counts(cases: list[ET.Element]) -> dict[str, str]:
    def holding(tag: str) -> str:
        return str(sum(case.find(tag) is not None for case in cases))

    return {
        "tests": str(len(cases)),
        "failures": holding("failure"),
        "errors": holding("error"),
        "skipped": holding("skipped"),
    }


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(printable(line) for line in lines)
