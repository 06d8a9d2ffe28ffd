"""Formulas of agreement and of classification, on tables of counts."""

from __future__ import annotations

from functools import partial

import numpy as np

from evalkit.scoring.stats.arrays import Floats, divide


def matrices(totals: Floats) -> Floats:
    """Return flat confusion matrices (rows, classes²) as (rows, classes, classes)."""
    k = round(totals.shape[1] ** 0.5)
    return totals.reshape(-1, k, k)


def _agreed(table: Floats) -> Floats:
    return np.asarray(np.trace(table, axis1=1, axis2=2))


def accuracy(totals: Floats) -> Floats:
    """Return the share of agreement."""
    table = matrices(totals)
    return divide(_agreed(table), table.sum(axis=(1, 2)))


def kappa(totals: Floats) -> Floats:
    """Return Cohen's kappa (Cohen 1960, Educ. Psychol.

    Meas. 20, 37-46); NaN if chance agreement is 1.
    """
    table = matrices(totals)
    n = table.sum(axis=(1, 2))
    by_chance = (table.sum(axis=1) * table.sum(axis=2)).sum(axis=1)
    return divide(_agreed(table) * n - by_chance, n * n - by_chance)


def distances(k: int, power: int = 1) -> Floats:
    """Return the distances between ordered classes (k, k): of their places, or with `power` 2 the squares."""
    positions = np.arange(k)
    return np.asarray(
        np.abs(np.subtract.outer(positions, positions)) ** power, dtype=np.float64
    )


def weighted_kappa(totals: Floats, power: int = 1) -> Floats:
    """Return weighted kappa over ordered classes, with linear (`power` 1) or quadratic weights.

    Cohen 1968, Psychol. Bull. 70, 213-220; NaN if the expected disagreement is 0.
    """
    table = matrices(totals)
    steps = distances(table.shape[1], power)
    # shape (rows, labels, verdicts)
    by_chance = table.sum(axis=2)[:, :, None] * table.sum(axis=1)[:, None, :]
    observed = (table * steps).sum(axis=(1, 2))
    expected = (by_chance * steps).sum(axis=(1, 2))
    return np.asarray(1 - divide(observed * table.sum(axis=(1, 2)), expected))


def _shares(table: Floats) -> Floats:
    """Return the mean share of each class among labels and verdicts, (rows, classes)."""
    return divide(
        table.sum(axis=1) + table.sum(axis=2), 2 * table.sum(axis=(1, 2))[:, None]
    )


def ac1(totals: Floats, categories: int | None = None) -> Floats:
    """Return Gwet's AC1 over `categories` classes, by default those of the matrix.

    Gwet 2008, Br. J. Math. Stat. Psychol. 61, 29-48, eq. 5. Unlike kappa, it does not fall to 0
    when nearly all labels belong to one class.
    """
    table = matrices(totals)
    rate = _shares(table)
    by_chance = (rate * (1 - rate)).sum(axis=1) / ((categories or table.shape[1]) - 1)
    return divide(accuracy(totals) - by_chance, 1 - by_chance)


def scott_pi(totals: Floats) -> Floats:
    """Return Scott's pi (Scott 1955, Public Opin. Q. 19, 321-325); NaN if only one class occurs."""
    expected = 1 - (_shares(matrices(totals)) ** 2).sum(axis=1)
    return np.asarray(
        1 - divide(1 - accuracy(totals), np.where(expected > 1e-12, expected, 0.0))
    )


def alpha(totals: Floats) -> Floats:
    """Return Krippendorff's nominal alpha of labels and verdicts; NaN if only one class occurs.

    Krippendorff 2011, Computing Krippendorff's alpha-reliability. With two values for each unit it
    is Scott's pi with a correction for the number of units.
    """
    return alpha_of_pi(scott_pi(totals), totals.sum(axis=1))


def alpha_of_pi(pi: Floats, n: Floats) -> Floats:
    """Return Krippendorff's alpha of two raters from Scott's pi and the number of units."""
    return np.asarray(1 - (1 - pi) * divide(2 * n - 1, 2 * n))


def matthews(totals: Floats) -> Floats:
    """Return Matthews' correlation coefficient, for more than two classes R_K; NaN if labels or verdicts are all equal.

    Matthews 1975, Biochim. Biophys. Acta 405, 442-451; Gorodkin 2004, Comput. Biol. Chem. 28,
    367-374.
    """
    table = matrices(totals)
    n = table.sum(axis=(1, 2))
    # shape (rows, classes)
    labels = table.sum(axis=2)
    verdicts = table.sum(axis=1)
    spread = (n * n - (labels**2).sum(axis=1)) * (n * n - (verdicts**2).sum(axis=1))
    scale = np.sqrt(np.where(spread > 1e-9, spread, 0.0))
    return divide(_agreed(table) * n - (labels * verdicts).sum(axis=1), scale)


def recalls(totals: Floats) -> Floats:
    """Return the recall of each class, (rows, classes); NaN for a class without labels."""
    table = matrices(totals)
    return divide(np.diagonal(table, axis1=1, axis2=2), table.sum(axis=2))


def f1_scores(totals: Floats) -> Floats:
    """Return the F1 score of each class, (rows, classes); NaN for a class without labels and verdicts."""
    table = matrices(totals)
    return divide(
        2 * np.diagonal(table, axis1=1, axis2=2), table.sum(axis=2) + table.sum(axis=1)
    )


def _share(right: int, wrong: int, totals: Floats) -> Floats:
    """Return one of hits, false alarms, misses and the rest (rows, 4) as a share of itself and another."""
    return divide(totals[:, right], totals[:, right] + totals[:, wrong])


precision, recall, specificity = (
    partial(_share, right, wrong) for right, wrong in ((0, 1), (0, 2), (3, 1))
)


def f1(totals: Floats) -> Floats:
    """Return the F1 score of hits, false alarms and misses."""
    return divide(2 * totals[:, 0], 2 * totals[:, 0] + totals[:, 1] + totals[:, 2])


def youden(totals: Floats) -> Floats:
    """Return sensitivity plus specificity minus 1."""
    return np.asarray(recall(totals) + specificity(totals) - 1)


def mean_defined(values: Floats) -> Floats:
    """Return the mean of each row's defined values, NaN without any."""
    defined = np.isfinite(values)
    return divide(
        np.where(defined, values, 0.0).sum(axis=1),
        defined.sum(axis=1).astype(np.float64),
    )
