"""What the report says about a judge that chooses classes: no sentence claims more than its numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.config import RunConfig
from evalkit.decision import LABELS_NEEDED
from evalkit.report.figures.forest import main_figures
from evalkit.report.figures.systems import corrected
from evalkit.report.figures.tables import MOST, confusion
from evalkit.report.findings import findings
from evalkit.report.findings.decisions import headline
from evalkit.report.findings.finding import Finding, class_names
from evalkit.scoring.columns import ClassColumns
from evalkit.scoring.judgments import ABSTAINED, MISSING
from evalkit.scoring.labels import labels_needed
from evalkit.scoring.metrics.biases import class_decision_statistics
from evalkit.scoring.metrics.classes import class_confusion, class_extras, class_statistics
from evalkit.scoring.stats.bootstrap import Statistic, measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Metric

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
        NAMES[:classes], False, positive, np.arange(n), zeros, n, verdicts, labels, abstain="cannot_assess"
    )


def scored(rows: Sequence[tuple[int, int]], classes: int = 2) -> Mapping[str, Metric]:
    own, clusters = columns(rows, classes), Clusters.each(len(rows))
    found = [*class_statistics(own), *class_decision_statistics(own), *class_extras(CONFIG, own, clusters)[0]]
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


@pytest.mark.parametrize(
    ("rows", "tone", "expected"),
    [
        (RIGHT * 80 + WRONG * 4, "good", "Trust this judge for single verdicts on responses like these: right in 95%"),
        (RIGHT * 40 + WRONG * 15, "warn", "Trust this judge only for rates over many responses, corrected by labels"),
        (RIGHT * 40 + [(0, U)] * 30, "warn", "but it abstains in 27% [19, 35] of answers."),
        (
            [(0, 0)] * 60 + [(1, 1)] * 8 + [(1, 0)] * 12,
            "warn",
            "it finds only 40% [23, 62] of the 20 responses labeled",
        ),
        (RIGHT * 40 + [(0, 0)] * 40 + [(0, X)] * 121, "bad", "Fix the missing answers before you decide: 121 of 241"),
        ([(0, X)] * 9, "bad", "Fix the missing answers before you decide: 9 of 9 labeled responses have no verdict"),
        ([(X, 0), (X, 1)] * 9, "warn", "Label about 170 responses first: without labels, nothing shows"),
        ([(0, 0), (0, 1)] * 20, "warn", "Add labels of another class first"),
        ([(0, 0), (1, 0)] * 60, "bad", "all 120 verdicts are comply, whatever the label."),
        ((RIGHT + WRONG) * 100, "bad", "it agrees with the labels no more than by chance (right in 50%"),
        ((RIGHT + WRONG) * 3, "warn", "more responses before you decide: right in 50%"),
        (RIGHT * 12 + WRONG * 9, "warn", "does not show whether the judge is useful or hardly better than chance"),
        (WRONG * 30, "bad", "check that the labels are not reversed."),
    ],
)
def test_the_advice_fits_the_judge(rows, tone, expected):
    found = translated(headline(scored(rows)))
    assert expected in found.text
    assert found.tone == tone


def test_the_most_frequent_class_is_not_better_than_chance():
    # It is right in 90% of the responses, as a judge that always answers 'comply' would be.
    rows = [(0, 0)] * 88 + [(0, 1)] * 2 + [(1, 0)] * 10
    metrics = scored(rows)
    assert metrics["agreement/accuracy"].low > 0.5
    assert "Trust" not in headline(metrics).text.replace("Do not trust", "")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-2, 2)), min_size=1, max_size=60))
def test_sentences_follow_the_intervals(rows):
    metrics = scored(rows, 3)
    said = [translated(one) for one in (headline(metrics), *findings(metrics, "pointwise"))]
    kappa = metrics["agreement/kappa"]
    for one in said:
        if one.text.startswith("Trust this judge for single"):
            assert kappa.low >= 0.6
        if match := re.search("Misses most responses labeled '(.*?)'", one.text):
            assert metrics[f"class/{match[1]}/recall"].value < 0.5
        if one.text.startswith("Abstains in"):
            assert metrics["class/abstained"].value > 0
    assert any("abstain" in one.text.lower() for one in said) or not metrics["class/abstained"].value


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(0, 0), (1, 1)], "Of 1 response labeled 'refuse' it finds 100%; of 1 other it excludes 100%"),
        (RIGHT * 2 + [(1, 0)], "Of 3 responses labeled 'refuse' it finds 67%; of 2 others it excludes 100%"),
    ],
)
def test_the_positive_class_is_named_and_one_response_is_singular(rows, expected):
    metrics = scored(rows)
    (found,) = [one for one in findings(metrics, "pointwise", positive="refuse") if one.metric == "class/youden_j"]
    said = re.sub(r" \[.*?\]|, and(?= of)", lambda part: ";" if part[0] == ", and" else "", found.text)
    assert said.startswith(f"{expected}: Youden's J ")
    assert "“refuse”" in translated(found).text_zh
    assert not [one for one in findings(metrics, "pointwise") if one.metric == "class/youden_j"]


def test_corrected_rates_name_youdens_j():
    rows = RIGHT * 40 + [(0, 1)] * 10 + [(X, 0)] * 80 + [(X, 1)] * 60
    metrics = scored(rows)
    said = [one.text for one in findings(metrics, "pointwise") if one.metric.startswith("corrected/")]
    assert len(said) == 2
    for name, text in zip(class_names(metrics), said, strict=True):
        assert text.startswith(f"'{name}': ")
        assert "corrected by 90 labels" in text
        assert "corrected for the errors on them (Youden's J 0.80 [" in text
    unclear = scored([(0, 0), (0, 1), (1, 0), (1, 1)] * 10 + [(X, 0)] * 40)
    said = [one.text for one in findings(unclear, "pointwise") if one.metric.startswith("corrected/")]
    assert all("the errors on them do not determine a correction" in text for text in said)
    wide = {name: replace(one, low=0.0, high=1.0) if "powered" in name else one for name, one in unclear.items()}
    said = [one.text for one in findings(wide, "pointwise") if one.metric.startswith("corrected/")]
    assert all("do not determine the correct rate. Label more." in text and "corrected by" not in text for text in said)
    assert (corrected(unclear) is None, corrected(wide)) == (False, None)


def test_the_confusion_matrix_has_the_classes_of_the_rubric():
    own = columns([(0, 0), (1, 1), (2, 1), (2, U), (2, X), (X, 0)], 3)
    figure = confusion(class_confusion(own))
    assert figure is not None
    drawn = str(figure.svg)
    for name in (*NAMES, "cannot_ass", "missing"):
        assert name in drawn
    assert confusion({"labels": {f"c{k}": {f"c{k}": 1} for k in range(MOST + 1)}}) is None
    attack = confusion({"labels": {"<b>": {"<b>": 2, "x": 1}, "x": {"x": 3}}})
    assert "<b>" not in str(attack.svg)


def test_each_class_has_its_rows_in_a_figure():
    figures = {one.name: str(one.svg) for one in main_figures(scored(RIGHT * 20 + WRONG * 4))}
    assert "refuse: recall" in figures["classes"]
    assert "refuse：召回率" in figures["classes"]
    assert "Matthews" in figures["coefficients"]
