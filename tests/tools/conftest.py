"""Makes `fake_provider` importable, and gives each test a server that judges and a config that asks it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from fake_provider import Provider, serving


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with serving() as provider:
        yield provider


@pytest.fixture
def overrides(provider: Provider) -> list[str]:
    return ["judge=openai_compatible", "judge.model=openai/fake", f"judge.api_base={provider.api_base}"]
