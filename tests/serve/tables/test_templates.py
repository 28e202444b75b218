"""Encoders, built-in templates and ``auto`` rules from small trees of each shape."""

from __future__ import annotations

import re

import pytest

from auditor.serve.tables.auto import auto_rules, conversation_templates, path_matchers
from auditor.serve.tables.encoders import encoders
from auditor.serve.tables.facts import AutoRule, Encoder, PathMatcher
from tests.serve.tables.trees import tree

CHAIN = "sglang/srt/entrypoints/chat_encoding.py"


def _encoders(text: str, **others: str) -> tuple[Encoder, ...]:
    return encoders(tree(entrypoints__chat_encoding=text, **others))


def _terms(rows: tuple[Encoder, ...]) -> list[tuple[object, ...]]:
    return [
        (r.spec, r.parsers, r.architectures, r.model_types, r.without_template, r.undecided)
        for r in rows
    ]


def test_a_chain_of_if_and_return() -> None:
    rows = _encoders(
        """
        def resolve_chat_encoding_spec(*, hf_config, tokenizer, tool_call_parser=None):
            if tool_call_parser == "new":
                return "spec-new"
            if tool_call_parser in ("old", "older"):
                return "spec-old"
            architectures = hf_config.architectures
            arch = architectures[0] if architectures else ""
            if "NewModel" in arch or hf_config.model_type == "new_model":
                return "spec-new"
            has_template = tokenizer is not None and tokenizer.chat_template is not None
            if "OldModel" in arch and not has_template:
                return "spec-old"
            return None
        """
    )
    assert rows[0] == Encoder(
        spec="spec-new",
        condition="tool_call_parser == 'new'",
        path=CHAIN,
        line=4,
        parsers=("new",),
    )
    assert _terms(rows) == [
        ("spec-new", ("new",), (), (), False, False),
        ("spec-old", ("old", "older"), (), (), False, False),
        ("spec-new", (), ("NewModel",), (), False, False),
        ("spec-new", (), (), ("new_model",), False, False),
        ("spec-old", (), ("OldModel",), (), True, False),
    ]
    assert rows[-1].condition == "'OldModel' in arch and (not has_template)"


def test_tests_in_functions_of_other_modules() -> None:
    rows = _encoders(
        """
        from sglang.srt.entrypoints.family import is_new
        def resolve_chat_encoding_spec(config, tool_call_parser):
            if is_new(arch=config.architectures[0], kind=config.model_type):
                return "new"
        """,
        entrypoints__family="""
            def is_new(*, arch, kind):
                return kind == "new_model" or "NewModel" in arch
        """,
    )
    assert _terms(rows) == [
        ("new", (), (), ("new_model",), False, False),
        ("new", (), ("NewModel",), (), False, False),
    ]


def test_a_fork_s_own_rows_before_those_it_passes_on_to() -> None:
    rows = _encoders(
        """
        def resolve_chat_encoding_spec(arch, tool_call_parser):
            if tool_call_parser == "theirs":
                return "theirs"
            return None
        """,
        entrypoints__serving="""
            from sglang.srt.entrypoints import chat_encoding
            class Serving:
                def _resolve_chat_encoding_spec(self):
                    if self.tool_call_parser == "ours":
                        return "ours"
                    return chat_encoding.resolve_chat_encoding_spec(
                        self.arch, tool_call_parser=self.tool_call_parser
                    )
        """,
    )
    assert [(r.spec, r.parsers, r.path.rpartition("/")[2]) for r in rows] == [
        ("ours", ("ours",), "serving.py"),
        ("theirs", ("theirs",), "chat_encoding.py"),
    ]


