"""Parser tables from small trees: every way to declare a marker or a row that the field knows."""

from __future__ import annotations

from textwrap import dedent

import pytest

from auditor.serve.tables.constants import Tree
from auditor.serve.tables.facts import ReasoningParser, ToolParser
from auditor.serve.tables.parsers import cli_choices, reasoning_parsers, tool_parsers
from tests.serve.tables.trees import tree

BASE = """
class BaseFormatDetector:
    def __init__(self):
        self.bot_token = ""
        self.eot_token = ""
        self.tool_call_separator = ", "
"""


def _tools(body: str, rows: str = '"x": X', after: str = "", **others: str) -> Tree:
    table = f"""
from sglang.srt.function_call.base import BaseFormatDetector
from sglang.srt.function_call.x import *

class FunctionCallParser:
    ToolCallParserEnum = {{{rows}}}
    def __init__(self, name, tokenizer=None):
        kwargs = {{}}
        kwargs["tokenizer"] = tokenizer
        self.detector = self.ToolCallParserEnum[name](**kwargs)
{dedent(after)}
"""
    head = "from sglang.srt.function_call.base import BaseFormatDetector\n"
    return tree(
        function_call__function_call_parser=table,
        function_call__base=BASE,
        function_call__x=head + dedent(body),
        **others,
    )


def _tool(body: str, **others: str) -> ToolParser:
    (found,) = tool_parsers(_tools(body, **others))
    return found


def test_markers_set_in_init() -> None:
    found = _tool(
        '''
        class X(BaseFormatDetector):
            """Calls between two tags.

            More about it.
            """
            def __init__(self):
                super().__init__()
                self.bot_token = "<call>"
                self.eot_token: str = "</call>"
                self.inner_regex = r"<a>(.*?)</a>"
        '''
    )
    assert found == ToolParser(
        name="x",
        class_name="X",
        path="sglang/srt/function_call/function_call_parser.py",
        line=6,
        class_path="sglang/srt/function_call/x.py",
        starts=("<call>",),
        ends=("</call>",),
        markers={"bot_token": "<call>", "eot_token": "</call>"},
        about="Calls between two tags.",
    )


def test_markers_from_another_module_and_from_class_attributes() -> None:
    found = _tool(
        """
        from .x_format import BEGIN
        from . import x_format
        class X(BaseFormatDetector):
            OPEN_TAG = BEGIN
            CLOSE_TAG = x_format.END
            def has_tool_call(self, text):
                return self.OPEN_TAG in self.normalized(text)
        """,
        function_call__x_format="BEGIN = '<|begin|>'\nEND = BEGIN.replace('begin', 'end')",
    )
    assert (found.starts, found.ends) == (("<|begin|>",), ("<|end|>",))
    assert found.markers == {"OPEN_TAG": "<|begin|>", "CLOSE_TAG": "<|end|>"}


def test_a_base_builds_its_markers_of_the_subclass_s_words() -> None:
    found = _tool(
        """
        class Old(BaseFormatDetector):
            bar = "|DS|"
            block = "function_calls"
            def __init__(self):
                super().__init__()
                tag = f"{self.bar}{self.block}"
                self.bot_token = f"<{tag}>"
                self.eot_token = f"</{tag}>"
        class X(Old):
            block = "tool_calls"
        """
    )
    assert found.markers == {
        "bar": "|DS|",
        "bot_token": "<|DS|tool_calls>",
        "eot_token": "</|DS|tool_calls>",
    }


def test_a_base_takes_its_markers_as_parameters() -> None:
    found = _tool(
        """
        class Tagged(BaseFormatDetector):
            def __init__(self, tag, closing="end", **rest):
                super().__init__(**rest)
                self.bot_token = "<" + tag + ">"
                self.eot_token = f"<{closing} {tag}>"
        class X(Tagged):
            def __init__(self, *args, **kwargs):
                super().__init__("x", *args, **kwargs)
        """
    )
    assert (found.starts, found.ends) == (("<x>",), ("<end x>",))


