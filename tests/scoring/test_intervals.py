"""Intervals: cases or clusters of them are resampled, never rows, and hold the truth as often as they say."""

from dataclasses import replace
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import stdtrit
from statsmodels.stats.proportion import samplesize_confint_proportion

from evalkit.config import RunConfig, ScoringConfig
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Metric, Response
from evalkit.scoring.columns import ScoreColumns
from evalkit.scoring.compare import compare_runs
from evalkit.scoring.decision import decide
from evalkit.scoring.labels import labels_for_width
from evalkit.scoring.leaderboard import Contender, rank
from evalkit.scoring.metrics.correlation import correlation_statistics
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats import bootstrap, clusters, coefficients, quantiles
from evalkit.scoring.stats.agreement_formulas import kappa
from evalkit.scoring.stats.arrays import divide
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.bounded_intervals import (
    Halves,
    PseudoCounts,
    bounded_mean,
    debiased_sum,
    invert_test,
    mixed,
)
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.share_intervals import (
    share_interval,
    wilson,
)
from evalkit.scoring.stats.statistic import Statistic, Tally
from tests.support.simulations import simulations
from tests.support.thorough import examples, some_of


@given(st.integers(1, 60), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_equals_scipy(n, data, confidence):
    k = data.draw(st.integers(0, n))
    expected = stats.binomtest(k, n).proportion_ci(confidence, method="wilson")
    assert wilson(k / n, n, confidence) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("clustered", [False, True])
def test_an_interval_equals_the_slow_obvious_one(clustered):
    generator = np.random.default_rng(5)
    case = np.sort(generator.integers(0, 30, size=120))
    among, hit = generator.random(120) < 0.8, generator.random(120) < 0.4
    lost = ~among
    settings = ScoringConfig(bootstrap=300, confidence=0.9, seed=3)
    by = (
        Clusters.by_key((np.arange(30) // 2 + 1).tolist(), "topic")
        if clustered
        else Clusters.each(30)
    )
    metric = measure([Tally(case, 30).rate("x", hit, among, lost)], settings, by)["x"]
    cluster, values = by.of_rows(case), []
    for _, weights in by.draw(300, 3):
        for row in weights.astype(int):
            rows = [
                r
                for c, w in enumerate(row)
                for _ in range(w)
                for r in np.flatnonzero((cluster == c) & among)
            ]
            values.append(hit[rows].mean())
    assert metric.value == pytest.approx(hit[among].mean())
    n = len(np.unique(cluster[among]))
    tail = stats.norm.cdf((n / (n - 1)) ** 0.5 * stats.t.ppf(0.05, n - 1))
    assert (metric.low, metric.high) == pytest.approx(
        tuple(np.quantile(values, [tail, 1 - tail], method="weibull"))
    )
    every = len(case)
    assert metric.worst_low == pytest.approx((hit & among).sum() / every)
    assert metric.worst_high == pytest.approx(((hit & among).sum() + lost.sum()) / every)


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 12])
def test_few_cases_widen_an_interval_as_much_as_they_must(n):
    generator = np.random.default_rng(n)
    held = []
    for seed in range(150):
        values = generator.normal(size=n)
        found = Statistic(
            "x",
            values[:, None],
            lambda totals: totals[:, 0] / n,
            n=n,
            covered=np.ones(n, dtype=bool),
        )
        metric = measure([found], ScoringConfig(bootstrap=500, seed=seed), Clusters.each(n))["x"]
        held.append(metric.low <= 0 <= metric.high)
    # Percentiles that are not expanded hold the mean of 6 in 86 % of samples, of 12 in 90.5 %.
    assert np.mean(held) == pytest.approx(0.945, abs=0.03)


def test_every_resample_has_as_many_cases_as_there_are():
    drawn = np.concatenate([weights for _, weights in Clusters.each(17).draw(500, 0)])
    assert drawn.shape == (500, 17)
    assert (drawn.sum(axis=1) == 17).all()
    assert drawn.mean() == 1
    assert drawn.var(axis=0) == pytest.approx(np.full(17, 1 - 1 / 17), rel=0.35)


def test_chunks_do_not_change_what_is_drawn(monkeypatch):
    whole = np.concatenate([weights for _, weights in Clusters.each(11).draw(50, 1)])
    monkeypatch.setattr(clusters, "CHUNK", 33)
    parts = list(Clusters.each(11).draw(50, 1))
    assert len(parts) == 17
    assert np.array_equal(np.concatenate([weights for _, weights in parts]), whole)


def statistic(columns, value=None, **more):
    rows = np.array(columns, dtype=float)
    ratio = value or (lambda totals: divide(totals[:, 0], totals[:, 1]))
    return Statistic("x", rows, ratio, n=len(rows), covered=np.ones(len(rows), dtype=bool), **more)


def measured(item, resamples=200):
    return measure([item], ScoringConfig(bootstrap=resamples), Clusters.each(item.table.cases))["x"]


def test_a_proportion_on_which_all_cases_agree_gets_the_exact_interval():
    exact = stats.binomtest(0, 19).proportion_ci(method="exact").high
    metric = measured(statistic([[0, 1]] * 19, proportion=True))
    assert (metric.value, metric.low) == (0, 0)
    assert metric.high == pytest.approx(exact, abs=1e-9)
    assert "all 19 cases agree" in metric.note
    whole = measured(statistic([[1, 1]] * 19, proportion=True))
    assert (whole.value, whole.high) == (1, 1)
    assert whole.low == pytest.approx(1 - exact, abs=1e-9)


@pytest.mark.parametrize(("item", "note"), [
    (statistic([[1, 1]] * 9), "the same in every resample, and without limits: no interval"),
    (statistic([[0, 0], [0, 0]], why="no such pair", note="unseen"), "no such pair"),
])  # fmt: skip
def test_what_has_no_interval_says_so(item, note):
    metric = measured(item)
    assert (metric.low, metric.high) == (None, None)
    assert note in metric.note
    assert "unseen" not in metric.note


@pytest.mark.parametrize("n", [1, 2, 3, 20, 300])
@pytest.mark.parametrize("value", [0.25, 0.5])
def test_what_does_not_vary_is_bounded_by_how_many_cases_could_differ(n, value):
    share = 1 - 0.025 ** (1 / n)  # Clopper and Pearson's bound of none in n
    assert stats.binomtest(0, n).proportion_ci(method="exact").high == pytest.approx(share)
    for item in (
        statistic([[value, 1]] * n, proportion=True),
        statistic([[value, 1]] * n, limits=(0.0, 1.0)),
    ):
        metric = measured(item)
        assert metric.low == pytest.approx(value * (1 - share))
        assert metric.high == pytest.approx(value + share * (1 - value))
        cases = "one case" if n == 1 else f"{n} cases"
        assert (
            metric.note == f"the same in every resample: exact bound on how many of {cases} differ"
        )


def test_one_case_has_the_exact_interval_of_a_share():
    metric = measured(statistic([[1, 1]], proportion=True))
    assert (metric.low, metric.high, metric.note) == (
        0.025,
        1.0,
        "one case: exact binomial interval",
    )


@pytest.mark.parametrize("k", [2, 7])
def test_unlike_cases_may_be_in_any_cell(k):
    """With few classes also in two cells at once, which can be worse than in either."""
    cells = np.eye(k * k)[:: k + 1].repeat(10, axis=0)
    low, high = mixed(kappa, cells.sum(axis=0), np.eye(k * k), len(cells))(0.1)
    every = [kappa((0.9 * cells.sum(axis=0) + k * cell)[None])[0] for cell in np.eye(k * k)]
    assert low <= min(every) + 1e-12
    assert (low < min(every) - 1e-9) == (k == 2)
    assert high == pytest.approx(1.0)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_coefficient_of_a_few_cases_is_certain(n):
    scoring, each = ScoringConfig(bootstrap=200), np.arange(4)
    for cells in combinations_with_replacement(each, n):
        labels, verdicts = np.divmod(np.array(cells), 2)
        read = np.ones(n, dtype=bool)
        matrix = coefficients.Confusion.of(Tally.each(n), labels, verdicts, read, ~read, (0, 1))
        counts = np.stack([(labels == c) * 1.0 + (verdicts == c) for c in (0, 1)], axis=1)
        raters = coefficients.Confusion.among(counts, Tally.each(n))
        found = [
            one for name in ("pairs", "classes", "items") for one in matrix.coefficients(name, name)
        ]
        for one in [*found, *raters.coefficients("human", "annotators")]:
            metric = measure([one], scoring, Clusters.each(n))[one.name]
            if metric.value is not None:
                assert metric.high - metric.low > 0.7, (metric, cells)
                assert metric.high > 0.2, (metric, cells)


def test_a_kappa_without_agreement_on_a_second_class_does_not_end_at_zero(
    configure, make_case, passes
):
    n = 20
    cases = [make_case(str(k), label="B" if k < 2 else "A") for k in range(n)]
    judgments = [
        one for k in range(n) for one in passes(str(k), *((-1.0, -1.0) if k == 2 else (1.0, 1.0)))
    ]
    metrics = score_run(configure(), cases, judgments).metrics
    metric = metrics["agreement/kappa"]
    assert metric.value == pytest.approx(-1 / 14)
    assert metric.low < -0.15
    assert metric.high > 0.5
    note = "agreement on at most one class: with the exact bound on how many of 20 cases differ"
    assert (metric.note, metrics["agreement/ac1"].note) == (note, None)
    assert decide(metrics, 0.95).use != "none"


def test_gaps_that_are_all_zero_could_be_larger():
    metric = measured(statistic([[0.0, 1.0]] * 30, gaps=1, limits=(0.0, 1.0)))
    assert (metric.value, metric.low, metric.high) == (
        0.0,
        0.0,
        pytest.approx(1 - 0.025 ** (1 / 30)),
    )


CODES = {1.0: "A", 0.0: "TIE", -1.0: "B"}


def judged_pairs(configure, make_case, passes, labels, verdicts):
    cases = [make_case(str(k), label=CODES[label]) for k, label in enumerate(labels)]
    judgments = [
        one for k, verdict in enumerate(verdicts) for one in passes(str(k), verdict, verdict)
    ]
    return score_run(configure(scoring={"bootstrap": 200}), cases, judgments).metrics


@pytest.mark.parametrize(("n", "low"), [(20, 0.663), (300, 0.976)])
def test_a_perfect_kappa_is_bounded(configure, make_case, passes, n, low):
    labels = [1.0, -1.0] * (n // 2)
    metrics = judged_pairs(configure, make_case, passes, labels, labels)
    kappa = metrics["agreement/kappa"]
    assert (kappa.value, kappa.high) == (1.0, 1.0)
    assert kappa.low == pytest.approx(low, abs=1e-3)
    opposite = judged_pairs(configure, make_case, passes, labels, [-label for label in labels])
    assert opposite["agreement/kappa"].low == -1.0 < opposite["agreement/kappa"].high < -low + 0.4
    constant = judged_pairs(configure, make_case, passes, labels, [1.0] * n)["agreement/kappa"]
    assert constant.low < 0.0 == constant.value < constant.high < 2 * (1 - low)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "sign"), [
    *product([2, 3, 20], [1, -1]),
    (1000, -1),
])  # fmt: skip
def test_a_perfect_correlation_is_bounded(n, sign):
    generator = np.random.default_rng(n)
    x = generator.normal(size=n)
    scored = ScoreColumns(np.arange(n), np.zeros(n, dtype=int), x, x, x, sign * x, np.arange(n))
    found = measure(correlation_statistics(scored), ScoringConfig(bootstrap=20), Clusters.each(n))
    share = 1 - 0.025 ** (1 / n)
    for name in ("spearman", "kendall", "pearson"):
        metric = found[f"agreement/{name}"]
        near, far = (metric.high, metric.low) if sign > 0 else (-metric.low, -metric.high)
        assert (metric.value, near) == (pytest.approx(sign), pytest.approx(1.0))
        assert -1 <= far < 1 - 2 * share + 1e-9
        assert "exact bound" in metric.note
    if n >= 20:  # the share of the cases at opposite ends costs rho six times as much
        far = found["agreement/spearman"].low if sign > 0 else -found["agreement/spearman"].high
        assert far == pytest.approx(1 - 6 * share * (1 - share / 2) ** 2, abs=0.08)


