"""The order effect apart from noise, and identical responses."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.scoring import score_run

MARGIN = st.sampled_from([1.0, 0.0, -1.0, None])


def run(configure, make_case, judged, rows, **sections):
    """Score cases given as (samples in the own order, samples in the swapped order), margins un-swapped."""
    cases = [make_case(str(k)) for k in range(len(rows))]
    judgments = [
        judged(str(k), (0, 1), value, swapped=bool(order), sample=sample)
        for k, row in enumerate(rows)
        for order, samples in enumerate(row)
        for sample, value in enumerate(samples)
    ]
    return score_run(configure(**sections), cases, judgments).metrics


@given(st.lists(st.tuples(*[st.lists(MARGIN, min_size=1, max_size=4)] * 2), min_size=1, max_size=5))
def test_it_equals_counting_pairs_of_answers(configure, make_case, judged, rows):
    metrics = run(configure, make_case, judged, rows, scoring={"bootstrap": 0})
    repeats, swaps = [], []
    for row in rows:
        first, second = ([value for value in samples if value is not None] for samples in row)
        if len(first) >= 2 and len(second) >= 2:
            same = [np.mean([a == b for a, b in combinations(side, 2)]) for side in (first, second)]
            repeats.append(np.mean(same))
            swaps.append(np.mean([a == b for a, b in product(first, second)]))
    found = [metrics[f"position/{name}"] for name in ("repeat_consistency", "swap_consistency", "order_effect")]
    assert [metric.n for metric in found] == [len(repeats)] * 3
    if repeats:
        expected = [np.mean(repeats), np.mean(swaps), np.mean(repeats) - np.mean(swaps)]
        assert [metric.value for metric in found] == pytest.approx(expected, abs=1e-9)
        assert {metric.missing for metric in found} == {len(rows) - len(repeats)}
    else:
        assert {metric.value for metric in found} == {None}


def simulated(seed, chance_of_first):
    """Return 150 pairs, three samples an order, of a judge that tosses a coin of this bias for the first shown."""
    generator = np.random.default_rng(seed)
    first = np.where(generator.random((150, 2, 3)) < chance_of_first, 1.0, -1.0)
    return [(list(own), list(-swapped)) for own, swapped in first]


def test_a_judge_that_tosses_coins_is_inconsistent_and_not_biased(configure, make_case, judged):
    metrics = run(configure, make_case, judged, simulated(1, 0.5))
    effect, first = metrics["position/order_effect"], metrics["position/first_rate"]
    assert metrics["position/consistency"].value < 0.6
    assert effect.low < 0 < effect.high
    assert first.low < 0.5 < first.high


def test_a_judge_that_takes_the_first_has_an_order_effect(configure, make_case, judged):
    always = run(configure, make_case, judged, [([1.0, 1.0], [-1.0, -1.0])] * 5)
    assert always["position/order_effect"].value == 1
    # With chance p of the first: p² + q² within an order, 2pq across: (p - q)² between them.
    mostly = run(configure, make_case, judged, simulated(2, 0.8))["position/order_effect"]
    assert mostly.low < 0.6**2 < mostly.high
    assert mostly.low > 0.2


@pytest.mark.parametrize(
    ("rows", "sections", "why"),
    [
        ([([1.0], [1.0])], {}, "one sample of each order: set mode.samples"),
        ([([1.0, 1.0], [1.0, None])], {}, "no pair has two readable samples in both orders"),
        ([([1.0, 1.0], [])], {"swap": {"policy": "none"}}, "judged in one order"),
    ],
)
def test_what_cannot_be_told_says_why(configure, make_case, judged, rows, sections, why):
    metric = run(configure, make_case, judged, rows, **sections)["position/order_effect"]
    assert (metric.value, metric.low) == (None, None)
    assert why in metric.note


def test_preference_between_identical_responses(configure, make_case, passes):
    cases = [make_case("same", ("x", "x")), make_case("three", ("x", "y", "x")), make_case("lost", ("z", "z"))]
    judgments = [*passes("same", 1.0, -1.0), *passes("lost", 0.0, None)]
    for unit in combinations(range(3), 2):
        judgments += passes("three", 0.0, 1.0, unit)
    metric = score_run(configure(), cases, judgments).metrics["position/identical_preference"]
    # Passes of equal texts: both of "same" prefer one, one of the two of (0, 2) in "three", none of "lost".
    assert (metric.value, metric.n, metric.missing) == (pytest.approx(3 / 5), 5, 1)
    assert (metric.worst_low, metric.worst_high) == pytest.approx((3 / 6, 4 / 6))
    none = score_run(configure(), [make_case("c")], passes("c", 1.0, 1.0)).metrics["position/identical_preference"]
    assert none.note == "no case has two identical responses"
    unread = score_run(configure(), cases[:1], passes("same", None, None)).metrics["position/identical_preference"]
    assert unread.note == "no pair of identical responses was read"
