"""The search for slices: its test next to SciPy's, clusters, small and odd data, and what a slice allows."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom, permutation_test

from evalkit.config import GateConfig, RunConfig, ScoringConfig
from evalkit.core.checklists import read_items
from evalkit.core.errors import ConfigError
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case, Judgment, Metric, Response
from evalkit.report.findings.decisions import sentence
from evalkit.report.findings.weak_slices import places_text
from evalkit.scoring.decision import SCORES, Decision, Where, decide
from evalkit.scoring.decision.weak_slices import places as places_not_trusted
from evalkit.scoring.gate_rules import Gate, judge_decision
from evalkit.scoring.labels import LabelWeights
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.search import (
    SearchedColumns,
    SearchRows,
    by_item,
    cell_of,
    check_choices,
    choices_text,
    limited_to_rest,
    search_slices,
    searched_columns,
    selected,
    strata,
    variation,
)
from evalkit.scoring.search import columns as search_columns
from evalkit.scoring.search import items as search_items
from evalkit.scoring.search import search as search_module
from evalkit.scoring.search.cells import Crossed
from evalkit.scoring.search.family import compare_slices
from evalkit.scoring.search.missing import log_upper_tail, missing_in
from evalkit.scoring.search.outcomes import Outcomes, outcomes_of
from evalkit.scoring.search.power import power_metrics
from evalkit.scoring.search.row_ranges import places
from evalkit.scoring.search.unlabeled import unlabeled_slices
from evalkit.scoring.search.variation import Groups
from evalkit.scoring.slices import Slices, day_of, is_member, is_named, number_of, slices_of_values
from evalkit.scoring.stats.agreement_formulas import kappa
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.coefficients import Confusion
from evalkit.scoring.stats.statistic import Statistic, Tally
from evalkit.scoring.times import Hour
from evalkit.scoring.verdicts.checklists import read_items as read_run_items

TRUSTED = Decision("single", "substantial", "response", Metric("agreement/kappa", 0.9))


def counted(labels, wrong, clusters=None):
    rows = np.arange(len(labels))
    ones = np.ones(len(labels))
    return Outcomes(rows, labels, labels, ones, np.asarray(wrong, float), labels, True)


def test_one_column_of_errors_is_a_permutation_test():
    generator = np.random.default_rng(4)
    n = 80
    errors = generator.exponential(size=n)
    inside = np.arange(n) < 35
    errors[inside] += 0.25
    zeros = np.zeros(n, dtype=np.int64)
    outcomes = Outcomes(np.arange(n), zeros, np.arange(n) % 2, np.ones(n), errors, errors, False)
    members = np.stack([inside, ~inside], axis=1)
    found = compare_slices(outcomes, members, np.arange(n), 20_000, 0.95, 1)
    expected = permutation_test(
        (errors[inside], errors[~inside]),
        lambda first, second, axis: np.mean(first, axis=axis) - np.mean(second, axis=axis),
        n_resamples=20_000,
        rng=np.random.default_rng(2),
    )
    assert found.p[0] == pytest.approx(expected.pvalue, abs=0.01)
    assert found.statistic[0] == pytest.approx(-found.statistic[1])


@pytest.mark.parametrize("clustered", [False, True])
def test_a_worse_slice_is_found_and_another_mix_of_labels_is_not(clustered):
    generator = np.random.default_rng(8)
    n = 400
    cluster = np.arange(n) // 4 if clustered else np.arange(n)
    labels = (generator.random(n) < 0.5).astype(np.int64)
    # Of one label a quarter is wrong, of the other one nothing.
    wrong = (labels == 1) & (generator.random(n) < 0.25)
    more_of_it = generator.random(n) < np.where(labels == 1, 0.7, 0.3)
    worse = generator.random(n) < 0.2
    wrong = np.where(worse, generator.random(n) < 0.5, wrong)
    members = np.stack([more_of_it, worse, generator.random(n) < 0.05], axis=1)
    found = compare_slices(counted(labels, wrong), members, cluster, 400, 0.95, 1)
    assert found.enough.tolist() == [True, True, False]
    assert found.p[1] < 0.01
    assert found.p[0] > 0.05
    assert found.p[2] == 1


def test_without_enough_labels_nothing_is_tested():
    zeros = np.zeros(40, dtype=np.int64)
    members = np.stack([np.arange(40) < 20, np.arange(40) >= 20], axis=1)
    one_class = compare_slices(counted(zeros, zeros), members, np.arange(40), 100, 0.95, 1)
    labels = np.arange(40) % 2
    few = compare_slices(counted(labels, zeros), members, np.arange(40), 100, 0.95, 1)
    for found in (one_class, few):
        assert not found.enough.any()
        assert found.critical == np.inf
    third = labels.copy()
    third[0] = 2
    wide = np.stack([np.arange(40) < 32, np.arange(40) >= 32], axis=1)
    assert compare_slices(
        counted(third, labels), wide, np.arange(40), 100, 0.95, 1
    ).enough.tolist() == [True, False]


def test_power_is_not_known_without_errors():
    n = 80
    labels = np.arange(n) % 2
    members = (np.arange(n) < 40)[:, None]
    right = counted(labels, np.zeros(n))
    found = compare_slices(right, members, np.arange(n), 100, 0.95, 1)
    assert power_metrics(right, found) == {}
    assert power_metrics(replace(right, counted=False), found) == {}
    hard = counted(labels, labels)
    assert power_metrics(hard, replace(found, critical=99.0)) == {}
    # Errors that the label says wholly do not vary; those of every other pair of rows do.
    assert power_metrics(replace(hard, counted=False), replace(found, critical=2.0)) == {}
    varied = counted(labels, np.arange(n) // 2 % 2)
    assert power_metrics(replace(varied, counted=False), replace(found, critical=2.0))


def moments(x, y):
    columns = [np.ones(len(x)), x, y, x * x, y * y, x * y]
    return Statistic("agreement/pearson", columns, lambda totals: totals[:, 0], n=len(x))


def test_errors_of_scores_are_distances_from_the_line_of_their_grades():
    grades = np.array([5.0] * 30 + [1.0] * 10)
    outcomes = outcomes_of({"agreement/pearson": moments(3 + grades / 2, grades)})
    assert outcomes.wrong == pytest.approx(0, abs=1e-6)
    assert sorted(np.bincount(outcomes.side)) == [10, 30]
    same = outcomes_of({"agreement/pearson": moments(grades, np.full(40, 2.0))})
    assert same.means == pytest.approx([1.5])
    assert outcomes_of({}) is None


def confusion(labels, verdicts, weights=None):
    n = len(labels)
    every = np.ones(n, dtype=bool)
    table = Confusion.of(Tally.each(n), labels, verdicts, every, ~every, (0, 1))
    return replace(table.statistic("agreement/kappa", kappa), weights=weights)


def column(values, name="topic"):
    return slices_of_values(name, values)


def test_agreement_within_is_that_of_pairs_of_units_in_a_stratum():
    labels = np.array([0, 1] * 20)
    verdicts = np.where(np.arange(40) % 5 == 0, 1 - labels, labels)
    values = ["a"] * 30 + ["b"] * 10
    found = strata.agreement_within(column(values), confusion(labels, verdicts))
    top = bottom = 0.0
    for value in "ab":
        rows = np.flatnonzero([one == value for one in values])
        chance = np.mean([verdicts[i] == labels[j] for i in rows for j in rows if i != j])
        agreed = (labels[rows] == verdicts[rows]).mean()
        top += len(rows) * (agreed - chance)
        bottom += len(rows) * (1 - chance)
    assert found.statistic.observed() == pytest.approx(top / bottom)
    doubled = strata.agreement_within(column(values), confusion(labels, verdicts, np.full(40, 1.0)))
    assert doubled.statistic.observed() == pytest.approx(top / bottom)


def test_strata_that_show_nothing_have_no_agreement(monkeypatch):
    labels = np.array([0, 1] * 20)
    kappa_of = confusion(labels, labels)
    lists = Slices("tags", ("a", "b"), np.ones((40, 2), dtype=bool))
    assert strata.agreement_within(lists, kappa_of) is None
    assert strata.agreement_within(column([str(one) for one in labels]), kappa_of) is None
    few = column(["a"] * 20 + [f"b{one}" for one in range(20)])
    assert strata.agreement_within(few, kappa_of) is None
    grades = np.arange(40.0)
    scores = moments(grades, grades)
    assert strata.agreement_within(column([f"v{one // 8}" for one in range(40)]), scores) is None
    varied = strata.agreement_within(column(["a", "b"] * 20), scores)
    assert varied.statistic.observed() == pytest.approx(1)
    monkeypatch.setattr(strata, "MOST_COLUMNS", 1)
    assert strata.agreement_within(column(["a"] * 20 + ["b"] * 20), kappa_of) is None


def usual(labels, verdicts, values):
    """Return which column of these values determines verdicts."""
    return strata.followed(column(values), confusion(labels, verdicts), 0.95)


HALVES = np.repeat([0, 1], 20)
"""Two tasks; the usual label of the second one is 1."""
RARELY = np.arange(40) % 20 == 0


def test_verdicts_that_are_the_usual_ones_of_a_column_follow_it():
    labels = np.where(np.arange(40) % 10 == 0, 1 - HALVES, HALVES)
    tasks = np.where(HALVES == 1, "code", "chat").tolist()
    follows = usual(labels, HALVES, tasks)
    assert (follows.share, follows.n, follows.is_label) == (1.0, 40, False)
    assert json.loads(follows.metric().note or "") == {"column": "topic", "label": False}
    # In a share of 95%, chance could have made the others.
    assert usual(labels, np.where(RARELY, 1 - HALVES, HALVES), tasks).share == 0.95
    # With some noise: the column explains more than half of what a constant guess gets wrong.
    assert usual(labels, labels ^ (np.arange(40) % 7 == 0), tasks).share == 0.8
    assert usual(labels, labels ^ (np.arange(40) % 4 == 0), tasks) is None
    # The verdict of a unit says nothing about itself.
    assert usual(labels, HALVES, [f"user {n}" for n in range(40)]) is None
    # No column is needed where one verdict is nearly always given.
    assert usual(labels, RARELY.astype(int), tasks) is None
    assert usual(labels[:8], HALVES[:8], tasks[:8]) is None
    lists = Slices("tags", ("a", "b"), np.ones((40, 2), dtype=bool))
    assert strata.followed(lists, confusion(labels, HALVES), 0.95) is None
    same = np.zeros(40, dtype=int)
    single = Confusion.of(Tally.each(40), same, same, same == 0, same == 1, (0,))
    table = single.statistic("agreement/kappa", kappa)
    assert strata.followed(column(tasks), table, 0.95) is None


def test_a_column_that_always_names_the_label_can_be_another_label():
    tasks = np.repeat([0, 1], 60)
    follows = usual(tasks, tasks, tasks.astype(str).tolist())
    assert follows.is_label
    few = usual(tasks[40:80], tasks[40:80], tasks[40:80].astype(str).tolist())
    assert not few.is_label


def test_a_column_can_explain_scores():
    noise = np.random.default_rng(3).normal(0, 0.05, 40)
    tasks = np.where(HALVES == 1, "code", "chat").tolist()
    grades = np.where(np.arange(40) % 5 == 0, 5.0 - HALVES, 1.0 + HALVES * 3)
    follows = strata.followed(column(tasks), moments(HALVES * 2 + noise, grades), 0.95)
    spread = np.array([noise[half == HALVES].var() for half in (0, 1)]).mean()
    total = (HALVES * 2 + noise).var(ddof=1)
    assert follows.share == pytest.approx(1 - spread * 40 / 38 / total)
    assert not follows.is_label
    as_labels = moments(HALVES * 2 + noise, HALVES * 3.0)
    assert strata.followed(column(tasks), as_labels, 0.95).is_label
    good = moments(HALVES * 2 + noise * 10, HALVES * 3.0)
    assert strata.followed(column(tasks), good, 0.95) is None
    assert strata.followed(column(tasks), moments(noise, grades), 0.95) is None
    assert strata.followed(column(tasks), moments(np.ones(40), grades), 0.95) is None
    each = column([f"user {n}" for n in range(40)])
    assert strata.followed(each, moments(HALVES * 2 + noise, grades), 0.95) is None


def test_followed_columns_count_where_they_name_the_label():
    labels = np.where(np.arange(400) % 40 == 0, 1, 0) ^ np.repeat([0, 1], 200)
    tasks = np.repeat(["chat", "code"], 200).tolist()
    statistic = confusion(labels, np.repeat([0, 1], 200))
    assert strata.agreement_within(column(tasks), statistic) is None
    within = strata.agreement_within(column(tasks), statistic, is_followed=True)
    assert within.statistic.observed() == pytest.approx(0, abs=0.01)
    few = confusion(labels[180:220], np.repeat([0, 1], 20))
    assert strata.agreement_within(column(tasks[180:220]), few, is_followed=True) is None


SCORING = ScoringConfig(bootstrap=200)


def columns_by_system(*systems):
    """Return the slices and the strata of responses by these systems."""
    cases = [
        Case(str(n), "p", tuple(Response("r", name) for name in names))
        for n, names in enumerate(systems)
    ]
    found = searched_columns(cases)
    slices = {one.column: one.values for one in found.slices}
    return slices.get("model"), [one.values for one in found.strata]


def test_systems_are_slices_and_both_of_a_pair_are_a_stratum():
    assert columns_by_system("a", "b") == (("a", "b"), [])
    assert columns_by_system(("a", "b"), ("b", "a")) == (("a", "b"), [("a / b", "b / a")])
    assert columns_by_system("a", "a") == (None, [])
    assert columns_by_system("abc", "b", ["a", None]) == (("a", "b", "c"), [])
    assert columns_by_system(*([f"m{n}"] for n in range(101))) == (None, [])
    many = [(f"m{n}", f"m{n + 1}") for n in range(101)]
    assert columns_by_system(*many) == (None, [])


def test_the_longer_response_of_a_pair_is_a_stratum():
    texts = [("long", "no"), ("no", "long"), ("same", "size"), ("one",)]
    cases = [Case(str(n), "p", tuple(map(Response, pair))) for n, pair in enumerate(texts)]
    found = {one.column: one for one in searched_columns(cases).strata}
    longer = found["longer_response"]
    assert longer.values == ("A", "B")
    assert longer.members.tolist() == [[True, False], [False, True], *[[False, False]] * 2]


@pytest.mark.parametrize(("cases", "bins"), [(30, 4), (90, 9), (400, 20)])
def test_numbers_are_strata_in_narrow_bins(cases, bins):
    found = searched_columns(cases_of(age=[n + 1 for n in range(cases)]))
    narrow = {column.column: column.members.sum(axis=0) for column in found.strata}
    assert [*narrow] == ["age", "length"]
    assert len(narrow["age"]) == bins
    assert narrow["age"].min() >= cases // bins - 1


def test_pairs_of_columns_and_repeated_prompts_are_crossed():
    cases = cases_of(
        tone=["a", "b"] * 20,
        task=["x", "x", "y", "y"] * 10,
        fine=[f"v{n % 7}" for n in range(40)],
        several=[["a", "b"]] * 40,
    )
    pairs = ["tone × task", "tone × length", "task × length"]
    assert [one.column for one in searched_columns(cases).crossed] == pairs
    cases = [replace(one, prompt=f"Question {n % 8}?") for n, one in enumerate(cases)]
    both = searched_columns(cases).crossed[0]
    (prompts,) = searched_columns(cases).prompts
    assert both.values == ("a / x", "a / y", "b / x", "b / y")
    assert both.members.sum(axis=0).tolist() == [10, 10, 10, 10]
    assert (prompts.column, prompts.members.sum(axis=0).tolist()) == ("prompt", [5] * 8)


@pytest.mark.parametrize("alone", [False, True])
def test_a_pair_of_columns_is_followed_if_neither_is(alone):
    tone, task = ["a", "b"] * 40, ["x", "x", "y", "y"] * 20
    found = searched_columns(cases_of(tone=tone, task=task))
    pairs = zip(tone, task, strict=True)
    verdicts = [int(x == "a" if alone else (x == "a") == (y == "x")) for x, y in pairs]
    labels = [verdict if n % 11 else 1 - verdict for n, verdict in enumerate(verdicts)]
    decision = Decision("single", "substantial", "response", Metric("agreement/kappa", 0.9))
    statistics = {"agreement/kappa": confusion(labels, verdicts)}
    metrics = search_slices(SCORING, found, statistics, decision, Clusters.each(80))
    assert ("tone × task" in metrics["decision/follows"].note) != alone


def followed_metric(labels, verdicts, tasks):
    statistics = {"agreement/kappa": confusion(labels, verdicts)}
    decision = Decision("single", "substantial", "response", Metric("agreement/kappa", 0.9))
    columns = SearchedColumns((column(tasks),))
    count = len(labels)
    metrics = search_slices(SCORING, columns, statistics, decision, Clusters.each(count))
    return metrics.get("decision/follows")


@pytest.mark.parametrize(("present", "shown"), [(0.4, False), (0.6, True)])
@pytest.mark.parametrize("scored", [False, True])
def test_a_column_that_most_units_do_not_have_is_no_stratum(present, shown, scored):
    labels = np.arange(200) % 2
    tasks = np.where(labels > 0, "code", "chat").astype(object)
    tasks[int(present * 200) :] = None
    verdicts = labels.copy()
    labels = np.where(np.arange(200) % 9 == 0, 1 - labels, labels)
    if scored:
        agreement = moments(1.0 + verdicts, 1.0 + labels)
    else:
        agreement = confusion(labels, verdicts)
    slices = column(tasks.tolist())
    assert (strata.agreement_within(slices, agreement) is not None) is shown
    assert (strata.followed(slices, agreement, 0.95) is not None) is shown


def test_a_judge_that_finds_the_exceptions_knows_more_than_the_column():
    labels = np.where(np.arange(400) % 25 == 0, 1, 0) ^ np.repeat([0, 1], 200)
    tasks = np.repeat(["chat", "code"], 200).tolist()
    assert followed_metric(labels, labels, tasks) is None
    follows = followed_metric(labels, np.repeat([0, 1], 200), tasks)
    assert follows.value == 1.0


def search(statistics, slices, use="single", metric="agreement/kappa"):
    decision = Decision(use, "substantial", "response", Metric(metric, 0.9))
    columns = SearchedColumns(tuple(slices))
    count = next(iter(statistics.values())).table.cases
    found = search_slices(SCORING, columns, statistics, decision, Clusters.each(count))
    return {name: one for name, one in found.items() if name.startswith("decision/where/")}


def test_a_slice_that_leans_or_agrees_less_allows_less():
    n = 400
    labels = np.arange(n) % 2
    inside = np.arange(n) % 4 < 2
    slices = [column(np.where(inside, "x", "y").tolist())]
    leaning = labels.copy()
    leaning[np.flatnonzero(inside & (labels == 1))[:35]] = 0
    kappas = {"agreement/kappa": confusion(labels, leaning)}
    lean = Tally.each(n).mean(
        "decision/lean/class/0", (leaning == 0) * 1.0 - (labels == 0), np.ones(n, dtype=bool)
    )
    (found,) = search({**kappas, lean.name: lean}, slices).values()
    assert '"allows": "rates_corrected"' in (found.note or "")
    assert '"metric": "decision/lean/class/0"' in (found.note or "")
    assert search({**kappas, lean.name: lean}, slices, use="rates_corrected") == {}
    both = labels.copy()
    both[np.flatnonzero(inside)[:50]] = 1 - labels[np.flatnonzero(inside)[:50]]
    (found,) = search({"agreement/kappa": confusion(labels, both)}, slices).values()
    assert '"allows": "rates"' in (found.note or "")
    mild = labels.copy()
    mild[np.flatnonzero(inside)[:15]] = 1 - labels[np.flatnonzero(inside)[:15]]
    assert search({"agreement/kappa": confusion(labels, mild)}, slices) == {}
    assert search(kappas, slices, metric="agreement/kappa_quadratic") == {}


def test_scores_that_are_far_off_in_a_slice_allow_no_single_ones():
    generator = np.random.default_rng(1)
    n = 400
    grades = generator.integers(1, 6, n).astype(float)
    inside = np.arange(n) % 4 == 0
    scores = np.where(inside, grades - 3, grades) + generator.normal(0, 0.2, n)
    statistics = {"agreement/pearson": moments(scores, grades)}

    def correlation(totals):
        count, x, y, xx, yy, xy = totals.T
        return (count * xy - x * y) / np.sqrt((count * xx - x * x) * (count * yy - y * y))

    def concordance(totals):
        count, x, y, xx, yy, xy = totals.T
        return 2 * (count * xy - x * y) / (count * xx + count * yy - 2 * x * y)

    pearson = replace(statistics["agreement/pearson"], value=correlation)
    quadratic = replace(pearson, name="agreement/kappa_quadratic", value=concordance)
    every = {one.name: one for one in (pearson, quadratic)}
    slices = [column(np.where(inside, "x", "y").tolist())]
    (found,) = search(every, slices, metric="agreement/pearson").values()
    assert '"metric": "agreement/kappa_quadratic"' in (found.note or "")
    noisy = np.where(inside, grades + generator.normal(0, 0.7, n), scores + 3 * inside)
    mild = replace(moments(noisy, grades), value=correlation)
    concordant = replace(mild, name=quadratic.name, value=concordance)
    assert search({one.name: one for one in (mild, concordant)}, slices, "single", mild.name) == {}
    good = {one.name: one for one in (pearson,)}
    assert search(good, slices, metric="agreement/pearson") == {}


def test_at_most_ten_slices_are_withdrawn():
    n = 1200
    labels = np.arange(n) % 2
    groups = np.arange(n) // 2 % 20
    verdicts = np.where(groups < 12, np.arange(n) // 40 % 2, labels)
    slices = [column([f"g{one}" for one in groups])]
    assert len(search({"agreement/kappa": confusion(labels, verdicts)}, slices)) == 10


def cases_of(**columns):
    count = len(next(iter(columns.values())))
    return [
        Case(
            str(number),
            "q",
            (Response("x" * (number + 1)),),
            metadata={name: values[number] for name, values in columns.items() if values[number]},
        )
        for number in range(count)
    ]


RATING_COLUMNS = (
    *("inclusion_probability", "sampleWeight", "propensity", "score", "judge_tone", "GPTScore"),
    *("explanation", "annotator_kind", "toneConfidence", "label", "Verdict", "is.correct.score"),
)


def test_ids_sampling_and_what_raters_say_are_no_slices_unless_listed():
    cases = [
        Case(
            str(index),
            "p",
            (),
            metadata={
                **dict.fromkeys(RATING_COLUMNS, index % 2),
                "judge_model": index % 2,
                "judgeVersion": index % 2,
                "rowId": index,
                "row": str(index),
                "task_id": index % 2,
                "score_source": index % 2,
                "retrieval_score": index % 2,
                "标签": index % 2,
            },
        )
        for index in range(40)
    ]
    names = [column.column for column in searched_columns(cases).slices]
    assert names == [
        "judge_model",
        "judgeVersion",
        "task_id",
        "score_source",
        "retrieval_score",
        "标签",
    ]
    listed = searched_columns(cases, ["score"], only_listed=True)
    assert [column.column for column in listed.slices] == ["score"]


def test_columns_are_searched_up_to_a_number_of_slices(monkeypatch):
    cases = cases_of(
        tone=["a", "b"] * 10,
        user=[f"u{n}" for n in range(20)],
        fixed=["x"] * 20,
        late=[None] * 19 + ["y"],
    )
    found = searched_columns(cases)
    assert [one.column for one in found.slices] == ["tone", "late", "length", "user"]
    crossed = 2 * 4 + 2 * 2 + 4
    assert found.count == 28 + crossed
    monkeypatch.setattr(search_columns, "LIMIT", 10)
    assert searched_columns(cases).omitted == ("user",)
    assert not searched_columns(cases).crossed
    assert searched_columns(cases, ["tone"], only_listed=True).count == 2
    empty = [replace(one, responses=()) for one in cases]
    assert [one.column for one in searched_columns(empty).slices] == ["tone", "late"]


@pytest.mark.parametrize(("value", "name", "ends", "expected"), [
    ("de", "de", None, True),
    (["en", "de"], "de", None, True),
    ("en", "de", None, False),
    ("", "de", None, None),
    (7, "1..9", (None, 5.0), False),
    (7, "1..9", (5.0, None), True),
    ("7.5", "1..9", (5.0, 7.5), False),
    ("x", "1..9", (5.0, None), None),
    ("2026-02-03T10:00", "…", ("2026-02-01", None), True),
    ("2026-02-03", "…", (None, "2026-02-01"), False),
    ("2026-02-03", "…", ("9999-99-99", None), True),
])  # fmt: skip
def test_membership_of_a_new_case(value, name, ends, expected):
    assert is_member(value, name, ends) is expected


def test_names_of_bins_are_ranges():
    assert is_named(5, "1..9")
    assert not is_named(10, "1..9")
    assert is_named("2026-05-05", "2026-01-01..2026-12-31")
    assert not is_named("x", "1..9")
    assert not is_named("x", "y")
    assert is_named("y", "y")
    assert is_named(Crossed(Hour(7), "y"), "06:00..07:59 / y")
    assert is_member(Hour(7), "06:00..07:59")
    assert not is_member(Hour(8), "06:00..07:59")
    assert day_of("2026-99-01") is None
    assert number_of("007") is None
    assert number_of(True) is None
    assert number_of(" 7e2") == 700


def test_a_gate_is_limited_to_cases_with_a_value():
    cases = cases_of(tone=["a", "b", None, "b"])
    assert selected(cases, {"tone": {"not": ["a"]}}) == [False, True, False, True]
    assert selected(cases, {"tone": {"in": ["a"]}}) == [True, False, False, False]
    assert selected(cases, {"length": {"in": ["2..3"]}}) == [False, True, True, False]
    assert selected(cases, {"tone": {"not": ["(no value)"]}}) == [True, True, False, True]
    assert selected(cases, {"tone": {"in": ["(no value)", "a"]}}) == [True, False, True, False]
    assert selected(cases, {"case_number": {"not": ["2..3"]}}) == [True, False, False, True]
    check_choices(cases, {"case_number": {"in": ["2..4"]}})
    assert (is_member(None, "(no value)"), is_member("a", "(no value)")) == (True, False)
    check_choices(cases, {})
    check_choices(cases, {"tone": {"in": ["a", "b", "(no value)"]}})
    for choices, fault in (
        ({"ton": {"in": ["a"]}}, "no case has this column"),
        ({"tone": {"in": ["c"]}}, "no case has 'c'"),
        ({"tone": {"not": ["a", "b"]}}, "no case is left"),
    ):
        with pytest.raises(ConfigError, match=fault):
            check_choices(cases, choices)
    assert choices_text({"tone": {"in": ["a", "b"], "not": ["c"]}}) == (
        "tone is a or b and tone is not c"
    )
    assert choices_text({"tone": {"in": ["a"]}, "lang": {"not": ["en"]}}) == (
        "tone is a and lang is not en"
    )
    metric = Metric("m", 0.0)
    where = [
        Where("tone", "a b", "none", metric, ""),
        Where("tone", "c", "rates", metric, ""),
    ]
    setting = limited_to_rest(where, "rates", {"lang": {"in": ["en"]}})
    assert setting == 'gate.where={lang: {in: [en]}, tone: {not: ["a b"]}}'


CHECKLIST = read_items([{"id": "polite", "criterion": "c", "tags": ["tone"]}, {"criterion": "d"}])


@pytest.mark.parametrize(("name", "choices", "chosen"), [
    ("tone × task", {"in": ["a / x / y"]}, True),
    ("tone × task", {"in": ["a / x"]}, False),
    ("tone × length", {"not": ["a / 3..5"]}, False),
    ("tone × length", {"not": ["a / 5..9", "b / 3..5"]}, True),
    ("tone × absent", {"not": ["a / x"]}, False),
    ("prompt_length", {"in": ["8..8"]}, True),
    ("model", {"in": ["gpt"]}, True),
    ("item", {"in": ["polite"]}, True),
    ("tag", {"not": ["tone"]}, False),
    ("absent", {"not": ["x"]}, False),
])  # fmt: skip
def test_a_case_has_values_in_two_columns_and_in_computed_ones(name, choices, chosen):
    case = Case(
        "1",
        "question",
        (Response("text", "gpt"),),
        checklist=CHECKLIST,
        metadata={"tone": "a", "task": "x / y"},
    )
    assert selected([case], {name: choices}) == [chosen]
    bare = replace(case, prompt="", responses=(), checklist=())
    expected = chosen and name == "tone × task"
    assert selected([bare], {name: choices}) == [expected]
    assert str(cell_of(case, "tone × task")) == "a / x / y"


def test_a_slice_of_two_columns_limits_a_gate_and_one_of_items_does_not():
    metric = Metric("m", 0.0)
    crossed = Where("tone × task", "a / x", "none", metric, "")
    setting = limited_to_rest([crossed], "rates", {})
    text = setting.removeprefix("gate.where=")
    assert GateConfig(decision="rates", where=text).where == {"tone × task": {"not": ["a / x"]}}
    item = Where("item", "k", "none", metric, "")
    assert limited_to_rest([crossed, item], "rates", {}) == ""
    ruling = judge_decision("rates", replace(TRUSTED, where=(item,)), "sentence")
    assert (ruling.state, "checklist items" in ruling.why) == ("failed", True)
    ruling = judge_decision("rates", replace(TRUSTED, where=(crossed,)), "sentence")
    assert ruling.why.endswith(f" To limit the gate to the rest: {setting}")
    limited = Gate((ruling,), where={"tone": {"not": ["a"]}}).json()
    assert limited["where"] == {"tone": {"not": ["a"]}}
    for wrong in ("x", "{a: ["):
        with pytest.raises(ValueError, match="where"):
            GateConfig(decision="rates", where=wrong)
    decision = replace(TRUSTED, where=(crossed,))
    english, chinese = in_every_language(places_text(decision))
    assert "where tone is a and task is x:" in english
    assert "tone 为 a 且 task 为 x" in chinese


@pytest.mark.parametrize(("is_coin", "expected"), [
    (lambda tone, task: tone == "b" and task == "x", ["tone × task"]),
    (lambda tone, task: (tone == "b") == (task == "x"), ["tone × task"] * 2),
    (lambda tone, task: tone == "b", ["tone"]),
])  # fmt: skip
def test_a_pair_of_values_is_named_only_if_the_rest_of_each_is_good_enough(is_coin, expected):
    generator = np.random.default_rng(3)
    tone = generator.choice(["a", "b"], 600).tolist()
    task = generator.choice(["x", "y"], 600).tolist()
    labels = generator.integers(0, 2, 600)
    useless = np.array([is_coin(one, other) for one, other in zip(tone, task, strict=True)])
    verdicts = np.where(useless, generator.integers(0, 2, 600), labels)
    # Wrong in all cells of one value, but most in one of them.
    verdicts = np.where(useless & (np.array(task) == "x"), 1 - labels, verdicts)
    found = searched_columns(cases_of(tone=tone, task=task))
    decision = Decision("single", "substantial", "response", Metric("agreement/kappa", 0.9))
    statistics = {"agreement/kappa": confusion(labels, verdicts)}
    metrics = search_slices(SCORING, found, statistics, decision, Clusters.each(600))
    where = [json.loads(one.note) for name, one in metrics.items() if "/where/" in name]
    assert [one["column"] for one in where] == expected


def items_of(count, judged, names=("i0", "i1", "i2", "i3")):
    """Return a checklist run: labels are met in 90% of two items and in 10% of two others."""
    generator = np.random.default_rng(5)
    cases = []
    judgments = []
    for number in range(count):
        labels = generator.random(4) < np.array([0.9, 0.1, 0.9, 0.1])
        ids = [name.format(number) for name in names]
        listed = [
            {"id": name, "criterion": "c", "label": bool(label)}
            for name, label in zip(ids, labels, strict=True)
        ]
        response = Response("r")
        case = Case(str(number), f"p{number}", (response,), checklist=read_items(listed))
        cases.append(case)
        answers = {
            name: "met" if judged(item, label, generator) else "not_met"
            for item, (name, label) in enumerate(zip(ids, labels, strict=True))
        }
        judgments.append(Judgment(case.id, (0,), (0,), 0, "m", "ok", items=answers))
    return cases, judgments


def alike(count, is_good):
    """Return a judge that answers all items of a response alike, or is right, where 15% of the labels differ."""
    cases, judgments = items_of(count, usual_of_item, ("a{}", "b{}", "c{}", "d{}"))
    generator = np.random.default_rng(6)
    for number, (case, judgment) in enumerate(zip(cases, judgments, strict=True)):
        usual_answer = number % 2 == 0
        labels = (generator.random(4) < 0.85) == usual_answer
        listed = [
            {"id": item.id, "criterion": "c", "label": bool(label)}
            for item, label in zip(case.checklist, labels, strict=True)
        ]
        cases[number] = replace(case, checklist=read_items(listed))
        given = labels if is_good else [usual_answer] * 4
        answers = {
            item.id: "met" if answer else "not_met"
            for item, answer in zip(case.checklist, given, strict=True)
        }
        judgments[number] = replace(judgment, items=answers)
    return cases, judgments


@pytest.mark.parametrize(("is_good", "use"), [(True, "single"), (False, "unknown")])
def test_a_judge_that_answers_all_items_of_a_response_alike_may_know_only_the_response(
    is_good, use, configure
):
    mode = {"mode": {"name": "checklist"}, "swap": {"policy": "none"}}
    config = configure(**mode, rubric={"min": 0, "max": 1, "step": 0.01})
    decision = decide(score_run(config, *alike(100, is_good)).metrics, 0.95)
    assert decision.use == use
    assert (decision.reason == "stratum_followed") is not is_good


def usual_of_item(item, label, generator):
    return item in (0, 2)


def coin_on_the_last(item, label, generator):
    return generator.random() < 0.5 if item == 3 else label


@pytest.mark.parametrize(("judged", "names", "expected"), [
    (usual_of_item, ("a", "b", "c", "d"), ("none", "stratum", [])),
    (coin_on_the_last, ("a", "b", "c", "d"), ("rates_corrected", "leans", [("item", "d")])),
    (usual_of_item, ("a{}", "b{}", "c{}", "d{}"), ("rates_corrected", "lean_unclear", [])),
])  # fmt: skip
def test_items_that_cases_share_are_slices_and_strata(judged, names, expected, configure):
    mode = {"mode": {"name": "checklist"}, "swap": {"policy": "none"}}
    config = configure(**mode, rubric={"min": 0, "max": 1, "step": 0.01})
    cases, judgments = items_of(100, judged, names)
    decision = decide(score_run(config, cases, judgments).metrics, 0.95)
    where = [(one.column, one.value) for one in decision.where]
    assert (decision.use, decision.reason, where) == expected


def test_items_are_searched_up_to_a_size_with_the_weights_of_labels(monkeypatch):
    cases, judgments = items_of(40, usual_of_item)
    items, _ = read_run_items(cases, judgments, "share")
    rows = SearchRows(searched_columns(cases), {}, Clusters.each(40))
    chosen = LabelWeights(np.arange(40) + 1.0, 40, 0)
    weighted = by_item(items, rows, chosen)
    plain = by_item(items, rows, None)
    assert (plain.clusters.cases, plain.clusters.count) == (160, 40)
    assert plain.statistics["checklist/kappa"].weights is None
    given = weighted.statistics["checklist/kappa"].weights
    assert given.tolist() == np.repeat(chosen.weights, 4).tolist()
    monkeypatch.setattr(search_items, "MOST_CELLS", 100)
    assert by_item(items, rows, None) is None


@pytest.mark.parametrize("note", [
    None,
    "words",
    "[]",
    "{}",
    '{"column": 1, "value": "a", "allows": "none"}',
    '{"column": "c", "value": "a", "allows": "all"}',
])  # fmt: skip
def test_a_note_that_is_not_evalkits_withdraws_nothing(note):
    metrics = {
        "agreement/spearman": Metric("agreement/spearman", 0.9, 0.85, 0.95, 400),
        "decision/lean/score": Metric("decision/lean/score", 0.0, -0.01, 0.01, 400),
        "decision/where/c/a": Metric("decision/where/c/a", 0.1, 0.0, 0.2, 50, note=note),
    }
    decision = decide(metrics, 0.95)
    assert decision.unit == SCORES.unit
    assert decision.trusted
    assert decision.where == ()


def test_a_column_with_too_few_exceptions_is_followed():
    tasks = np.repeat(["chat", "code"], 20).tolist()
    labels = HALVES.copy()
    labels[:2] = 1
    follows = followed_metric(labels, HALVES, tasks)
    assert follows is not None
    assert json.loads(follows.note or "")["label"] is False


def test_one_value_is_no_strata():
    labels = np.arange(40) % 2
    grades = np.arange(40.0)
    whole = column(["a"] * 40)
    assert strata.agreement_within(whole, confusion(labels, labels)) is None
    assert strata.agreement_within(whole, moments(grades, grades)) is None


@pytest.mark.parametrize(("unit", "label", "use", "words"), [
    ("response", False, "unknown", "98% of its verdicts are the usual one for their topic"),
    ("response", True, "rates_corrected", "98% of its verdicts are the usual one for .* labels"),
    ("score", False, "unknown", "topic explains 98% of the variance of its scores"),
    ("score", True, "rates_corrected", "topic explains 98% of the variance of its scores, and"),
])  # fmt: skip
def test_a_judge_that_may_follow_a_column_is_not_trusted_for_it(unit, label, use, words):
    note = json.dumps({"column": "topic", "label": label})
    metrics = {
        "agreement/accuracy": Metric("agreement/accuracy", 0.9, 0.85, 0.95, 200),
        "agreement/kappa": Metric("agreement/kappa", 0.8, 0.7, 0.9, 200),
        "class/balanced_accuracy": Metric("class/balanced_accuracy", 0.9, 0.8, 0.95, 200),
        "decision/lean/class/a": Metric("decision/lean/class/a", 0.0, -0.2, 0.2, 200),
    }
    if unit == "score":
        metrics = {
            "agreement/spearman": Metric("agreement/spearman", 0.5, 0.4, 0.55, 200),
            "decision/lean/score": Metric("decision/lean/score", 0.0, -0.2, 0.2, 200),
        }
    follows = Metric("decision/follows", 0.98, n=200, note=note)
    decision = decide({**metrics, follows.name: follows}, 0.95)
    assert decision.use == use
    assert re.search(words, in_every_language(sentence(decision, metrics))[0])


def test_low_agreement_within_a_column_leaves_the_decision_open():
    metrics = {
        "agreement/accuracy": Metric("agreement/accuracy", 0.9, 0.85, 0.95, 200),
        "agreement/kappa": Metric("agreement/kappa", 0.8, 0.7, 0.9, 200),
        "class/balanced_accuracy": Metric("class/balanced_accuracy", 0.9, 0.8, 0.95, 200),
    }
    note = '{"column": "topic", "strata": 2, "omitted": 0}'
    for high, use in ((0.5, "unknown"), (0.15, "none")):
        within = Metric("decision/within", 0.1, -0.1, high, 200, note=note)
        decision = decide({**metrics, within.name: within}, 0.95)
        assert decision.use == use
        assert "topic" in str(sentence(decision, metrics))


def groups(count, names="c"):
    """Return a column of 600 cases in so many groups."""
    values = [f"{names}{n % count:02d}" for n in range(600)]
    column = Groups.of_values(names, values)
    if count > 100:
        return column
    of_slices = Groups.of_slices(slices_of_values(names, values))
    assert np.array_equal(_partition(column.group), _partition(of_slices.group))
    return of_slices


def _partition(group):
    """Return the number of the first case of the group of each case."""
    return [int(np.flatnonzero(group == number)[0]) for number in group]


def test_small_groups_that_differ_are_found_together():
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 2, 600)
    hard = np.arange(600) % 60 < 12
    wrong = generator.random(600) < np.where(hard, 0.5, 0.03)
    lists = Slices("tags", ("a", "b", "c", "d", "e"), np.ones((600, 5), dtype=bool))
    assert Groups.of_slices(lists) is None
    # Two others that differ less, or not at all, and three that are not of small groups.
    columns = [groups(60), groups(49, "other"), groups(90, "pair"), groups(4), groups(10)]
    outcomes = counted(labels, wrong)
    found = variation.varying(columns, outcomes, 0.95, 0)
    metric = found["decision/varies"]
    assert (metric.n, json.loads(metric.note)) == (60, {"column": "c"})
    truth = np.std(np.repeat([0.5, 0.03], [12, 48]))
    assert metric.value == pytest.approx(truth, abs=0.05)
    assert variation.varying([groups(60), groups(30)], outcomes, 0.95, 0)
    assert not variation.varying([groups(49)], outcomes, 0.95, 0)
    everywhere = generator.random(600) < 0.12
    assert not variation.varying([groups(60)], counted(labels, everywhere), 0.95, 0)
    # No 999 permutations can show that.
    assert not variation.varying([groups(60)], outcomes, 0.9999, 0)
    assert not variation.varying(columns, replace(outcomes, counted=False), 0.95, 0)
    assert not variation.varying(columns, replace(outcomes, units=outcomes.units * 2), 0.95, 0)


def test_many_groups_of_few_cases_are_found_together():
    generator = np.random.default_rng(4)
    labels = generator.integers(0, 2, 600)
    hard = np.arange(600) % 200 < 40
    wrong = generator.random(600) < np.where(hard, 0.5, 0.03)
    shops = [f"shop {n % 200}" for n in range(600)]
    cases = [
        Case(f"c{n}", "q", (Response("a", class_name="yes"),), metadata={"shop": shop})
        for n, shop in enumerate(shops)
    ]
    searched = searched_columns(cases)
    assert searched.omitted == ("shop",)
    found = variation.varying(searched.groups, counted(labels, wrong), 0.95, 0)
    assert found["decision/varies"].n == 200
    everywhere = counted(labels, generator.random(600) < 0.12)
    assert not variation.varying(searched.groups, everywhere, 0.95, 0)


@pytest.mark.parametrize(("cells", "group"), [
    (["a", "b", None, "a", "b", ""], [0, 1, -1, 0, 1, -1]),
    ([1, 2, 2, 1], [0, 1, 1, 0]),
    (["a", "b", "c"], None),
    ([["a"], ["a"]], None),
], ids=["without a value", "numbers", "a case each", "lists"])  # fmt: skip
def test_values_that_several_cases_have_are_groups(cells, group):
    column = Groups.of_values("c", cells)
    assert (column and column.group.tolist()) == group


def drifting(kind, order):
    """Return labels and verdicts of 300 cases; from the 181st on the judge is a coin, or the data is sorted."""
    generator = np.random.default_rng(21)
    classes = 2 if kind == "agreement/kappa" else 5
    labels = generator.integers(0, classes, 300)
    others = generator.integers(0, classes, 300)
    late = np.arange(300) >= 180
    if order == "late":
        return labels, np.where(late, others, labels)
    if order == "constant late":
        return labels, np.where(late, 0, labels)
    verdicts = np.where(generator.random(300) < 0.15, others, labels)
    keys = {
        "verdict": verdicts,
        "label and verdict": 10 * labels + verdicts,
        "right": labels == verdicts,
        "label": labels,
        "nothing": np.zeros(300),
    }
    rows = np.argsort(keys[order], kind="stable")
    return labels[rows], verdicts[rows]


def agreement_of(kind, labels, verdicts):
    if kind == "agreement/kappa":
        return confusion(labels, verdicts)
    return replace(moments(1.0 * verdicts, 1.0 * labels), value=pearson)


def pearson(totals):
    n, x, y, xx, yy, xy = totals.T
    spread = (n * xx - x * x) * (n * yy - y * y)
    with np.errstate(invalid="ignore"):
        return (n * xy - x * y) / np.sqrt(spread)


@pytest.mark.parametrize("kind", ["agreement/kappa", "agreement/pearson"])
@pytest.mark.parametrize(("order", "is_named"), [
    ("late", True),
    ("constant late", True),
    ("verdict", False),
    ("label and verdict", False),
    ("label", False),
    ("nothing", False),
])  # fmt: skip
def test_the_place_in_the_data_is_a_slice_unless_verdicts_sort_it(kind, order, is_named):
    labels, verdicts = drifting(kind, order)
    statistics = {kind: agreement_of(kind, labels, verdicts)}
    decision = Decision("single", "substantial", "response", Metric(kind, 0.9))
    columns = SearchedColumns((), placed=True)
    found = search_slices(SCORING, columns, statistics, decision, Clusters.each(300))
    where = [json.loads(one.note) for name, one in found.items() if "/where/" in name]
    named = [(one["column"], one["value"]) for one in where]
    assert (("case_number", "181..300") in named) is is_named
    assert is_named or not named


def test_errors_in_order_show_no_place():
    labels, verdicts = drifting("agreement/kappa", "right")
    assert places(counted(labels, labels != verdicts), 300) is None
    errors = np.linspace(0, 3, 100)
    rows = np.arange(100)
    ones = np.ones(100)
    outcomes = Outcomes(rows, rows % 2, rows % 2, ones, errors, errors % 1, False)
    assert places(outcomes, 100) is None
    assert places(replace(outcomes, wrong=ones, answer=ones), 100) is not None
    assert places(outcomes.where(rows < 50), 100) is None


def test_a_column_that_only_goes_with_the_place_is_not_named():
    labels, verdicts = drifting("agreement/kappa", "late")
    digits = [str(len(str(number))) for number in range(300)]
    halves = ["a" if number < 180 else "b" for number in range(300)]
    for values, expected in ((digits, "case_number"), (halves, "topic")):
        columns = SearchedColumns((column(values),), placed=True)
        statistics = {"agreement/kappa": confusion(labels, verdicts)}
        found = search_slices(SCORING, columns, statistics, TRUSTED, Clusters.each(300))
        where = [json.loads(one.note) for name, one in found.items() if "/where/" in name]
        assert [one["column"] for one in where] == [expected]


def scores_by_language(factor, use, noise=0.05):
    """Return what is found about scores of 300 responses, a third of them German with
    this slope and noise."""
    generator = np.random.default_rng(5)
    german = np.arange(300) % 3 == 0
    grades = generator.integers(0, 5, 300) / 4
    slopes = np.where(german, factor, 1.0)
    noises = np.where(german, noise, 0.05)
    scores = 0.5 + slopes * (grades - 0.5) + generator.normal(0, 1, 300) * noises
    whole = replace(moments(scores, grades), value=pearson)
    spread = replace(whole, name="agreement/spread", value=ratio_of_spreads)
    decision = Decision(use, "moderate", "response", Metric("agreement/pearson", 0.9))
    columns = SearchedColumns((column(np.where(german, "de", "en").tolist(), "language"),))
    statistics = {whole.name: whole, spread.name: spread}
    return search_slices(SCORING, columns, statistics, decision, Clusters.each(300))


def ratio_of_spreads(totals):
    n, x, y, xx, yy, _ = totals.T
    return np.sqrt((xx - x * x / n) / (yy - y * y / n))


@pytest.mark.parametrize(
    ("factor", "words"), [(0.4, "are compressed"), (2.0, "are spread wider"), (1.0, None)]
)
def test_scores_that_are_compressed_in_one_slice(factor, words):
    found = scores_by_language(factor, "rates")
    named = found.get("decision/spread_where/language/de")
    if words is None:
        noisy = scores_by_language(factor, "rates", noise=0.15)
        assert not [name for name in found | noisy if "where" in name]
        assert not search_module._is_rescaled(Metric("agreement/spread", 0.5))
        return
    assert named.value == pytest.approx(factor, abs=0.08)
    metrics = {
        "agreement/spearman": Metric("agreement/spearman", 0.9, 0.85, 0.95, 400),
        "decision/lean/score": Metric("decision/lean/score", 0.0, -0.01, 0.01, 400),
        named.name: named,
    }
    english, chinese = in_every_language(sentence(decide(metrics, 0.95), metrics))
    assert f"where language is de, its scores {words}" in english
    assert "当language 为 de时" in chinese
    (where,) = [
        one for name, one in scores_by_language(factor, "single").items() if "/where/" in name
    ]
    assert json.loads(where.note)["allows"] == "rates"


def shifted_scores(shift, direction=1.0):
    generator = np.random.default_rng(3)
    german = np.arange(300) % 3 == 0
    grades = generator.integers(0, 3, 300) / 4 + 0.25
    scores = grades + generator.normal(0, 0.02, 300) + np.where(german, direction * shift, 0.01)
    lean = Tally.each(300).mean("decision/lean/score", scores - grades, np.ones(300, bool))
    statistics = {"agreement/pearson": moments(scores, grades), lean.name: lean}
    metric = Metric("agreement/pearson", 0.9)
    decision = Decision("rates_corrected", "leans", "response", metric)
    columns = SearchedColumns((column(np.where(german, "de", "en").tolist(), "language"),))
    return search_slices(SCORING, columns, statistics, decision, Clusters.each(300))


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_a_slice_whose_scores_are_shifted_is_a_limit(direction):
    found = shifted_scores(0.25, direction)
    lean = found["decision/lean_where/language/de"]
    assert lean.value == pytest.approx(0.25 * direction, abs=0.02)
    assert not [name for name in shifted_scores(0.06, direction) if "lean_where" in name]
    metrics = {
        "agreement/spearman": Metric("agreement/spearman", 0.9, 0.85, 0.95, 400),
        "decision/lean/score": Metric("decision/lean/score", 0.1, 0.08, 0.12, 400),
        lean.name: lean,
    }
    english, chinese = in_every_language(sentence(decide(metrics, 0.95), metrics))
    word = "higher" if direction > 0 else "lower"
    assert f"where language is de, its scores are {word} than the labels by 25" in english
    assert "language 为 de时" in chinese.replace(" 时", "时")


@pytest.mark.parametrize(("inside", "outside", "is_beyond"), [
    ((0.3, 0.25, 0.35), (0.0, -0.02, 0.02), True),
    ((-0.3, -0.35, -0.25), (0.0, -0.02, 0.02), True),
    ((0.3, 0.01, 0.5), (0.0, -0.02, 0.02), False),
    ((0.0, -0.02, 0.02), (0.3, 0.25, 0.35), False),
    ((0.3, None, None), (0.0, -0.02, 0.02), False),
])  # fmt: skip
def test_a_lean_is_beyond_that_elsewhere_by_whole_intervals(inside, outside, is_beyond):
    assert search_module._is_beyond(Metric("a", *inside), Metric("b", *outside)) is is_beyond


def unanswered(share, *, spread=False, several=False):
    """Return what the search finds if answers to German cases are missing."""
    generator = np.random.default_rng(9)
    german = np.arange(300) % 3 == 0
    labels = np.arange(300) % 2
    lost = generator.random(300) < np.where(german | spread, share, 0.0)
    every = np.ones(300, dtype=bool)
    table = Confusion.of(Tally.each(300), labels, labels, every & ~lost, lost, (0, 1))
    columns = [1.0 * (labels * ~lost), 1.0 * ~lost, 1.0 * labels, np.where(several, 2.0, every)]
    lean = Statistic("decision/lean/class/a", columns, lambda totals: totals[:, 0], n=300)
    statistics = {"agreement/kappa": table.statistic("agreement/kappa", kappa), lean.name: lean}
    topics = SearchedColumns((column(np.where(german, "de", "en").tolist(), "language"),))
    decision = replace(TRUSTED, use="unknown", reason="missing")
    return search_slices(SCORING, topics, statistics, decision, Clusters.each(300))


def test_a_slice_in_which_answers_are_missing_is_named():
    found = unanswered(0.6)
    share = found["decision/missing_where/language/de"]
    assert share.n == 100
    assert share.value == pytest.approx(0.6, abs=0.15)
    assert unanswered(0.1) == unanswered(0.6, several=True) == unanswered(0.3, spread=True) == {}
    agreement = Metric("agreement/spearman", 0.9, 0.85, 0.95, 240, missing=60)
    metrics = {"agreement/spearman": agreement, share.name: share}
    english, chinese = in_every_language(sentence(decide(metrics, 0.95), metrics))
    assert re.search(r"where language is de, \d\d% \[.*\] of 100 labeled responses", english)
    assert "language 为 de" in chinese
    assert "没有结论" in chinese


def labels_elsewhere(labeled, values=None, lost=None):
    """Return what is found about a judge that is right in 400 cases, of which these have labels."""
    rows = np.flatnonzero(labeled)
    codes = rows % 2
    every = np.ones(len(rows), dtype=bool)
    unread = ~every if lost is None else lost[rows]
    tally = Tally(rows, 400)
    table = Confusion.of(tally, codes, codes, every & ~unread, unread, (0, 1))
    statistics = {"agreement/kappa": table.statistic("agreement/kappa", kappa)}
    if unread.any():
        columns = np.zeros((4, 400))
        columns[1, rows] = ~unread
        columns[3, rows] = 1
        name = "decision/lean/class/a"
        statistics[name] = Statistic(name, [*columns], lambda totals: totals[:, 0], n=400)
    if values is None:
        values = ["de" if number % 4 == 1 else "en" for number in range(400)]
    topics = SearchedColumns((column(values, "language"),))
    found = search_slices(SCORING, topics, statistics, TRUSTED, Clusters.each(400))
    return {name: one for name, one in found.items() if name.startswith("decision/where/")}


def test_a_slice_without_labels_is_named_whatever_the_judge_is_like_elsewhere():
    number = np.arange(400)
    german = number % 4 == 1
    few = german & (number < 20)
    found = labels_elsewhere(~german | few)
    share = found["decision/where/language/de"]
    assert (share.value, share.n) == (0.05, 100)
    decision = replace(TRUSTED, where=tuple(places_not_trusted(found, "single")))
    assert [where.allows for where in decision.where] == ["unknown"]
    english, chinese = in_every_language(places_text(decision))
    assert english == "not where language is de: 5 of 100 have a label"
    assert "100 条中只有 5 条有标注" in chinese
    # Labels of all cases, of a random part, or without a verdict.
    everywhere = np.ones(400, dtype=bool)
    assert labels_elsewhere(everywhere) == labels_elsewhere(number % 3 == 0) == {}
    assert labels_elsewhere(everywhere, lost=german) == {}


@given(st.data())
def test_a_slice_without_labels_has_fewer_than_chance_explains(data):
    size = data.draw(st.integers(20, 60))
    labeled = np.array(data.draw(st.lists(st.booleans(), min_size=120, max_size=120)))
    labeled[:size] &= data.draw(st.booleans())
    in_rows = np.arange(120) < size
    # Not one after the other, as rows that a column numbers are.
    order = np.random.default_rng(1).permutation(120)
    members = np.stack([in_rows[order], ~in_rows[order]], axis=1)
    has_label = labeled[order]
    slices = Slices("language", ("de", "en"), members)
    rows = np.flatnonzero(has_label)
    found = list(unlabeled_slices([slices], rows, Clusters.each(120), 0.95))
    expected = [
        int(inside.sum())
        for inside in members.T
        if inside.sum() >= 30
        and (inside & has_label).sum() < 10
        and hypergeom.cdf((inside & has_label).sum(), 120, has_label.sum(), inside.sum()) <= 0.025
    ]
    assert [one.cases for one in found] == sorted(expected, reverse=True)
    # Of cases that are all one cluster or another, only clusters are counted.
    halves = Clusters(120, 2, (np.arange(120) % 2).astype(np.int64))
    assert not list(unlabeled_slices([slices], rows, halves, 0.95))


def test_numbers_that_count_the_rows_may_have_no_labels():
    number = np.arange(400)
    halves = np.stack([number < 200, number >= 200], axis=1)
    counted_rows = Slices("row", ("0..199", "200..399"), halves, ((None, 200), (200, None)))
    mixed = np.random.default_rng(2).permutation(400)
    price = replace(counted_rows, column="price", members=halves[mixed])
    lengths = replace(counted_rows, column="length", ends=(), computed=True)
    weeks = replace(lengths, column="week", computed=False)
    for slices, count in ((counted_rows, 0), (price, 1), (lengths, 0), (weeks, 1)):
        labeled = np.flatnonzero(slices.members[:, 0])
        found = [*unlabeled_slices([slices], labeled, Clusters.each(400), 0.95)]
        assert len(found) == count


@pytest.mark.parametrize(("column", "values", "labeled_share", "count"), [
    ("status", ("labeled", "open"), 1.0, 0),
    ("has_label", ("true", "false"), 1.0, 0),
    ("label_status", ("done", "todo"), 1.0, 0),
    # Not every case that it calls labeled is: the column does not say what is labeled.
    ("status", ("labeled", "open"), 0.5, 1),
    # Closed tickets, which may be unlike open ones.
    ("status", ("closed", "open"), 1.0, 1),
])  # fmt: skip
def test_a_column_that_says_what_is_labeled_is_no_slice(column, values, labeled_share, count):
    first = np.random.default_rng(2).permutation(400) < 200
    slices = Slices(column, values, np.stack([first, ~first], axis=1))
    rows = np.flatnonzero(first)
    labeled = rows[: round(labeled_share * len(rows))]
    found = [*unlabeled_slices([slices], labeled, Clusters.each(400), 0.95)]
    assert len(found) == count


def test_ten_slices_without_labels_are_named():
    language = np.arange(1200) % 24
    members = np.stack([language == number for number in range(12)], axis=1)
    slices = Slices("language", tuple("abcdefghijkl"), members)
    labeled = np.flatnonzero(language >= 12)
    found = [*unlabeled_slices([slices], labeled, Clusters.each(1200), 0.95)]
    assert [one.cases for one in found] == [50] * 10


@pytest.mark.parametrize("responses", [60, 200])
def test_scores_of_several_systems_are_not_missing(responses):
    generator = np.random.default_rng(responses)
    cases = []
    judgments = []
    for number in range(responses):
        grade = float(generator.integers(1, 6))
        score = float(np.clip(grade + generator.integers(-1, 2), 1, 5))
        response = Response(f"answer {number}", "wxyz"[number % 4], grade=grade)
        cases.append(Case(f"c{number}", f"question {number}", (response,)))
        judged = Judgment(f"c{number}", (0,), (0,), 0, "m", "ok", criteria={"quality": score})
        judgments.append(judged)
    single = {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
    config = {**single, "judge": {"model": "m"}, "criteria": [{"name": "quality"}]}
    metrics = score_run(RunConfig.model_validate(config), cases, judgments).metrics
    assert not [name for name in metrics if name.startswith("decision/missing_where/")]


def test_the_place_in_which_answers_are_missing_is_cut_by_labeled_cases():
    number = np.arange(300)
    labels = number % 2
    lost = (number >= 240) & (number % 5 > 0)
    read = ~lost
    table = Confusion.of(Tally.each(300), labels, labels, read, lost, (0, 1))
    columns = [1.0 * (labels * read), 1.0 * read, 1.0 * labels, np.ones(300)]
    lean = Statistic("decision/lean/class/a", columns, lambda totals: totals[:, 0], n=300)
    statistics = {"agreement/kappa": table.statistic("agreement/kappa", kappa), lean.name: lean}
    decision = replace(TRUSTED, use="unknown", reason="missing")
    places = SearchedColumns((), placed=True)
    found = search_slices(SCORING, places, statistics, decision, Clusters.each(300))
    assert [*found] == ["decision/missing_where/case_number/241..300"]


def test_missing_answers_that_chance_explains_name_no_slice():
    number = np.arange(300)
    lost = (number < 3) | (number >= 280)
    table = [np.zeros(300), 1.0 * ~lost, np.zeros(300), np.ones(300)]
    lean = Statistic("decision/lean/class/a", table, lambda totals: totals[:, 0], n=300)
    members = np.stack([number < 12, number >= 12], axis=1)
    assert missing_in({lean.name: lean}, members, 0.95) is None


def test_missing_answers_of_clusters_name_no_slice():
    labels = np.arange(80) % 2
    agreement = confusion(labels, labels)
    clusters = Clusters(80, 40, np.arange(80) // 2)
    decision = replace(TRUSTED, use="unknown", reason="missing")
    topics = SearchedColumns((column(["de", "en"] * 40, "language"),))
    assert search_slices(SCORING, topics, {agreement.name: agreement}, decision, clusters) == {}


def test_ids_that_are_numbers_name_groups_of_cases():
    cases = cases_of(topic_id=[10 * (n % 8 + 1) for n in range(80)], row_id=list(range(80)))
    many = cases_of(user_id=[n // 3 for n in range(450)])
    found = {one.column: one for one in searched_columns(cases).slices}
    assert found["topic_id"].values == ("10", "20", "30", "40", "50", "60", "70", "80")
    assert "row_id" not in found
    assert "user_id" not in [one.column for one in searched_columns(many).slices]
    assert selected(cases[:3], {"topic_id": {"not": ["10"]}}) == [False, True, True]


@pytest.mark.parametrize("with_concordance", [True, False])
def test_a_slice_of_equal_scores_is_named(with_concordance):
    generator = np.random.default_rng(2)
    grades = generator.integers(1, 6, 300).astype(float)
    constant = np.arange(300) % 3 == 0
    scores = np.where(constant, 3.0, grades)
    agreement = replace(moments(scores, grades), value=pearson)
    statistics = {agreement.name: agreement}
    if with_concordance:
        concordance = replace(agreement, name="agreement/kappa_quadratic")
        statistics[concordance.name] = replace(concordance, value=lambda totals: 0 * totals[:, 0])
    slices = [column(np.where(constant, "ja", "en").tolist(), "language")]
    found = search(statistics, slices, "rates", agreement.name)
    where = found["decision/where/language/ja"]
    assert where.value == 0
    assert json.loads(where.note)["allows"] == "none"


@given(st.data())
def test_the_tail_of_missing_answers_is_that_of_scipy(data):
    total = data.draw(st.integers(2, 400))
    lost = data.draw(st.integers(0, total))
    drawn = data.draw(st.integers(0, total))
    hits = data.draw(st.integers(0, min(lost, drawn)))
    expected = hypergeom.logsf(hits - 1, total, lost, drawn)
    assert log_upper_tail(hits, drawn, lost, total) == pytest.approx(expected, abs=1e-9, rel=1e-9)
