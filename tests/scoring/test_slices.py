"""Metrics by slice: the values of a slice, which differences are significant, and shrunk estimates."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t
from statsmodels.stats.meta_analysis import combine_effects

from evalkit.config import RunConfig, ScoringConfig
from evalkit.core.annotations import INCLUSION
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case
from evalkit.report.findings.slices import slice_findings
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.slice_metrics import COUNTED, slice_results
from evalkit.scoring.slices import check_slices, slice_name, slices_of
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.shrinkage import random_effects, widened
from evalkit.scoring.stats.statistic import Tally

PAIRS = {"swap": {"policy": "none"}, "mode": {"name": "pairwise"}}


def tagged(case, **metadata):
    return replace(case, metadata=metadata)


def run_of(configure, make_case, judged, columns, rights, bootstrap=2000, prompts=None):
    """Score a run of pairs: `columns` has the values of each column, `rights` says which verdicts are right."""
    labels = ["AB"[n % 2] for n in range(len(rights))]
    cases = [make_case(f"c{n}", label=label) for n, label in enumerate(labels)]
    cases = [
        tagged(one, **{name: values[n] for name, values in columns.items()})
        for n, one in enumerate(cases)
    ]
    if prompts is not None:
        cases = [replace(one, prompt=f"p{prompts[n]}") for n, one in enumerate(cases)]
    judgments = [
        judged(one.id, (0, 1), (1.0 if one.label == "A" else -1.0) * (1 if right else -1))
        for one, right in zip(cases, rights, strict=True)
    ]
    config = configure(**PAIRS, scoring={"slices": [*columns], "bootstrap": bootstrap})
    return config, cases, judgments, score_run(config, cases, judgments)


def rows_of(scores, metric="agreement/accuracy"):
    return {row["value"]: row for row in scores.details["slices"] if row["metric"] == metric}


def test_a_slice_is_the_run_of_its_cases(configure, make_case, judged):
    rights = np.random.default_rng(1).random(90) < 0.7
    language = ["de", "en", "ja/JP"] * 30
    config, cases, judgments, scores = run_of(
        configure, make_case, judged, {"language": language}, rights
    )
    alone = config.with_({"scoring.slices": []})
    for value in ("de", "en", "ja/JP"):
        own = [case for case in cases if case.metadata["language"] == value]
        ids = {case.id for case in own}
        expected = score_run(alone, own, [one for one in judgments if one.case_id in ids]).metrics
        for metric in ("agreement/accuracy", "agreement/kappa", "tie_rate"):
            found = scores.metrics[slice_name("language", value, metric)]
            assert (found.value, found.n) == (expected[metric].value, expected[metric].n)
            assert found.low == pytest.approx(expected[metric].low, abs=0.05)
            assert found.high == pytest.approx(expected[metric].high, abs=0.05)
    assert "slice/language/ja_2f_JP/agreement/kappa" in scores.metrics
    spec = CATALOG.spec("slice/language/de/agreement/kappa")
    assert (spec.better, spec.low, spec.unit) == ("higher", -1, "coefficient")
    assert CATALOG.spec("slice/language/de/no/metric").better is None


def test_one_bad_slice_differs_and_a_small_one_is_counted(configure, make_case, judged):
    source = ["bad"] * 30 + ["few"] * 9 + ["good"] * 50 + ["fine"] * 50
    rights = [n % 5 == 0 for n in range(30)] + [False] * 9 + [n % 10 != 0 for n in range(100)]
    scores = run_of(configure, make_case, judged, {"source": source}, rights)[-1]
    rows, few = rows_of(scores), scores.metrics["slice/source/few/agreement/accuracy"]
    assert rows["bad"]["p_holm"] <= 0.05
    assert (few.value, few.n, few.note) == (None, 9, COUNTED)
    assert rows["few"]["p"] is None
    assert rows["bad"]["estimate"] < rows["bad"]["shrunk"]["value"] < rows["good"]["estimate"]
    assert scores.metrics["slices/differ"].n == sum(
        row["p"] is not None for row in scores.details["slices"]
    )


def test_the_permutation_test_is_fishers(configure, make_case, judged):
    """With two slices and one case per cluster, permutations are the hypergeometric distribution."""
    from scipy.stats import hypergeom

    rights = [True] * 12 + [False] * 8 + [True] * 19 + [False] * 1
    scores = run_of(
        configure, make_case, judged, {"s": ["a"] * 20 + ["b"] * 20}, rights, bootstrap=20_000
    )[-1]
    counts = np.arange(32)
    chances = hypergeom.pmf(counts, 40, 31, 20)
    exact = chances[np.abs(2 * counts - 31) >= 7].sum()
    assert rows_of(scores)["a"]["p"] == pytest.approx(exact, abs=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("within", [True, False])
def test_clusters_are_exchanged_as_a_whole(configure, make_case, judged, within):
    """Forty clusters of four equal verdicts are forty observations; a slice within clusters differs by chance only."""
    generator = np.random.default_rng(0)
    p = []
    for _ in range(8):
        rights = np.repeat(generator.random(20) < 0.6, 4)
        values = ["ab"[n % 2] for n in range(80)] if within else np.repeat([*"ab"], 40).tolist()
        scores = run_of(
            configure,
            make_case,
            judged,
            {"s": values},
            rights,
            bootstrap=99,
            prompts=np.repeat(range(20), 4),
        )[-1]
        p.append(rows_of(scores)["a"]["p"])
    assert np.mean(np.array(p) <= 0.05) <= 0.15


@pytest.mark.slow
def test_false_alarms_under_no_difference(configure, make_case, judged, thorough):
    """Over six slices and all metrics, at most about 5% of runs without a difference name one."""
    generator, alarms = np.random.default_rng(5), 0
    for _ in range(20 if thorough else 6):
        values = [f"s{n}" for n in generator.integers(0, 6, 120)]
        scores = run_of(
            configure, make_case, judged, {"s": values}, generator.random(120) < 0.7, bootstrap=399
        )[-1]
        alarms += scores.metrics["slices/differ"].value > 0
    assert alarms <= (4 if thorough else 2)  # P(more) < 1% at 5%


def test_bins_lists_and_lengths(make_case):
    cases = [
        tagged(
            make_case(f"c{n}", texts=("x" * n, "y" * n)),
            size=n,
            tags=["a", "b"] if n % 2 else ["a"],
        )
        for n in range(40)
    ]
    bins = slices_of("size", cases)
    assert bins.values == ("0..8", "9..18", "19..28", "29..39")
    assert bins.members.sum(axis=1).tolist() == [1] * 40
    assert slices_of("length", cases).values == bins.values
    tags = slices_of("tags", cases)
    assert (tags.values, tags.members.sum(axis=0).tolist()) == (("a", "b"), [40, 20])
    # Numbers in lists are names: annotator 10 is not between annotators 9 and 11.
    raters = slices_of("rater", [tagged(case, rater=[str(n % 20)]) for n, case in enumerate(cases)])
    assert raters.members.sum(axis=0).tolist() == [2] * 20
    assert slices_of("size", cases[:3]).values == ("0", "1", "2")
    assert (
        slices_of("size", [*cases, make_case("none"), tagged(make_case("empty"), size="")])
        .members[-2:]
        .sum()
        == 0
    )
    assert slices_of("anything", []).values == ()


def test_annotators_are_slices_of_what_they_labeled(make_case):
    labeled = [{"ann": "A"}, {"ann": "B", "bo": "A"}, {}, {"bo": "A"}]
    cases = [replace(make_case(f"c{n}"), labels=labels) for n, labels in enumerate(labeled)]
    slices = slices_of("annotator", cases)
    assert (slices.values, slices.members.T.tolist()) == (
        ("ann", "bo"),
        [[1, 1, 0, 0], [0, 1, 0, 1]],
    )
    named = [tagged(one, annotator="x") for one in cases]
    assert slices_of("annotator", named).values == ("x",)


@pytest.mark.parametrize(
    ("column", "message"),
    [("laguage", "no case has this column"), ("id2", "it has 101 values, and at most 100")],
)
def test_a_column_that_cannot_be_sliced_is_an_error(make_case, column, message):
    cases = [tagged(make_case(f"c{n}"), language="de", id2=f"x{n}") for n in range(101)]
    with pytest.raises(ConfigError, match=message):
        slices_of(column, cases)
    with pytest.raises(ConfigError, match=message):
        check_slices(["language", column], iter(cases))


@pytest.mark.parametrize(
    "odd", [[[1, 2], [3, 4]], [float("nan"), 1.5], [float("inf"), 2], [True, 3]], ids=repr
)
def test_values_that_are_no_plain_numbers_are_slices_of_their_own(make_case, odd):
    cases = [tagged(make_case(f"c{n}"), odd=value) for n, value in enumerate([*odd, 5, 6, 7, 8, 9])]
    assert {"5", "6", "7", "8", "9"} < set(slices_of("odd", cases).values)


def test_a_text_is_no_name_of_a_slice(make_case):
    with pytest.raises(ConfigError, match="a value has 101 characters, and at most 100"):
        slices_of("text", [tagged(make_case("c"), text="x" * 101)])


@pytest.mark.parametrize(
    ("value", "named"), [("zh=TW", "zh_3d_TW"), ("..", "_2e_."), ("a/b", "a_2f_b"), ("中", "中")]
)
def test_names_are_those_that_mlflow_accepts(value, named):
    assert slice_name("lang", value, "tie_rate") == f"slice/lang/{named}/tie_rate"


def test_without_resamples_there_are_no_tests(configure, make_case, judged):
    scores = run_of(configure, make_case, judged, {"s": ["a", "b"] * 20}, [True] * 40, bootstrap=0)[
        -1
    ]
    assert scores.metrics["slices/differ"].value is None
    assert rows_of(scores)["a"] | {"rest": 1.0, "p": None, "shrunk": None} == rows_of(scores)["a"]


@pytest.mark.parametrize("digits", [0, 6])
def test_correlations_and_weighted_labels_by_slice(pointwise, make_case, judged, digits):
    """A correlation counts the cases of a slice; weighted labels count as labels, not as their weights."""
    generator, cases, judgments = np.random.default_rng(3), [], []
    for n in range(120):
        grade = round(1 + 4 * generator.random(), digits)
        metadata = {"s": "ab"[n % 2], **({INCLUSION: 0.5 if n < 60 else 1.0} if n < 100 else {})}
        graded = make_case(f"c{n}", texts=("x",), grades=[grade if n < 100 else None])
        cases.append(replace(graded, metadata=metadata))
        judgments.append(
            judged(f"c{n}", (0,), criteria={"quality": float(round(grade)) if n % 3 else 3.0})
        )
    scores = score_run(pointwise(scoring={"slices": ["s"]}), cases, judgments)
    found = scores.metrics["slice/s/a/agreement/spearman"]
    assert (found.n, found.low < found.value < found.high) == (50, True)
    assert rows_of(scores, "agreement/spearman")["a"]["p"] > 0.05


def test_findings_name_three_slices_and_how_many_were_looked_at(configure, make_case, judged):
    """What a reader sees: no difference, one bad slice, one bad slice of few units, many that differ."""
    scores = run_of(configure, make_case, judged, {"s": ["a", "b"] * 20}, [True] * 40)[-1]
    texts = [one.text for one in slice_findings(scores.metrics, [], 0.95)]
    assert texts == ["0 of 4 tests show a slice that differs from the rest (Holm)."]
    even = [n % 10 != 0 for n in range(40)]
    bad = [n % 5 == 0 for n in range(40)]
    situations = [
        ("no difference", [even, even, even], ["No slice is shown to differ"], 0),
        (
            "one bad slice",
            [bad, even, even],
            [
                "Different from the rest (3 slices in 9 tests, Holm): s v0, ",
                ". The better ones may differ only because the rest holds the worse",
            ],
            3,
        ),
        (
            "one bad slice of 9",
            [bad[:9], even, even],
            [
                "No slice is shown to differ from the rest (2 slices in",
                "1 slice is not tested: it has fewer than 10 units, or",
            ],
            0,
        ),
        ("small ones", [bad[:9], even[:9], even[:9]],
         ["3 slices are not tested: they have fewer than 10 units, or"], 0),
        ("lowest of three", [even, even, even],
         ["Lowest of 3 slices: s v0, Accuracy (agreement with labels) 0.90 ["], 0),
        ("many differ", [bad, [not one for one in bad]] * 3, ["3 more differ"], 3),
    ]  # fmt: skip
    for name, parts, words, named in situations:
        values = [f"v{place}" for place, part in enumerate(parts) for _ in part]
        rights = [right for part in parts for right in part]
        scores = run_of(configure, make_case, judged, {"s": values}, rights, bootstrap=400)[-1]
        texts = [one.text for one in slice_findings(scores.metrics, scores.details["slices"], 0.95)]
        assert all(part in " ".join(texts) for part in words), name
        first = texts[0] if texts else ""
        assert first.count(" against ") == named, name
    long = "a tone that is not that of any other case"
    values = [f"{long} {value[1:]}" for value in values]
    scores = run_of(configure, make_case, judged, {"s": values}, rights, bootstrap=400)[-1]
    text = next(slice_findings(scores.metrics, scores.details["slices"], 0.95)).text
    assert (text.count(" against "), "5 more differ" in text) == (1, True)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [((None, None), (-0.2, 1.2)), ((0, None), (0, 1.2)), ((None, 1), (-0.2, 1)), ((0, 1), (0, 1))],
)
def test_an_interval_for_all_slices_stays_within_the_limits_of_its_metric(limits, expected):
    row = {"estimate": 0.5, "low": 0.15, "high": 0.85}
    assert widened(row, limits, 2) == pytest.approx(expected)


@pytest.mark.parametrize(
    "parts", [(0.5, 0.9, 0.9, 0.95), (0.8,) * 6, (0.2, 1.0, 1.0, 1.0)], ids=str
)
def test_shrunk_estimates_and_simultaneous_intervals(configure, make_case, judged, parts):
    """Point: DerSimonian and Laird by statsmodels, moved by one standard error at most; interval: Bonferroni's t."""
    columns = {
        name: [f"{name}{n}" for n in range(len(parts)) for _ in range(20)] for name in ("s", "t")
    }
    rights = [k < 20 * part for part in parts for k in range(20)]
    scores = run_of(configure, make_case, judged, columns, rights)[-1]
    rows = [
        row
        for row in scores.details["slices"]
        if row["metric"] == "agreement/accuracy" and row["column"] == "s"
    ]
    values = np.array([row["estimate"] for row in rows])
    errors = np.array([(row["high"] - row["low"]) / 2 / norm.ppf(0.975) for row in rows])
    effects = combine_effects(values, errors**2, method_re="dl")
    between = max(0.0, effects.tau2)
    mean = np.average(values, weights=1 / (errors**2 + between))
    expected = np.clip(
        mean + between / (between + errors**2) * (values - mean), values - errors, values + errors
    )
    factor = t.ppf(1 - 0.025 / (2 * len(parts)), 19) / t.ppf(0.975, 19)
    for row, value in zip(rows, expected, strict=True):
        low, high = (
            row["estimate"] + factor * (row[end] - row["estimate"]) for end in ("low", "high")
        )
        assert row["shrunk"]["low"] == pytest.approx(max(low, 0))
        assert row["shrunk"]["high"] == pytest.approx(min(high, 1))
        assert row["shrunk"]["value"] == pytest.approx(np.clip(value, low, high))


