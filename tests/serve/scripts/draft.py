"""A serve script while it is written: its lines, the flags it has used, what its caller may set.

Idioms write into a ``Draft``. They ask it for a flag that no other idiom has taken, for variables
that nothing else uses, and hand arguments over in whichever style the script as a whole is written
(words of the command, an array, a string, the positional parameters).
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

FLAGS: dict[str, tuple[str, ...]] = {
    "--tp-size": ("1", "2", "4", "8"),
    "--port": ("30000", "8000", "8080", "30010"),
    "--host": ("0.0.0.0", "127.0.0.1", "localhost"),
    "--tool-call-parser": ("qwen25", "deepseekv3", "kimi_k2", "pythonic", "llama3"),
    "--reasoning-parser": ("deepseek-r1", "qwen3", "kimi"),
    "--kv-cache-dtype": ("auto", "fp8_e4m3", "fp8_e5m2"),
    "--attention-backend": ("triton", "fa3", "flashinfer"),
    "--mem-fraction-static": ("0.8", "0.85", "0.9"),
    "--context-length": ("4096", "8192", "32768"),
    "--served-model-name": ("chat", "my-model", "prod.v1"),
    "--log-level": ("info", "warning", "debug"),
    "--schedule-policy": ("lpm", "fcfs"),
    "--random-seed": ("1", "7", "42"),
    "--max-running-requests": ("16", "64", "128"),
    "--chunked-prefill-size": ("2048", "4096", "8192"),
    "--dp-size": ("1", "2"),
    "--stream-interval": ("1", "2", "5"),
    "--dtype": ("auto", "bfloat16"),
}
"""Flags that take one value, and values that every tree takes."""
JSON = "--json-model-override-args"
JSON_VALUES = ('{"a":1,"b":2}', '{"rope": {"factor": 2}}', '{"n": [1, 2]}')
MODEL = "--model-path"
MODELS = ("org/model-8b", "/data/weights/base", "org/Big_Model")
SWITCHES = (
    "--enable-hierarchical-cache",
    "--disable-radix-cache",
    "--trust-remote-code",
    "--enable-metrics",
    "--skip-server-warmup",
    "--enable-mixed-chunk",
    "--log-requests",
)
STYLES = ("line", "array", "string", "set")
MOST_INPUTS = 16
"""Inputs of a script: all combinations are run, so that what a reader joins can be judged."""
_MOST_TESTED = 8
"""Inputs that tests alone ask for: what cannot do without a variable needs some as well."""

_HINTS = ("MODE", "PROFILE", "KIND", "LEVEL", "SIZE", "value", "choice", "TARGET", "GPU", "name")
_BARE = re.compile(r"[\w./:@%+-]+$")


class Full(Exception):
    """The script has no room for an idiom: no flag is left, or no further input."""


@dataclass(frozen=True)
class Value:
    """A value as one word of a command, and as it stands within double quotes."""

    word: str
    inner: str


@dataclass(frozen=True)
class Input:
    """What a caller gives to a script."""

    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Script:
    """A script with what a judge has to know of it.

    ``owners`` are the idioms that wrote a flag. ``soft`` flags have a value that the reader takes
    for the script's own although its caller may replace it; ``open`` flags come from the caller.
    """

    text: str
    path: str
    inputs: tuple[Input, ...]
    idioms: tuple[str, ...] = ()
    owners: tuple[tuple[str, tuple[str, ...]], ...] = ()
    soft: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()


@dataclass
class State:
    """All that an idiom may change, so that one that did not fit can be taken back."""

    lines: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    flags: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(FLAGS))
    switches: list[str] = field(default_factory=lambda: list(SWITCHES))
    json: bool = True
    model: bool = True
    axes: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    argument_lists: tuple[tuple[str, ...], ...] = ((),)
    owners: dict[str, tuple[str, ...]] = field(default_factory=dict)
    soft: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    idioms: list[str] = field(default_factory=list)
    passing: bool = False
    folder_known: bool = True


class Draft:
    """Writes one script."""

    def __init__(self, rng: Random, style: str) -> None:
        self.rng = rng
        self.style = style
        self.state = State()
        self.depth = 0
        self.in_function = False
        self.stack: list[str] = []
        self._count = 0
        self.extra = rng.choice(("EXTRA_ARGS", "more", "OPTS"))
        self.array = rng.choice(("ARGS", "CMD", "server_args", "launch"))
        self.string = rng.choice(("CMD", "cmd", "COMMAND"))

    # Chance.

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    # What idioms take.

    def name(self, hint: str = "") -> str:
        """A variable or function that the script has nowhere else."""
        self._count += 1
        return f"{hint or self.rng.choice(_HINTS)}_{self._count}"

    def setting(self, least: int = 2, only: str = "") -> tuple[str, list[str]]:
        """A flag that takes a value, and its values in any order."""
        options = [
            flag
            for flag, values in self.state.flags.items()
            if len(values) >= least and re.search(only, " ".join(values))
        ]
        if not options:
            raise Full
        flag = self.rng.choice(options)
        values = list(self.state.flags.pop(flag))
        self.rng.shuffle(values)
        self.state.owners[flag] = tuple(self.stack)
        return flag, values

    def number(self) -> tuple[str, list[str]]:
        """A flag that takes a whole number."""
        return self.setting(2, r"^[0-9]+( [0-9]+)*$")

    def switch(self) -> str:
        """A flag without a value."""
        if not self.state.switches:
            raise Full
        flag = self.state.switches.pop(self.rng.randrange(len(self.state.switches)))
        self.state.owners[flag] = tuple(self.stack)
        return flag

    def json(self) -> str:
        """The flag that takes JSON."""
        if not self.state.json:
            raise Full
        self.state.json = False
        self.state.owners[JSON] = tuple(self.stack)
        return JSON

    def model(self) -> str:
        """The flag that takes the model."""
        if not self.state.model:
            raise Full
        self.state.model = False
        self.state.owners[MODEL] = tuple(self.stack)
        return MODEL

    def variable(self, *values: str | None, hint: str = "") -> str:
        """A variable that the caller may set to each of some values, or not at all."""
        axis = (None, *dict.fromkeys(value for value in values if value is not None))
        if self._inputs() * len(axis) > MOST_INPUTS:
            axis = axis[:2]
        if self._inputs() * len(axis) > MOST_INPUTS:
            raise Full
        name = self.name(hint)
        self.state.axes[name] = axis
        return name

    def arguments(self, *lists: tuple[str, ...]) -> None:
        """Says with which arguments a caller may start the script; no other idiom may look."""
        options = ((), *lists)
        if len(self.state.argument_lists) > 1 or self._inputs() * len(options) > MOST_INPUTS:
            raise Full
        self.state.argument_lists = options

    def _inputs(self) -> int:
        count = len(self.state.argument_lists)
        for axis in self.state.axes.values():
            count *= len(axis)
        return count

    def subject(self, tested: Sequence[str]) -> str:
        """A variable to compare with some texts: the caller's, or one that the script sets."""
        if self.chance(0.7):
            # Every text that is compared has to be given, or a branch is never seen; unset is as
            # good as another text unless a default stands in for it.
            defaulted = self.chance(0.25)
            others = ("other",) if defaulted or self.chance(0.6) else ()
            choices = [(*tested, *others)] if defaulted else [(*tested, *others), tuple(tested)]
            for values in choices:
                if self._inputs() * (len(values) + 1) <= _MOST_TESTED:
                    name = self.variable(*values)
                    if not defaulted:
                        return name
                    copy_of = self.name()
                    self.emit(f"{copy_of}=${{{name}:-{self.pick(*tested)}}}")
                    return copy_of
        name = self.name()
        self.emit(f"{name}={self.pick(*tested, 'other')}")
        return name

    def test(self, name: str, text: str) -> str:
        """A comparison of a variable with a text, in one of its spellings."""
        return self.pick(
            f'[ "${name}" = "{text}" ]',
            f'[ "${{{name}}}" = {text} ]',
            f'[[ "${name}" == "{text}" ]]',
            f"[[ ${name} == {text} ]]",
            f'test "${name}" = {text}',
            f'[ "${{{name}:-}}" == "{text}" ]',
        )

    # Values.

    def literal(self, text: str) -> Value:
        """A text in one of bash's quotings."""
        bare = _BARE.match(text) is not None
        forms = [f"'{text}'", '"' + escaped(text) + '"', "$'" + text + "'"]
        if bare:
            cut = self.rng.randint(1, len(text))
            forms += [text] * 4
            forms += [f"\\{text}", f'{text[:cut]}"{text[cut:]}"', f"'{text[:cut]}'{text[cut:]}"]
        inner = escaped(text)
        if not bare:
            inner = self.pick(inner, f"'{inner}'")
        return Value(self.rng.choice(forms), inner)

    def expansion(self, source: str) -> Value:
        """An expansion, quoted or not."""
        return Value(f'"{source}"' if self.chance(0.6) else source, source)

    def of(self, name: str) -> Value:
        """The value of a variable."""
        return self.expansion(self.pick(f"${name}", f"${{{name}}}"))

    def quoted(self, text: str) -> str:
        """A text as the right side of an assignment."""
        return self.literal(text).word

    # Lines.

    def emit(self, *lines: str) -> None:
        for line in lines:
            self.state.lines.append("  " * self.depth + line)

    @contextmanager
    def block(self, function: bool = False) -> Iterator[None]:
        """What is written within stands in a branch, a loop or a function."""
        before = self.in_function
        self.depth += 1
        self.in_function = before or function
        try:
            yield
        finally:
            self.depth -= 1
            self.in_function = before

    def try_idiom(self, name: str, write: Callable[[Draft], None]) -> bool:
        """Writes an idiom, or takes it back where the script has no room for it."""
        saved, depth, inside = copy.deepcopy(self.state), self.depth, self.in_function
        self.stack.append(name)
        try:
            self.state.idioms.append(name)
            write(self)
        except Full:
            self.state, self.depth, self.in_function = saved, depth, inside
            return False
        finally:
            self.stack.pop()
        return True

    # Arguments.

    def add(self, flag: str, value: Value | None = None, now: bool = False) -> None:
        """Adds a flag and its value to the command.

        ``now`` says that the value holds here only, so that it cannot be left to the command.
        """
        if value is None:
            self.splice(flag, flag, now)
            return
        between = "=" if self.chance(0.15) else " "
        self.splice(f"{flag}{between}{value.word}", f"{flag}{between}{value.inner}", now)

    def splice(self, words: str, inner: str, now: bool = False) -> None:
        """Adds words to the command, as they are written in a command and within a string."""
        if self.style == "line":
            if self.depth == 0 and not now:
                self.state.words.append(words)
            elif self.chance(0.3):
                self.emit(f'{self.extra}+=" {inner}"')
            else:
                self.emit(f'{self.extra}="${self.extra} {inner}"')
        elif self.style == "array":
            if self.chance(0.75):
                self.emit(f"{self.array}+=({words})")
            else:
                self.emit(f'{self.array}=("${{{self.array}[@]}}" {words})')
        elif self.style == "string":
            if self.chance(0.35):
                self.emit(f'{self.string}+=" {inner}"')
            else:
                self.emit(f'{self.string}="${self.string} {inner}"')
        else:
            if self.in_function:
                raise Full
            self.emit(f'set -- "$@" {words}')

    def inputs(self) -> tuple[Input, ...]:
        """Every combination of what the caller may give, nothing at all first."""
        found = [
            Input(
                arguments,
                tuple(
                    (name, value)
                    for name, value in zip(self.state.axes, values, strict=True)
                    if value is not None
                ),
            )
            for arguments in self.state.argument_lists
            for values in itertools.product(*self.state.axes.values())
        ]
        if len(found) == 1:
            found.append(Input((), (("UNRELATED", "1"),)))
        return tuple(found)


def escaped(text: str) -> str:
    """A text as it stands within double quotes."""
    return re.sub(r'([\\"$`])', r"\\\1", text)
