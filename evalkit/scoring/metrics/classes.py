"""Metrics of class verdicts: rates, agreement with labels, the confusion matrix, and
calibration by class.

A missing answer could have named any class, which the bounds cover. An abstention, and a split vote
of samples or judges, is neither missing nor a class: rates are shares of the answers that name a
class, and `class/abstained` and `class/split` are the shares of answers that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.columns import ClassColumns
from evalkit.scoring.metrics.calibration import (
    StatedConfidence,
    brier_statistic,
    ece_statistic,
)
from evalkit.scoring.stats import agreement_formulas, coefficients
from evalkit.scoring.stats.arrays import Bools, Bounds, Floats
from evalkit.scoring.stats.bounded_intervals import PseudoCounts
from evalkit.scoring.stats.coefficients import coefficients_of
from evalkit.scoring.stats.statistic import Measures, Statistic, Tabled

UNLABELED: Final = "no response has a label"
UNREAD: Final = "no labeled response has a class"
NO_CLASS: Final = "no answer names a class"
SHARE: Final = PseudoCounts(
    np.array([[1.0, 1.0], [0.0, 1.0]]), np.full(2, 0.5), np.array([0.0, 1.0])
)
"""Half a cluster with and half a cluster without: Jeffreys' interval."""
ONE_CLASS: Final = PseudoCounts(np.eye(4), np.full(4, 0.5), np.ones(4))
"""The same for a class against all others: hits, false alarms, misses and the rest."""


def class_statistics(classes: ClassColumns) -> Measures:
    """Return the metrics of one judge's or a panel's class verdicts, and of their
    agreement with labels.
    """
    labeled = LabeledClasses(classes)
    abstained = []
    if classes.abstain is not None or classes.abstained.any():
        abstained = [
            _rate(classes, "class/abstained", classes.abstained, ~classes.missing)
        ]
    return [
        *_rates(classes),
        *labeled.by_class(),
        *labeled.overall(),
        *abstained,
        *labeled.agreement(),
        *_probability_calibration(classes),
    ]


def _rates(columns: ClassColumns) -> list[Statistic]:
    """Return `class/NAME/rate`: the share of the answers that name a class whose class it is."""
    note = coverage_note(columns)
    return [
        _rate(
            columns,
            f"class/{name}/rate",
            columns.verdicts == c,
            columns.present,
            note=note,
            why=NO_CLASS,
        )
        for c, name in enumerate(columns.names)
    ]


def split_class_statistics(config: RunConfig, classes: ClassColumns) -> list[Statistic]:
    """Return `class/split`: the share of responses whose samples, or whose judges,
    contradict each other.
    """
    several = config.mode.samples > 1 or classes.votes
    if several:
        return [_rate(classes, "class/split", classes.split, ~classes.missing)]
    return []


def _rate(
    columns: ClassColumns,
    name: str,
    hit: Bools,
    among: Bools,
    note: str | None = None,
    why: str = "no answer could be read",
) -> Statistic:
    return columns.tally.rate(
        name, hit, among, columns.missing, note=note, why=why, pseudo=SHARE
    )


def coverage_note(columns: ClassColumns, rows: Bools | None = None) -> str | None:
    """Return how many of the answers, among the selected rows, name a class; `None` if all do."""
    among = ~columns.missing if rows is None else rows & ~columns.missing
    answers, abstained, split = (
        int((among & kind).sum()) for kind in (among, columns.abstained, columns.split)
    )
    if not abstained and not split:
        return None
    named = f"{answers - abstained - split} of {answers} answers name a class"
    if abstained:
        one_kind = f"{named}, the others abstain"
    else:
        one_kind = f"{named}, the others are split votes"
    if abstained and split:
        return f"{named}, the others abstain or are split votes"
    return one_kind


def _sums_of(groups: Sequence[Sequence[Floats]]) -> Floats:
    """Return the sum of each group of columns, (groups, cases)."""
    return np.array([np.sum(group, axis=0, dtype=np.float64) for group in groups])


