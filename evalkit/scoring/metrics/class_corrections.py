"""Rates of classes corrected for the judge's errors, which a labeled subset shows."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from evalkit.scoring.columns.classes import ClassColumns
from evalkit.scoring.metrics.ppi import (
    NO_LABEL,
    SAME_ERRORS,
    UNRELATED,
    Target,
    label_plan,
    onto_simplex,
    prediction_powered,
    weigh_targets,
)
from evalkit.scoring.stats.arrays import Bools, Floats, divide, round_metric
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.scoring.stats.bounded_intervals import PseudoCounts
from evalkit.scoring.stats.clusters import Clusters

ILL_CONDITIONED: Final = 1e6
"""A matrix of errors with a larger condition number cannot be inverted in any useful way."""
SINGULAR: Final = "the judge's errors do not tell the classes apart (no usable inverse): the rates are not identified"
INVERTED: Final = (
    "corrected/rate inverts the matrix of the judge's errors on the labels. Its condition number says how much it "
    "magnifies their noise. It assumes that the judge errs as often without labels. Prediction-powered inference needs "
    "only that the labels are a random subset. Abstentions and split votes are left out of both."
)


def class_targets(columns: ClassColumns) -> list[Target]:
    """Return the rate of each class to correct; answers that name none are left out."""
    kept = ~columns.undecided
    decided, labeled = columns.decided[kept], columns.labeled[kept]
    return [
        Target(
            f"corrected/prediction_powered/{name}",
            f"class/{name}/rate",
            columns.case[kept],
            np.where(decided, columns.verdicts[kept] == c, np.nan),
            np.where(labeled, columns.labels[kept] == c, np.nan),
            columns.cases,
            proportion=True,
        )
        for c, name in enumerate(columns.names)
    ]


def corrected_class_statistics(columns: ClassColumns, weights: Floats | None = None) -> list[Statistic]:
    """Return the rate of each class, corrected by the inverted matrix of errors and by prediction-powered inference.

    Args:
        columns: the class verdicts.
        weights: (cases,) the weights of cases whose labels were sampled with unequal probabilities.
    """
    errors, targets = ErrorMatrix(columns, weights), weigh_targets(class_targets(columns), weights)
    return [*errors.statistics(), *(prediction_powered(target, targets) for target in targets)]


class ErrorMatrix:
    """How often the judge gives each class to responses of each labeled class."""

    def __init__(self, columns: ClassColumns, weights: Floats | None = None) -> None:
        self._columns, k = columns, len(columns.names)
        self._used: Bools = columns.labeled & columns.decided
        cells = np.where(self._used, columns.labels * k + columns.verdicts, -1)
        tally = columns.tally
        judged = [tally(columns.verdicts == c) for c in range(k)]
        given = 1.0 if weights is None else weights
        self._table = np.stack([*judged, *(given * tally(cells == cell) for cell in range(k * k))], axis=1)

    def statistics(self) -> list[Statistic]:
        """Return `corrected/rate/NAME`: the rates that, with these errors, give the observed rates of answers.

        For two classes it is Rogan and Gladen's (1978, Am. J. Epidemiol. 107, 71-76), for more the inverse of the
        matrix of errors (Tenenbein 1970, J. Am. Stat. Assoc. 65, 1350-1361; Buonaccorsi 2010, Measurement Error,
        section 2.4). Rates below 0 are moved to the nearest rates that sum to 1.
        """
        columns, j = self._columns, self.youden()
        labels, condition = int(self._used.sum()), self.condition_number()
        missing = int((columns.labeled & columns.missing).sum())
        found = []
        for c, name in enumerate(columns.names):
            told = [] if j[c] is None else [f"Youden's J {j[c]:.2f}"]
            told += [] if len(columns.names) == 2 or condition is None else [f"condition number {condition:.3g}"]
            found.append(
                Statistic(
                    f"corrected/rate/{name}",
                    self._table,
                    partial(_rate, c, len(columns.names)),
                    n=int(columns.decided.sum()),
                    covered=columns.tally(self._used) > 0,
                    missing=missing,
                    strict=True,
                    pseudo=self._pseudo(),
                    note="; ".join([*told, f"errors from {labels} labels", SAME_ERRORS]),
                    why="; ".join([self._why(), *told]),
                )
            )
        return found

    def _pseudo(self) -> PseudoCounts:
        """Return the pseudo-clusters of the matrix of errors; they are labels, and change no rate of answers."""
        k = len(self._columns.names)
        matrix = PseudoCounts.matrix(k, 1.0)
        rows, units = (
            np.concatenate([np.zeros((*part.shape[:-1], k)), part], axis=-1) for part in (matrix.rows, matrix.units)
        )
        return PseudoCounts(rows, matrix.weights, units)

    def _counts(self) -> Floats:
        k = len(self._columns.names)
        return np.asarray(self._table.sum(axis=0)[k:].reshape(k, k))

    def youden(self) -> list[float | None]:
        """Return Youden's J of each class against all others; `None` if it is not determined."""
        counts = self._counts()
        labels = counts.sum(axis=1)
        others = labels.sum() - labels
        hits = np.diag(counts)
        return [
            round_metric(float(value)) for value in divide(hits, labels) - divide(counts.sum(axis=0) - hits, others)
        ]

    def condition_number(self) -> float | None:
        """Return the condition number (2-norm) of the matrix of errors; `None` if a class has no label."""
        counts = self._counts()
        labels = counts.sum(axis=1)
        if not labels.all():
            return None
        return round_metric(float(np.linalg.cond(counts / labels[:, None])))

    def _why(self) -> str:
        counts = self._counts()
        without = [name for name, n in zip(self._columns.names, counts.sum(axis=1), strict=True) if not n]
        if not counts.any():
            return NO_LABEL
        if without:
            return f"no answer is labeled {', '.join(map(repr, without))}: the judge's errors on it are not identified"
        return UNRELATED if len(self._columns.names) == 2 else SINGULAR

    def details(self) -> dict[str, Any]:
        """Return the matrix as JSON values."""
        names, counts = self._columns.names, self._counts()
        shares = divide(counts, np.repeat(counts.sum(axis=1)[:, None], len(names), axis=1))
        return {
            "errors": {
                label: {verdict: round_metric(share) for verdict, share in zip(names, row, strict=True)}
                for label, row in zip(names, shares, strict=True)
            },
            "condition_number": self.condition_number(),
            "youden_j": dict(zip(names, self.youden(), strict=True)),
        }


