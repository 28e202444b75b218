"""A browser for the tests that look at our HTML pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium; without it, or without playwright, the test is skipped."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium (apt install chromium)")
    with api.sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        except api.Error as problem:
            pytest.skip(f"chromium does not start: {str(problem).splitlines()[0]}")
        yield found
        found.close()