class LabeledClasses:
    """The confusion matrix of labels and verdicts by case, and the metrics that follow from it."""

    def __init__(self, columns: ClassColumns) -> None:
        """Count the labels and the verdicts of each class, by case."""
        self._columns = columns
        self._k = len(columns.names)
        self._confusion = columns.confusion(range(self._k))
        # [label * k + verdict]: (cases,) how often the label has the verdict.
        cells = self._confusion.cells.columns
        by_label = [cells[c * self._k : (c + 1) * self._k] for c in range(self._k)]
        by_verdict = [cells[c :: self._k] for c in range(self._k)]
        # (classes, cases) the number of each label and of each verdict.
        self._labels = _sums_of(by_label)
        self._verdicts = _sums_of(by_verdict)
        self.unread = self._confusion.unread
        self._note = coverage_note(columns, columns.labeled)
        # Why nothing about labels is defined; empty if something is.
        nothing = UNREAD if columns.labeled.any() else UNLABELED
        self._why = "" if columns.read.any() else nothing

    def by_class(self) -> list[Statistic]:
        """Return `class/NAME/precision`, `recall`, `f1` and `youden_j`."""
        return [
            self._class_statistic(f"class/{name}/{contrast}", c, contrast)
            for c, name in enumerate(self._columns.names)
            for contrast in ("precision", "recall", "f1", "youden_j")
        ]

    def overall(self) -> list[Statistic]:
        """Return the metrics over all classes, and those of the positive class if there is one."""
        positive = self._columns.positive
        unread = self.unread
        if positive is not None:
            of_positive = {
                "tpr": "recall",
                "tnr": "specificity",
                "youden_j": "youden_j",
            }
        else:
            of_positive = {}
        first = [
            self._class_statistic(f"class/{name}", positive or 0, contrast)
            for name, contrast in of_positive.items()
        ]
        labels = unread.table.sum(axis=1)
        occur = unread.table.sum(axis=1) + unread.table.sum(axis=0)
        unlabeled = self._without(labels)
        absent = self._without(occur)

        def f1_mean(totals: Floats) -> Floats:
            return agreement_formulas.mean_defined(
                agreement_formulas.f1_scores(totals)[:, occur > 0]
            )

        return [
            *first[:2],
            self._matrix_statistic(
                "class/balanced_accuracy",
                lambda totals: agreement_formulas.recalls(totals).mean(axis=1),
                unread.balanced_accuracy() if labels.all() else (None, None),
                per_class=1.0,
                why=" and ".join(f"no label is {name}" for name in unlabeled),
            ),
            self._matrix_statistic(
                "class/macro_f1",
                f1_mean,
                unread.macro_f1(),
                per_class=1.0,
                absent=f"without {', '.join(absent)}, which no label names"
                if absent
                else None,
            ),
            self._matrix_statistic(
                "class/mcc",
                agreement_formulas.matthews,
                unread.matthews(),
                contrast=True,
            ),
            *first[2:],
        ]

    def agreement(self) -> list[Statistic]:
        """Return `agreement/accuracy`, `kappa`, `scott_pi`, `ac1` and `alpha`, and if
        ordered weighted kappas.
        """
        columns = self._columns
        unread = self.unread
        accuracy = columns.tally.rate(
            "agreement/accuracy",
            columns.right,
            columns.read,
            columns.unread,
            note=self._note,
            why=self._why or "nothing to count",
            pseudo=SHARE,
        )
        every = coefficients_of("classes") | (
            coefficients_of("ordered classes") if columns.ordered else {}
        )
        agreements = [
            self._matrix_statistic(
                f"agreement/{name}",
                coefficient.value,
                coefficient.bounds(unread),
                contrast=coefficient.contrast,
            )
            for name, coefficient in every.items()
        ]
        return [accuracy, *agreements]

    def _without(self, counts: Floats) -> list[str]:
        """Return the names of the classes, of counts (classes,), that have none."""
        return [
            f"'{name}'"
            for name, count in zip(self._columns.names, counts, strict=True)
            if not count
        ]

    def _class_statistic(self, name: str, c: int, contrast: str) -> Statistic:
        """Return a statistic of one class against all others."""
        value, counting, absent = CONTRASTS[contrast]
        # shape (classes,)
        is_class = np.arange(self._k) == c
        hits = self._confusion.cells.columns[c * self._k + c].astype(np.float64)
        alarms = self._verdicts[c] - hits
        misses = self._labels[c] - hits
        # shape (cases, 4)
        columns = np.stack(
            [hits, alarms, misses, self._labels.sum(axis=0) - hits - alarms - misses],
            axis=1,
        )
        counted = columns[:, counting].sum(axis=1)
        # Missing answers of its own label are hits or misses, those of others false alarms or the
        # rest.
        missing = [
            self.unread.missing[side].sum()
            for side, of in ((is_class, {0, 2}), (~is_class, {1, 3}))
            if of & {*counting}
        ]
        return Statistic(
            name,
            columns,
            value,
            n=int(counted.sum()),
            missing=int(sum(missing)),
            worst=self.unread.of_class(value, c),
            note=self._note,
            why=self._why or f"{absent} '{self._columns.names[c]}'",
            covered=counted > 0,
            pseudo=ONE_CLASS,
        )

    def _matrix_statistic(
        self,
        name: str,
        value: Callable[[Floats], Floats],
        worst: Bounds,
        *,
        contrast: bool = False,
        per_class: float = 0.0,
        absent: str | None = None,
        why: str = "",
    ) -> Statistic:
        """Return a statistic of the whole confusion matrix.

        Args:
            name: the metric's name.
            value: maps flat confusion matrices (rows, classes²) to the coefficient.
            worst: its bounds over missing answers.
            contrast: whether it is 0 by construction if all labels are of one class, and so
                undefined.
            per_class: the pseudo-clusters of each class; by default two for all classes together.
            absent: a note on classes that it omits.
            why: why it is undefined, if it is not because only one class occurs.
        """
        labels = np.flatnonzero(self.unread.table.sum(axis=1))
        if contrast and len(labels) == 1:
            only_class = self._columns.names[int(labels[0])]
            why = (
                f"labels are all of one class ({only_class}):"
                " it would be 0 whatever the verdicts are"
            )
        elif contrast and len(labels):
            why = "verdicts are all of one class"
        return self._confusion.statistic(
            name,
            value,
            worst,
            contrast=contrast,
            note="; ".join(note for note in (absent, self._note) if note) or None,
            why=self._why or why or "labels and verdicts are all of one class",
            pseudo=PseudoCounts.matrix(self._k, per_class or 2 / self._k),
        )


