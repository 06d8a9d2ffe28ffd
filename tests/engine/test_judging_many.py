"""Judging in memory that does not grow with the number of cases."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace

import pytest

from evalkit.config import RunnerConfig
from evalkit.core import spool
from evalkit.engine import Progress, judge
from evalkit.types import Judgment
from tests.support.counted_text import CountedText, most_texts
from tests.support.engine_fakes import DONE, Both, Scripted, Third, Time, cases


class Wordy(Scripted):
    """Answers in no order."""

    async def complete(self, request):
        for _ in range(hash(request.case_id) % 5):
            await asyncio.sleep(0)
        return replace(DONE, text=CountedText(f"{request.case_id} {request.shown}"))


async def judged(n, evaluator=None, **more):
    runner = RunnerConfig(concurrency=8)
    return await judge(cases(n), evaluator or Both(), [Wordy()], None, runner, clock=Time().clock, **more)


@pytest.fixture
def written(monkeypatch):
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 0)


@pytest.mark.parametrize("evaluator", [Both(), Third()])
async def test_four_times_the_cases_take_hardly_more_memory(written, evaluator):
    peaks = []
    for count in (200, 800):
        with most_texts() as held:
            found = await judged(count, evaluator)
        assert len(found.judgments) >= 2 * count
        peaks += held
    more = peaks[1] - peaks[0]
    assert more < 1200 / 8, f"{more} of 1,200 more answers at once"


async def test_they_stand_in_case_order_and_are_the_same_as_when_held(monkeypatch, tmp_path):
    held = await judged(40, Third())
    assert [one.case_id for one in held.judgments] == [f"c{k}" for k in range(40) for _ in range(3)]
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 0)
    assert (await judged(40, Third(), spool=tmp_path)).judgments == held.judgments


async def test_nothing_has_a_name_while_it_goes_on(written, tmp_path):
    seen, alive = [], []

    def look(progress: Progress) -> None:
        if progress.done % 50 == 25:
            seen.extend(tmp_path.rglob("*"))
            alive.append(sum(isinstance(one, Judgment) for one in gc.get_objects()))

    found = await judged(100, observe=look, spool=tmp_path / "run")
    assert len(alive) == 4
    assert max(alive) - alive[0] < 20
    assert seen == []
    assert list(tmp_path.iterdir()) == []
    assert len(found.judgments) == 200
