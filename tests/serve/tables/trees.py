"""Small trees from texts."""

from __future__ import annotations

import ast
from textwrap import dedent

from auditor.serve.tables.constants import Tree, evaluate, lookup


def tree(**files: str) -> Tree:
    """Files below ``sglang/srt``; ``a__b`` is ``a/b.py``."""
    texts = {
        f"sglang/srt/{name.replace('__', '/')}.py": dedent(text).encode()
        for name, text in files.items()
    }
    return Tree(texts, texts.get)


def value(text: str, name: str = "X", **others: str) -> object:
    """What the name is at the end of a module of this text."""
    module = tree(here=text, **others).find("sglang.srt.here")
    assert module is not None
    return lookup(module, name)


def expression(text: str, module_text: str = "") -> object:
    """What one expression is in a module of that text."""
    module = tree(here=module_text).find("sglang.srt.here")
    assert module is not None
    return evaluate(ast.parse(text, mode="eval").body, module)
