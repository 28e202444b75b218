"""Expands the words of a bash script as far as the script itself decides them."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from tree_sitter import Node

from auditor.serve.scripts.state import Binding, Shell
from auditor.serve.scripts.values import (
    BREAK,
    Choice,
    Piece,
    Source,
    Text,
    Token,
    constant,
    is_empty,
    quoted,
    scalar,
    split,
)

_PARAMETER = re.compile(
    rb"\$\{(?P<sign>[!#]?)(?P<name>[A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?:\[(?P<index>[^\]]*)\])?"
    rb"(?P<operator>:?[-+=?]|##?|%%?|//?|\^\^?|,,?|:|@)?",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*$")
_ARITHMETIC = re.compile(r"[\d\s()+*/%<>=!&|^~?:-]+$")
_MOST_DIGITS = 200
_LONGEST_PATTERN_SUBJECT = 1024


Substitution = Callable[[Node, Source, Shell], Text | None]
"""Runs the body of ``$(…)``: what it prints, None where that is not known."""


class Expander:
    """Expands nodes of one source in one shell."""

    def __init__(self, source: Source, shell: Shell, substitution: Substitution) -> None:
        self._source = source
        self._shell = shell
        self._substitution = substitution

    def word(self, node: Node, quote: bool = False) -> Text:
        """What a word, a string or an expansion of the script stands for."""
        kind = node.type
        start, end = _bounds(node, self._source.data)
        if kind == "string":
            inner = self.range(start + 1, end - 1, node.children, True)
            return inner or (self._piece("", start + 1),)
        if kind == "raw_string":
            return (self._piece(self._slice(start + 1, end - 1), start + 1),)
        if kind == "ansi_c_string":
            return (self._piece(_ansi(self._slice(start + 2, end - 1)), start + 2, exact=False),)
        if kind == "translated_string":
            return self.range(start + 2, end - 1, node.children, True)
        if kind in {"simple_expansion", "expansion"}:
            return self._parameter(node, start, end, quote)
        if kind == "command_substitution":
            printed = self._substitution(node, self._source, self._shell)
            if printed is not None:
                return quoted(printed, quote)
            return (self._unknown(start, end, quote),)
        if kind == "arithmetic_expansion":
            return (self._arithmetic(start, end),)
        if kind in {"concatenation", "command_name", "variable_assignment", "subscript"}:
            return self.range(start, end, node.children, quote)
        if kind in {"process_substitution", "brace_expression"}:
            return (self._unknown(start, end, quote),)
        return self._literal(start, end, quote)

    def range(
        self, start: int, end: int, children: Sequence[Node], quote: bool, loose: bool = False
    ) -> Text:
        """Expands a stretch of the script: what is between its expansions is literal.

        ``loose`` says that literal text may be split into words, as in ``${V:+--flag value}``.
        """
        tokens: list[Token] = []
        at = start
        for child in _expansions(children):
            first, last = _bounds(child, self._source.data)
            if first < at or last > end:
                continue
            tokens.extend(self._literal(at, first, quote, loose))
            tokens.extend(self.word(child, quote))
            at = last
        tokens.extend(self._literal(at, end, quote, loose))
        return tuple(tokens)

    def _slice(self, start: int, end: int) -> str:
        return self._source.data[start:end].decode("utf-8", "replace")

    def _piece(self, text: str, offset: int, exact: bool = True) -> Piece:
        return Piece(text, self._source, offset, exact=exact)

    def _unknown(self, start: int, end: int, quote: bool, outside: bool = False) -> Piece:
        text = self._slice(start, end)
        return Piece(text, self._source, start, quote, resolved=False, outside=outside)

    def _literal(self, start: int, end: int, quote: bool, loose: bool = False) -> Text:
        """Literal text, its escapes taken away; pieces keep the places of what is left."""
        data = self._source.data
        tokens: list[Token] = []
        at = start
        while at < end:
            escape = data.find(b"\\", at, end)
            if escape < 0 or escape + 1 >= end:
                escape = end
            if escape > at:
                piece = self._piece(self._slice(at, escape), at)
                tokens.append(replace(piece, quoted=False) if loose and not quote else piece)
            if escape == end:
                break
            following = data[escape + 1 : escape + 2]
            if following == b"\n":
                at = escape + 2
            elif quote and following not in b'$`"\\':
                tokens.append(self._piece(self._slice(escape, escape + 1), escape))
                at = escape + 1
            else:
                # What is escaped may be the first byte of several.
                after = data[escape + 1 : min(end, escape + 5)].decode("utf-8", "replace")
                width = len(after[:1].encode())
                tokens.append(self._piece(self._slice(escape + 1, escape + 1 + width), escape + 1))
                at = escape + 1 + width
        return tuple(tokens)

    def heredoc(self, start: int, end: int, children: Sequence[Node], raw: bool) -> Text:
        """The text of a here-document; only ``$``, backquote and backslash can be escaped."""
        if raw:
            return (self._piece(self._slice(start, end), start),)
        return self.range(start, end, children, True)

    def _parameter(self, node: Node, start: int, end: int, quote: bool) -> Text:
        if node.type == "simple_expansion":
            return self._value(self._slice(start + 1, end), None, start, end, quote)
        match = _PARAMETER.match(self._source.data, start, end)
        if match is None:
            return (self._unknown(start, end, quote),)
        name = match["name"].decode()
        index = match["index"].decode("utf-8", "replace") if match["index"] is not None else None
        operator = (match["operator"] or b"").decode()
        if match["sign"]:
            return (self._unknown(start, end, quote),)
        if not operator:
            return self._value(name, index, start, end, quote)
        rest = (match.end(), end - 1)
        if operator.lstrip(":") in {"-", "="} and operator != ":":
            return self._default(node, name, index, operator, rest, start, end, quote)
        if operator in {"+", ":+"}:
            return self._alternative(node, name, index, rest, quote)
        value = self._value(name, index, start, end, quote)
        if operator in {"?", ":?"}:
            return value
        known = constant(value)
        if known is None:
            outside = any(isinstance(token, Piece) and token.outside for token in value)
            return (self._unknown(start, end, quote, outside),)
        pattern = constant(self.range(*rest, node.children, True))
        changed = None if pattern is None else _changed(known, operator, pattern)
        if changed is None:
            return (self._unknown(start, end, quote),)
        first = next((token for token in value if isinstance(token, Piece)), None)
        soft = any(isinstance(token, Piece) and token.soft for token in value)
        origin = first or self._piece("", start)
        return (replace(origin, text=changed, exact=False, soft=soft, quoted=quote),)

    def _default(
        self,
        node: Node,
        name: str,
        index: str | None,
        operator: str,
        rest: tuple[int, int],
        start: int,
        end: int,
        quote: bool,
    ) -> Text:
        """``${V:-word}``: the word where the script sets no other value.

        The environment of the script may hold another; by default it does not, so the word is
        what the script runs with, marked as soft. An empty word says only that the script does
        without a value: what its caller gives is not known.
        """
        default = self.range(*rest, node.children, quote, loose=True)
        soft = _soft(default)
        if is_empty(default):
            soft = (self._unknown(start, end, quote, outside=True),)
        binding = self._shell.get(name)
        if name.isdigit() or name in {"@", "*"}:
            given = self._positional(name)
            if given is None or (":" in operator and is_empty(scalar(given))):
                value: Text = soft
            else:
                value = quoted(given, quote)
        elif binding is None:
            value = soft
        else:
            value = self._value(name, index, start, end, quote)
            if ":" in operator:
                value = _filled(value, soft)
        if operator.endswith("=") and _NAME.match(name):
            self._shell.layers[-1][name] = Binding(
                scalar(value), exported=binding.exported if binding else False
            )
        return value

    def _alternative(
        self, node: Node, name: str, index: str | None, rest: tuple[int, int], quote: bool
    ) -> Text:
        """``${V:+word}``: the word in those runs in which the variable is set."""
        word = self.range(*rest, node.children, quote, loose=True)
        binding = self._shell.get(name)
        if name.isdigit() or name in {"@", "*"}:
            given = self._positional(name)
            if given is not None:
                return () if is_empty(scalar(given)) else word
        elif binding is not None:
            known = constant(binding.text)
            if known is not None:
                return word if known else ()
        elif self._shell.knows(name):
            return ()
        return (Choice(((), word)),)

    def _value(self, name: str, index: str | None, start: int, end: int, quote: bool) -> Text:
        if name in {"0", "BASH_SOURCE"}:
            path = self._shell.script if name == "0" else self._source.path
            return (Piece(path, self._source, start, quote, exact=False),)
        if name.isdigit() or name in {"@", "*"}:
            given = self._positional(name)
            if given is None:
                return (self._unknown(start, end, quote, outside=True),)
            if name != "@":
                given = scalar(given)
            return quoted(given, quote) if given or not quote else (self._piece("", start),)
        binding = self._shell.get(name)
        if binding is None:
            if name == "PWD" and self._shell.folder:
                return (Piece(self._shell.folder, self._source, start, quote, exact=False),)
            return (self._unknown(start, end, quote),)
        text = binding.text
        if binding.array and index != "@":
            element = scalar(text) if index == "*" else _element(text, index)
            if element is None:
                return (self._unknown(start, end, quote),)
            text = element
        elif not binding.array and index not in {None, "@", "*", "0"}:
            return (self._unknown(start, end, quote),)
        if not text and quote and not (binding.array and index == "@"):
            return (self._piece("", start),)
        return quoted(text, quote)

    def _positional(self, name: str) -> Text | None:
        arguments = self._shell.arguments
        if arguments is None:
            return None
        if name in {"@", "*"}:
            return tuple(token for argument in arguments for token in (*argument, BREAK))
        number = int(name[:4])
        return arguments[number - 1] if 0 < number <= len(arguments) else ()

    def _arithmetic(self, start: int, end: int) -> Piece:
        text = self._slice(start, end)
        inner = re.sub(r"\$?\{?\b([A-Za-z_]\w*)\b\}?", self._number, text[3:-2])
        value = _computed(inner)
        if value is None:
            return self._unknown(start, end, True)
        return Piece(str(value), self._source, start, exact=False, soft=True)

    def _number(self, match: re.Match[str]) -> str:
        binding = self._shell.get(match.group(1))
        known = constant(binding.text) if binding is not None else None
        if known is None or not known.strip().lstrip("-").isdigit():
            return match.group(0)
        return known.strip()


def _bounds(node: Node, data: bytes) -> tuple[int, int]:
    """Where a node stands; the grammar counts blanks before an expansion in a string to it."""
    start, end = node.start_byte, node.end_byte
    if node.type in {"expansion", "simple_expansion", "command_substitution", "string"}:
        while start < end and data[start : start + 1].isspace():
            start += 1
    return start, end


_WITH_VALUE = frozenset(
    {
        *("string", "raw_string", "ansi_c_string", "translated_string", "simple_expansion"),
        *("expansion", "command_substitution", "arithmetic_expansion", "process_substitution"),
        *("brace_expression",),
    }
)


def _expansions(children: Sequence[Node]) -> list[Node]:
    found: list[Node] = []
    waiting = list(reversed(children))
    while waiting:
        node = waiting.pop()
        if node.type in _WITH_VALUE:
            found.append(node)
        elif node.child_count:
            waiting.extend(reversed(node.children))
    return found


def _element(text: Text, index: str | None) -> Text | None:
    number = 0
    if index is not None:
        if not index.isdigit():
            return None
        number = int(index[:6])
    element: list[Token] = []
    for token in text:
        if isinstance(token, Choice) and any(BREAK in option for option in token.options):
            return None
        if token is BREAK:
            if number == 0:
                return tuple(element)
            number -= 1
            element = []
        else:
            element.append(token)
    return None if number or not element else tuple(element)


def _soft(text: Text) -> Text:
    return tuple(replace(token, soft=True) if isinstance(token, Piece) else token for token in text)


def _filled(value: Text, default: Text) -> Text:
    """The value, or the default where the value is empty."""
    if is_empty(value):
        return default
    if len(value) == 1 and isinstance(value[0], Choice):
        options = tuple(
            dict.fromkeys(default if is_empty(option) else option for option in value[0].options)
        )
        return options[0] if len(options) == 1 else (Choice(options),)
    return value


def _changed(text: str, operator: str, pattern: str) -> str | None:
    """What ``${V#pattern}`` and its kin leave of a text, None where that is not told here."""
    if len(text) > _LONGEST_PATTERN_SUBJECT or len(pattern) > _LONGEST_PATTERN_SUBJECT:
        return None
    if operator in {"#", "##", "%", "%%"}:
        if pattern.count("*") > 2:
            return None
        cuts = range(len(text) + 1)
        prefix = operator[0] == "#"
        if prefix == (len(operator) == 2):
            cuts = range(len(text), -1, -1)
        for cut in cuts:
            if fnmatchcase(text[:cut] if prefix else text[cut:], pattern):
                return text[cut:] if prefix else text[:cut]
        return text
    if operator in {"/", "//"}:
        old, _, new = pattern.partition("/")
        if not old or any(sign in old for sign in "*?["):
            return None
        return text.replace(old, new, -1 if operator == "//" else 1)
    if operator in {"^^", ",,"} and not pattern:
        return text.upper() if operator == "^^" else text.lower()
    return None


def _computed(text: str) -> int | None:
    """The value of arithmetic on plain numbers with ``+ - * / %`` and parentheses."""
    if len(text) > _MOST_DIGITS or not _ARITHMETIC.match(text):
        return None
    try:
        return _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        return None


def _evaluated(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _evaluated(node.left), _evaluated(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div | ast.FloorDiv):
            return int(left / right) if abs(left) < 2**50 else left // right
        if isinstance(node.op, ast.Mod):
            return left % right
    raise ValueError("not plain arithmetic")


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "e": "\x1b"}


def _ansi(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(0)), text)


