from __future__ import annotations

import pytest

from evalkit.core.translation import in_every_language
from evalkit.plugins import iter_benchmarks
from evalkit.report.findings import findings
from evalkit.report.findings.labels import label_words
from evalkit.report.texts import metric_words
from evalkit.scoring.catalog import CATALOG, benchmark_title
from evalkit.types import Metric


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


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["pandalm/f1"], "the annotators' labels"),
        (["llmbar/mean_accuracy", "human/gap"], "the labels"),
        (["human/gap"], "the annotators' labels"),
        (["something/else"], "the labels"),
    ],
)
def test_labels_are_the_annotators_where_a_benchmark_has_such_or_annotators_are_named(names, words):
    assert in_every_language(label_words({name: Metric(name, 0.5) for name in names}))[0] == words


def test_the_number_that_a_benchmark_is_known_by_is_a_finding():
    metrics = {"judgebench/net_vote_accuracy": Metric("judgebench/net_vote_accuracy", 0.64, 0.5, 0.75, n=350)}
    (found,) = [one for one in findings(metrics, "pairwise") if one.metric.startswith("judgebench")]
    assert found.text == "By JudgeBench's own rule: accuracy by net votes 0.64 [0.50, 0.75] (n = 350)."
    assert found.text_zh == "按 JudgeBench 自身的规则：净票准确率 0.64 [0.50, 0.75] (n = 350)。"
