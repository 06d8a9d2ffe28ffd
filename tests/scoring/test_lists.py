"""Rankings: the pairs and scores they imply, and that every metric of pairs follows from them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from evalkit.errors import ConfigError
from evalkit.scoring import score_run, verdicts_of
from evalkit.scoring.judgments import implied, is_list, read_judgments, scores_of
from evalkit.types import Case, Judgment, Ranking, Response

CASE = Case("c", "q", tuple(Response(text, grade=grade) for text, grade in zip("abcd", (4, 3, 2, 1), strict=True)))


def listed(ranking: Ranking | None, shown: tuple[int, ...] = (0, 1, 2, 3), sample: int = 0, **more) -> Judgment:
    status = "ok" if ranking is not None else "unparseable"
    return Judgment(
        more.pop("case", "c"), tuple(sorted(shown)), shown, sample, "m", status, **{"ranking": ranking} | more
    )


@st.composite
def rankings(draw: st.DrawFn) -> Ranking:
    """Some of n responses, in groups, in any order."""
    places = draw(st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=2, max_size=7))
    levels = sorted({place for place in places if place is not None})
    return tuple(tuple(i for i, place in enumerate(places) if place == level) for level in levels)


@given(rankings())
def test_scores_are_mid_ranks(ranking):
    ranked = sorted(index for group in ranking for index in group)
    scores = scores_of(ranking)
    if len(ranked) < 2:
        assert scores == {}
        return
    level = {index: place for place, group in enumerate(ranking) for index in group}
    ranks = rankdata([level[index] for index in ranked])
    assert [scores[index] for index in ranked] == pytest.approx(1 - (ranks - 1) / (len(ranked) - 1))


@given(rankings())
def test_a_pair_is_won_by_the_higher_place_and_missing_where_one_was_left_out(ranking):
    n = max((index for group in ranking for index in group), default=1) + 2
    level = {index: place for place, group in enumerate(ranking) for index in group}
    pairs = implied(listed(ranking, tuple(range(n))), 2, 0)
    assert [pair.unit for pair in pairs] == list(combinations(range(n), 2))
    for pair in pairs:
        i, j = pair.unit
        if i in level and j in level:
            assert np.sign(pair.value) == np.sign(level[j] - level[i])
            assert abs(pair.value) <= 1
        else:
            assert pair.value is None


def test_each_pair_is_shown_as_the_list_had_it():
    pairs = {pair.unit: pair.shown for pair in implied(listed(((0, 1, 2, 3),), shown=(2, 0, 3, 1)), 2, 0)}
    assert pairs == {(0, 1): (0, 1), (0, 2): (2, 0), (0, 3): (0, 3), (1, 2): (2, 1), (1, 3): (3, 1), (2, 3): (2, 3)}


def test_a_pair_judgment_passes_through():
    pair = Judgment("c", (0, 1), (1, 0), 0, "m", "ok", 1.0)
    judgments = read_judgments([CASE], [pair, listed(((0,), (1,), (2,), (3,)))], ["quality"])
    assert not is_list(pair)
    assert (len(judgments.asked), len(judgments.of_units(2)), len(judgments.of_units(1))) == (2, 1 + 6, 4)
    assert not len(read_judgments([CASE], [pair], ["quality"]).of_units(1))


def test_two_responses_ranked_are_a_win_of_the_whole_margin():
    (pair,) = implied(listed(((1,), (0,)), (0, 1)), 2, 0)
    assert pair.value == -1.0


def test_verdicts_on_responses_and_on_pairs(configure):
    config = configure(mode={"name": "listwise"})
    both = [listed(((0,), (1, 2), (3,)), confidence=0.8), listed(((0,), (2,), (1,)), (3, 2, 1, 0), confidence=0.6)]
    scores = score_run(config, [CASE], both)
    assert [verdict.unit for verdict in scores.verdicts] == [*((i,) for i in range(4)), *combinations(range(4), 2)]
    of = {verdict.unit: verdict for verdict in scores.verdicts}
    assert of[0,].score == 1.0
    assert of[1,].score == pytest.approx((0.5 + 0) / 2)
    assert of[3,].score == 0.0  # the one list that has it has it last; where it was left out it is not
    assert of[0, 1].winner == "A"
    assert of[0, 1].confidence == pytest.approx(0.7)
    assert of[0, 1].margin == pytest.approx((0.5 + 1) / 2)
    assert (of[1, 2].winner, of[1, 2].reason) == ("TIE", "swap_disagreement")
    assert (of[0, 3].winner, of[0, 3].reason) == (None, "missing")
    assert of[0, 3].orders is not None
    assert (of[0, 3].orders.first, of[0, 3].orders.second) == ("A", None)
    assert of[0, 1].label == "A"
    assert of[1,].label == 3.0


def test_every_metric_of_pairs_and_the_correlations_follow(configure):
    config = configure(mode={"name": "listwise"})
    cases = [Case(str(k), "q", CASE.responses) for k in range(8)]
    right, wrong = ((0,), (1,), (2,), (3,)), ((3,), (2,), (1,), (0,))
    judgments = [
        listed(right if k < 6 else wrong, shown, case=str(k), confidence=0.9)
        for k in range(8)
        for shown in ((0, 1, 2, 3), (3, 2, 1, 0))
    ]
    metrics = score_run(config, cases, judgments).metrics
    assert metrics["agreement/accuracy"].value == 0.75
    assert metrics["agreement/accuracy_both_orders"].value == 0.75
    assert metrics["agreement/spearman"].value == pytest.approx(0.5)
    assert metrics["position/first_rate"].value == 0.5
    assert metrics["position/consistency"].value == 1.0
    assert 0 < metrics["calibration/ece"].value < 0.15  # which is what eight cases, two of them wrong, show
    assert metrics["conflict/rate"].value == 0.0
    assert "one ranking has no cycles" in metrics["conflict/rate"].note
    assert "score/mean" not in metrics
    assert metrics["missing/unparseable"].n == 16


def test_a_list_that_cannot_be_read_is_missing_for_each_of_its_pairs(configure):
    config = configure(mode={"name": "listwise"})
    scores = score_run(config, [CASE], [listed(((0,), (1,), (2,), (3,))), listed(None, (3, 2, 1, 0))])
    pairs = [verdict for verdict in scores.verdicts if len(verdict.unit) == 2]
    assert {verdict.reason for verdict in pairs} == {"missing"}
    assert scores.metrics["agreement/accuracy"].missing == 6
    assert scores.metrics["missing/unparseable"].value == 0.5
    assert [verdict.score for verdict in scores.verdicts[:4]] == pytest.approx([1, 2 / 3, 1 / 3, 0], abs=1e-9)


def test_rankings_by_criterion_are_weighted_into_margins_and_scores(configure):
    criteria = [{"name": "x", "weight": 3}, {"name": "y", "weight": 1}]
    by = {"x": ((1,), (0,), (2,)), "y": ((0,), (1, 2))}
    case = Case("c", "q", CASE.responses[:3])
    judgment = listed(((2,), (1,), (0,)), (0, 1, 2), rankings=by)
    for settings, margin, score in (
        ({"aggregate": "overall"}, -0.5, 0.0),
        ({"weights": {"x": 1, "y": 1}}, -0.5, 0.0),
        ({}, 0.75 * -0.5 + 0.25 * 0.75, 0.75 * 0.5 + 0.25 * 1),
        ({"aggregate": "criteria", "weights": {"x": 1, "y": 1}}, 0.5 * -0.5 + 0.5 * 0.75, 0.75),
    ):
        config = configure(mode={"name": "listwise"}, criteria=criteria, swap={"policy": "none"}, scoring=settings)
        of = {verdict.unit: verdict for verdict in verdicts_of(config, [case], [judgment])}
        assert of[0, 1].margin == pytest.approx(margin)
        assert of[0,].score == pytest.approx(score)
        assert of[0, 1].criteria == pytest.approx({"x": -0.5, "y": 0.75})
        assert of[0,].criteria == pytest.approx({"x": 0.5, "y": 1.0})


def test_samples_are_averaged(configure):
    case = Case("c", "q", CASE.responses[:3])
    judgments = [listed(((0,), (1,), (2,)), (0, 1, 2), 0), listed(((1,), (0,), (2,)), (2, 1, 0), 1)]
    config = configure(mode={"name": "listwise"}, swap={"policy": "random"})
    of = {verdict.unit: verdict for verdict in verdicts_of(config, [case], judgments)}
    assert of[0,].score == pytest.approx(0.75)
    assert of[2,].score == 0.0


def test_single_responses_and_lists_do_not_mix(configure):
    single = Judgment("c", (0,), (0,), 0, "m", "ok", 1.0)
    with pytest.raises(ConfigError, match="judgments of 1 and 4 responses cannot be scored together"):
        score_run(configure(mode={"name": "listwise"}), [CASE], [single, listed(((0, 1, 2, 3),))])
