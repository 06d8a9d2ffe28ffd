"""What a run on a published benchmark came to by the benchmark's own rule, in words."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.report.benchmarkwords import PARTS, TITLES
from evalkit.report.finding import Finding, Metrics, interval, known
from evalkit.report.wording import Words

KNOWN_BY = {
    "llmbar": "mean_accuracy",
    "judgebench": "net_vote_accuracy",
    "rewardbench": "score",
    "rewardbench2": "score",
    "rm_bench": "average",
    "mt_bench": "agreement",
    "pandalm": "accuracy",
    "alpaca_eval": "length_controlled_win_rate",
    "arena_hard": "score",
    "auto_j": "agreement",
    "faireval": "accuracy",
    "halluqa": "non_hallucination_rate_strict",
    "prometheus": "pearson",
    "summeval": "overall/summary/spearman",
    "topical_chat": "overall/spearman",
    "helpsteer": "preference_accuracy",
}
"""The metric that each benchmark is known by."""
INSTEAD = {
    "alpaca_eval": (
        "win_rate",
        (
            " It is the raw one: the length-controlled one needs AlpacaEval's df_gamed.csv and all its instructions;"
            " the win rate at equal length among this run's metrics is not the leaderboard's.",
            "这是原始胜率：长度控制胜率需要 AlpacaEval 的 df_gamed.csv 及其全部指令；"
            "本次运行的等长胜率与其排行榜不可比。",
        ),
    )
}
"""What there is where a run cannot have that metric, and what to say of it."""


def benchmark_finding(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield the number that the run's benchmark is known by, with its interval."""
    for name, rest in KNOWN_BY.items():
        metric, said = known(metrics, f"{name}/{rest}"), ("", "")
        if metric is None and name in INSTEAD:
            rest, said = INSTEAD[name]
            metric = known(metrics, f"{name}/{rest}")
        if metric is not None:
            parts = [PARTS[part] for part in rest.split("/")]
            english, chinese = ", ".join(part[0] for part in parts), "，".join(part[1] for part in parts)
            number = f"{interval(metric)} (n = {metric.n:,})"
            yield Finding(
                metric.name,
                "info",
                f"By {TITLES[name]}'s own rule: {english} {number}.{said[0]}",
                f"按 {TITLES[name]} 自身的规则：{chinese} {number}。{said[1]}",
            )


OF_PEOPLE = ("mt_bench", "pandalm", "auto_j", "faireval", "summeval", "topical_chat", "helpsteer")
"""Benchmarks whose labels annotators gave; the labels of others are keys, or another model's."""


def label_words(metrics: Metrics) -> Words:
    """Return whose labels a run's are: people's only where annotators are named or the benchmark says so."""
    groups = {name.partition("/")[0] for name in metrics}
    if groups & set(OF_PEOPLE) or ("human" in groups and not groups & set(KNOWN_BY)):
        return "people's labels", "人工标注"
    return "the labels", "标注"
