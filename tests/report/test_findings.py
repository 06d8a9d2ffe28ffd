"""Each finding, also on classes and corrected rates: its tone, what the sentence says, and that none claims more."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from evalkit import load_config, run
from evalkit.config import Criterion, JudgeConfig, RunConfig, SwapConfig
from evalkit.core.display import dollars, interval, p_value, percent, points, quoted
from evalkit.core.types import Case, Judgment, Metric, Response
from evalkit.report.figures.systems import corrected
from evalkit.report.figures.tables import MOST, confusion
from evalkit.report.findings import findings, findings_of
from evalkit.report.findings.decisions import headline
from evalkit.report.findings.finding import Finding, class_names
from evalkit.scoring.columns import ClassColumns
from evalkit.scoring.decision import LABELS_NEEDED, side
from evalkit.scoring.judgments import ABSTAINED, MISSING
from evalkit.scoring.labels import labels_needed
from evalkit.scoring.metrics.classes import class_confusion, class_statistics
from evalkit.scoring.metrics.corrections import RANDOM
from evalkit.scoring.metrics.decisions import class_decision_statistics
from evalkit.scoring.metrics.metric_registry import MODELS
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.run_metrics import computed
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Statistic

UP, DOWN, OPEN = (0.2, 0.1, 0.3), (-0.2, -0.3, -0.1), (0.1, -0.1, 0.3)
ANNOTATORS = {"human/ceiling": (0.8, 0.7, 0.9), "human/judge": (0.7, 0.6, 0.8)}
LOST = {"missing/unparseable": (0.04, 0, 0.1, 200), "missing/refused": (0.0, 0, 0, 200)}
TIES = {"tie_rate": (0.4, 0.3, 0.5)}
CHANCE = {"conflict/chance_rate": (0.5,), "conflict/ratio": (0.2, 0.1, 0.4)}


def metrics(values: dict[str, tuple]) -> dict[str, Metric]:
    """Return metrics by name; of 40 units where no number is given."""
    return {
        name: Metric(name, *numbers, **({"n": 40} if len(numbers) < 4 else {}))
        for name, numbers in values.items()
    }


def found(metric: str, values: dict[str, tuple], mode: str = "pairwise") -> list[tuple[str, str]]:
    every = findings(metrics(values), mode)
    assert all(
        any("一" <= char <= "鿿" for char in one.text_zh) and one.text_zh.endswith("。")
        for one in every
    )
    assert all(one.text.endswith(".") for one in every)
    return [(one.tone, one.text) for one in every if one.metric == metric]


@pytest.mark.parametrize(
    ("values", "tone", "text"),
    [
        ({"agreement/accuracy": (0.52, 0.38, 0.66), "agreement/kappa": (0.1, -0.1, 0.3)}, "warn",
         "Agreement with the labels: accuracy 0.52 [0.38, 0.66], kappa 0.10 [-0.10, 0.30]."),
        ({"agreement/accuracy": (0.5, 0.4, 0.6, 90), "agreement/kappa": (0.0, -0.1, 0.1)}, "bad", "accuracy 0.50"),
        ({"agreement/accuracy": (0.9, 0.8, 1.0), "tie_rate": (0.1,)}, "warn",
         "accuracy 0.90 [0.80, 1.00] (a tie is wrong unless the label is one)."),
        ({"agreement/accuracy": (None, None, None, 0)}, "info", "No labels to compare with: it is unknown"),
        ({"agreement/accuracy": (None, None, None, 0, 3), "missing/failed": (1.0,)}, "bad",
         "No labeled case has a usable answer: its agreement with the labels is unknown."),
        ({"agreement/accuracy": (None, None, None, 0), "cascade/abstained": (1.0,)}, "bad",
         "The cascade decides no case with a label that chose no threshold: its agreement with the labels is unknown."),
        ({"position/first_rate": (0.56, 0.54, 0.58)}, "warn", "Prefers the answer shown first by 12 [8, 16] points"),
        ({"position/first_rate": (0.44, 0.42, 0.46)}, "warn", "Prefers the answer shown second by 12 [8, 16] points"),
        ({"position/first_rate": (0.56, 0.48, 0.64, 45)}, "info",
         "No clear preference for the answer shown first: it wins 56% [48, 64] of 45 decided passes (a pair in one "),
        ({"position/first_rate": (0.87,)}, "info", "too few to show a preference."),
        ({"position/consistency": (0.9, 0.85, 0.95)}, "good", "in 90% [85, 95] of 40 pairs when the order is swapped."),
        ({"missing/unparseable": (0.04, 0, 0.1, 200), **LOST, "missing/failed": (0.02, 0, 0.1, 200)}, "bad",
         "12 of 200 answers are missing (6.0%): 8 unparseable, 4 failed."),
        ({"missing/failed": (0.0, 0, 0, 200)}, "good", "None of 200 answers is missing."),
        ({**TIES}, "info", "40% [30, 50] of pairs are ties."),
        ({**TIES, "tie_rate/swap_disagreement": (0.3, 0.2, 0.4)}, "warn",
         "40% [30, 50] of pairs are ties, most of them because the two orders disagree (30% [20, 40])."),
        ({**TIES, "tie_rate/judged": (0.0,), "tie_rate/criteria_cancel": (0.4, 0.3, 0.5)}, "info",
         "because the weighted criteria cancel out, which scoring.aggregate=overall avoids."),
        ({"conflict/rate": (0.2, 0.1, 0.3), "conflict/ratio": (0.2, 0.1, 0.4)}, "warn", "Contradicts itself"),
        ({"conflict/rate": (0.1,), **CHANCE}, "warn",
         "fewer than random verdicts would have (50%; ratio 0.20 [0.10, 0.40])."),
        ({"conflict/rate": (0.0, 0.0, 0.17), "conflict/chance_rate": (0.05,), "conflict/ratio": (0.0,)}, "info",
         "not shown to differ from random verdicts (5%)."),
        ({"conflict/rate": (0.0, 0.0, 0.17), "conflict/chance_rate": (0.9,), "conflict/ratio": (0.0,)}, "good",
         "fewer than random verdicts would have (90%)."),
        ({"conflict/rate": (0.2, 0.1, 0.3), "conflict/chance_rate": (0.25,), "conflict/ratio": (0.8, 0.4, 1.2)}, "warn",
         "not shown to differ from random verdicts"),
        ({"conflict/weak_rate": (0.2, 0.1, 0.3)}, "info", "are not transitive (A = B, B = C, but A > C) in 20%"),
        ({"score/distinct": (2.0, None, None, 29)}, "info", "Uses 2 different scores."),
        ({"score/distinct": (2.0, None, None, 30)}, "bad", "Uses 2 different scores, so it hardly separates"),
        ({"score/distinct": (5.0,)}, "info", "Uses 5 different scores."),
        ({"corrected/win_rate/a": (0.4, 0.2, 0.6, 10, 0, None, None, RANDOM), "win_rate/a": UP}, "info",
         "20% [10, 30] as judged, 40% [20, 60] corrected by 10 labels."),
        ({"corrected/win_rate/a": (0.4, 0.25, 0.6, 10, 0, None, None, RANDOM), "win_rate/a": UP}, "warn",
         "corrected by 10 labels; the judge gives this verdict too rarely."),
        ({"corrected/win_rate/a": (0.1, 0.0, 0.15, 9, 0, None, None, RANDOM), "win_rate/a": UP}, "info",
         "20% [10, 30] as judged, 10% [0, 15] corrected by 9 labels."),
        ({"calibration/ece": (0.3, 0.2, 0.4)}, "warn", "differs from its accuracy by 30 [20, 40] points"),
        ({"calibration/ece": (0.04, 0.0, 0.09)}, "info", "differs from its accuracy by 4 [0, 9] points"),
        ({"calibration/ece": (0.0, 0.0, 0.55)}, "info",
         "It is unknown whether its confidence is reliable (n = 40): it differs from its accuracy by 0 to 55 points"),
        ({"panel/alpha": (0.9, 0.85, 0.95)}, "good", "an alpha of 0.90"),
        ({"panel/alpha": (0.9, 0.75, 0.95)}, "warn", "firm conclusions need 0.8."),
        ({"length/slope_at_label": (0.5, 0.2, 0.8)}, "warn",
         "Prefers longer answers beyond what the labels explain: 0.50 [0.20, 0.80]"),
        ({"length/slope_at_label": (-0.5, -0.8, -0.2)}, "warn", "Prefers shorter answers"),
        ({"length/slope_at_label": OPEN}, "info", "No clear preference for longer or shorter answers"),
        ({"length/longer_rate": (0.9, 0.7, 1.0)}, "warn", "90% [70, 100] of 40 decided pairs; without labels, this"),
        ({"position/identical_preference": (0.3, 0.2, 0.4)}, "bad",
         "Prefers one of two identical answers in 30% [20, 40] of 40 comparisons."),
        ({"self/preference": UP}, "warn", "Favors answers of its own model family"),
        ({"self/preference": DOWN}, "warn", "Disfavors answers of its own model family"),
        ({"self/preference": OPEN}, "info", "No clear preference for answers of its own model family"),
        ({"human/gap": UP, **ANNOTATORS}, "good", "agrees with the other annotators better than an annotator does"),
        ({"human/gap": DOWN, **ANNOTATORS}, "bad", "with the other annotators less well than an annotator does"),
        ({"human/gap": OPEN, **ANNOTATORS}, "info", "On 40 labels of items with several annotators, it is open"),
        ({"judgebench/net_vote_accuracy": (0.64, 0.5, 0.75, 350)}, "info",
         "By JudgeBench's own rule: accuracy by net votes 0.64 [0.50, 0.75] (n = 350)."),
    ],
)  # fmt: skip
def test_a_finding_says_what_its_interval_shows(values, tone, text):
    [(shown, sentence)] = found(next(iter(values)), values)
    assert text in sentence
    assert shown == tone


@pytest.mark.parametrize(("metric", "values", "mode"), [
    ("length/slope_at_label", {"length/slope_at_label": (0.5,)}, "pairwise"),
    ("length/longer_rate", {"length/longer_rate": (1.0, None, None, 1)}, "pairwise"),
    ("length/longer_rate", {"length/longer_rate": (0.3, 0.2, 0.4),
     "length/slope_at_label": UP}, "pairwise"),
    ("position/identical_preference", {"position/identical_preference": (0.0, 0.0, 0.1)},
     "pairwise"),
    ("self/preference", {"self/preference": (0.1,)}, "pairwise"),
    ("human/gap", {"human/gap": (0.1,), **ANNOTATORS}, "pairwise"),
    ("conflict/rate", {"conflict/rate": (0.0,)}, "listwise"),
    ("conflict/rate", {"conflict/rate": (0.0,)}, "pointwise"),
    ("checklist/met_rate", {"checklist/accuracy": (0.9, 0.8, 0.95)}, "checklist"),
])  # fmt: skip
def test_there_is_none_where_nothing_is_shown(metric, values, mode):
    assert found(metric, values, mode) == []


def test_scores_are_compared_with_labels_by_one_correlation():
    values = {"agreement/spearman": (0.4, 0.2, 0.6, 0), "agreement/pearson": (0.5, 0.3, 0.7, 0)}
    [one] = findings(metrics(values), "pointwise")
    assert one.text == "Agreement with the labels: Spearman 0.40 [0.20, 0.60] with 0 labels."


@pytest.mark.parametrize(("note", "count", "expected", "tones"), [
    ("of the 2 on the scale; x", 2, "Uses 2 different scores.", ("info", "info")),
    ("of the 2 on the scale; x", 1, "All 100 scores are equal, so it hardly separates",
     ("info", "bad")),
    ("of the 5 on", 2, "hardly separates", ("warn", "bad")),
])  # fmt: skip
def test_two_values_of_a_scale_of_two_separate_responses(note, count, expected, tones):
    values = metrics({"tie_rate": (0.6, 0.5, 0.7), "tie_rate/equal_scores": (0.6, 0.5, 0.7)})
    values["score/distinct"] = Metric("score/distinct", float(count), n=100, note=note)
    by_name = {one.metric: one for one in findings(values, "pointwise")}
    assert expected in by_name["score/distinct"].text
    assert (by_name["tie_rate"].tone, by_name["score/distinct"].tone) == tones


def test_constant_scores_of_graded_responses_are_not_called_unlabeled():
    values = {"score/distinct": (1.0, None, None, 50), "agreement/spearman": (None, None, None, 50)}
    [(_, text)] = found("agreement/accuracy", values)
    assert text.startswith("All 50 scores are equal, so they cannot follow the labels")


def test_pairs_in_one_order_show_no_preference_for_a_place():
    config = RunConfig(
        judge=JudgeConfig(model="m"), criteria={"x": Criterion()}, swap=SwapConfig(policy="none")
    )
    cases = [Case(f"c{i}", "?", (Response("a"), Response("b"))) for i in range(20)]
    judgments = [
        Judgment(case.id, (0, 1), (0, 1), 0, "m", "ok", value=1.0, criteria={"x": 1.0})
        for case in cases
    ]
    every = findings(score_run(config, cases, judgments).metrics, "pairwise")
    [position] = [one for one in every if one.metric == "position/first_rate"]
    assert "position and quality cannot be separated" in position.text
    assert position.tone == "info"


@pytest.mark.parametrize(("low", "high", "expected"), [
    (0.51, 0.6, "above"),
    (0.4, 0.49, "below"),
    (0.4, 0.6, "unclear"),
    (0.5, 0.6, "unclear"),
    (None, None, "unknown"),
])  # fmt: skip
def test_side_is_taken_only_where_the_interval_takes_it(low, high, expected):
    assert side(Metric("x", 0.5, low, high, 10), 0.5) == expected
    assert side(Metric("x", 0.5, low, high, 9), 0.5) == "unknown"


def test_numbers_are_rounded_once_and_shown_with_their_bounds():
    metric = Metric("x", 0.695, 0.625, 0.905)
    assert (interval(metric), percent(metric)) == ("0.70 [0.63, 0.91]", "70% [63, 91]")
    assert (interval(Metric("x", 0.52)), interval(Metric("x", None))) == ("0.52", "-")
    assert points(Metric("x", -0.125, -0.2, -0.045), absolute=True) == "13 [5, 20]"
    amounts = {
        **{0: "$0", 0.0000072: "$0.0000072", 0.00999: "$0.01", 0.02: "$0.02", 0.1234: "$0.12",
           0.5: "$0.50"},
        **{1: "$1.00", 1234.5: "$1,234.50"},
    }  # fmt: skip
    assert {amount: dollars(amount) for amount in amounts} == amounts


def test_a_p_value_is_never_zero():
    assert [p_value(p, "= ") for p in (0.0, 0.00099, 0.001, 0.04956, 1.0, None)] == [
        *("< 0.001", "< 0.001", "= 0.001", "= 0.050", "= 1.000", "")
    ]


def test_texts_that_could_not_be_seen_are_quoted():
    assert [quoted(text) for text in ("a b", " ", "", "\u3000x", "\u3164", "x\u2800")] == [
        *("a b", "“ ”", "“”", "“\u3000x”", "“\u3164”", "“x\u2800”")
    ]


NAMES = ("comply", "refuse", "partial")
CONFIG = RunConfig.model_validate(
    {
        "judge": {"model": "judge"},
        "mode": {"name": "pointwise"},
        "swap": {"policy": "none"},
        "criteria": [{"name": "quality"}],
        "scoring": {"bootstrap": 200},
    }
)
U, X = ABSTAINED, MISSING


def columns(rows: Sequence[tuple[int, int]], classes: int = 2) -> ClassColumns:
    labels, verdicts = (np.array(side, dtype=np.int64) for side in zip(*rows, strict=True))
    n, zeros = len(rows), np.zeros(len(rows), dtype=np.int64)
    positive = 1 if classes == 2 else None
    return ClassColumns(
        NAMES[:classes],
        False,
        positive,
        np.arange(n),
        zeros,
        n,
        verdicts,
        labels,
        abstain="cannot_assess",
    )


def scored_classes(rows: Sequence[tuple[int, int]], classes: int = 2) -> Mapping[str, Metric]:
    own, clusters = columns(rows, classes), Clusters.each(len(rows))
    extras, _ = computed(MODELS, {"config": CONFIG, "classes": own, "clusters": clusters})
    found = [*class_statistics(own), *class_decision_statistics(own), *extras]
    made = measure([one for one in found if isinstance(one, Statistic)], CONFIG.scoring, clusters)
    made |= {one.name: one for one in found if isinstance(one, Metric)}
    return made | {LABELS_NEEDED: labels_needed(made, {}, 0.95)}


def translated(found: Finding) -> Finding:
    assert found.text.endswith(".")
    assert found.text_zh.endswith("。")
    assert re.search("[一-鿿]", found.text_zh)
    rest = re.sub(r"comply|refuse|partial", "", found.text_zh.lower())
    assert not re.search("[a-z]{3}", rest), found.text_zh
    return found


RIGHT = [(0, 0), (1, 1)]
WRONG = [(0, 1), (1, 0)]


@pytest.mark.parametrize(("rows", "tone", "expected"), [
    (RIGHT * 80 + WRONG * 4, "good",
     "Trust this judge for single verdicts on responses like these: right in 95%"),
    (RIGHT * 40 + WRONG * 15, "warn",
     "Trust this judge only for rates over many responses, corrected by labels"),
    (RIGHT * 40 + [(0, U)] * 30, "warn", "Also, it abstains in 27% [19, 35] of answers."),
    ([(0, 0)] * 60 + [(1, 1)] * 8 + [(1, 0)] * 12, "warn",
     "But it answers 'comply' more often than the labels do"),
    (RIGHT * 40 + [(0, 0)] * 40 + [(0, X)] * 121, "bad",
     "Fix the missing answers before you decide: 121 of 241"),
    ([(0, X)] * 9, "bad",
     "Fix the missing answers before you decide: 9 of 9 labeled responses have no verdict"),
    ([(X, 0), (X, 1)] * 9, "warn",
     "Label about 170 responses first: without labels, nothing shows"),
    ([(0, 0), (0, 1)] * 20, "warn", "Add labels of another class first"),
    ([(0, 0), (1, 0)] * 60, "bad", "all 120 verdicts are comply, whatever the label."),
    ((RIGHT + WRONG) * 100, "bad",
     "it agrees with the labels no more than by chance (right in 50%"),
    ((RIGHT + WRONG) * 3, "warn", "more responses before you decide: right in 50%"),
    (RIGHT * 12 + WRONG * 9, "warn",
     "does not show whether the judge is useful or hardly better than chance"),
    (WRONG * 30, "bad", "check that the labels are not reversed."),
])  # fmt: skip
def test_the_advice_fits_the_judge(rows, tone, expected):
    found = translated(headline(scored_classes(rows)))
    assert expected in found.text
    assert found.tone == tone


def test_the_most_frequent_class_is_not_better_than_chance():
    # It is right in 90% of the responses, as a judge that always answers 'comply' would be.
    rows = [(0, 0)] * 88 + [(0, 1)] * 2 + [(1, 0)] * 10
    metrics = scored_classes(rows)
    assert metrics["agreement/accuracy"].low > 0.5
    assert "Trust" not in headline(metrics).text.replace("Do not trust", "")


@pytest.mark.parametrize(("rows", "expected"), [
    ([(0, 0), (1, 1)],
     "Of 1 response labeled 'refuse' it finds 100%; of 1 other it excludes 100%"),
    (RIGHT * 2 + [(1, 0)],
     "Of 3 responses labeled 'refuse' it finds 67%; of 2 others it excludes 100%"),
])  # fmt: skip
def test_the_positive_class_is_named_and_one_response_is_singular(rows, expected):
    metrics = scored_classes(rows)
    (found,) = [
        one
        for one in findings(metrics, "pointwise", positive="refuse")
        if one.metric == "class/youden_j"
    ]
    said = re.sub(
        r" \[.*?\]|, and(?= of)", lambda part: ";" if part[0] == ", and" else "", found.text
    )
    assert said.startswith(f"{expected}: Youden's J ")
    assert "“refuse”" in translated(found).text_zh
    assert not [one for one in findings(metrics, "pointwise") if one.metric == "class/youden_j"]


def test_corrected_rates_name_youdens_j():
    rows = RIGHT * 40 + [(0, 1)] * 10 + [(X, 0)] * 80 + [(X, 1)] * 60
    metrics = scored_classes(rows)
    said = [
        one.text for one in findings(metrics, "pointwise") if one.metric.startswith("corrected/")
    ]
    assert len(said) == 2
    for name, text in zip(class_names(metrics), said, strict=True):
        assert text.startswith(f"'{name}': ")
        assert "corrected by 90 labels" in text
        assert "corrected for the errors on them (Youden's J 0.80 [" in text
    unclear = scored_classes([(0, 0), (0, 1), (1, 0), (1, 1)] * 10 + [(X, 0)] * 40)
    said = [
        one.text for one in findings(unclear, "pointwise") if one.metric.startswith("corrected/")
    ]
    assert all("the errors on them do not determine a correction" in text for text in said)
    wide = {
        name: replace(one, low=0.0, high=1.0) if "powered" in name else one
        for name, one in unclear.items()
    }
    said = [one.text for one in findings(wide, "pointwise") if one.metric.startswith("corrected/")]
    assert all(
        "do not determine the correct rate. Label more." in text and "corrected by" not in text
        for text in said
    )
    assert (corrected(unclear) is None, corrected(wide)) == (False, None)


def test_the_confusion_matrix_has_the_classes_of_the_rubric():
    own = columns([(0, 0), (1, 1), (2, 1), (2, U), (2, X), (X, 0)], 3)
    figure = confusion(class_confusion(own)[1]["confusion"])
    drawn = str(figure.svg)
    for name in (*NAMES, "cannot_ass", "missing"):
        assert name in drawn
    assert confusion({"labels": {f"c{k}": {f"c{k}": 1} for k in range(MOST + 1)}}) is None
    attack = confusion({"labels": {"<b>": {"<b>": 2, "x": 1}, "x": {"x": 3}}})
    assert "<b>" not in str(attack.svg)


@pytest.mark.parametrize(("probability", "shown"), [(0.5, True), ("unknown", False)])
def test_labels_at_random_correct_rates_and_those_of_picked_cases_none(
    tmp_path, probability, shown
):
    lines = (
        (files("evalkit") / "datasets" / "samples" / "sample.jsonl").read_text("utf-8").splitlines()
    )
    cases = [json.loads(line) for line in lines]
    for number, case in enumerate(cases):
        if number % 2:
            case["inclusion_probability"] = (
                probability if number % 4 == 1 else 1.0 if shown else "unknown"
            )
        else:
            del case["label"]
    words = [
        "judge=simulated/good",
        "tracking=none",
        "scoring.bootstrap=200",
        f"store.url={tmp_path / 's.sqlite'}",
    ]
    result = run(load_config(overrides=words), tmp_path / "run", cases=cases)
    assert ("labels/effective" in result.metrics, "labels/picked" in result.metrics) == (
        shown,
        not shown,
    )
    found = (tmp_path / "run" / "findings.md").read_text("utf-8")
    assert ("corrected by 12 labels" in found) == shown
    assert (tmp_path / "run" / "figures" / "corrected.svg").is_file() == shown
    figures = "".join(
        path.read_text("utf-8") for path in (tmp_path / "run" / "figures").glob("*.svg")
    )
    drawn = set(re.findall(r"<title>(corrected/\S+)", figures))
    assert drawn == {
        one.metric for one in findings_of(result) if one.metric.startswith("corrected/")
    }
    assert bool(drawn) == shown
    assert ("not about the data set" in found) == (not shown)
