"""Rule pages: loads, validates and holds what is data, not code; the vocabulary beside them."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from auditor.errors import UsageProblem
from auditor.model import CATEGORIES, Category, Confidence, Severity
from auditor.pages import Page, Steps, closest, near
from auditor.vocabulary import Vocabulary

CheckName = str
"""A mechanism that a rule page may name: a key of one of the tables of checks."""

ON_SUPPRESSIONS: CheckName = "suppressions"
"""The check whose findings stand on suppressions, which are comments."""

VOCABULARY = "vocab"
"""The folder of a folder of rules that holds words and no rules."""

SINGLE_FILE = "example.py"
"""The path of an example that is given as plain text."""

_RULE_ID = r"^[a-z0-9]+(-[a-z0-9]+)*$"
_EFFECT = r"^[^\s](?:[^\n]{0,46}[^\s.])?$"  # a clause of at most 48 characters
_PRODUCTION = "In production: "
_LONGEST_MEANING = 160  # characters
_SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[^a-z\s])")
_TREE = r"^([a-z0-9]+(-[a-z0-9]+)*)?$"
_MARK = re.compile(r"#\s*error:\s*\[([a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)\]\s*$")
_MARK_INTENDED = re.compile(r"#\s*error\b\s*:?\s*\[|#\s*error:")
# Folders of the packaged rules that other loaders read.
_OTHER_FOLDERS = frozenset({"advisories", "trees"})

Text = Annotated[str, msgspec.Meta(min_length=1)]
Param = str | bool | int | float | list[str]
Texts = Text | Annotated[list[Text], msgspec.Meta(min_length=1)]
"""The kind of a parameter that is a list of texts; one text is a list of it."""


class Parameter(msgspec.Struct, frozen=True):
    """What a page may write for one parameter of a check.

    ``kind`` is a type as msgspec knows them, ``allowed`` are all values where only some will do.
    ``shapes`` are those values of the parameter ``shape`` with which it is read; empty where it
    always is.
    """

    kind: Any = str
    allowed: tuple[str, ...] = ()
    required: bool = False
    shapes: tuple[str, ...] = ()


Parameters = Mapping[str, Parameter]
"""All parameters of a check by name."""


def of_shapes(shapes: Iterable[str], **others: Parameter) -> Parameters:
    """The parameters of a check whose rules each name a ``shape``."""
    return {"shape": Parameter(allowed=tuple(shapes), required=True), **others}


class Example(msgspec.Struct, frozen=True):
    """Code that shows a defect or its absence: file texts by path for each side.

    ``upstream`` and ``target`` are None where the example does not give that side. ``tree`` names
    a folder below ``rules/trees`` whose files every side has beside its own; empty for none.
    """

    fork: dict[str, str]
    upstream: dict[str, str] | None = None
    target: dict[str, str] | None = None
    title: str = ""
    tree: str = ""

    def side(self, own: dict[str, str] | None) -> dict[str, str] | None:
        """All files of a side: its own over those of the tree; None stays None."""
        if own is None or not self.tree:
            return own
        return {**tree_files(self.tree), **own}

    def marks(self) -> frozenset[tuple[str, int, str]]:
        """Every ``# error: [rule-id]`` of the fork's files, as path, line (1-based) and rule id."""
        return frozenset(_marks(self.fork))


class Rule(msgspec.Struct, frozen=True):
    """One rule page; ``confidence`` is the highest that a finding of the rule may have.

    ``keeps_severity`` says that it holds where no configuration of the tree arms the defect today.
    ``effect`` is what users of the server would see, in some six words, ``means`` the same in a
    line: the beginning of what the page says of production. ``aliases`` are ids that the rule had
    before: whatever names one of them means this rule.
    """

    id: str
    category: Category
    title: str
    effect: str
    means: str
    severity: Severity
    confidence: Confidence
    check: CheckName
    params: dict[str, Param]
    why: str
    fix: str
    references: tuple[str, ...]
    valid: tuple[Example, ...]
    invalid: tuple[Example, ...]
    aliases: tuple[str, ...] = ()
    keeps_severity: bool = False


