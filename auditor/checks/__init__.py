"""The mechanisms that rules name: one module each, one line each in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.checks import (
    serve_config,
    serve_environment,
    serve_flags,
    serve_guards,
    serve_model,
    serve_pairs,
    serve_parsers,
    serve_renderings,
    serve_templates,
    serve_tree,
    serve_values,
    sibling_gates,
)
from auditor.checks.serving import ServeCheck
from auditor.checks.view import View
from auditor.model import Checked, Hit
from auditor.rulebook import CheckName, Param

Params = Mapping[str, Param]


@dataclass(frozen=True)
class Check:
    """``learn`` makes a norm of all sides together; ``judge`` holds one side against it.

    ``survey`` tells what was looked at, whatever was found. Norms are opaque to the caller.
    """

    learn: Callable[[Sequence[View]], Any]
    judge: Callable[[Params, Any, View], Iterator[Hit]]
    survey: Callable[[Any, View], Iterator[Checked]]


CHECKS: dict[CheckName, Check] = {
    "sibling-gates": Check(sibling_gates.learn, sibling_gates.judge, sibling_gates.survey),
}

SERVE_CHECKS: dict[CheckName, ServeCheck] = {
    "serve-model": serve_model.judge,
    "serve-parsers": serve_parsers.judge,
    "serve-renderings": serve_renderings.judge,
    "serve-templates": serve_templates.judge,
    "serve-flags": serve_flags.judge,
    "serve-values": serve_values.judge,
    "serve-environment": serve_environment.judge,
    "serve-guards": serve_guards.judge,
    "serve-pairs": serve_pairs.judge,
    "serve-config": serve_config.judge,
    "serve-tree": serve_tree.judge,
}
