"""Each finding: of metrics made by hand, the tone and what the sentence says, and where there is none."""

from __future__ import annotations

import pytest

from evalkit.config import Criterion, JudgeConfig, RunConfig, SwapConfig
from evalkit.core.display import dollars, interval, p_value, percent, points, quoted
from evalkit.decision import side
from evalkit.report.findings import findings
from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Metric, Response

UP, DOWN, OPEN = (0.2, 0.1, 0.3), (-0.2, -0.3, -0.1), (0.1, -0.1, 0.3)
REPEATS = {"position/repeat_consistency": (0.7, 0.6, 0.8)}
ANNOTATORS = {"human/ceiling": (0.8, 0.7, 0.9), "human/judge": (0.7, 0.6, 0.8)}
LOST = {"missing/unparseable": (0.04, 0, 0.1, 200), "missing/refused": (0.0, 0, 0, 200)}
TIES = {"tie_rate": (0.4, 0.3, 0.5)}
CHANCE = {"conflict/chance_rate": (0.5,), "conflict/ratio": (0.2, 0.1, 0.4)}


def metrics(values: dict[str, tuple]) -> dict[str, Metric]:
    """Return metrics by name; of 40 units where no number is given."""
    return {name: Metric(name, *numbers, **({"n": 40} if len(numbers) < 4 else {})) for name, numbers in values.items()}


def found(metric: str, values: dict[str, tuple], mode: str = "pairwise") -> list[tuple[str, str]]:
    every = findings(metrics(values), mode)
    assert all(any("一" <= char <= "鿿" for char in one.text_zh) and one.text_zh.endswith("。") for one in every)
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
        ({"score/distinct": (2.0, None, None, 9)}, "bad", "Uses 2 different scores, so it hardly separates responses."),
        ({"score/distinct": (5.0,)}, "info", "Uses 5 different scores."),
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
        ({"position/order_effect": UP, **REPEATS}, "warn",
         "repeats its verdict in 70% [60, 80] of pairs; swapping the order lowers this by 20 [10, 30] points."),
        ({"position/order_effect": OPEN, **REPEATS}, "info", "has no clear effect beyond that (10 [-10, 30] points)."),
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


@pytest.mark.parametrize(
    ("metric", "values", "mode"),
    [
        ("length/slope_at_label", {"length/slope_at_label": (0.5,)}, "pairwise"),
        ("length/longer_rate", {"length/longer_rate": (1.0, None, None, 1)}, "pairwise"),
        ("length/longer_rate", {"length/longer_rate": (0.3, 0.2, 0.4), "length/slope_at_label": UP}, "pairwise"),
        ("position/order_effect", {"position/order_effect": (0.2,), **REPEATS}, "pairwise"),
        ("position/identical_preference", {"position/identical_preference": (0.0, 0.0, 0.1)}, "pairwise"),
        ("self/preference", {"self/preference": (0.1,)}, "pairwise"),
        ("human/gap", {"human/gap": (0.1,), **ANNOTATORS}, "pairwise"),
        ("conflict/rate", {"conflict/rate": (0.0,)}, "listwise"),
        ("conflict/rate", {"conflict/rate": (0.0,)}, "pointwise"),
        ("checklist/met_rate", {"checklist/accuracy": (0.9, 0.8, 0.95)}, "checklist"),
    ],
)
def test_there_is_none_where_nothing_is_shown(metric, values, mode):
    assert found(metric, values, mode) == []


@pytest.mark.parametrize(("mode", "rate"), [("pairwise", 0.0), ("listwise", 0.2)])
def test_that_no_cycle_was_found_is_a_finding_where_there_could_be_one(mode, rate):
    [(_, text)] = found("conflict/rate", {"conflict/rate": (rate,)}, mode)
    assert "(A > B > C > A)" in text


