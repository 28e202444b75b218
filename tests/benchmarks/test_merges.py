"""The edits that merges make, on a small pool: where they can be made, and what they leave."""

from __future__ import annotations

import pytest

from tests.benchmarks.gated import find_gates
from tests.benchmarks.merge_edits import KINDS
from tests.benchmarks.merge_sites import Site
from tests.benchmarks.merges import New, batches, drawn, edited, outcome, sites

PATH = "sglang/srt/pool.py"
POOL = b"""\
import torch


class Pool:
    def __init__(self, count):
        self.counter = None
        self.start_layer = 0
        self.layer_num = count
        self.rows = [torch.zeros(8, 4) for _ in range(count)]
        self.layer_mapping = [(0, self) for _ in range(count)]

    def _pause_for(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)

    def get_row(self, layer_id):
        self._pause_for(layer_id)
        return self.rows[layer_id]

    def get_routed(self, layer_id):
        self._pause_for(layer_id)
        number, inner = self.layer_mapping[layer_id]
        return inner.get_row(number)

    def get_plain(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        row = self.rows[layer_id]
        return row
"""
FILES = {PATH: POOL}
PLACES = sites(FILES, find_gates(FILES))


def of(name: str) -> Site:
    return next(site for site in PLACES if site.reader.name == name)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.key)
def test_every_kind_can_be_made_somewhere_and_changes_the_file(kind: object) -> None:
    made = [data for k in KINDS if k is kind for _, data in drawn(k, PLACES, 5, 0)]
    assert made
    assert POOL not in made


def text(key: str, name: str) -> str:
    kind = next(kind for kind in KINDS if kind.key == key)
    data = edited(kind, of(name))
    return data.decode() if data is not None else ""


def test_edits_say_what_their_titles_do() -> None:
    assert "self._pause_for(layer_id - 1)" in text("shifted", "get_row")
    assert "self._pause_for(0)" in text("constant", "get_row")
    assert "return Pool._take_rows(self.rows, layer_id)" in text("class", "get_row")
    assert "wait" not in text("deleted", "get_plain").partition("def get_plain")[2]
    assert text("hollow", "get_row") == ""
    assert text("rename", "get_plain").count("merged_row") == 2


def test_pools_out_of_a_tuple_come_first_where_they_are_asked_for() -> None:
    kind = next(kind for kind in KINDS if kind.key == "tuple-flag")
    assert [site.reader.name for site, _ in drawn(kind, PLACES, 5, 0)] == ["get_routed"]


def test_several_places_are_edited_in_one_file() -> None:
    kind = next(kind for kind in KINDS if kind.key == "deleted")
    [(places, files)] = batches(kind, PLACES, 5, 0, alone=False)
    assert len(places) == 3
    assert b"_pause_for(layer_id)" not in files[PATH]
    assert len(list(batches(kind, PLACES, 5, 0, alone=True))) == 3


def test_told_is_what_stands_at_the_place_with_an_origin_of_the_forks() -> None:
    kind = next(kind for kind in KINDS if kind.key == "deleted")
    here = New(PATH, "Pool.get_row", "regressed", False, "")
    site = of("get_row")
    assert outcome(kind, site, "release", [here]).told
    low = outcome(kind, site, "release", [New(PATH, "Pool.get_row", "regressed", True, "")])
    assert (low.told, low.told_low, low.new) == (False, True, ())
    inherited = [New(PATH, "Pool.get_row", "inherited", False, "")]
    assert not outcome(kind, site, "release", inherited).told
    assert outcome(kind, site, "itself", inherited).told
    assert not outcome(kind, of("get_plain"), "release", [here]).told