@pytest.mark.slow
@examples(10)
@given(st.data(), st.integers(1, 6))
def test_every_defined_metric_has_an_interval(
    configure, make_case, passes, pointwise, judged, data, n
):
    """Over judges that are perfect, reversed, constant or anything, of few cases: wide intervals, never none."""
    code = st.sampled_from([1.0, 0.0, -1.0])
    pairs = judged_pairs(
        configure,
        make_case,
        passes,
        data.draw(st.lists(code, min_size=n, max_size=n)),
        data.draw(st.lists(code, min_size=n, max_size=n)),
    )
    grades, given_scores = (
        data.draw(st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=n, max_size=n))
        for _ in range(2)
    )
    cases = [
        make_case(str(k), ["x" * (3 + k % 3)], grades=[grade]) for k, grade in enumerate(grades)
    ]
    judgments = [judged(str(k), (0,), score) for k, score in enumerate(given_scores)]
    scores = score_run(pointwise(scoring={"bootstrap": 100}), cases, judgments).metrics
    for metric in [*pairs.values(), *scores.values()]:
        if (
            metric.value is not None
            and metric.name not in ("score/distinct", "decision/labels_needed")
            and "not defined in" not in (metric.note or "")
        ):
            assert metric.low is not None, metric
            assert metric.low - 1e-9 <= metric.value <= metric.high + 1e-9, metric


