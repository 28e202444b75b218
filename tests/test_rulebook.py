"""The loader of rule pages and vocabulary: what it takes, and what it says of the rest."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from auditor import rulebook
from auditor.errors import UsageProblem
from auditor.rulebook import Example, Vocabulary

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


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def complaint(folder: Path) -> str:
    with pytest.raises(UsageProblem) as caught:
        rulebook.load([folder])
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
        if rule.category == "sync":
            assert len(rule.invalid) >= 3, rule.id
            assert len(rule.valid) >= 4, rule.id
        assert all(reference.startswith("https://") for reference in rule.references), rule.id


def test_every_shipped_list_of_words_is_filled() -> None:
    vocabulary = rulebook.load().vocabulary
    for name in Vocabulary.__struct_fields__:
        assert getattr(vocabulary, name), name
    assert vocabulary.primitive_waits["wait_until"] == "keyed"


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
    shipped, book = rulebook.load(), rulebook.load([tmp_path])
    assert {rule.id for rule in book.rules} - {rule.id for rule in shipped.rules} == {"own-rule"}
    assert book.vocabulary.primitive_waits["ready"] == "keyed"
    assert book.vocabulary.primitive_waits["wait_until"] == "keyed"
    assert book.vocabulary.write_verbs == shipped.vocabulary.write_verbs | {"stash"}


def test_a_user_may_change_the_kind_of_a_wait(tmp_path: Path) -> None:
    write(tmp_path, "vocab/own.yaml", "primitive_waits: {wait: keyed}\n")
    assert rulebook.load([tmp_path]).vocabulary.primitive_waits["wait"] == "keyed"


def test_digest_follows_content_and_nothing_else(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        write(folder, "sync/own-rule.yaml", PAGE)
    assert rulebook.load([first]).digest == rulebook.load([second]).digest
    assert rulebook.load([first]).digest != rulebook.load().digest
    write(second, "sync/own-rule.yaml", PAGE.replace("it stops", "it goes on"))
    assert rulebook.load([first]).digest != rulebook.load([second]).digest
    write(second, "sync/own-rule.yaml", PAGE)
    write(second, "vocab/own.yaml", "write_verbs: [stash]\n")
    assert rulebook.load([first]).digest != rulebook.load([second]).digest


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
    rule = rulebook.load([tmp_path]).rule("own-rule")
    assert rule.valid == (Example(fork={"example.py": "x = 1"}),)
    (example,) = rule.invalid
    assert example.title == "sides"
    assert example.marks() == {("a/one.py", 2, "own-rule"), ("a/one.py", 2, "gate-removed")}
    assert example.upstream == {"example.py": "x = 1"}
    assert example.target == {"a/one.py": "x = 3"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("fix: change it", "fix: change it\nfixx: twice", "`fixx`"),
        ("fix: change it\n", "", "`fix`"),
        ('why: "In production: it stops."', "why: 3", "at `why`"),
        ('why: "In production: it stops."', 'why: ""', "at `why`"),
        ("severity: low", "severity: awful", "at `severity`"),
        ("confidence: medium", "confidence: sure", "at `confidence`"),
        ("check: sibling-gates", "check: sibling-gatez", "at `check`"),
        ("category: sync", "category: syncs", "at `category`"),
        ("category: sync", "category: serve", "category: 'serve' is not the folder's name 'sync'"),
        ("id: own-rule", "id: other-rule", "id: 'other-rule' is not the file's name 'own-rule'"),
        ("id: own-rule", "id: Own_Rule", "at `id`"),
        ("title: A rule of one's own", "title: a\ntitle: b", "line 4: key 'title' is given twice"),
        ("shape: ungated", "name_regex: 'a('", "params.name_regex: not a regular expression"),
        ("shape: ungated", "name_regex: [ok, '*']", "params.name_regex: not a regular expression"),
        ("shape: ungated", "shape: {deep: 1}", "at `params[...]`"),
        ("[own-rule]", "[gate-removed]", "invalid[0]: no line is marked with own-rule"),
        ("[own-rule]", "[own-rule, no-such]", "invalid[0]: there is no rule 'no-such'"),
        ("[own-rule]", "own-rule", "line 1: write a mark as # error: [rule-id]"),
        ("[own-rule]", "[own-rule] here", "line 1: write a mark as # error: [rule-id]"),
        ("- x = 1", '- "x  # error: [own-rule]"', "valid[0]: a line is marked with own-rule"),
        ("- x = 1", "- 3", "at `valid[0]`"),
        ("- x = 1", "- {forks: x}", "at `valid[0]`"),
        ("- x = 1", "- {fork: {../x.py: x}}", "valid[0].fork: '../x.py'"),
        ("- x = 1", "- {fork: {/x.py: x}}", "valid[0].fork: '/x.py'"),
        ("- x = 1", "- {fork: {a//x.py: x}}", "valid[0].fork: 'a//x.py'"),
        (
            "- x = 1",
            '- {fork: x, upstream: "y  # error: [own-rule]"}',
            "valid[0].upstream.example.py: line 1: only the fork's files are marked",
        ),
        ("valid:\n  - x = 1", "valid: []", "at `valid`"),
        ("id: own-rule", "id: [", "line"),
    ],
)
def test_a_bad_page_is_named_with_its_field(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in PAGE
    path = write(tmp_path, "sync/own-rule.yaml", PAGE.replace(old, new, 1))
    message = complaint(tmp_path)
    assert message.startswith(f"{path}: ")
    assert said in message
    assert "\n" not in message


def test_an_id_that_is_taken(tmp_path: Path) -> None:
    page = PAGE.replace("own-rule", "gate-removed")
    path = write(tmp_path, "sync/gate-removed.yaml", page)
    message = complaint(tmp_path)
    assert message.startswith(f"{path}: id: 'gate-removed'")
    assert str(rulebook.packaged_rules()) in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("write_verb: [stash]", "`write_verb`"),
        ("write_verbs: stash", "at `write_verbs`"),
        ("write_verbs: [on]", "at `write_verbs[0]`"),
        ("primitive_waits: [ready]", "at `primitive_waits`"),
        ("primitive_waits: {ready: often}", "at `primitive_waits[...]`"),
        ("[1, 2]", "Expected `object`"),
    ],
)
def test_bad_vocabulary(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, "vocab/own.yaml", text)
    message = complaint(tmp_path)
    assert message.startswith(f"{path}: ")
    assert said in message


def test_yaml_cannot_make_objects(tmp_path: Path) -> None:
    write(tmp_path, "vocab/own.yaml", "write_verbs: !!python/object/apply:os.getcwd []\n")
    assert "python/object" in complaint(tmp_path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = write(tmp_path, "vocab/own.yaml", "")
    path.write_bytes(b"write_verbs: [\xff]\n")
    assert complaint(tmp_path) == f"{path}: is not UTF-8 (byte 14)"


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
        assert rulebook.load([tmp_path]).rule("own-rule").effect == effect
    else:
        assert "at `effect`" in complaint(tmp_path)


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
    assert rulebook.load([tmp_path]).rule("own-rule").means == means


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
