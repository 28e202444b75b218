"""Renders this program's own pages: HTML from its templates, all text of the fork escaped."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined


def render(name: str, **values: Any) -> str:
    """The template ``name`` of this package filled with ``values``, ending in a newline.

    Every page extends ``page.html``, which has the style sheet and the policy against scripts and
    fetches. A string is shown as it is, whatever markup it holds.
    """
    return _environment().get_template(name).render(**values).rstrip() + "\n"


@cache
def _environment() -> Environment:
    return Environment(
        autoescape=True,
        keep_trailing_newline=True,
        loader=FunctionLoader(_text),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def _text(name: str) -> str:
    return resources.files("auditor.formats").joinpath(name).read_text("utf-8")
