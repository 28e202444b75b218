"""Whether what a report blames on a fork is the fork's, held against plain git.

    python -m tests.benchmarks.blame REPO --upstream v0.5.17 --main main REV…
    python -m tests.benchmarks.blame REPO --upstream v0.5.15 --between v0.5.15..v0.5.18 --every 150
    python -m tests.benchmarks.blame FOLDER --upstream pypi:0.5.22 --release 0.5.23=DIR
    python -m tests.benchmarks.blame REPO --truth data/blame_truth.jsonl

Each revision is audited with the default settings. A finding is blamed on the fork where its origin
is ``introduced`` or ``regressed`` and ``since_base`` is empty. The judge knows neither gates nor
findings. It asks whether some upstream version has the very same function, by ``ast`` and without
comments: a release tag, the merge bases with them and with upstream's main line, a release given as
folder. It asks further whether the commits that ``git blame`` names for the lines are upstream's:
contained in a release tag or the main line, of the same numbered subject as one that is, or with a
number that fits upstream's and no fork's. In the other direction a finding that is called inherited
is doubted where its own line is in no upstream version of the function. What the judge cannot
settle is left to a person: the truth has such words.

``--between`` takes revisions of upstream's main line itself: nothing there is a fork's.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tabulate import tabulate

from tests.benchmarks.audits import CHECKOUT

RELEASE = re.compile(r"^v\d+\.\d+\.\d+(\.post\d+)?$")
"""Tags of upstream's releases; a fork's own tags have a suffix."""

_NUMBERED = re.compile(r"\(#(\d{3,})\)$")


class Git:
    """Plain git on a repository that is only read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, *arguments: str, given: str = "") -> str:
        """What git prints; raises ``subprocess.CalledProcessError`` where it fails."""
        done = subprocess.run(
            ["git", "--no-replace-objects", "-C", str(self._folder), *arguments],
            input=given.encode(),
            capture_output=True,
            check=True,
        )
        return done.stdout.decode("utf-8", "replace")

    def maybe(self, *arguments: str) -> str:
        """What git prints, nothing where it fails."""
        try:
            return self(*arguments)
        except subprocess.CalledProcessError:
            return ""