@pytest.mark.parametrize(
    ("name", "opens", "closes"),
    [
        ("tool_call_start_token", True, False),
        ("TOOL_CALL_END", False, True),
        ("opening", True, False),
        ("callBegin", True, False),
        ("suffix", False, True),
        ("parameter_prefix", False, False),
        ("function_end_token", False, False),
        ("dsml_token", False, False),
    ],
)
def test_words_of_a_name_say_what_a_marker_does(name: str, opens: bool, closes: bool) -> None:
    found = _tool(f"class X(BaseFormatDetector):\n    {name} = '<tag>'")
    assert (found.starts == ("<tag>",), found.ends == ("<tag>",)) == (opens, closes)
    assert found.markers == {name: "<tag>"}


def test_what_the_class_itself_looks_for_counts_before_names() -> None:
    found = _tool(
        """
        from sglang.srt.function_call.marks import has_marks
        FOURTH = ("<4a>", "<4b>")
        class X(BaseFormatDetector):
            first = "<1>"
            start_of_something = "<other>"
            def has_tool_call(self, text: str) -> bool:
                if self.first not in text:
                    return False
                return (
                    "<2>" in text
                    or text.startswith("{")
                    or has_marks(text)
                    or any(word in text for word in FOURTH)
                    or self.also(text.strip())
                )
            def also(self, text):
                return "<5>" in text
        """,
        function_call__marks="THIRD = '<3>'\ndef has_marks(text):\n    return THIRD in text",
    )
    assert sorted(found.starts) == sorted(("<1>", "<2>", "{", "<3>", "<4a>", "<4b>", "<5>"))


def test_what_the_base_looks_for_counts_with_the_subclass_s_markers() -> None:
    found = _tool(
        """
        class Y(BaseFormatDetector):
            def has_tool_call(self, text):
                return self.mark in text
        class X(Y):
            mark = "<mark>"
            def has_tool_call(self, text):
                return super().has_tool_call(text.strip())
        """
    )
    assert found.starts == ("<mark>",)


def test_markers_of_the_tokenizer_are_said_to_come_at_run_time() -> None:
    found = _tool(
        """
        def tokens(tokenizer):
            found = {}
            for name in tokenizer.get_vocab():
                found[name] = name
            return found
        class X(BaseFormatDetector):
            def __init__(self, tokenizer=None):
                super().__init__()
                self.bot_token = tokens(tokenizer)["call"]
                self.eot_token = "</x>" if tokenizer.old else "</y>"
            def has_tool_call(self, text):
                return self.bot_token in text
        """
    )
    assert (found.starts, found.ends, found.markers) == ((), (), {})
    assert found.run_time == "bot_token, eot_token: set at run time"


def test_a_parser_without_markers_has_none_and_says_nothing_of_run_time() -> None:
    found = _tool(
        """
        import re
        class X(BaseFormatDetector):
            call = re.compile(r"\\[\\w+\\(")
            def has_tool_call(self, text):
                return bool(self.call.search(text))
        """
    )
    assert (found.starts, found.ends, found.run_time) == ((), (), "")


def test_a_class_from_outside_the_tree() -> None:
    (found,) = tool_parsers(_tools("from vendor.parsers import X"))
    assert (found.class_name, found.class_path) == ("X", "")
    assert found.run_time == "the class is not in the tree"


def _named(found: tuple[ToolParser, ...]) -> list[tuple[str, str, str, int]]:
    return [(row.name, row.class_name, row.path.rpartition("/")[2], row.line) for row in found]


TWO = "class X(BaseFormatDetector): pass\nclass Y(BaseFormatDetector): pass\n"


def test_rows_added_behind_the_class() -> None:
    found = tool_parsers(
        _tools(
            TWO,
            after="""
            FunctionCallParser.ToolCallParserEnum["a"] = X
            FunctionCallParser.ToolCallParserEnum.update({"b": Y})
            FunctionCallParser.ToolCallParserEnum |= {"x": Y}
            """,
        )
    )
    table = "function_call_parser.py"
    assert [row[:3] for row in _named(found)] == [
        ("x", "Y", table),
        ("a", "X", table),
        ("b", "Y", table),
    ]


