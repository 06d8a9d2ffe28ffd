"""Agreement of verdicts with labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from evalkit.core.scale import Scale
from evalkit.scoring.columns.codes import NAMES, NONE, TIE, A, B
from evalkit.scoring.columns.verdicts import PassColumns, ScoreColumns, VerdictColumns
from evalkit.scoring.metrics.rates import split_rate
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints, divide
from evalkit.scoring.stats.bootstrap import Bounds, Statistic, Tally, share

CLASSES = (A, TIE, B)
UNLABELLED = "no pair has a label"
UNREAD = "no labelled pair has a verdict"


def agreement_statistics(verdicts: VerdictColumns) -> list[Statistic]:
    """Return accuracy, accuracy among decided pairs, and kappa of the verdicts on labelled pairs.

    For accuracy and kappa a TIE equals a label TIE and no other. A pair is decided where verdict and label both name a
    winner: there, a judge that knows nothing of the responses is right half of the time.
    """
    tally, labelled, present = verdicts.tally, verdicts.labelled, verdicts.present
    right = verdicts.winner == verdicts.pairs.label
    why = UNREAD if labelled.any() else UNLABELLED
    accuracy = tally.rate("agreement/accuracy", right, labelled & present, labelled & ~present, why=why)
    return [accuracy, _decided(verdicts, tally), _kappa(verdicts, tally)]


def _decided(verdicts: VerdictColumns, tally: Tally) -> Statistic:
    """Return `agreement/accuracy_decided`; a missing verdict could have been right, wrong or a tie."""
    choosing = verdicts.labelled & (verdicts.pairs.label != TIE)
    decided = choosing & verdicts.present & (verdicts.winner != TIE)
    why = UNREAD if choosing.any() else "no label names a winner" if verdicts.labelled.any() else UNLABELLED
    return tally.rate(
        "agreement/accuracy_decided",
        verdicts.winner == verdicts.pairs.label,
        decided,
        choosing & ~verdicts.present,
        why="every verdict on a labelled pair is a tie" if (choosing & verdicts.present).any() else why,
    )


def pass_statistics(verdicts: VerdictColumns, passes: PassColumns) -> list[Statistic]:
    """Return the accuracies of the single passes of labelled pairs, in each order and in both."""
    tally = verdicts.tally
    return [
        _per_order(verdicts, passes, tally),
        _one_order("agreement/accuracy_first_order", 0, verdicts, passes, tally),
        _one_order("agreement/accuracy_second_order", 1, verdicts, passes, tally),
        _both_orders(verdicts, passes, tally),
    ]


def _per_order(verdicts: VerdictColumns, passes: PassColumns, tally: Tally) -> Statistic:
    """Return the mean over both orders of the share of readable passes that equal the label."""
    wanted = verdicts.labelled & passes.both
    read = passes.read & wanted[:, None]
    right = read & (passes.winner == verdicts.pairs.label[:, None])
    lost = ~read & wanted[:, None]
    columns = [tally(column) for column in (*right.T, *read.T)]
    every = float(wanted.sum())
    ends = [share(float(right[:, k].sum()), every, float(lost[:, k].sum())) for k in (0, 1)]
    return Statistic(
        "agreement/accuracy_per_order",
        np.stack(columns, axis=1),
        lambda totals: (divide(totals[:, 0], totals[:, 2]) + divide(totals[:, 1], totals[:, 3])) / 2,
        n=int(read.sum()),
        missing=int(lost.sum()),
        worst=_middle(ends),
        proportion=True,
        why=_why_no_passes(verdicts, passes),
    )


def _one_order(name: str, order: int, verdicts: VerdictColumns, passes: PassColumns, tally: Tally) -> Statistic:
    """Return the share of readable passes in one order, 0 being that of the case, that equal the label."""
    wanted, read = verdicts.labelled & passes.both, passes.read[:, order]
    right = passes.winner[:, order] == verdicts.pairs.label
    return tally.rate(name, right, wanted & read, wanted & ~read, why=_why_no_passes(verdicts, passes))


def _middle(ends: list[Bounds]) -> Bounds:
    (low, high), (other_low, other_high) = ends
    if low is None or high is None or other_low is None or other_high is None:
        return None, None
    return (low + other_low) / 2, (high + other_high) / 2


def _both_orders(verdicts: VerdictColumns, passes: PassColumns, tally: Tally) -> Statistic:
    """Return the share of pairs, read in both orders, of which both passes equal the label."""
    wanted = verdicts.labelled & passes.both
    complete = passes.read[:, 0] & passes.read[:, 1]
    right = (passes.winner == verdicts.pairs.label[:, None]).all(axis=1)
    why = _why_no_passes(verdicts, passes)
    return tally.rate("agreement/accuracy_both_orders", right, wanted & complete, wanted & ~complete, why=why)


def _why_no_passes(verdicts: VerdictColumns, passes: PassColumns) -> str:
    if not verdicts.labelled.any():
        return UNLABELLED
    return "no labelled pair was read in both orders" if passes.both else "each pair was judged in one order"


def _kappa(verdicts: VerdictColumns, tally: Tally) -> Statistic:
    """Return Cohen's kappa of verdicts and labels over A, TIE, B (Cohen 1960, Educ. Psychol. Meas. 20, 37-46, eq. 1).

    Its worst cases are the extremes of kappa as it is, with every missing verdict on its label, and with every missing
    verdict of a label on one of the other classes: the classes' shares move too, so that more agreement can mean less.
    Where all labels are of one class kappa would be 0 whatever the verdicts are: it has no value.
    """
    used = verdicts.labelled & verdicts.present
    lost = verdicts.labelled & ~verdicts.present
    label, winner = verdicts.pairs.label, verdicts.winner
    cells = [tally(used & (label == row) & (winner == column)) for row, column in product(CLASSES, CLASSES)]
    columns = np.stack(cells, axis=1)
    return Statistic(
        "agreement/kappa",
        columns,
        unless_one_label(kappa, used, label),
        n=int(used.sum()),
        missing=int(lost.sum()),
        worst=(None, None) if one_value(label[used | lost]) else _kappa_bounds(columns.sum(axis=0), label, lost),
        why=one_class(used, verdicts),
    )


def unless_one_label(value: Callable[[Floats], Floats], used: Bools, label: Codes) -> Callable[[Floats], Floats]:
    """Return a coefficient that is 0 by construction where all labels are equal, and in that case not defined."""
    return (lambda totals: np.full(len(totals), np.nan)) if one_value(label[used]) else value


def one_value(codes: Codes) -> bool:
    """Say whether all are equal."""
    return len(np.unique(codes)) == 1


def one_class(used: Bools, verdicts: VerdictColumns) -> str:
    """Return why a coefficient of agreement over the labelled pairs that are `used` is not defined."""
    if not used.any():
        return UNREAD if verdicts.labelled.any() else UNLABELLED
    labels = np.unique(verdicts.pairs.label[used])
    if len(labels) > 1:
        return "verdicts and labels are all of one class"
    return f"labels are all of one class ({NAMES[int(labels[0])]}): it would be 0 whatever the verdicts are"


def kappa(totals: Floats) -> Floats:
    """Return Cohen's kappa of confusion matrices given flat, rows of 9 counts; NaN where chance agreement is 1."""
    table = totals.reshape(-1, 3, 3)
    n = table.sum(axis=(1, 2))
    by_chance = (table.sum(axis=1) * table.sum(axis=2)).sum(axis=1)
    agreed = np.trace(table, axis1=1, axis2=2)
    return divide(agreed * n - by_chance, n * n - by_chance)


