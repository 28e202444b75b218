"""Renders hostile chat templates in a process of its own: one template a line in, facts out.

Run by path as a program (``template.py`` starts it), so it imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, ext, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

# Words that no template holds by itself (``template.py`` says which): what of a conversation
# survives is told by them.
NAME, KEY, VALUE, RESULT, CALL_ID = sys.argv[1:6]

MOST_OUTPUT = 1_000_000
MOST_MEMORY = 1 << 30
SECONDS_A_RENDERING = 2.0
_MOST_TEXT = 4_000
_MOST_CONSTANTS = 400
_TOGGLES = ("enable_thinking", "thinking")

_FUNCTION = {
    "name": NAME,
    "description": "says what is at a place",
    "parameters": {
        "type": "object",
        "properties": {KEY: {"type": "string", "description": "a place"}},
        "required": [KEY],
    },
}
_SHAPES: dict[str, list[dict[str, Any]]] = {
    "wrapped": [{"type": "function", "function": _FUNCTION}],
    "flat": [_FUNCTION],
}
_SYSTEM = {"role": "system", "content": "You are of use."}
_USER = {"role": "user", "content": "What is there?"}
_LATER = {"role": "user", "content": "And then?"}


class Stop(Exception):
    """The template does what no template should: it is not rendered again."""


class _Generation(ext.Extension):
    """The block by which transformers marks the assistant's tokens; it renders what it holds."""

    tags = {"generation"}  # noqa: RUF012 (as jinja2 declares it)

    def parse(self, parser: Any) -> nodes.Node | list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime(2026, 1, 1).strftime(form)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _environment() -> ImmutableSandboxedEnvironment:
    """As the server's library makes it (transformers' ``_compile_jinja_template``)."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _call(arguments: str, content: str | None) -> dict[str, Any]:
    given: Any = {KEY: VALUE}
    if arguments == "str":
        given = json.dumps(given)
    call = {"id": CALL_ID, "type": "function", "function": {"name": NAME, "arguments": given}}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


def _result(content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": CALL_ID, "name": NAME, "content": content}


class _Study:
    """One template under test: every question is a rendering, bounded in time and size."""

    def __init__(self, text: str) -> None:
        environment = _environment()
        tree = environment.parse(text)
        self.facts: dict[str, Any] = {
            "constants": list(itertools.islice(_constants(tree), _MOST_CONSTANTS)),
            "variables": sorted(meta.find_undeclared_variables(tree)),
            "walks_content": _walks_content(tree),
        }
        self._tree, self._environment = tree, environment
        self._first = [_SYSTEM, _USER]

    def run(self) -> None:
        self._template = self._environment.from_string(self._tree)
        if not self._plain():
            return
        self._tools()
        self._calls()
        self._results()
        self._thinking()

    def _render(self, messages: list[dict[str, Any]], **given: Any) -> str:
        kept: list[str] = []
        size = 0
        values = {"bos_token": "", "eos_token": "", "unk_token": "", "pad_token": "", **given}
        values.setdefault("add_generation_prompt", False)
        # Many templates change the messages they are given, so each rendering has its own.
        copy = json.loads(json.dumps(messages))
        with _limited():
            for part in self._template.generate(messages=copy, **values):
                size += len(part)
                if size > MOST_OUTPUT:
                    raise Stop(f"writes more than {MOST_OUTPUT // 1_000_000} MB")
                kept.append(part)
        return "".join(kept)

    def _try(self, messages: list[dict[str, Any]], **given: Any) -> tuple[str | None, str]:
        try:
            return self._render(messages, **given), ""
        except SecurityError as error:
            raise Stop(f"reaches for what a template may not use ({_line(error)})") from error
        except MemoryError as error:
            raise Stop("needs too much memory") from error
        except (Stop, RecursionError):
            raise
        except Exception as error:
            return None, _line(error)

    def _plain(self) -> bool:
        for first in ([_SYSTEM, _USER], [_USER]):
            text, reason = self._try(first, add_generation_prompt=True)
            if text is not None:
                self._first = first
                self.facts["renders"] = True
                return True
            self.facts["plain_error"] = reason
        return False

    def _tools(self) -> None:
        """Under which shape of a definition the tools reach the prompt."""
        shown, errors = [], {}
        for shape, tools in _SHAPES.items():
            for first in (self._first, [_USER]):
                text, reason = self._try(first, tools=tools, add_generation_prompt=True)
                if text is not None and NAME in text and KEY in text:
                    shown.append(shape)
                    break
                if reason:
                    errors[shape] = reason
        self.facts["shapes"] = shown
        self.facts["shape_errors"] = {s: e for s, e in errors.items() if s not in shown}

    def _ways(self) -> Iterator[tuple[list[dict[str, Any]], dict[str, Any], str | None]]:
        shapes = sorted(_SHAPES, key=lambda shape: shape not in self.facts["shapes"])
        given: list[dict[str, Any]] = [{"tools": _SHAPES[shape]} for shape in shapes]
        yield from itertools.product((self._first, [_USER]), (*given, {}), ("", None))

    def _calls(self) -> None:
        """Whether a call is shown, for arguments as an object and as a string of JSON."""
        self.facts["arguments"] = {}
        self._working = ""
        for kind in ("dict", "str"):
            state, text = self._call_state(kind)
            self.facts["arguments"][kind] = state
            if state == "shown" and not self._working:
                self._working = kind
                self.facts["call"] = text[:_MOST_TEXT]

    def _call_state(self, kind: str) -> tuple[str, str]:
        outcomes: list[str] = []
        for first, given, content in self._ways():
            before, _ = self._try(first, **given)
            for rest in ([], [_result(RESULT)], [_result(RESULT), _LATER]):
                messages = [*first, _call(kind, content), *rest]
                text, reason = self._try(messages, **given)
                if text is None:
                    outcomes.append(reason)
                    continue
                suffix = text[_common(before or "", text) :]
                # A format may hold the id in the name's place, which says the name too (Kimi K2).
                named = NAME in suffix or CALL_ID in suffix
                if not named or VALUE not in suffix:
                    outcomes.append("lost")
                elif kind == "str" and f'\\"{KEY}' in suffix:
                    outcomes.append("doubled")
                else:
                    return "shown", _before_result(suffix)
        # The first is what the server tries first; the others are its second thoughts.
        return outcomes[0], ""

    def _results(self) -> None:
        if not self._working:
            return
        for name, content in (("result", RESULT), ("list_result", [_part(RESULT)])):
            self.facts[name] = self._result_state(content)

    def _result_state(self, content: Any) -> str:
        error, lost = "", False
        for first, given, said in self._ways():
            for rest in ([], [_LATER]):
                messages = [*first, _call(self._working, said), _result(content), *rest]
                text, reason = self._try(messages, add_generation_prompt=True, **given)
                if text is None:
                    error = error or reason
                elif RESULT in text:
                    return "shown"
                else:
                    lost = True
        return "lost" if lost else error or "lost"

    def _thinking(self) -> None:
        """What the generation prompt adds, by default and with a switch on and off."""
        self.facts["tail"] = self._tail({})
        for toggle in _TOGGLES:
            if toggle in self.facts["variables"]:
                self.facts["toggle"] = toggle
                self.facts["tail_on"] = self._tail({toggle: True})
                self.facts["tail_off"] = self._tail({toggle: False})
                return

    def _tail(self, given: dict[str, Any]) -> str:
        after, _ = self._try(self._first, add_generation_prompt=True, **given)
        before, _ = self._try(self._first, **given)
        if after is None:
            return ""
        # With no text to compare with, the end of the prompt tells as much.
        return after[_common(before, after) if before is not None else -200 :][-_MOST_TEXT:]


def _part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _before_result(text: str) -> str:
    end = text.find(RESULT)
    return text if end < 0 else text[:end]


def _common(first: str, second: str) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _line(error: BaseException) -> str:
    """A clause on an error, without the text of a hostile template beyond one line."""
    said = " ".join(str(error).split())[:160]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _constants(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    for node in tree.find_all((nodes.TemplateData, nodes.Const)):
        value = node.data if isinstance(node, nodes.TemplateData) else getattr(node, "value", "")
        if isinstance(value, str) and value.strip():
            yield node.lineno, value[:_MOST_TEXT]


def _walks_content(tree: nodes.Template) -> bool:
    """Whether the template loops over a message's content: the server then hands over lists."""
    for loop in tree.find_all(nodes.For):
        node = loop.iter
        while isinstance(node, nodes.Filter | nodes.Test) and node.node is not None:
            node = node.node
        if isinstance(node, nodes.Getattr) and node.attr == "content":
            return True
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            if node.arg.value == "content":
                return True
    return False


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Ends a rendering that takes too long; the parent ends what does not heed it."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def expired(*_: object) -> NoReturn:
        raise Stop(f"does not end within {SECONDS_A_RENDERING:.0f} seconds")

    signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_A_RENDERING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def study(text: str, render: bool = True) -> dict[str, Any]:
    """The facts of one template; ``unread`` says why it could not be rendered."""
    found: _Study | None = None
    try:
        found = _Study(text)
        if render:
            found.run()
        return found.facts
    except TemplateSyntaxError as error:
        reason = f"line {error.lineno} is no Jinja: {_line(error)}"
    except Stop as error:
        reason = str(error)
    except RecursionError:
        reason = "is nested too deeply"
    except MemoryError:
        reason = "needs too much memory"
    except Exception as error:
        reason = f"cannot be compiled: {_line(error)}"
    kept = found.facts if found is not None else {}
    static = ("constants", "variables", "walks_content")
    return {"unread": reason, **{name: kept[name] for name in static if name in kept}}


def groups(patterns: list[str], text: str) -> list[list[list[str]]]:
    """For each pattern the groups of its matches that took part; hostile ones match nothing."""
    found = []
    for pattern in patterns:
        matches: list[list[str]] = []
        hostile = (re.error, Stop, RecursionError, MemoryError, OverflowError)
        with contextlib.suppress(*hostile), _limited():
            for match in itertools.islice(re.finditer(pattern, text, re.DOTALL), 20):
                matches.append([part for part in match.groups() if part is not None])
        found.append(matches)
    return found


def main() -> None:
    """Answers a line of JSON with a line of JSON until the input ends."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        answer: Any
        if "patterns" in asked:
            answer = groups(asked["patterns"], asked["text"])
        else:
            answer = study(asked["text"], asked["render"])
        # ASCII, so that no half of a character pair breaks the line.
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