def held(truths, size, runs, metric="agreement/accuracy"):
    """Return how often the interval of the lowest slice holds its truth, shrunk and plain."""
    settings = cast(RunConfig, SimpleNamespace(scoring=ScoringConfig(bootstrap=200, slices=["s"])))
    inside = []
    for seed in range(runs):
        generator = np.random.default_rng([seed, size, len(truths)])
        truth = (
            np.array(truths)
            if truths[0] != "random"
            else np.clip(generator.normal(0.75, 0.08, len(truths)), 0, 1)
        )
        names = np.repeat(np.arange(len(truth)), size)
        cases = [Case(str(k), "", (), metadata={"s": f"{one:03}"}) for k, one in enumerate(names)]
        right = generator.random(len(names)) < truth[names]
        statistic = Tally.each(len(cases)).rate(metric, right, np.ones(len(cases), dtype=bool))
        rows = slice_results(settings, cases, [statistic], Clusters.each(len(cases)))[1]["slices"]
        if all(row["shrunk"] for row in rows):
            lowest = min(range(len(rows)), key=lambda n: rows[n]["shrunk"]["value"])
            row, value = rows[lowest], truth[lowest]
            inside.append([one["low"] <= value <= one["high"] for one in (row["shrunk"], row)])
    return np.mean(inside, axis=0)


