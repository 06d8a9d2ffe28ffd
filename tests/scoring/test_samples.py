"""Several samples of one question."""

import statistics
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.arrays import combine
from tests.support.thorough import examples

VALUES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([None, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0])),
    max_size=25,
)


def obvious(how, values):
    if not values:
        return None
    if how == "majority":
        return statistics.mean(statistics.multimode(values))
    return statistics.mean(values) if how == "mean" else statistics.median(values)


@given(VALUES, st.sampled_from(["mean", "median", "majority"]))
def test_combining_equals_the_obvious_version(rows, how):
    place = np.array([row[0] for row in rows], dtype=np.int64)
    values = np.array([np.nan if row[1] is None else row[1] for row in rows], dtype=np.float64)
    got = combine(how, place, values, 5)
    for k in range(5):
        wanted = obvious(how, [value for at, value in rows if at == k and value is not None])
        assert np.isnan(got[k]) if wanted is None else got[k] == pytest.approx(wanted)


def test_majority_does_not_tell_dust_from_difference():
    assert combine("majority", np.zeros(3, np.int64), np.array([0.3, 0.1 + 0.2, 0.9]), 1)[
        0
    ] == pytest.approx(0.3)


def differences(rows):
    """Spread and flip rate in the words of their docstring; None where no question has two samples."""
    spreads, flips = [], []
    for values in rows:
        there = [value for value in values if value is not None]
        if len(there) > 1:
            spreads.append(statistics.stdev(there))
            pairs = list(combinations([(v > 1e-9) - (v < -1e-9) for v in there], 2))
            flips.append(sum(a != b for a, b in pairs) / len(pairs))
    return (statistics.mean(spreads), statistics.mean(flips)) if spreads else (None, None)


SAMPLES = st.lists(
    st.lists(st.sampled_from([None, -1.0, -0.25, 0.0, 0.5, 1.0]), min_size=3, max_size=3),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@examples(10)
@given(SAMPLES)
@example([[None, None, None], [None, -1.0, 1.0]])
def test_spread_and_flips_equal_the_obvious_version_and_lie_within_their_bounds(
    configure, make_case, judged, rows
):
    config = configure(swap={"policy": "none"}, mode={"samples": 3}, scoring={"bootstrap": 20})
    cases = [make_case(str(k)) for k in range(len(rows))]
    judgments = [
        judged(str(k), (0, 1), value, sample=s)
        for k, values in enumerate(rows)
        for s, value in enumerate(values)
    ]
    metrics = score_run(config, cases, judgments).metrics
    for name, wanted in zip(
        ("samples/spread", "samples/flip_rate"), differences(rows), strict=True
    ):
        got = metrics[name]
        assert got.value == (None if wanted is None else pytest.approx(wanted))
        lost = sum(sum(value is not None for value in values) < 2 for values in rows)
        assert (got.n, got.missing) == (len(rows) - lost, lost)
        if got.value is not None:
            assert got.worst_low - 1e-9 <= got.value <= got.worst_high + 1e-9
        assert got.worst_high <= (2**0.5 if name == "samples/spread" else 1) + 1e-9
    several = [
        {(v > 0) - (v < 0) for v in values if v is not None}
        for values in rows
        if sum(v is not None for v in values) > 1
    ]
    alike = metrics["samples/unanimous"]
    assert alike.value == (
        pytest.approx(statistics.mean(len(s) == 1 for s in several)) if several else None
    )


def test_one_sample_has_no_spread_and_orders_are_not_samples(configure, make_case, passes):
    metrics = score_run(configure(), [make_case("c")], passes("c", 1, -1)).metrics
    assert not [name for name in metrics if name.startswith("samples/")]
    twice = score_run(configure(mode={"samples": 2}), [make_case("c")], passes("c", 1, -1)).metrics
    assert (twice["samples/flip_rate"].value, twice["samples/flip_rate"].missing) == (None, 0)


@pytest.mark.parametrize(
    ("how", "score", "margin"),
    [("mean", 11 / 3, (0.1 - 0.4) / 2), ("median", 4.0, (-0.2 - 0.4) / 2), ("majority", 4.0, -1.0)],
)
def test_values_by_criterion_are_combined_as_configured(
    configure, pointwise, make_case, judged, how, score, margin
):
    more = {"scoring": {"combine": how}}
    judgments = [
        judged("c", (0,), criteria={"quality": value}, sample=k)
        for k, value in enumerate([4, 3, 4])
    ]
    found = score_run(pointwise(**more), [make_case("c")], judgments).verdicts
    verdict = next(v for v in found if v.unit == (0,))
    assert (verdict.score, verdict.criteria["quality"]) == (
        pytest.approx(score),
        pytest.approx(score),
    )
    rows = [(0.9, False), (-0.4, False), (-0.2, False), (-0.4, True)]
    judgments = [
        judged("c", (0, 1), swapped=swapped, criteria={"quality": value}, sample=k)
        for k, (value, swapped) in enumerate(rows)
    ]
    [verdict] = score_run(configure(**more), [make_case("c")], judgments).verdicts
    assert verdict.criteria["quality"] == pytest.approx(margin)
    plain = [replace(one, value=one.criteria["quality"], criteria={}) for one in judgments]
    [verdict] = score_run(configure(**more), [make_case("c")], plain).verdicts
    assert verdict.margin == pytest.approx(margin)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["mean", "median", "majority"])
@pytest.mark.parametrize(("policy", "margins", "reason"), [
    ("none", [1.0, -1.0], "split"),
    ("none", [0.0, 0.0], "judged"),
    ("none", [1.0, 0.0, -1.0], "split"),
    ("none", [0.5, 0.0, 0.0, 0.0, -0.5], "judged"),
    ("both", [1.0, -1.0], "split"),
    ("both", [0.0, 0.0], "judged"),
])  # fmt: skip
def test_a_tie_that_no_sample_said_is_not_the_judges(
    configure, make_case, judged, how, policy, margins, reason
):
    """The same samples in each order: what is a tie is either what most of them say, or that they cancel out."""
    config = configure(
        swap={"policy": policy}, mode={"samples": len(margins)}, scoring={"combine": how}
    )
    orders = (False, True) if policy == "both" else (False,)
    samples = [
        judged("c", (0, 1), margin, swapped=order, sample=k)
        for order in orders
        for k, margin in enumerate(margins)
    ]
    scores = score_run(config, [make_case("c"), make_case("d")], samples)
    verdict = scores.verdicts[0]
    assert (verdict.winner, verdict.reason) == ("TIE", reason)
    assert scores.metrics[f"tie_rate/{reason}"].value == scores.metrics["tie_rate"].value == 1.0
    assert scores.metrics["tie_rate/split"].n == 1


def test_a_panel_tells_a_split_of_samples_from_a_threshold(configure, make_case, judged):
    """Two of three judges tie, each by its own samples; the tie has most votes, and is nobody's word."""
    judges = [{"model": name, "name": name} for name in ("j", "k", "l")]
    config = configure(
        judge={"name": "panel", "judges": judges}, mode={"samples": 2}, swap={"policy": "none"}
    )
    said = {"j": (1.0, -1.0), "k": (-1.0, 1.0), "l": (1.0, 1.0)}
    samples = [
        judged("c", (0, 1), margin, sample=k, judge=name)
        for name, margins in said.items()
        for k, margin in enumerate(margins)
    ]
    (verdict,) = score_run(config, [make_case("c")], samples).verdicts
    assert (verdict.winner, verdict.reason) == ("TIE", "split")
