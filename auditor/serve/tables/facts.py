"""The facts of a tree that a launch is held against; every row says where it stands."""

from __future__ import annotations

from typing import Literal

import msgspec


class ToolParser(msgspec.Struct, frozen=True, order=True):
    """A name for ``--tool-call-parser``, its class, and the texts that class looks for.

    ``path`` and ``line`` are the row of the table; ``class_path`` is the file of the class.
    ``markers`` are all constant texts by attribute (``bot_token``); ``starts`` and ``ends`` are
    those that open and close a call. A parser with neither that says ``run_time`` takes them from
    the tokenizer or the checkpoint; one without ``run_time`` needs none (plain JSON, a regex).
    ``about`` is the first line of the class's docstring.
    """

    name: str
    class_name: str
    path: str
    line: int
    class_path: str
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    markers: dict[str, str] = {}
    run_time: str = ""
    about: str = ""
    deprecated_for: str = ""


class ReasoningParser(msgspec.Struct, frozen=True, order=True):
    """A name for ``--reasoning-parser`` and what its class takes for thinking.

    ``forced`` is True where all text counts as thinking until the end marker comes, whatever the
    template did, False where it does not, None where a run decides. ``default_mode`` is the
    class's ``reasoning_default`` (``enable_thinking``, ``always``, …), ``tool_start`` the text at
    which thinking gives way to a tool call; both are empty where the class has none.
    """

    name: str
    class_name: str
    path: str
    line: int
    class_path: str
    start: str | None = None
    end: str | None = None
    forced: bool | None = None
    default_mode: str = ""
    tool_start: str = ""
    run_time: str = ""
    about: str = ""


class Encoder(msgspec.Struct, frozen=True):
    """One row of the chain that chooses a native encoder: all its terms hold, no earlier row did.

    ``parsers`` are the tool parsers, ``architectures`` the parts of an architecture's name and
    ``model_types`` the model types of which one must match (empty: no such term);
    ``without_template`` says that an explicit template rules the row out. ``condition`` is the
    source text; ``undecided`` says that it has a term beside these.
    """

    spec: str
    condition: str
    path: str
    line: int
    parsers: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    model_types: tuple[str, ...] = ()
    without_template: bool = False
    undecided: bool = False


class ConversationTemplate(msgspec.Struct, frozen=True, order=True):
    """A built-in name for ``--chat-template``."""

    name: str
    path: str
    line: int


class PathMatcher(msgspec.Struct, frozen=True, order=True):
    """A function that picks a built-in template by the model path.

    ``pattern`` is a regular expression that is searched (a plain substring comes escaped) with
    ``ignore_case``; ``template`` is what is picked, ``model_types`` those that the function asks
    for first where it does.
    """

    template: str
    pattern: str
    ignore_case: bool
    path: str
    line: int
    model_types: tuple[str, ...] = ()


class AutoRule(msgspec.Struct, frozen=True, order=True):
    """One rule by which ``auto`` finds a parser, in the order of the tree.

    ``contains`` must all stand in the template, of ``any_of`` one, of ``excludes`` none;
    ``undecided`` says that there is a further condition (the vocabulary, code).
    """

    kind: Literal["tool", "reasoning"]
    parser: str
    path: str
    line: int
    contains: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    architecture: str = ""
    undecided: bool = False


class Flag(msgspec.Struct, frozen=True, order=True):
    """A command line option of the server with all its spellings.

    ``choices`` is None where any value does or a run decides; ``conditional_choices`` are more of
    them that come in only on a condition (a variable of the environment). ``takes_value`` is False
    for a switch; ``nargs`` is argparse's (``+``, ``*``, ``?``, a number) or empty. ``repeatable``
    says that a second one adds to the first. ``negation`` is the ``--no-…`` form where there is
    one. ``deprecated`` says why and ``replacement`` names the flag to use instead, as far as told;
    ``refused`` says that argparse ends with an error at it. ``default`` is a Python literal where
    it is a constant, else as written; empty where none is given. ``required`` says that argparse
    ends without the option. ``reads`` is what it makes of each word, and ends where it cannot:
    ``int``, ``float``, ``json``, or empty for any text and for what is not understood; words that
    match one of ``patterns`` as a whole are taken beside these.
    """

    names: tuple[str, ...]
    dest: str
    path: str
    line: int
    choices: tuple[str, ...] | None = None
    takes_value: bool = True
    nargs: str = ""
    repeatable: bool = False
    negation: tuple[str, ...] = ()
    deprecated: str = ""
    replacement: str = ""
    refused: bool = False
    help: str = ""
    type: str = ""
    default: str = ""
    conditional_choices: tuple[str, ...] = ()
    required: bool = False
    reads: str = ""
    patterns: tuple[str, ...] = ()


class EnvironmentName(msgspec.Struct, frozen=True, order=True):
    """A variable that the tree declares or reads; ``kind`` is ``bool``, ``int``, … or empty.

    ``retired`` says that setting it no longer does anything but a warning, ``replacement`` what to
    use instead, ``note`` what the tree says of it.
    """

    name: str
    path: str
    line: int
    declared: bool
    kind: str = ""
    retired: bool = False
    replacement: str = ""
    note: str = ""


class Term(msgspec.Struct, frozen=True, order=True):
    """One test of a guard on a setting: ``field op value``.

    ``field`` is the ``dest`` of the flag. ``op`` is one of ``true``, ``false`` (truth), ``none``,
    ``set`` (is/is not None), ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in``, ``not in``;
    ``values`` are the constants as Python literals (``'fp8'``, ``1``), more than one for the last
    two. ``absent`` says that the term also holds where the flag is not given.
    """

    field: str
    op: str
    values: tuple[str, ...] = ()
    absent: bool = False


class Guard(msgspec.Struct, frozen=True, order=True):
    """Settings that the tree refuses together: all terms hold where it raises.

    Only guards over at least two settings are kept, each of whose terms is understood and still
    holds where the tree raises if it held at the start. ``message`` is what the tree says, unknown
    parts of it as ``…``.
    """

    terms: tuple[Term, ...]
    message: str
    path: str
    line: int


class Tables(msgspec.Struct, frozen=True):
    """All that a tree says of its own settings.

    ``version`` is the tree's own version where a file says it. ``prefixes`` are those of variables
    whose names are put together at run time (``SGLANG_LOG_``), ``rewritten`` are prefixes that are
    renamed at start, old and new (``SGL_``, ``SGLANG_``). ``cli_choices`` are names that the
    command line offers for each parser flag where a table of its own says so. ``notes`` say what
    could not be read, one clause each with the path; an empty table without a note is a tree that
    has none.
    """

    version: str = ""
    tool_parsers: tuple[ToolParser, ...] = ()
    reasoning_parsers: tuple[ReasoningParser, ...] = ()
    encoders: tuple[Encoder, ...] = ()
    conversation_templates: tuple[ConversationTemplate, ...] = ()
    path_matchers: tuple[PathMatcher, ...] = ()
    auto_rules: tuple[AutoRule, ...] = ()
    flags: tuple[Flag, ...] = ()
    environment: tuple[EnvironmentName, ...] = ()
    prefixes: tuple[str, ...] = ()
    rewritten: tuple[tuple[str, str], ...] = ()
    guards: tuple[Guard, ...] = ()
    cli_choices: dict[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()