OTHERS = [
    pytest.param(truths, size, marks=pytest.mark.thorough)
    for truths, size in (([0.75] * 15, 12), (["random"] * 15, 40))
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("truths", "size"), [([0.75] * 6, 12), ([0.5, *[0.75] * 5], 40), *OTHERS], ids=str
)
def test_the_interval_of_the_lowest_slice_holds_its_level(truths, size):
    simultaneous, _ = held(truths, size, 40)
    assert simultaneous >= 0.94 - 0.05  # two standard errors


@pytest.mark.parametrize("slices", [2, 30])
def test_a_bad_slice_is_found_however_many_tests_there_are(configure, make_case, judged, slices):
    """With 200 permutations the smallest p-value is 0.005: too large for Holm's first of 90 tests."""
    source = [f"s{n:02}" for n in range(slices) for _ in range(12)]
    rights = [n >= 12 and n % 12 != 0 for n in range(12 * slices)]
    scores = run_of(configure, make_case, judged, {"source": source}, rights, bootstrap=200)[-1]
    assert rows_of(scores)["s00"]["p_holm"] <= 0.05


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0.01, 1)), min_size=3, max_size=12))
def test_random_effects_are_those_of_statsmodels(pairs):
    values, variances = (np.array(one) for one in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        expected = combine_effects(values, variances, method_re="dl")
    mean, between = random_effects(values, variances)
    assert between == pytest.approx(max(0.0, expected.tau2), abs=1e-9)
    assert mean == pytest.approx(
        expected.mean_effect_re if expected.tau2 > 0 else expected.mean_effect_fe, abs=1e-9
    )
