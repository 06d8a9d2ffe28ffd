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
