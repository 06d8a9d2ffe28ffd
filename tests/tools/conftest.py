"""Gives each test a server that judges and a config that asks it."""

import pytest

from tests.support.fake_provider import serving


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with serving() as provider:
        yield provider


@pytest.fixture
def overrides(provider):
    return [
        "judge=openai_compatible",
        "judge.model=openai/fake",
        f"judge.api_base={provider.api_base}",
    ]
