"""Rule pages and vocabulary: loads, validates and holds what is data, not code."""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import yaml

from auditor.errors import UsageProblem
from auditor.model import CATEGORIES, Category, Confidence, Severity

CheckName = Literal[
    "sibling-gates",
    "serve-model",
    "serve-parsers",
    "serve-renderings",
    "serve-templates",
    "serve-flags",
    "serve-values",
    "serve-environment",
    "serve-guards",
    "serve-pairs",
    "serve-config",
    "serve-tree",
    "suppressions",
]
"""The mechanisms a rule page may name; the table of checks is typed by it."""

WaitKind = Literal["keyed", "event", "stream", "device"]
"""What a primitive wait waits for: the index it is given, one event, one stream, everything."""

SINGLE_FILE = "example.py"
"""The path of an example that is given as plain text."""

_RULE_ID = r"^[a-z0-9]+(-[a-z0-9]+)*$"
_LONGEST_ID = 100  # characters of a made-up id that are compared with the known ones
_EFFECT = r"^[^\s](?:[^\n]{0,46}[^\s.])?$"  # a clause of at most 48 characters
_PRODUCTION = "In production: "
_LONGEST_MEANING = 160  # characters
_SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[^a-z\s])")
_TREE = r"^([a-z0-9]+(-[a-z0-9]+)*)?$"
_MARK = re.compile(r"#\s*error:\s*\[([a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)\]\s*$")
_MARK_INTENDED = re.compile(r"#\s*error\b\s*:?\s*\[|#\s*error:")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Folders of the packaged rules that other loaders read.
_OTHER_FOLDERS = frozenset({"advisories", "trees"})

Text = Annotated[str, msgspec.Meta(min_length=1)]
Param = str | bool | int | float | list[str]
_T = TypeVar("_T")


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


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words by which code tells what it does; ``rules/vocab/`` says why each list exists."""

    primitive_waits: dict[str, WaitKind] = {}
    metadata_attributes: frozenset[str] = frozenset()
    metadata_methods: frozenset[str] = frozenset()
    metadata_functions: frozenset[str] = frozenset()
    metadata_words: frozenset[str] = frozenset()
    view_methods: frozenset[str] = frozenset()
    element_functions: frozenset[str] = frozenset()
    store_methods: frozenset[str] = frozenset()
    host_copy_methods: frozenset[str] = frozenset()
    write_verbs: frozenset[str] = frozenset()
    read_verbs: frozenset[str] = frozenset()
    setup_verbs: frozenset[str] = frozenset()
    setup_methods: frozenset[str] = frozenset()
    transfer_verbs: frozenset[str] = frozenset()
    verb_prefixes: frozenset[str] = frozenset()
    host_words: frozenset[str] = frozenset()
    destination_words: frozenset[str] = frozenset()

    def merge(self, other: Vocabulary) -> Vocabulary:
        """Both vocabularies' words; where a wait has two kinds, the other's holds."""
        return Vocabulary(
            **{name: getattr(self, name) | getattr(other, name) for name in self.__struct_fields__}
        )

    def may_take_index(self, name: str) -> bool:
        """Whether a wait of that name can be told an index of what to wait for.

        A keyed one always is; of the event waits only those named for nothing else: ``wait(i)``
        may, ``wait_event(e)`` is told the event.
        """
        kind = self.primitive_waits.get(name)
        return kind == "keyed" or (kind == "event" and len(words(name)) == 1)

    def verb(self, name: str) -> str:
        """What a function's name says it does: its first word that is not a ``verb_prefixes``.

        Empty where the name has no such word (``__init__`` is ``init``, ``_`` is empty).
        """
        return next((word for word in words(name) if word not in self.verb_prefixes), "")

    def duty(self, name: str) -> str:
        """Why waiting is not a function's business, by its name; empty where it is.

        One of ``setup``, ``write``, ``transfer``, ``host`` and ``metadata``.
        """
        parts = words(name)
        verb = self.verb(name)
        if name in self.setup_methods or verb in self.setup_verbs:
            return "setup"
        if verb in self.write_verbs:
            return "write"
        if verb not in self.read_verbs and not self.write_verbs.isdisjoint(parts):
            return "write"
        if verb in self.transfer_verbs:
            return "transfer"
        if verb not in self.read_verbs and not self.transfer_verbs.isdisjoint(parts):
            return "transfer"
        if not self.host_words.isdisjoint(parts):
            return "host"
        if parts and parts[-1] in self.metadata_words:
            return "metadata"
        return ""


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
        return difflib.get_close_matches(rule_id[:_LONGEST_ID], self.names())

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
    params: dict[str, Param] = {}
    references: list[Text] = []
    tree: Annotated[str, msgspec.Meta(pattern=_TREE)] = ""
    aliases: list[Annotated[str, msgspec.Meta(pattern=_RULE_ID)]] = []


class _UniqueKeyLoader(yaml.CSafeLoader):
    """The C safe loader, except that a key given twice is an error and not the last one's win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"key {key.value!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


