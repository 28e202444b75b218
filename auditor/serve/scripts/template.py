"""What a chat template does, learnt by rendering it in a process that may die of it."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import TypeVar

import msgspec

SECONDS_A_TEMPLATE = 10.0
"""The wall time after which the process that renders is ended."""

MOST_BYTES = 1_000_000
"""The largest template that is looked at; real ones have at most some 30 kB."""

NAME, KEY, VALUE, RESULT = "zq_lookup_tool", "zq_place_key", "zq7placevalue", "zq7toolresult"
CALL_ID = "zq7Ab3Cd9"
"""The tool, its parameter, the argument, the answer and the call's id in what is rendered; some
templates demand an id of nine letters or digits."""

Matches = tuple[tuple[str, ...], ...]
"""The matches of one pattern: of each the groups that took part."""

_T = TypeVar("_T")

_MOST_ANSWER = 8_000_000


class TemplateFacts(msgspec.Struct, frozen=True):
    """What a template makes of conversations with tools.

    ``unread`` says why it was not rendered (no Jinja, endless, too large, forbidden): then only
    ``constants`` (line and text) may be known. ``shapes`` are the shapes of a tool definition
    (``wrapped`` in a ``function`` key, as the server sends it first, or ``flat``) that reach the
    prompt. ``call`` is the text of a tool call as the template writes it, empty where it writes
    none. ``arguments`` says for arguments as an object (``dict``: what the server hands over) and
    as a string of JSON (``str``): ``shown``, ``lost``, ``doubled`` (a string quoted once more) or
    the error. ``result`` and ``list_result`` say it of a tool's answer, as a string and as a list
    of parts. ``tail`` is what the generation prompt adds by default, ``tail_on`` and ``tail_off``
    with ``toggle``, the variable that switches thinking, set. ``walks_content`` says that the
    template loops over a message's content.
    """

    unread: str = ""
    constants: tuple[tuple[int, str], ...] = ()
    variables: tuple[str, ...] = ()
    walks_content: bool = False
    renders: bool = False
    plain_error: str = ""
    shapes: tuple[str, ...] = ()
    shape_errors: dict[str, str] = {}
    call: str = ""
    arguments: dict[str, str] = {}
    result: str = ""
    list_result: str = ""
    tail: str = ""
    toggle: str = ""
    tail_on: str = ""
    tail_off: str = ""


class Templates:
    """Asks one second process for all templates of a run; an answer is kept by the text.

    The process starts with the first question, is started anew where a template ended it, and ends
    with this object or with the program.
    """

    def __init__(self) -> None:
        self._known: dict[str, TemplateFacts] = {}
        self._groups: dict[tuple[tuple[str, ...], str], tuple[Matches, ...]] = {}
        self._child: _Child | None = None

    def facts(self, text: str) -> TemplateFacts:
        """The facts of a template as the server would hold it; never raises."""
        if text not in self._known:
            self._known[text] = self._study(text)
        return self._known[text]

    def groups(self, patterns: tuple[str, ...], text: str) -> tuple[Matches, ...]:
        """For each pattern of a hostile tree the groups of its matches in a text; never raises."""
        key = (patterns, text)
        if key not in self._groups:
            self._groups[key] = self._match(patterns, text) if patterns else ()
        return self._groups[key]

    def _match(self, patterns: tuple[str, ...], text: str) -> tuple[Matches, ...]:
        answer = self._ask({"patterns": patterns, "text": text}, tuple[Matches, ...])
        return () if isinstance(answer, str) else answer

    def close(self) -> None:
        """Ends the second process; a later question starts one again."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _study(self, text: str) -> TemplateFacts:
        if len(text) > MOST_BYTES:
            return TemplateFacts(unread=f"is larger than {MOST_BYTES // 1_000_000} MB")
        answer = self._ask({"text": text, "render": True}, TemplateFacts)
        if not isinstance(answer, str):
            return answer
        constants = self._ask({"text": text, "render": False}, TemplateFacts)
        if not isinstance(constants, str):
            return msgspec.structs.replace(constants, unread=constants.unread or answer)
        return TemplateFacts(unread=answer)

    def _ask(self, question: dict[str, object], kind: type[_T]) -> _T | str:
        """The answer of the second process, or why there is none."""
        try:
            if self._child is None:
                self._child = _Child()
            return msgspec.json.decode(self._child.ask(msgspec.json.encode(question)), type=kind)
        except (_Ended, msgspec.DecodeError, OSError, ValueError) as error:
            self.close()
            return str(error) or "the process that renders it cannot be used"


class _Ended(Exception):
    """The second process gave no answer."""


class _Child:
    """The process of ``render.py``, isolated from the environment and the current folder."""

    def __init__(self) -> None:
        program = Path(__file__).with_name("render.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(program), NAME, KEY, VALUE, RESULT, CALL_ID],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._answers: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, line: bytes) -> bytes:
        assert self._process.stdin is not None
        # A process that reads no more must not hold the audit: what it is sent is bounded, and a
        # new line is only sent after the answer to the last.
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()
        try:
            answer = self._answers.get(timeout=SECONDS_A_TEMPLATE)
        except queue.Empty:
            raise _Ended(f"does not end within {SECONDS_A_TEMPLATE:.0f} seconds") from None
        if not answer.endswith(b"\n"):
            raise _Ended("ends the process that renders it")
        return answer

    def end(self) -> None:
        self._process.kill()
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            while True:
                line = answers.readline(_MOST_ANSWER)
                self._answers.put(line)
                if not line.endswith(b"\n"):
                    return


def as_loaded(data: bytes) -> str:
    """A template's file as the server holds it: ``\\n`` written out becomes a line break.

    Source: ``_load_jinja_template`` of sglang's template manager.
    """
    return data.decode("utf-8", "replace").strip("\n").replace("\\n", "\n")
