"""Findings on what labels are: their sample, and the rule of the run's benchmark."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.benchmark_discovery import benchmark_named
from evalkit.core.protocols import Benchmark
from evalkit.core.translation import Text, gettext
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.report.texts import metric_measure
from evalkit.scoring.catalog import CATALOG, benchmark_title
from evalkit.scoring.decision import (
    Metrics,
    known,
)


def label_words(metrics: Metrics) -> Text:
    """Return how to name the labels: annotators' only if annotators are named or the
    benchmark has such labels.
    """
    benchmarks = _benchmarks(metrics)
    named = not benchmarks and any(name.startswith("human/") for name in metrics)
    if named or any(
        getattr(benchmark, "human_labels", False) for benchmark in benchmarks
    ):
        return gettext("the annotators' labels")
    return gettext("the labels")


def label_sample(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how the labeled cases were chosen, if not at random with equal probabilities."""
    if (picked := known(metrics, "labels/picked")) is not None:
        text = gettext(
            "{rate} of the {n:,} labeled cases were picked for labeling with unknown probabilities:"
            " comparisons with labels are about the labeled cases, not about the data set."
        )
        yield finding(picked, "bad", text)
    elif (effective := known(metrics, "labels/effective")) is not None:
        text = gettext(
            "The {n:,} labeled cases were sampled, informative ones more often. Comparisons with"
            " labels are weighted, so they are about all cases, as precise as {random:.0f} labels"
            " at random.",
            random=effective.value,
        )
        yield finding(effective, "info", text)


def benchmark_finding(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield the main metric of the run's benchmark, with its interval."""
    for benchmark in _benchmarks(metrics):
        caveat: Text | str = ""
        metric = known(metrics, getattr(benchmark, "main_metric", ""))
        if (
            metric is None
            and (substitute := getattr(benchmark, "substitute", None)) is not None
        ):
            name, caveat = substitute
            metric = known(metrics, name)
        if metric is not None:
            text = gettext(
                "By {benchmark}'s own rule: {measure} {value} (n = {n:,}).{caveat}",
                benchmark=benchmark_title(benchmark),
                measure=metric_measure(metric.name),
                caveat=caveat,
            )
            yield finding(metric, "info", text)


def _benchmarks(metrics: Metrics) -> list[Benchmark]:
    """Return the benchmarks whose metrics a run has: at most one, unless metrics were
    collected from several runs.
    """
    groups = dict.fromkeys(name.partition("/")[0] for name in metrics)
    benchmarks = [
        benchmark_named(group) for group in groups if group not in CATALOG.groups
    ]
    return [benchmark for benchmark in benchmarks if benchmark is not None]
