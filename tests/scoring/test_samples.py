"""Several samples of one question, and components of variance against every pair of observations."""

import statistics
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalkit.scoring.metrics.variance_components import Design, Observations
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.arrays import combine
from evalkit.scoring.stats.clusters import Clusters

SCORED = {"swap": {"policy": "none"}}
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


@pytest.mark.parametrize(
    ("how", "margins", "winner", "margin"),
    [
        ("mean", [1.0, -0.4, -0.4], "A", 0.2 / 3),
        ("median", [1.0, -0.4, -0.4], "B", -0.4),
        ("majority", [1.0, -0.4, -0.4], "B", -1),
        ("majority", [1.0, -0.4], "TIE", 0),
        ("majority", [1.0, 0.0], "A", 0.5),
        ("majority", [0.9, 0.2, -1.0, None], "A", 1),
        ("median", [1.0, 0.5, None], "A", 0.75),
    ],
)
def test_a_passes_samples_are_combined_as_configured(
    configure, make_case, judged, how, margins, winner, margin
):
    config = configure(
        swap={"policy": "none"}, mode={"samples": len(margins)}, scoring={"combine": how}
    )
    judgments = [judged("c", (0, 1), value, sample=k) for k, value in enumerate(margins)]
    [verdict] = score_run(config, [make_case("c")], judgments).verdicts
    assert verdict.winner == winner
    assert verdict.margin == pytest.approx(margin)


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


def test_scores_spread_in_scale_units_with_an_interval_over_cases(configure, make_case, judged):
    config = configure(**SCORED, mode={"name": "pointwise", "samples": 2})
    cases = [make_case(str(k), ("a",)) for k in range(6)]
    judgments = [
        judged(str(k), (0,), criteria={"quality": 1 + (s * k) % 5}, sample=s)
        for k in range(6)
        for s in range(2)
    ]
    metrics = score_run(config, cases, judgments).metrics
    spread, flips = metrics["samples/spread"], metrics["samples/flip_rate"]
    assert spread.value == pytest.approx(statistics.mean([0, 1, 2, 3, 4, 0]) / 2**0.5)
    assert flips.value == pytest.approx(4 / 6)
    assert spread.low < spread.value < spread.high
    assert flips.low < flips.value < flips.high
    lost = [judged(str(k), (0,), sample=s) for k in range(6) for s in range(2)]
    gone = score_run(config, cases, lost).metrics["samples/spread"]
    assert (gone.value, gone.missing, gone.worst_high) == (None, 6, pytest.approx(4 / 2**0.5))


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


@pytest.mark.slow
@pytest.mark.parametrize("how", ["mean", "median", "majority"])
@pytest.mark.parametrize(
    ("policy", "margins", "reason"),
    [
        ("none", [1.0, -1.0], "split"),
        ("none", [0.0, 0.0], "judged"),
        ("none", [1.0, 0.0, -1.0], "split"),
        ("none", [0.5, 0.0, 0.0, 0.0, -0.5], "judged"),
        ("both", [1.0, -1.0], "split"),
        ("both", [0.0, 0.0], "judged"),
    ],
)
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


def observations(generator, cases=4, units=2, orders=2, judges=2, samples=2, drop=0.2, **scale):
    rows = [
        (c, c * units + u, o, j)
        for c, u, o, j, _ in product(
            range(cases), range(units), range(orders), range(judges), range(samples)
        )
        if generator.random() >= drop
    ]
    case, unit, order, judge = (
        np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)
    )
    sd = {
        "case": 1.0,
        "unit": 0.5,
        "order": 0.7,
        "judge": 0.4,
        "case_order": 0.3,
        "noise": 0.6,
        **scale,
    }
    value = (
        sd["case"] * generator.normal(size=cases)[case]
        + sd["unit"] * generator.normal(size=cases * units)[unit]
        + sd["order"] * generator.normal(size=orders)[order]
        + sd["judge"] * generator.normal(size=judges)[judge]
        + sd["case_order"] * generator.normal(size=(cases, orders))[case, order]
        + sd["noise"] * generator.normal(size=len(case))
    )
    return Observations(value, case, unit, {"order": order, "judge": judge}, cases)


