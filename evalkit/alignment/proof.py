"""The proof of a better judge: the difference on labels that no search has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isnan, log2, sqrt
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from evalkit.alignment.criteria import (
    RESAMPLES,
)
from evalkit.alignment.search import (
    Candidate,
    Side,
    agreement,
    obstacle,
)
from evalkit.config import refuse_cascade
from evalkit.config.align import AlignConfig, Knob
from evalkit.core.errors import ConfigError
from evalkit.core.splits import Side as SideName
from evalkit.core.splits import Split, remedy_for_few, without_labels
from evalkit.core.types import Case, Metric
from evalkit.datasets.load import fingerprint
from evalkit.runs import layout
from evalkit.runs.results import RunResult
from evalkit.scoring.compare import Difference, compare_runs
from evalkit.scoring.decision import (
    SCORES,
    Decision,
    VerdictKind,
    decide,
    kind_of,
    known,
)
from evalkit.scoring.decision import labels as label_count
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import score_run, verdict_statistics
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired import smallest_detectable, smallest_gain
from evalkit.scoring.stats.statistic import Statistic
from evalkit.workflows.holdout import (
    read_held_out,
    read_split,
    split_cases,
)

Outcome: TypeAlias = Literal[
    "reached", "none", "proposed", "unpaid", "unproved", "worse", "improved"
]


AFTER, BEFORE = "after", "before"


SIDES: Final[tuple[SideName, ...]] = ("train", "dev", "test")


STRICTER: Final = 4
"""The level of a test of rank correlations is divided by it: resamples of few scores are too
alike."""
LABEL: Final = "label cases: evalkit label"
ANSWER: Final = (
    "run it again for missing answers, or see in its report why they cannot be used"
)


@dataclass(frozen=True, slots=True)
class Proof:
    """The run's own settings and the chosen ones on one side.

    Attributes:
        before: the agreement with the run's own settings.
        after: the agreement with the chosen ones.
        difference: after minus before, paired.
        decisions: what may be concluded before and after.
        changed: how many units are right in only one of them; `None` for scores.
    """

    before: Metric
    after: Metric
    difference: Difference
    decisions: tuple[Decision, Decision]
    changed: int | None = None

    @property
    def gain(self) -> Metric:
        """The difference with its interval."""
        return self.difference.metric


@dataclass(frozen=True)
class Labels:
    """What an alignment of a run can use: the split of its cases, and the metric of agreement."""

    result: RunResult
    folder: Path
    split: Split
    kind: VerdictKind
    metric: str

    @classmethod
    def of(cls, result: RunResult, folder: Path, settings: AlignConfig) -> Labels:
        """Return the labels of a run; a split in its folder is used, and nothing is written.

        Raises:
            ConfigError: if there are too few labels, the split in the folder is of other cases or
                does not have each case once, or labels choose the thresholds of a cascade.
        """
        refuse_cascade(
            result.config,
            f"fix them as in cascade.json: evalkit score {folder} judge.thresholds=[…]",
        )
        split = read_split(folder)
        if split is None:
            split = split_cases(
                result.config, result.cases, share=settings.test, seed=settings.seed
            )
        # Sides are by case: of other cases, nobody knows which labels have been seen.
        elif split.data != fingerprint(map(without_labels, result.cases)):
            remedy = f"restore {layout.CASES}, or remove the file"
            raise ConfigError(
                "is the split of other cases",
                where=str(folder / layout.SPLIT),
                remedy=remedy,
            )
        # A case on two sides would be both searched and proved on.
        elif sorted((*split.train, *split.dev, *split.test)) != sorted(
            case.id for case in result.cases
        ):
            problem, remedy = "its sides do not have each case once", "restore the file"
            raise ConfigError(problem, where=str(folder / layout.SPLIT), remedy=remedy)
        kind = kind_of(result.metrics)
        names = kind.agreement
        metric = next((name for name in names if known(result.metrics, name)), None)
        if metric is None:
            counted = next(
                (result.metrics[name] for name in names if name in result.metrics), None
            )
            raise without_agreement(counted, kind, str(folder), LABEL)
        labels = cls(result, folder, split, kind, metric)
        # Too few labels must show before anything is paid.
        for name in SIDES:
            side = labels.side(name)
            scored = verdict_statistics(result.config, side.cases, side.judgments)
            row = next(
                (statistic for statistic in scored if statistic.name == metric), None
            )
            if row is None:
                counted = None
            else:
                counted = Metric(metric, None, n=row.n, missing=row.missing)
            if counted is None or not counted.n:
                raise without_agreement(
                    counted, kind, f"{folder}, {name}", labels.remedy()
                )
        return labels

    def side(self, name: SideName, *, labeled: bool = False) -> Side:
        """Return the cases of a side; those of test have their labels.

        Args:
            name: the side.
            labeled: whether to omit cases without labels.

        Raises:
            ConfigError: if the file of held-out labels is damaged.
        """
        ids = self.split.ids(name)
        # Held-out labels are not in the run's cases, but in a file of their own.
        held = self._held if name == "test" else {}
        cases = [
            held.get(case.id, case) for case in self.result.cases if case.id in ids
        ]
        kept = {case.id for case in cases}
        side = Side(
            cases,
            [
                judgment
                for judgment in self.result.judgments
                if judgment.case_id in kept
            ],
        )
        if labeled:
            return side.labeled()
        return side

    @cached_property
    def _held(self) -> Mapping[str, Case]:
        if self.split.held_out:
            return {case.id: case for case in read_held_out(self.folder)}
        return {}

    def clusters(self, *names: SideName, answered: bool = False) -> int:
        """Return the number of labeled clusters of sides, or of those with a usable answer."""
        sides = [self.side(name, labeled=True) for name in names]
        usable = {
            judgment.case_id
            for side in sides
            for judgment in side.judgments
            if judgment.readable
        }
        ids = {
            case.id
            for side in sides
            for case in side.cases
            if not answered or case.id in usable
        }
        return self._clusters.covered(
            np.array([case.id in ids for case in self.result.cases])
        )

    @cached_property
    def _clusters(self) -> Clusters:
        return Clusters.of(self.result.config, self.result.cases, self.split.by)

    def remedy(self) -> str:
        """Return what to do about too few labels, or about too few answers to labeled cases."""
        if self.clusters(*SIDES, answered=True) < self.clusters(*SIDES):
            return ANSWER
        return remedy_for_few(
            self.split.by, all_labeled=self.clusters(*SIDES) == self._clusters.count
        )

    def obstacles(self, tune: Sequence[Knob]) -> dict[Knob, str]:
        """Return the settings to tune that cannot change anything, and why.

        Raises:
            ConfigError: if that is all of them.
        """
        reasons = {
            knob: obstacle(knob, self.result.config, self.kind, self.result.judgments)
            for knob in tune
        }
        obstacles = {
            knob: reason for knob, reason in reasons.items() if reason is not None
        }
        if len(obstacles) == len(tune):
            reason = "; ".join(f"{knob}: {text}" for knob, text in obstacles.items())
            raise ConfigError(
                f"nothing can be tuned ({reason})",
                where="tune",
                remedy="choose other settings",
            )
        return obstacles

    def provable(self, name: SideName = "test", tests: int = 1) -> float | None:
        """Return the smallest gain that the answered labels of a side could probably
        prove, `None` if that is none.

        For correlations, it assumes that of dev, and that half of its error is common to both
        judges.

        Args:
            name: the side.
            tests: the number of candidates, for which the confidence is adjusted.
        """
        n = self.clusters(name, answered=True)
        # With several tests, each one is stricter (Bonferroni).
        confidence = 1 - (1 - self.result.config.scoring.confidence) / tests
        if self.kind is not SCORES:
            gain = None if self.is_one_class(name) else smallest_gain(n, confidence)
            if gain is None:
                return None
            # A gain in correct verdicts, converted to kappa.
            return gain * self._beyond_chance()
        value = agreement(self.result.config, self.kind, self.side("dev", labeled=True))
        if n > 1 and abs(value) < 1:
            # (1 - r^2) / sqrt(n) is the standard error of a correlation.
            return smallest_detectable((1 - value**2) / sqrt(n), confidence, 1)
        return None

    def is_one_class(self, name: SideName) -> bool:
        """Return whether a judge that always gives the same verdict would be right on a side."""
        value = self._observed(name).get(self.metric)
        return self.kind is not SCORES and value is not None and isnan(value)

    def _beyond_chance(self) -> float:
        """Return the gain in agreement beyond chance for one in the share of correct
        verdicts, as on dev.
        """
        values = self._observed("dev")
        kappa = values.get(self.metric, 0.0)
        share = values.get(self.kind.share or "", 1.0)
        if share < 1 and not isnan(kappa):
            # kappa = (share - chance) / (1 - chance), so its slope is 1 / (1 - chance), which
            # equals this ratio.
            return (1 - kappa) / (1 - share)
        return 1.0

    def _observed(self, name: SideName) -> dict[str, float]:
        """Return the values of the run's own settings on a side, by metric; NaN if undefined."""
        side = self.side(name)
        scored = verdict_statistics(self.result.config, side.cases, side.judgments)
        return {
            row.name: row.observed() for row in scored if isinstance(row, Statistic)
        }


