"""Votes that are fitted without labels: intervals of what depends on them, with the
vote fitted again in each resample.

A verdict depends only on the pattern of the judges' votes and on the fit, so that the counts of
each pattern and label give every share of verdicts and agreement with labels under any fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from evalkit.core.types import Metric
from evalkit.core.values import frozen
from evalkit.scoring.columns import (
    NONE,
    ClassColumns,
    PairColumns,
    Units,
    VerdictColumns,
)
from evalkit.scoring.judgments import ABSTAINED, MISSING, SPLIT
from evalkit.scoring.metrics.agreement import agreement_statistics, confusion_statistics
from evalkit.scoring.metrics.classes import class_statistics
from evalkit.scoring.metrics.rates import tie_statistics
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints
from evalkit.scoring.stats.dawid_skene import VotePatterns
from evalkit.scoring.stats.statistic import SharedStatistic, Statistic, Table, Tally
from evalkit.scoring.verdicts.classes import elect
from evalkit.scoring.verdicts.panel import CLASSES, Panel, winners_of

MOST: Final = 1000
"""With more patterns of votes than this, the vote is not fitted again, because that would take
minutes."""


@frozen
class FittedVote:
    """A panel's vote that can be fitted again.

    Attributes:
        patterns: the patterns of the judges' votes.
        tally: the case of each unit.
        labels: (units,) the index of each unit's label in `codes`, or their number without a label.
        decide: maps probabilities (codes, n) and whether there is a quorum (n,) to verdicts (n,).
        quorum: (patterns,) whether the pattern has a quorum.
        verdicts: every verdict that there can be.
        cells: the per-cell columns of each statistic, for each label or none and each verdict.
    """

    patterns: VotePatterns
    tally: Tally
    labels: Ints
    decide: Callable[[Floats, Bools], Codes | Ints]
    quorum: Bools
    verdicts: Ints
    cells: Mapping[str, Floats]

    def statistics(
        self, measures: Sequence[Statistic | Metric], weights: Floats | None
    ) -> list[Statistic]:
        """Return the statistics that depend on labels and verdicts alone, with the vote
        fitted to each resample.

        Args:
            measures: the run's statistics.
            weights: (cases,) the weights of labeled cases; `None` without weights.
        """
        patterns = self.patterns.hot.shape[2]
        labels = self.patterns.hot.shape[1] + 1
        kept = [
            statistic
            for statistic in measures
            if isinstance(statistic, Statistic)
            and statistic.name in self.cells
            and patterns <= MOST
        ]
        # unit -> its pattern of votes and its label, as one number
        cell = self.patterns.of * labels + self.labels
        columns = [self.tally(self.patterns.of == index) for index in range(patterns)]
        counted = [self.tally(cell == index) for index in range(patterns * labels)]
        columns += (
            counted
            if weights is None
            else [*counted, *(column * weights for column in counted)]
        )
        table = Table.of(columns)

        def values(totals: Floats) -> Floats:
            """Return the value of each statistic, (rows, statistics), with the vote
            fitted again.
            """
            # shape (codes, rows, patterns)
            chances = np.moveaxis(self.patterns.fit(totals[:, :patterns]), 1, 0)
            quorum = np.tile(self.quorum, len(totals))
            verdicts = self.decide(chances.reshape(len(chances), -1), quorum).reshape(
                len(totals), patterns
            )
            # shape (rows, patterns, verdicts): 1 for the verdict of the pattern
            shares = (verdicts[:, :, None] == self.verdicts).astype(np.float64)
            # shape (rows, weightings, patterns, labels)
            counts = totals[:, patterns:].reshape(len(totals), -1, patterns, labels)
            # shape (rows, weightings, labels * verdicts)
            flat = (counts.swapaxes(2, 3) @ shares[:, None]).reshape(
                len(totals), counts.shape[1], -1
            )
            tables = [
                flat[:, 0 if statistic.weights is None else -1]
                @ self.cells[statistic.name]
                for statistic in kept
            ]
            return np.stack(
                [
                    statistic.value(table)
                    for statistic, table in zip(kept, tables, strict=True)
                ],
                axis=1,
            )

        shared = SharedStatistic(values)
        return [
            replace(
                statistic,
                columns=table,
                value=shared[index],
                covered=np.any(
                    [column != 0 for column in statistic.table.columns], axis=0
                ),
                pseudo=None,
                unread=None,
            )
            for index, statistic in enumerate(kept)
        ]


def fitted_pairs(
    panel: Panel, verdicts: VerdictColumns, judge_verdicts: Sequence[VerdictColumns]
) -> FittedVote:
    """Return the vote of a panel on pairs; ties must be allowed."""
    labels = np.repeat([*CLASSES, NONE], 4).astype(np.int8)
    possible = np.array([*CLASSES, NONE], dtype=np.int8)
    # one made-up pair for each label and verdict: the cells of their table
    cells = np.arange(16)
    alone = replace(
        verdicts,
        pairs=PairColumns(
            case=cells,
            i=cells,
            j=cells,
            label=labels,
            longer=labels,
            start=cells,
            sizes=cells,
        ),
        winner=np.tile(possible, 4),
        reason=np.zeros(16, dtype=np.int8),
        passes=None,
    )
    statistics = [
        *agreement_statistics(alone),
        *confusion_statistics(alone)[0],
        *tie_statistics(alone),
    ]
    return _fitted_vote(
        panel, verdicts, judge_verdicts, CLASSES, winners_of, possible, statistics
    )


def fitted_classes(
    panel: Panel, columns: ClassColumns, judge_verdicts: Sequence[ClassColumns]
) -> FittedVote:
    """Return the vote of a panel on classes."""
    k = len(columns.names)
    possible = np.array([*range(k), ABSTAINED, SPLIT, MISSING])
    labels = np.repeat([*range(k), ABSTAINED, MISSING], len(possible))
    # one made-up response for each label and verdict: the cells of their table
    cells = np.arange(len(labels))
    alone = replace(
        columns,
        case=cells,
        index=0 * cells,
        cases=len(cells),
        verdicts=np.tile(possible, k + 2),
        labels=labels,
        annotators={},
        probabilities=None,
        votes={},
    )

    def decide(chances: Floats, quorum: Bools) -> Ints:
        return elect(chances.T * quorum[:, None])

    return _fitted_vote(
        panel,
        columns,
        judge_verdicts,
        (*range(k), ABSTAINED),
        decide,
        possible,
        class_statistics(alone),
    )


def _fitted_vote(
    panel: Panel,
    panels: Units,
    judge_verdicts: Sequence[Units],
    codes: Sequence[int],
    decide: Callable[[Floats, Bools], Codes | Ints],
    verdicts: Codes | Ints,
    measures: Sequence[Statistic | Metric],
) -> FittedVote:
    """Return a vote that can be fitted again to resamples of units with the same labels."""
    # shape (judges, units)
    votes = np.stack([judge.codes for judge in judge_verdicts])
    labels = panels.truth
    patterns = VotePatterns.read(np.stack([votes == code for code in codes]))
    label = np.where(
        np.isin(labels, codes), np.equal.outer(labels, codes).argmax(axis=1), len(codes)
    )
    statistics = [
        statistic
        for statistic in measures
        if isinstance(statistic, Statistic) and statistic.table.columns
    ]
    # shape (label and verdict, columns of the statistic)
    cells = {
        statistic.name: np.stack(statistic.table.columns, axis=1, dtype=np.float64)
        for statistic in statistics
    }
    quorum = panel.has_quorum(np.asarray(patterns.hot.any(axis=1), dtype=bool))
    return FittedVote(
        patterns=patterns,
        tally=panels.tally,
        labels=label,
        decide=decide,
        quorum=quorum,
        verdicts=verdicts.astype(np.int64),
        cells=cells,
    )


def widened(metric: Metric, again: Metric) -> Metric:
    """Return a metric whose interval also holds that of the vote fitted again in each resample."""
    if (
        metric.low is None
        or metric.high is None
        or again.low is None
        or again.high is None
    ):
        return metric
    return replace(
        metric, low=min(metric.low, again.low), high=max(metric.high, again.high)
    )
