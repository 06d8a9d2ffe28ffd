"""Gives each test a server that judges and a config that asks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fake_provider import Provider, serving


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with serving() as provider:
        yield provider


@pytest.fixture
def overrides(provider: Provider) -> list[str]:
    return ["judge=openai_compatible", "judge.model=openai/fake", f"judge.api_base={provider.api_base}"]
