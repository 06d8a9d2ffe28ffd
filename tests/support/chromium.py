"""Headless Chromium for tests, and where their screenshots go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OFF = ("gpu", "quic", "background-networking", "component-update", "sync")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped where Playwright or Chromium is absent."""
    api = pytest.importorskip("playwright.sync_api")
    found = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if found is None:
        pytest.skip("needs Chromium (Debian's package `chromium`)")
    with api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--no-first-run", *(f"--disable-{feature}" for feature in OFF)]
        launched = playwright.chromium.launch(executable_path=found, args=arguments)
        yield launched
        launched.close()


def shoot(page: Any, name: str) -> None:
    """Keep a picture of a page in $EVALKIT_SCREENSHOTS, if it is set: it takes longer than many a test."""
    if folder := os.environ.get("EVALKIT_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"))
