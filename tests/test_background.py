"""Work that runs beside: where it runs, and what comes of it where it cannot."""

from __future__ import annotations

import os
import sys

import pytest

from auditor.background import Background

forked = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="runs in one process")


@forked
def test_runs_in_another_process() -> None:
    assert Background(os.getpid).result() != os.getpid()


def test_runs_here_where_asked_to() -> None:
    assert Background(os.getpid, alone=True).result() == os.getpid()


@forked
def test_of_work_within_the_inner_is_done_by_the_child() -> None:
    """Not a third process, and above all not done again here because a child may have no child."""

    def outer() -> tuple[int, int]:
        return os.getpid(), Background(os.getpid).result()

    own, inner = Background(outer).result()
    assert own == inner != os.getpid()


@forked
def test_of_a_child_that_dies_the_work_is_done_here() -> None:
    parent = os.getpid()

    def dies() -> int:
        if os.getpid() != parent:
            os._exit(1)
        return parent

    assert Background(dies).result() == parent


@pytest.mark.parametrize("alone", [False, True])
def test_what_the_work_raises_is_raised(alone: bool) -> None:
    def fails() -> None:
        raise ValueError("so")

    with pytest.raises(ValueError, match="so"):
        Background(fails, alone=alone).result()


@forked
def test_what_cannot_be_sent_is_made_here() -> None:
    assert Background(lambda: lambda: 3).result()() == 3