def test_a_method_that_only_says_whether_the_encoder_is_used() -> None:
    rows = _encoders(
        """
        from sglang.srt.entrypoints.encoding_dsx import encode_messages
        class Serving:
            def _use_dsx_encoding(self) -> bool:
                has_chat_template = (
                    self.manager.tokenizer is not None
                    and self.manager.tokenizer.chat_template is not None
                )
                architectures = self.manager.get_hf_config().architectures
                is_dsx = "ModelX" in architectures[0] if architectures else False
                return not has_chat_template and is_dsx
        """
    )
    assert _terms(rows) == [("dsx", (), ("ModelX",), (), True, False)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            (
                "SPECS = {'a': 'spec-a', 'b': 'spec-b'}\n"
                "def resolve_chat_encoding_spec(tool_call_parser):\n"
                "    return SPECS.get(tool_call_parser)\n"
            ),
            [
                ("spec-a", ("a",), (), (), False, False),
                ("spec-b", ("b",), (), (), False, False),
            ],
        ),
        (
            (
                "def resolve_chat_encoding_spec(tool_call_parser):\n"
                "    return 'spec' if tool_call_parser == 'a' else None\n"
            ),
            [("spec", ("a",), (), (), False, False)],
        ),
        (
            (
                "def resolve_chat_encoding_spec(tool_call_parser, args):\n"
                "    if args.chat_template is not None:\n"
                "        return None\n"
                "    if tool_call_parser == 'a':\n"
                "        return 'spec'\n"
            ),
            [("spec", ("a",), (), (), True, False)],
        ),
        (
            (
                "def resolve_chat_encoding_spec(tool_call_parser, arch):\n"
                "    if tool_call_parser == 'a' and enabled():\n"
                "        return 'spec'\n"
                "    if any(part in arch for part in ('One', 'Two')):\n"
                "        return 'other'\n"
            ),
            [
                ("spec", ("a",), (), (), False, True),
                ("other", (), ("One",), (), False, False),
                ("other", (), ("Two",), (), False, False),
            ],
        ),
        (
            (
                "def resolve_chat_encoding_spec(tool_call_parser):\n"
                "    if tool_call_parser == 'a':\n"
                "        return 'one'\n"
                "    elif tool_call_parser == 'b':\n"
                "        return 'two'\n"
                "    else:\n"
                "        return None\n"
            ),
            [("one", ("a",), (), (), False, False), ("two", ("b",), (), (), False, False)],
        ),
    ],
    ids=["table", "one expression", "excluded first", "undecided", "elif"],
)
def test_other_shapes_of_the_chain(text: str, expected: list[tuple[object, ...]]) -> None:
    assert _terms(_encoders(text)) == expected


def test_a_tree_without_native_encoders_has_no_rows() -> None:
    assert _encoders("def get_encoding(name):\n    return 'utf-8'\n") == ()


CONVERSATION = """
import re
from dataclasses import dataclass

@dataclass
class Conversation:
    name: str
    system: str = ""

chat_templates = {}
matching = []
SEEN = re.compile(r"seen-v\\d", re.I)
KINDS = {"model_x": "template-x"}

def register_conv_template(template, override=False):
    chat_templates[template.name] = template

def register_conv_template_matching_function(func):
    matching.append(func)

register_conv_template(
    Conversation(
        name="first",
    )
)
register_conv_template(Conversation("second", "s"))
register_conv_template(Conversation(name=computed()))

@register_conv_template_matching_function
def match_regex(model_path: str):
    if re.search(r"\\bword\\b", model_path, re.IGNORECASE):
        return "first"
    model_type = get_model_type(model_path)
    return KINDS.get(model_type)

@register_conv_template_matching_function
def match_text(path: str):
    lowered = path.lower()
    if "a.b" in lowered:
        return "second"

@register_conv_template_matching_function
def match_case(model_path: str):
    if "Exact" in model_path:
        return "first"

@register_conv_template_matching_function
def match_compiled(model_path: str):
    if SEEN.search(model_path):
        return "second"

@register_conv_template_matching_function
def match_groups(model_path: str):
    if re.search(r"mini-(v|O)-4", model_path, re.IGNORECASE):
        return None
    match = re.search(r"mini-(v|O)", model_path, re.IGNORECASE)
    if match:
        return f"mini{match.group(1).lower()}"

@register_conv_template_matching_function
def match_type(model_path: str):
    if get_model_type(model_path) == "x":
        return "first"
    model_type = get_model_type(model_path)
    if model_type in ("y", "z") and "both" in model_path:
        return "second"
"""