def _rate(c: int, k: int, totals: Floats) -> Floats:
    return corrected_rates(totals, k)[:, c]


def corrected_rates(totals: Floats, k: int) -> Floats:
    """Return the corrected rates (rows, k) of totals (rows, k + k²): answers by class, then labels by class and answer.

    NaN where a class has no label, or the matrix of errors has no inverse, or one that swaps classes (a determinant of
    0 or less, which for two classes is Youden's J).
    """
    judged, counts = totals[:, :k], totals[:, k:].reshape(-1, k, k)
    labels, answers = counts.sum(axis=2), judged.sum(axis=1)
    found = np.full((len(totals), k), np.nan)
    errors = divide(counts, np.repeat(labels[:, :, None], k, axis=2))
    usable = (labels > 0).all(axis=1) & (answers > 0)
    usable[usable] = np.linalg.det(errors[usable]) > 1e-9
    usable[usable] = np.linalg.cond(errors[usable]) < ILL_CONDITIONED
    if usable.any():
        observed = judged[usable] / answers[usable, None]
        solved = np.linalg.solve(errors[usable].transpose(0, 2, 1), observed[:, :, None])[:, :, 0]
        found[usable] = onto_simplex(solved)
    return found


def corrected_class_details(
    columns: ClassColumns, confidence: float, clusters: Clusters, weights: Floats | None = None
) -> dict[str, Any]:
    """Return the content of corrected.json: each rate as judged, labeled and corrected, and the matrix of errors."""
    targets = weigh_targets(class_targets(columns), weights)
    return {
        "confidence": confidence,
        "targets": [label_plan(target, targets, confidence, clusters) for target in targets],
        "notes": [INVERTED],
        **ErrorMatrix(columns, weights).details(),
    }
