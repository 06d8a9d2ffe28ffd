"""Runs compared on the cases they share."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import mcnemar

from evalkit.config import ScoringConfig
from evalkit.core.display import with_interval
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Response
from evalkit.report.comparison import values_table
from evalkit.scoring.compare import compare_runs
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired import mcnemar as by_mcnemar
from evalkit.scoring.stats.paired import smallest_gain
from evalkit.scoring.stats.quantiles import tail_of

SETTINGS = ScoringConfig(bootstrap=300)


@pytest.fixture
def run(configure, make_case, passes):
    """Make a run of labels and margins, one pair a case, none for a missing answer."""

    def make(name, labels, margins, **sections):
        cases = tuple(make_case(str(k), label=label) for k, label in enumerate(labels))
        judgments = tuple(j for k, m in enumerate(margins) for j in passes(str(k), m, m))
        return RunEntry(name, configure(**sections), cases, judgments)

    return make


def difference(comparison, metric, first=0, second=1):
    runs = comparison.runs[first], comparison.runs[second]
    rows = [*comparison.differences, *comparison.between]
    return next(
        row for row in rows if row.metric.name == metric and (row.first, row.second) == runs
    )


def simulated(run, seed=1, n=60, better=0.85, worse=0.65):
    generator = np.random.default_rng(seed)
    labels = ["A" if right else "B" for right in generator.random(n) < 0.5]
    sign = np.array([1.0 if label == "A" else -1.0 for label in labels])
    runs = [
        run(name, labels, np.where(generator.random(n) < accuracy, sign, -sign).tolist())
        for name, accuracy in (("one", better), ("two", worse))
    ]
    return labels, runs


def test_accuracy_by_mcnemar_and_the_paired_bootstrap(run):
    labels, runs = simulated(run)
    comparison = compare_runs(runs, SETTINGS)
    right = [
        np.array(
            [
                j.value == (1.0 if label == "A" else -1.0)
                for j, label in zip(r.judgments[::2], labels, strict=True)
            ]
        )
        for r in runs
    ]
    table = [[(a & b).sum() for b in (right[1], ~right[1])] for a in (right[0], ~right[0])]
    found = difference(comparison, "agreement/accuracy")
    assert found.p == pytest.approx(
        mcnemar(table, exact=table[0][1] + table[1][0] < 25).pvalue, abs=1e-12
    )
    assert (found.only_first, found.only_second) == (table[0][1], table[1][0])
    lead = right[0].astype(float) - right[1]
    assert found.metric.value == pytest.approx(lead.mean())
    draws = np.concatenate([weights @ lead / 60 for _, weights in Clusters.each(60).draw(300, 0)])
    tail = tail_of(60, 0.95)
    ends = np.quantile(draws, [tail, 1 - tail], method="weibull")
    assert (found.metric.low, found.metric.high) == pytest.approx(tuple(ends))
    assert found.detectable == pytest.approx(
        draws.std() * (stats.norm.isf(0.025) + stats.norm.isf(0.2))
    )
    assert (comparison.cases, comparison.family, found.p_holm) == (
        60,
        ("agreement/accuracy",),
        found.p,
    )


def test_every_metric_is_resampled_in_the_same_cases(run):
    comparison = compare_runs(simulated(run)[1], SETTINGS)
    found = difference(comparison, "agreement/kappa")
    values = {e.run: e.metric for e in comparison.entries if e.metric.name == "agreement/kappa"}
    assert found.metric.value == pytest.approx(values["one"].value - values["two"].value)
    assert found.metric.low < found.metric.value < found.metric.high
    assert (found.test, found.p) == (None, None)
    unpaired = sum((metric.high - metric.low) ** 2 for metric in values.values()) ** 0.5
    assert found.metric.high - found.metric.low < 1.2 * unpaired
    same = compare_runs([runs := simulated(run)[1][0], replace(runs, name="again")], SETTINGS)
    assert difference(same, "agreement/kappa").metric.value == 0
    assert difference(same, "agreement/accuracy").p is None
    assert difference(same, "agreement/accuracy").detectable is None


def test_the_verdicts_of_two_runs(run):
    _, runs = simulated(run)
    comparison = compare_runs(runs, SETTINGS)
    said = [[j.value for j in r.judgments[::2]] for r in runs]
    assert difference(comparison, "between/kappa").metric.value == pytest.approx(
        cohen_kappa_score(*said), abs=1e-9
    )
    expected = np.mean(np.array(said[0]) == np.array(said[1]))
    assert difference(comparison, "between/agreement").metric.value == pytest.approx(expected)


def test_missing_answers_are_left_out_and_bounded(run):
    """One right of two read and one lost, against one right of three with two lost: from 1 - 3 to 2 - 1, of 4."""
    runs = run("one", "AAAA", [1.0, -1.0, None, -1.0]), run("two", "AAAA", [None, 1.0, None, -1.0])
    comparison = compare_runs(runs, SETTINGS)
    found, between = (
        difference(comparison, name).metric for name in ("agreement/accuracy", "between/agreement")
    )
    assert (found.n, found.missing, found.value) == (2, 2, -0.5)
    assert (found.worst_low, found.worst_high) == pytest.approx(((1 - 3) / 4, (2 - 1) / 4))
    assert (between.n, between.missing) == (2, 2)


def test_only_shared_cases_count_in_the_order_of_the_first(run):
    one, two = run("one", ["A"] * 4, [1.0] * 4), run("two", ["A"] * 3, [1.0, -1.0, 1.0])
    turned = replace(two, cases=two.cases[::-1])
    comparison = compare_runs([one, turned], SETTINGS)
    assert (comparison.cases, dict(comparison.left_out)) == (3, {"one": 1, "two": 0})
    assert difference(comparison, "agreement/accuracy").metric.value == pytest.approx(1 / 3)


def test_more_than_two_runs_have_letters_and_one_family(run):
    _, (good, bad) = simulated(run, n=80, better=0.97, worse=0.55)
    near = replace(good, name="near")
    comparison = compare_runs(
        [bad, good, near], SETTINGS, ["agreement/accuracy", "position/consistency"]
    )
    shown = {e.run: e.letters for e in comparison.entries if e.metric.name == "agreement/accuracy"}
    assert shown == {"one": "a", "near": "a", "two": "b"}
    found = difference(comparison, "agreement/accuracy")
    tested = [row for row in comparison.differences if row.test]
    known = sum(row.p is not None for row in tested)
    assert len(tested) == 6
    assert found.p_holm == pytest.approx(min(1, known * found.p))
    assert {e.letters for e in comparison.entries if e.metric.name == "tie_rate"} == {None}


@pytest.fixture
def scored(pointwise, make_case, judged):
    """Make a run of scores and grades, two responses a case."""

    def make(name, rows, **sections):
        cases = tuple(
            make_case(str(k), "ab", grades=[g for _, g in row]) for k, row in enumerate(rows)
        )
        judgments = tuple(
            judged(str(k), (r,), s) for k, row in enumerate(rows) for r, (s, _) in enumerate(row)
        )
        return RunEntry(name, pointwise(**sections), cases, judgments)

    return make


def two_scored(scored, **sections):
    generator = np.random.default_rng(3)
    grades = generator.integers(1, 6, size=(30, 2)).astype(float)
    near = np.clip(grades + generator.normal(0, 0.4, (30, 2)), 1, 5)
    far = np.clip(grades + 0.5 + generator.normal(0, 1.2, (30, 2)), 1, 5)
    runs = [
        scored(
            name,
            [
                list(zip(s, g, strict=True))
                for s, g in zip(scores.tolist(), grades.tolist(), strict=True)
            ],
        )
        for name, scores in (("near", near), ("far", far))
    ]
    return grades, near, far, runs


def test_scores_by_wilcoxon_over_cases(scored):
    grades, near, far, runs = two_scored(scored)
    comparison = compare_runs(
        runs, SETTINGS, ["score/mean", "agreement/error", "agreement/spearman"]
    )
    for name, lead in (
        ("score/mean", near.mean(axis=1) - far.mean(axis=1)),
        ("agreement/error", np.abs(near - grades).mean(axis=1) - np.abs(far - grades).mean(axis=1)),
    ):
        found = difference(comparison, name)
        assert found.metric.value == pytest.approx(lead.mean(), abs=1e-9)
        expected = stats.wilcoxon(lead[np.abs(lead) > 1e-9])
        assert found.p == pytest.approx(expected.pvalue, abs=1e-9)
        assert found.test.startswith("Wilcoxon")
    assert difference(comparison, "agreement/spearman").test == "paired bootstrap"
    assert difference(comparison, "agreement/error").metric.high < 0


def test_what_is_closer_to_people_gets_the_first_letter(scored):
    *_, runs = two_scored(scored)
    comparison = compare_runs(
        [*runs, replace(runs[0], name="near too")], SETTINGS, ["agreement/error"]
    )
    shown = {e.run: e.letters for e in comparison.entries if e.metric.name == "agreement/error"}
    assert shown == {"near": "a", "near too": "a", "far": "b"}


def test_scores_on_different_scales_are_not_subtracted(scored, pointwise):
    *_, (one, two) = two_scored(scored)
    other = replace(two, config=pointwise(rubric={"min": 1, "max": 10, "step": 1}))
    names = {d.metric.name for d in compare_runs([one, other], SETTINGS).differences}
    assert not {"score/mean", "agreement/error", "length/score_slope"} & names
    assert "agreement/spearman" in names


def test_normalised_scores_are_compared_by_resampling(scored, pointwise):
    *_, runs = two_scored(scored)
    ranked = [replace(r, config=pointwise(scoring={"normalize": "rank"})) for r in runs]
    found = difference(compare_runs(ranked, SETTINGS, ["score/mean"]), "score/mean")
    assert found.test == "paired bootstrap"


def test_a_pointwise_run_meets_a_pairwise_one(scored, run):
    grades = [(2.0, 1.0), (1.0, 2.0), (3.0, 3.0)]
    by_score = scored("scores", [[(4.0, a), (2.0, b)] for a, b in grades])
    choices = RunEntry(
        "pairs",
        run("pairs", [], []).config,
        by_score.cases,
        run("x", [None] * 3, [1.0, -1.0, 0.0]).judgments,
    )
    comparison = compare_runs([by_score, choices], SETTINGS)
    found = difference(comparison, "agreement/accuracy")
    assert (found.only_first, found.only_second) == (0, 2)
    contradicted = next(
        d.metric for d in comparison.between if d.metric.name == "between/contradiction"
    )
    assert (contradicted.value, contradicted.n) == (0.5, 2)
    alike = compare_runs([by_score, replace(by_score, name="again")], SETTINGS).between
    assert "between/contradiction" not in {d.metric.name for d in alike}


def test_runs_that_read_different_cases_have_no_difference(run):
    labels = ["A", "B", "A"]
    comparison = compare_runs(
        [run("one", labels, [1.0, None, None]), run("two", labels, [None, 1.0, None])], SETTINGS
    )
    found = difference(comparison, "agreement/accuracy")
    assert (found.metric.value, found.metric.n, found.metric.missing, found.p) == (None, 0, 3, None)
    assert found.test == found.metric.note == "no labeled pair has a verdict in both"
    assert difference(comparison, "between/kappa").metric.note == "no pair has a verdict in both"


def test_without_labels_another_metric_is_tested(run):
    labels = [None] * 30
    one = run("one", labels, [1.0, -1.0] * 15)
    two = run("two", labels, [1.0, 0.0] * 15)
    comparison = compare_runs([one, two], SETTINGS)
    assert comparison.family == ("position/consistency",)
    assert compare_runs([one, two], SETTINGS, ["tie_rate"]).family == ("tie_rate",)


def test_runs_that_cannot_be_compared(run, make_case):
    one, two = run("one", ["A"], [1.0]), run("two", ["A"], [1.0])
    with pytest.raises(ConfigError, match="a comparison needs at least two different runs"):
        compare_runs([one], SETTINGS)
    with pytest.raises(ConfigError, match="a comparison needs at least two different runs"):
        compare_runs([one, one], SETTINGS)
    other = replace(two, cases=(make_case("other"),), judgments=())
    with pytest.raises(ConfigError, match="one, two: the runs share no case"):
        compare_runs([one, other], SETTINGS)
    for what, changed in (
        ("prompt", replace(two.cases[0], prompt="another")),
        ("responses", make_case("0", ("a", "c"), label="A")),
        ("label", make_case("0", label="B")),
    ):
        with pytest.raises(ConfigError, match=f"case '0': its {what} differs between one and two"):
            compare_runs([one, replace(two, cases=(changed,))], SETTINGS)
    with pytest.raises(ConfigError, match="did you mean 'agreement/accuracy'"):
        compare_runs([one, two], SETTINGS, ["agreement/acuracy"])


def test_what_holds_by_construction_is_not_tested(pointwise, make_case, judged):
    cases = (make_case("0", "abc", grades=[3, 2, 1]),)
    judgments = tuple(judged("0", (response,), 3 - response) for response in range(3))
    runs = [RunEntry(name, pointwise(), cases, judgments) for name in ("one", "two")]
    with pytest.raises(ConfigError, match="because of run one: 0 by construction: one score"):
        compare_runs(runs, SETTINGS, ["conflict/rate"])


def test_cases_of_many_pairs_are_tested_as_cases(configure, make_case, passes):
    cases = tuple(make_case(str(k), "abc", grades=[3, 2, 1]) for k in range(6))

    def entrant(name, wrong):
        judgments = []
        for k in range(6):
            for unit in ((0, 1), (0, 2), (1, 2)):
                margin = -1.0 if k < wrong else 1.0
                judgments += passes(str(k), margin, margin, unit)
        return RunEntry(name, configure(), cases, tuple(judgments))

    found = difference(
        compare_runs([entrant("one", 0), entrant("two", 4)], SETTINGS), "agreement/accuracy"
    )
    assert found.metric.n == 18
    assert found.p == pytest.approx(2 / 2**4)
    assert "whole clusters" in found.test
    assert all(
        a < b for a, b in pairwise([found.metric.low, found.metric.value, found.metric.high])
    )


def test_runs_of_classes_are_compared_by_response(configure, judged):
    def run_of(name, chosen):
        config = configure(
            mode={"name": "pointwise"},
            swap={"policy": "none"},
            rubric={"classes": {"pass": "", "fail": ""}},
        )
        cases = tuple(
            Case(str(k), "?", (Response("a", class_name="pass"),)) for k in range(len(chosen))
        )
        judgments = tuple(
            judged(str(k), (0,), status="ok" if one else "unparseable", class_name=one)
            for k, one in enumerate(chosen)
        )
        return RunEntry(name, config, cases, judgments)

    first = run_of("one", ["pass"] * 9 + ["fail", None])
    second = run_of("two", ["pass"] * 3 + ["fail"] * 8)
    found = difference(compare_runs([first, second], SETTINGS), "agreement/accuracy")
    assert found.metric.value == pytest.approx(0.9 - 0.3)
    assert (found.only_first, found.only_second) == (6, 0)
    assert found.p == pytest.approx(2 / 2**6)


@pytest.mark.parametrize("n", [6, 20, 60, 200])
def test_the_smallest_gain_has_the_power_of_the_exact_test(n):
    gain = smallest_gain(n, 0.95)
    assert gain is not None
    shown = [k for k in range(1, n + 1) if (by_mcnemar(np.ones(k, dtype=np.int64))[0] or 1) <= 0.05]
    assert shown[0] == 6
    assert stats.binom.sf(shown[0] - 1, n, gain) == pytest.approx(0.8)


def test_too_few_labels_prove_nothing():
    assert smallest_gain(5, 0.95) is None


@pytest.mark.parametrize("own", [0.95, 0.8])
def test_a_run_that_stopped_shows_its_metric_with_the_interval_that_holds_at_any_stopping_time(
    run, own
):
    """Its interval has the comparison's confidence, whatever that of the run is."""
    stop = {"stop": {"metric": "win_rate/a", "width": 0.3, "largest": 1}}
    stopped, usual = (
        run("one", "A" * 8, [1.0] * 8, runner=stop, scoring={"confidence": c}) for c in (own, 0.95)
    )
    metrics, in_run = (
        score_run(one.config, one.cases, one.judgments).metrics for one in (usual, stopped)
    )
    assert (in_run["win_rate/a"] == metrics["win_rate/a"]) == (own == 0.95)
    comparison = compare_runs(
        [replace(stopped, metrics=in_run), run("two", "A" * 8, [1.0] * 8)], SETTINGS
    )
    assert [(one.run, one.metric) for one in comparison.stops] == [("one", metrics["win_rate/a"])]
    rows = {row[0]: row[1:] for row in values_table(comparison)}
    shown = with_interval(metrics["win_rate/a"])
    assert rows["win_rate/a (runner.stop)"] == [shown, "–"]
    assert metrics["win_rate/a"] not in [entry.metric for entry in comparison.entries]
