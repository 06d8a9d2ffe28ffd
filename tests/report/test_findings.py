from __future__ import annotations

import pytest

from evalkit.config import Criterion, JudgeConfig, RunConfig, SwapConfig
from evalkit.core.display import dollars, interval, p_value, percent, points, quoted
from evalkit.decision import side
from evalkit.report.findings import findings
from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Metric, Response


def metrics(**values) -> dict[str, Metric]:
    named = {name.replace("__", "/"): value for name, value in values.items()}
    return {name: Metric(name, *v) if isinstance(v, tuple) else Metric(name, v) for name, v in named.items()}


def texts(mode: str = "pairwise", **values) -> list[str]:
    return [finding.text for finding in findings(metrics(**values), mode)]


def only(metric: str, mode: str = "pairwise", **values):
    (found,) = [finding for finding in findings(metrics(**values), mode) if finding.metric == metric]
    return found


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.51, 0.6, "above"), (0.4, 0.49, "below"), (0.4, 0.6, "unclear"), (0.5, 0.6, "unclear"), (None, None, "unknown")],
)
def test_side_is_taken_only_where_the_interval_takes_it(low, high, expected):
    assert side(Metric("x", 0.5, low, high), 0.5) == expected


def test_interval_reads_as_a_value_with_bounds():
    assert interval(Metric("x", 0.52, 0.38, 0.66)) == "0.52 [0.38, 0.66]"
    assert interval(Metric("x", 0.52)) == "0.52"
    assert interval(Metric("x", None)) == "-"


def test_agreement_is_given_in_numbers():
    found = only("agreement/accuracy", agreement__accuracy=(0.52, 0.38, 0.66, 9), agreement__kappa=(0.1, -0.1, 0.3))
    assert found.text == "Agreement with the labels: accuracy 0.52 [0.38, 0.66], kappa 0.10 [-0.10, 0.30]."
    assert found.tone == "warn"
    assert found.text_zh.startswith("与标注的一致性：")
    useless = only("agreement/accuracy", agreement__accuracy=(0.5, 0.4, 0.6, 90), agreement__kappa=(0.0, -0.1, 0.1))
    assert useless.tone == "bad"


def test_one_number_is_rounded_once():
    metric = Metric("x", 0.695, 0.625, 0.905)
    assert (interval(metric), percent(metric)) == ("0.70 [0.63, 0.91]", "70% [63, 91]")
    assert points(Metric("x", -0.125, -0.2, -0.045), absolute=True) == "13 [5, 20]"


def test_without_labels_it_says_so():
    assert only("agreement/accuracy").text.startswith("No labels")
    assert only("agreement/accuracy", agreement__accuracy=None).text.startswith("No labels")


def test_pointwise_agreement_is_a_correlation():
    found = findings(metrics(agreement__spearman=(0.4, 0.2, 0.6), agreement__pearson=(0.5, 0.3, 0.7)), "pointwise")
    assert [f.text for f in found] == ["Agreement with the labels: Spearman 0.40 [0.20, 0.60] with 0 labels."]


def test_a_preference_is_named_with_its_lead_only_where_it_is_clear():
    assert (
        "Prefers the answer shown first by 12 points [8, 16]" not in texts(position__first_rate=(0.56, 0.54, 0.58))[1]
    )
    assert "Prefers the answer shown first by 12 [8, 16] points" in texts(position__first_rate=(0.56, 0.54, 0.58))[1]
    assert "Prefers the answer shown second by 12 [8, 16] points" in texts(position__first_rate=(0.44, 0.42, 0.46))[1]
    assert "No clear preference" in texts(position__first_rate=(0.56, 0.48, 0.64))[1]


def test_pairs_in_one_order_show_no_preference_for_a_place():
    config = RunConfig(judge=JudgeConfig(model="m"), criteria={"x": Criterion()}, swap=SwapConfig(policy="none"))
    cases = [Case(f"c{i}", "?", (Response("a"), Response("b"))) for i in range(20)]
    judgments = [Judgment(case.id, (0, 1), (0, 1), 0, "m", "ok", value=1.0, criteria={"x": 1.0}) for case in cases]
    found = findings(score_run(config, cases, judgments).metrics, "pairwise")
    (position,) = [finding for finding in found if finding.metric == "position/first_rate"]
    assert "position and quality cannot be separated" in position.text
    assert position.tone == "info"


