"""What a run on a published benchmark came to by the benchmark's own rule, in words."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.report.benchmarkwords import PARTS, TITLES
from evalkit.report.finding import Finding, Metrics, interval, known

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


def benchmark_finding(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield the number that the run's benchmark is known by, with its interval."""
    for name, rest in KNOWN_BY.items():
        if (metric := known(metrics, f"{name}/{rest}")) is not None:
            parts = [PARTS[part] for part in rest.split("/")]
            english, chinese = ", ".join(part[0] for part in parts), "，".join(part[1] for part in parts)
            number = f"{interval(metric)} (n = {metric.n:,})"
            yield Finding(
                metric.name,
                "info",
                f"By {TITLES[name]}'s own rule: {english} {number}.",
                f"按 {TITLES[name]} 自身的规则：{chinese} {number}。",
            )
