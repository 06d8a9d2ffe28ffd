"""An outage is waited for, an expired one ends the run, and a server that has never answered has none."""

from itertools import pairwise

import pytest

from evalkit.config import RunnerConfig
from evalkit.core.errors import AccessError, CallError
from evalkit.engine.judging import judge_cases
from evalkit.engine.outages import LOOK_EVERY
from tests.support.engine_fakes import DONE, Both, Scripted, Time, cases

AWAY = {
    "refused": ("connection", "outage", 0),
    "bad gateway": ("server", "server", 502),
    "reset": ("connection", "server", 0),
}


def fault(kind, scope, status):
    return CallError(kind, "away", retryable=True, scope=scope, status=status)


async def run(answer, time, **runner):
    settings = RunnerConfig(**{"concurrency": 2, "retries": 2, **runner})
    scripted = Scripted(answer)
    seen = []
    judged = await judge_cases(
        cases(20),
        Both(orders=1),
        [scripted],
        None,
        settings,
        clock=time.clock,
        observe=lambda progress: seen.append(progress.waiting),
    )
    return judged, scripted, seen


@pytest.mark.parametrize("kind", AWAY)
async def test_an_outage_after_answers_fails_no_call(kind):
    time = Time()

    def answer(_, number):
        return DONE if number <= 4 or time.now > 60 else fault(*AWAY[kind])

    judged, _, seen = await run(answer, time)
    assert [one.status for one in judged.judgments] == ["ok"] * 20
    assert judged.calls.sent == 20
    assert any("runner.outage" in waiting for waiting in seen)


@pytest.mark.parametrize("kind", AWAY)
async def test_an_outage_that_lasts_ends_the_run_once_and_one_call_looks_at_a_time(kind):
    time = Time()
    looks = []

    def answer(_, number):
        if number > 30:
            looks.append(time.now)
        return DONE if number <= 4 else fault(*AWAY[kind])

    judged, scripted, _ = await run(answer, time, outage=60, concurrency=4, retries=1)
    assert "runner.outage" in judged.stopped
    assert sum(one.status == "ok" for one in judged.judgments) == 4
    assert scripted.most_at_once <= 4
    # The last look is at the end of the outage, whenever that is.
    gaps = [later - look for look, later in pairwise(looks[:-1])]
    assert min(gaps) > LOOK_EVERY - 1e-9
    assert len(looks) <= 60 / LOOK_EVERY


@pytest.mark.parametrize(
    "waits",
    [{"retry_after": 3600.0}, {"scope": "loading"}, {"scope": "loading", "status": 500}],
)
async def test_a_server_that_cannot_be_called_before_any_answer_leaves_no_judgments(waits):
    away = CallError("server", "later", retryable=True, **{"status": 503, **waits})
    with pytest.raises(AccessError, match="run again") as caught:
        await run(lambda *_: away, Time())
    assert caught.value.kind == "server"


@pytest.mark.parametrize("outage", [0, 120])
async def test_a_server_that_never_answered_has_no_outage(outage):
    time = Time()
    judged, scripted, _ = await run(lambda *_: fault(*AWAY["refused"]), time, outage=outage)
    assert {one.error_kind for one in judged.judgments} >= {"connection"}
    assert len(scripted.asked) <= 60
    assert "outage" not in (judged.stopped or "")


async def test_timeouts_lower_the_number_of_calls_at_a_time():
    time = Time()
    late = CallError("timeout", "no answer", retryable=True)

    def answer(_, number):
        return late if 8 <= number < 12 else DONE

    judged, scripted, _ = await run(answer, time, concurrency=8)
    assert [one.status for one in judged.judgments] == ["ok"] * 20
    assert scripted.most_at_once == 8
