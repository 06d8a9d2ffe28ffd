"""More of agreement with people: near misses, agreement by chance done otherwise, and who is taken for whom."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from evalkit.scales import Scale
from evalkit.scoring.agreement import CLASSES, one_class, one_value, unless_one_label
from evalkit.scoring.bootstrap import Bounds, Statistic, Tally, divide
from evalkit.scoring.columns import NAMES, TIE, Bools, Codes, Floats
from evalkit.scoring.pointwise import Scored
from evalkit.scoring.ties import Resolved

STEPS = np.abs(np.subtract.outer(np.arange(3), np.arange(3))) / 2
"""How far apart A, TIE and B are: a tie taken for a win is half as wrong as a win for a loss."""


def confusion_statistics(resolved: Resolved, cases: int) -> list[Statistic]:
    """Return `agreement/kappa_weighted` and `agreement/ac1` of verdicts and labels."""
    tally, used = Tally(resolved.pairs.case, cases), resolved.labelled & resolved.present
    label, winner = resolved.pairs.label, resolved.winner
    cells = [tally(used & (label == row) & (winner == column)) for row, column in product(CLASSES, CLASSES)]
    columns, lost = np.stack(cells, axis=1), resolved.labelled & ~resolved.present
    ties = bool(((label == TIE) & used).any() or ((winner == TIE) & used).any() or lost.any())
    categories = 3 if ties else 2

    totals = columns.sum(axis=0)
    filled = _vertices(totals, label, lost)
    statistic = partial(
        Statistic,
        columns=columns,
        n=int(used.sum()),
        missing=int(lost.sum()),
        why=one_class(used, resolved),
    )
    return [
        statistic(
            "agreement/kappa_weighted",
            value=unless_one_label(weighted_kappa, used, label),
            worst=(None, None) if one_value(label[used | lost]) else _ends(weighted_kappa(filled)),
        ),
        statistic(
            "agreement/ac1",
            value=partial(ac1, categories=categories),
            worst=_ac1_bounds(totals, filled, lost, categories),
        ),
    ]


def weighted_kappa(totals: Floats) -> Floats:
    """Return kappa with linear weights of confusion matrices given flat, rows of 9 counts (A, TIE, B).

    Cohen 1968, Psychol. Bull. 70, 213-220; NaN where chance alone would not disagree.
    """
    table = totals.reshape(-1, 3, 3)
    by_chance = table.sum(axis=2)[:, :, None] * table.sum(axis=1)[:, None, :]
    seen, expected = (table * STEPS).sum(axis=(1, 2)), (by_chance * STEPS).sum(axis=(1, 2))
    return np.asarray(1 - divide(seen * table.sum(axis=(1, 2)), expected))


def ac1(totals: Floats, categories: int) -> Floats:
    """Return Gwet's AC1 of confusion matrices given flat, rows of 9 counts, over 2 (A, B) or 3 categories.

    Gwet 2008, Br. J. Math. Stat. Psychol. 61, 29-48, eq. 5: unlike kappa it does not fall to 0 because nearly all
    labels are of one class.
    """
    table = totals.reshape(-1, 3, 3)
    n = table.sum(axis=(1, 2))
    share = divide(table.sum(axis=1) + table.sum(axis=2), 2 * n[:, None])
    by_chance = (share * (1 - share)).sum(axis=1) / (categories - 1)
    return divide(divide(np.trace(table, axis1=1, axis2=2), n) - by_chance, 1 - by_chance)


def _vertices(totals: Floats, label: Codes, lost: Bools) -> Floats:
    """Return the confusion matrix as it is, and those in which the missing verdicts of each label all are of one class.

    Kappa, weighted or not, is a ratio of linear functions of what is filled in: largest and smallest at one of these.
    """
    counts = [float((lost & (label == row)).sum()) for row in CLASSES]
    tables = [totals]
    for target in product(range(3), repeat=3):
        table = totals.reshape(3, 3).copy()
        for row, column in enumerate(target):
            table[row, column] += counts[row]
        tables.append(table.ravel())
    return np.array(tables)


def _ends(values: Floats) -> Bounds:
    defined = values[np.isfinite(values)]
    return (float(defined.min()), float(defined.max())) if len(defined) else (None, None)


def _ac1_bounds(totals: Floats, filled: Floats, lost: Bools, categories: int) -> Bounds:
    """Return bounds on AC1: largest at a vertex, since it is quasi-convex; never below what the evenest shares give."""
    missing, n = float(lost.sum()), float(totals.sum() + lost.sum())
    if not n:
        return None, None
    low, high = _ends(ac1(filled, 3 if missing else categories))
    if not missing or low is None:
        return low, high
    fixed = filled[1].reshape(3, 3).sum(axis=1) + totals.reshape(3, 3).sum(axis=0)
    share = _evenest(fixed, missing) / (2 * n)
    by_chance = float((share * (1 - share)).sum()) / 2
    evenest = (float(np.trace(totals.reshape(3, 3))) / n - by_chance) / (1 - by_chance)
    return min(low, evenest), high


def _evenest(fixed: Floats, extra: float) -> Floats:
    """Return counts to which `extra` is added where they are least, so that they are as even as can be."""
    ordered = np.sort(fixed)
    levels = [(ordered[:k].sum() + extra) / k for k in range(1, len(ordered) + 1)]
    level = next(level for k, level in enumerate(levels, 1) if k == len(ordered) or level <= ordered[k])
    return np.asarray(np.maximum(fixed, level))


def confusion_table(resolved: Resolved) -> dict[str, Any]:
    """Return how often each label met each verdict, `missing` among them: {"labels": {label: {verdict: count}}}."""
    columns = [*CLASSES, None]
    label, winner, present = resolved.pairs.label, resolved.winner, resolved.present

    def count(row: int, column: int | None) -> int:
        same = ~present if column is None else winner == column
        return int(((label == row) & same).sum())

    def name(column: int | None) -> str:
        return "missing" if column is None else NAMES[column]

    return {"labels": {NAMES[row]: {name(column): count(row, column) for column in columns} for row in CLASSES}}


def score_agreement(scored: Scored, scale: Scale, cases: int) -> Statistic:
    """Return `agreement/kappa_quadratic` of scores and grades, which must be on one scale.

    Kappa with quadratic weights needs no classes: it is 1 less the mean square of score less grade over what that
    would be were the two paired at random (Cohen 1968; Lin 1989, Biometrics 45, 255-268: the concordance correlation).
    """
    graded, there = np.isfinite(scored.grade), np.isfinite(scored.raw)
    used = graded & there
    x, y = scored.raw[used], scored.grade[used]
    off = bool(len(y)) and not (scale.min <= y.min() and y.max() <= scale.max)
    centre = (scale.min + scale.max) / 2
    x, y, tally = x - centre, y - centre, Tally(scored.case[used], cases)
    columns = np.stack([tally(values) for values in (np.ones(len(x)), x, y, x * x, y * y, x * y)], axis=1)
    missing = int((graded & ~there).sum())
    return Statistic(
        "agreement/kappa_quadratic",
        np.zeros((cases, 6)) if off else columns,
        concordance,
        n=len(x),
        missing=missing,
        note="missing scores are left out and not bounded" if missing else None,
        why=_why_no_concordance(off, len(x), scale),
    )


def _why_no_concordance(off: bool, n: int, scale: Scale) -> str:
    if off:
        return f"grades are not on the judge's scale, {scale.name()}"
    return "scores and grades are all equal" if n else "no scored response has a grade"


def concordance(totals: Floats) -> Floats:
    """Return the concordance of moments given as rows of n and the sums of x, y, xx, yy, xy."""
    n, x, y, xx, yy, xy = totals.T
    at_random = n * xx + n * yy - 2 * x * y
    return divide(2 * (n * xy - x * y), np.where(at_random > 1e-12 * n * n, at_random, 0.0))
