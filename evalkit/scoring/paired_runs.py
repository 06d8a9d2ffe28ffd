"""Runs on the cases that all of them have, and two runs' verdicts side by side."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.splits import without_labels
from evalkit.core.spool import ReorderedSequence
from evalkit.core.types import Case, Judgment, Verdict
from evalkit.core.values import frozen
from evalkit.scoring.columns import CODES, NONE
from evalkit.scoring.decision import Metrics
from evalkit.scoring.run_protocol import FinishedRun
from evalkit.scoring.stats.arrays import Floats, Ints, group_mean
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired import Lead
from evalkit.scoring.stats.statistic import Statistic, Tally
from evalkit.scoring.verdict_rules import cascade_of

T = TypeVar("T")


ACCURACY, SCORE, ERROR = "agreement/accuracy", "score/mean", "agreement/error"


@frozen
class RunEntry:
    """A run to compare.

    Attributes:
        name: its name in the comparison.
        config: its config.
        cases: its cases.
        judgments: its judgments.
        metrics: its metrics on all of its cases; empty if they are not needed.
    """

    name: str
    config: RunConfig
    cases: Sequence[Case]
    judgments: Sequence[Judgment]
    metrics: Metrics = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, name: str, result: FinishedRun) -> RunEntry:
        """Return a finished run."""
        return cls(name, result.config, result.cases, result.judgments, result.metrics)

    @property
    def stop(self) -> str:
        """The metric that may stop the run; empty if none may."""
        if self.config.runner.stop is None:
            return ""
        return self.config.runner.stop.metric

    def on(self, cases: Sequence[Case]) -> RunEntry:
        """Return the run on some of its cases, which may have other labels.

        A cascade keeps the thresholds that all of its labels chose, and these labels are in no
        metric.
        """
        kept = {case.id for case in cases}
        some = replace(
            self,
            cases=cases,
            judgments=_kept(self.judgments, lambda judgment: judgment.case_id in kept),
        )
        if not self.config.judge.calibrates:
            return some
        cascade = cascade_of(
            self.config,
            self.cases,
            self.judgments,
            Clusters.of(self.config, self.cases),
        )
        chose = {
            case.id for case, dev in zip(self.cases, cascade.dev, strict=True) if dev
        }
        blind = [without_labels(case) if case.id in chose else case for case in cases]
        return replace(some, config=cascade.fixed(self.config), cases=blind)


def pair_runs(
    runs: Sequence[RunEntry], *, same: bool = True
) -> tuple[list[RunEntry], dict[str, int]]:
    """Return the runs on the cases that all of them have, in the order of the first
    run, and how many others each has.

    Each run keeps its own cases: their checklists and classes may differ between runs.

    Args:
        runs: the runs.
        same: whether to check that the cases are the same.

    Raises:
        ConfigError: if there are fewer than two runs, two have the same name, they share no case,
            or a case differs.
    """
    names = [entry.name for entry in runs]
    if len(runs) < 2 or len(set(names)) < len(names):
        raise ConfigError(
            "a comparison needs at least two different runs", where=", ".join(names)
        )
    # [run]: case id -> its position in that run
    run_positions = [
        {case.id: position for position, case in enumerate(entry.cases)}
        for entry in runs
    ]
    shared = _kept(
        runs[0].cases,
        lambda case: all(case.id in positions for positions in run_positions),
    )
    if not shared:
        raise ConfigError(
            "the runs share no case",
            where=", ".join(names),
            remedy="compare runs of one dataset",
        )
    paired = []
    for entry, positions in zip(runs, run_positions, strict=True):
        cases = ReorderedSequence(entry.cases, [positions[case.id] for case in shared])
        if same:
            _check_same_contents(shared, cases, runs[0], entry)
        paired.append(entry.on(cases))
    return paired, {entry.name: len(entry.cases) - len(shared) for entry in runs}


def _kept(values: Sequence[T], holds: Callable[[T], bool]) -> Sequence[T]:
    """Return the values that meet the condition, by index, because there may be too
    many to hold.
    """
    positions = array(
        "q", (position for position, value in enumerate(values) if holds(value))
    )
    if len(positions) == len(values):
        return values
    return ReorderedSequence(values, positions)


def _check_same_contents(
    shared: Sequence[Case],
    counterparts: Sequence[Case],
    first: RunEntry,
    second: RunEntry,
) -> None:
    """Check that two runs judged the same prompts, responses and labels.

    Args:
        shared: the cases of the first run that the second one has, too.
        counterparts: those of the second run, in the same order.
        first: the first run.
        second: the second run.

    Raises:
        ConfigError: if a case differs.
    """
    for case, counterpart in zip(shared, counterparts, strict=True):
        contents = zip(
            ("prompt", "responses", "label"),
            _content(case),
            _content(counterpart),
            strict=True,
        )
        for part, expected, actual in contents:
            if expected != actual:
                raise ConfigError(
                    f"its {part} differs between {first.name} and {second.name}",
                    where=f"case '{case.id}'",
                    remedy="compare runs of one dataset",
                )


def _content(case: Case) -> tuple[object, ...]:
    texts = [response.text for response in case.responses]
    return (
        (case.prompt, case.context, case.reference),
        texts,
        (case.label, [r.grade for r in case.responses]),
    )


@frozen
class PairedVerdicts:
    """A run's verdicts: on pairs in an order that is the same in every run, and on
    responses if there are any.

    If the rubric has classes, each response takes the place of a pair, with its classes as label
    and winner.

    Attributes:
        pairs: the case of each pair.
        label: (pairs,) the labels.
        winner: (pairs,) the winners; NONE also for an abstention.
        responses: the case of each response.
        score: (responses,) the scores in units of the judge's scale, NaN if missing.
        grade: (responses,) the grades, NaN if missing.
        clusters: the clusters of the cases.
    """

    pairs: Tally
    label: Ints
    winner: Ints
    responses: Tally
    score: Floats
    grade: Floats
    clusters: Clusters

    @classmethod
    def of(
        cls, entry: RunEntry, verdicts: Sequence[Verdict], clusters: Clusters
    ) -> PairedVerdicts:
        """Return the verdicts of a run."""
        positions = {case.id: position for position, case in enumerate(entry.cases)}
        # Verdicts on pairs name a winner, those on single responses a class.
        size = 2
        codes = dict[Any, int](CODES)
        classes = entry.config.rubric.classes
        if classes:
            size = 1
            codes = {name: code for code, name in enumerate(classes)}
            codes[None] = NONE
        # Normalized scores and ranks have no unit that two runs share.
        in_units = entry.config.scoring.normalize == "none" and all(
            len(judgment.unit) == 1 for judgment in entry.judgments
        )
        # Rows: position of the case, code of the label, code of the winner or class.
        decided = []
        # Rows: position of the case, score, grade.
        scored = []
        for verdict in verdicts:
            position = positions[verdict.case_id]
            if len(verdict.unit) == size:
                decision = codes[verdict.winner or verdict.class_name]
                decided.append((position, codes.get(verdict.label, NONE), decision))
            if len(verdict.unit) == 1 and in_units:
                grade = verdict.label if isinstance(verdict.label, float) else None
                scored.append((position, verdict.score, grade))
        case, label, winner = np.array(decided, dtype=np.int64).reshape(-1, 3).T
        response, score, grades = np.array(scored, dtype=np.float64).reshape(-1, 3).T
        tally = Tally(case, len(entry.cases))
        return cls(
            tally,
            label,
            winner,
            tally.of(response.astype(np.int64)),
            score,
            grades,
            clusters,
        )

    def statistics(self, span: float) -> list[Statistic]:
        """Return `agreement/error` if responses have scores and grades: their mean
        absolute difference.

        Args:
            span: the largest possible difference.
        """
        graded = np.isfinite(self.grade)
        if not graded.any():
            return []
        read = graded & np.isfinite(self.score)
        limits = (0.0, span) if np.isfinite(span) else None
        why = "no graded response has a score"
        return [
            self.responses.mean(
                ERROR,
                np.abs(self.score - self.grade),
                read,
                graded & ~read,
                limits=limits,
                why=why,
            )
        ]

    def by_cluster(self, name: str) -> Floats:
        """Return each cluster's mean score or mean absolute difference from the grades,
        NaN without values.
        """
        values = self.score if name == SCORE else np.abs(self.score - self.grade)
        return group_mean(
            self.clusters.of_rows(self.responses.case), values, self.clusters.count
        )

    @property
    def right(self) -> Ints:
        """For each labeled pair whether the run is correct: 1, 0, or the code NONE."""
        return np.where(
            (self.winner == NONE) | (self.label == NONE),
            NONE,
            self.winner == self.label,
        )

    def accuracy_lead(self, rival: PairedVerdicts) -> tuple[Lead, Statistic]:
        """Return the lead of this run over another in correct pairs, and its mean over
        labeled pairs read by both.

        The bounds assume that every missing verdict is wrong here and correct there, and the
        reverse. Pairs that chose the thresholds of a cascade have no label in its run.
        """
        lead = Lead.of(self.right, rival.right, NONE, self.pairs, self.clusters)
        labeled = (self.label != NONE) & (rival.label != NONE)
        right = self.right[labeled]
        rival_right = rival.right[labeled]
        # The bounds: a missing verdict is wrong here and right there, and the reverse.
        worst = []
        for end in (0, 1):
            here = np.where(right == NONE, end, right)
            there = np.where(rival_right == NONE, 1 - end, rival_right)
            worst.append(float((here - there).mean()))
        low, high = worst
        why = "no labeled pair has a verdict in both"
        unread = labeled & ~lead.read
        return lead, lead.mean(
            ACCURACY, unread=unread, worst=(low, high), limits=(-1.0, 1.0), why=why
        )

    @property
    def scored(self) -> bool:
        """Whether responses have scores in units of the judge's scale."""
        return bool(np.isfinite(self.score).any())
