"""Agreement of verdicts with labels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from evalkit.scoring.bootstrap import Bounds, Statistic, Tally, divide, share
from evalkit.scoring.columns import NAMES, TIE, A, B, Bools, Codes, Floats
from evalkit.scoring.ties import Resolved, Shown

CLASSES = (A, TIE, B)
UNLABELLED = "no pair has a label"
UNREAD = "no labelled pair has a verdict"


def agreement_statistics(resolved: Resolved, cases: int) -> list[Statistic]:
    """Return accuracy, accuracy among decided pairs, and kappa of the verdicts on labelled pairs.

    For accuracy and kappa a TIE equals a label TIE and no other. A pair is decided where verdict and label both name a
    winner: there, a judge that knows nothing of the responses is right half of the time.
    """
    tally, labelled, present = Tally(resolved.pairs.case, cases), resolved.labelled, resolved.present
    right = resolved.winner == resolved.pairs.label
    why = UNREAD if labelled.any() else UNLABELLED
    accuracy = tally.rate("agreement/accuracy", right, labelled & present, labelled & ~present, why=why)
    return [accuracy, _decided(resolved, tally), _kappa(resolved, tally)]


def _decided(resolved: Resolved, tally: Tally) -> Statistic:
    """Return `agreement/accuracy_decided`; a missing verdict could have been right, wrong or a tie."""
    choosing = resolved.labelled & (resolved.pairs.label != TIE)
    decided = choosing & resolved.present & (resolved.winner != TIE)
    why = UNREAD if choosing.any() else "no label names a winner" if resolved.labelled.any() else UNLABELLED
    return tally.rate(
        "agreement/accuracy_decided",
        resolved.winner == resolved.pairs.label,
        decided,
        choosing & ~resolved.present,
        why="every verdict on a labelled pair is a tie" if (choosing & resolved.present).any() else why,
    )


def pass_statistics(resolved: Resolved, shown: Shown, cases: int) -> list[Statistic]:
    """Return the accuracies of the single passes of labelled pairs, in each order and in both."""
    tally = Tally(resolved.pairs.case, cases)
    return [
        _per_order(resolved, shown, tally),
        _one_order("agreement/accuracy_first_order", 0, resolved, shown, tally),
        _one_order("agreement/accuracy_second_order", 1, resolved, shown, tally),
        _both_orders(resolved, shown, tally),
    ]


def _per_order(resolved: Resolved, shown: Shown, tally: Tally) -> Statistic:
    """Return the mean over both orders of the share of readable passes that equal the label."""
    wanted = resolved.labelled & shown.both
    read = shown.read & wanted[:, None]
    right = read & (shown.winner == resolved.pairs.label[:, None])
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
        why=_why_no_passes(resolved, shown),
    )


def _one_order(name: str, order: int, resolved: Resolved, shown: Shown, tally: Tally) -> Statistic:
    """Return the share of readable passes in one order, 0 being that of the case, that equal the label."""
    wanted, read = resolved.labelled & shown.both, shown.read[:, order]
    right = shown.winner[:, order] == resolved.pairs.label
    return tally.rate(name, right, wanted & read, wanted & ~read, why=_why_no_passes(resolved, shown))


def _middle(ends: list[Bounds]) -> Bounds:
    (low, high), (other_low, other_high) = ends
    if low is None or high is None or other_low is None or other_high is None:
        return None, None
    return (low + other_low) / 2, (high + other_high) / 2


def _both_orders(resolved: Resolved, shown: Shown, tally: Tally) -> Statistic:
    """Return the share of pairs, read in both orders, of which both passes equal the label."""
    wanted = resolved.labelled & shown.both
    complete = shown.read[:, 0] & shown.read[:, 1]
    right = (shown.winner == resolved.pairs.label[:, None]).all(axis=1)
    why = _why_no_passes(resolved, shown)
    return tally.rate("agreement/accuracy_both_orders", right, wanted & complete, wanted & ~complete, why=why)


def _why_no_passes(resolved: Resolved, shown: Shown) -> str:
    if not resolved.labelled.any():
        return UNLABELLED
    return "no labelled pair was read in both orders" if shown.both else "each pair was judged in one order"


def _kappa(resolved: Resolved, tally: Tally) -> Statistic:
    """Return Cohen's kappa of verdicts and labels over A, TIE, B (Cohen 1960, Educ. Psychol. Meas. 20, 37-46, eq. 1).

    Its worst cases are the extremes of kappa as it is, with every missing verdict on its label, and with every missing
    verdict of a label on one of the other classes: the classes' shares move too, so that more agreement can mean less.
    Where all labels are of one class kappa would be 0 whatever the verdicts are: it has no value.
    """
    used = resolved.labelled & resolved.present
    lost = resolved.labelled & ~resolved.present
    label, winner = resolved.pairs.label, resolved.winner
    cells = [tally(used & (label == row) & (winner == column)) for row, column in product(CLASSES, CLASSES)]
    columns = np.stack(cells, axis=1)
    return Statistic(
        "agreement/kappa",
        columns,
        unless_one_label(kappa, used, label),
        n=int(used.sum()),
        missing=int(lost.sum()),
        worst=(None, None) if one_value(label[used | lost]) else _kappa_bounds(columns.sum(axis=0), label, lost),
        why=one_class(used, resolved),
    )


def unless_one_label(value: Callable[[Floats], Floats], used: Bools, label: Codes) -> Callable[[Floats], Floats]:
    """Return a coefficient that is 0 by construction where all labels are equal, and in that case not defined."""
    return (lambda totals: np.full(len(totals), np.nan)) if one_value(label[used]) else value


def one_value(codes: Codes) -> bool:
    """Say whether all are equal."""
    return len(np.unique(codes)) == 1


def one_class(used: Bools, resolved: Resolved) -> str:
    """Return why a coefficient of agreement over the labelled pairs that are `used` is not defined."""
    if not used.any():
        return UNREAD if resolved.labelled.any() else UNLABELLED
    labels = np.unique(resolved.pairs.label[used])
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
