"""Asks in several steps: one that prepares for another, and what follows once all passes of a unit are there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalkit.config import RunnerConfig
from evalkit.engine import JudgingResult, judge
from evalkit.errors import CallError, JudgeSetupError
from evalkit.results import Calls
from evalkit.types import JudgeRequest, JudgeSpec
from tests.support.engine_fakes import DONE, Both, Memory, Prepared, Scripted, Third, Time, cases

BUSY = CallError("rate_limit", "slow down", retryable=False)
ARBITER = JudgeSpec("arbiter", "fake/arbiter")


async def run(n, evaluator, judges, store=None, **more) -> JudgingResult:
    return await judge(cases(n), evaluator, judges, store, RunnerConfig(retries=0), clock=Time().clock, **more)


def words(request: JudgeRequest) -> list[str]:
    return [message["content"] for message in request.messages]


async def test_an_ask_that_others_share_is_sent_once_and_its_answer_stands_in_each():
    store = Memory()
    asked = Scripted(lambda r, n: replace(DONE, text=f"about {r.case_id}" if r.then else "yes"))
    judged = await run(2, Prepared(Both()), [asked], store)
    assert sum(r.then is not None for r in asked.asked) == 2
    said = sorted(words(r)[0] for r in asked.asked if r.then is None)
    assert said == ["you said about c0"] * 2 + ["you said about c1"] * 2
    assert {r.judge for r in asked.asked} == {"fake"}
    assert judged.calls == Calls(planned=8, stored=2, sent=6)
    assert [len(j.keys) for j in judged.judgments] == [2] * 4
    assert judged.judgments[0].keys[0] == judged.judgments[1].keys[0]
    assert {key for j in judged.judgments for key in j.keys} == set(store.kept)
    assert [j.shown for j in judged.judgments] == [(0, 1), (1, 0)] * 2
    again = await run(2, Prepared(Both()), [silent := Scripted()], store)
    assert not silent.asked
    assert all(j.stored for j in again.judgments)


async def test_a_judgment_asked_for_in_two_steps_may_still_be_asked_for_once_more_and_no_more():
    odd = Scripted(lambda r, n: replace(DONE, text="mine" if r.then else "?" if r.turn == 0 else "yes"))
    [judgment] = (await run(1, Prepared(Both(lambda t: t == "?", orders=1)), [odd])).judgments
    assert (judgment.status, len(judgment.keys)) == ("ok", 3)
    endless = Scripted(lambda r, n: replace(DONE, text="?"))
    [judgment] = (await run(1, Prepared(Both(lambda t: True, orders=1)), [endless])).judgments
    assert (judgment.status, len(endless.asked)) == ("unparseable", 3)


async def test_an_evaluator_that_prepares_for_ever_gets_an_unparseable_judgment():
    asked = Scripted(lambda r, n: replace(DONE, text="endless"))
    [judgment] = (await run(1, Prepared(Both(orders=1)), [asked])).judgments
    assert (judgment.status, len(asked.asked)) == ("unparseable", 1)


async def test_a_failed_preparation_is_a_failed_judgment_of_each_order():
    judged = await run(1, Prepared(Both()), [Scripted(lambda r, n: BUSY if r.then else DONE)])
    assert [(j.status, j.shown, j.keys) for j in judged.judgments] == [("failed", (0, 1), ()), ("failed", (1, 0), ())]


def at_odds(name: str = "c1"):
    """A judge that answers a case's two orders differently."""
    return lambda r, n: replace(DONE, text=str(r.shown) if r.case_id == name and not r.third else "same")


async def test_what_follows_stands_behind_its_unit_and_is_the_judges_own():
    store = Memory()
    judged = await run(3, Third(), [Scripted(at_odds())], store)
    assert [(j.case_id, j.shown, j.sample, j.judge, j.arbiter) for j in judged.judgments] == [
        ("c0", (0, 1), 0, "fake", None),
        ("c0", (1, 0), 0, "fake", None),
        ("c1", (0, 1), 0, "fake", None),
        ("c1", (1, 0), 0, "fake", None),
        ("c1", (0, 1), 1, "fake", "fake"),
        ("c2", (0, 1), 0, "fake", None),
        ("c2", (1, 0), 0, "fake", None),
    ]
    assert judged.calls == Calls(planned=7, sent=7)
    again = await run(3, Third(), [silent := Scripted()], store)
    assert not silent.asked
    assert again.calls == Calls(planned=7, stored=7)


async def test_an_arbiter_is_asked_for_each_judge_and_closed():
    arbiter = Scripted(spec=ARBITER)
    judges = [Scripted(at_odds()), Scripted(at_odds("c0"), spec=JudgeSpec("second", "fake/other"))]
    judged = await run(2, Third(), judges, arbiter=arbiter)
    thirds = [(j.case_id, j.judge, j.arbiter) for j in judged.judgments if j.arbiter]
    assert thirds == [("c0", "second", "arbiter"), ("c1", "fake", "arbiter")]
    assert [r.judge for r in arbiter.asked] == ["arbiter"] * 2
    assert (arbiter.closed, judges[0].closed) == (1, 1)


async def test_an_arbiter_that_fails_is_a_failed_judgment_of_the_judge_it_was_asked_for():
    judged = await run(2, Third(), [Scripted(at_odds())], arbiter=Scripted(lambda r, n: BUSY, spec=ARBITER))
    last = judged.judgments[-1]
    assert (last.status, last.judge, last.arbiter) == ("failed", "fake", "arbiter")
    assert judged.calls.failed == 1


class Checked(Scripted):
    """A judge that is found wanting when it is checked."""

    async def prepare(self) -> None:
        raise JudgeSetupError("no API key", where="swap.arbiter")


async def test_an_arbiter_that_cannot_be_called_ends_a_run_before_anything_is_paid():
    asked, store = Scripted(at_odds("none")), Memory()
    with pytest.raises(JudgeSetupError, match="no API key"):
        await run(2, Third(), [asked], store, arbiter=Checked(spec=ARBITER))
    assert not asked.asked
    await run(2, Third(), [asked], store)
    stored = await run(2, Third(), [asked], store, arbiter=Checked(spec=ARBITER))
    assert stored.calls == Calls(planned=4, stored=4)


async def test_the_total_grows_by_what_follows():
    seen = []
    await run(3, Third(), [Scripted(at_odds())], observe=seen.append)
    assert {progress.total for progress in seen} == {6, 7}
    assert all(progress.done <= progress.total for progress in seen)
    assert (seen[-1].done, seen[-1].total) == (7, 7)
