"""Formulas of agreement and of classification, on tables of counts."""

from __future__ import annotations

from functools import partial

import numpy as np

from evalkit.scoring.stats.arrays import Floats, divide


def matrices(totals: Floats) -> Floats:
    """Return flat confusion matrices (rows, classes²) as (rows, classes, classes)."""
    cells = totals.shape[1]
    k = round(cells**0.5)
    return totals.reshape(-1, k, k)


def _agreed(table: Floats) -> Floats:
    """Return the number of units whose verdict is their label, (rows,)."""
    on_diagonal = np.trace(table, axis1=1, axis2=2)
    return np.asarray(on_diagonal)


def _units(table: Floats) -> Floats:
    """Return the number of units, or with weights the sum of their weights, (rows,)."""
    units = table.sum(axis=(1, 2))
    return np.asarray(units)


def _labels(table: Floats) -> Floats:
    """Return the number of labels of each class, (rows, classes): a row of a matrix is a label."""
    labels = table.sum(axis=2)
    return np.asarray(labels)


def _verdicts(table: Floats) -> Floats:
    """Return the number of verdicts of each class, (rows, classes): a column of a
    matrix is a verdict.
    """
    verdicts = table.sum(axis=1)
    return np.asarray(verdicts)


def accuracy(totals: Floats) -> Floats:
    """Return the share of agreement."""
    table = matrices(totals)
    agreed = _agreed(table)
    units = _units(table)
    return divide(agreed, units)


def kappa(totals: Floats) -> Floats:
    """Return Cohen's kappa; NaN if chance agreement is 1.

    Cohen 1960, Educ. Psychol. Meas. 20, 37-46.
    """
    table = matrices(totals)
    n = _units(table)
    labels = _labels(table)
    verdicts = _verdicts(table)
    # Counts times n, since dividing by n comes last.
    by_chance = (verdicts * labels).sum(axis=1)
    agreed = _agreed(table) * n
    beyond_chance = agreed - by_chance
    possible = n * n - by_chance
    return divide(beyond_chance, possible)


def distances(k: int, power: int = 1) -> Floats:
    """Return the distances between ordered classes (k, k): of their places, or with
    `power` 2 the squares.
    """
    positions = np.arange(k)
    differences = np.subtract.outer(positions, positions)
    steps = np.abs(differences) ** power
    return np.asarray(steps, dtype=np.float64)


def weighted_kappa(totals: Floats, power: int = 1) -> Floats:
    """Return weighted kappa over ordered classes, with linear (`power` 1) or quadratic weights.

    Cohen 1968, Psychol. Bull. 70, 213-220; NaN if the expected disagreement is 0.
    """
    table = matrices(totals)
    k = table.shape[1]
    steps = distances(k, power)
    labels = _labels(table)
    verdicts = _verdicts(table)
    # shape (rows, labels, verdicts)
    by_chance = labels[:, :, None] * verdicts[:, None, :]
    observed = _units(table * steps)
    expected = _units(by_chance * steps)
    units = _units(table)
    disagreement = divide(observed * units, expected)
    return np.asarray(1 - disagreement)


def _shares(table: Floats) -> Floats:
    """Return the mean share of each class among labels and verdicts, (rows, classes)."""
    both = _verdicts(table) + _labels(table)
    units = _units(table)
    return divide(both, 2 * units[:, None])


def ac1(totals: Floats, categories: int | None = None) -> Floats:
    """Return Gwet's AC1 over `categories` classes, by default those of the matrix.

    Gwet 2008, Br. J. Math. Stat. Psychol. 61, 29-48, eq. 5. Unlike kappa, it does not fall to 0
    when nearly all labels belong to one class.
    """
    table = matrices(totals)
    classes = categories
    if not classes:
        classes = table.shape[1]
    rate = _shares(table)
    spread = (rate * (1 - rate)).sum(axis=1)
    by_chance = spread / (classes - 1)
    observed = accuracy(totals)
    return divide(observed - by_chance, 1 - by_chance)


