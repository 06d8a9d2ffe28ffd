"""Cycles, their chance level, and intransitive indifference."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from evalkit.scoring import score_run
from evalkit.scoring.metrics.transitivity import (
    chance_rate,
    cyclic_shares,
    cyclic_triads,
    enumerate_shares,
    in_cycle,
    matrices,
    simulate_shares,
    weak_violation,
)


@given(
    st.integers(3, 7).flatmap(
        lambda n: st.lists(st.sampled_from([1, 0, -1]), min_size=n * (n - 1) // 2, max_size=n * (n - 1) // 2)
    )
)
def test_cycles_equal_scipy_and_counting(outcomes):
    wins, tied = matrices(np.array([outcomes], dtype=np.int8))
    n = wins.shape[-1]
    _, component = connected_components(wins[0], directed=True, connection="strong")
    sizes = np.bincount(component)
    assert in_cycle(wins)[0].tolist() == (sizes[component] > 1).tolist()
    circles = sum(
        any(wins[0][a, b] and wins[0][b, c] and wins[0][c, a] for a, b, c in permutations(three))
        for three in combinations(range(n), 3)
    )
    assert cyclic_triads(wins)[0] == circles
    weak = any(tied[0][a, b] and tied[0][b, c] and wins[0][a, c] for a, b, c in permutations(range(n), 3))
    assert weak_violation(wins, tied)[0] == weak


@pytest.mark.parametrize(("tie_rate", "percent"), [(0, 62.5), (0.1, 51.0), (0.281, 30.8), (0.5, 11.9), (1, 0)])
def test_chance_among_four(tie_rate, percent):
    assert round(100 * float(chance_rate(4, np.array(tie_rate))), 1) == percent


def test_chance_among_three_and_without_ties_among_many():
    assert float(chance_rate(3, np.array(0.0))) == pytest.approx(2 / 8)
    assert float(chance_rate(3, np.array(0.2))) == pytest.approx(2 / 8 * 0.8**3)
    assert float(chance_rate(5, np.array(0.0))) == pytest.approx(1 - 120 / 2**10)
    assert float(chance_rate(7, np.array(0.0))) == pytest.approx(1 - 5040 / 2**21, abs=1e-3)


def test_simulated_chance_equals_enumerated():
    np.testing.assert_allclose(simulate_shares(4), enumerate_shares(4), atol=0.012)
    assert cyclic_shares(6) is cyclic_shares(6)
    assert np.array_equal(simulate_shares(6), simulate_shares(6))


CIRCLE = {(0, 1): 1, (1, 2): 1, (0, 2): -1, (0, 3): 1, (1, 3): 1, (2, 3): 1}
LADDER = dict.fromkeys(CIRCLE, 1)


def play(configure, make_case, judged, games, **sections):
    cases = [make_case(str(k), "abcd") for k in range(len(games))]
    judgments = [judged(str(k), pair, margin) for k, game in enumerate(games) for pair, margin in game.items()]
    return score_run(configure(swap={"policy": "none"}, **sections), cases, judgments).metrics


def test_the_figures_of_the_note(configure, make_case, judged):
    metrics = play(configure, make_case, judged, [CIRCLE] * 3 + [LADDER] * 16)
    rate, nodes = metrics["conflict/rate"], metrics["conflict/nodes"]
    assert round(100 * rate.value, 2) == 15.79
    assert (rate.n, nodes.value, nodes.n) == (19, 9, 76)
    assert metrics["conflict/triads"].value == 3
    assert metrics["conflict/chance_rate"].value == 0.625
    assert metrics["conflict/ratio"].value == pytest.approx(3 / 19 / 0.625)
    assert metrics["conflict/weak_rate"].value == 0
    assert rate.low < rate.value < rate.high


def test_a_case_with_a_missing_verdict_is_left_out_and_bounded(configure, make_case, judged):
    broken = {**CIRCLE, (2, 3): None}
    metrics = play(configure, make_case, judged, [CIRCLE, LADDER, broken])
    rate = metrics["conflict/rate"]
    assert (rate.value, rate.n, rate.missing) == (0.5, 2, 1)
    assert (rate.worst_low, rate.worst_high) == pytest.approx((1 / 3, 2 / 3))
    nodes = metrics["conflict/nodes"]
    assert (nodes.value, nodes.missing, nodes.worst_low, nodes.worst_high) == (3, 4, 3, 7)


def test_chance_follows_the_tie_rate_and_the_sizes(configure, make_case, judged):
    cases = [make_case("four", "abcd"), make_case("three", "abc"), make_case("two", "ab")]
    judgments = [judged("four", pair, margin) for pair, margin in {**LADDER, (0, 3): 0}.items()]
    judgments += [judged("three", pair, margin) for pair, margin in {(0, 1): 1, (0, 2): 0, (1, 2): 1}.items()]
    judgments += [judged("two", (0, 1), 0)]
    metrics = score_run(configure(swap={"policy": "none"}), cases, judgments).metrics
    expected = (float(chance_rate(4, np.array(2 / 9))) + float(chance_rate(3, np.array(2 / 9)))) / 2
    assert metrics["conflict/chance_rate"].value == pytest.approx(expected)
    assert metrics["conflict/rate"].n == 2
    assert "3, 4 responses at a tie rate of 0.222" in metrics["conflict/chance_rate"].note


def test_no_case_to_look_at_and_no_win_to_look_for(configure, make_case, judged, passes):
    metrics = score_run(configure(), [make_case("c")], passes("c", 1, 1)).metrics
    for name in ("rate", "nodes", "triads", "chance_rate", "ratio", "weak_rate"):
        assert metrics[f"conflict/{name}"].value is None
        assert "no case has at least three responses" in metrics[f"conflict/{name}"].note
    tied = play(configure, make_case, judged, [dict.fromkeys(CIRCLE, 0)] * 2)
    assert tied["conflict/rate"].value == 0
    assert tied["conflict/ratio"].value is None
    assert "random outcomes would make no cycle" in tied["conflict/ratio"].note


def test_scores_cannot_make_a_cycle_but_a_threshold_breaks_transitivity(pointwise, make_case, judged):
    judgments = [judged("c", (k,), criteria={"quality": value}) for k, value in enumerate([1, 2, 3])]
    metrics = score_run(pointwise(tie={"threshold": 1}), [make_case("c", "abc")], judgments).metrics
    for name in ("rate", "nodes", "triads"):
        metric = metrics[f"conflict/{name}"]
        assert (metric.value, metric.low, metric.high, metric.worst_high) == (0, 0, 0, 0)
        assert "0 by construction" in metric.note
    assert metrics["conflict/weak_rate"].value == 1
    assert "conflict/ratio" not in metrics
    lost = score_run(pointwise(), [make_case("c", "abc")], judgments[:2]).metrics
    assert (lost["conflict/rate"].value, lost["conflict/rate"].missing) == (None, 1)
