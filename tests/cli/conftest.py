from __future__ import annotations

import pytest

from tests.support.fake_provider import Provider


@pytest.fixture
def provider(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """A server that answers as OpenAI does, and a key for it."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    return provider