def slow(seen, weights=None):
    """Half the mean squared difference of all pairs by exactly what they share; copies of a case are other cases."""
    weights = np.ones(seen.cases, dtype=int) if weights is None else weights
    rows = [(k, copy) for k in range(len(seen.value)) for copy in range(weights[seen.case[k]])]
    found: dict = {}
    for (a, x), (b, y) in product(rows, rows):
        if (a, x) == (b, y):
            continue
        same = seen.case[a] == seen.case[b] and x == y
        depth = 0 if not same else 1 if seen.unit[a] != seen.unit[b] else 2
        shared = frozenset(name for name, level in seen.facets.items() if level[a] == level[b])
        found.setdefault((depth, shared), []).append((seen.value[a] - seen.value[b]) ** 2 / 2)
    return {key: (sum(values), len(values)) for key, values in found.items()}


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_sums_over_pairs_equal_going_through_all_of_them(seed):
    generator = np.random.default_rng(seed)
    design = Design(observations(generator, cases=3, samples=2))
    for weights in (np.ones(3, dtype=int), next(Clusters.each(3).draw(1, seed))[1][0].astype(int)):
        expected = slow(design.crossed, weights)
        sums, counts = (
            part[0] for part in design._exactly(design.table.totals(weights[None].astype(float)))
        )
        for effect, total, count in zip(design._every, sums, counts, strict=True):
            assert (total, count) == pytest.approx(expected.get(effect, (0.0, 0)), abs=1e-8)


@pytest.mark.slow
def test_planted_components_are_found_without_bias():
    generator = np.random.default_rng(3)
    found = []
    for _ in range(300):
        design = Design(observations(generator, cases=25, drop=0.15))
        found.append(
            dict(
                zip(
                    design.every_effect, design.components(design.table.sums[None])[0], strict=False
                )
            )
        )
        found[-1]["noise"] = design.components(design.table.sums[None])[0][-1]
    mean = {effect: np.mean([one[effect] for one in found]) for effect in found[0]}
    error = {effect: np.std([one[effect] for one in found]) / 300**0.5 for effect in found[0]}
    planted = {
        (1, frozenset()): 1.0,
        (2, frozenset()): 0.25,
        (0, frozenset({"order"})): 0.49,
        (0, frozenset({"judge"})): 0.16,
        (1, frozenset({"order"})): 0.09,
        "noise": 0.36,
    }
    for effect, value in mean.items():
        assert abs(value - planted.get(effect, 0.0)) < 4 * error[effect] + 1e-9


def test_components_of_a_balanced_design_equal_the_anova():
    generator = np.random.default_rng(0)
    table = generator.normal(size=30)[:, None] + generator.normal(size=(30, 4)) * 0.5
    case = np.repeat(np.arange(30), 4)
    design = Design(Observations(table.ravel(), case, case, {}, 30))
    between = 4 * table.mean(axis=1).var(ddof=1)
    within = table.var(axis=1, ddof=1).mean()
    found = design.components(design.table.sums[None])[0]
    assert design.every_effect == [(1, frozenset())]
    assert found == pytest.approx([(between - within) / 4, within])


def run_pairs(configure, make_case, judged, table, **sections):
    """`table` holds margins by (case, order, sample)."""
    cases = [make_case(str(k)) for k in range(len(table))]
    judgments = [
        judged(str(c), (0, 1), float(table[c, o, s]), swapped=bool(o), sample=s)
        for c, o, s in product(*map(range, table.shape))
    ]
    return score_run(configure(**sections), cases, judgments)


def shares(scores):
    return {
        name.partition("/")[2]: m.value
        for name, m in scores.metrics.items()
        if name.startswith("variance/")
    }


def test_the_parts_of_a_run(configure, make_case, judged):
    generator = np.random.default_rng(5)
    case = generator.choice([-0.6, 0.6], size=80)
    place = np.array([0.3, -0.3])
    table = (
        case[:, None, None] + place[None, :, None] + generator.normal(scale=0.1, size=(80, 2, 3))
    )
    scores = run_pairs(configure, make_case, judged, table)
    found = shares(scores)
    assert list(found) == ["case", "order", "sample"]
    assert sum(found.values()) == pytest.approx(1)
    total = 0.36 + 0.18 + 0.01
    assert found["case"] == pytest.approx(0.36 / total, abs=0.04)
    assert found["order"] == pytest.approx(0.18 / total, abs=0.04)
    assert found["sample"] == pytest.approx(0.01 / total, abs=0.01)
    for name in found:
        metric = scores.metrics[f"variance/{name}"]
        assert metric.low < metric.value < metric.high
    details = scores.details["variance"]
    assert details["unit"] == "squared units of the margin"
    assert [row["effect"] for row in details["components"]] == [
        "orders",
        "cases",
        "cases × orders",
        "samples",
    ]
    assert details["halve"]["cases"] == {"now": 80, "needed": 320}
    assert details["halve"]["samples"]["needed"] is None
    assert "with infinitely many samples" in details["halve"]["samples"]["note"]


