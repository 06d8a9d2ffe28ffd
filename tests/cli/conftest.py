import pytest


@pytest.fixture
def provider(provider, monkeypatch):
    """A server that answers as OpenAI does, and a key for it."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    return provider