def test_scores_are_compared_with_labels_by_one_correlation():
    values = {"agreement/spearman": (0.4, 0.2, 0.6, 0), "agreement/pearson": (0.5, 0.3, 0.7, 0)}
    [one] = findings(metrics(values), "pointwise")
    assert one.text == "Agreement with the labels: Spearman 0.40 [0.20, 0.60] with 0 labels."


@pytest.mark.parametrize(
    ("note", "count", "expected", "tones"),
    [
        ("of the 2 on the scale; x", 2, "Uses 2 different scores.", ("info", "info")),
        ("of the 2 on the scale; x", 1, "All 100 scores are equal, so it hardly separates", ("info", "bad")),
        ("of the 5 on", 2, "hardly separates", ("warn", "bad")),
    ],
)
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


def test_findings_of_a_checklist():
    values = {
        "checklist/accuracy": (0.9, 0.8, 0.95, 40),
        "checklist/kappa": (0.8, 0.7, 0.9, 40),
        "score/mean": (0.5, 0.4, 0.6, 8, 2, 0.4, 0.7),
        "checklist/met_rate": (0.5, 0.4, 0.6, 50),
    }
    assert [one.text for one in findings(metrics(values), "checklist")] == [
        "Agreement with the labels: accuracy 0.90 [0.80, 0.95], kappa 0.80 [0.70, 0.90].",
        "Of 50 items met or not met, 50% [40, 60] are met.",
        "2 of 10 responses have no score, because items without an answer could change it. The mean score of all of "
        "them is between 0.40 and 0.70.",
    ]


def test_pairs_in_one_order_show_no_preference_for_a_place():
    config = RunConfig(judge=JudgeConfig(model="m"), criteria={"x": Criterion()}, swap=SwapConfig(policy="none"))
    cases = [Case(f"c{i}", "?", (Response("a"), Response("b"))) for i in range(20)]
    judgments = [Judgment(case.id, (0, 1), (0, 1), 0, "m", "ok", value=1.0, criteria={"x": 1.0}) for case in cases]
    every = findings(score_run(config, cases, judgments).metrics, "pairwise")
    [position] = [one for one in every if one.metric == "position/first_rate"]
    assert "position and quality cannot be separated" in position.text
    assert position.tone == "info"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.51, 0.6, "above"), (0.4, 0.49, "below"), (0.4, 0.6, "unclear"), (0.5, 0.6, "unclear"), (None, None, "unknown")],
)
def test_side_is_taken_only_where_the_interval_takes_it(low, high, expected):
    assert side(Metric("x", 0.5, low, high), 0.5) == expected


def test_numbers_are_rounded_once_and_shown_with_their_bounds():
    metric = Metric("x", 0.695, 0.625, 0.905)
    assert (interval(metric), percent(metric)) == ("0.70 [0.63, 0.91]", "70% [63, 91]")
    assert (interval(Metric("x", 0.52)), interval(Metric("x", None))) == ("0.52", "-")
    assert points(Metric("x", -0.125, -0.2, -0.045), absolute=True) == "13 [5, 20]"
    amounts = {
        **{0: "$0", 0.0000072: "$0.0000072", 0.00999: "$0.01", 0.02: "$0.02", 0.1234: "$0.12", 0.5: "$0.50"},
        **{1: "$1.00", 1234.5: "$1,234.50"},
    }
    assert {amount: dollars(amount) for amount in amounts} == amounts


def test_a_p_value_is_never_zero():
    assert [p_value(p, "= ") for p in (0.0, 0.00099, 0.001, 0.04956, 1.0, None)] == [
        *("< 0.001", "< 0.001", "= 0.001", "= 0.050", "= 1.000", "")
    ]


def test_texts_that_could_not_be_seen_are_quoted():
    assert [quoted(text) for text in ("a b", " ", "", "\u3000x", "\u3164", "x\u2800")] == [
        *("a b", "“ ”", "“”", "“\u3000x”", "“\u3164”", "“x\u2800”")
    ]
