"""What sways the judge, in words."""

from __future__ import annotations

import pytest

from evalkit.report.findings import findings
from evalkit.types import Metric


def found(name: str, **values: tuple) -> list[tuple[str, str]]:
    metrics = {}
    for key, numbers in values.items():
        metric = key.replace("__", "/")
        metrics[metric] = Metric(metric, *numbers, n=40)
    return [(f.tone, f.text) for f in findings(metrics, "pairwise") if f.metric == name and f.text_zh]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0.5, 0.2, 0.8), "Prefers longer answers beyond what the labels explain: 0.50 [0.20, 0.80]"),
        ((-0.5, -0.8, -0.2), "Prefers shorter answers"),
    ],
)
def test_length_at_equal_label_is_said_where_it_is_clear(numbers, expected):
    ((tone, text),) = found("length/slope_at_label", length__slope_at_label=numbers)
    assert (tone, text[: len(expected)]) == ("warn", expected)


def test_length_is_not_blamed_without_grounds():
    assert found("length/slope_at_label", length__slope_at_label=(0.5, None, None)) == []
    assert found("length/slope_at_label", length__slope_at_label=(None, None, None)) == []
    ((tone, text),) = found("length/slope_at_label", length__slope_at_label=(0.5, -0.2, 0.8))
    assert (tone, text[:45]) == ("info", "No clear preference for longer or shorter ans")


def test_the_order_apart_from_noise():
    repeat = {"position__repeat_consistency": (0.7, 0.6, 0.8)}
    ((tone, text),) = found("position/order_effect", position__order_effect=(0.2, 0.1, 0.3), **repeat)
    assert tone == "warn"
    assert text.startswith("Asked twice in the same order, it repeats its verdict in 70% [60, 80] of pairs")
    assert text.endswith("swapping the order lowers this by 20 [10, 30] points.")
    ((tone, text),) = found("position/order_effect", position__order_effect=(0.01, -0.1, 0.1), **repeat)
    assert (tone, text[-53:]) == ("info", "has no clear effect beyond that (1 [-10, 10] points).")
    assert found("position/order_effect", position__order_effect=(0.2, None, None), **repeat) == []


def test_identical_answers():
    ((tone, text),) = found("position/identical_preference", position__identical_preference=(0.3, 0.2, 0.4))
    assert (tone, text) == ("bad", "Prefers one of two identical answers in 30% [20, 40] of 40 comparisons.")
    assert found("position/identical_preference", position__identical_preference=(0.0, 0.0, 0.1)) == []


@pytest.mark.parametrize(
    ("numbers", "tone", "said"),
    [
        ((0.2, 0.1, 0.3), "warn", "Favors"),
        ((-0.2, -0.3, -0.1), "warn", "Disfavors"),
        ((0.1, -0.1, 0.3), "info", "No clear preference for"),
    ],
)
def test_the_own_family(numbers, tone, said):
    ((found_tone, text),) = found("self/preference", self__preference=numbers)
    assert (found_tone, text.startswith(said)) == (tone, True)
    assert found("self/preference", self__preference=(0.1, None, None)) == []


@pytest.mark.parametrize(
    ("gap", "tone", "said"),
    [
        ((0.1, 0.05, 0.2), "good", "with the other annotators better than an annotator does"),
        ((-0.1, -0.2, -0.05), "bad", "with the other annotators less well than an annotator does"),
        ((0.0, -0.1, 0.1), "info", "it is open whether the judge agrees"),
    ],
)
def test_beside_people(gap, tone, said):
    numbers = {"human__ceiling": (0.8, 0.7, 0.9), "human__judge": (0.7, 0.6, 0.8)}
    ((found_tone, text),) = found("human/gap", human__gap=gap, **numbers)
    assert (found_tone, said in text) == (tone, True)
    assert text.startswith("On 40 labels of items with several annotators, ")
    assert found("human/gap", human__gap=(0.1, None, None), **numbers) == []