def functions(source: str) -> dict[str, ast.AST]:
    """Qualified name to definition, classes and functions; of two at one name the last."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[str, ast.AST] = {}

    def collect(body: Iterable[ast.AST], prefix: str) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found[prefix + node.name] = node
                collect(node.body, f"{prefix}{node.name}.")
            else:
                collect(ast.iter_child_nodes(node), prefix)

    collect(tree.body, "")
    return found


def text_of(node: ast.AST) -> str:
    """A definition as text in which white space, comments and docstrings do not count."""
    bare = ast.parse(ast.unparse(node)).body[0]
    for part in ast.walk(bare):
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = part.body[0]
            documents = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            if documents and isinstance(first.value.value, str):  # type: ignore[attr-defined]
                part.body = part.body[1:] or [ast.Pass()]
    return ast.unparse(bare)


@dataclass(frozen=True)
class Judgement:
    """Whose the text of a finding is: ``upstream``, ``fork`` or ``unsure``, and by what."""

    whose: str
    why: str


class Upstream:
    """What is upstream's: release tags, other references (its main line), releases on disk.

    ``git`` is None where the fork is a plain folder.
    """

    def __init__(
        self,
        git: Git | None,
        releases: Sequence[str],
        lines: Sequence[str],
        folders: dict[str, Path],
    ) -> None:
        self.git = git
        self.releases = releases
        self.lines = lines
        self.folders = folders
        self._contents: dict[str, str] = {}
        self._parsed: dict[str, dict[str, ast.AST]] = {}

    @cached_property
    def commits(self) -> frozenset[str]:
        """All commits in upstream's releases and lines."""
        if self.git is None:
            return frozenset()
        return frozenset(self.git("rev-list", *self.releases, *self.lines).split())

    @cached_property
    def subjects(self) -> frozenset[str]:
        """The numbered subjects of these commits."""
        if self.git is None:
            return frozenset()
        out = self.git("log", "--format=%s", *self.releases, *self.lines)
        return frozenset(line for line in out.splitlines() if _NUMBERED.search(line))

    @cached_property
    def numbers(self) -> range:
        """Numbers of requests that a commit newer than these may bear, by the last of them."""
        numbers = [int(found[1]) for s in self.subjects if (found := _NUMBERED.search(s))]
        last = max(numbers, default=0)
        return range(last // 2, last * 2) if last >= 1000 else range(0)

    def versions(self, rev: str) -> list[str]:
        """Where to look: merge bases of a revision first, then releases, the newest first."""
        if self.git is None:
            return []
        refs = [*self.lines, *self.releases[:6]]
        bases = [self.git.maybe("merge-base", rev, ref).strip() for ref in refs]
        return [*dict.fromkeys(filter(None, bases)), *refs, *self.releases[6:]]

    def contents(self, path: str, versions: Sequence[str]) -> Iterator[tuple[str, str]]:
        """(version, text) of each distinct content that a path has upstream."""
        package = path[max(path.find("sglang/"), 0) :]
        for name, folder in self.folders.items():
            file = folder / package
            if file.is_file():
                yield name, file.read_text(encoding="utf-8", errors="replace")
        if self.git is None:
            return
        asked = "".join(f"{version}:{path}\n" for version in versions)
        out = self.git("cat-file", "--batch-check=%(objectname) %(objecttype)", given=asked)
        seen = set()
        for version, answer in zip(versions, out.splitlines(), strict=True):
            blob, _, kind = answer.partition(" ")
            if kind == "blob" and blob not in seen:
                seen.add(blob)
                if blob not in self._contents:
                    self._contents[blob] = self.git("cat-file", "blob", blob)
                yield version[:12], self._contents[blob]

    def definitions(
        self, path: str, versions: Sequence[str]
    ) -> Iterator[tuple[str, dict[str, ast.AST]]]:
        """(version, definitions) of each distinct content that a path has upstream."""
        for version, content in self.contents(path, versions):
            if content not in self._parsed:
                self._parsed[content] = functions(content)
            yield version, self._parsed[content]

    def elsewhere(
        self, name: str, path: str, versions: Sequence[str]
    ) -> Iterator[tuple[str, dict[str, ast.AST]]]:
        """(place, definitions) of other files in which upstream defines a function of this name."""
        for version in versions[:8] if self.git else ():
            assert self.git is not None
            pattern = f"^[[:space:]]*(async )?(def|class) {name}\\b"
            out = self.git.maybe("grep", "-lE", pattern, version, "--", "python/sglang/*.py")
            for hit in out.splitlines():
                other = hit.partition(":")[2]
                if other != path:
                    source = self.git("show", f"{version}:{other}")
                    yield f"{version[:12]}:{other}", functions(source)

    def owns(self, sha: str) -> str:
        """Why a commit is upstream's; empty where it is not known to be."""
        if sha in self.commits:
            return "contained"
        assert self.git is not None
        subject = self.git("log", "-1", "--format=%s", sha).strip()
        if subject in self.subjects:
            return "same subject"
        number = _NUMBERED.search(subject)
        return "upstream's numbering" if number and int(number[1]) in self.numbers else ""


@dataclass(frozen=True)
class Place:
    """A finding in the fork's revision: ``source`` is its file, ``versions`` where to look."""

    rev: str
    finding: dict[str, Any]
    source: str
    versions: Sequence[str]

    @property
    def path(self) -> str:
        return str(self.finding["path"])

    @property
    def symbol(self) -> str:
        return str(self.finding["symbol"])

    @cached_property
    def node(self) -> ast.AST | None:
        return functions(self.source).get(self.symbol)


def judge(upstream: Upstream, place: Place) -> Judgement:
    """Whose the function of a finding is; of a finding outside any function, whose its line is."""
    if place.node is None:
        return _judge_line(upstream, place)
    text = text_of(place.node)
    nearest = ""
    for version, known in upstream.definitions(place.path, place.versions):
        theirs = known.get(place.symbol)
        if theirs is not None and text_of(theirs) == text:
            return Judgement("upstream", f"the same text in {version}")
        nearest = nearest or (version if theirs is not None else "")
    if not nearest:
        name = place.symbol.rpartition(".")[2]
        for version, known in upstream.elsewhere(name, place.path, place.versions):
            theirs = known.get(place.symbol)
            if theirs is not None and text_of(theirs) == text:
                return Judgement("upstream", f"the same text in {version}")
    state = f"changed since {nearest}" if nearest else "in no upstream version"
    return _by_commits(upstream, place, state)


def _by_commits(upstream: Upstream, place: Place, state: str) -> Judgement:
    if upstream.git is None:
        return Judgement("fork", state)
    first, last = place.node.lineno, place.node.end_lineno  # type: ignore[union-attr]
    span = f"-L{first},{last}"
    out = upstream.git.maybe("blame", "--root", "-s", "-l", span, place.rev, "--", place.path)
    shas = list(dict.fromkeys(line.split()[0].lstrip("^") for line in out.splitlines()))
    if not shas:
        return Judgement("unsure", f"{state}; nobody is blamed")
    own = [sha for sha in shas if not upstream.owns(sha)]
    if not own:
        return Judgement("upstream", f"{state}; all {len(shas)} commits are upstream's")
    told = upstream.git("log", "-1", "--format=%h %ad %s", "--date=short", own[0]).strip()
    return Judgement("fork", f"{state}; {told}")


def _judge_line(upstream: Upstream, place: Place) -> Judgement:
    lines, number = place.source.splitlines(), place.finding["line"]
    line = " ".join(lines[number - 1].split()) if number <= len(lines) else ""
    for version, content in upstream.contents(place.path, place.versions):
        if line and any(" ".join(each.split()) == line for each in content.splitlines()):
            return Judgement("upstream", f"the same line in {version}")
    return Judgement("fork", "the line is in no upstream version")


def own_line(upstream: Upstream, place: Place) -> bool:
    """Whether the finding's own statement is in no upstream version of its function."""
    if place.node is None:
        return False
    wanted = _statement(place.node, place.finding["line"])
    known = False
    for _, definitions in upstream.definitions(place.path, place.versions):
        theirs = definitions.get(place.symbol)
        if theirs is not None:
            known = True
            if wanted is None or wanted in _statements(theirs):
                return False
    return known


def _statement(node: ast.AST, line: int) -> str | None:
    at = [s for s in ast.walk(node) if isinstance(s, ast.stmt) and s.lineno <= line]
    at = [s for s in at if s.end_lineno is not None and s.end_lineno >= line]
    return _head(max(at, key=lambda s: s.lineno)) if at else None


def _statements(node: ast.AST) -> set[str]:
    return {_head(s) for s in ast.walk(node) if isinstance(s, ast.stmt)}


def _head(statement: ast.stmt) -> str:
    """A statement without the blocks in it."""
    return ast.unparse(statement).splitlines()[0]


def audit(repository: Path, rev: str, upstream: str, keep: Path) -> dict[str, Any]:
    """The JSON report, run once for each state of the program and kept in a folder."""
    command = [sys.executable, "-m", "auditor", "-C", str(repository), "--upstream", upstream]
    if rev:
        command += ["--rev", rev]
    mark = hashlib.sha256(f"{repository} {rev} {upstream} {program()}".encode()).hexdigest()[:16]
    file = keep / f"{mark}.json"
    if not file.exists():
        done = subprocess.run(
            [*command, "-o", "json"], cwd=CHECKOUT, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1, 3) or not done.stdout:
            raise SystemExit(f"{' '.join(command)}: status {done.returncode}: {done.stderr}")
        keep.mkdir(parents=True, exist_ok=True)
        file.write_text(done.stdout, encoding="utf-8")
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def program() -> str:
    """A digest of the program that is measured."""
    digest = hashlib.sha256()
    for file in sorted([*CHECKOUT.glob("auditor/**/*.py"), *CHECKOUT.glob("rules/**/*.yaml")]):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def blamed(finding: dict[str, Any]) -> bool:
    """Whether a report says that this finding is of the fork's making."""
    return finding["origin"] in ("introduced", "regressed") and not finding["since_base"]


@dataclass(frozen=True)
class Row:
    """A finding of a revision, the judge's word on it, and whether they go together."""

    rev: str
    finding: dict[str, Any]
    judgement: Judgement
    verdict: str


def rows_of(
    upstream: Upstream,
    rev: str,
    document: dict[str, Any],
    read: Callable[[str], str],
    *,
    nothing_own: bool,
) -> Iterator[Row]:
    """What the report says of each finding held against the judge.

    ``read`` gives a file of the fork's revision as text. ``nothing_own``: the revision is
    upstream's own, so that every blame is wrong.
    """
    versions = upstream.versions(rev)
    for finding in document["findings"]:
        if finding["disposition"] != "active":
            continue
        place = Place(rev, finding, read(finding["path"]), versions)
        if blamed(finding):
            said = judge(upstream, place)
            wrong = nothing_own or said.whose == "upstream"
            yield Row(rev, finding, said, "wrongly blamed" if wrong else "blamed")
        elif finding["origin"] == "inherited" and finding["category"] == "sync":
            if own_line(upstream, place):
                said = judge(upstream, place)
                if said.whose == "fork":
                    yield Row(rev, finding, said, "excused?")


def line(row: Row) -> str:
    """One finding: the report's word, then the judge's."""
    f = row.finding
    return (
        f"{row.verdict:14} {row.rev[:10]} {f['rule']} {f['severity']}/{f['confidence']} "
        f"{f['origin']} ({f['origin_reason']}) {f['path']}:{f['line']} {f['symbol']}\n"
        f"{'':15}judge: {row.judgement.whose}, {row.judgement.why}"
    )


def truth(file: Path) -> list[dict[str, Any]]:
    """Findings judged by reading, one JSON object a line."""
    return [json.loads(row) for row in file.read_text(encoding="utf-8").splitlines() if row]


def told(entry: dict[str, Any], document: dict[str, Any]) -> str:
    """What a report says of a judged finding, in the truth's words."""
    here = [
        f
        for f in document["findings"]
        if f["symbol"] == entry["symbol"] and f["path"].endswith(entry["path"])
    ]
    here.sort(key=lambda f: f["rule"] != entry["rule"])
    if not here:
        return "none"
    found = here[0]
    if found["since_base"]:
        return "since-base"
    return str(found["origin"])


def about(entries: Sequence[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Those of a repository that has their commit, or of an installed package, by its metadata."""
    git = Git(folder)
    if git.maybe("rev-parse", "--git-dir"):
        return [e for e in entries if e["rev"] and git.maybe("cat-file", "-t", e["rev"])]
    installed = {path.name.removesuffix(".dist-info") for path in folder.glob("*.dist-info")}
    return [e for e in entries if not e["rev"] and e["repository"] in installed]


def compare(entries: Sequence[dict[str, Any]], folder: Path, keep: Path) -> int:
    """Prints each judged finding whose origin is told otherwise; their count."""
    wrong = 0
    here = about(entries, folder)
    for entry in here:
        said = told(entry, audit(folder, entry["rev"], entry["upstream"], keep))
        if said not in entry["right"]:
            wrong += 1
            head = f"{entry['rev'][:10]} {entry['upstream']} {entry['rule']} {entry['symbol']}"
            print(f"{head}: {said}, not {' or '.join(entry['right'])}: {entry['why']}")
    print(f"{len(here) - wrong} of {len(here)} as judged by reading")
    return wrong


def main() -> int:
    """Prints every blamed finding with the judge's word, then the totals; 1 where any is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path, help="a repository, bare or not, or a folder")
    parser.add_argument("revs", nargs="*", metavar="REV")
    parser.add_argument("--upstream", help="what the audit is given, as to the command")
    parser.add_argument("--main", action="append", default=[], help="upstream's main line, a ref")
    parser.add_argument("--release", action="append", default=[], metavar="VERSION=DIR")
    parser.add_argument("--between", help="revisions of upstream's own main line, A..B")
    parser.add_argument("--every", type=int, default=150, help="commits apart (%(default)s)")
    parser.add_argument("--truth", type=Path, help="compare with findings judged by reading")
    parser.add_argument("--keep", type=Path, default=Path.home() / ".cache/audit-blame")
    options = parser.parse_intermixed_args()
    repository: Path = options.repository.resolve()
    if options.truth:
        return 1 if compare(truth(options.truth), repository, options.keep) else 0
    folders = {name: Path(to) for name, _, to in (r.partition("=") for r in options.release)}
    git = Git(repository) if Git(repository).maybe("rev-parse", "--git-dir") else None
    revs = list(options.revs)
    if git and options.between:
        row = git("rev-list", "--first-parent", options.between).split()
        revs += row[options.every :: options.every]
    releases = []
    if git:
        by_date = git(
            "for-each-ref", "--sort=-creatordate", "--format=%(refname:short)", "refs/tags"
        )
        releases = [tag for tag in by_date.splitlines() if RELEASE.match(tag)]
    upstream = Upstream(git, releases, options.main, folders)
    results: list[Row] = []
    for rev in revs or [""]:
        sha = git("rev-parse", "--verify", f"{rev}^{{commit}}").strip() if git and rev else ""
        document = audit(repository, sha, options.upstream, options.keep)

        def read(path: str, sha: str = sha) -> str:
            if git and sha:
                return git.maybe("show", f"{sha}:{path}")
            return (repository / path).read_text(encoding="utf-8", errors="replace")

        own = list(rows_of(upstream, sha, document, read, nothing_own=bool(options.between)))
        print(f"== {rev} {sha[:10]}: {document['summary']['verdict']}", flush=True)
        for each in own:
            print(line(each), flush=True)
        results += own
    counts = Counter(row.verdict for row in results)
    print(tabulate(sorted(counts.items()), ["verdict", "findings"]))
    return 1 if counts["wrongly blamed"] else 0


if __name__ == "__main__":
    sys.exit(main())
