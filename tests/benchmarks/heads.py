"""Which heads of a repository lack the waits that one upstream commit brought.

    python -m tests.benchmarks.heads PATH COMMIT

What the commit ended is learned from its parent and itself: the methods that read an attribute
without a wait before and no longer after. Each head is then asked for these methods, by the state
of its symbols: *affected* where one of them reads so, *fixed* where they wait, *not applicable*
where there are none, and *undecided* where nothing tells. A class counts under the name that it has
in the commit; in a head without it, one that has all the methods. Where they read that attribute no
longer, whatever they read counts, and the files that theirs import are judged with them. Beside it
stands what the comparison of contents of `audit drift` says of the same commit.

Heads at one commit are read once. Each distinct Python file of the package is searched once, each
distinct set of files that matter is judged once.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

from auditor.drift.judge import Tree, Versions, judge
from auditor.releases.fixed_by import Endings, State
from auditor.repo.commits import Edit, edits
from auditor.repo.files import MAX_PYTHON
from auditor.repo.git import REGULAR, Repository, discover
from auditor.repo.lineage import contents_of
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import load
from auditor.source.store import FactStore

FOLDER = "python/sglang"
_AT_ONCE = 2000
"""Files whose contents are held at a time."""


class Verdict(NamedTuple):
    """What a head has of it, and the classes that say so."""

    state: str
    classes: tuple[str, ...] = ()


_NONE = Verdict("not applicable")


class Repaired(NamedTuple):
    """What a commit ended: (qualified name, attribute) of each defect."""

    pairs: frozenset[tuple[str, str]]

    @property
    def methods(self) -> frozenset[str]:
        return frozenset(name.rpartition(".")[2] for name, _ in self.pairs)

    @property
    def roots(self) -> frozenset[str]:
        return frozenset(root for _, root in self.pairs)

    @property
    def classes(self) -> frozenset[str]:
        return frozenset(_class(name) for name, _ in self.pairs)

    def verdict(self, state: State, any_root: bool = False) -> Verdict:
        """What a tree of which this is the state has of it."""
        owners = self._owners(state)
        ours = {f"{owner}.{method}" for owner, methods in owners.items() for method in methods}
        bad, good = (
            {name for name, read in pairs if name in ours and (any_root or read in self.roots)}
            for pairs in (state.defects, state.waits)
        )
        if bad:
            return Verdict("affected", tuple(sorted({_class(name) for name in bad})))
        if good and good == ours:
            return Verdict("fixed", tuple(sorted(owners)))
        return Verdict("undecided", tuple(sorted(owners))) if owners else _NONE

    def _owners(self, state: State) -> dict[str, set[str]]:
        """The methods of each class that counts."""
        having: dict[str, set[str]] = {}
        for name in state.names:
            owner, _, method = name.rpartition(".")
            if method in self.methods:
                having.setdefault(owner, set()).add(method)
        named = {owner: methods for owner, methods in having.items() if owner in self.classes}
        return named or {o: methods for o, methods in having.items() if methods == self.methods}


def _class(qualname: str) -> str:
    return qualname.rpartition(".")[0]


def repaired(search: Endings, edit: Edit) -> Repaired:
    """What a commit ended; raises ``SystemExit`` where that is nothing."""
    paths = [file.path for file in edit.files if file.path.startswith(f"{FOLDER}/")]
    before, after = (search.seen(commit, paths) for commit in (edit.parent, edit.sha))
    found = Repaired(before.defects - after.defects)
    if not found.pairs:
        raise SystemExit(f"{edit.sha[:10]} ends no finding")
    return found


def holders(
    repository: Repository, trees: Mapping[str, Mapping[str, str]], wanted: Repaired
) -> dict[str, list[str]]:
    """The files of each commit that define one of the methods; each content is searched once."""
    names = b"|".join(sorted(re.escape(name.encode()) for name in wanted.methods))
    defines = re.compile(rb"\bdef[ \t]+(?:" + names + rb")\b")
    blobs = sorted({blob for tree in trees.values() for blob in tree.values()})
    having: set[str] = set()
    for start in range(0, len(blobs), _AT_ONCE):
        group = blobs[start : start + _AT_ONCE]
        contents = repository.blobs(group, [MAX_PYTHON] * len(group))
        having.update(
            blob
            for blob, content in zip(group, contents, strict=True)
            if isinstance(content, bytes) and defines.search(content)
        )
    return {
        commit: sorted(path for path, blob in tree.items() if blob in having)
        for commit, tree in trees.items()
    }


def imported(search: Endings, tree: Mapping[str, str], paths: Sequence[str]) -> list[str]:
    """The files of a tree that some of its files import from the package."""
    contents = contents_of(search.repository, [tree[path] for path in paths])
    sources = {path.removeprefix("python/"): contents[tree[path]] for path in paths}
    modules = search.store.facts(sources)[0].values()
    names = {f"python/{i.module.replace('.', '/')}.py" for m in modules for i in m.imports}
    return sorted(names & tree.keys())


def python_files(repository: Repository, commit: str) -> dict[str, str]:
    """The blob of each Python file of the package in a commit."""
    return {
        name: entry.blob
        for entry in repository.tree(commit)
        if entry.mode in REGULAR
        and (name := entry.name.decode("utf-8", "backslashreplace")).endswith(".py")
        and name.startswith(f"{FOLDER}/")
    }


def by_content(repository: Repository, edit: Edit, tree: Mapping[str, str]) -> str:
    """What comparing contents says of a commit in a tree of which only its files are looked at."""
    paths = [path for file in edit.files if (path := file.path) in tree]
    contents = repository.blobs([tree[path] for path in paths], [MAX_PYTHON] * len(paths))
    sources = {
        path.removeprefix("python/"): content
        for path, content in zip(paths, contents, strict=True)
        if isinstance(content, bytes)
    }
    versions = Versions(repository)
    versions.load([edit])
    side = Tree(Snapshot.from_sources(sources))
    return judge(edit.files, versions, side, side, lambda path, _: path[len("python/") :]).state


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints how many heads are affected, fixed and not applicable, then each affected one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("commit")
    parser.add_argument("--refs", default="refs/heads", help="which references are the heads")
    options = parser.parse_args(arguments)
    begin, worked = time.perf_counter(), time.process_time()
    repository = discover(options.repository.resolve())
    sha = repository.commit(options.commit) if repository else None
    if repository is None or sha is None:
        raise SystemExit(f"{options.repository} has no commit {options.commit}")
    [edit] = edits(repository, sha, [f"{sha}^"], 1)
    out = repository.run("for-each-ref", "--format=%(objectname) %(refname)", options.refs)
    rows = (line.split(" ", 1) for line in out.decode("utf-8", "replace").splitlines())
    heads = {name: commit for commit, name in rows}
    trees = {commit: python_files(repository, commit) for commit in set(heads.values())}
    search = Endings(repository, FOLDER, load(), FactStore(None))
    wanted = repaired(search, edit)
    apart = len(search.known)
    where = holders(repository, trees, wanted)
    verdicts: dict[str, Verdict] = {}
    told: dict[str, str] = {}
    compared: dict[tuple[str, ...], str] = {}
    for commit, tree in trees.items():
        paths = where[commit]
        verdict = wanted.verdict(search.seen(commit, paths)) if paths else _NONE
        if verdict.state == "undecided":
            more = imported(search, tree, paths)
            verdict = wanted.verdict(search.seen(commit, [*paths, *more]), any_root=True)
        verdicts[commit] = verdict
        key = tuple(tree.get(file.path, "") for file in edit.files)
        if key not in compared:
            compared[key] = by_content(repository, edit, tree) if any(key) else "not there"
        told[commit] = compared[key]
    seconds, work = time.perf_counter() - begin, time.process_time() - worked
    searched = len({blob for tree in trees.values() for blob in tree.values()})
    print(f"{edit.sha[:10]} {edit.subject}")
    print("  " + ", ".join(f"{name} on {root}" for name, root in sorted(wanted.pairs)))
    print(
        f"{len(heads)} heads at {len(trees)} commits; {sum(map(len, trees.values())):,} files, of"
        f" which {searched:,} are distinct and searched; {len(search.known) - apart} sets of files"
        f" judged, {len(compared)} compared; {seconds:.1f} s ({work:.1f} s of work)"
    )
    both = Counter((verdicts[commit], told[commit]) for commit in heads.values())
    contents = ("present", "absent", "undecided", "not there")
    lines = [
        [verdict.state, ", ".join(verdict.classes), *counts, sum(counts)]
        for verdict in sorted(set(verdicts.values()))
        if (counts := [both[verdict, content] for content in contents])
    ]
    heading = ["", "in", *(f"by content {content}" for content in contents), "heads"]
    print(tabulate(lines, heading))
    for name, commit in sorted(heads.items()):
        state, classes = verdicts[commit]
        if state in ("affected", "undecided"):
            print(f"  {state}  {commit[:10]}  {name}  {', '.join(classes)}")


if __name__ == "__main__":
    main()
