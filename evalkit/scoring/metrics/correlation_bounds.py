"""Bounds of a correlation over all that missing scores could be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalkit.scoring.stats.arrays import Bounds, Floats
from evalkit.scoring.verdicts.pointwise import rank

LARGEST = 4000
"""Bounds are computed for at most this many distinct pairs of score and grade."""


def pearson_bounds(
    x: Floats, y: Floats, missing_y: Floats, ends: tuple[float, float]
) -> Bounds:
    """Return exact bounds of Pearson's r if some scores are missing.

    The largest r is found as in `_largest_r`. The smallest r, if all possible values
    are positive, is that of a pseudoconcave function, and so at a corner of the box
    (Mangasarian 1969, Nonlinear Programming, ch. 9): each missing score is at one end.
    Corners with k scores at the upper end differ only in their covariance with the
    grades, so the relevant one has them at the k lowest grades.

    Args:
        x: (n,) the scores.
        y: (n,) their grades.
        missing_y: (m,) the grades without a score.
        ends: the ends of the scale.
    """
    missing_grades = len(missing_y)
    n = len(x) + len(missing_y)
    bottom, top = ends
    low = np.concatenate([x, np.full(missing_grades, bottom)])
    high = np.concatenate([x, np.full(missing_grades, top)])

    def smallest(c: Floats) -> float:
        """Return the smallest correlation in a direction, over all choices of the missing scores.

        A convex function is largest in a corner, so each missing score is at one of the two ends.
        """
        # (corners,): how many of the missing scores are at the upper and at the lower end
        up = np.arange(missing_grades + 1)
        down = missing_grades - up
        # (corners,): the sum of all scores, and of their squares
        known_total = np.sum(x)
        total = known_total + bottom * down + top * up
        known_squares = np.sum(x**2)
        squared_bottom = bottom**2
        squared_top = top**2
        total_squares = known_squares + squared_bottom * down + squared_top * up
        # Scores move to the upper end by ascending grade: [corner] of the sums is what the
        # first `corner` missing scores gain.
        missing_direction = c[len(x) :]
        of_missing = np.sort(missing_direction)
        running_sums = np.cumsum(of_missing)
        gained = np.concatenate([[0.0], running_sums])
        width = top - bottom
        along_low = c @ low
        along = along_low + width * gained
        squares = total_squares - total**2 / n
        # Otherwise all scores are equal and r is undefined.
        least_squares = 1e-12 * np.maximum(1.0, total_squares)
        defined = squares > least_squares
        correlations = along[defined] / np.sqrt(squares[defined])
        return float(correlations.min(initial=1.0))

    grades = np.concatenate([y, missing_y])
    return _bounds_of_r(grades, low, high, smallest)


def spearman_bounds(x: Floats, y: Floats, missing_y: Floats) -> Bounds:
    """Return bounds of Spearman's rho on any scale if some scores are missing.

    Rho is Pearson's r of mid-ranks. Each of m missing scores adds at most one score below a known
    one, whose rank is therefore between its rank among the known and that plus m. The rank of a
    missing score is in 1…n. The bounds are those of Pearson's r over all such numbers, ranks or
    not, so they are valid but may not be attained. If all of these have one sign, the bound next to
    0 is the smallest covariance over the largest deviation of n ranks with the given ties.

    Args:
        x: (n,) the scores.
        y: (n,) their grades.
        missing_y: (m,) the grades without a score.
    """
    missing_grades = len(missing_y)
    scored_group = np.zeros(len(x), dtype=np.int64)
    ranks = rank(x, scored_group)
    n = len(x) + missing_grades
    # (n,): the known scores come first, then the missing ones, as in `grades` below.
    first_rank = np.full(missing_grades, 1.0)
    low = np.concatenate([ranks, first_rank])
    last_rank = np.full(missing_grades, float(n))
    high = np.concatenate([ranks + missing_grades, last_rank])
    _, counts = np.unique(x, return_counts=True)
    ties = counts.astype(np.float64)
    lost_by_ties = (ties**3 - ties).sum()
    squares = (float(n) ** 3 - n - lost_by_ties) / 12

    def smallest(c: Floats) -> float:
        lowest = np.where(c > 0, low, high)
        return float(c @ lowest / np.sqrt(squares))

    grades = np.concatenate([y, missing_y])
    one_group = np.zeros(n, dtype=np.int64)
    grade_ranks = rank(grades, one_group)
    return _bounds_of_r(grade_ranks, low, high, smallest)


def kendall_bounds(x: Floats, y: Floats, missing_y: Floats, tau: float) -> Bounds:
    """Return bounds of Kendall's tau-b on any scale if some scores are missing.

    Among pairs with a missing score, let M be all pairs and m those with different grades. At best
    all m are concordant: S grows by m, and the number X of pairs with different scores by between m
    and M. S / sqrt(X Y) is largest with the fewest pairs if S is positive and with the most if it
    is negative, and the reverse for the smallest. Not all of these pairs need be possible at once,
    so the bounds are valid but may not be attained.

    Args:
        x: (n,) the scores.
        y: (n,) their grades.
        missing_y: (m,) the grades without a score.
        tau: tau-b of the known scores.
    """
    untied_x = _untied(x)
    untied_y = _untied(y)
    grades = np.concatenate([y, missing_y])
    every_y = _untied(grades)
    # Pairs with a missing score are all pairs less those of two known scores.
    n = len(x) + len(missing_y)
    scored = len(x)
    every_pair = n * (n - 1) / 2
    scored_pairs = scored * (scored - 1) / 2
    new_pairs = every_pair - scored_pairs
    different = every_y - untied_y
    if not every_y:
        return None, None
    agreement = 0.0
    if np.isfinite(tau):
        agreement = tau * np.sqrt(untied_x * untied_y)

    def largest(s: float) -> float:
        s += different
        added_pairs = different if s > 0 else new_pairs
        pairs = untied_x + added_pairs
        geometric_mean = np.sqrt(pairs * every_y)
        tau_b = float(s / geometric_mean) if pairs else 0.0
        return min(1.0, max(-1.0, tau_b))

    return -largest(-agreement), largest(agreement)


def _untied(values: Floats) -> float:
    """Return the number of pairs of values that differ."""
    _, occurrences = np.unique(values, return_counts=True)
    counts = occurrences.astype(np.float64)
    n = len(values)
    pairs = n * (n - 1) / 2
    tied_pairs = counts * (counts - 1) / 2
    tied = tied_pairs.sum()
    return float(pairs - tied)


def _bounds_of_r(
    y: Floats, low: Floats, high: Floats, smallest: Callable[[Floats], float]
) -> Bounds:
    """Return the bounds of Pearson's r of `y` with numbers between `low` and `high`.

    They are `None` if `y` does not vary, or if there are more than `LARGEST` distinct rows.

    Args:
        y: (n,) the grades.
        low: (n,) the lowest possible numbers.
        high: (n,) the highest possible numbers.
        smallest: returns the smallest r with a direction (n,), if all possible values are positive.
    """
    if not len(y) or np.ptp(y) == 0:
        return None, None
    # (3, n) and (3, k): a grade, the lowest and the highest number of it; each distinct triple once
    values = np.stack([y, low, high])
    triples, counts = np.unique(values, axis=1, return_counts=True)
    if triples.shape[1] > LARGEST:
        return None, None
    mean = y.mean()
    centered = y - mean
    length = np.sqrt(centered @ centered)
    # (k,)
    weight = counts.astype(np.float64)
    distinct_grades, least, most = triples
    direction = (distinct_grades - mean) / length

    def largest(sign: int) -> float:
        maximum = _largest_r(sign * direction, least, most, weight)
        if maximum is None:
            return -smallest(-sign * centered / length)
        return maximum

    smallest_r = -largest(-1)
    largest_r = largest(1)
    low_end = np.clip(smallest_r, -1.0, 1.0)
    high_end = np.clip(largest_r, -1.0, 1.0)
    return float(low_end), float(high_end)


def _largest_r(c: Floats, low: Floats, high: Floats, weight: Floats) -> float | None:
    """Return the largest r of numbers in a box with a direction, or `None` if no r is positive.

    A positive r is a linear function over a convex one and so pseudoconcave: a point that no small
    step improves is a maximum (Mangasarian 1965, SIAM J. Control 3, 281-290). Identical rows have
    identical numbers there.

    Args:
        c: (k,) the direction, centered and of length 1.
        low: (k,) the lowest possible numbers.
        high: (k,) the highest possible numbers.
        weight: (k,) how many rows each entry represents.
    """
    # Imported late: SciPy takes long to load.
    from scipy.optimize import minimize

    start = np.where(c > 0, high, low)
    if weight @ (c * start) <= 1e-12:
        return None
    shift = float(low.min())
    scale = max(float(high.max() - low.min()), 1e-12)
    total = weight.sum()

    def loss(x: Floats) -> tuple[float, Floats]:
        """Return minus the log of r at some scores, and its gradient."""
        # Minus the log of r and its gradient, up to the constant length of the direction.
        mean = weight @ x / total
        centered = x - mean
        along = weight @ (c * x)
        squares = weight @ centered**2
        if along <= 0 or squares <= 0:
            return 1e6, np.zeros(len(x))
        log_length = 0.5 * np.log(squares)
        value = log_length - np.log(along)
        slope_of_length = centered / squares
        slope_of_product = c / along
        gradient = weight * (slope_of_length - slope_of_product)
        return float(value), gradient

    scaled_low = (low - shift) / scale
    scaled_high = (high - shift) / scale
    bounds = np.stack([scaled_low, scaled_high], axis=1)
    options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
    scaled_start = (start - shift) / scale
    solution = minimize(
        loss,
        scaled_start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options=options,
    )
    return float(np.exp(-solution.fun))
