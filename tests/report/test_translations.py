"""Texts of reports: collected from the code, translated where somebody did, and in English elsewhere."""

from __future__ import annotations

import gettext as catalogs
import re
import runpy
import string
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po

from evalkit.benchmark_discovery import iter_benchmarks
from evalkit.config import GateConfig
from evalkit.core.translation import Text, gettext, in_every_language, joined, ngettext, pgettext, translator
from evalkit.report.findings.finding import finding
from evalkit.report.texts import metric_title, metric_words, note_words
from evalkit.scoring.catalog import CATALOG, benchmark_title, full_catalog
from evalkit.scoring.gate_rules import judge_metrics
from evalkit.types import Metric

ROOT = Path(__file__).parents[2]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "translations.py"))


COUNTS = {"n", "all"}
"""Values that a text may have beside those that its English words show."""


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def each(words: str | tuple[str, ...]) -> tuple[str, ...]:
    return words if isinstance(words, tuple) else (words,)


@pytest.mark.parametrize("path", TOOL["FILES"], ids=[path.parts[-3] for path in TOOL["FILES"]])
def test_no_placeholder_of_a_translation_is_broken_and_the_compiled_file_is_the_text_file(path: Path) -> None:
    with path.open("rb") as file:
        messages = [one for one in read_po(file, locale=path.parts[-3]) if one.id and one.string]
    for message in messages:
        allowed = COUNTS.union(*map(placeholders, each(message.id)))
        assert set().union(*map(placeholders, each(message.string))) <= allowed, message.id
    with path.with_suffix(".mo").open("rb") as compiled:
        known = [said for key, said in catalogs.GNUTranslations(compiled)._catalog.items() if key]
    expected = [said for message in messages for said in each(message.string)]
    assert sorted(known) == sorted(expected), "run python docs/translations.py"
    without = TOOL["untranslated"](TOOL["updated"](path))
    assert without == [], f"texts without a translation into {path.parts[-3]}"


def test_the_texts_of_the_code_are_collected() -> None:
    found = TOOL["template"]()
    # One with a text in a text, a plural, one of two contexts, and a metric's title.
    assert found.get("{benchmark}: {metric}")
    assert found.get("Simulated judge: {names}. No model judged; its behavior is planted.").pluralizable
    assert found.get("Ties", "finding")
    assert found.get("{criterion}: cases with a cycle")


def test_a_text_that_nobody_translated_is_in_english() -> None:
    text = gettext("A new finding about {n:,} answers.", n=1200)
    assert in_every_language(text) == ("A new finding about 1,200 answers.",) * 2
    assert finding("tie_rate", "info", text).text_zh == "A new finding about 1,200 answers."
    assert in_every_language("a name") == ("a name", "a name")
    assert translator("tlh").gettext("Ties") == "Ties"


def test_texts_stand_in_texts_and_are_rendered_in_the_language_of_the_reader() -> None:
    parts = joined([gettext("Ties"), "B", pgettext("axis", "score")])
    assert in_every_language(gettext("{judge}: {metric}", judge="x", metric=parts)) == (
        "x: Ties, B, score",
        "x：平局率，B，分值",
    )
    one, many = (ngettext("{n} case {a}", "{n} cases {a}", n).fill(a="!") for n in (1, 2))
    assert (in_every_language(one)[0], in_every_language(many)[0]) == ("1 case !", "2 cases !")
    assert in_every_language(Text("{level} interval")) == ("{level} interval", "{level} 区间")


def test_every_title_of_a_metric_is_translated_or_in_english() -> None:
    for row in full_catalog().rows:
        name = re.sub(r"\{(\w+)\}", lambda found: {"turn": "turn1", "level": "hard"}.get(found[1], "sample"), row.name)
        english, chinese = in_every_language(metric_title(name))
        assert english
        assert "{" not in english + chinese


@pytest.mark.parametrize("sign", [">=", "<="])
@pytest.mark.parametrize("number", ["value", "low", "high", "worst_low", "worst_high"])
@pytest.mark.parametrize("by", ["interval", "value"])
@pytest.mark.parametrize("ends", [(0.6, 0.9), (None, None)])
@pytest.mark.parametrize("value", [0.8, None])
def test_the_reason_of_a_ruling_is_translated(
    sign: str, number: str, by: str, ends: tuple[float | None, float | None], value: float | None
) -> None:
    metric = Metric(
        "tie_rate",
        value,
        *(ends if value else (None, None)),
        n=50,
        worst_low=ends[0],
        worst_high=ends[1],
        note="no pair has a verdict",
    )
    rules = {"tie_rate": {number: f"{sign} 0.7"}}
    if number == "value":
        rules["tie_rate"]["by"] = by
    for ruling in judge_metrics(GateConfig.model_validate(rules), {"tie_rate": metric}):
        english, chinese = note_words(ruling.why)
        assert english == ruling.why
        words = re.findall(r"[a-z]{3,}", chinese.replace("`by: value`", ""))
        assert set(words) <= {"value", "low", "high", "worst_low", "worst_high", "worst"}, chinese


@pytest.mark.parametrize(
    ("name", "english"),
    [
        ("ranking/rating/gpt-4/turbo", "gpt-4/turbo: rating"),
        ("conflict/rate/clarity", "clarity: cases with a cycle"),
        ("conflict/rate", "Cases with a cycle"),
        ("judge/one/ranking/win_rate/x", "one: x: win rate"),
        ("something/else", "something/else"),
        ("llmbar/mean_accuracy/gptinst", "LLMBar: mean accuracy of the orders, GPTInst"),
        ("mt_bench/score/vicuna-13b/turn2", "MT-Bench: score, vicuna-13b, second turn"),
        ("checklist/met_rate/tag/summary", "Items met: summary"),  # a word of SummEval, but not here
        ("judge/one/pandalm/f1", "one: PandaLM: macro F1"),
    ],
)
def test_metrics_have_names_for_people(name: str, english: str) -> None:
    assert metric_words(name)[0] == english


def test_every_benchmark_has_a_title_and_a_number_that_it_is_known_by() -> None:
    for benchmark in iter_benchmarks():
        assert benchmark_title(benchmark)
        assert CATALOG.is_headline(benchmark.main_metric)  # type: ignore[attr-defined]
        assert benchmark.main_metric.startswith(f"{benchmark.name}/")  # type: ignore[attr-defined]
    assert metric_words("summeval/coherence/system/kendall")[1] == "SummEval：连贯性，系统级，Kendall τ 相关"