class Rulebook(msgspec.Struct, frozen=True):
    """All rules, ordered by id, and the vocabulary.

    ``digest`` changes with every byte that was loaded and with nothing else, so that it can be
    part of a cache key.
    """

    rules: tuple[Rule, ...]
    vocabulary: Vocabulary
    digest: str

    def find(self, rule_id: str) -> Rule | None:
        """The rule of that id or alias, None where there is none."""
        return self.names().get(rule_id)

    def rule(self, rule_id: str) -> Rule:
        """The same; raises UsageProblem naming the closest ids where there is none."""
        rule = self.find(rule_id)
        if rule is not None:
            return rule
        close = self.close(rule_id)
        way_out = f"; did you mean {' or '.join(close)}?" if close else ""
        raise UsageProblem(f"there is no rule {rule_id!r}{way_out}")

    def close(self, rule_id: str) -> list[str]:
        """The ids and aliases nearest to one that no rule has."""
        return closest(rule_id, self.names())

    def names(self) -> dict[str, Rule]:
        """Every rule by its id and by each of its aliases."""
        return {name: rule for rule in self.rules for name in (rule.id, *rule.aliases)}


class _Sides(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An example as a page writes it; a side given as plain text is one file."""

    fork: Text | dict[str, str]
    upstream: Text | dict[str, str] | None = None
    target: Text | dict[str, str] | None = None
    title: str = ""


class _Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule page as it is written."""

    id: Annotated[str, msgspec.Meta(pattern=_RULE_ID)]
    category: Category
    title: Text
    effect: Annotated[str, msgspec.Meta(pattern=_EFFECT)]
    severity: Severity
    confidence: Confidence
    check: CheckName
    why: Text
    fix: Text
    valid: Annotated[list[Text | _Sides], msgspec.Meta(min_length=1)]
    invalid: Annotated[list[Text | _Sides], msgspec.Meta(min_length=1)]
    keeps_severity: bool = False
    params: dict[str, Param] = {}
    references: list[Text] = []
    tree: Annotated[str, msgspec.Meta(pattern=_TREE)] = ""
    aliases: list[Annotated[str, msgspec.Meta(pattern=_RULE_ID)]] = []


def packaged_rules() -> Path:
    """The folder of the shipped rules: inside an installed wheel, else beside the package."""
    package = Path(str(resources.files("auditor")))
    inside = package / "_data" / "rules"
    return inside if inside.is_dir() else package.parent / "rules"


@functools.cache
def tree_files(name: str) -> dict[str, str]:
    """The files of a shipped example tree by path; raises UsageProblem where there is none."""
    root = packaged_rules() / "trees" / name
    if not root.is_dir():
        raise UsageProblem(f"there is no example tree {name!r} under rules/trees")
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }


def load(
    extra_dirs: Sequence[Path] = (),
    parameters: Mapping[CheckName, Parameters] | None = None,
    *,
    whole: bool = False,
) -> Rulebook:
    """The shipped rules and vocabulary, with those of ``extra_dirs`` added in the given order.

    An extra folder holds ``<category>/<rule-id>.yaml`` and ``vocab/*.yaml``; its pages are held
    against the ``parameters`` of the checks, and their examples are parsed. The shipped pages are
    so too where ``whole`` says it: they do not change between runs, and it takes as long as all
    else. Raises UsageProblem, naming the file and its line, for anything that is not as a page
    must be.
    """
    shipped = packaged_rules()
    pages: dict[str, tuple[Page, Rule, bool]] = {}
    vocabulary = Vocabulary()
    digest = hashlib.sha256()
    for folder in (shipped, *extra_dirs):
        for path in _pages(folder):
            page = Page.open(path)
            for part in (path.relative_to(folder).as_posix().encode(), page.data):
                digest.update(len(part).to_bytes(8, "big") + part)
            if path.parent.name == VOCABULARY:
                vocabulary = vocabulary.merge(page.read(Vocabulary))
                continue
            rule = _rule(page)
            if rule.id in pages:
                other = pages[rule.id][0].path
                raise page.problem(["id"], f"{rule.id!r} is the id of {other} too")
            pages[rule.id] = (page, rule, whole or folder is not shipped)
    by_id = {rule_id: rule for rule_id, (_, rule, _) in pages.items()}
    named: dict[str, Path] = {rule_id: page.path for rule_id, (page, _, _) in pages.items()}
    for page, rule, checked in pages.values():
        if checked:
            _check_parameters(page, rule, parameters or {})
            _check_code(page, rule)
        _check_marks(page, rule, by_id)
        for alias in rule.aliases:
            if alias in named:
                raise page.problem(["aliases"], f"{alias!r} is a name of {named[alias]} too")
            named[alias] = page.path
    rules = tuple(pages[rule_id][1] for rule_id in sorted(pages))
    return Rulebook(rules=rules, vocabulary=vocabulary, digest=digest.hexdigest())


