"""Agreement of verdicts with labels, of scores with grades, and of judges with each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from evalkit.core.scale import Scale
from evalkit.scoring.columns.cases import NAMES, NONE, TIE, A, B
from evalkit.scoring.columns.verdicts import PassColumns, ScoreColumns, VerdictColumns
from evalkit.scoring.metrics.rates import split_rate
from evalkit.scoring.stats.arrays import Bools, Bounds, Codes, Floats, Ints, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally, share
from evalkit.scoring.stats.bounded_intervals import Reach, mixed
from evalkit.scoring.stats.confusion import ac1, confused, kappa, most_even, weighted_kappa

CLASSES = (A, TIE, B)
UNLABELED = "no pair has a label"
UNREAD = "no labeled pair has a verdict"


def agreement_statistics(verdicts: VerdictColumns) -> list[Statistic]:
    """Return accuracy, accuracy among decided pairs, and kappa of the verdicts on labeled pairs.

    For accuracy and kappa, a TIE equals only a label TIE. A pair is decided if verdict and label both name a winner; a
    judge that ignores the responses is right on half of these.
    """
    tally, labeled, present = verdicts.tally, verdicts.labeled, verdicts.present
    right = verdicts.winner == verdicts.pairs.label
    why = UNREAD if labeled.any() else UNLABELED
    accuracy = tally.rate("agreement/accuracy", right, labeled & present, labeled & ~present, why=why)
    return [accuracy, _decided(verdicts, tally), _kappa(verdicts, tally)]


def _decided(verdicts: VerdictColumns, tally: Tally) -> Statistic:
    """Return `agreement/accuracy_decided`; a missing verdict could be correct, wrong or a tie."""
    choosing = verdicts.labeled & (verdicts.pairs.label != TIE)
    decided = choosing & verdicts.present & (verdicts.winner != TIE)
    why = UNREAD if choosing.any() else "no label names a winner" if verdicts.labeled.any() else UNLABELED
    return tally.rate(
        "agreement/accuracy_decided",
        verdicts.winner == verdicts.pairs.label,
        decided,
        choosing & ~verdicts.present,
        why="every verdict on a labeled pair is a tie" if (choosing & verdicts.present).any() else why,
    )


def pass_statistics(verdicts: VerdictColumns, passes: PassColumns) -> list[Statistic]:
    """Return the accuracies of single passes over labeled pairs, per order and in both orders."""
    tally = verdicts.tally
    return [
        _per_order(verdicts, passes, tally),
        _one_order("agreement/accuracy_first_order", 0, verdicts, passes, tally),
        _one_order("agreement/accuracy_second_order", 1, verdicts, passes, tally),
        _both_orders(verdicts, passes, tally),
    ]


def _per_order(verdicts: VerdictColumns, passes: PassColumns, tally: Tally) -> Statistic:
    """Return the mean over both orders of the share of readable passes that equal the label."""
    relevant = verdicts.labeled & passes.both
    read = passes.read & relevant[:, None]
    right = read & (passes.winner == verdicts.pairs.label[:, None])
    unread = ~read & relevant[:, None]
    columns = [tally(column) for column in (*right.T, *read.T)]
    every = float(relevant.sum())
    ends = [share(float(right[:, k].sum()), every, float(unread[:, k].sum())) for k in (0, 1)]
    return Statistic(
        "agreement/accuracy_per_order",
        np.stack(columns, axis=1),
        lambda totals: (divide(totals[:, 0], totals[:, 2]) + divide(totals[:, 1], totals[:, 3])) / 2,
        n=int(read.sum()),
        missing=int(unread.sum()),
        worst=_mean_bounds(ends),
        proportion=True,
        why=_why_no_passes(verdicts, passes),
    )


def _one_order(name: str, order: int, verdicts: VerdictColumns, passes: PassColumns, tally: Tally) -> Statistic:
    """Return the share of readable passes in one order that equal the label; order 0 is the case's own.

    Args:
        name: the metric's name.
        order: 0 or 1.
        verdicts: the verdicts.
        passes: the result of each order.
        tally: the case of each pair.
    """
    relevant, read = verdicts.labeled & passes.both, passes.read[:, order]
    right = passes.winner[:, order] == verdicts.pairs.label
    return tally.rate(name, right, relevant & read, relevant & ~read, why=_why_no_passes(verdicts, passes))


def _mean_bounds(ends: list[Bounds]) -> Bounds:
    (low, high), (other_low, other_high) = ends
    if low is None or high is None or other_low is None or other_high is None:
        return None, None
    return (low + other_low) / 2, (high + other_high) / 2


def _both_orders(verdicts: VerdictColumns, passes: PassColumns, tally: Tally) -> Statistic:
    """Return the share of pairs read in both orders in which both passes equal the label."""
    relevant = verdicts.labeled & passes.both
    complete = passes.read[:, 0] & passes.read[:, 1]
    right = (passes.winner == verdicts.pairs.label[:, None]).all(axis=1)
    why = _why_no_passes(verdicts, passes)
    return tally.rate("agreement/accuracy_both_orders", right, relevant & complete, relevant & ~complete, why=why)


def _why_no_passes(verdicts: VerdictColumns, passes: PassColumns) -> str:
    if not verdicts.labeled.any():
        return UNLABELED
    return "no labeled pair was read in both orders" if passes.both else "each pair was judged in one order"


def _kappa(verdicts: VerdictColumns, tally: Tally) -> Statistic:
    """Return Cohen's kappa of verdicts and labels over A, TIE, B (Cohen 1960, Educ. Psychol. Meas. 20, 37-46, eq. 1).

    Its bounds are the extremes of kappa without the missing verdicts, with each of them equal to its label, and with
    those of each label in one of the other classes. The class shares change too, so more agreement can mean a lower
    kappa. If all labels belong to one class, kappa is 0 for any verdicts and is reported as undefined.
    """
    read = verdicts.labeled & verdicts.present
    unread = verdicts.labeled & ~verdicts.present
    label, winner = verdicts.pairs.label, verdicts.winner
    cells = [tally(read & (label == row) & (winner == column)) for row, column in product(CLASSES, CLASSES)]
    columns = np.stack(cells, axis=1)
    return Statistic(
        "agreement/kappa",
        columns,
        unless_one_label(kappa, read, label),
        n=int(read.sum()),
        missing=int(unread.sum()),
        reach=confused(kappa, columns),
        worst=(None, None) if one_value(label[read | unread]) else kappa_bounds(columns.sum(axis=0), label, unread),
        why=one_class(read, verdicts),
    )


def unless_one_label(value: Callable[[Floats], Floats], read: Bools, label: Codes) -> Callable[[Floats], Floats]:
    """Return `value`, or NaN for every row if all labels are equal and the coefficient is 0 by construction.

    Args:
        value: maps totals (rows, columns) to the coefficient.
        read: (pairs,) which pairs count.
        label: (pairs,) their labels.
    """
    return (lambda totals: np.full(len(totals), np.nan)) if one_value(label[read]) else value


def one_value(codes: Codes) -> bool:
    """Return whether all codes are equal."""
    return len(np.unique(codes)) == 1


def one_class(read: Bools, verdicts: VerdictColumns) -> str:
    """Return why a coefficient of agreement over the labeled pairs in `read` is undefined."""
    if not read.any():
        return UNREAD if verdicts.labeled.any() else UNLABELED
    labels = np.unique(verdicts.pairs.label[read])
    if len(labels) > 1:
        return "verdicts and labels are all of one class"
    return f"labels are all of one class ({NAMES[int(labels[0])]}): it would be 0 whatever the verdicts are"


def kappa_bounds(totals: Floats, label: Codes, unread: Bools) -> Bounds:
    """Return the lowest and highest kappa if every unread verdict of a label had the same value."""
    counts = [float((unread & (label == row)).sum()) for row in CLASSES]
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


def confusion_statistics(verdicts: VerdictColumns) -> list[Statistic]:
    """Return `agreement/kappa_weighted` and `agreement/ac1` of verdicts and labels."""
    tally, read = verdicts.tally, verdicts.labeled & verdicts.present
    label, winner = verdicts.pairs.label, verdicts.winner
    cells = [tally(read & (label == row) & (winner == column)) for row, column in product(CLASSES, CLASSES)]
    columns, unread = np.stack(cells, axis=1), verdicts.labeled & ~verdicts.present
    ties = bool(((label == TIE) & read).any() or ((winner == TIE) & read).any() or unread.any())
    categories = 3 if ties else 2

    totals = columns.sum(axis=0)
    filled = _extreme_tables(totals, label, unread)
    statistic = partial(
        Statistic,
        columns=columns,
        n=int(read.sum()),
        missing=int(unread.sum()),
        why=one_class(read, verdicts),
    )
    return [
        statistic(
            "agreement/kappa_weighted",
            value=unless_one_label(weighted_kappa, read, label),
            reach=confused(weighted_kappa, columns),
            worst=(None, None) if one_value(label[read | unread]) else _range(weighted_kappa(filled)),
        ),
        statistic(
            "agreement/ac1",
            value=partial(ac1, categories=categories),
            reach=confused(ac1, columns),
            worst=_ac1_bounds(totals, filled, unread, categories),
        ),
    ]


def _extreme_tables(totals: Floats, label: Codes, unread: Bools) -> Floats:
    """Return the confusion matrix, and those with all missing verdicts of each label in one class, (28, 9).

    Kappa, weighted or not, is a ratio of linear functions of the filled-in counts, so it is extreme at one of these.

    Args:
        totals: (9,) the flat confusion matrix.
        label: (pairs,) the labels.
        unread: (pairs,) which labeled pairs have no verdict.
    """
    counts = [float((unread & (label == row)).sum()) for row in CLASSES]
    tables = [totals]
    for target in product(range(3), repeat=3):
        table = totals.reshape(3, 3).copy()
        for row, column in enumerate(target):
            table[row, column] += counts[row]
        tables.append(table.ravel())
    return np.array(tables)


def _range(values: Floats) -> Bounds:
    defined = values[np.isfinite(values)]
    return (float(defined.min()), float(defined.max())) if len(defined) else (None, None)


def _ac1_bounds(totals: Floats, filled: Floats, unread: Bools, categories: int) -> Bounds:
    """Return bounds on AC1: the maximum is at an extreme table, since AC1 is quasi-convex; the minimum may be inside.

    Args:
        totals: (9,) the flat confusion matrix.
        filled: (28, 9) the extreme tables.
        unread: (pairs,) which labeled pairs have no verdict.
        categories: 2 or 3.
    """
    missing, n = float(unread.sum()), float(totals.sum() + unread.sum())
    if not n:
        return None, None
    low, high = _range(ac1(filled, 3 if missing else categories))
    if not missing or low is None:
        return low, high
    fixed = filled[1].reshape(3, 3).sum(axis=1) + totals.reshape(3, 3).sum(axis=0)
    share = most_even(fixed, missing) / (2 * n)
    by_chance = float((share * (1 - share)).sum()) / 2
    evenest = (float(np.trace(totals.reshape(3, 3))) / n - by_chance) / (1 - by_chance)
    return min(low, evenest), high


def confusion_table(verdicts: VerdictColumns) -> dict[str, Any]:
    """Return {"labels": {label: {verdict: count}}}, with `missing` among the verdicts."""
    columns = [*CLASSES, None]
    label, winner, present = verdicts.pairs.label, verdicts.winner, verdicts.present

    def count(row: int, column: int | None) -> int:
        same = ~present if column is None else winner == column
        return int(((label == row) & same).sum())

    def name(column: int | None) -> str:
        return "missing" if column is None else NAMES[column]

    return {"labels": {NAMES[row]: {name(column): count(row, column) for column in columns} for row in CLASSES}}


def score_agreement(scored: ScoreColumns, scale: Scale, cases: int) -> Statistic:
    """Return `agreement/kappa_quadratic` of scores and grades on the same scale.

    Kappa with quadratic weights needs no classes: it is 1 minus the mean squared difference of scores and grades over
    its expected value if they were paired at random (Cohen 1968; Lin 1989, Biometrics 45, 255-268: the concordance
    correlation).

    Args:
        scored: the scores.
        scale: the scale of the rubric.
        cases: the number of cases.
    """
    graded, known = np.isfinite(scored.grade), np.isfinite(scored.raw)
    read = graded & known
    x, y = scored.raw[read], scored.grade[read]
    off_scale = bool(len(y)) and not (scale.min <= y.min() and y.max() <= scale.max)
    center = (scale.min + scale.max) / 2
    x, y, tally = x - center, y - center, Tally(scored.case[read], cases)
    columns = np.stack([tally(values) for values in moments(x, y)], axis=1)
    corners = moments(*scale.span / 2 * np.array([[-1, -1, 1, 1], [-1, 1, -1, 1]]))
    missing = int((graded & ~known).sum())
    return Statistic(
        "agreement/kappa_quadratic",
        np.zeros((cases, 6)) if off_scale else columns,
        concordance,
        reach=mixed(concordance, columns.sum(axis=0), np.stack(corners, axis=1), len(x)),
        n=len(x),
        missing=missing,
        note="missing scores are omitted and not bounded" if missing else None,
        why=_why_no_concordance(off_scale, len(x), scale),
    )


def score_error(scored: ScoreColumns, scale: Scale, cases: int) -> Statistic:
    """Return `agreement/rmse`: the root mean squared difference of scores and grades on the same scale.

    Args:
        scored: the scores.
        scale: the scale of the rubric.
        cases: the number of cases.
    """
    graded, known = np.isfinite(scored.grade), np.isfinite(scored.raw)
    read, unread = graded & known, graded & ~known
    x, y = scored.raw[read], scored.grade[read]
    off_scale = bool(len(y)) and not (scale.min <= y.min() and y.max() <= scale.max)
    squared, tally = (x - y) ** 2, Tally(scored.case[read], cases)
    missing, n = scored.grade[unread], len(x)
    farthest = np.maximum(missing - scale.min, scale.max - missing) ** 2
    count, total = n + len(missing), float(squared.sum())
    ends = [float(np.sqrt(end / count)) for end in (total, total + float(farthest.sum()))] if count else []
    rows = np.array([[0.0, 1.0], [scale.span**2, 1.0]])
    return Statistic(
        "agreement/rmse",
        np.zeros((cases, 2)) if off_scale else np.stack([tally(squared), tally(np.ones(n))], axis=1),
        _root_of_mean,
        reach=mixed(_root_of_mean, np.array([total, n]), rows, n),
        n=n,
        missing=len(missing),
        worst=(ends[0], ends[1]) if n and not off_scale else (None, None),
        why=_why_no_concordance(off_scale, 0, scale),
    )


def _root_of_mean(totals: Floats) -> Floats:
    return np.sqrt(divide(totals[:, 0], totals[:, 1]))


def moments(x: Floats, y: Floats) -> tuple[Floats, ...]:
    """Return the columns whose sums are the moments of x and y: 1, x, y, xx, yy and xy."""
    return np.ones(len(x)), x, y, x * x, y * y, x * y


def _why_no_concordance(off_scale: bool, n: int, scale: Scale) -> str:
    if off_scale:
        return f"grades are not on the judge's scale, {scale.name()}"
    return "scores and grades are all equal" if n else "no scored response has a grade"


def concordance(totals: Floats) -> Floats:
    """Return the concordance correlation of moments (rows, 6): n and the sums of x, y, xx, yy, xy."""
    n, x, y, xx, yy, xy = totals.T
    at_random = n * xx + n * yy - 2 * x * y
    return divide(2 * (n * xy - x * y), np.where(at_random > 1e-12 * n * n, at_random, 0.0))


def nominal_columns(counts: Floats, tally: Tally) -> Floats:
    """Return the coincidences of classes by case, (cases, classes²); `counts` (units, classes) are labels per unit."""
    size = counts.sum(axis=1)
    weight = np.where(size > 1, 1 / np.maximum(size - 1, 1), 0.0)
    classes = range(counts.shape[1])
    cells = [counts[:, a] * (counts[:, b] - (a == b)) * weight for a in classes for b in classes]
    return np.stack([tally(cell) for cell in cells], axis=1)


def coincidences(k: int) -> Floats:
    """Return what one value of a unit with two values adds to `nominal_columns`, for any two of `k` classes."""
    cells = np.eye(k)
    one, two = np.triu_indices(k)
    pairs = cells[one, :, None] * cells[two, None, :]
    return np.asarray((pairs + pairs.transpose(0, 2, 1)).reshape(len(one), k * k) / 2)


def nominal_alpha(totals: Floats) -> Floats:
    """Return nominal alpha of flat coincidence matrices (rows, classes²); NaN if only one class occurs."""
    k = round(totals.shape[1] ** 0.5)
    table = totals.reshape(-1, k, k)
    margin = table.sum(axis=2)
    n = margin.sum(axis=1)
    observed = n - np.trace(table, axis1=1, axis2=2)
    expected = n * n - (margin * margin).sum(axis=1)
    return np.asarray(1 - (n - 1) * divide(observed, np.where(expected > 1e-9, expected, 0.0)))


def interval_columns(values: Floats, unit: Ints, units: int, tally: Tally) -> Floats:
    """Return the sums by case for interval alpha, (cases, 4).

    Args:
        values: (n,) the values.
        unit: (n,) the unit of each value.
        units: the number of units.
        tally: the case of each unit.
    """
    size = np.bincount(unit, minlength=units).astype(np.float64)
    sums = np.bincount(unit, weights=values, minlength=units)
    squares = np.bincount(unit, weights=values * values, minlength=units)
    paired = size > 1
    differences = np.where(paired, 2 * (size * squares - sums * sums) / np.maximum(size - 1, 1), 0.0)
    return np.stack(
        [tally(differences), *(tally(np.where(paired, part, 0.0)) for part in (size, sums, squares))], axis=1
    )


def interval_alpha(totals: Floats) -> Floats:
    """Return interval alpha from the totals of `interval_columns`; NaN if all values are equal."""
    differences, n, sums, squares = totals.T
    expected = 2 * (n * squares - sums * sums)
    return np.asarray(1 - (n - 1) * divide(differences, np.where(expected > 1e-9 * n, expected, 0.0)))


def interval_reach(columns: Floats, ends: Floats) -> Reach:
    """Return how far interval alpha could be if the two values of each unlike unit were at the `ends`, or at one."""
    low, high = ends
    values = ((low, low), (high, high), (low, high))
    rows = [[2 * (a - b) ** 2, 1.0, (a + b) / 2, (a * a + b * b) / 2] for a, b in values]
    totals = columns.sum(axis=0)
    return mixed(interval_alpha, totals, np.array(rows), float(totals[1]))


def panel_agreement(panel: VerdictColumns, each: Sequence[VerdictColumns], cases: int) -> list[Statistic]:
    """Return `panel/alpha` of winners or scores, and for pairs `panel/unanimous` and `tie_rate/split`.

    Args:
        panel: the panel's verdicts.
        each: the verdicts of each judge.
        cases: the number of cases.
    """
    if panel.passes is None and panel.scores is not None:
        scores = np.stack([one.scores.raw for one in each if one.scores is not None])
        return [_score_alpha(scores, panel.scores.case, cases)]
    winners = np.stack([one.winner for one in each])
    tally = panel.tally
    return [*_winner_agreement(winners, tally), split_rate(panel)]


def _winner_agreement(winners: Codes, tally: Tally) -> list[Statistic]:
    """Return nominal alpha over A, TIE and B, and how often all votes agree if there are at least two."""
    counts = np.stack([(winners == code).sum(axis=0) for code in (A, TIE, B)], axis=1).astype(np.float64)
    return panel_alpha(counts, winners != NONE, tally, "pairs")


def panel_alpha(counts: Floats, known: Bools, tally: Tally, units: str) -> list[Statistic]:
    """Return `panel/alpha` and `panel/unanimous` of votes for classes.

    Args:
        counts: (units, classes) the votes for each class.
        known: (judges, units) which votes could be read.
        tally: the case of each unit.
        units: the name of the units in notes.
    """
    votes = counts.sum(axis=1)
    several = votes > 1
    columns = nominal_columns(counts, tally)
    reach = mixed(nominal_alpha, columns.sum(axis=0), coincidences(counts.shape[1]), float(columns.sum()))
    same = counts.max(axis=1) == votes
    note, why = f"of the {units} with at least two votes", _why_no_votes(several)
    return [
        _alpha(columns, nominal_alpha, known, reach),
        tally.rate("panel/unanimous", same, several, ~several, note=note, why=why),
    ]


def _score_alpha(scores: Floats, case: Ints, cases: int) -> Statistic:
    tally, units = Tally(case, cases), scores.shape[1]
    known = np.isfinite(scores)
    unit = np.broadcast_to(np.arange(units), scores.shape)
    # Centered, because sums of squares of large, similar numbers lose precision.
    center = float(scores[known].mean()) if known.any() else 0.0
    columns = interval_columns(scores[known] - center, unit[known], units, tally)
    ends = np.array([scores[known].min(), scores[known].max()]) - center if known.any() else np.zeros(2)
    return _alpha(columns, interval_alpha, known, interval_reach(columns, ends))


def _alpha(columns: Floats, value: Callable[[Floats], Floats], known: Bools, reach: Reach) -> Statistic:
    several = known.sum(axis=0) > 1
    return Statistic(
        "panel/alpha",
        columns,
        value,
        reach=reach,
        n=int(known[:, several].sum()),
        missing=int((~known).sum()),
        note="missing votes are omitted and not bounded" if not known.all() else None,
        why="all votes are equal" if several.any() else _why_no_votes(several),
    )


def _why_no_votes(several: Bools) -> str:
    return "nothing to count" if several.any() else "no unit was judged by two judges"
