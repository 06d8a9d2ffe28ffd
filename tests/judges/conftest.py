"""Makes `fake_provider` importable, and gives each test a server of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from fake_provider import Provider, serving


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as provider:
        yield provider