def test_resamples_in_which_it_is_not_defined_are_left_out():
    metric = measured(statistic([[1, 2], *[[0, 0]] * 4, [1, 1]]))
    assert metric.value == pytest.approx(2 / 3)
    assert (metric.low, metric.high) == (0.5, 1)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_an_interval_of_few_clusters_is_at_least_as_long_as_students(n):
    means = np.linspace(0.55, 0.65, n)
    metric = measured(statistic([[100 * mean, 100] for mean in means]), 2000)
    half = stats.t.ppf(0.975, n - 1) * means.std(ddof=1) / np.sqrt(n)
    assert metric.high - 0.6 == pytest.approx(half, rel=0.1)
    assert 0.6 - metric.low == pytest.approx(half, rel=0.1)
    assert measured(statistic([[100 * mean, 100] for mean in means], proportion=True)).high <= 1


def test_no_resamples_no_intervals(configure, make_case, passes):
    metrics = score_run(
        configure(scoring={"bootstrap": 0}), [make_case("c"), make_case("d")], passes("c", 1, 1)
    ).metrics
    assert metrics["tie_rate"].value == 0
    with_interval = {name for name, metric in metrics.items() if metric.low is not None}
    assert with_interval <= {"decision/labels_needed"}  # a range of counts, not of resamples


