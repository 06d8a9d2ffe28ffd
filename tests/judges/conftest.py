"""Every test of judges has no proxy, no address and no key from outside."""

import pytest

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
OF_PROVIDERS = ("OPENAI_API_BASE", "OPENAI_BASE_URL", "HOSTED_VLLM_API_KEY", "TYPESAFE_API_KEY")


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch):
    for name in (*PROXIES, *(name.upper() for name in PROXIES), *OF_PROVIDERS):
        monkeypatch.delenv(name, raising=False)
