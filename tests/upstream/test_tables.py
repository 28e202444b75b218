"""The tables of real releases, one of each era and the borders between them."""

from __future__ import annotations

import functools

import pytest

from auditor.serve.tables.facts import Tables
from tests.benchmarks.releases import Unavailable, release
from tests.benchmarks.tables import counted, differences, tables_of

pytestmark = pytest.mark.upstream

VERSIONS = ("0.5.9", "0.5.12", "0.5.14", "0.5.18", "0.5.20", "0.5.23")


@functools.cache
def _tables(version: str) -> Tables:
    try:
        return tables_of(release(version))
    except Unavailable as problem:
        pytest.skip(f"no released wheel and no network: {problem}")


@pytest.mark.parametrize("version", VERSIONS)
def test_options_are_those_of_the_release(version: str) -> None:
    tables = _tables(version)
    flags = {name: flag for flag in tables.flags for name in flag.names}
    assert list(differences(flags, counted()[version])) == []
    assert tables.notes == ()
    assert tables.version == version


@pytest.mark.parametrize(
    ("version", "declared"), [("0.5.9", 209), ("0.5.12", 295), ("0.5.18", 543), ("0.5.23", 770)]
)
def test_environment_names_are_declared_as_often_as_counted(version: str, declared: int) -> None:
    names = _tables(version).environment
    # An old name that an alias still reads stands beside the new one.
    own = [row for row in names if row.declared and "old name" not in row.note]
    assert len(own) == declared
    assert 75 <= sum(1 for row in names if not row.declared) <= 245


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        *((version, {"enable_hierarchical_cache", "disable_radix_cache"}) for version in VERSIONS),
        ("0.5.12", {"enable_two_batch_overlap", "enforce_shared_experts_fusion"}),
        ("0.5.12", {"disable_cuda_graph_padding", "enable_torch_compile"}),
        ("0.5.23", {"disable_cuda_graph_padding", "enable_torch_compile"}),
        ("0.5.9", {"speculative_num_draft_tokens", "speculative_num_steps"}),
        ("0.5.12", {"speculative_num_draft_tokens", "speculative_num_steps"}),
        ("0.5.18", {"ssl_keyfile", "ssl_certfile"}),
    ],
)
def test_settings_that_the_release_refuses_together(version: str, settings: set[str]) -> None:
    guards = [{term.field for term in guard.terms} for guard in _tables(version).guards]
    assert any(settings <= fields for fields in guards)


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        ("0.5.9", {"disable_cuda_graph_padding", "enable_torch_compile"}),
        ("0.5.18", {"enable_two_batch_overlap", "enforce_shared_experts_fusion"}),
    ],
)
def test_settings_that_the_release_does_not_refuse(version: str, settings: set[str]) -> None:
    guards = [{term.field for term in guard.terms} for guard in _tables(version).guards]
    assert not any(settings <= fields for fields in guards)
