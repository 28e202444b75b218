"""The mechanisms that rules on code name: one module each, one line each in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.checks import gates, streams, transfers, waits
from auditor.checks.view import View
from auditor.model import Checked, Hit
from auditor.rulebook import CheckName, Param, Parameters

Params = Mapping[str, Param]


@dataclass(frozen=True)
class Check:
    """``learn`` makes a norm of all sides together; ``judge`` holds one side against it.

    ``survey`` tells what was looked at, whatever was found. Norms are opaque to the caller.
    ``parameters`` are what a page may give it. ``alone`` says that it asks for nobody's readings,
    and can be done while these are made.
    """

    learn: Callable[[Sequence[View]], Any]
    judge: Callable[[Params, Any, View], Iterator[Hit]]
    survey: Callable[[Any, View], Iterator[Checked]]
    parameters: Parameters
    alone: bool = False


CHECKS: dict[CheckName, Check] = {
    "sibling-gates": Check(gates.learn, gates.judge, gates.survey, gates.PARAMETERS),
    "lost-waits": Check(waits.learn, waits.judge, waits.survey, waits.PARAMETERS, alone=True),
    "stream-order": Check(
        streams.learn, streams.judge, streams.survey, streams.PARAMETERS, alone=True
    ),
    "unfinished-transfers": Check(
        transfers.learn, transfers.judge, transfers.survey, transfers.PARAMETERS, alone=True
    ),
}
