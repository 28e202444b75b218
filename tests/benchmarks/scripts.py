"""Serve scripts that are made up of ordinary idioms: does what is read agree with what bash does?

    python -m tests.benchmarks.scripts --count 300 --seed 0 [--show 5] [--idiom NAME]
    python -m tests.benchmarks.scripts --count 300 --audit TREE

Each script is run under bash for every input that it asks about, with stubs in the place of the
server, and read without being run. A *pair* is a flag and its value that some run passes. It is
read where a launch has it, or has the flag with a value that it says not to know. What is read and
no run passes is invented; what is read as passed by every run, and one does not, is wrongly
certain. Where launches tell their worlds, each run has to be one and each world a run.

With ``--audit`` the tool judges the scripts by a tree (a folder that holds ``sglang/``). Scripts
whose runs pass what the tree takes must have no finding of medium weight or more; then one value of
``--tool-call-parser`` in each text is replaced by a name that no tree has, and a finding has to
name it where a run passes it.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tabulate import tabulate

from auditor.model import Finding
from auditor.repo.scripts import Scripts
from auditor.runs.request import AuditRequest
from auditor.runs.serve import run_serve
from tests.serve.scripts.draft import FLAGS, JSON, MODEL, SWITCHES, Script
from tests.serve.scripts.generate import generate
from tests.serve.scripts.oracle import Bash, Run, Verdict, judge

PARSER = "--tool-call-parser"
PLANTED = "nopeparser"
_WEIGHTY = frozenset({"critical", "high", "medium"})


def verdicts(bash: Bash, first: int, count: int) -> Iterator[tuple[int, Verdict]]:
    """The scripts of some seeds in a row that start a server under at least one input."""
    for seed in range(first, first + count):
        script = generate(seed)
        runs = bash.runs(script)
        if any(run.vectors for run in runs):
            yield seed, judge(script, runs)


def figures(judged: Sequence[Verdict], refused: int) -> str:
    """What holds of all scripts together."""
    pairs = sum(len(v.pairs) for v in judged)
    worlds = [v for v in judged if v.has_worlds]
    whole = [v for v in worlds if not v.joined]
    launched = sum(v.launched for v in worlds)
    rows: list[tuple[str, str]] = [
        ("scripts, of them without a launch in any run", f"{len(judged) + refused}, {refused}"),
        ("runs", str(sum(len(v.runs) for v in judged))),
        ("scripts without a launch that is read", _share(judged, lambda v: not v.launches)),
        ("scripts read in part, as a note says", _share(judged, lambda v: bool(v.skipped))),
        ("pairs that runs pass, read", _part(sum(len(v.read) for v in judged), pairs)),
        ("  and with their very value", _part(sum(len(v.exact) for v in judged), pairs)),
        ("scripts of which every pair is read", _share(judged, lambda v: not v.missing)),
        ("scripts with an invented value", _share(judged, lambda v: bool(v.invented))),
        ("scripts with something wrongly certain", _share(judged, lambda v: bool(v.wrong_certain))),
        ("scripts read without any fault", _share(judged, lambda v: v.agrees)),
    ]
    if worlds:
        rows += [
            ("scripts with all worlds followed", _share(worlds, lambda v: not v.joined)),
            ("command lines that are a world", _part(sum(v.followed for v in worlds), launched)),
            ("scripts with a command line that is none", _share(worlds, lambda v: bool(v.unseen))),
            ("scripts with a world that is no run", _share(whole, lambda v: bool(v.untrue))),
        ]
    else:
        rows.append(("worlds", "launches tell none"))
    return tabulate(rows)


def by_idiom(judged: Sequence[Verdict]) -> str:
    """How much of what each idiom writes is read; the weakest comes first."""
    pairs: Counter[str] = Counter()
    read: Counter[str] = Counter()
    exact: Counter[str] = Counter()
    invented: Counter[str] = Counter()
    certain: Counter[str] = Counter()
    scripts: Counter[str] = Counter()
    for verdict in judged:
        owners = dict(verdict.script.owners)
        # The way a server is started counts for all that the script says.
        whole = tuple(
            name for name in verdict.script.idioms if name.startswith(("start_", "style_"))
        )
        scripts.update(verdict.script.idioms)
        for found, counted in (
            (verdict.pairs, pairs),
            (verdict.read, read),
            (verdict.exact, exact),
            (verdict.invented, invented),
            (verdict.wrong_certain, certain),
        ):
            for flag, _ in found:
                counted.update(whole)
                # Where the start itself is not understood nothing is said of the idioms.
                if verdict.launches and not verdict.skipped:
                    counted.update(owners.get(flag, ()))
    rows = [
        [
            name,
            scripts[name],
            pairs[name],
            _part(read[name], pairs[name]),
            _part(exact[name], pairs[name]),
            invented[name],
            certain[name],
        ]
        for name in sorted(pairs, key=lambda name: (read[name] / pairs[name], name))
    ]
    names = ["idiom", "scripts", "pairs", "read", "exact", "invented", "wrongly certain"]
    return tabulate(rows, names, colalign=("left", *["right"] * 6))


def _share(judged: Sequence[Verdict], holds: Callable[[Verdict], bool]) -> str:
    return _part(sum(holds(verdict) for verdict in judged), len(judged))


def _part(count: int, total: int) -> str:
    return f"{count} of {total} ({count / total:.1%})" if total else "0 of 0"


# The tool's own judgement.


def is_valid(runs: Sequence[Run]) -> bool:
    """Whether every run passes what trees take, with one value for each flag."""
    vectors = [vector for run in runs for vector in run.vectors]
    known = all(_valid(flag, value) for vector in vectors for flag, value in vector)
    return known and all(len(dict(vector)) == len(vector) for vector in vectors)


def _valid(flag: str, value: str | None) -> bool:
    if flag in SWITCHES:
        return value is None
    if flag == JSON:
        return value is not None and value.startswith('{"')
    if flag == MODEL:
        return bool(value) and " " not in (value or "")
    # What a caller may give beside the known values is no fault of the script.
    values = FLAGS.get(flag, ())
    number = all(text.isdigit() for text in values)
    return value in values or (number and value is not None and value.isdigit() and value != "0")


def planted(script: Script, bash: Bash) -> tuple[Script, tuple[Run, ...]] | None:
    """The script with one tool parser misspelled, None where no run passes one then."""
    for name in FLAGS[PARSER]:
        if name not in script.text:
            continue
        changed = dataclasses.replace(script, text=script.text.replace(name, PLANTED))
        runs = bash.runs(changed)
        if any((PARSER, PLANTED) in vector for run in runs for vector in run.vectors):
            return changed, runs
    return None


def findings(tree: Path, scripts: Sequence[Script]) -> dict[int, list[Finding]]:
    """What the tool reports of scripts that are held against a tree, by their number."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        for number, script in enumerate(scripts):
            (folder / f"{number}").mkdir()
            (folder / f"{number}" / "run.sh").write_text(script.text)
        request = AuditRequest(root=tree, serve=Scripts(paths=(str(folder),)), jobs=1)
        report, _ = run_serve(request)
    found: dict[int, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        if finding.severity in _WEIGHTY and finding.hit.confidence in {"high", "medium"}:
            number = int(Path(finding.hit.where.symbol.path).parent.name)
            found[number].append(finding)
    return found


def audited(tree: Path, bash: Bash, judged: Sequence[Verdict], show: int) -> str:
    """False findings in scripts that a tree takes, and misspelled parsers that are told."""
    clean = [verdict.script for verdict in judged if is_valid(verdict.runs)]
    false = findings(tree, clean)
    wrong = [found[0] for v in judged if (found := planted(v.script, bash)) is not None]
    named = {
        number
        for number, told in findings(tree, wrong).items()
        if any(PLANTED in finding.hit.message for finding in told)
    }
    for number, told in list(false.items())[:show]:
        print(f"--- false\n{clean[number].text}")
        for finding in told:
            print(f"  {finding.rule}: {finding.hit.where.line}: {finding.hit.message}")
    for number in [n for n in range(len(wrong)) if n not in named][:show]:
        print(f"--- not told\n{wrong[number].text}")
    rules = Counter(finding.rule for told in false.values() for finding in told)
    rows = [
        ("scripts that the tree takes, with a finding", _part(len(false), len(clean))),
        *((f"  {rule}", str(count)) for rule, count in rules.most_common()),
        ("scripts with a misspelled parser, told", _part(len(named), len(wrong))),
    ]
    return tabulate(rows)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--show", type=int, default=0, help="how many faulty scripts to print")
    parser.add_argument("--idiom", help="print faulty scripts with this idiom only")
    parser.add_argument("--audit", type=Path, metavar="TREE")
    options = parser.parse_args()
    judged: list[Verdict] = []
    shown = 0
    with Bash() as bash:
        for seed, verdict in verdicts(bash, options.seed, options.count):
            judged.append(verdict)
            wanted = _is_about(verdict, options.idiom) if options.idiom else not verdict.agrees
            if wanted and shown < options.show and not options.audit:
                shown += 1
                print(f"--- seed {seed}\n{verdict.script.text}\n{verdict.told()}\n")
        print(figures(judged, options.count - len(judged)))
        if options.audit:
            print(audited(options.audit, bash, judged, options.show))
        else:
            print(by_idiom(judged))


def _is_about(verdict: Verdict, idiom: str) -> bool:
    flags = {flag for flag, names in verdict.script.owners if idiom in names}
    faults = verdict.missing | verdict.invented | verdict.wrong_certain
    whole = idiom.startswith(("start_", "style_")) and idiom in verdict.script.idioms
    return bool(faults) and (whole or any(flag in flags for flag, _ in faults))


if __name__ == "__main__":
    main()
