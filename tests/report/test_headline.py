"""What the first sentence of a run advises, over judges that differ: could a reader draw a wrong conclusion?"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given

from evalkit.cli.summary import print_summary
from evalkit.config import SwapConfig
from evalkit.report.findings import findings_of
from evalkit.report.headline import headline
from evalkit.scoring.chance_level import against_chance
from evalkit.types import Metric
from tests.report.test_sentences import ROWS, scored

ONE_ORDER = {"swap": SwapConfig(policy="none")}
GOOD = [("A", "A", "A"), ("B", "B", "B")]


def advice(metrics, mode="pairwise"):
    found = headline(metrics, mode)
    assert found.text.endswith(".")
    assert found.text_zh.endswith("。")
    assert re.search("[一-鿿]", found.text_zh)
    assert not re.search("[a-z]{3}", re.sub(r"swap\.policy=both|spearman", "", found.text_zh.lower()))
    return found


@pytest.mark.parametrize(
    ("rows", "tone", "expected"),
    [
        (GOOD * 28 + [("A", "B", "B")] * 4, "good", "Trust this judge for single verdicts on pairs like these: it is"),
        ([("A", "A", "A")] * 46 + [("A", "B", "B")] * 4, "warn", "but all labels are of one class."),
        (GOOD * 50 + [("A", "B", "B"), ("B", "A", "A")] * 20, "warn", "Trust this judge only for averages over many"),
        ([*GOOD, ("A", "A", "B"), ("B", "B", "A")] * 15, "warn", "Trust this judge only where it decides: it is right"),
        (GOOD * 4, "warn", "Label about 46 more pairs before you decide: accuracy 1.00 [0.63, 1.00] among 8 decided"),
        ([("A", "A", "B"), ("B", "A", "B")] * 20, "bad", "swapping the order changes its verdict in 100% [91, 100] of"),
        ([("A", "TIE", "TIE"), ("B", "TIE", "TIE")] * 20, "bad", "Do not trust this judge to choose between responses"),
        ([("A", "A", "A"), ("B", "A", "A")] * 20, "bad", "Do not trust this judge: all 40 verdicts are A, whatever"),
        ([("A", "A", "A")] * 70 + [("B", "A", "A")] * 30, "bad", "all 100 verdicts are A, whatever the label"),
        ([*GOOD, ("A", "B", "B"), ("B", "A", "A")] * 200, "bad", "it is at best slightly better than chance (accuracy"),
        ([*GOOD, ("A", "B", "B"), ("B", "A", "A")] * 2, "bad", "Do not trust this judge yet: accuracy 0.50"),
        ([("A", "B", "B"), ("B", "A", "A")] * 20, "bad", "check that the labels are not reversed."),
        ([("A", "A", "A")], "warn", "Label about 41 more pairs before you decide: too few labeled pairs are decided"),
        (GOOD * 10 + [("A", None, None)] * 20, "bad", "Fix the missing answers before you decide: 20 of 40 labeled"),
        ([("A", None, None)] * 20, "bad", "Fix the missing answers first: no labeled case has a usable answer."),
        ([(None, "A", "A"), (None, "B", "B")] * 9, "warn", "Label about 42 pairs first, enough to show an accuracy of"),
    ],
)
def test_the_advice_fits_the_judge(rows, tone, expected):
    found = advice(scored(rows))
    assert expected in found.text
    assert found.tone == tone


def test_more_labels_are_estimated_from_the_difference_that_was_observed():
    metrics = scored(GOOD * 12 + [("A", "B", "B"), ("B", "A", "A")] * 8)
    text = advice(metrics).text
    assert "accuracy 0.60 [" in text
    assert "does not differ significantly from chance" in text
    # To show 0.60 against 0.50 with a power of 80% takes (1.960 + 0.842)² · 0.24 / 0.1² = 188 pairs, 40 of them known.
    more = int(re.search(r"Label about ([\d,]+) more pairs", text)[1].replace(",", ""))
    assert 100 <= more <= 220
    with_ties = scored(GOOD * 12 + [("A", "B", "B"), ("B", "A", "A")] * 8 + [("TIE", "A", "A")] * 40)
    assert int(re.search(r"about ([\d,]+) more", advice(with_ties).text)[1].replace(",", "")) > 1.5 * more


def test_one_order_shows_no_more_than_it_can():
    same, differ = scored([("A", "A")] * 40, **ONE_ORDER), scored([("A", "A"), ("B", "B")] * 30, **ONE_ORDER)
    assert (
        "with one order and equal labels, a judge that ignores the responses could look the same" in advice(same).text
    )
    assert "kappa has no interval here" in advice(differ).text
    better = scored([("A", "A"), ("B", "B")] * 30 + [("A", "B")] * 4, **ONE_ORDER)
    found = advice(better)
    assert found.text.startswith("Trust this judge only for averages over many pairs, not for single verdicts")
    assert found.text.endswith("but each pair was shown in one order only.")


@pytest.mark.parametrize(
    ("values", "tone", "expected"),
    [
        (
            (0.8, 0.7, 0.9, 100),
            "good",
            "Trust its scores to rank responses like these, but not as absolute grades: Spea",
        ),
        ((0.4, 0.2, 0.6, 100), "warn", "Trust its scores only for averages over many responses, not for single ones"),
        ((0.9, 0.7, 1.0, 10), "warn", "but only 10 labels show this."),
        ((0.2, -0.1, 0.5, 40), "warn", "Grade about 150 more responses before you decide: Spearman 0.20 [-0.10, 0.50]"),
        (
            (0.0, -0.5, 0.5, 12),
            "bad",
            "Do not trust this judge yet: Spearman 0.00 [-0.50, 0.50] is no better than chance",
        ),
        ((0.02, -0.1, 0.14, 300), "bad", "it is at best slightly better than chance (Spearman 0.02 [-0.10, 0.14])"),
        ((-0.5, -0.7, -0.3, 50), "bad", "check that the labels are not reversed."),
        ((0.9, None, None, 2), "warn", "Grade about 45 more responses before you decide: there are too few to show"),
    ],
)
def test_the_advice_on_scores_follows_their_correlation(values, tone, expected):
    found = advice({"agreement/spearman": Metric("agreement/spearman", *values)}, "pointwise")
    assert expected in found.text
    assert found.tone == tone


def test_scores_without_grades_or_without_a_difference():
    assert "Grade about 47 responses first" in advice({}, "pointwise").text
    equal = {
        "score/distinct": Metric("score/distinct", 1.0, n=50),
        "agreement/spearman": Metric("agreement/spearman", None, n=50),
    }
    assert "all 50 scores are equal" in advice(equal, "pointwise").text
    assert "Add labels that differ first" in advice(equal | {"score/distinct": Metric("x", 4.0)}, "pointwise").text


@given(ROWS)
def test_trust_is_advised_only_above_chance_and_single_verdicts_only_far_above(rows):
    metrics = scored(rows * 3)
    found, test = advice(metrics), against_chance(metrics)
    if found.text.startswith("Trust"):
        assert test.side == "above"
        assert test.metric.n >= 30
        decided = metrics["agreement/accuracy_decided"]
        assert not decided.missing or decided.worst_low > 0.5
    if "for single verdicts on" in found.text:
        assert metrics["agreement/accuracy"].low > 0.6
    if found.tone == "good":
        assert "but" not in found.text
    if "Do not trust" in found.text:
        assert test is None or test.side != "above" or "whatever the label" in found.text


def test_the_advice_is_first_but_simulated_and_embedded_judges_have_none(make_run, capsys):
    run = make_run(8)
    first = findings_of(run)[0].text
    assert first.startswith("Fix the missing answers before you decide: 2 of 10 labeled pairs have no verdict")
    run = replace(run, manifest={**run.manifest, "dataset": {"rows": 8, "name": "d"}})
    print_summary(run)
    assert "Fix the missing answers" in capsys.readouterr().out.splitlines()[2]
    for model, said in (("simulated/good", "Simulated judge"), ("local/smollm2-135m-instruct", "Not shown")):
        other = replace(run, manifest={**run.manifest, "judges": [{"name": "j", "model": model}]})
        assert findings_of(other)[0].text.startswith(said)
        assert not any("before you decide" in one.text for one in findings_of(other))
