"""Metrics that can stop a run, and their confidence sequences over its clusters in the
order of its cases.

A metric can stop a run if it is a mean of values with a known range, and each cluster's values
depend on no other cluster. `stops` in the catalog lists them. A missing value counts as the lowest
for the low end of an interval, and as the highest for the high end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.types import Metric
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.stats.arrays import Floats, round_metric
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.sequences import mean_sequence
from evalkit.scoring.stats.statistic import Statistic

NOTE: Final = "its interval holds at any number of clusters in random order"
OTHERS: Final = (
    "runner.stop: intervals of metrics that cannot stop a run are as if the number of cases had"
    " been fixed"
)
POINTS: Final = 60


def can_stop(metric: Statistic | Metric) -> bool:
    """Return whether a metric can stop a run."""
    if (
        not isinstance(metric, Statistic)
        or metric.unread is None
        or metric.weights is not None
    ):
        return False
    spec = CATALOG.spec(metric.name)
    return spec is not None and spec.stops and None not in metric.possible


@frozen
class ClusterSums:
    """The values of a metric by cluster.

    Attributes:
        least: (clusters,) their sums if each missing value is the lowest.
        most: (clusters,) likewise the highest.
        counts: (clusters,) their number, with missing ones.
        ends: the lowest and highest value.
    """

    least: Floats
    most: Floats
    counts: Floats
    ends: tuple[float, float]

    @classmethod
    def of(cls, statistic: Statistic, clusters: Clusters) -> ClusterSums:
        """Return the values of a metric that can stop a run."""
        low, high = statistic.possible
        assert statistic.unread is not None  # and low is not None: it can stop
        assert low is not None
        assert high is not None
        sums, counts = (clusters.sums(column) for column in statistic.table.columns)
        unread = clusters.sums(statistic.unread)
        return cls(
            sums + unread * low, sums + unread * high, counts + unread, (low, high)
        )

    def joined(self, later: ClusterSums) -> ClusterSums:
        """Return these clusters and more."""
        # shape (clusters,)
        least, most, counts = (
            np.concatenate([getattr(self, name), getattr(later, name)])
            for name in ("least", "most", "counts")
        )
        return ClusterSums(least, most, counts, self.ends)

    def interval(
        self, count: int, largest: float, confidence: float
    ) -> tuple[float, float]:
        """Return the interval after the first `count` clusters."""
        least, most, counts = (
            column[:count] for column in (self.least, self.most, self.counts)
        )
        sure = None if np.array_equal(least, most) else most
        return mean_sequence(
            least,
            counts,
            most=sure,
            ends=self.ends,
            largest=largest,
            confidence=confidence,
        )


def with_sequences(
    config: RunConfig,
    metrics: Mapping[str, Metric],
    measures: Sequence[Statistic | Metric],
    clusters: Clusters,
) -> tuple[dict[str, Metric], JsonObject]:
    """Return the metrics of a run that stops, with confidence sequences where there are
    any, and its table.

    Args:
        config: the run's config; one that does not stop has no sequences.
        metrics: the metrics by name.
        measures: the statistics behind them.
        clusters: the clusters, numbered in the order in which they were judged.
    """
    stop = config.runner.stop
    confidence = config.scoring.confidence
    if stop is None or stop.largest is None:
        return {**metrics}, {}
    results = {**metrics}
    table = JsonObject()
    for statistic in measures:
        if (
            not can_stop(statistic)
            or not isinstance(statistic, Statistic)
            or results[statistic.name].value is None
        ):
            continue
        sums = ClusterSums.of(statistic, clusters)
        low, high = (
            round_metric(end)
            for end in sums.interval(clusters.count, stop.largest, confidence)
        )
        metric = results[statistic.name]
        notes = "; ".join(note for note in (statistic.note, NOTE) if note)
        results[statistic.name] = replace(metric, low=low, high=high, note=notes)
        if statistic.name == stop.metric:
            table = {
                "metric": statistic.name,
                "width": stop.width,
                "points": _points(sums, stop.largest, confidence),
            }
    return results, {"sequence": table} if table else {}


def is_settled(config: RunConfig, metrics: Mapping[str, Metric]) -> bool:
    """Return whether the metric of `runner.stop` is known to its width."""
    if config.runner.stop is None:
        metric = None
    else:
        metric = metrics.get(config.runner.stop.metric)
    if (
        config.runner.stop is None
        or metric is None
        or metric.low is None
        or metric.high is None
    ):
        return False
    return metric.high - metric.low <= config.runner.stop.width + 1e-9


def _points(sums: ClusterSums, largest: float, confidence: float) -> list[JsonObject]:
    """Return the interval after some numbers of clusters, at even steps on a log scale."""
    total = len(sums.counts)
    points = []
    for count in np.unique(
        np.geomspace(min(10, total), total, POINTS).round().astype(int)
    ).tolist():
        low, high = sums.interval(count, largest, confidence)
        points.append(
            {"clusters": count, "low": round_metric(low), "high": round_metric(high)}
        )
    return points
