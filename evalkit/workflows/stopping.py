"""Runs that stop once a metric is known: the random order of their cases, and when they
have asked enough.

It scores with `scoring` and plans with the evaluator; `api`, `reproduction` and `cli` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.hashing import digest
from evalkit.core.protocols import Evaluator
from evalkit.core.spool import Spool
from evalkit.core.types import Case, Judgment
from evalkit.core.values import JsonObject
from evalkit.datasets import Dataset
from evalkit.datasets.load import fingerprint
from evalkit.scoring.pipeline import verdict_statistics
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.sequences import clusters_needed
from evalkit.scoring.stats.statistic import Statistic
from evalkit.scoring.stopping import ClusterSums, can_stop

NEVER_ASKED = ("budget", "stopped")
"""Why a request was not sent although the run wanted its answer: its cluster and later ones are not
part of the run."""
STEP = 50
"""A run looks after each cluster, and from 2 * STEP clusters on after each additional 1 / STEP of
them."""


def in_random_order(
    config: RunConfig,
    cases: Sequence[Case],
    container: Callable[[Iterable[Case]], Sequence[Case]],
) -> Sequence[Case]:
    """Return the cases in a random order of their clusters, by the hash of the seed and
    of each cluster's first case.

    Args:
        config: the run's config; without `runner.stop`, the order is unchanged.
        cases: the cases.
        container: makes a sequence of the cases.

    Raises:
        ConfigError: if no case has the cluster column.
    """
    if config.runner.stop is None or not len(cases):
        return cases
    cluster = Clusters.of(config, cases).of_rows(np.arange(len(cases)))
    # cluster number -> position of its first case
    first = np.unique(cluster, return_index=True)[1]
    # The argsort of an argsort: cluster number -> its rank in the order of the hashes.
    rank = np.argsort(
        np.argsort(
            [
                digest(["stop", config.runner.stop.seed, cases[i].id])
                for i in first.tolist()
            ]
        )
    )
    return container(
        # Stable, so that the cases of a cluster stay together in their own order.
        cases[i]
        for i in np.argsort(rank[cluster], kind="stable").tolist()
    )


def with_stop(config: RunConfig, cases: Sequence[Case]) -> RunConfig:
    """Return a config with the largest count of a cluster in the data, if it stops.

    Raises:
        ConfigError: if its metric cannot stop a run of these cases, or any interval of it is narrow
            enough.
    """
    if (stop := config.runner.stop) is None:
        return config
    countable = _sums(config, cases)
    able = [name for name, sums in countable.items() if sums.counts.any()]
    if stop.metric not in able:
        if stop.metric in countable:
            why = "nothing to count in these cases"
        else:
            why = "it cannot stop a run"
        remedy = f"these can: {', '.join(able)}"
        raise ConfigError(why, where=f"runner.stop.metric={stop.metric}", remedy=remedy)
    low, high = countable[stop.metric].ends
    if stop.width >= high - low:
        problem = f"every interval is that narrow: {stop.metric} is between {low:g} and {high:g}"
        raise ConfigError(
            problem,
            where=f"runner.stop.width={stop.width:g}",
            remedy=f"set less than {high - low:g}",
        )
    return config.with_(
        {"runner.stop.largest": int(max(countable[name].counts.max() for name in able))}
    )


def span_of_stop(config: RunConfig, cases: Sequence[Case]) -> float:
    """Return the distance of the lowest and the highest value of the metric that stops a run.

    Args:
        config: the config of a run that stops, checked by `with_stop`.
        cases: its cases.
    """
    assert config.runner.stop is not None
    low, high = _sums(config, cases)[config.runner.stop.metric].ends
    return high - low


def first_clusters(
    config: RunConfig, cases: Sequence[Case], count: int
) -> Sequence[Case]:
    """Return the cases of the first `count` clusters in random order, of a run that stops."""
    ordered = in_random_order(config, cases, list)
    cluster = Clusters.of(config, ordered).of_rows(np.arange(len(ordered)))
    # `cluster` is in ascending order, so this is the first position of cluster `count`.
    return ordered[: int(np.searchsorted(cluster, count))]


def _sums(config: RunConfig, cases: Sequence[Case]) -> dict[str, ClusterSums]:
    """Return the metrics that can stop a run, without any judgment."""
    clusters = Clusters.of(config, cases)
    return {
        statistic.name: ClusterSums.of(statistic, clusters)
        for statistic in _statistics(_plain(config), cases, (), clusters)
    }


def _plain(config: RunConfig) -> RunConfig:
    """Return a config without the rule of a benchmark, which may need all cases."""
    if config.dataset.benchmark is None:
        return config
    return config.with_({"dataset.benchmark": None})


def _statistics(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: Sequence[Judgment],
    clusters: Clusters,
) -> list[Statistic]:
    """Return the metrics of these cases that can stop a run."""
    measures = verdict_statistics(config, cases, judgments, clusters)
    return [
        statistic
        for statistic in measures
        if isinstance(statistic, Statistic) and can_stop(statistic)
    ]


def check_clusters(config: RunConfig, before: RunConfig) -> None:
    """Check the settings of a run that is scored again.

    Raises:
        ConfigError: if it stops, and its clusters differ from those that were judged in random
            order.
    """
    if (
        config.runner.stop is not None
        and config.scoring.cluster != before.scoring.cluster
    ):
        problem = (
            "the clusters of a run that stops cannot be changed: "
            "they were judged in random order"
        )
        raise ConfigError(
            problem, where="scoring.cluster", remedy="run again with other clusters"
        )


class StopRule:
    """Decides when a run has asked enough, from complete clusters in their random order.

    Answers to later clusters may come first. They wait until all before them are complete, so the
    stop does not depend on which answers are fast. A cluster counts once every request about its
    cases was answered or has failed.

    Attributes:
        settled: whether the metric is known to its width.

    Args:
        config: the run's config, by `with_stop`.
        cases: its cases, by `in_random_order`.
        evaluator: plans their requests.
    """

    def __init__(
        self, config: RunConfig, cases: Sequence[Case], evaluator: Evaluator
    ) -> None:
        """Number the clusters in the order of the cases; none is scored yet."""
        assert config.runner.stop is not None
        assert config.runner.stop.largest is not None
        self._config = _plain(config)
        self._stop = config.runner.stop
        self._largest = config.runner.stop.largest
        self._cases, self._evaluator = cases, evaluator
        self._place = {case.id: position for position, case in enumerate(cases)}
        self._cluster = Clusters.of(config, cases).of_rows(np.arange(len(cases)))
        # cluster -> position after its last case; the cases are in the order of their clusters
        self._ends = np.searchsorted(
            self._cluster, np.arange(self._cluster[-1] + 1), side="right"
        )
        # position of a case -> its judgments, until its cluster is scored
        self._waiting: dict[int, Sequence[Judgment]] = {}
        # `_reached` counts cases from the start without a gap; `_scored` counts clusters whose
        # values are in `_sums`.
        self._reached = self._scored = 0
        self._checked = -1
        self._cut = len(self._ends)
        # The next number of clusters to look at; with fewer, no values could give an interval
        # that is narrow enough.
        self._look = clusters_needed(self._stop.width, config.scoring.confidence, 0.0)
        self._sums: ClusterSums | None = None
        self.settled = False

    def __call__(self, case: Case, judgments: Sequence[Judgment]) -> bool:
        """Take all judgments of a case; return whether no more cases are needed."""
        position = self._place[case.id]
        self._waiting[position] = judgments
        if any(judgment.error_kind in NEVER_ASKED for judgment in judgments):
            # The budget ended in this cluster: it and all later ones are not part of the run,
            # since which of them have answers is not random.
            self._cut = min(self._cut, int(self._cluster[position]))
        while self._reached < len(self._cases) and self._is_complete(self._reached):
            self._reached += 1
        # The interval holds at every look, so looking often costs no error rate.
        while not self.settled and self._look <= self.complete:
            self._add_values(self._look)
            assert self._sums is not None
            low, high = self._sums.interval(
                self._look, self._largest, self._config.scoring.confidence
            )
            self.settled = high - low <= self._stop.width
            if not self.settled:
                self._look += max(1, self._look // STEP)
        return self.settled or self.complete >= self._cut

    @property
    def complete(self) -> int:
        """The number of complete clusters before the first that is not."""
        return min(
            int(np.searchsorted(self._ends, self._reached, side="right")), self._cut
        )

    @property
    def cases(self) -> Sequence[Case]:
        """The cases that are part of the run: those of the clusters up to the stop, and
        of at least one.
        """
        clusters = self._look if self.settled else max(1, self.complete)
        return self._cases[: int(self._ends[clusters - 1])]

    def part(
        self, dataset: Dataset, judgments: Sequence[Judgment], folder: Path
    ) -> tuple[Dataset, Sequence[Judgment], JsonObject]:
        """Return the data and the judgments that are part of the run, and the entry of the
        manifest on the cases that are not.

        Args:
            dataset: the data, with all cases.
            judgments: all judgments, in case order.
            folder: the folder for a temporary file of many judgments.
        """
        cases = self.cases
        kept_judgments = takewhile(
            lambda judgment: self._place[judgment.case_id] < len(cases), judgments
        )
        late = (
            judgment
            for judgment in judgments
            if self._place[judgment.case_id] >= len(cases) and not judgment.stored
        )
        unneeded = len(self._cases) - len(cases)
        answers = sum(judgment.completion is not None for judgment in late)
        facts = {
            "not_needed": {
                "cases": unneeded,
                "answers": answers,
                "fingerprint": dataset.fingerprint,
            }
        }
        kept_dataset = replace(dataset, cases=cases, fingerprint=fingerprint(cases))
        return kept_dataset, Spool(kept_judgments, folder=folder), facts

    def _is_complete(self, position: int) -> bool:
        if position in self._waiting:
            return True
        if position != self._checked and not self._evaluator.plan(
            self._cases[position]
        ):  # nothing is asked about it
            self._waiting[position] = ()
            return True
        self._checked = position
        return False

    def _add_values(self, clusters: int) -> None:
        """Add the values of the metric for the clusters up to the first `clusters`, which is more
        than before.

        A cluster is a group of cases that are not independent, such as those of one prompt.
        """
        # Only the clusters since the last look: each judgment is scored once.
        positions = range(
            int(self._ends[self._scored - 1]) if self._scored else 0,
            int(self._ends[clusters - 1]),
        )
        cases = [self._cases[position] for position in positions]
        judgments = [
            judgment
            for position in positions
            for judgment in self._waiting.pop(position)
        ]
        # case -> its cluster among those of this part
        number = self._cluster[positions.start : positions.stop] - self._scored
        part = Clusters(len(cases), clusters - self._scored, number)
        statistics = _statistics(self._config, cases, judgments, part)
        sums = ClusterSums.of(
            next(
                statistic
                for statistic in statistics
                if statistic.name == self._stop.metric
            ),
            part,
        )
        if self._sums is not None:
            sums = self._sums.joined(sums)
        self._sums = sums
        self._scored = clusters