def test_missing_answers_are_counted_by_kind():
    known = {"missing__unparseable": (0.04, 0, 0.1, 200), "missing__refused": (0.0, 0, 0, 200)}
    found = only("missing/unparseable", **known, missing__failed=(0.02, 0, 0.1, 200))
    assert found.text.startswith("12 of 200 answers are missing (6.0%): 8 unparseable, 4 failed.")
    assert found.tone == "bad"
    assert only("missing/failed", **known | {"missing__unparseable": (0.0, 0, 0, 200)}).tone == "good"


def test_ties_that_are_disagreements_are_told_apart():
    text = texts(tie_rate=(0.4, 0.3, 0.5), **{"tie_rate__swap_disagreement": (0.3, 0.2, 0.4)})[1]
    assert text == "40% [30, 50] of pairs are ties, most of them because the two orders disagree (30% [20, 40])."
    assert "disagree" not in texts(tie_rate=(0.4, 0.3, 0.5))[1]
    cancel = {"tie_rate__judged": 0.0, "tie_rate__criteria_cancel": (0.4, 0.3, 0.5)}
    assert texts(tie_rate=(0.4, 0.3, 0.5), **cancel)[1] == (
        "40% [30, 50] of pairs are ties because the weighted criteria cancel out, which scoring.aggregate=overall "
        "avoids."
    )


def test_conflicts_are_a_finding_only_where_they_are_possible():
    assert "Contradicts itself" in texts(conflict__rate=(0.1, 0.05, 0.2), conflict__ratio=(0.2, 0.1, 0.4))[1]
    chance = {"conflict__chance_rate": 0.5, "conflict__ratio": (0.2, 0.1, 0.4)}
    assert (
        "fewer than random verdicts would have (50%; ratio 0.20 [0.10, 0.40])" in texts(conflict__rate=0.1, **chance)[1]
    )
    assert len(texts("pointwise", conflict__rate=0.0)) == 1


def test_scores_calibration_consistency_and_weak_conflicts():
    assert only("score/distinct", score__distinct=(2.0, None, None, 9)).tone == "bad"
    assert only("score/distinct", score__distinct=5.0).tone == "info"
    assert (
        "differs from its accuracy by 30 [20, 40] points"
        in only("calibration/ece", calibration__ece=(0.3, 0.2, 0.4)).text
    )
    unknown = only("calibration/ece", calibration__ece=(0.0, 0.0, 0.55))
    assert unknown.text.startswith("It is unknown whether its confidence is reliable (n = ")
    assert "differs from its accuracy by 0 to 55 points on average" in unknown.text
    assert unknown.text_zh.startswith("置信度是否可信尚不能判断")
    assert "0 到 55 个百分点" in unknown.text_zh
    assert (
        "differs from its accuracy by 4 [0, 9] points"
        in only("calibration/ece", calibration__ece=(0.04, 0.0, 0.09)).text
    )
    assert only("position/consistency", position__consistency=(0.9, 0.85, 0.95)).tone == "good"
    assert "are not transitive" in only("conflict/weak_rate", conflict__weak_rate=(0.2, 0.1, 0.3)).text


def test_every_finding_is_in_both_languages():
    everything = metrics(
        agreement__accuracy=(0.9, 0.8, 1.0),
        missing__failed=(0.5, 0, 1, 10),
        position__first_rate=(0.9, 0.8, 1.0),
        position__consistency=0.5,
        tie_rate=0.1,
        conflict__rate=0.1,
        conflict__weak_rate=0.1,
        score__distinct=4.0,
        calibration__ece=(0.2, 0.1, 0.3),
        panel__alpha=(0.3, 0.1, 0.5),
    )
    found = findings(everything, "pairwise")
    assert len(found) == 10
    assert all(any("一" <= c <= "鿿" for c in f.text_zh) for f in found)
    assert all(f.text.endswith(".") and f.text_zh.endswith("。") for f in found)


@pytest.mark.parametrize(("mode", "rate", "said"), [("pairwise", 0.0, 1), ("listwise", 0.0, 0), ("listwise", 0.2, 1)])
def test_that_no_cycle_was_found_is_no_finding_where_none_can_be(mode, rate, said):
    assert sum("(A > B > C > A)" in text for text in texts(mode, conflict__rate=rate)) == said


