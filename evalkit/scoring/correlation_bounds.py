"""The least and the largest that a correlation with grades can be, whatever the missing scores are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalkit.scoring.bootstrap import Bounds
from evalkit.scoring.columns import Floats

LARGEST = 4000
"""Up to so many different responses bounds are sought; two responses of one score and one grade are not different."""


def pearson_bounds(x: Floats, y: Floats, missing_y: Floats, ends: tuple[float, float]) -> Bounds:
    """Return bounds of Pearson's r of scores `x`, and missing ones of grades `missing_y`, on a scale with `ends`.

    They are exact. The largest r is found as `_largest` does. The least, where none is negative, is that of a
    pseudoconcave function, and so at a corner of the box (Mangasarian 1969, Nonlinear Programming, ch. 9): every
    missing score is at one end or the other, and of those corners with k at the upper end, which differ only in their
    covariance with the grades, the one counts in which these have the k lowest grades.
    """
    lost, n = len(missing_y), len(x) + len(missing_y)
    low = np.concatenate([x, np.full(lost, ends[0])])
    high = np.concatenate([x, np.full(lost, ends[1])])

    def far(c: Floats) -> float:
        up = np.arange(lost + 1)
        sums = [np.sum(x**power) + ends[0] ** power * (lost - up) + ends[1] ** power * up for power in (1, 2)]
        gained = np.concatenate([[0.0], np.cumsum(np.sort(c[len(x) :]))])
        along = c @ low + (ends[1] - ends[0]) * gained
        squares = sums[1] - sums[0] ** 2 / n
        defined = squares > 1e-12 * np.maximum(1.0, sums[1])  # else all scores are equal, and there is no r
        return float((along[defined] / np.sqrt(squares[defined])).min(initial=1.0))

    return _both(np.concatenate([y, missing_y]), low, high, far)


def spearman_bounds(x: Floats, y: Floats, missing_y: Floats) -> Bounds:
    """Return bounds of Spearman's rho, on any scale.

    It is Pearson's r of mid-ranks. Each of m missing scores puts at most one more below a known one, whose rank thus
    lies between what it is among the known and that plus m; a missing one's lies in 1…n. The bounds are Pearson's over
    all such numbers, be they ranks or not: true ones, perhaps not attained. Where all of these are of one sign, the one
    next to 0 is the least covariance over the largest deviation that n ranks can have with the ties there are.
    """
    lost = len(missing_y)
    rank, n = _mid_ranks(x), len(x) + lost
    low = np.concatenate([rank, np.full(lost, 1.0)])
    high = np.concatenate([rank + lost, np.full(lost, float(n))])
    ties = np.unique(x, return_counts=True)[1].astype(np.float64)
    squares = (float(n) ** 3 - n - (ties**3 - ties).sum()) / 12

    def far(c: Floats) -> float:
        return float(c @ np.where(c > 0, low, high) / np.sqrt(squares))

    return _both(_mid_ranks(np.concatenate([y, missing_y])), low, high, far)


def kendall_bounds(x: Floats, y: Floats, missing_y: Floats, tau: float) -> Bounds:
    """Return bounds of Kendall's tau-b, which is `tau` where scores are known, on any scale.

    Of pairs with a missing score let M be all, and m those of different grades. At best all m are concordant: S grows
    by m, and the pairs X of different scores by m at least and M at most. S / sqrt(X Y) is largest with the fewest
    if S is positive, with the most if it is negative; and the other way round for the least. Such pairs need not all be
    possible at once: true bounds, perhaps not attained.
    """
    untied_x, untied_y = _untied(x), _untied(y)
    every_y = _untied(np.concatenate([y, missing_y]))
    n, known = len(x) + len(missing_y), len(x)
    more = n * (n - 1) / 2 - known * (known - 1) / 2
    different = every_y - untied_y
    if not every_y:
        return None, None
    agreement = tau * np.sqrt(untied_x * untied_y) if np.isfinite(tau) else 0.0

    def largest(s: float) -> float:
        s += different
        pairs = untied_x + (different if s > 0 else more)
        return min(1.0, max(-1.0, float(s / np.sqrt(pairs * every_y)))) if pairs else 0.0

    return -largest(-agreement), largest(agreement)


def _untied(values: Floats) -> float:
    """Return how many pairs of values differ."""
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float(len(values) * (len(values) - 1) / 2 - (counts * (counts - 1) / 2).sum())


def _mid_ranks(values: Floats) -> Floats:
    _, level, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[level.reshape(-1)])


def _both(y: Floats, low: Floats, high: Floats, far: Callable[[Floats], float]) -> Bounds:
    """Return the bounds of Pearson's r of `y` with numbers between `low` and `high`; none for too many.

    `far` returns the least r with a direction, where all that can be are positive.
    """
    if not len(y) or np.ptp(y) == 0:
        return None, None
    rows, counts = np.unique(np.stack([y, low, high]), axis=1, return_counts=True)
    if rows.shape[1] > LARGEST:
        return None, None
    centred, weight = y - y.mean(), counts.astype(np.float64)
    length = np.sqrt(centred @ centred)
    direction, least, most = (rows[0] - y.mean()) / length, rows[1], rows[2]

    def largest(sign: int) -> float:
        found = _largest(sign * direction, least, most, weight)
        return -far(-sign * centred / length) if found is None else found

    low_end, high_end = (float(np.clip(sign * largest(sign), -1.0, 1.0)) for sign in (-1, 1))
    return low_end, high_end


def _largest(c: Floats, low: Floats, high: Floats, weight: Floats) -> float | None:
    """Return the largest r of numbers in a box with the direction `c`, centred and of length 1; none if not positive.

    Where positive, r is a linear function over a convex one, and so pseudoconcave: a point that cannot be improved by a
    small step is a maximum (Mangasarian 1965, SIAM J. Control 3, 281-290). Rows alike have numbers alike in it.
    """
    from scipy.optimize import minimize

    start = np.where(c > 0, high, low)
    if weight @ (c * start) <= 1e-12:
        return None
    shift, scale = float(low.min()), max(float(high.max() - low.min()), 1e-12)
    total = weight.sum()

    def loss(x: Floats) -> tuple[float, Floats]:
        centred = x - weight @ x / total
        along, squares = weight @ (c * x), weight @ centred**2
        if along <= 0 or squares <= 0:
            return 1e6, np.zeros(len(x))
        return float(0.5 * np.log(squares) - np.log(along)), weight * (centred / squares - c / along)

    bounds = np.stack([(low - shift) / scale, (high - shift) / scale], axis=1)
    options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(loss, (start - shift) / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(np.exp(-found.fun))