def test_names_of_built_in_templates() -> None:
    found = tree(parser__conversation=CONVERSATION)
    lines = CONVERSATION.splitlines()
    rows = conversation_templates(found)
    assert [(row.name, lines[row.line - 1]) for row in rows] == [
        ("first", "register_conv_template("),
        ("second", 'register_conv_template(Conversation("second", "s"))'),
    ]
    number = lines.index("register_conv_template(Conversation(name=computed()))") + 1
    assert found.notes == [
        f"sglang/srt/parser/conversation.py:{number}: a template's name comes at run time"
    ]


@pytest.fixture(scope="module")
def matchers() -> tuple[PathMatcher, ...]:
    return path_matchers(tree(parser__conversation=CONVERSATION))


def _picked(matchers: tuple[PathMatcher, ...], path: str) -> str | None:
    for row in matchers:
        if not row.model_types:
            if re.search(row.pattern, path, re.IGNORECASE if row.ignore_case else 0):
                return row.template
    return None


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/models/a Word here", "first"),
        ("/models/sword", None),
        ("/models/A.B-7b", "second"),
        ("/models/aXb", None),
        ("/models/Exact", "first"),
        ("/models/exact", None),
        ("/models/SEEN-v2", "second"),
        ("/models/Mini-V-2.6", "miniv"),
        ("/models/mini-o-2", "minio"),
        ("/models/mini-v-4.6", None),
    ],
)
def test_paths_pick_what_the_functions_would(
    matchers: tuple[PathMatcher, ...], path: str, template: str | None
) -> None:
    assert _picked(matchers, path) == template


def test_a_matcher_says_where_it_stands_and_what_it_asks_for(
    matchers: tuple[PathMatcher, ...],
) -> None:
    lines = CONVERSATION.splitlines()
    first = matchers[0]
    assert first == PathMatcher(
        template="first",
        pattern=r"\bword\b",
        ignore_case=True,
        path="sglang/srt/parser/conversation.py",
        line=next(i for i, line in enumerate(lines) if "word" in line) + 2,
    )
    assert [(row.template, row.pattern, row.model_types) for row in matchers[-1:]] == [
        ("second", "both", ("y", "z"))
    ]


DETECTION = """
import re
from dataclasses import dataclass
from typing import Callable

@dataclass(frozen=True)
class Context:
    template: str
    config: object
    vocab: set

    def has_text(self, needle):
        return needle in self.template

    def has_vocab(self, token):
        return token in self.vocab

    def has_pattern(self, pattern):
        return re.search(pattern, self.template) is not None

@dataclass(frozen=True)
class DetectionRule:
    name: str
    value: object
    predicate: Callable

REASONING_MODE_RULES = (
    DetectionRule(name="mode", value=Mode(on=True), predicate=lambda ctx: ctx.has_text("m")),
)

def _is_a(ctx):
    return ctx.has_text("<a>") and ctx.has_text("<b>") and not ctx.has_text("<c>")

def _is_b(ctx):
    if ctx.has_vocab("<b>"):
        return True
    return ctx.has_text("<b>")

def _is_c(ctx):
    found = ctx.has_text("<c1>") or ctx.has_text("<c2>")
    return found

REASONING_PARSER_RULES = (
    DetectionRule(name="a", value="reason-a", predicate=_is_a),
    DetectionRule(name="l", value="reason-l", predicate=lambda ctx: ctx.has_text("<l>")),
)
TOOL_CALL_PARSER_RULES = (
    DetectionRule(name="b", value="tool-b", predicate=_is_b),
    DetectionRule(name="c", value="tool-c", predicate=_is_c),
    DetectionRule(name="p", value="tool-p", predicate=lambda ctx: ctx.has_pattern("x+")),
    DetectionRule("not a", "tool-n", lambda ctx: ctx.has_text("<n>") and not _is_c(ctx)),
)

def _architecture_auto_parsers(config):
    arch = config.architectures[0] if config.architectures else ""
    if "ModelX" in arch or config.model_type == "x":
        reasoning_parser, tool_call_parser = "reason-x", "tool-x"
    elif arch in ("ModelY", "ModelZ"):
        tool_call_parser = "tool-y"
    else:
        return None
"""


