"""The mechanisms that rules on serve scripts name: one module each, one line each in a table."""

from __future__ import annotations

from auditor.rulebook import CheckName
from auditor.serve.checks import (
    config,
    environment,
    flags,
    guards,
    model,
    pairs,
    parsers,
    renderings,
    templates,
    tree,
    values,
)
from auditor.serve.checks.seen import ServeCheck

SERVE_CHECKS: dict[CheckName, ServeCheck] = {
    "serve-config": config.judge,
    "serve-environment": environment.judge,
    "serve-flags": flags.judge,
    "serve-guards": guards.judge,
    "serve-model": model.judge,
    "serve-pairs": pairs.judge,
    "serve-parsers": parsers.judge,
    "serve-renderings": renderings.judge,
    "serve-templates": templates.judge,
    "serve-tree": tree.judge,
    "serve-values": values.judge,
}