def test_a_panel_is_relied_on_where_its_judges_agree():
    assert only("panel/alpha", panel__alpha=(0.9, 0.85, 0.95)).tone == "good"
    assert only("panel/alpha", panel__alpha=(0.9, 0.75, 0.95)).tone == "warn"
    assert "an alpha of 0.90" in only("panel/alpha", panel__alpha=0.9).text


def test_labels_whose_answers_are_all_missing_are_not_said_to_be_none():
    lost = metrics(missing__failed=1.0)
    lost["agreement/accuracy"] = Metric("agreement/accuracy", None, missing=3)
    (found,) = [finding for finding in findings(lost, "pairwise") if finding.metric == "agreement/accuracy"]
    assert found.text == "No labeled case has a usable answer: its agreement with the labels is unknown."
    assert found.tone == "bad"
    (none,) = [one for one in findings({}, "pairwise") if one.metric == "agreement/accuracy"]
    assert none.text.startswith("No labels to compare with")


def test_labels_on_which_a_cascade_abstains_are_not_said_to_be_none():
    found = only("agreement/accuracy", cascade__abstained=1.0)
    why = "The cascade decides no case with a label that chose no threshold"
    assert found.text == f"{why}: its agreement with the labels is unknown."
    assert found.tone == "bad"


def test_without_an_interval_nothing_is_said_of_a_preference():
    found = only("position/first_rate", position__first_rate=(0.87, None, None, 8))
    assert "no clear preference" not in found.text.lower()
    assert "too few to show a preference" in found.text


def test_one_comparison_alone_shows_nothing():
    rate = Metric("length/longer_rate", 1.0, n=1)
    assert [one for one in findings({rate.name: rate}, "pairwise") if one.metric == rate.name] == []


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (0, "$0"),
        (0.0000072, "$0.0000072"),
        (0.02, "$0.02"),
        (0.5, "$0.50"),
        (0.1234, "$0.12"),
        (0.00999, "$0.01"),
        (1, "$1.00"),
        (1234.5, "$1,234.50"),
    ],
)
def test_a_sum_is_said_without_exponents(amount, said):
    assert dollars(amount) == said


def test_a_p_value_is_never_zero():
    assert [p_value(p, "= ") for p in (0.0, 0.00099, 0.001, 0.04956, 1.0, None)] == [
        *("< 0.001", "< 0.001", "= 0.001", "= 0.050", "= 1.000", "")
    ]


def test_texts_that_could_not_be_seen_are_quoted():
    assert [quoted(text) for text in ("a b", " ", "", "\u3000x", "\u3164", "x\u2800")] == [
        *("a b", "“ ”", "“”", "“\u3000x”", "“\u3164”", "“x\u2800”")
    ]


def test_what_the_first_place_won_is_counted_in_passes_and_not_in_pairs():
    rate = Metric("position/first_rate", 0.42, 0.31, 0.53, n=45)
    (found,) = findings({rate.name: rate}, "pairwise")[1:]
    assert found.text.endswith("it wins 42% [31, 53] of 45 decided passes (a pair in one order).")
    longer = Metric("length/longer_rate", 0.9, 0.7, 1.0, n=15)
    (found,) = findings({longer.name: longer}, "pairwise")[1:]
    assert "90% [70, 100] of 15 decided pairs; without labels" in found.text


def test_findings_of_a_checklist():
    values = {
        "checklist__accuracy": (0.9, 0.8, 0.95, 40),
        "checklist__kappa": (0.8, 0.7, 0.9, 40),
        "score__mean": (0.5, 0.4, 0.6, 8, 2, 0.4, 0.7),
    }
    assert texts("checklist", **values) == [
        "Agreement with the labels: accuracy 0.90 [0.80, 0.95], kappa 0.80 [0.70, 0.90].",
        "2 of 10 responses have no score, because items without an answer could change it. The mean score of all of "
        "them is between 0.40 and 0.70.",
    ]
    assert any(
        text.startswith("Of 50 items met or not met, ")
        for text in texts("checklist", checklist__met_rate=(0.5, 0.4, 0.6, 50))
    )
