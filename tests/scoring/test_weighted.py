"""Judgments by expectation: all of a judge's, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalkit.errors import ConfigError
from evalkit.scoring import score_run, verdicts_of
from evalkit.types import WeightedJudgment

ASKED = {"model": "m", "logprobs": True}
FALLBACK = {"model": "m", "logprobs": "fallback"}


def weighed(judgment, value=None, mass=0.9, open_=0.1, **criteria):
    return replace(judgment, weighted=WeightedJudgment(value, criteria, mass, open_))


@pytest.fixture
def pair(passes):
    return [weighed(one, value, quality=value) for one, value in zip(passes("c", 1, 1), (0.5, 0.1), strict=True)]


def test_margins_are_expectations(configure, make_case, pair):
    scores = score_run(configure(judge=ASKED), [make_case("c")], pair)
    assert scores.verdicts[0].margin == pytest.approx(0.3)
    assert scores.verdicts[0].criteria == {"quality": pytest.approx(0.3)}
    stated = score_run(configure(judge=ASKED, scoring={"weighted": False}), [make_case("c")], pair)
    assert stated.verdicts[0].margin == 1
    assert stated.metrics["weighted/rate"].value == 1
    unasked = score_run(configure(), [make_case("c")], pair)
    assert unasked.verdicts[0].margin == 1
    assert "weighted/rate" not in unasked.metrics


def test_scores_are_expectations_and_break_ties(pointwise, make_case, judged):
    judgments = [
        weighed(judged("c", (k,), criteria={"quality": 4}), quality=value) for k, value in enumerate((3.8, 4.2))
    ]
    case = make_case("c", grades=[1, 2])
    scores = score_run(pointwise(judge=ASKED), [case], judgments)
    assert [verdict.score for verdict in scores.verdicts[:2]] == [3.8, 4.2]
    assert scores.verdicts[2].winner == "B"
    assert verdicts_of(pointwise(judge=ASKED, scoring={"weighted": False}), [case], judgments)[2].winner == "TIE"


def test_one_judgment_without_probabilities_is_a_mistake_where_they_are_a_must(configure, make_case, pair):
    pair[1] = replace(pair[1], weighted=None)
    with pytest.raises(
        ConfigError, match=r"judge\.logprobs: some judgments by m have no probabilities; rerun the judge"
    ):
        score_run(configure(judge=ASKED), [make_case("c")], pair)


def test_with_fallback_the_kinds_are_never_mixed(configure, make_case, pair):
    pair[1] = replace(pair[1], weighted=None)
    scores = score_run(configure(judge=FALLBACK), [make_case("c")], pair)
    assert scores.verdicts[0].margin == 1
    rate = scores.metrics["weighted/rate"]
    assert (rate.value, rate.n) == (0.5, 2)
    assert "scored as stated" in rate.note
    pair[1] = replace(pair[1], status="unparseable", value=None)
    alone = score_run(configure(judge=FALLBACK, swap={"policy": "none"}), [make_case("c")], pair)
    assert alone.verdicts[0].margin == 0.5
    assert alone.metrics["weighted/rate"].note is None or "stated" not in alone.metrics["weighted/rate"].note


def test_each_judge_and_arbiter_is_of_its_own_kind(configure, make_case, passes, judged):
    config = configure(judge=ASKED, swap={"resolve": "third_pass", "arbiter": {"model": "wise"}})
    judgments = [weighed(one, value) for one, value in zip(passes("c", 1, -1), (0.2, -0.6), strict=True)]
    judgments.append(judged("c", (0, 1), 1.0, arbiter="wise"))
    scores = score_run(config, [make_case("c")], judgments)
    assert (scores.verdicts[0].winner, scores.verdicts[0].margin) == ("A", pytest.approx(0.2))
    assert scores.metrics["weighted/rate"].n == 2
    panel = {"judges": [ASKED, {"model": "n"}]}
    both = [
        *(weighed(one, 0.5) for one in passes("c", 1, 1)),
        *(replace(one, judge="n") for one in passes("c", -1, -1)),
    ]
    voted = score_run(configure(judge={**panel, "vote": "mean"}), [make_case("c")], both)
    assert voted.verdicts[0].margin == pytest.approx(-0.25)
    assert voted.metrics["judge/m/weighted/rate"].value == 1
    assert "judge/n/weighted/rate" not in voted.metrics


def test_how_much_probability_was_seen_is_said(configure, make_case, passes):
    cases = [make_case(str(k)) for k in range(4)]
    judgments = [
        weighed(one, 0.5, mass=0.2 + 0.1 * k, open_=0.05 * k) for k in range(4) for one in passes(str(k), 1, 1)
    ]
    metrics = score_run(configure(judge=ASKED), cases, judgments).metrics
    mass, shared = metrics["weighted/mass"], metrics["weighted/open"]
    assert (mass.value, mass.n) == (pytest.approx(0.35), 8)
    assert mass.low < 0.35 < mass.high
    assert "not values of the scale" in mass.note
    assert shared.value == pytest.approx(0.075)
    likely = [weighed(one, 0.5) for one in passes("0", 1, 1)]
    assert "scale" not in (score_run(configure(judge=ASKED), cases[:1], likely).metrics["weighted/mass"].note or "")
    nothing = score_run(configure(judge=ASKED), cases, []).metrics
    assert [nothing[name].value for name in ("weighted/rate", "weighted/mass", "weighted/open")] == [None] * 3