@pytest.mark.parametrize(
    ("hits", "method"), [(0, "exact"), (4, "exact"), (1, "wilson"), (2, "wilson")]
)
def test_a_share_by_itself_is_bounded_exactly_where_all_are_alike(hits, method):
    expected = stats.binomtest(hits, 4).proportion_ci(method=method)
    assert share_interval(hits / 4, 4, 0.95) == pytest.approx(
        (expected.low, expected.high), abs=1e-12
    )


@pytest.mark.parametrize(("ones", "n"), [(19, 20), (12, 20), (5, 6)])
def test_the_mean_of_ones_and_minus_ones_has_jeffreys_interval(ones, n):
    values = np.array([1.0] * ones + [-1.0] * (n - ones))
    found = bounded_mean(values, np.ones(n), (-1.0, 1.0), 40_000, 0.95, 0)
    expected = (
        stats.beta.ppf(0.025, ones, n - ones + 0.5),
        stats.beta.ppf(0.975, ones + 0.5, n - ones),
    )
    assert found == pytest.approx([2 * share - 1 for share in expected], abs=0.01)


@pytest.mark.slow
def test_noise_alone_is_no_calibration_error():
    """Ten bins of 40 pairs, calibrated: what is left is near 0, and the interval begins there."""
    generator = np.random.default_rng(0)
    plain, cleared, covered = [], [], 0
    for _ in range(100):
        gaps = generator.normal(scale=0.02, size=10)
        noise = generator.normal(scale=0.02, size=(400, 10))
        plain.append(np.abs(gaps).sum())
        cleared.append(debiased_sum(gaps, np.full(10, 0.02)))
        covered += invert_test(gaps, noise, 0.95)[0] == 0.0
    assert np.mean(plain) > 0.15
    assert np.mean(cleared) < 0.06
    assert covered > 0.93 * 100


def test_a_sum_without_its_noise_has_the_observed_sum_of_folded_normals():
    generator = np.random.default_rng(2)
    gaps, errors = generator.normal(0, 0.1, 8), generator.uniform(0.01, 0.05, 8)
    observed = np.abs(gaps).sum()
    share = debiased_sum(gaps, errors) / observed
    expected = stats.foldnorm(share * np.abs(gaps) / errors, scale=errors).mean().sum()
    assert 0.5 < share < 1
    assert expected == pytest.approx(observed, abs=1e-11)


@pytest.mark.slow
def test_a_planted_calibration_error_is_covered():
    generator = np.random.default_rng(1)
    true = np.array([0.05, 0.0, -0.03, 0.02, 0.0])
    hits = 0
    for _ in range(100):
        gaps = true + generator.normal(scale=0.02, size=5)
        low, high = invert_test(gaps, generator.normal(scale=0.02, size=(400, 5)), 0.95)
        hits += low <= 0.1 <= high
    assert 0.91 * 100 <= hits <= 0.99 * 100


