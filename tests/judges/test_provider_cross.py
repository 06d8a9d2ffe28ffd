"""Whatever a provider sends, in whatever form and whenever: no answer is lost or paid twice."""

import asyncio
import random

import pytest

from tests.support.provider_cross import SECRET, Faults, perform_all, plays

SAMPLE = 32


def mixed():
    cells = plays()
    return random.Random(46).sample(cells, len(cells))


def covering(cells):
    """Return cells that have each body of each meaning, and each of their moments and transports."""
    covered = set()
    for cell in cells:
        shape = (cell.meaning.name, cell.status, cell.header, cell.form)
        sent = (cell.meaning.name, cell.status, cell.moment, cell.transport)
        carried = (cell.form, cell.header, cell.moment, cell.transport, cell.concurrency)
        if not {shape, sent, carried} <= covered:
            covered |= {shape, sent, carried}
            yield cell


def count(chosen):
    faults = Faults()
    for seen in asyncio.run(perform_all(chosen)):
        faults.add(seen)
    return faults


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


def test_a_sample_of_what_providers_send_loses_nothing():
    assert count(mixed()[:SAMPLE]) == Faults()


@pytest.mark.slow
@pytest.mark.thorough
def test_all_that_providers_send_loses_nothing():
    assert count([*covering(mixed())]) == Faults()
