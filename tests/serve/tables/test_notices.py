"""A variable that is looked for only to say that it is gone."""

from __future__ import annotations

import pytest

from auditor.serve.tables.environment import environment
from auditor.serve.tables.modules import Tree

WARNS = """
if os.getenv("SGLANG_GONE") is not None:
    logger.warning("SGLANG_GONE has been removed. Use --other instead.")
"""
READS = """
if os.getenv("SGLANG_GONE") is not None:
    logger.warning("SGLANG_GONE is set")
    fast = True
"""
TELLS = """
if os.getenv("SGLANG_GONE") is not None:
    logger.warning("SGLANG_GONE makes this slow")
"""


@pytest.mark.parametrize(
    ("files", "retired"),
    [
        ({"a.py": WARNS}, True),
        ({"a.py": WARNS, "b.py": WARNS}, True),
        ({"a.py": WARNS, "b.py": READS}, False),
        ({"a.py": READS}, False),
        ({"a.py": TELLS}, False),
    ],
)
def test_only_a_notice_of_removal_retires_a_name(files: dict[str, str], retired: bool) -> None:
    texts = {f"sglang/srt/{name}": text.encode() for name, text in files.items()}
    (row,) = environment(Tree(texts.keys(), texts.get)).names
    assert (row.name, row.declared, row.retired) == ("SGLANG_GONE", False, retired)
    assert row.note == ("SGLANG_GONE has been removed. Use --other instead." if retired else "")
