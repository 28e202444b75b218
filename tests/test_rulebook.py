"""The loader of rule pages and vocabulary: what it takes, and what it says of the rest."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from auditor import rulebook
from auditor.errors import UsageProblem
from auditor.rulebook import Example
from auditor.runs.rules import load
from auditor.vocabulary import Vocabulary

PAGE = """\
id: own-rule
category: sync
title: A rule of one's own
effect: nothing happens
severity: low
confidence: medium
check: sibling-gates
params:
  shape: ungated
why: "In production: it stops."
fix: change it
valid:
  - x = 1
invalid:
  - "x = 2  # error: [own-rule]"
"""


SHAPE = "  shape: ungated"
WHY = 'why: "In production: it stops."'


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def complaint(folder: Path) -> str:
    with pytest.raises(UsageProblem) as caught:
        load([folder])
    return str(caught.value)


def test_shipped_rules_are_complete() -> None:
    book = rulebook.load()
    ids = [rule.id for rule in book.rules]
    assert ids == sorted(ids)
    assert {
        "delegate-skips-gate",
        "gate-after-read",
        "gate-bypassed",
        "gate-not-on-all-paths",
        "gate-parameter-dropped",
        "gate-removed",
        "optional-gate-omitted",
        "override-drops-gate",
        "ungated-buffer-read",
    } <= set(ids)
    for rule in book.rules:
        # A gate can be missing in more ways than a setting can be wrong.
        if rule.check == "sibling-gates":
            assert len(rule.invalid) >= 3, rule.id
            assert len(rule.valid) >= 4, rule.id
        assert all(reference.startswith("https://") for reference in rule.references), rule.id


def test_every_shipped_list_of_words_is_filled() -> None:
    vocabulary = rulebook.load().vocabulary
    for name in Vocabulary.__struct_fields__:
        assert getattr(vocabulary, name), name
    assert vocabulary.primitive_waits["wait_until"] == "keyed"


def test_every_list_of_words_is_read_by_code() -> None:
    """A list that nothing reads would be taken from a page and have no effect."""
    package = Path(rulebook.__file__).parent
    own = ast.parse((package / "vocabulary.py").read_text())
    [vocabulary] = [n for n in own.body if isinstance(n, ast.ClassDef) and n.name == "Vocabulary"]
    methods = {n.name: attributes(n) for n in vocabulary.body if isinstance(n, ast.FunctionDef)}
    others = (m for m in package.rglob("*.py") if m.name != "vocabulary.py")
    read = set().union(*(attributes(ast.parse(module.read_text())) for module in others))
    # What a method reads counts where somebody calls it.
    while more := set().union(*(methods[name] for name in methods.keys() & read)) - read:
        read |= more
    assert {*Vocabulary.__struct_fields__, *methods} - read == set()


def attributes(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_words_that_would_hide_known_defects_are_left_out() -> None:
    vocabulary = rulebook.load().vocabulary
    silencing = vocabulary.write_verbs | vocabulary.setup_verbs | vocabulary.transfer_verbs
    assert not silencing & {"get", "copy", "prefetch", "gather", "read", "forward"}
    assert not vocabulary.store_methods & {"add_", "mul_", "scatter_add_", "index_add_"}
    # A word cannot be passed over as a prefix and be the verb as well.
    assert not silencing & vocabulary.verb_prefixes


def test_a_packaged_folder_goes_before_the_sibling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "auditor"
    sibling = tmp_path / "site" / "rules"
    package.mkdir(parents=True)
    sibling.mkdir()
    monkeypatch.setattr("importlib.resources.files", lambda name: package)
    assert rulebook.packaged_rules() == sibling
    (package / "_data" / "rules").mkdir(parents=True)
    assert rulebook.packaged_rules() == package / "_data" / "rules"


def test_extra_folder_adds_a_rule_and_words(tmp_path: Path) -> None:
    write(tmp_path, "sync/own-rule.yaml", PAGE)
    write(tmp_path, "vocab/own.yaml", "primitive_waits: {ready: keyed}\nwrite_verbs: [stash]\n")
    shipped, book = rulebook.load(), load([tmp_path])
    assert {rule.id for rule in book.rules} - {rule.id for rule in shipped.rules} == {"own-rule"}
    assert book.vocabulary.primitive_waits["ready"] == "keyed"
    assert book.vocabulary.primitive_waits["wait_until"] == "keyed"
    assert book.vocabulary.write_verbs == shipped.vocabulary.write_verbs | {"stash"}


def test_a_user_may_change_the_kind_of_a_wait(tmp_path: Path) -> None:
    write(tmp_path, "vocab/own.yaml", "primitive_waits: {wait: keyed}\n")
    assert load([tmp_path]).vocabulary.primitive_waits["wait"] == "keyed"


def test_digest_follows_content_and_nothing_else(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        write(folder, "sync/own-rule.yaml", PAGE)
    assert load([first]).digest == load([second]).digest
    assert load([first]).digest != rulebook.load().digest
    write(second, "sync/own-rule.yaml", PAGE.replace("it stops", "it goes on"))
    assert load([first]).digest != load([second]).digest
    write(second, "sync/own-rule.yaml", PAGE)
    write(second, "vocab/own.yaml", "write_verbs: [stash]\n")
    assert load([first]).digest != load([second]).digest


def test_rule_by_id_names_the_closest() -> None:
    book = rulebook.load()
    assert book.rule("gate-removed").id == "gate-removed"
    with pytest.raises(UsageProblem, match="did you mean gate-removed"):
        book.rule("gate-remove")


def test_verb_is_the_first_word_that_says_what() -> None:
    vocabulary = Vocabulary(verb_prefixes=frozenset({"maybe", "fused"}))
    assert vocabulary.verb("set_key_rows") == "set"
    assert vocabulary.verb("_maybe_fused_store_rows") == "store"
    assert vocabulary.verb("SetKeyAndScale") == "set"
    assert vocabulary.verb("__init__") == "init"
    assert vocabulary.verb("_") == ""


def test_example_forms(tmp_path: Path) -> None:
    page = PAGE.replace(
        '  - "x = 2  # error: [own-rule]"\n',
        """\
  - title: sides
    fork:
      a/one.py: |
        x = 1
        y = 2  # error: [own-rule, gate-removed]
    upstream: x = 1
    target:
      a/one.py: x = 3
