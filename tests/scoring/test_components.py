"""Components of variance: against every pair of observations, planted ones, and what would halve an interval."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.scoring import score_run
from evalkit.scoring.metrics.repeats import Design, Observations
from evalkit.scoring.stats.clusters import Clusters


def observations(generator, cases=4, units=2, orders=2, judges=2, samples=2, drop=0.2, **scale):
    rows = [
        (c, c * units + u, o, j)
        for c, u, o, j, _ in product(range(cases), range(units), range(orders), range(judges), range(samples))
        if generator.random() >= drop
    ]
    case, unit, order, judge = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    sd = {"case": 1.0, "unit": 0.5, "order": 0.7, "judge": 0.4, "case_order": 0.3, "noise": 0.6, **scale}
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
        sums, counts = (part[0] for part in design._exactly(design.table.totals(weights[None].astype(float))))
        for effect, total, count in zip(design._every, sums, counts, strict=True):
            assert (total, count) == pytest.approx(expected.get(effect, (0.0, 0)), abs=1e-8)


def test_planted_components_are_found_without_bias():
    generator = np.random.default_rng(3)
    found = []
    for _ in range(300):
        design = Design(observations(generator, cases=25, drop=0.15))
        found.append(dict(zip(design.every_effect, design.components(design.table.sums[None])[0], strict=False)))
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
    return {name.partition("/")[2]: m.value for name, m in scores.metrics.items() if name.startswith("variance/")}


def test_the_parts_of_a_run(configure, make_case, judged):
    generator = np.random.default_rng(5)
    case = generator.choice([-0.6, 0.6], size=80)
    place = np.array([0.3, -0.3])
    table = case[:, None, None] + place[None, :, None] + generator.normal(scale=0.1, size=(80, 2, 3))
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
    assert [row["effect"] for row in details["components"]] == ["orders", "cases", "cases × orders", "samples"]
    assert details["halve"]["cases"] == {"now": 80, "needed": 320}
    assert details["halve"]["samples"]["needed"] is None
    assert "with infinitely many samples" in details["halve"]["samples"]["note"]


def test_how_many_samples_would_halve_the_interval(configure, make_case, judged):
    generator = np.random.default_rng(6)
    table = generator.normal(scale=0.3, size=(1500, 2, 2))
    samples = run_pairs(configure, make_case, judged, table).details["variance"]["halve"]["samples"]
    assert samples["now"] == 2
    # Nothing but noise: a quarter of the variance takes four times the samples, less or more by chance.
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
    scores = run_pairs(configure, make_case, judged, np.full((5, 1, 1), 0.5), swap={"policy": "none"})
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
            criteria={name: 3 + quality[k, r] + up + generator.normal(scale=0.2) for name, up in lift.items()},
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
    assert effects == ["criteria", "cases", "cases × criteria", "units", "units × criteria", "samples"]
    assert scores.details["variance"]["unit"] == "squared units of the scale"
    numbers = [
        judged(str(k), (r,), float(quality[k, r]), sample=s) for k in range(40) for r in range(3) for s in (0, 1)
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