def folder_of(path: str) -> str:
    """The folder of a path, as ``dirname`` prints it."""
    return posixpath.dirname(path) or "."


def printed(words: Sequence[Text], shell: Shell) -> Text | None:
    """What one command prints, for the few that scripts build paths with."""
    parts = split(list(words))
    if not parts:
        return None
    name, rest = posixpath.basename(parts[0].text), parts[1:]
    last = rest[-1] if rest else None
    if name == "pwd":
        if not shell.folder:
            return None
        piece = next((token for token in parts[0].tokens if isinstance(token, Piece)), None)
        return None if piece is None else (replace(piece, text=shell.folder, exact=False),)
    if last is None or not last.resolved or last.alternatives:
        return None
    piece = next((token for token in last.tokens if isinstance(token, Piece)), None)
    if piece is None:
        return None
    soft = any(isinstance(token, Piece) and token.soft for token in last.tokens)
    if name == "dirname" and len(rest) == 1:
        text = folder_of(last.text)
    elif name == "basename" and len(rest) == 1:
        text = posixpath.basename(last.text.rstrip("/"))
    elif name in {"realpath", "readlink"}:
        text = posixpath.normpath(last.text)
    elif name == "echo" and all(word.resolved and not word.alternatives for word in rest):
        text = " ".join(word.text for word in rest if word.text not in {"-n", "-e"})
    else:
        return None
    return (replace(piece, text=text, exact=False, soft=soft),)
