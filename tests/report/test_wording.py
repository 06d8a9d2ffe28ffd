from __future__ import annotations

import pytest

from evalkit.plugins import iter_benchmarks
from evalkit.report.texts import metric_words
from evalkit.scoring.catalog import CATALOG, benchmark_title


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
def test_metrics_have_names_for_people(name, english):
    assert metric_words(name)[0] == english


def test_every_benchmark_has_a_title_and_a_number_that_it_is_known_by():
    for benchmark in iter_benchmarks():
        assert benchmark_title(benchmark)
        assert CATALOG.is_headline(benchmark.main_metric)  # type: ignore[attr-defined]
        assert benchmark.main_metric.startswith(f"{benchmark.name}/")  # type: ignore[attr-defined]
    assert metric_words("summeval/coherence/system/kendall")[1] == "SummEval：连贯性，系统级，Kendall τ 相关"
