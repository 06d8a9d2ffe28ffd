"""Rates of classes corrected by a labeled subset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.values import frozen
from evalkit.scoring.columns import ClassColumns
from evalkit.scoring.metrics.corrections import (
    NO_LABEL,
    SAME_ERRORS,
    UNRELATED,
    label_plans,
    onto_simplex,
    prediction_powered,
    rate_targets,
    weigh_targets,
)
from evalkit.scoring.stats.arrays import Floats, divide, round_metric
from evalkit.scoring.stats.bounded_intervals import PseudoCounts
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Statistic, Table, Tabled

ILL_CONDITIONED: Final = 1e6
"""A matrix of errors with a larger condition number cannot be inverted in any useful way."""
SINGULAR: Final = (
    "the judge's errors do not tell the classes apart (no usable inverse): the rates are not"
    " identified"
)
INVERTED: Final = (
    "corrected/rate inverts the matrix of the judge's errors on the labels. Its condition number"
    " says how much it magnifies their noise. It assumes that the judge errs as often without"
    " labels. Prediction-powered inference needs only that the labels are a random subset."
    " Both count the labels of units without an answer, too. Abstentions and split votes are"
    " no answer."
)


def class_corrections(
    config: RunConfig,
    classes: ClassColumns,
    clusters: Clusters,
    weights: Floats | None = None,
) -> Tabled:
    """Return the rate of each class, corrected by the inverted matrix of errors and by
    prediction-powered inference.

    `corrected/rate/NAME` are the rates that, with the judge's errors on labels, give the observed
    rates of answers. For two classes it is Rogan and Gladen's (1978, Am. J. Epidemiol. 107, 71-76),
    for more the inverse of the matrix of errors (Tenenbein 1970, J. Am. Stat. Assoc. 65, 1350-1361;
    Buonaccorsi 2010, Measurement Error, section 2.4). Rates below 0 are moved to the nearest rates
    that sum to 1.

    Args:
        config: the run's config.
        classes: the class verdicts.
        clusters: the clusters of the cases.
        weights: (cases,) the weights of cases whose labels were sampled with unequal probabilities.

    Returns:
        The statistics, and the content of corrected.json: each rate as judged, labeled and
        corrected, and the matrix of errors.
    """
    names = classes.names
    confidence = config.scoring.confidence
    errors = _errors_of(classes, weights)
    statistics = _inverted_rates(classes, errors)
    named = {
        f"corrected/prediction_powered/{name}": (f"class/{name}/rate", c)
        for c, name in enumerate(names)
    }
    targets = weigh_targets(rate_targets(classes, named), weights)
    powered = prediction_powered(targets)
    details = {
        "confidence": confidence,
        "targets": label_plans(targets, powered, confidence, clusters),
        "notes": [INVERTED],
        "errors": {
            label: _rounded_by_name(names, row)
            for label, row in zip(names, errors.matrix, strict=True)
        },
        "condition_number": errors.condition,
        "youden_j": _rounded_by_name(names, errors.youden),
    }
    return [*statistics, *powered], {"corrected": details}


@frozen
class _Errors:
    """The judge's errors on the labels of k classes.

    Attributes:
        table: (cases, k + k * k + k) the answers of each class, the answers (label by answer), and
            the labels without an answer.
        matrix: (k, k) the share of each answer (columns) among the labels of a class (rows).
        labels: (k,) the labels of each class, answered or not.
        youden: (k,) Youden's J of each class.
        condition: the condition number in the 2-norm; `None` if a class has no label.
    """

    table: Table
    matrix: Floats
    labels: Floats
    youden: Floats
    condition: float | None


def _errors_of(classes: ClassColumns, weights: Floats | None) -> _Errors:
    """Return the judge's errors; the weights of cases (cases,) are those of their labels."""
    k = len(classes.names)
    tally = classes.tally
    cells = classes.confusion(range(k)).cells.columns
    answers = [classes.verdicts == c for c in range(k)]
    judged = tally.columns(*answers)
    weight = 1.0 if weights is None else weights
    # The labels of responses without an answer, by class: one more answer, for which no rate of
    # answers is solved.
    without_answer = [~classes.present & (classes.labels == c) for c in range(k)]
    lost = tally.columns(*without_answer)
    of_labels = [column * weight for column in (*cells, *lost)]
    table = Table.of([*judged, *of_labels])
    # labels by answers
    counts = table.sums[k : k + k * k].reshape(k, k)
    unread_labels = table.sums[k + k * k :]
    read = counts.sum(axis=1)
    labels = read + unread_labels
    hits = np.diag(counts)
    labels_of_row = np.repeat(labels[:, None], k, axis=1)
    matrix = divide(counts, labels_of_row)
    condition = None
    if labels.all():
        condition = round_metric(float(np.linalg.cond(matrix)))
    false_alarms = counts.sum(axis=0) - hits
    of_other_classes = read.sum() - read
    youden = divide(hits, read) - divide(false_alarms, of_other_classes)
    return _Errors(table, matrix, labels, youden, condition)