def test_gaps_smaller_than_their_noise_are_no_certainty():
    noise = np.random.default_rng(2).normal(scale=0.02, size=(400, 5))
    gaps = np.full(5, 0.0005)
    assert invert_test(gaps, noise, 0.95) == (0.0, pytest.approx(0.0025))


def test_an_error_of_probabilities_is_at_most_one(configure, make_case, passes):
    """Few cases with different errors have a wide interval, which ends where the metric does."""
    cases = [make_case(str(k), label=label) for k, label in enumerate("AAB")]
    judgments = [one for k in range(3) for one in passes(str(k), 1.0, 1.0, confidence=(0.05, 0.05))]
    metric = score_run(configure(), cases, judgments).metrics["calibration/ece"]
    assert metric.high == 1


def test_clusters_of_a_few_kinds_are_resampled_by_kind_as_one_by_one(monkeypatch):
    generator = np.random.default_rng(2)
    among, hit, more = (generator.random(800) < share for share in (0.8, 0.3, 0.5))
    settings, each = ScoringConfig(bootstrap=4000), Clusters.by_key([*range(1, 401)] * 2, "pairs")
    statistics = [Tally.each(800).rate("x", hit, among), Tally.each(800).mean("y", more, among)]
    one_by_one = bootstrap.resample(statistics, settings, each)
    monkeypatch.setattr(bootstrap, "MANY", 50)
    monkeypatch.setattr(Clusters, "draw", None)  # so that it cannot be what is called
    by_kind = bootstrap.resample(statistics, settings, each)
    assert by_kind.mean(axis=1) == pytest.approx(one_by_one.mean(axis=1), abs=2e-3)
    assert np.cov(by_kind) == pytest.approx(np.cov(one_by_one), rel=0.1, abs=2e-5)


@pytest.mark.parametrize(("low", "high", "error"), [(1, 1000, 1e-13), (1001, 10**6, 2e-8)])
def test_the_share_below_a_t_equals_scipy(low, high, error):
    for degrees in {*np.geomspace(low, high, 12).astype(int).tolist(), low, high}:
        for t in np.linspace(-6, 6, 25).tolist():
            assert quantiles.student_share(t, degrees) == pytest.approx(
                stats.t.cdf(t, degrees), abs=error
            )


def test_quantiles_of_students_t_are_scipys():
    for degrees in (*range(1, 40), 99, 100, 999, 1000, 1001, 5000, 10**6):
        for p in (0.0005, 0.005, 0.025, 0.05, 0.1):
            assert quantiles.student_quantile(p, degrees) == pytest.approx(
                float(stdtrit(degrees, p)), rel=1e-12
            )


@example([1.0, 2.0], 0.0)
@example([0.0, 1.0, 3.0], 0.3)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40), st.floats(0, 1))
def test_percentiles_are_numpys_to_the_last_digit(values, share):
    expected = np.quantile(values, [share, 1 - share], method="weibull")
    assert quantiles.percentiles(np.array(values), share, 1 - share) == tuple(expected)


COPIES = 3
OF_ROWS = (
    *("conflict/nodes", "conflict/triads", "conflict/reversals", "jnd/noise", "human/alpha"),
    *("length/slope", "calibration/slope", "samples/alpha", "decision/labels_needed"),
)  # fmt: skip
"""Totals, and what is corrected for the number of
labels or of rows."""


def copied(cases, judgments, times):
    """Return every case so often, on one prompt, with the same answers."""
    several = [replace(case, id=f"{case.id}.{k}") for case in cases for k in range(times)]
    return several, [
        replace(one, case_id=f"{one.case_id}.{k}") for one in judgments for k in range(times)
    ]