def rule_pages(folder: Path) -> Iterator[Path]:
    """The pages of rules under a rules folder, each named by its rule's id."""
    return (path for path in _pages(folder) if path.parent.name != VOCABULARY)


def _pages(folder: Path) -> Iterator[Path]:
    """Every page under a rules folder, in a stable order; a page no one would read is an error."""
    if not folder.is_dir():
        raise UsageProblem(f"{folder}: there is no such folder of rules")
    found = sorted(path for path in folder.glob("**/*.y*ml") if path.suffix in {".yaml", ".yml"})
    if not found:
        raise UsageProblem(f"{folder}: holds no rules (<category>/<rule-id>.yaml, vocab/*.yaml)")
    places = (*CATEGORIES, VOCABULARY)
    for path in found:
        inner = path.relative_to(folder).parts
        if inner[0] in _OTHER_FOLDERS:
            continue
        if path.suffix == ".yml":
            raise UsageProblem(f"{path}: is not read; name it {path.stem}.yaml")
        if len(inner) != 2 or inner[0] not in places:
            raise UsageProblem(f"{path}: is not read; a page belongs in {', '.join(places)}")
        yield path


def _rule(opened: Page) -> Rule:
    page, path = opened.read(_Page), opened.path
    if page.id != path.stem:
        told = f"{page.id!r} is not the file's name {path.stem!r}"
        raise opened.problem(["id"], told)
    if page.category != path.parent.name:
        told = f"{page.category!r} is not the folder's name {path.parent.name!r}"
        raise opened.problem(["category"], told)
    return Rule(
        id=page.id,
        category=page.category,
        title=page.title,
        effect=page.effect,
        means=_meaning(opened, page.why),
        severity=page.severity,
        confidence=page.confidence,
        check=page.check,
        params=page.params,
        why=page.why,
        fix=page.fix,
        references=tuple(page.references),
        valid=_examples(opened, "valid", page.valid, page.tree),
        invalid=_examples(opened, "invalid", page.invalid, page.tree),
        aliases=tuple(page.aliases),
        keeps_severity=page.keeps_severity,
    )


def _meaning(page: Page, why: str) -> str:
    """The beginning of what a page says of production: as many sentences as fit in a line."""
    paragraphs = (" ".join(text.split()) for text in re.split(r"\n\s*\n", why.strip()))
    told = next((text for text in paragraphs if text.startswith(_PRODUCTION)), "")
    if not told:
        raise page.problem(["why"], f"has no paragraph that begins with {_PRODUCTION.strip()!r}")
    first, *rest = _SENTENCE_END.split(told.removeprefix(_PRODUCTION))
    if len(first) > _LONGEST_MEANING:
        reason = f"its first sentence is longer than {_LONGEST_MEANING} characters"
        told = f"{_PRODUCTION.strip()!r}: {reason}; reports show that sentence"
        raise page.problem(["why"], told)
    meaning = first[:1].upper() + first[1:]
    for sentence in rest:
        if len(meaning) + 1 + len(sentence) > _LONGEST_MEANING:
            break
        meaning += f" {sentence}"
    return meaning


def _check_parameters(page: Page, rule: Rule, checks: Mapping[CheckName, Parameters]) -> None:
    """A page gives its check what the check reads, all that it needs, and nothing else."""
    if rule.check not in checks:
        told = f"there is no check {rule.check!r}{near(rule.check, checks)}"
        raise page.problem(["check"], told, sorted(checks))
    shape = rule.params.get("shape")
    known = checks[rule.check]
    taken = {n: p for n, p in known.items() if not p.shapes or shape in p.shapes}
    of = rule.check if taken == known else f"{rule.check} with the shape {shape}"
    for name, value in rule.params.items():
        if name not in taken:
            told = f"{of} reads no such parameter{near(name, taken)}"
            raise page.problem(["params", name], told, tuple(taken) or ("none",))
        allowed = taken[name].allowed
        page.check(["params", name], value, taken[name].kind, allowed)
        if allowed and value not in allowed:
            told = f"{value!r} is none that {of} knows{near(str(value), allowed)}"
            raise page.problem(["params", name], told, allowed)
    for name, parameter in taken.items():
        if parameter.required and name not in rule.params:
            field = "params" if rule.params else "check"
            raise page.problem([field], f"{of} needs the parameter {name!r}", parameter.allowed)