CONTRASTS: Final[
    Mapping[str, tuple[Callable[[Floats], Floats], tuple[int, ...], str]]
] = {
    "precision": (agreement_formulas.precision, (0, 1), "no answer is"),
    "recall": (agreement_formulas.recall, (0, 2), "no label is"),
    "specificity": (agreement_formulas.specificity, (1, 3), "every label is"),
    "f1": (agreement_formulas.f1, (0, 1, 2), "no answer and no label is"),
    "youden_j": (
        agreement_formulas.youden,
        (0, 1, 2, 3),
        "either every label or none is",
    ),
}
"""Statistics of one class against all others: which of hits, false alarms, misses and the rest each
counts, and why it is undefined, before the name of the class."""


NO_CHANCES = "no labeled response has a class with a probability"


def stated_classes(columns: ClassColumns) -> StatedConfidence:
    """Return the labeled responses with a class, and the probability of that class, or
    the stated confidence in it.
    """
    if columns.probabilities is None and columns.confidence is not None:
        verdict = columns.confidence
        has_chances = np.asarray(np.isfinite(verdict))
    else:
        has_chances = np.asarray(np.isfinite(columns.chances).all(axis=1))
        # shape (responses,): the probability of each verdict
        verdict = np.take_along_axis(
            columns.chances, np.maximum(columns.verdicts, 0)[:, None], axis=1
        )[:, 0]
    used = columns.read & has_chances
    missing = int(
        (columns.labeled & (columns.missing | (columns.present & ~has_chances))).sum()
    )
    right = columns.right.astype(np.float64)
    return StatedConfidence(
        columns.tally.where(used), verdict[used], right[used], missing
    )


def _probability_calibration(columns: ClassColumns) -> list[Statistic]:
    """Return the calibration of the probability of the verdict's class, and of the
    probability of each class.
    """
    if columns.probabilities is None:
        return []
    has_chances = np.isfinite(columns.probabilities).all(axis=1)
    verdict = np.take_along_axis(
        columns.probabilities, np.maximum(columns.verdicts, 0)[:, None], axis=1
    )[:, 0]
    right = columns.right.astype(np.float64)
    used = columns.read & has_chances
    missing = int(
        (columns.labeled & (columns.missing | (columns.present & ~has_chances))).sum()
    )
    # An abstention still has probabilities of the classes only if the judge gave them, so it is
    # left out here too.
    stated = {"calibration": (verdict, right)} | {
        f"class/{name}": (
            columns.probabilities[:, c],
            (columns.labels == c).astype(np.float64),
        )
        for c, name in enumerate(columns.names)
    }
    why = NO_CHANCES
    return [
        replace(build(f"{group}/{end}", pairs), why=why)
        for group, (confidence, outcome) in stated.items()
        for pairs in (
            StatedConfidence(
                columns.tally.where(used), confidence[used], outcome[used], missing
            ),
        )
        for end, build in (("ece", ece_statistic), ("brier", brier_statistic))
    ]


def class_confusion(classes: ClassColumns) -> Tabled:
    """Return the table of verdicts by label, with abstentions and missing answers;
    nothing without labels.
    """
    verdicts, labels = (
        {name: codes == c for c, name in enumerate(classes.names)}
        for codes in (classes.verdicts, classes.labels)
    )
    if classes.abstain is not None or classes.abstained.any():
        verdicts[classes.abstain or "abstained"] = classes.abstained
    table = coefficients.counts_by_label(
        labels, verdicts | {"missing": classes.missing}
    )
    return [], {"confusion": table} if classes.labeled.any() else {}