@functools.lru_cache(maxsize=65536)
def words(name: str) -> tuple[str, ...]:
    """The lower-case words of an identifier, of either style: ``SetKAndS`` is set, k, and, s."""
    return tuple(word.lower() for word in _WORD.findall(name))


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


def load(extra_dirs: Sequence[Path] = ()) -> Rulebook:
    """The shipped rules and vocabulary, with those of ``extra_dirs`` added in the given order.

    An extra folder holds ``<category>/<rule-id>.yaml`` and ``vocab/*.yaml``. Raises UsageProblem,
    naming the file and the field, for anything that is not as a page must be.
    """
    shipped = packaged_rules()
    pages: dict[str, tuple[Path, Rule]] = {}
    vocabulary = Vocabulary()
    digest = hashlib.sha256()
    for folder in (shipped, *extra_dirs):
        for path in _pages(folder):
            data = _read(path)
            for part in (path.relative_to(folder).as_posix().encode(), data):
                digest.update(len(part).to_bytes(8, "big") + part)
            if path.parent.name == "vocab":
                vocabulary = vocabulary.merge(_convert(path, data, Vocabulary))
                continue
            rule = _rule(path, _convert(path, data, _Page))
            if rule.id in pages:
                raise _problem(path, "id", f"{rule.id!r} is the id of {pages[rule.id][0]} too")
            pages[rule.id] = (path, rule)
    named: dict[str, Path] = {rule_id: path for rule_id, (path, _) in pages.items()}
    for path, rule in pages.values():
        _check_marks(path, rule, pages.keys())
        for alias in rule.aliases:
            if alias in named:
                raise _problem(path, "aliases", f"{alias!r} is a name of {named[alias]} too")
            named[alias] = path
    rules = tuple(pages[rule_id][1] for rule_id in sorted(pages))
    return Rulebook(rules=rules, vocabulary=vocabulary, digest=digest.hexdigest())


def _pages(folder: Path) -> Iterator[Path]:
    """Every page under a rules folder, in a stable order; a page no one would read is an error."""
    if not folder.is_dir():
        raise UsageProblem(f"{folder}: there is no such folder of rules")
    found = sorted(path for path in folder.glob("**/*.y*ml") if path.suffix in {".yaml", ".yml"})
    if not found:
        raise UsageProblem(f"{folder}: holds no rules (<category>/<rule-id>.yaml, vocab/*.yaml)")
    places = (*CATEGORIES, "vocab")
    for path in found:
        inner = path.relative_to(folder).parts
        if inner[0] in _OTHER_FOLDERS:
            continue
        if path.suffix == ".yml":
            raise UsageProblem(f"{path}: is not read; name it {path.stem}.yaml")
        if len(inner) != 2 or inner[0] not in places:
            raise UsageProblem(f"{path}: is not read; a page belongs in {', '.join(places)}")
        yield path


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageProblem(f"{path}: cannot be read: {error.strerror}") from error