def labelled(cases, generator):
    """Give each case a prompt of its own and three people's choices between its first two responses."""
    names = ("ann", "bob", "eve")
    return [
        replace(
            case,
            prompt=f"question {case.id}",
            metadata={"topic": int(case.id) // 2},
            labels={name: str(generator.choice(["A", "B"])) for name in names},
        )
        for case in cases
    ]


@pytest.fixture(scope="module", params=["pairs", "scores"])
def run(request):
    judge = {one.name: one for one in simulations().judges(200)}[request.param]
    generator = np.random.default_rng(4)
    cases, judgments = judge.make(generator, 40)
    return judge.config, labelled(cases, generator), judgments


@pytest.fixture(scope="module")
def once_and_often(run):
    """Return the scores of a run, and of copies of its cases."""
    config, cases, judgments = run
    return [score_run(config, *copied(cases, judgments, times)) for times in (1, COPIES)]


def test_copies_of_cases_on_one_prompt_change_no_interval(once_and_often):
    once, often = once_and_often
    assert (often.clusters.count, often.clusters.cases, often.clusters.by) == (40, 120, "prompt")
    # How many slices are tested depends on the number of cases.
    omitted = (*OF_ROWS, "slices/")
    compared = [name for name in once.metrics if not name.startswith(omitted)]
    assert len(compared) > 20
    for name in compared:
        one, other = once.metrics[name], often.metrics[name]
        close = 2e-3 if name == "jnd/labels" else 1e-6  # its levels are quantiles
        if name.startswith("decision/"):
            close = 0.02  # half a cluster has at least one unit, copied or not
        assert (other.value, other.low, other.high) == pytest.approx(
            (one.value, one.low, one.high), abs=close
        ), name
        assert (one.low is None) == (other.low is None), name


@pytest.mark.slow
def test_details_resample_clusters_too(once_and_often):
    """Ratings of systems, people against the judge, and what more labels would buy: in files beside the metrics."""
    once, often = (found.details for found in once_and_often)
    for mine, theirs in zip(once["ranking"]["systems"], often["ranking"]["systems"], strict=True):
        for name in ("rating", "win_rate", "rank"):
            ends = [(one[name]["low"], one[name]["high"]) for one in (mine, theirs)]
            assert ends[0] == pytest.approx(ends[1], abs=1e-6)
    length = [one["ranking"]["at_equal_length"]["effect_of_length"] for one in (once, often)]
    assert length[0] == pytest.approx(length[1], abs=1e-6)
    people = [[row["p"] for row in one["annotators"]] for one in (once, often)]
    assert people[0] == pytest.approx(people[1], abs=1e-9)
    for mine, theirs in zip(
        once["corrected"]["targets"], often["corrected"]["targets"], strict=True
    ):
        if mine["more_labels"]:
            assert theirs["more_labels"][0]["width"] == pytest.approx(
                mine["more_labels"][0]["width"], rel=0.01
            )


def test_a_proportion_of_one_is_exact_over_clusters(make_case, configure, passes):
    cases = [
        Case(str(k), f"question {k % 8}", (Response("a"), Response("b")), label="A")
        for k in range(80)
    ]
    judgments = [one for case in cases for one in passes(case.id, 1.0, 1.0)]
    metric = score_run(configure(), cases, judgments).metrics["agreement/accuracy"]
    assert metric.low == pytest.approx(0.025 ** (1 / 8))
    assert metric.note == "all 8 clusters agree: exact binomial interval"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "families"),
    [("pairs", ["agreement/accuracy", "tie_rate"]), ("scores", ["score/mean"])],
)
def test_tests_of_two_runs_are_of_clusters(name, families):
    judge = {one.name: one for one in simulations().judges(200)}[name]
    runs = [judge.make(np.random.default_rng(seed), 40) for seed in (4, 5)]
    cases = labelled(runs[0][0], np.random.default_rng(0))

    def compared(times):
        entrants = [
            RunEntry(str(k), judge.config, *copied(cases, judgments, times))
            for k, (_, judgments) in enumerate(runs)
        ]
        return compare_runs(entrants, ScoringConfig(bootstrap=200), families)

    once, often = compared(1), compared(COPIES)
    for family in families:
        one, other = (
            next(d for d in found.differences if d.metric.name == family) for found in (once, often)
        )
        assert other.p == pytest.approx(one.p, rel=1e-6)
        assert (other.metric.low, other.metric.high) == pytest.approx(
            (one.metric.low, one.metric.high), abs=1e-9
        )
        assert other.detectable == pytest.approx(one.detectable, rel=1e-6)
    assert (
        often.clusters
        == "clusters: 120 cases in 40 clusters by prompt; intervals and tests resample clusters"
    )


