"""Agreement of winners with labels, scores one by one, and their correlations with grades, with bounds."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from evalkit.scoring.columns import ScoreColumns
from evalkit.scoring.metrics import correlation
from evalkit.scoring.metrics.correlation import correlation_statistics
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.agreement_formulas import ac1, kappa, weighted_kappa
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdicts.pointwise import rank, zscore
from tests.scoring.drift_runs import scores
from tests.support.thorough import examples

NAMES = ["A", "TIE", "B"]
VALUES = {"A": 1.0, "TIE": 0.0, "B": -1.0, None: None}
WINNER = st.sampled_from(NAMES)


def table_of(rows):
    cells = np.zeros((3, 3))
    for label, winner in rows:
        cells[NAMES.index(label), NAMES.index(winner)] += 1
    return cells.reshape(1, 9)


def run(configure, make_case, passes, rows, **sections):
    """Score rows of (label, first pass, second pass)."""
    cases = [make_case(str(k), label=row[0]) for k, row in enumerate(rows)]
    judgments = [
        j for k, row in enumerate(rows) for j in passes(str(k), VALUES[row[1]], VALUES[row[2]])
    ]
    return score_run(configure(scoring={"bootstrap": 0}, **sections), cases, judgments).metrics


def pairs_run(configure, make_case, passes, rows):
    """Score rows of (label, winner in both orders)."""
    return run(configure, make_case, passes, [(label, winner, winner) for label, winner in rows])


@pytest.mark.parametrize(
    ("weights", "value"),
    [(None, kappa), ("linear", weighted_kappa), ("quadratic", partial(weighted_kappa, power=2))],
    ids=["plain", "linear", "quadratic"],
)
@given(st.lists(st.tuples(WINNER, WINNER), min_size=1, max_size=30))
def test_kappas_equal_scikit_learn(weights, value, rows):
    labels, winners = ([NAMES.index(name) for name in side] for side in zip(*rows, strict=True))
    assume(len(set(labels + winners)) > 1)
    expected = cohen_kappa_score(labels, winners, weights=weights, labels=[0, 1, 2])
    assert value(table_of(rows))[0] == pytest.approx(expected, abs=1e-12)


def test_ac1_of_published_counts():
    # Two observers, 125 units, 118 times both positive, never both negative: AC1 is 0.94 (Gwet
    # 2008, table 1).
    cells = np.array([[118, 0, 5, 0, 0, 0, 2, 0, 0]], dtype=float)
    assert ac1(cells, 2)[0] == pytest.approx(0.9408, abs=5e-5)


@given(st.lists(st.tuples(WINNER, WINNER), min_size=1, max_size=20), st.sampled_from([2, 3]))
def test_ac1_equals_the_obvious_version(rows, categories):
    classes = NAMES if categories == 3 else ["A", "B"]
    rows = [row for row in rows if set(row) <= set(classes)]
    assume(rows)
    agreed = np.mean([label == winner for label, winner in rows])
    said = [name for row in rows for name in row]
    chance = sum(said.count(c) / len(said) * (1 - said.count(c) / len(said)) for c in classes) / (
        categories - 1
    )
    assert ac1(table_of(rows), categories)[0] == pytest.approx(
        (agreed - chance) / (1 - chance), abs=1e-12
    )


@pytest.mark.slow
@examples(4)
@given(
    st.lists(
        st.tuples(WINNER, WINNER | st.none(), WINNER | st.none()), min_size=1, max_size=6
    ).filter(lambda rows: sum((a is None) + (b is None) for _, a, b in rows) <= 3)
)
def test_worst_cases_are_those_of_filling_in_what_is_missing(configure, make_case, passes, rows):
    metrics = run(configure, make_case, passes, rows)
    lost = [(k, side) for k, row in enumerate(rows) for side in (1, 2) if row[side] is None]
    found = []
    for choice in product(["A", "TIE", "B"], repeat=len(lost)):
        filled = [list(row) for row in rows]
        for (k, side), winner in zip(lost, choice, strict=True):
            filled[k][side] = winner
        found.append(run(configure, make_case, passes, filled))
    values = [metrics_["agreement/accuracy_per_order"].value for metrics_ in found]
    metric = metrics["agreement/accuracy_per_order"]
    assert (metric.worst_low, metric.worst_high) == pytest.approx((min(values), max(values)))
    for name in (
        "agreement/accuracy",
        "agreement/accuracy_both_orders",
        "tie_rate",
        "position/consistency",
    ):
        values = [metrics_[name].value for metrics_ in found]
        assert metrics[name].worst_low <= min(values) + 1e-9
        assert metrics[name].worst_high >= max(values) - 1e-9


@examples(10)
@given(
    st.lists(st.tuples(WINNER, WINNER | st.none()), min_size=1, max_size=7).filter(
        lambda rows: sum(winner is None for _, winner in rows) <= 4
    )
)
def test_worst_cases_hold_whatever_is_filled_in(configure, make_case, passes, rows):
    metrics = pairs_run(configure, make_case, passes, rows)
    lost = [k for k, (_, winner) in enumerate(rows) if winner is None]
    tables = []
    for choice in product(NAMES, repeat=len(lost)):
        filled = [list(row) for row in rows]
        for k, winner in zip(lost, choice, strict=True):
            filled[k][1] = winner
        tables.append(table_of(filled))
    tied = lost or any("TIE" in row for row in rows)
    for name, values in (
        ("agreement/kappa_weighted", [weighted_kappa(table)[0] for table in tables]),
        ("agreement/ac1", [ac1(table, 3 if tied else 2)[0] for table in tables]),
    ):
        defined = [value for value in values if np.isfinite(value)]
        metric = metrics[name]
        assert metric.missing == len(lost)
        if name == "agreement/kappa_weighted" and len({label for label, _ in rows if label}) == 1:
            assert (metric.value, metric.worst_low, metric.worst_high) == (None, None, None)
            continue
        if defined:
            assert metric.worst_low <= min(defined) + 1e-9
            assert metric.worst_high >= max(defined) - 1e-9
        if defined and name == "agreement/kappa_weighted" and metric.value is None:
            assert (metric.worst_low, metric.worst_high) == pytest.approx(
                (min(defined), max(defined))
            )


@pytest.mark.parametrize(("rows", "sections", "why"), [
    ([(None, "A", "A")], {}, "no pair has a label"),
    ([("A", None, None)], {}, "no labeled pair"),
    ([("A", "A", "A")], {"swap": {"policy": "none"}}, "judged in one order"),
])  # fmt: skip
def test_what_cannot_be_known_says_why(configure, make_case, passes, rows, sections, why):
    metrics = run(configure, make_case, passes, rows, **sections)
    for name in ("agreement/accuracy_per_order", "agreement/accuracy_both_orders"):
        assert metrics[name].value is None
        assert why in metrics[name].note
    if not sections:
        assert metrics["agreement/accuracy"].value is None
        assert why in metrics["agreement/accuracy"].note


def scored(pointwise, make_case, judged, rows, **sections):
    cases = [make_case(str(k), ("text",), grades=[grade]) for k, (grade, _) in enumerate(rows)]
    judgments = [judged(str(k), (0,), score) for k, (_, score) in enumerate(rows)]
    return score_run(pointwise(scoring={"bootstrap": 50}, **sections), cases, judgments).metrics


@examples(10)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=20))
def test_quadratic_kappa_equals_scikit_learn(pointwise, make_case, judged, rows):
    grades, scores = zip(*rows, strict=True)
    assume(len(set(grades + scores)) > 1)
    expected = cohen_kappa_score(grades, scores, weights="quadratic", labels=[1, 2, 3, 4, 5])
    metric = scored(pointwise, make_case, judged, [(float(g), float(s)) for g, s in rows])[
        "agreement/kappa_quadratic"
    ]
    assert metric.value == pytest.approx(expected, abs=1e-9)


def test_quadratic_kappa_needs_one_scale(pointwise, make_case, judged):
    rows = [(10.0, 3.0), (20.0, 4.0), (30.0, None)]
    metric = scored(pointwise, make_case, judged, rows)["agreement/kappa_quadratic"]
    assert (metric.value, metric.note) == (None, "grades are not on the judge's scale, 1-5")
    equal = scored(pointwise, make_case, judged, [(3.0, 3.0), (3.0, 3.0)])[
        "agreement/kappa_quadratic"
    ]
    assert (equal.value, equal.note) == (None, "scores and grades are all equal")
    lost = scored(pointwise, make_case, judged, [(3.0, 2.0), (4.0, 5.0), (2.0, None)])[
        "agreement/kappa_quadratic"
    ]
    assert (lost.n, lost.missing) == (2, 1)
    assert "not bounded" in lost.note


ORACLES = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def correlated(case, x, y, cases=0):
    case = np.array(case, dtype=np.int64)
    x, y = np.array(x, dtype=float), np.array(y, dtype=float)
    return ScoreColumns(
        case,
        np.zeros(len(case), np.int64),
        x,
        x,
        x,
        y,
        np.zeros(max(cases, 1 + case.max(initial=0)), np.int64),
    )


def found(table):
    return {item.name.split("/")[1]: item for item in correlation_statistics(table)}


ROW = st.tuples(st.integers(0, 5), st.sampled_from([1.0, 2.0, 2.5, 5.0]), st.integers(0, 3))


@given(st.lists(ROW, min_size=2, max_size=25))
def test_values_and_resamples_equal_scipy(rows):
    case, x, y = (np.array(column) for column in zip(*sorted(rows), strict=True))
    statistics = found(correlated(case, x, y, 6))
    for _, weights in Clusters.each(6).draw(4, 0):
        for row in [np.ones(6), *weights]:
            taken = np.repeat(np.arange(len(case)), row[case].astype(int))
            for name, oracle in ORACLES.items():
                item = statistics[name]
                totals = row[None] if item.weighted else item.table.totals(row[None])
                value = item.value(totals)[0]
                if len(set(x[taken])) < 2 or len(set(y[taken])) < 2:
                    assert np.isnan(value)
                else:
                    assert value == pytest.approx(oracle(x[taken], y[taken]).statistic, abs=1e-9)


def sample(cases, per_case, generator):
    case = np.repeat(np.arange(cases), per_case)
    common = generator.normal(size=cases)[case] + generator.normal(size=len(case))
    return correlated(case, common + generator.normal(size=len(case)), np.round(common))


def test_a_projected_kendall_is_close_to_the_exact_one(monkeypatch):
    table = sample(400, 4, np.random.default_rng(0))
    exact = found(table)["kendall"]
    monkeypatch.setattr(correlation, "EXACT_ROWS", 1000)
    monkeypatch.setattr(correlation, "ANCHORS", 800)
    projected = found(table)["kendall"]
    assert not projected.weighted
    assert projected.observed() == pytest.approx(exact.observed(), abs=1e-12)
    ((_, weights),) = Clusters.each(400).draw(500, 1)
    spread = exact.value(weights).std()
    assert (projected.value(projected.table.totals(weights))).std() == pytest.approx(
        spread, rel=0.05
    )
    difference = projected.value(projected.table.totals(weights)) - exact.value(weights)
    assert np.abs(difference).max() < spread / 2


@pytest.mark.parametrize(("x", "y", "why", "missing"), [
    ([1, 2], [np.nan, np.nan], "no scored response has a grade", 0),
    ([np.nan, np.nan], [1, 2], "no scored response has a grade", 2),
    ([3, 3], [1, 2], "scores or grades are all equal", 0),
])  # fmt: skip
def test_what_is_not_defined_says_why(x, y, why, missing):
    for item in correlation_statistics(correlated([0, 1], x, y)):
        assert np.isnan(item.observed())
        assert item.why == why
        assert item.missing == missing


KNOWN = [
    ([1, 2, 4, 5], [1, 3, 3, 5], [2, 4]),
    ([5, 3, 1], [1, 2, 5], [5, 1, 3]),
    ([2, 2], [1, 4], [2, 5]),
    ([3, 2], [5, 4], [4, 5]),  # on the way to the largest r, one is not positive
    ([1, 1.5, 2, 2.5, 4, 5], [1, 2, 2, 3, 4, 5], [3]),
    ([3], [2], [4, 5]),
    ([1], [2], [1]),
    ([1, 1, 2, 2, 3, 3, 4, 4, 5, 5], [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], [3]),
    ([5, 5, 4, 4, 2, 2, 1, 1], [1, 1, 2, 2, 4, 4, 5, 5], [2]),
]


@pytest.mark.parametrize(("x", "y", "lost"), KNOWN)
def test_bounds_hold_every_completion(x, y, lost):
    n = len(x) + len(lost)
    table = correlated(np.zeros(n, int), [*x, *[np.nan] * len(lost)], [*y, *lost])
    items = {item.name.split("/")[1]: item for item in correlation_statistics(table, (1.0, 5.0))}
    steps = np.linspace(1, 5, 33 if len(lost) < 3 else 9)
    reached = {name: [] for name in ORACLES}
    for filled in product(steps, repeat=len(lost)):
        every = np.array([*x, *filled])
        if np.ptp(every):
            reached["pearson"].append(np.corrcoef(every, [*y, *lost])[0, 1])
            # Between the known scores ranks do not change.
            if all(value % (0.5 if len(lost) < 3 else 1) == 0 for value in filled):
                for name in ("kendall", "spearman"):
                    reached[name].append(ORACLES[name](every, [*y, *lost]).statistic)
    for name, values in reached.items():
        low, high = items[name].worst
        assert -1 <= low <= min(values) + 1e-9, name
        assert 1 >= high >= max(values) - 1e-9, name
    low, high = items["pearson"].worst
    assert high == pytest.approx(max(reached["pearson"]), abs=0.01)
    assert low == pytest.approx(min(reached["pearson"]), abs=0.01)
    assert items["pearson"].note is None


def test_one_missing_score_of_many_moves_a_correlation_little():
    table = sample(150, 2, np.random.default_rng(4))
    score = np.clip(table.score, -4, 4)
    score[17] = np.nan
    for item in correlation_statistics(replace(table, score=score), (-4.0, 4.0)):
        low, high = item.worst
        assert low <= item.observed() <= high
        assert high - low < 0.06, item.name


def test_scores_that_depend_on_each_other_are_not_bounded(pointwise, make_case, judged):
    cases = [make_case(str(k), "ab", grades=[k, k + 1]) for k in range(4)]
    judgments = [
        judged(str(k), (r,), None if k == r == 0 else 1.0 + k - r / 2)
        for k in range(4)
        for r in range(2)
    ]
    for how, bounded in (("none", True), ("minmax", True), ("zscore", False), ("rank", False)):
        metrics = score_run(
            pointwise(scoring={"normalize": how, "bootstrap": 0}), cases, judgments
        ).metrics
        for name in ORACLES:
            found = metrics[f"agreement/{name}"]
            assert found.missing == 1
            assert (found.worst_low is not None) == bounded, (how, name)
            assert bounded == ("not bounded" not in (found.note or ""))


def within(pointwise, make_case, judged, rows):
    cases = [
        make_case(str(k), "abcde"[: len(row)], grades=[grade for grade, _ in row])
        for k, row in enumerate(rows)
    ]
    judgments = [
        judged(str(k), (r,), score)
        for k, row in enumerate(rows)
        for r, (_, score) in enumerate(row)
    ]
    return score_run(pointwise(scoring={"bootstrap": 0}), cases, judgments).metrics


def test_correlations_within_cases_are_the_means_of_scipys(pointwise, make_case, judged):
    generator, levels = np.random.default_rng(3), [*map(float, range(1, 6)), None]
    rows = [
        [
            tuple(levels[level] for level in generator.integers(0, 6, 2))
            for _ in range(generator.integers(1, 6))
        ]
        for _ in range(150)
    ]
    metrics = within(pointwise, make_case, judged, rows)
    for name, correlate in ORACLES.items():
        found = []
        for row in rows:
            both = [
                (grade, score) for grade, score in row if grade is not None and score is not None
            ]
            if len({g for g, _ in both}) > 1 and len({s for _, s in both}) > 1:
                found.append(correlate(*zip(*both, strict=True)).statistic)
        metric = metrics[f"agreement/{name}_within"]
        assert (metric.n, metric.value) == (len(found), pytest.approx(np.mean(found), abs=1e-9))
    metric = within(pointwise, make_case, judged, [[(1.0, 2.0), (1.0, 3.0)], []])[
        "agreement/pearson_within"
    ]
    assert (metric.n, metric.value, metric.note) == (
        0,
        None,
        "no case has two graded scores that differ",
    )


NAN = float("nan")


def scores_of(result):
    return [verdict.score for verdict in result.verdicts if len(verdict.unit) == 1]


def pairs_of(result):
    return [verdict for verdict in result.verdicts if len(verdict.unit) == 2]


@pytest.mark.parametrize(("threshold", "winners", "reasons"), [
    (0, ["A", "TIE", "B"], ["judged", "equal_scores", "judged"]),
    (0.3, ["TIE", "TIE", "TIE"], ["threshold", "equal_scores", "threshold"]),
    (0.29, ["A", "TIE", "B"], ["judged", "equal_scores", "judged"]),
])  # fmt: skip
def test_scores_imply_comparisons(pointwise, make_case, judged, threshold, winners, reasons):
    config = pointwise(tie={"threshold": threshold}, rubric={"min": 0, "max": 1, "step": 0.1})
    judgments = [
        judged("c", (k,), criteria={"quality": value}) for k, value in enumerate([0.4, 0.1, 0.4])
    ]
    found = pairs_of(score_run(config, [make_case("c", "abc")], judgments))
    assert [verdict.unit for verdict in found] == [(0, 1), (0, 2), (1, 2)]
    assert [verdict.winner for verdict in found] == winners
    assert [verdict.reason for verdict in found] == reasons


def test_a_forbidden_tie_of_scores_is_settled_by_margin_then_coin(pointwise, make_case, judged):
    config = pointwise(tie={"threshold": 2, "allow": False})
    judgments = [
        judged("c", (k,), criteria={"quality": value}) for k, value in enumerate([3, 4, 4])
    ]
    found = pairs_of(score_run(config, [make_case("c", "abc")], judgments))
    assert [verdict.winner for verdict in found][:2] == ["B", "B"]
    assert found[2].winner in ("A", "B")
    assert {verdict.reason for verdict in found} == {"forced"}


@pytest.mark.parametrize(("how", "expected"), [
    ("none", [1, 5, 5, None, 3, 3]),
    ("minmax", [0, 1, 1, None, 0.5, 0.5]),
    ("rank", [1, 2.5, 2.5, None, 1.5, 1.5]),
    ("zscore", [-(2**0.5), 2**-0.5, 2**-0.5, None, 0, 0]),
])  # fmt: skip
def test_normalisation_is_by_case(pointwise, make_case, judged, how, expected):
    values = {"x": [1, 5, 5, None], "y": [3, 3]}
    judgments = [
        judged(name, (k,), **({"criteria": {"quality": value}} if value else {}))
        for name, row in values.items()
        for k, value in enumerate(row)
    ]
    result = score_run(
        pointwise(scoring={"normalize": how}),
        [make_case("x", "abcd"), make_case("y", "ab")],
        judgments,
    )
    assert scores_of(result) == [
        None if value is None else pytest.approx(value) for value in expected
    ]
    assert result.metrics["score/mean"].value == pytest.approx(17 / 5)
    assert result.metrics["score/distinct"].value == 3


@given(
    st.lists(
        st.lists(st.none() | st.sampled_from([1.0, 1.5, 2.0, 4.0, 5.0]), max_size=6), max_size=4
    )
)
def test_normalisation_equals_scipy(rows):
    case = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    scores = np.array([NAN if value is None else value for row in rows for value in row])
    ranks, deviations = rank(scores, case), zscore(scores, case)
    for number in range(len(rows)):
        mine = (case == number) & ~np.isnan(scores)
        np.testing.assert_allclose(ranks[mine], stats.rankdata(scores[mine]))
        spread = scores[mine].std() if mine.any() else 0
        expected = stats.zscore(scores[mine]) if spread else np.zeros(mine.sum())
        np.testing.assert_allclose(deviations[mine], expected, atol=1e-12)
    assert (np.isnan(ranks) == np.isnan(scores)).all()
    assert (np.isnan(deviations) == np.isnan(scores)).all()


def test_the_error_of_few_scores_has_an_upper_tail():
    grades = np.resize([2.0, 3.0, 4.0], 20).tolist()
    entry = scores([grade + 1 for grade in grades], grades)
    found = score_run(entry.config, entry.cases, entry.judgments).metrics["agreement/rmse"]
    # Of equal errors, the resamples are of half a unit with 1.5 times the error, or with none.
    far = 1 + (2.25 - 1) * stats.beta.ppf(0.975, 0.5, 20)
    near = stats.beta.ppf(0.025, 20, 0.5)
    assert (found.value, found.low, found.high) == pytest.approx(
        (1.0, np.sqrt(near), np.sqrt(far)), abs=0.02
    )


def test_scores_without_an_error_have_the_exact_bound():
    grades = np.resize([2.0, 3.0, 4.0], 20).tolist()
    entry = scores(grades, grades)
    found = score_run(entry.config, entry.cases, entry.judgments).metrics["agreement/rmse"]
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(4 * np.sqrt(1 - 0.025 ** (1 / 20)))