def _check_code(page: Page, rule: Rule) -> None:
    """The Python files of every example are Python, whichever side they are of."""
    for steps, text in _texts(rule):
        if not str(steps[-1]).endswith(".py"):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(text)
        except SyntaxError as error:
            told = f"is not Python: {error.msg}"
            raise page.problem(steps, told, line=error.lineno or 1) from error
        except (ValueError, RecursionError, MemoryError) as error:
            raise page.problem(
                steps, f"cannot be parsed: {error or type(error).__name__}"
            ) from error


def _texts(rule: Rule) -> Iterator[tuple[Steps, str]]:
    """Every file of every example of a page, with where the page has it."""
    for kind, examples in (("valid", rule.valid), ("invalid", rule.invalid)):
        for number, example in enumerate(examples):
            sides = {"fork": example.fork, "upstream": example.upstream, "target": example.target}
            for side, files in sides.items():
                for name, text in (files or {}).items():
                    yield (kind, number, side, name), text


def _examples(page: Page, kind: str, raw: list[Text | _Sides], tree: str) -> tuple[Example, ...]:
    def example(number: int, given: Text | _Sides) -> Example:
        sides = _Sides(fork=given) if isinstance(given, str) else given
        steps = (kind, number)
        return Example(
            fork=_files(page, (*steps, "fork"), sides.fork),
            upstream=_other_side(page, (*steps, "upstream"), sides.upstream),
            target=_other_side(page, (*steps, "target"), sides.target),
            title=sides.title,
            tree=tree,
        )

    return tuple(example(number, given) for number, given in enumerate(raw))


def _other_side(
    page: Page, steps: Steps, side: Text | dict[str, str] | None
) -> dict[str, str] | None:
    if side is None:
        return None
    files = _files(page, steps, side)
    for name, line, _ in _marks(files):
        raise page.problem((*steps, name), "only the fork's files are marked", line=line)
    return files


def _files(page: Page, steps: Steps, side: Text | dict[str, str]) -> dict[str, str]:
    files = {SINGLE_FILE: side} if isinstance(side, str) else side
    for name, text in files.items():
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or str(pure) != name:
            raise page.problem(steps, f"{name!r} is no relative path of a file")
        for number, line in enumerate(text.splitlines(), start=1):
            if _MARK_INTENDED.search(line) and not _MARK.search(line):
                told = "write a mark as # error: [rule-id]"
                raise page.problem((*steps, name), told, line=number)
    return files


def _marks(files: dict[str, str]) -> Iterator[tuple[str, int, str]]:
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), start=1):
            mark = _MARK.search(line)
            if mark is not None:
                for rule_id in mark.group(1).split(","):
                    yield path, number, rule_id.strip()


def _check_marks(page: Page, rule: Rule, known: Mapping[str, Rule]) -> None:
    """A rule's invalid examples must show it, its valid ones must not, and no id is made up.

    No mark stands where nothing can be found.
    """
    for kind, examples, shows in (("valid", rule.valid, False), ("invalid", rule.invalid, True)):
        for number, example in enumerate(examples):
            marks = sorted(example.marks())
            for name, line, rule_id in marks:
                steps = (kind, number, "fork", name)
                if rule_id not in known:
                    told = f"there is no rule {rule_id!r}{near(rule_id, known)}"
                    raise page.problem(steps, told, line=line)
                told = _idle(example.fork[name].splitlines()[line - 1], known[rule_id])
                if told:
                    raise page.problem(steps, told, line=line)
            if (rule.id in {rule_id for _, _, rule_id in marks}) is not shows:
                fault = "no line is marked with" if shows else "a line is marked with"
                raise page.problem([kind, number], f"{fault} {rule.id}")


def _idle(line: str, rule: Rule) -> str:
    """Why a marked line can hold no finding of a rule; empty where it may."""
    before = _MARK.sub("", line).strip()
    if not before:
        return "nothing stands on the line of the mark"
    if before.startswith("#") and rule.check != ON_SUPPRESSIONS:
        return f"{rule.id} finds nothing in a comment, and the line of the mark is one"
    return ""
