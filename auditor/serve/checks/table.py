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
    words,
)
from auditor.serve.checks.seen import ServeCheck

SERVE_CHECKS: dict[CheckName, ServeCheck] = {
    "serve-config": ServeCheck(config.judge, config.PARAMETERS),
    "serve-environment": ServeCheck(environment.judge, environment.PARAMETERS),
    "serve-flags": ServeCheck(flags.judge, flags.PARAMETERS),
    "serve-guards": ServeCheck(guards.judge, guards.PARAMETERS),
    "serve-model": ServeCheck(model.judge, model.PARAMETERS),
    "serve-pairs": ServeCheck(pairs.judge, pairs.PARAMETERS),
    "serve-parsers": ServeCheck(parsers.judge, parsers.PARAMETERS),
    "serve-renderings": ServeCheck(renderings.judge, renderings.PARAMETERS),
    "serve-templates": ServeCheck(templates.judge, templates.PARAMETERS),
    "serve-tree": ServeCheck(tree.judge, tree.PARAMETERS),
    "serve-values": ServeCheck(values.judge, values.PARAMETERS),
    "serve-words": ServeCheck(words.judge, words.PARAMETERS),
}