def scott_pi(totals: Floats) -> Floats:
    """Return Scott's pi (Scott 1955, Public Opin. Q. 19, 321-325); NaN if only one class occurs."""
    table = matrices(totals)
    rate = _shares(table)
    expected = 1 - (rate**2).sum(axis=1)
    # Rounding may leave a little where all are of one class.
    expected = np.where(expected > 1e-12, expected, 0.0)
    observed = 1 - accuracy(totals)
    disagreement = divide(observed, expected)
    return np.asarray(1 - disagreement)


def alpha(totals: Floats) -> Floats:
    """Return Krippendorff's nominal alpha of labels and verdicts; NaN if only one class occurs.

    Krippendorff 2011, Computing Krippendorff's alpha-reliability. With two values for each unit it
    is Scott's pi with a correction for the number of units.
    """
    pi = scott_pi(totals)
    n = totals.sum(axis=1)
    return alpha_of_pi(pi, n)


def alpha_of_pi(pi: Floats, n: Floats) -> Floats:
    """Return Krippendorff's alpha of two raters from Scott's pi and the number of units."""
    values = 2 * n
    correction = divide(values - 1, values)
    disagreement = (1 - pi) * correction
    return np.asarray(1 - disagreement)


def matthews(totals: Floats) -> Floats:
    """Return Matthews' correlation coefficient, for more than two classes R_K; NaN if
    labels or verdicts are all equal.

    Matthews 1975, Biochim. Biophys. Acta 405, 442-451; Gorodkin 2004, Comput. Biol. Chem. 28,
    367-374.
    """
    table = matrices(totals)
    n = _units(table)
    labels = _labels(table)
    verdicts = _verdicts(table)
    # Variances and the covariance, all times n squared.
    of_labels = n * n - (labels**2).sum(axis=1)
    of_verdicts = n * n - (verdicts**2).sum(axis=1)
    covariance = _agreed(table) * n - (labels * verdicts).sum(axis=1)
    spread = of_labels * of_verdicts
    spread = np.where(spread > 1e-9, spread, 0.0)
    return divide(covariance, np.sqrt(spread))


def recalls(totals: Floats) -> Floats:
    """Return the recall of each class, (rows, classes); NaN for a class without labels."""
    table = matrices(totals)
    hits = np.diagonal(table, axis1=1, axis2=2)
    labels = _labels(table)
    return divide(hits, labels)


def f1_scores(totals: Floats) -> Floats:
    """Return the F1 score of each class, (rows, classes); NaN for a class without
    labels and verdicts.
    """
    table = matrices(totals)
    hits = np.diagonal(table, axis1=1, axis2=2)
    both = _labels(table) + _verdicts(table)
    return divide(2 * hits, both)


def _share(right: int, wrong: int, totals: Floats) -> Floats:
    """Return one of hits, false alarms, misses and the rest (rows, 4) as a share of
    itself and another.
    """
    counted = totals[:, right]
    other_side = totals[:, wrong]
    return divide(counted, counted + other_side)


# Columns of totals: hits 0, false alarms 1, misses 2, and the rest 3.
precision = partial(_share, 0, 1)
recall = partial(_share, 0, 2)
specificity = partial(_share, 3, 1)


def f1(totals: Floats) -> Floats:
    """Return the F1 score of hits, false alarms and misses."""
    hits = 2 * totals[:, 0]
    false_alarms = totals[:, 1]
    misses = totals[:, 2]
    return divide(hits, hits + false_alarms + misses)


def youden(totals: Floats) -> Floats:
    """Return sensitivity plus specificity minus 1."""
    sensitivity = recall(totals)
    of_negatives = specificity(totals)
    informedness = sensitivity + of_negatives - 1
    return np.asarray(informedness)


def mean_defined(values: Floats) -> Floats:
    """Return the mean of each row's defined values, NaN without any."""
    defined = np.isfinite(values)
    sums = np.where(defined, values, 0.0).sum(axis=1)
    counts = defined.sum(axis=1).astype(np.float64)
    return divide(sums, counts)