def without_agreement(
    counted: Metric | None, kind: VerdictKind, where: str, remedy: str
) -> ConfigError:
    """Return the error of cases without agreement: labels, answers to labeled cases, or
    different scores are missing.

    Args:
        counted: the agreement, which counts labels with and without a usable answer; `None` without
            labels.
        kind: what the labels are about.
        where: the run, side and settings.
        remedy: what to do if there are labels too few.
    """
    n = label_count(counted)
    if counted is None or not n:
        return ConfigError(
            f"no {kind.unit} that the judge decides has a label",
            where=where,
            remedy=remedy,
        )
    if not counted.n:
        problem = (
            f"{n} {kind.unit}{'s have' if n > 1 else ' has'} a label, and none has a"
            " usable answer"
        )
        return ConfigError(problem, where=where, remedy=ANSWER)
    problem = f"{counted.name} has no value on {n} labeled {kind.unit}s: {counted.note}"
    return ConfigError(
        problem, where=where, remedy="align needs labels and scores that differ"
    )


def prove(
    labels: Labels, chosen: Candidate, before: Side, after: Side, *, side: SideName
) -> Proof:
    """Compare the chosen settings with the run's own on one side, paired by case.

    Args:
        labels: The run, the kind of its labels and the metric.
        chosen: The chosen settings.
        before: The answers under the run's own settings.
        after: The answers under the chosen ones.
        side: The name of the side, for an error.

    Raises:
        ConfigError: If the metric is not known under one of the settings.
    """
    config = labels.result.config
    entries = [
        RunEntry(AFTER, chosen.of(config), after.cases, after.judgments),
        RunEntry(BEFORE, config, before.cases, before.judgments),
    ]
    # before, then after
    metrics = [
        score_run(entry.config, entry.cases, entry.judgments).metrics
        for entry in reversed(entries)
    ]
    for run_metrics, settings in zip(
        metrics, ("the run's own settings", "the chosen settings"), strict=True
    ):
        if known(run_metrics, labels.metric) is None:
            counted = run_metrics.get(labels.metric)
            raise without_agreement(
                counted,
                labels.kind,
                f"{labels.folder}, {side}, {settings}",
                labels.remedy(),
            )
    scoring = config.scoring.with_(
        {"bootstrap": max(config.scoring.bootstrap, RESAMPLES)}
    )
    comparison = compare_runs(entries, scoring, [labels.metric])
    decision_before, decision_after = (
        decide(run_metrics, config.scoring.confidence) for run_metrics in metrics
    )
    difference = comparison.difference(labels.metric)
    assert difference is not None, "one judge's scale is the same before and after"
    value_before = comparison.metrics(BEFORE)[labels.metric]
    value_after = comparison.metrics(AFTER)[labels.metric]
    share = labels.kind.share
    right = None if share is None else comparison.difference(share)
    changed = None
    if right is not None and right.only_first is not None:
        changed = right.only_first + (right.only_second or 0)
    decisions = (decision_before, decision_after)
    return Proof(value_before, value_after, difference, decisions, changed)