def test_rules_of_auto() -> None:
    path = "sglang/srt/parser/template_detection.py"
    rows = auto_rules(
        tree(
            parser__template_detection=DETECTION,
            parser__manager=(
                "from sglang.srt.parser.template_detection import TOOL_CALL_PARSER_RULES\n"
                "DetectionRule = None\n"
            ),
        )
    )
    lines = DETECTION.splitlines()
    assert rows[0] == AutoRule(
        kind="reasoning",
        parser="reason-a",
        path=path,
        line=next(i for i, line in enumerate(lines) if '"reason-a"' in line) + 1,
        contains=("<a>", "<b>"),
        excludes=("<c>",),
    )
    assert [
        (r.kind, r.parser, r.contains, r.any_of, r.excludes, r.architecture, r.undecided)
        for r in rows[1:]
    ] == [
        ("reasoning", "reason-l", ("<l>",), (), (), "", False),
        ("tool", "tool-b", (), (), (), "", True),
        ("tool", "tool-b", ("<b>",), (), (), "", True),
        ("tool", "tool-c", (), ("<c1>", "<c2>"), (), "", False),
        ("tool", "tool-p", (), (), (), "", True),
        ("tool", "tool-n", ("<n>",), (), ("<c1>", "<c2>"), "", False),
        ("reasoning", "reason-x", (), (), (), "ModelX", False),
        ("reasoning", "reason-x", (), (), (), "", True),
        ("tool", "tool-x", (), (), (), "ModelX", False),
        ("tool", "tool-x", (), (), (), "", True),
        ("tool", "tool-y", (), (), (), "ModelY", False),
        ("tool", "tool-y", (), (), (), "ModelZ", False),
    ]


HOSTILE = {
    "itself": "def resolve_chat_encoding_spec(arch):\n    return resolve_chat_encoding_spec(arch)",
    "each other": (
        "def f(arch):\n    return g(arch)\ndef g(arch):\n    return f(arch)\n"
        "def resolve_chat_encoding_spec(arch):\n    if f(arch):\n        return 'x'"
    ),
    "name of itself": (
        "def resolve_chat_encoding_spec(arch):\n    arch = arch\n    if arch:\n        return arch"
    ),
    "many alternatives": (
        "def resolve_chat_encoding_spec(arch):\n    if "
        + " and ".join(f"('a{i}' in arch or 'b{i}' in arch)" for i in range(40))
        + ":\n        return 'x'"
    ),
    "twofold functions": "".join(
        f"def f{i}(arch):\n    return f{i - 1}(arch) or f{i - 1}(arch)\n"
        if i
        else "def f0(arch):\n    return 'a' in arch and unknown()\n"
        for i in range(40)
    )
    + "def resolve_chat_encoding_spec(arch):\n    if f39(arch):\n        return 'x'",
    "many conditions": "def resolve_chat_encoding_spec(arch):\n"
    + "".join(f"    if unknown({i}):\n        return None\n" for i in range(500))
    + "    if 'a' in arch:\n        return 'x'",
    "many branches": "def f(arch):\n"
    + "".join(f"    if unknown({i}):\n        x = {i}\n" for i in range(60))
    + "    return 'a' in arch\n"
    + "def resolve_chat_encoding_spec(arch):\n    if f(arch):\n        return 'x'",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_chains_are_bounded_and_decide_nothing(text: str) -> None:
    seen = "class Config:\n    architectures = ['a']\n"
    plain = "def resolve_chat_encoding_spec(arch):\n    if 'a' in arch:\n        return 'x'\n"
    assert [row.undecided for row in _encoders(seen + plain)] == [False]
    assert all(row.undecided for row in _encoders(seen + text))


def test_a_deep_condition_is_bounded() -> None:
    deep = " + ".join(["arch"] * 3000)
    rows = _encoders(
        "def resolve_chat_encoding_spec(arch, tool_call_parser):\n"
        f"    if tool_call_parser == 'a' and ({deep}):\n        return 'x'\n"
    )
    assert all(row.undecided for row in rows)


def test_a_chain_that_cannot_be_followed_is_a_note() -> None:
    found = tree(
        a="""
            def resolve_chat_encoding_spec(config):
                if loaded(config.architectures):
                    return "x"
        """
    )
    assert encoders(found) == ()
    assert found.notes == ["sglang/srt/a.py:2: resolve_chat_encoding_spec cannot be followed"]
