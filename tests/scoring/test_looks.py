"""Looks at the same cases: answers, flips, agreement, and the evidence for a change."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import permutations, product
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.scoring.looks import (
    BASELINE,
    WINDOW,
    Baseline,
    Look,
    LookFacts,
    answers_of,
    as_numbers,
    change_evidence,
    look_facts,
)
from evalkit.types import ItemVerdict, Judgment, Metric, Verdict


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.3, 1.0, 10.0]), min_size=4, max_size=4), min_size=1, max_size=2),
    st.booleans(),
)
def test_the_evidence_has_mean_1_over_all_orders_of_the_looks_of_each_cluster(cases, together):
    """Given the answers of a case without their order, all orders are equally likely if nothing has changed."""
    looks, cases = len(cases[0]), np.array(cases).T
    cluster = np.zeros(len(cases[0]), dtype=np.int64) if together else np.arange(len(cases[0]))
    orders = [[*order] for order in permutations(range(looks))]
    every = [[order] * len(cluster) for order in orders] if together else product(orders, repeat=len(cluster))
    sizes = [
        exp(change_evidence(np.stack([cases[order, k] for k, order in enumerate(chosen)], axis=1), cluster))
        for chosen in every
    ]
    decided = looks - BASELINE
    # The weights of the windows add up to 1 only over infinitely many looks.
    assert np.mean(sizes) * decided * (decided + 1) == pytest.approx(1 / 2 + 1 / 6)


def slow_evidence(cases, cluster):
    """Return the evidence by its definition, without arrays."""

    def apart(c, i, j):
        units = [case for case, own in zip(cases, cluster, strict=True) if own == c]
        return sum(min(1.0, abs(one[i] - one[j])) for one in units) / len(units)

    def score(c, j, t, last):
        odd = sum(apart(c, i, j) for i in range(t + 1) if i != j) / t
        later = [apart(c, j, k) for k in range(t + 1, last + 1)]
        return odd - (sum(later) / len(later) if later else 0.0)

    last = len(cases[0]) - 1
    total = 0.0
    for tilt in (1, 3, 9):
        size = 1.0
        for w, t in enumerate(range(last, max(1, last - WINDOW), -1), 1):
            for c in set(cluster):
                scores = [exp(tilt * score(c, j, t, last)) for j in range(t + 1)]
                size *= scores[t] / (sum(scores) / (t + 1))
            total += size / (w * (w + 1)) / 3
    return total / ((last - 1) * last)


@given(st.integers(3, 7), st.data())
def test_the_evidence_is_that_of_its_definition(looks, data):
    cluster = data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=5).filter(lambda c: {*c} == {0, 1, 2}))
    answer = st.sampled_from([0.0, 0.25, 1.0, 10.0])
    cases = [data.draw(st.lists(answer, min_size=looks, max_size=looks)) for _ in cluster]
    found = exp(change_evidence(np.array(cases).T, np.array(cluster)))
    assert found == pytest.approx(slow_evidence(cases, cluster))


def simulated(generator, looks, noise, cases=30):
    """Return answers of cases that differ in how often their answers flip by themselves."""
    flips = generator.random((looks, cases)) < noise(generator, cases)
    return np.where(flips, 10.0, 20.0)


NOISE = {
    "none": lambda generator, cases: np.zeros(cases),
    "by case": lambda generator, cases: generator.beta(0.3, 2, cases) / 2,
    "much": lambda generator, cases: np.full(cases, 0.5),
}


@pytest.mark.parametrize("name", NOISE)
def test_a_judge_that_has_not_changed_raises_no_alarm(name):
    generator, alarms = np.random.default_rng(11), 0
    for _ in range(20):
        values = simulated(generator, 25, NOISE[name])
        alarms += any(change_evidence(values[:t], np.arange(30)) >= np.log(20) for t in range(3, 26))
    assert alarms <= 1


def test_a_changed_judge_raises_an_alarm_and_a_repeated_look_of_the_old_one_does_not():
    generator = np.random.default_rng(4)
    values = simulated(generator, 8, NOISE["by case"], cases=100)
    values[5:, :25] = 30.0 - values[5:, :25]
    before, after = (look_facts(values[:t], np.full((t, 100), np.nan), np.arange(100)) for t in (5, 6))
    assert not before.changed
    assert after.changed
    assert after.excess.low > 0
    assert before.excess.low <= 0 <= before.excess.high
    assert after.change is None
    assert after.agreement is None


def test_one_permanently_flipped_answer_of_a_judge_without_noise_is_found_in_time():
    values = np.full((60, 40), 10.0)
    values[30:, 0] = 20.0
    assert change_evidence(values[:2], np.arange(40)) == 0
    assert change_evidence(values[:31], np.arange(40)) < np.log(20)
    assert change_evidence(values, np.arange(40)) >= np.log(20)


def test_copies_of_a_case_are_one_cluster_and_add_no_evidence():
    values = np.full((3, 30), 10.0)
    values[2, :6] = 20.0
    assert change_evidence(values, np.arange(30)) >= np.log(20)
    together = np.array([0] * 6 + [*range(1, 25)])
    assert change_evidence(values, together) < np.log(20)


def test_a_failed_request_takes_its_case_out_of_its_look_only():
    values = np.full((4, 30), 10.0)
    values[3, :8] = 20.0
    whole = change_evidence(values, np.arange(30))
    values[1, 0] = values[3, 1] = np.nan
    some = change_evidence(values, np.arange(30))
    assert np.log(20) < some < whole
    values[:3] = np.nan
    assert change_evidence(values, np.arange(30)) == pytest.approx(np.log((1 / 2 + 1 / 6) / 6))


def test_flips_noise_and_agreement():
    a, b = 10.0, 20.0
    values = np.array([[a, a, a, a], [a, a, a, b], [b, a, b, np.nan]])
    right = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 1, np.nan, np.nan]], dtype=float)
    first, second, third = (look_facts(values[:t], right[:t], np.arange(4)) for t in (1, 2, 3))
    assert (first.flips, first.noise, first.agreement.value, first.evidence) == (None, None, 0.75, 1)
    assert (second.flips.value, second.noise.value, second.agreement.value, second.excess) == (0.25, 0.25, 1, None)
    assert (third.flips.value, third.noise.value, third.agreement.value) == (round(2 / 3, 12), 0, 0.5)
    assert (third.flips.n, third.flips.missing, third.agreement.n) == (3, 1, 2)
    assert (third.excess.value, third.excess.n, third.excess.missing) == (round(2 / 3, 12), 3, 1)
    assert (third.change.value, third.change.n, third.change.missing) == (-0.5, 2, 2)
    assert third.excess.low < third.excess.value < third.excess.high
    assert not third.changed


@pytest.mark.parametrize("looks", [1, 2, 3, 9])
@pytest.mark.parametrize("clusters", [1, 5, 60])
@pytest.mark.parametrize("noise", [0.0, 0.2, 1.0])
def test_every_number_of_a_look_has_an_interval_around_it(looks, clusters, noise):
    generator = np.random.default_rng(3)
    values = np.where(generator.random((looks, 60)) < noise / 2, 20.0, 10.0)
    values[generator.random(values.shape) < 0.1] = np.nan
    facts = look_facts(values, np.where(np.isnan(values), np.nan, values == 10), np.arange(60) % clusters)
    metrics = [one for one in astuple_of(facts) if isinstance(one, Metric)]
    assert len(metrics) == {1: 1, 2: 3}.get(looks, 5)
    assert all(one.low <= one.value <= one.high and one.low < one.high for one in metrics)
    assert len({one.name for one in metrics}) == len(metrics)


@pytest.mark.parametrize(("rate", "size"), [(0.05, 1), (0.3, 1), (0.3, 4), (0.9, 2)])
def test_the_interval_of_flips_covers_the_rate_of_the_population_of_clusters(rate, size):
    generator, covered = np.random.default_rng(8), 0
    cluster = np.repeat(np.arange(40), size)
    for _ in range(200):
        of_cluster = np.repeat(generator.beta(2 * rate, 2 - 2 * rate, 40), size)
        values = np.array([np.full(40 * size, 10.0), np.where(generator.random(40 * size) < of_cluster, 20.0, 10.0)])
        flips = look_facts(values, np.full(values.shape, np.nan), cluster).flips
        covered += flips.low <= rate <= flips.high
    assert covered >= 190


def astuple_of(facts):
    return [getattr(facts, one.name) for one in fields(facts)]


def test_a_change_is_that_of_the_first_complete_look_that_shows_it():
    facts = [LookFacts(None, None, None, None, None, size) for size in (1.0, 1.0, 19.9, 20.0, 30.0)]
    looks = [Look(f"k{k}", k, "", complete=k != 4, facts=one) for k, one in enumerate(facts, 1)]
    baseline = Baseline("j", "c", "f", {}, 9, looks=(*looks, Look("new", 6, "")))
    assert [one.number for one in baseline.complete] == [1, 2, 3, 5]
    assert baseline.changed is looks[4]
    assert replace(baseline, looks=tuple(looks[:3])).changed is None
    states = [replace(baseline, looks=baseline.looks[: k + 1]).state for k in range(6)]
    assert states == ["baseline", "baseline", "same", "incomplete", "changed", "incomplete"]


def judged(case, unit, status="ok"):
    return Judgment(case, unit, unit, 0, "j", status)


def test_answers_of_pairs_without_the_winners_that_scores_imply():
    pairs = [
        Verdict("a", (0, 1), "A", None, "judged", label="B"),
        Verdict("b", (0, 1), None, None, "missing"),
        Verdict("c", (0, 1), None, None, "missing"),
        Verdict("a", (0,), None, 0.7, "judged"),
    ]
    status = {"a": "ok", "b": "refused", "c": "failed"}
    found = answers_of(pairs, [judged(case, (0, 1), one) for case, one in status.items()])
    assert found == {
        ("a", (0, 1), ""): ("A", "B"),
        ("b", (0, 1), ""): ("missing", None),
        ("c", (0, 1), ""): (None, None),
    }
    scores = answers_of(pairs, [judged("a", (0,)), judged("a", (1,))])
    assert scores == {("a", (0,), ""): (0.7, None)}


def test_answers_of_classes_and_checklists():
    items = (ItemVerdict("x", "met", "judged", label="not_met"), ItemVerdict("y", None, "missing"))
    verdicts = [
        Verdict("a", (0,), None, None, "judged", class_name="good", label="bad"),
        Verdict("b", (0,), None, None, "abstained"),
        Verdict("c", (0,), None, 0.5, "judged", items=items),
    ]
    assert answers_of(verdicts, [judged(case, (0,)) for case in "abc"]) == {
        ("a", (0,), ""): ("good", "bad"),
        ("b", (0,), ""): ("abstained", None),
        ("c", (0,), "x"): ("met", "not_met"),
        ("c", (0,), "y"): ("missing", None),
    }


def test_distances_and_how_right_answers_are():
    looks = [["A", 2.0, "missing", None, 5.0], ["TIE", 4.0, "B", 1.0, "missing"]]
    values, right = as_numbers(looks, ["A", 3.0, "B", 2.0, "A"], 4.0)
    apart = np.minimum(1, np.abs(values[0] - values[1]))
    assert apart[:3].tolist() == [1, 0.5, 1]
    assert np.isnan(apart[3])
    assert apart[4] == 1
    assert right[0].tolist()[:2] == [1, 0.75]
    assert right[1].tolist()[:4] == [0, 0.75, 1, 0.75]
    assert np.isnan(right[0, 2:]).all()
    assert np.isnan(right[1, 4])
    values, right = as_numbers([[0.1], [0.2]], [0.1], float("inf"))
    assert np.abs(values[0] - values[1]) >= 1
    assert right.ravel().tolist() == [1, 0]
