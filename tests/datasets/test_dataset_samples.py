"""The shipped samples are what they claim to be."""

from __future__ import annotations

from collections import Counter
from statistics import mean

import pytest

from evalkit.config import DatasetConfig
from evalkit.datasets import Dataset, load_cases
from evalkit.types import Case

FLAWS = {"factual_error", "ignored_instruction", "omission", "padding"}


def shipped(name: str, mode: str) -> Dataset:
    return load_cases(DatasetConfig(path=f"evalkit:{name}"), mode=mode)


def better_is_shorter(case: Case) -> bool:
    a, b = (len(r.text) for r in case.responses)
    return a < b if case.label == "A" else b < a


def is_chinese(text: str) -> bool:
    return any("一" <= c <= "鿿" for c in text)


def test_sample_is_balanced() -> None:
    dataset = shipped("sample.jsonl", "pairwise")
    cells = Counter((c.label, c.metadata["language"], better_is_shorter(c)) for c in dataset.cases)
    assert len(dataset.cases) == 24
    assert dataset.notes == ()
    for label in "AB":
        for shorter in (True, False):
            assert cells[label, "en", shorter] == 4
            assert cells[label, "zh", shorter] == 2


def test_quick_is_a_balanced_part_of_the_sample() -> None:
    cases, all_of_them = (shipped(name, "pairwise").cases for name in ("quick.jsonl", "sample.jsonl"))
    assert {c.id: c for c in cases}.items() <= {c.id: c for c in all_of_them}.items()
    assert Counter((c.label, better_is_shorter(c)) for c in cases) == {(a, b): 2 for a in "AB" for b in (True, False)}
    assert {c.metadata["flaw"] for c in cases} == FLAWS
    assert sum(c.metadata["language"] == "zh" for c in cases) == 2


def test_sample_says_what_is_wrong_with_the_worse_answer() -> None:
    cases = shipped("sample.jsonl", "pairwise").cases
    assert {c.metadata["flaw"] for c in cases} == FLAWS
    assert all(set(c.metadata) == {"language", "flaw"} for c in cases)
    assert sum(c.context is not None for c in cases) == sum(c.reference is not None for c in cases) == 4
    assert all(is_chinese(c.prompt) == (c.metadata["language"] == "zh") for c in cases)


def test_sample_is_short_enough_for_a_small_judge() -> None:
    cases = shipped("sample.jsonl", "pairwise").cases
    assert max(len(c.prompt.split()) for c in cases) <= 40
    words = [len(r.text.split()) for c in cases if c.metadata["language"] == "en" for r in c.responses]
    assert min(words) >= 15
    assert max(words) <= 60
    assert mean(len(r.text) for c in cases for r in c.responses) < 150


@pytest.mark.parametrize("mode", ["pairwise", "pointwise", "listwise"])
def test_graded_holds_four_levels_a_case(mode: str) -> None:
    dataset = shipped("graded.jsonl", mode)
    assert len(dataset.cases) == 6
    assert dataset.notes == ()
    assert sum(c.metadata["language"] == "zh" for c in dataset.cases) == 2
    for case in dataset.cases:
        assert {r.model for r in case.responses} == {f"system-{s}" for s in "abcd"}
        assert len({r.grade for r in case.responses}) == 4
        assert {r.grade for r in case.responses} <= {1, 2, 3, 4, 5}
        assert case.label is None


def test_graded_order_gives_nothing_away() -> None:
    cases = shipped("graded.jsonl", "pointwise").cases
    best = Counter(max(range(4), key=lambda i, c=c: c.responses[i].grade) for c in cases)
    assert len(best) >= 3