def _inverted_rates(classes: ClassColumns, errors: _Errors) -> list[Statistic]:
    """Return the rate of each class by the inverse of the matrix of errors."""
    names = classes.names
    k = len(names)
    tally = classes.tally
    used = classes.read
    unlabeled = [
        repr(name) for name, n in zip(names, errors.labels, strict=True) if not n
    ]
    why = UNRELATED if k == 2 else SINGULAR
    if unlabeled:
        without = ", ".join(unlabeled)
        why = f"no answer is labeled {without}: the judge's errors on it are not identified"
    if not errors.labels.any():
        why = NO_LABEL
    # The pseudo-clusters are labels, and change no rate of answers.
    matrix = PseudoCounts.matrix(k, 1.0)
    padding = np.zeros(k)
    units = np.concatenate([padding, matrix.units, padding])
    pseudo = replace(matrix, units=units)
    source = f"errors from {int(used.sum())} labels"
    statistics = []
    for c, name in enumerate(names):
        facts = []
        if np.isfinite(errors.youden[c]):
            facts.append(f"Youden's J {errors.youden[c]:.2f}")
        if k != 2 and errors.condition is not None:
            facts.append(f"condition number {errors.condition:.3g}")
        statistic = Statistic(
            f"corrected/rate/{name}",
            errors.table,
            partial(corrected_rate, c, k),
            n=int(classes.present.sum()),
            covered=tally(used) > 0,
            missing=int(classes.unread.sum()),
            strict=True,
            pseudo=pseudo,
            note="; ".join([*facts, source, SAME_ERRORS]),
            why="; ".join([why, *facts]),
        )
        statistics.append(statistic)
    return statistics


def _rounded_by_name(names: Sequence[str], values: Floats) -> dict[str, float | None]:
    """Return a value for each class, (classes,), by the name of the class."""
    pairs = zip(names, values.tolist(), strict=True)
    return {name: round_metric(value) for name, value in pairs}


def corrected_rate(c: int, k: int, totals: Floats) -> Floats:
    """Return the corrected rate of class `c`.

    NaN where a class has no label, or the matrix of errors has no inverse, or one that swaps
    classes (a determinant of 0 or less, which for two classes is Youden's J).

    Args:
        c: the class.
        k: the number of classes.
        totals: (rows, k + k² + k): answers by class, labels by class and answer, and labels
            without an answer by class.
    """
    # shape (rows, k)
    judged = totals[:, :k]
    # shape (rows, labels, answers)
    counts = totals[:, k : k + k * k].reshape(-1, k, k)
    unread_labels = totals[:, k + k * k :]
    labels = counts.sum(axis=2) + unread_labels
    answers = judged.sum(axis=1)
    rates = np.full((len(totals), k), np.nan)
    labels_of_row = np.repeat(labels[:, :, None], k, axis=2)
    errors = divide(counts, labels_of_row)
    usable = (labels > 0).all(axis=1) & (answers > 0)
    usable[usable] = np.linalg.det(errors[usable]) > 1e-9
    usable[usable] = np.linalg.cond(errors[usable]) < ILL_CONDITIONED
    if usable.any():
        # the transposed errors: observed rates of answers are a mixture over labels
        solved = np.linalg.solve(
            errors[usable].transpose(0, 2, 1), judged[usable][:, :, None]
        )[:, :, 0]
        # Without missing answers the sum is the number of answers.
        whole = solved.sum(axis=1, keepdims=True)
        shares = divide(solved, np.maximum(whole, 1e-9))
        rates[usable] = onto_simplex(shares)
    return np.asarray(rates[:, c])