def outcome_of(test: Proof, confidence: float) -> Outcome:
    """Return what test labels show: a difference by its interval and by the paired test.

    Both are of the agreement beyond chance. So few changed units that no test of signs could be
    significant show nothing: resamples of few units are too much alike.
    """
    gain = test.gain
    # The interval and the test must both show it, as each has its weakness with few labels.
    p = test.difference.p
    alpha = 1 - confidence
    if test.changed is None:
        alpha /= STRICTER
    # n changed units have a two-sided p of 2 ** (1 - n) at least
    fewest = ceil(log2(2 / (1 - confidence)) - 1e-9)
    if test.changed is not None and test.changed < fewest:
        return "unproved"
    if (
        gain.low is None
        or gain.high is None
        or p is None
        or p > alpha
        or gain.low <= 0 <= gain.high
    ):
        return "unproved"
    if gain.low > 0:
        return "improved"
    return "worse"


def difference_of(first: Metric, second: Metric) -> Metric:
    """Return the difference of two independent metrics, with an interval from theirs.

    The method of variance estimates recovery (Zou and Donner 2008, Statist. Med. 27, 1693-1702,
    equation 8).
    """
    value = (first.value or 0.0) - (second.value or 0.0)
    if None in (first.low, first.high, second.low, second.high):
        return Metric("optimism", value, n=min(first.n, second.n))
    # Both intervals: [a, b] around x, and [c, d] around y.
    (a, b), (c, d) = ((m.low or 0.0, m.high or 0.0) for m in (first, second))
    x = first.value or 0.0
    y = second.value or 0.0
    low = value - sqrt((x - a) ** 2 + (d - y) ** 2)
    high = value + sqrt((b - x) ** 2 + (y - c) ** 2)
    return Metric("optimism", value, low, high, n=min(first.n, second.n))
