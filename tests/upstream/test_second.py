"""Both readings of every candidate of real releases agree, and the second is no nod."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.benchmarks.releases import Unavailable, release
from tests.benchmarks.second import Held, hold, sides

pytestmark = pytest.mark.upstream

ROW = (("0.5.9", "0.5.9"), ("0.5.12", "0.5.9"), ("0.5.18", "0.5.12"))
"""Each release with the one that it is held against."""


@pytest.fixture(scope="module", params=ROW, ids=lambda pair: pair[0])
def held(request: pytest.FixtureRequest) -> Held:
    version, before = request.param
    try:
        trees = release(version), release(before)
    except Unavailable as problem:
        pytest.skip(f"no released wheel and no network: {problem}")
    with tempfile.TemporaryDirectory() as folder:
        return hold(version, sides(*trees, Path(folder)))


def test_nothing_is_contradicted(held: Held) -> None:
    assert held.hits > 0
    assert held.disagreements == ()


def test_everything_is_read_and_has_its_span(held: Held) -> None:
    assert (held.skipped, held.without_span) == ((), 0)


def test_what_is_not_so_is_contradicted(held: Held) -> None:
    assert held.misnamed == held.hits
    assert held.seen_gated == held.gated > 0