def test_rows_added_by_another_module() -> None:
    found = tool_parsers(
        _tools(
            TWO,
            vendor__ours="""
                from sglang.srt.function_call.function_call_parser import FunctionCallParser
                class Ours: pass
                FunctionCallParser.ToolCallParserEnum["ours"] = Ours

                def register():
                    from sglang.srt.function_call.x import Y
                    FunctionCallParser.ToolCallParserEnum["y"] = Y
            """,
        )
    )
    assert _named(found) == [
        ("x", "X", "function_call_parser.py", 6),
        ("ours", "Ours", "ours.py", 4),
        ("y", "Y", "ours.py", 8),
    ]


def test_rows_computed_from_another_table() -> None:
    found = tool_parsers(
        _tools(
            TWO,
            rows='**MORE, "x": X',
            after="from sglang.srt.function_call.more import MORE",
            function_call__more="from .x import Y\nMORE = {\n    'm': Y,\n    **{'n': Y},\n}\n",
        )
    )
    assert _named(found) == [
        ("m", "Y", "more.py", 3),
        ("n", "Y", "more.py", 4),
        ("x", "X", "function_call_parser.py", 6),
    ]


def test_rows_that_come_at_run_time_are_a_note() -> None:
    found = _tools(TWO, rows='"x": X, **load()')
    assert [row.name for row in tool_parsers(found)] == ["x"]
    assert found.notes == [
        (
            "sglang/srt/function_call/function_call_parser.py: some rows of "
            "FunctionCallParser.ToolCallParserEnum come at run time"
        )
    ]


@pytest.mark.parametrize(
    "text",
    [
        "class X: pass\nclass FunctionCallParser:\n    ToolCallParserEnum = {'x': X}",
        "class X: pass\nclass Renamed:\n    ToolCallParserEnum = {'x': X}",
        "class X: pass\nclass FunctionCallParser:\n    renamed = {'x': X}",
    ],
    ids=["moved", "class renamed", "attribute renamed"],
)
def test_a_table_that_a_fork_moved_or_renamed(text: str) -> None:
    found = tree(somewhere__else=text)
    assert [row.name for row in tool_parsers(found)] == ["x"]
    assert found.notes == []


def test_a_tree_without_a_table_says_so() -> None:
    found = tree(a="X = 1")
    assert tool_parsers(found) == ()
    assert found.notes == [
        "no class with ToolCallParserEnum, where --tool-call-parser is looked up"
    ]


def test_deprecated_names() -> None:
    found = _tools(
        TWO,
        rows='"old": X, "new": X',
        arg_groups__hook="""
            def handle(cfg):
                deprecated_tool_call_parsers = {"old": "new", "other": "new"}
                if cfg.tool_call_parser in deprecated_tool_call_parsers:
                    cfg.tool_call_parser = deprecated_tool_call_parsers[cfg.tool_call_parser]
        """,
    )
    assert [(row.name, row.deprecated_for) for row in tool_parsers(found)] == [
        ("old", "new"),
        ("new", ""),
    ]


REASONING = """
class Base:
    def __init__(
        self,
        think_start_token,
        think_end_token,
        force_reasoning=False,
        tool_start_token=None,
        previous_content="",
        reasoning_default="always",
    ):
        self.think_start_token = think_start_token
        self.think_end_token = think_end_token
        self.tool_start_token = tool_start_token
        self._in_reasoning = self.force_reasoning = force_reasoning
        self.reasoning_default = reasoning_default
        if self.think_start_token in previous_content:
            self._in_reasoning = True

class Always(Base):
    def __init__(self, force_reasoning: bool = True):
        super().__init__("<think>", "</think>", force_reasoning=True)

class Never(Base):
    def __init__(self, force_reasoning: bool = True):
        super().__init__("[T]", "[/T]", force_reasoning=False)

class Asked(Base):
    '''Asks the template.'''
    def __init__(self, force_reasoning: bool = False):
        super().__init__(
            "<think>",
            "</think>",
            force_reasoning=force_reasoning,
            tool_start_token="<call>",
            reasoning_default="enable_thinking",
        )

class Later(Asked):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.reasoning_default = "thinking"

class Vocabulary(Base):
    def __init__(self, force_reasoning: bool = False, tokenizer=None):
        open = tokenizer.think if tokenizer is not None else "<think>"
        super().__init__(open, "</think>", force_reasoning=force_reasoning)

class ReasoningParser:
    DetectorMap = {
        "always": Always,
        "never": Never,
        "asked": Asked,
        "asked-forced": Asked,
        "later": Later,
        "vocabulary": Vocabulary,
    }
    def __init__(self, model_type, force_reasoning=None, tokenizer=None):
        if model_type.lower() in {"asked-forced", "not a parser"}:
            force_reasoning = True
        if model_type.lower() == "asked" and force_reasoning is None:
            force_reasoning = unknown()
        kwargs = {}
        if force_reasoning is not None:
            kwargs["force_reasoning"] = force_reasoning
        kwargs["tokenizer"] = tokenizer
        self.detector = self.DetectorMap[model_type](**kwargs)
"""


