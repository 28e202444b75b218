"""The mechanisms that rules on serve scripts name: one module each, one line each in a table."""

from __future__ import annotations

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
)
from auditor.checks.serving import ServeCheck
from auditor.rulebook import CheckName

SERVE_CHECKS: dict[CheckName, ServeCheck] = {
    "serve-config": serve_config.judge,
    "serve-environment": serve_environment.judge,
    "serve-flags": serve_flags.judge,
    "serve-guards": serve_guards.judge,
    "serve-model": serve_model.judge,
    "serve-pairs": serve_pairs.judge,
    "serve-parsers": serve_parsers.judge,
    "serve-renderings": serve_renderings.judge,
    "serve-templates": serve_templates.judge,
    "serve-tree": serve_tree.judge,
    "serve-values": serve_values.judge,
}
