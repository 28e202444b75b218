"""Finds comments with the lines of the statement that each belongs to, in scripts."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

import yaml
from tree_sitter import Node

from auditor.errors import Unreadable
from auditor.model import Comment
from auditor.serve.scripts.find import form_of, is_template
from auditor.serve.scripts.masking import for_shell, mask
from auditor.serve.scripts.syntax import node_of
from auditor.serve.scripts.yamltree import LARGEST, LOADER, index_of
from auditor.source.comments import WORD, Found, Span, belonging, python_comments

_SIGN = re.compile(r"(?:^|(?<=[ \t]))#")
_HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_ESCAPE = re.compile(r"#\s*escape\s*=\s*(\S)", re.IGNORECASE)

# Statements of bash that hold others; each of those is a statement of its own.
_COMPOUND = frozenset(
    {
        *("program", "if_statement", "elif_clause", "else_clause", "while_statement", "do_group"),
        *("for_statement", "c_style_for_statement", "case_statement", "case_item"),
        *("function_definition", "compound_statement", "subshell", "select_statement"),
    }
)
_CHAIN = frozenset({"list", "pipeline", "redirected_statement", "negated_command"})


def script_comments(path: str, data: bytes, launched: Collection[int]) -> list[Comment]:
    """The comments of a script that hold ``WORD``, in order; empty for a notation without any.

    ``launched`` are lines at which launches were found: a block of text in a YAML file that holds
    one is a shell script, and its comments count. Raises Unreadable where comments cannot be told
    from text.
    """
    form = form_of(posixpath.basename(path), data[:4096])
    if form == "python":
        return python_comments(data)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if form == "shell" or not form:
        shell = for_shell(mask(text).text) if is_template(path) else text
        return belonging(*_shell(shell), lines)
    if form == "yaml":
        return _yaml(text, lines, launched)
    if form in _CONTINUED:
        return belonging(*_CONTINUED[form](lines), lines)
    return []


def _shell(text: str) -> tuple[list[Found], list[Span]]:
    """The comments of a bash script and its simple statements, here-documents included."""
    data = text.encode()
    comments: list[Found] = []
    spans: list[Span] = []
    waiting = [(node_of(data), False)]
    while waiting:
        node, inside = waiting.pop()
        # Where the grammar gave up nothing is sure to be a comment.
        if node.type == "ERROR":
            spans.append(_lines(node))
            continue
        if node.type == "comment":
            said = data[node.start_byte : node.end_byte].decode()
            if WORD in said:
                row = node.start_point[0]
                begin = data.rfind(b"\n", 0, node.start_byte) + 1
                column = len(data[begin : node.start_byte].decode()) + 1
                comments.append((row + 1, column, said))
            continue
        if not inside and node.type not in _COMPOUND:
            leaves = _leaves(node)
            if any(leaf.type in _COMPOUND for leaf in leaves):
                waiting.extend((leaf, False) for leaf in leaves)
                continue
            spans.append(_lines(node))
            inside = True
        waiting.extend((child, inside) for child in node.children)
    return comments, spans


def _lines(node: Node) -> Span:
    first = node.start_point[0] + 1
    # A here-document ends at the start of the line after it.
    return first, max(first, node.end_point[0] + (node.end_point[1] > 0))


def _leaves(node: Node) -> list[Node]:
    """The commands of a chain of any depth; a node that is no chain is its own only leaf."""
    leaves: list[Node] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.type in _CHAIN:
            waiting.extend(one.children)
        else:
            leaves.append(one)
    return leaves


def _yaml(text: str, lines: list[str], launched: Collection[int]) -> list[Comment]:
    """Comments of YAML, and those of the shell scripts in its literal blocks."""
    if len(text) > LARGEST:
        raise Unreadable("too large to look for comments")
    masked = mask(text).text
    try:
        scalars, flows = _values(masked)
    except (yaml.YAMLError, ValueError, RecursionError, MemoryError):
        raise Unreadable("comments cannot be told from text") from None
    starts = [0, *(match.end() for match in re.finditer("\n", masked))]

    def line_of(offset: int) -> int:
        return bisect_right(starts, offset)

    rows = masked.split("\n")
    starting = sorted(launched)
    texts: list[Span] = []
    spans: list[Span] = []
    inner: list[Comment] = []
    for begin, end, style in scalars:
        # A block ends where the line after it begins.
        last = line_of(max(end - 1, begin)) if style in ("|", ">") else line_of(end)
        spans.append((line_of(begin), last))
        head = masked.find("\n", begin, end) if style in ("|", ">") else begin
        if style and head >= 0:
            texts.append((head, end))
        block = range(line_of(begin) + 1, last + 1)
        if style == "|" and bisect_right(starting, last) > bisect_left(starting, block.start):
            inner += _block(rows, block)
    spans += [(line_of(begin), line_of(end)) for begin, end in flows]
    begins = [begin for begin, _ in texts]

    def is_text(offset: int) -> bool:
        at = bisect_right(begins, offset) - 1
        return at >= 0 and offset < texts[at][1]

    found: list[Found] = []
    for number, line in enumerate(lines, start=1):
        if WORD not in line:
            continue
        written = masked[starts[number - 1] : starts[number - 1] + len(line)]
        for sign in _SIGN.finditer(written):
            if not is_text(starts[number - 1] + sign.start()):
                found.append((number, sign.start() + 1, line[sign.start() :]))
                break
    return sorted([*belonging(found, spans, lines), *inner])


def _values(text: str) -> tuple[list[tuple[int, int, str]], list[Span]]:
    """Offsets and style of every scalar, and the offsets of collections in brackets."""
    scalars: list[tuple[int, int, str]] = []
    flows: list[Span] = []
    opened: list[int | None] = []
    for event in yaml.parse(text, LOADER):
        if isinstance(event, yaml.ScalarEvent):
            scalars.append(
                (index_of(event.start_mark), index_of(event.end_mark), event.style or "")
            )
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            opened.append(index_of(event.start_mark) if event.flow_style else None)
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            begin = opened.pop()
            if begin is not None:
                flows.append((begin, index_of(event.end_mark)))
    return scalars, flows


def _block(lines: list[str], block: range) -> Iterator[Comment]:
    """The comments of a script that stands in these lines, indented as a whole."""
    script = [lines[number - 1] for number in block if number <= len(lines)]
    indent = min((len(s) - len(s.lstrip(" ")) for s in script if s.strip()), default=0)
    script = [line[indent:] for line in script]
    above = block.start - 1
    found = belonging(*_shell(for_shell("\n".join(script))), script)
    for c in found:
        yield Comment(c.line + above, c.column + indent, c.text, c.first + above, c.last + above)


def _dockerfile(lines: list[str]) -> tuple[list[Found], list[Span]]:
    """Comments are lines of their own, also between the lines of an instruction."""
    escape = next((m[1] for line in lines[:5] if (m := _ESCAPE.match(line))), "\\")
    found: list[Found] = []
    spans: list[Span] = []
    start = 0
    ends: list[str] = []
    for number, line in enumerate(lines, start=1):
        bare = line.strip()
        if ends:
            if bare == ends[0]:
                ends.pop(0)
            if not ends:
                spans.append((start, number))
                start = 0
            continue
        if bare.startswith("#"):
            found += _own(number, line)
            continue
        if not bare:
            continue
        start = start or number
        ends = _HEREDOC.findall(line)
        if not ends and not bare.endswith(escape):
            spans.append((start, number))
            start = 0
    if start:
        spans.append((start, len(lines)))
    return found, spans


def _unit(lines: list[str]) -> tuple[list[Found], list[Span]]:
    """As in a Dockerfile, without here-documents."""
    found: list[Found] = []
    spans: list[Span] = []
    start = 0
    for number, line in enumerate(lines, start=1):
        if line.lstrip()[:1] in ("#", ";"):
            found += _own(number, line)
            continue
        start = start or number
        if not line.endswith("\\"):
            spans.append((start, number)) if line.strip() else None
            start = 0
    return found, spans


def _makefile(lines: list[str]) -> tuple[list[Found], list[Span]]:
    """Comments on lines of their own; after a line that goes on they are text of it."""
    found: list[Found] = []
    spans: list[Span] = []
    start = 0
    for number, (before, line) in enumerate(pairwise(["", *lines]), start=1):
        goes_on = before.endswith("\\")
        if not goes_on and line.lstrip().startswith("#"):
            found += _own(number, line)
            continue
        start = start if goes_on and start else number
        if not line.endswith("\\") and line.strip():
            spans.append((start, number))
    return found, spans


def _own(number: int, line: str) -> list[Found]:
    column = len(line) - len(line.lstrip()) + 1
    return [(number, column, line.lstrip())] if WORD in line else []


_CONTINUED: dict[str, Callable[[list[str]], tuple[list[Found], list[Span]]]] = {
    "dockerfile": _dockerfile,
    "systemd": _unit,
    "makefile": _makefile,
}