@pytest.fixture(scope="module")
def reasoning() -> dict[str, ReasoningParser]:
    return {row.name: row for row in reasoning_parsers(tree(parser__reasoning_parser=REASONING))}


def test_a_reasoning_parser(reasoning: dict[str, ReasoningParser]) -> None:
    path = "sglang/srt/parser/reasoning_parser.py"
    line = REASONING.splitlines().index('        "asked": Asked,') + 1
    assert reasoning["asked"] == ReasoningParser(
        name="asked",
        class_name="Asked",
        path=path,
        line=line,
        class_path=path,
        start="<think>",
        end="</think>",
        forced=None,
        default_mode="enable_thinking",
        tool_start="<call>",
        about="Asks the template.",
    )


def test_who_forces_thinking(reasoning: dict[str, ReasoningParser]) -> None:
    assert {name: row.forced for name, row in reasoning.items()} == {
        "always": True,
        "never": False,
        "asked": None,
        "asked-forced": True,
        "later": None,
        "vocabulary": None,
    }


def test_a_mode_set_behind_the_base(reasoning: dict[str, ReasoningParser]) -> None:
    assert reasoning["later"].default_mode == "thinking"
    assert reasoning["later"].tool_start == "<call>"


def test_a_thinking_marker_of_the_tokenizer(reasoning: dict[str, ReasoningParser]) -> None:
    row = reasoning["vocabulary"]
    assert (row.start, row.end) == (None, "</think>")
    assert row.run_time == "think_start_token: set at run time"


def test_names_of_the_command_line() -> None:
    found = tree(
        server_args="""
            from sglang.srt.parser.reasoning_parser_names import REASONING_PARSER_NAMES
            NAMES = ["a", "b"]
            def add_cli_args(parser):
                parser.add_argument("--tool-call-parser", choices=[*NAMES, "auto"])
                parser.add_argument("--reasoning-parser", choices=list(names()))
        """,
        parser__reasoning_parser_names="REASONING_PARSER_NAMES = ['c', 'd']",
    )
    assert cli_choices(found) == {
        "--tool-call-parser": ("a", "b", "auto"),
        "--reasoning-parser": ("c", "d"),
    }


def test_names_of_a_declared_field() -> None:
    found = tree(
        fields="""
            class Args:
                tool_call_parser: A[str, Arg(help="h", choices=["a"])] = None
        """
    )
    assert cli_choices(found) == {"--tool-call-parser": ("a",)}


def test_choices_that_are_the_table_s_own_keys_are_no_list_apart() -> None:
    found = _tools(
        TWO,
        server_args="""
            from sglang.srt.function_call.function_call_parser import FunctionCallParser
            def add(parser):
                parser.add_argument(
                    "--tool-call-parser", choices=list(FunctionCallParser.ToolCallParserEnum)
                )
        """,
    )
    assert cli_choices(found) == {}


HOSTILE = {
    "bases in a circle": "class X(Y): pass\nclass Y(X): pass",
    "base of itself": "class X(X): pass",
    "endless init": """
class X(BaseFormatDetector):
    def __init__(self):
        self.__init__()
""",
    "endless test": """
class X(BaseFormatDetector):
    def has_tool_call(self, text):
        return self.has_tool_call(text)
""",
    "huge marker": "class X(BaseFormatDetector):\n    bot_token = '<' * 10 ** 9",
    "deep nesting": "class X(BaseFormatDetector):\n    bot_token = " + "(" * 9000 + ")" * 9000,
    "syntax error": "class X(BaseFormatDetector:",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_classes_are_rows_without_markers(text: str) -> None:
    (found,) = tool_parsers(_tools(text))
    assert (found.name, found.starts, found.markers) == ("x", (), {})