def test_how_many_samples_would_halve_the_interval(configure, make_case, judged):
    generator = np.random.default_rng(6)
    table = generator.normal(scale=0.3, size=(1500, 2, 2))
    samples = run_pairs(configure, make_case, judged, table).details["variance"]["halve"]["samples"]
    assert samples["now"] == 2
    # Nothing but noise: a quarter of the variance takes four times the samples, less or more by
    # chance.
    assert 6 <= samples["needed"] <= 11


def test_what_one_sample_does_not_tell_is_said(configure, make_case, judged):
    table = np.random.default_rng(7).normal(scale=0.3, size=(20, 2, 1))
    scores = run_pairs(configure, make_case, judged, table)
    sample = scores.metrics["variance/sample"]
    assert sample.value is None
    assert "repeat noise cannot be separated from differences of cases × orders" in sample.note
    assert scores.metrics["variance/case"].value is not None
    assert "repeat noise" in scores.metrics["variance/case"].note
    details = scores.details["variance"]
    assert details["components"][-1]["effect"] == "cases × orders, with samples"
    assert details["halve"]["samples"]["needed"] is None


def test_nothing_to_tell_apart(configure, make_case, judged):
    scores = run_pairs(
        configure, make_case, judged, np.full((5, 1, 1), 0.5), swap={"policy": "none"}
    )
    assert {m.value for name, m in scores.metrics.items() if name.startswith("variance/")} == {None}
    assert "not identifiable" in scores.metrics["variance/case"].note
    assert scores.details["variance"]["components"] == []
    same = run_pairs(configure, make_case, judged, np.full((5, 2, 2), 0.5))
    assert "there is no variance" in same.metrics["variance/case"].note
    assert "no variance" in same.details["variance"]["halve"]["samples"]["note"]


def test_one_order_for_each_pair_is_no_facet(configure, make_case, judged):
    generator = np.random.default_rng(8)
    cases = [make_case(str(k)) for k in range(20)]
    judgments = [
        judged(str(k), (0, 1), float(generator.normal(scale=0.3)), swapped=k % 2 == 0, sample=s)
        for k in range(20)
        for s in (0, 1)
    ]
    scores = score_run(configure(swap={"policy": "random"}), cases, judgments)
    assert scores.metrics["variance/order"].value is None
    assert "under more than one order" in scores.metrics["variance/order"].note
    assert scores.metrics["variance/sample"].value > 0


def test_scores_by_criterion(pointwise, make_case, judged):
    generator = np.random.default_rng(9)
    criteria = [{"name": "one"}, {"name": "two"}]
    cases = [make_case(str(k), "abc") for k in range(40)]
    quality, lift = generator.normal(size=(40, 3)), {"one": 0.8, "two": -0.8}
    judgments = [
        judged(
            str(k),
            (r,),
            criteria={
                name: 3 + quality[k, r] + up + generator.normal(scale=0.2)
                for name, up in lift.items()
            },
            sample=s,
        )
        for k in range(40)
        for r in range(3)
        for s in (0, 1)
    ]
    scores = score_run(pointwise(criteria=criteria), cases, judgments)
    found = shares(scores)
    assert list(found) == ["case", "criterion", "sample"]
    total = 1 + 2 * 0.64 + 0.04
    assert found["criterion"] == pytest.approx(1.28 / total, abs=0.1)
    assert found["sample"] == pytest.approx(0.04 / total, abs=0.02)
    effects = [row["effect"] for row in scores.details["variance"]["components"]]
    assert effects == [
        "criteria",
        "cases",
        "cases × criteria",
        "units",
        "units × criteria",
        "samples",
    ]
    assert scores.details["variance"]["unit"] == "squared units of the scale"
    numbers = [
        judged(str(k), (r,), float(quality[k, r]), sample=s)
        for k in range(40)
        for r in range(3)
        for s in (0, 1)
    ]
    plain = score_run(pointwise(criteria=criteria), cases, numbers)
    assert plain.metrics["variance/criterion"].value is None
    assert plain.metrics["variance/case"].value > 0.5


def test_judges_of_a_panel_are_a_facet(configure, make_case, judged):
    generator = np.random.default_rng(10)
    cases = [make_case(str(k)) for k in range(30)]
    lean = {"one": 0.4, "two": -0.4, "three": 0.0}
    judgments = [
        judged(
            str(k),
            (0, 1),
            float(np.clip(lean[name] + generator.normal(scale=0.2), -1, 1)),
            swapped=o,
            sample=s,
            judge=name,
        )
        for k in range(30)
        for name in lean
        for o in (False, True)
        for s in (0, 1)
    ]
    panel = {"judge": {"judges": [{"model": name, "name": name} for name in lean]}}
    found = shares(score_run(configure(**panel), cases, judgments))
    assert list(found) == ["case", "order", "judge", "sample"]
    assert found["judge"] == pytest.approx(0.16 / 0.2, abs=0.1)