""",
    )
    write(tmp_path, "sync/own-rule.yaml", page)
    rule = load([tmp_path]).rule("own-rule")
    assert rule.valid == (Example(fork={"example.py": "x = 1"}),)
    (example,) = rule.invalid
    assert example.title == "sides"
    assert example.marks() == {("a/one.py", 2, "own-rule"), ("a/one.py", 2, "gate-removed")}
    assert example.upstream == {"example.py": "x = 1"}
    assert example.target == {"a/one.py": "x = 3"}


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("fix: change it", "fix: change it\nfixx: 2", 12, "fixx: there is no such key, did you"),
        ("fix: change it\n", "", 1, "missing required field `fix`"),
        (WHY, "why: 3", 10, "why: Expected `str`"),
        (WHY, 'why: ""', 10, "why: Expected `str`"),
        ("severity: low", "severity: awful", 5, "'awful'; allowed: critical, high, medium, low"),
        ("severity: low", "severity: 3", 5, "severity: Expected `str`"),
        ("confidence: medium", "confidence: sure", 6, "'sure'; allowed: high, medium, low"),
        (
            "check: sibling-gates",
            "check: sibling-gatez",
            7,
            "no check 'sibling-gatez', did you mean sibling-gates?; allowed: ",
        ),
        ("category: sync", "category: syncs", 2, "'syncs'; allowed: sync, serve, "),
        ("category: sync", "category: serve", 2, "'serve' is not the folder's name 'sync'"),
        ("id: own-rule", "id: other-rule", 1, "id: 'other-rule' is not the file's name 'own-rule'"),
        ("id: own-rule", "id: Own_Rule", 1, "id: Expected `str` matching regex"),
        ("title: A rule of one's own", "title: a\ntitle: b", 4, "key 'title' is given twice"),
        ("title: A rule of one's own", "title: a\n[b]: c", 4, "a key is no text"),
        ("title: A rule of one's own", "title: 2024-13-45", 3, "'2024-13-45' is no timestamp"),
        ("title: A rule of one's own", "title: " + "[" * 900 + "]" * 900, 3, "title: Expected"),
        ("title: A rule of one's own", "title: " + "[" * 3000, 3, "exceeded maximum nesting"),
        (SHAPE, "  shape: {deep: 1}", 9, "params.shape: Expected"),
        (SHAPE, "  shape: ungated\n  deep: {a: 1}", 10, "params.deep: Expected"),
        (SHAPE, "  shap: late", 9, "reads no such parameter, did you mean shape?; allowed: shape"),
        (SHAPE, "  shape: lat", 9, "'lat' is none that sibling-gates knows, did you mean late?; "),
        (SHAPE, "  shape: lat", 9, "; allowed: dropped-parameter, optional, late, partial, "),
        (
            SHAPE,
            "  shape: [late]",
            9,
            "params.shape: Expected `str`, got `array`; allowed: dropped",
        ),
        (SHAPE, "  shape: on", 9, "params.shape: Expected `str`, got `bool`; allowed: dropped"),
        (f"params:\n{SHAPE}\n", "", 7, "needs the parameter 'shape'; allowed: dropped-parameter"),
        (f"params:\n{SHAPE}\n", "params: {}\n", 7, "needs the parameter 'shape'; allowed: dropped"),
        ("[own-rule]", "[gate-removed]", 15, "invalid[0]: no line is marked with own-rule"),
        ("[own-rule]", "[own-rule, own-rul]", 15, "no rule 'own-rul', did you mean own-rule?"),
        ("[own-rule]", "own-rule", 15, "line 1: write a mark as # error: [rule-id]"),
        ("[own-rule]", "[own-rule] here", 15, "line 1: write a mark as # error: [rule-id]"),
        ("x = 2 ", "", 15, "line 1: nothing stands on the line of the mark"),
        ("x = 2 ", "# x = 2", 15, "line 1: own-rule finds nothing in a comment"),
        ("x = 2 ", "x = ", 15, "invalid[0].fork.example.py: line 1: is not Python: invalid syntax"),
        ("x = 2 ", "x = '\\0'", 15, "invalid[0].fork.example.py: "),
        (
            "- x = 1",
            '- "x = 1  # error: [own-rule]"',
            13,
            "valid[0]: a line is marked with own-rule",
        ),
        ("x = 2 ", "x = " + "-" * 50000 + "2", 15, "invalid[0].fork.example.py: cannot be parsed"),
        ("- x = 1", "- x = = 1", 13, "valid[0].fork.example.py: line 1: is not Python"),
        ("- x = 1", "- {fork: x, target: x =}", 13, "valid[0].target.example.py: line 1: is not"),
        ("- x = 1", "- {fork: x, upstream: {a/b.py: x =}}", 13, "valid[0].upstream.a/b.py: line 1"),
        ("- x = 1", "- 3", 13, "valid[0]: Expected"),
        ("- x = 1", "- {forks: x}", 13, "forks: there is no such key, did you mean fork?; allowed"),
        ("- x = 1", "- {fork: {../x.py: x}}", 13, "valid[0].fork: '../x.py'"),
        ("- x = 1", "- {fork: {/x.py: x}}", 13, "valid[0].fork: '/x.py'"),
        ("- x = 1", "- {fork: {a//x.py: x}}", 13, "valid[0].fork: 'a//x.py'"),
        (
            "- x = 1",
            '- {fork: x, upstream: "y  # error: [own-rule]"}',
            13,
            "valid[0].upstream.example.py: line 1: only the fork's files are marked",
        ),
        ("x = 1", "x = \x01", 13, "control characters are not allowed"),
        ("fix: change it", "fix: change it\n---", 12, "but found another document"),
        ("valid:\n  - x = 1", "valid: []", 12, "valid: Expected"),
        ("id: own-rule", "id: [", 3, "did not find"),
    ],
)
def test_a_bad_page_is_named_with_its_line_and_field(
    tmp_path: Path, old: str, new: str, line: int, said: str
) -> None:
    assert old in PAGE
    path = write(tmp_path, "sync/own-rule.yaml", PAGE.replace(old, new, 1))
    message = complaint(tmp_path)
    assert message.startswith(f"{path}:{line}: ")
    assert said in message
    assert "\n" not in message


def test_an_id_that_is_taken(tmp_path: Path) -> None:
    page = PAGE.replace("own-rule", "gate-removed")
    path = write(tmp_path, "sync/gate-removed.yaml", page)
    message = complaint(tmp_path)
    assert message.startswith(f"{path}:1: id: 'gate-removed'")
    assert str(rulebook.packaged_rules()) in message


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("read_verbs: []\nwrite_verb: [stash]", 2, "no such key, did you mean write_verbs or "),
        ("host_copy_methods: [cpu]", 1, "; allowed: primitive_waits, metadata_attributes, "),
        ("read_verbs: []\nwrite_verbs: stash", 2, "write_verbs: Expected `array`"),
        ("write_verbs:\n  - off_\n  - on", 3, "write_verbs[1]: Expected `str`"),
        ("primitive_waits: [ready]", 1, "primitive_waits: Expected `object`"),
        (
            "primitive_waits:\n  gone: keyed\n  ready: often\n  over: stream",
            3,
            "primitive_waits.ready: Invalid enum value 'often'; allowed: keyed, event, stream",
        ),
        # Another fault later in the page does not make the first key the guilty one.
        (
            "primitive_waits:\n  gone: keyed\n  ready: often\nwrite_verbs: stash",
            3,
            "primitive_waits.ready: Invalid enum value 'often'",
        ),
        (
            "primitive_waits:\n  gone: keyed\n  3: keyed",
            3,
            "primitive_waits.3: Expected `str`, got `int`",
        ),
        ("primitive_waits: {ready: " + "[" * 900 + "]" * 900 + "}", 1, "primitive_waits.ready: "),
        ("read_verbs: []\nwrite_verbs: [!!bool off_]", 2, "'off_' is no bool"),
        ("[1, 2]", 1, "Expected `object`"),
    ],
)
def test_bad_vocabulary(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = write(tmp_path, "vocab/own.yaml", text)
    message = complaint(tmp_path)
    assert message.startswith(f"{path}:{line}: ")
    assert said in message


def test_what_is_allowed_is_not_said_of_a_key(tmp_path: Path) -> None:
    write(tmp_path, "vocab/own.yaml", "primitive_waits: {3: keyed}")
    assert complaint(tmp_path).endswith("primitive_waits.3: Expected `str`, got `int`")


def test_yaml_cannot_make_objects(tmp_path: Path) -> None:
    write(tmp_path, "vocab/own.yaml", "write_verbs: !!python/object/apply:os.getcwd []\n")
    assert "python/object" in complaint(tmp_path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = write(tmp_path, "vocab/own.yaml", "")
    path.write_bytes(b"write_verbs: [\xff]\n")
    assert complaint(tmp_path) == f"{path}:1: is not UTF-8 (byte 14)"


@pytest.mark.parametrize("name", ["sink/own-rule.yaml", "own-rule.yaml", "sync/deep/own-rule.yaml"])
def test_a_page_that_nobody_would_read(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, PAGE)
    assert complaint(tmp_path).startswith(f"{path}: is not read; a page belongs in ")


def test_the_short_suffix_is_no_page(tmp_path: Path) -> None:
    path = write(tmp_path, "sync/own-rule.yml", PAGE)
    assert complaint(tmp_path) == f"{path}: is not read; name it own-rule.yaml"


def test_folders_without_rules(tmp_path: Path) -> None:
    assert "there is no such folder" in complaint(tmp_path / "absent")
    assert "holds no rules" in complaint(tmp_path)


@pytest.mark.parametrize(
    ("effect", "is_one"),
    [
        ("nothing yet", True),
        ("x" * 48, True),
        ("x" * 49, False),
        ("ends as a sentence.", False),
        (" begins with a space", False),
        ("", False),
    ],
)
def test_an_effect_is_a_clause_that_fits_beside_a_finding(
    tmp_path: Path, effect: str, is_one: bool
) -> None:
    write(tmp_path, "sync/own-rule.yaml", PAGE.replace("nothing happens", f'"{effect}"'))
    if is_one:
        assert load([tmp_path]).rule("own-rule").effect == effect
    else:
        assert "effect: Expected `str`" in complaint(tmp_path)


@pytest.mark.parametrize(
    ("production", "means"),
    [
        ("it stops.", "It stops."),
        ("it stops. It\n  does not go on.", "It stops. It does not go on."),
        ("it takes 0.5 s, e.g. more. Then it stops.", "It takes 0.5 s, e.g. more. Then it stops."),
        (f"it stops. {'Very ' * 40}long.", "It stops."),
        ("`a` is ignored. `b` holds.", "`a` is ignored. `b` holds."),
    ],
)
def test_what_a_rule_means_is_the_beginning_of_what_it_says_of_production(
    tmp_path: Path, production: str, means: str
) -> None:
    why = f"why: |\n  Because.\n\n  In production: {production}\n\n  More."
    write(tmp_path, "sync/own-rule.yaml", PAGE.replace('why: "In production: it stops."', why))
    assert load([tmp_path]).rule("own-rule").means == means


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("because", "has no paragraph that begins with 'In production:'"),
        (f"In production: {'very ' * 40}long.", "its first sentence is longer than 160 characters"),
    ],
)
def test_a_page_that_does_not_say_what_it_means_is_refused(
    tmp_path: Path, why: str, told: str
) -> None:
    write(tmp_path, "sync/own-rule.yaml", PAGE.replace("In production: it stops.", why))
    assert told in complaint(tmp_path)
    assert "why" in complaint(tmp_path)
