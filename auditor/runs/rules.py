"""The rules of a run, held against what the checks take of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from auditor import rulebook
from auditor.rulebook import CheckName, Parameters, Rulebook


def load(extra_dirs: Sequence[Path] = (), *, whole: bool = False) -> Rulebook:
    """``rulebook.load`` with the parameters of all checks.

    They are imported, which takes 0.3 s, only where pages are held against them.
    """
    return rulebook.load(extra_dirs, declared() if extra_dirs or whole else None, whole=whole)


def declared() -> Mapping[CheckName, Parameters]:
    """What every check takes from a page, by the name of the check."""
    from auditor.checks import CHECKS
    from auditor.serve.checks.table import SERVE_CHECKS
    from auditor.triage import suppress

    return {
        **{name: check.parameters for name, check in CHECKS.items()},
        **{name: check.parameters for name, check in SERVE_CHECKS.items()},
        suppress.CHECK: suppress.PARAMETERS,
    }