@pytest.mark.slow
def test_a_leaderboard_tests_clusters():
    judge = {one.name: one for one in simulations().judges(100)}["scores"]
    cases = labelled(judge.make(np.random.default_rng(4), 30)[0], np.random.default_rng(0))

    def board(times):
        contenders = []
        for seed in (4, 5):
            several = copied(cases, judge.make(np.random.default_rng(seed), 30)[1], times)
            scored = score_run(judge.config, *several)
            scored.metrics.pop("agreement/accuracy")
            own = scored.clusters.by_id(several[0])
            contenders.append(
                Contender(str(seed), str(seed), "data", scored.metrics, scored.verdicts, own)
            )
        return rank(contenders, ScoringConfig(bootstrap=200))

    (once,), (often,) = board(1).contrasts, board(COPIES).contrasts
    assert once.p == pytest.approx(often.p, rel=1e-6)


def cases_of(prompts, metadata=()):
    rows = [*metadata, *[{}] * (len(prompts) - len(metadata))]
    return [
        Case(str(k), text, (), metadata=row)
        for k, (text, row) in enumerate(zip(prompts, rows, strict=True))
    ]


def clusters_by(cases, **scoring):
    found = Clusters.of(RunConfig(judge={"model": "m"}, criteria=[{"name": "q"}], **scoring), cases)
    return None if found.number is None else found.number.tolist()


def test_cases_on_one_prompt_are_a_cluster():
    assert clusters_by(cases_of(["why?", "how?", " why? ", "how?", "who?"])) == [0, 1, 0, 1, 2]


def test_a_prompt_that_says_nothing_makes_no_cluster():
    assert clusters_by(cases_of(["rate this"] * 4)) is None
    assert clusters_by(cases_of(["", "", "why?", "why?"])) == [0, 1, 2, 2]
    apart = [
        replace(case, context=f"text {k}")
        for k, case in enumerate(cases_of(["sum up", "sum up", "who?"]))
    ]
    assert clusters_by(apart) is None


def test_a_column_makes_clusters():
    cases = cases_of(["a", "a", "b", "c"], [{"topic": "x"}, {"topic": 1}, {"topic": "x"}])
    assert clusters_by(cases, scoring={"cluster": "topic"}) == [0, 1, 0, 2]
    assert clusters_by(cases, scoring={"cluster": "id"}) is None
    with pytest.raises(ConfigError, match="no case has this column") as error:
        clusters_by(cases, scoring={"cluster": "topics"})
    assert "did you mean 'topic'" in str(error.value)


def test_mt_bench_has_its_questions():
    cases = cases_of(
        ["turn 1", "turn 2", "other"],
        [{"question_id": 81}, {"question_id": 81}, {"question_id": 82}],
    )
    assert clusters_by(cases, dataset={"benchmark": "mt_bench"}) == [0, 0, 1]


def test_turns_of_a_conversation_are_one_cluster_unless_another_is_named(configure):
    def turn(name: str, number: int) -> Case:
        metadata = {
            "conversation": name,
            "turn": number,
            "turns": 2,
            "position": number / 2,
            "user": number,
        }
        return Case(f"{name} #{number}", f"{name} {number}", (Response("text"),), metadata=metadata)

    cases = [turn(name, number) for name in "abc" for number in (1, 2)]
    found = Clusters.of(configure(), cases)
    assert (found.by, found.count, list(found.number)) == ("conversation", 3, [0, 0, 1, 1, 2, 2])
    assert [*found.by_id(cases).items()][2:4] == [("b #1", 1), ("b #2", 1)]
    assert Clusters.of(configure(scoring={"cluster": "user"}), cases).count == 2
    columns = [replace(case, metadata={"conversation": "a", "turn": 1}) for case in cases]
    assert Clusters.of(configure(), columns).count == 6


def accuracy(value: float, n: int, z: float = 1.959964) -> Metric:
    half = z * (value * (1 - value) / n) ** 0.5
    return Metric("agreement/accuracy", value, value - half, value + half, n)