def _kappa_bounds(totals: Floats, label: Codes, lost: Bools) -> Bounds:
    counts = [float((lost & (label == row)).sum()) for row in CLASSES]
    against = [[column for column in range(3) if column != row] for row in range(3)]
    targets = [(0, 1, 2), *product(*against)]
    found = [_kappa_with(totals, counts, target) for target in targets]
    found += [float(kappa(totals[None])[0])]
    defined = [value for value in found if not np.isnan(value)]
    return (min(defined), max(defined)) if defined else (None, None)


def _kappa_with(totals: Floats, counts: list[float], target: tuple[int, ...]) -> float:
    filled = totals.reshape(3, 3).copy()
    for row, column in enumerate(target):
        filled[row, column] += counts[row]
    return float(kappa(filled.reshape(1, 9))[0])


STEPS = np.abs(np.subtract.outer(np.arange(3), np.arange(3))) / 2
"""How far apart A, TIE and B are: a tie taken for a win is half as wrong as a win for a loss."""


def confusion_statistics(verdicts: VerdictColumns) -> list[Statistic]:
    """Return `agreement/kappa_weighted` and `agreement/ac1` of verdicts and labels."""
    tally, used = verdicts.tally, verdicts.labelled & verdicts.present
    label, winner = verdicts.pairs.label, verdicts.winner
    cells = [tally(used & (label == row) & (winner == column)) for row, column in product(CLASSES, CLASSES)]
    columns, lost = np.stack(cells, axis=1), verdicts.labelled & ~verdicts.present
    ties = bool(((label == TIE) & used).any() or ((winner == TIE) & used).any() or lost.any())
    categories = 3 if ties else 2

    totals = columns.sum(axis=0)
    filled = _vertices(totals, label, lost)
    statistic = partial(
        Statistic,
        columns=columns,
        n=int(used.sum()),
        missing=int(lost.sum()),
        why=one_class(used, verdicts),
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


def confusion_table(verdicts: VerdictColumns) -> dict[str, Any]:
    """Return how often each label met each verdict, `missing` among them: {"labels": {label: {verdict: count}}}."""
    columns = [*CLASSES, None]
    label, winner, present = verdicts.pairs.label, verdicts.winner, verdicts.present

    def count(row: int, column: int | None) -> int:
        same = ~present if column is None else winner == column
        return int(((label == row) & same).sum())

    def name(column: int | None) -> str:
        return "missing" if column is None else NAMES[column]

    return {"labels": {NAMES[row]: {name(column): count(row, column) for column in columns} for row in CLASSES}}


def score_agreement(scored: ScoreColumns, scale: Scale, cases: int) -> Statistic:
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


def nominal_columns(counts: Floats, tally: Tally) -> Floats:
    """Return the coincidences of classes by case; `counts` holds how often each unit (row) was given each class."""
    size = counts.sum(axis=1)
    weight = np.where(size > 1, 1 / np.maximum(size - 1, 1), 0.0)
    classes = range(counts.shape[1])
    cells = [counts[:, a] * (counts[:, b] - (a == b)) * weight for a in classes for b in classes]
    return np.stack([tally(cell) for cell in cells], axis=1)


def nominal_alpha(totals: Floats) -> Floats:
    """Return alpha of coincidence matrices given flat (rows); NaN where only one class was ever given."""
    k = round(totals.shape[1] ** 0.5)
    table = totals.reshape(-1, k, k)
    margin = table.sum(axis=2)
    n = margin.sum(axis=1)
    observed = n - np.trace(table, axis1=1, axis2=2)
    expected = n * n - (margin * margin).sum(axis=1)
    return np.asarray(1 - (n - 1) * divide(observed, np.where(expected > 1e-9, expected, 0.0)))


def interval_columns(values: Floats, unit: Ints, units: int, tally: Tally) -> Floats:
    """Return by case what interval alpha needs; `values` are given to `unit`s, `tally` counts units by case."""
    size = np.bincount(unit, minlength=units).astype(np.float64)
    once = np.bincount(unit, weights=values, minlength=units)
    twice = np.bincount(unit, weights=values * values, minlength=units)
    paired = size > 1
    apart = np.where(paired, 2 * (size * twice - once * once) / np.maximum(size - 1, 1), 0.0)
    return np.stack([tally(apart), *(tally(np.where(paired, part, 0.0)) for part in (size, once, twice))], axis=1)


def interval_alpha(totals: Floats) -> Floats:
    """Return alpha for differences on an interval scale; NaN where all values are equal."""
    apart, n, once, twice = totals.T
    expected = 2 * (n * twice - once * once)
    return np.asarray(1 - (n - 1) * divide(apart, np.where(expected > 1e-9 * n, expected, 0.0)))


def panel_agreement(panel: VerdictColumns, each: Sequence[VerdictColumns], cases: int) -> list[Statistic]:
    """Return `panel/alpha`, of winners or in mode pointwise of scores, `panel/unanimous` and `tie_rate/split`."""
    if panel.passes is None and panel.scores is not None:
        scores = np.stack([one.scores.raw for one in each if one.scores is not None])
        return [_alpha_of_scores(scores, panel.scores.case, cases)]
    winners = np.stack([one.winner for one in each])
    tally = panel.tally
    return [*_of_winners(winners, tally), split_rate(panel)]


def _of_winners(winners: Codes, tally: Tally) -> list[Statistic]:
    """Nominal alpha over A, TIE and B, and how often all that voted say the same, where at least two did."""
    counts = np.stack([(winners == code).sum(axis=0) for code in (A, TIE, B)], axis=1).astype(np.float64)
    votes = counts.sum(axis=1)
    several = votes > 1
    columns = nominal_columns(counts, tally)
    same = counts.max(axis=1) == votes
    why = _why(several)
    return [
        _alpha(columns, nominal_alpha, winners != NONE),
        tally.rate("panel/unanimous", same, several, ~several, note="of the pairs on which two judges voted", why=why),
    ]


def _alpha_of_scores(scores: Floats, case: Ints, cases: int) -> Statistic:
    tally, units = Tally(case, cases), scores.shape[1]
    there = np.isfinite(scores)
    unit = np.broadcast_to(np.arange(units), scores.shape)
    # Centred, since sums of squares of large numbers that differ little lose what they differ by.
    centre = float(scores[there].mean()) if there.any() else 0.0
    columns = interval_columns(scores[there] - centre, unit[there], units, tally)
    return _alpha(columns, interval_alpha, there)


def _alpha(columns: Floats, value: Callable[[Floats], Floats], there: Bools) -> Statistic:
    several = there.sum(axis=0) > 1
    return Statistic(
        "panel/alpha",
        columns,
        value,
        n=int(there[:, several].sum()),
        missing=int((~there).sum()),
        note="missing votes are left out and not bounded" if not there.all() else None,
        why="all votes are equal" if several.any() else _why(several),
    )


def _why(several: Bools) -> str:
    return "nothing to count" if several.any() else "nothing was judged by two judges"