def _convert(path: Path, data: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(yaml.load(data.decode(), Loader=_UniqueKeyLoader), kind)
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{path}: is not UTF-8 (byte {error.start})") from error
    except msgspec.ValidationError as error:
        # msgspec ends its message with the field: "Expected `str`, got `int` - at `$.why`".
        raise UsageProblem(f"{path}: {str(error).replace('$.', '')}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        reason = getattr(error, "problem", None) or "is not YAML"
        raise UsageProblem(f"{path}: {where}{reason}") from error


def _problem(path: Path, field: str, message: str) -> UsageProblem:
    return UsageProblem(f"{path}: {field}: {message}")


def _rule(path: Path, page: _Page) -> Rule:
    if page.id != path.stem:
        raise _problem(path, "id", f"{page.id!r} is not the file's name {path.stem!r}")
    if page.category != path.parent.name:
        raise _problem(
            path, "category", f"{page.category!r} is not the folder's name {path.parent.name!r}"
        )
    for name, value in page.params.items():
        if name.endswith("regex"):
            for pattern in value if isinstance(value, list) else [value]:
                _check_regex(path, f"params.{name}", pattern)
    return Rule(
        id=page.id,
        category=page.category,
        title=page.title,
        effect=page.effect,
        means=_meaning(path, page.why),
        severity=page.severity,
        confidence=page.confidence,
        check=page.check,
        params=page.params,
        why=page.why,
        fix=page.fix,
        references=tuple(page.references),
        valid=_examples(path, "valid", page.valid, page.tree),
        invalid=_examples(path, "invalid", page.invalid, page.tree),
        aliases=tuple(page.aliases),
    )


def _meaning(path: Path, why: str) -> str:
    """The beginning of what a page says of production: as many sentences as fit in a line."""
    paragraphs = (" ".join(text.split()) for text in re.split(r"\n\s*\n", why.strip()))
    told = next((text for text in paragraphs if text.startswith(_PRODUCTION)), "")
    if not told:
        raise _problem(path, "why", f"has no paragraph that begins with {_PRODUCTION.strip()!r}")
    first, *rest = _SENTENCE_END.split(told.removeprefix(_PRODUCTION))
    if len(first) > _LONGEST_MEANING:
        reason = f"its first sentence is longer than {_LONGEST_MEANING} characters"
        raise _problem(
            path, "why", f"{_PRODUCTION.strip()!r}: {reason}; reports show that sentence"
        )
    meaning = first[:1].upper() + first[1:]
    for sentence in rest:
        if len(meaning) + 1 + len(sentence) > _LONGEST_MEANING:
            break
        meaning += f" {sentence}"
    return meaning


def _check_regex(path: Path, field: str, pattern: Param) -> None:
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise _problem(path, field, f"not a regular expression: {error}") from error


def _examples(path: Path, kind: str, raw: list[Text | _Sides], tree: str) -> tuple[Example, ...]:
    def example(number: int, given: Text | _Sides) -> Example:
        sides = _Sides(fork=given) if isinstance(given, str) else given
        field = f"{kind}[{number}]"
        return Example(
            fork=_files(path, f"{field}.fork", sides.fork),
            upstream=_other_side(path, f"{field}.upstream", sides.upstream),
            target=_other_side(path, f"{field}.target", sides.target),
            title=sides.title,
            tree=tree,
        )

    return tuple(example(number, given) for number, given in enumerate(raw))


def _other_side(
    path: Path, field: str, side: Text | dict[str, str] | None
) -> dict[str, str] | None:
    if side is None:
        return None
    files = _files(path, field, side)
    for name, line, _ in _marks(files):
        raise _problem(path, f"{field}.{name}", f"line {line}: only the fork's files are marked")
    return files


def _files(path: Path, field: str, side: Text | dict[str, str]) -> dict[str, str]:
    files = {SINGLE_FILE: side} if isinstance(side, str) else side
    for name, text in files.items():
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or str(pure) != name:
            raise _problem(path, field, f"{name!r} is no relative path of a file")
        for number, line in enumerate(text.splitlines(), start=1):
            if _MARK_INTENDED.search(line) and not _MARK.search(line):
                raise _problem(
                    path, f"{field}.{name}", f"line {number}: write a mark as # error: [rule-id]"
                )
    return files


def _marks(files: dict[str, str]) -> Iterator[tuple[str, int, str]]:
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), start=1):
            mark = _MARK.search(line)
            if mark is not None:
                for rule_id in mark.group(1).split(","):
                    yield path, number, rule_id.strip()


def _check_marks(path: Path, rule: Rule, known: Collection[str]) -> None:
    """A rule's invalid examples must show it, its valid ones must not, and no id is made up."""
    for kind, examples, shows in (("valid", rule.valid, False), ("invalid", rule.invalid, True)):
        for number, example in enumerate(examples):
            ids = {rule_id for _, _, rule_id in example.marks()}
            for unknown in sorted(ids.difference(known)):
                raise _problem(path, f"{kind}[{number}]", f"there is no rule {unknown!r}")
            if (rule.id in ids) is not shows:
                fault = "no line is marked with" if shows else "a line is marked with"
                raise _problem(path, f"{kind}[{number}]", f"{fault} {rule.id}")