@pytest.mark.parametrize("value", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("width", [0.02, 0.04])
def test_with_many_labels_at_hand_it_is_the_normal_sample_size_and_what_chance_adds(value, width):
    n = 100
    at_hand = accuracy(value, n, z=1.9842 * (n / (n - 1)) ** 0.5)
    normal = samplesize_confint_proportion(value, width / 2)
    total = n + labels_for_width(at_hand, width, 0.95)
    surplus = (1 + 0.8416 * (1 / n + 1 / total) ** 0.5) ** 2
    assert 0.999 <= total / (normal * surplus) <= 1.1  # rounded up to two digits
    assert labels_for_width(at_hand, at_hand.high - at_hand.low, 0.95) == 0


@pytest.mark.parametrize("metric", [
    Metric("tie_rate", 0.5, 0.4, 0.6, 100),  # no labels
    Metric("corrected/win_rate/a", 0.5, 0.4, 0.6, 100),  # not labels alone
    Metric("agreement/accuracy", 0.5, None, None, 100),
    Metric("agreement/accuracy", 1.0, 0.0, 1.0, 1),
    Metric("nothing", 0.5, 0.4, 0.6, 100),
])  # fmt: skip
def test_no_number_where_labels_do_not_determine_the_interval(metric):
    assert labels_for_width(metric, 0.01, 0.95) is None


@pytest.mark.slow
def test_the_promised_labels_reach_the_width():
    reached, scoring = [], ScoringConfig(bootstrap=200)
    for seed in range(30):
        generator = np.random.default_rng(seed)

        def simulated(n: int, generator: np.random.Generator = generator) -> Metric:
            rate = Tally.each(n).rate(
                "agreement/accuracy", generator.random(n) < 0.75, np.ones(n, dtype=bool)
            )
            return measure([rate], scoring, Clusters.each(n))[rate.name]

        more = labels_for_width(simulated(50), 0.1, 0.95)
        found = simulated(50 + more)
        reached.append(found.high - found.low <= 0.1)
    assert np.mean(reached) > 0.7


@pytest.mark.slow
def test_what_is_planted_is_found():
    pairs, scores = simulations().judges(resamples=300)
    metrics = score_run(pairs.config, *pairs.make(np.random.default_rng(1), 400)).metrics
    for name in ("position/first_rate", "length/longer_rate"):
        assert metrics[name].low > 0.5
    ratings = [metrics[f"ranking/rating/{system}"] for system in ("weak", "middling", "strong")]
    assert all(worse.high < better.low for worse, better in pairwise(ratings))
    assert metrics["corrected/tie_rate"].low > metrics["tie_rate"].high
    found = score_run(scores.config, *scores.make(np.random.default_rng(1), 400)).metrics
    assert found["corrected/score_mean"].high < found["score/mean"].low


@pytest.mark.slow
@pytest.mark.parametrize("which", some_of([0, 1], 2))
def test_intervals_hold_the_truth(which, thorough):
    module = simulations()
    judge = module.judges(resamples=300)[which]
    true = module.truth(judge, 5_000 if thorough else 1_000)
    count = 20 if thorough else 6
    found = module.simulate(judge, true, count, 120)
    for name, hits in found.items():
        there = [hit for hit in hits if hit is not None]
        # Four standard errors of the simulations below 94 %, what resampling 120 cases comes to.
        assert name in module.BIASED or np.mean(there) > 0.94 - 4 * (0.94 * 0.06 / count) ** 0.5, (
            name
        )
        assert len(there) > 0.95 * count


@pytest.mark.slow
def test_intervals_of_a_rare_class_hold_the_truth(thorough):
    module = simulations()
    planted = module.CLASSES["two, one rare (5 %)"]
    judge = module.classes(planted)
    true = {name: value for name, value in module.truth(judge, 5_000).items() if name != "tie_rate"}
    count = 30 if thorough else 12
    found = module.simulate(judge, true, count, planted.cases)
    for name, hits in found.items():
        there = [hit for hit in hits if hit is not None]
        assert np.mean(there) > 0.94 - 4 * (0.94 * 0.06 / count) ** 0.5, name
        assert len(there) > 0.5 * count, name


def test_halves_are_the_rows_of_their_cells():
    every, rows, table = (
        Halves(np.arange(49), np.arange(49), 49),
        np.eye(49),
        np.diag([5.0, 3, 1, 0, 2, 4, 1]),
    )
    assert every[:].tolist() == rows.tolist()
    for share in (0.1, 0.9):
        ends = [
            mixed(kappa, table.ravel(), alternatives, table.sum())(share)
            for alternatives in (every, rows)
        ]
        assert ends[0] == ends[1] != (None, None)
    pseudo, counts = PseudoCounts.matrix(3, 0.5), [*np.array([[4.0, 1, 0, 0, 2, 1, 0, 3, 5]]).T]
    explicit = replace(pseudo, rows=np.eye(9))
    assert pseudo.resample(counts, 10, 1) == pytest.approx(
        explicit.resample(counts, 10, 1), abs=1e-12
    )


def test_clusters_can_be_named_by_lists(make_case, configure):
    cases = [
        replace(make_case(f"c{k}"), metadata={"topics": [name]}) for k, name in enumerate("aab")
    ]
    assert Clusters.of(configure(), cases, "topics").count == 2
