"""Preference for models of the judge's own family."""

from __future__ import annotations

import pytest

from evalkit.config import RunConfig
from evalkit.scoring import score_run
from evalkit.scoring.metrics.biases import family, family_notes, judge_families
from evalkit.types import Case, Response


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("openai/gpt-4o-mini", "gpt"),
        ("o1", "gpt"),
        ("azure/o3-mini", "gpt"),
        ("anthropic/claude-sonnet-4", "claude"),
        ("gemini/gemini-2.0-flash", "gemini"),
        ("google/gemma-2-9b-it", "gemini"),
        ("together_ai/meta-llama/Llama-3-70b", "llama"),
        ("vicuna-13b", "llama"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen"),
        ("local/smollm2-135m-instruct", "smollm"),
        ("system-a", "system"),
        ("7b", None),
        ("", None),
        (None, None),
    ],
)
def test_families(model, expected):
    assert family(model) == expected


def case(name, one, two, label):
    return Case(name, "question", (Response("a", one), Response("b", two)), label=label)


def run(configure, passes, rows, model="openai/gpt-4o"):
    """Score rows of (model of A, model of B, label, margin)."""
    cases = [case(str(k), *row[:3]) for k, row in enumerate(rows)]
    judgments = [j for k, row in enumerate(rows) for j in passes(str(k), row[3], row[3])]
    return score_run(configure(judge={"model": model}), cases, judgments).metrics


ROWS = [
    ("gpt-3.5", "claude-2", "A", 1.0),
    ("claude-2", "gpt-3.5", "B", -1.0),
    ("gpt-3.5", "claude-2", "A", 1.0),
    ("gpt-3.5", "claude-2", "B", 1.0),
    ("claude-2", "gpt-3.5", "A", 1.0),
    ("gpt-3.5", "claude-2", "B", 0.0),
    ("gpt-3.5", "claude-2", "TIE", 1.0),
    ("gpt-3.5", "gpt-4", "A", -1.0),
    ("claude-2", "llama", "A", -1.0),
    ("gpt-3.5", "claude-2", "A", None),
]


def test_own_preference_at_equal_label(configure, passes):
    metrics = run(configure, passes, ROWS)
    rate, preference = metrics["self/own_rate"], metrics["self/preference"]
    # Decided: rows 0 to 4 and 6; the other wins in row 4.
    assert (rate.value, rate.n, rate.missing) == (pytest.approx(5 / 6), 6, 1)
    # Own preferred by people: 3 of 3 found; the other preferred: 1 of 3 (rows 3, 4, 5).
    assert preference.value == pytest.approx(1 - 1 / 3)
    assert (preference.n, preference.missing) == (6, 1)
    assert (preference.worst_low, preference.worst_high) == (pytest.approx(3 / 4 - 1 / 3), pytest.approx(1 - 1 / 3))
    assert preference.low < preference.value <= preference.high


def test_what_it_needs(configure, passes):
    unknown = run(configure, passes, [(None, None, "A", 1.0)])
    assert not [name for name in unknown if name.startswith("self/")]
    others = run(configure, passes, [("claude", "llama", "A", 1.0)])
    assert {others[f"self/{name}"].note for name in ("own_rate", "preference")} == {
        "no pair has one response of the judge's own family"
    }
    unlabelled = run(configure, passes, [("gpt-4", "llama", None, 0.0)])
    assert unlabelled["self/own_rate"].note == "no such pair has a winner"
    assert "too few labels" in unlabelled["self/preference"].note


def test_the_warning_names_judge_and_models(configure):
    cases = [case("1", "gpt-3.5", "claude-2", None), case("2", "gpt-4", "gpt-4o", None), case("3", "gpt-5", None, None)]
    (note,) = family_notes(configure(judge={"model": "openai/gpt-4o-mini"}), cases)
    assert note.startswith("judge gpt-4o-mini and gpt-3.5, gpt-4, gpt-4o and 1 more are of the same family (gpt)")
    assert family_notes(configure(judge={"model": "mistral/mistral-large"}), cases) == []


def test_a_panel_has_the_families_of_its_judges():
    judges = [{"model": "openai/gpt-4o"}, {"model": "anthropic/claude-3"}, {"model": "x/7b"}]
    config = RunConfig.model_validate({"judge": {"judges": judges}, "criteria": [{"name": "quality"}]})
    assert judge_families(config) == {"gpt-4o": "gpt", "claude-3": "claude"}
