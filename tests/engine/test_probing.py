"""What is drawn for a probe: so many requests, each as likely as any other, and the same whoever asks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from evalkit.engine import plan
from evalkit.engine.plan import PilotSample, SubsetEvaluator
from evalkit.types import JudgeSpec
from tests.support.engine_fakes import Both, Memory, cases

SPEC, OTHER = JudgeSpec("one", "fake/one"), JudgeSpec("two", "fake/two", "http://127.0.0.1:1", {"seed": 1})


def drawn(draw: PilotSample) -> set[str]:
    return {call.request.messages[0]["content"] for call in draw.calls}


def test_every_judge_is_asked_the_same_in_whatever_order_the_cases_come() -> None:
    draws = [PilotSample(5) for _ in range(3)]
    plan(cases(30), Both(), [SPEC], None, draws[0])
    plan(cases(30)[::-1], Both(), [OTHER], Memory(), draws[1])
    plan([*cases(30), *(replace(case, id=f"again {case.id}") for case in cases(30))], Both(), [SPEC], None, draws[2])
    assert drawn(draws[0]) == drawn(draws[1]) == drawn(draws[2])
    assert len(drawn(draws[0])) == len(draws[2].calls) == 5
    assert [call.position for call in draws[0].calls] == sorted(call.position for call in draws[0].calls)


def test_all_are_drawn_where_there_are_fewer() -> None:
    draw = PilotSample(50)
    plan(cases(3) * 2, Both(), [SPEC], None, draw)
    assert len(draw.calls) == 6
    assert [case.id for case in draw.cases] == ["c0", "c1", "c2"]


def test_every_request_is_drawn_about_as_often() -> None:
    counts: Counter[str] = Counter()
    for seed in range(600):
        draw = PilotSample(5, seed)
        plan(cases(10), Both(), [SPEC], None, draw)
        counts.update(drawn(draw))
    assert sum(counts.values()) == 3000
    # 600 draws of 5 out of 20: 150 each, standard deviation 10.6
    assert len(counts) == 20
    assert all(abs(count - 150) < 4 * 10.6 for count in counts.values())


def test_only_what_was_drawn_is_asked_and_nothing_after_it() -> None:
    draw = PilotSample(4)
    plan(cases(9), Both(), [SPEC], None, draw)
    only = SubsetEvaluator(Both(), draw)
    asked = [request for case in cases(9) for request in only.plan(case)]
    assert {request.messages[0]["content"] for request in asked} == drawn(draw)
    assert not hasattr(only, "follow")
