"""Whatever a provider sends, in whatever form and whenever: no answer is lost or paid twice."""

import asyncio
import random

import pytest

from tests.support.provider_cross import SECRET, Faults, perform_all, plays

SAMPLE = 32


def count(number, seed):
    """Play a number of cells, of each meaning at least one if there are enough."""
    chosen = random.Random(seed).sample(plays(), number)
    faults = Faults()
    for seen in asyncio.run(perform_all(chosen)):
        faults.add(seen)
    return faults


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_sample_of_what_providers_send_loses_nothing():
    assert count(SAMPLE, 46) == Faults()


@pytest.mark.slow
@pytest.mark.thorough
def test_all_that_providers_send_loses_nothing():
    assert count(len(plays()), 46) == Faults()
