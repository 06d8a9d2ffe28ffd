"""Intervals where percentiles of resamples are invalid: sums of absolute values, means
near a bound, no variation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf, sqrt
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.core.values import frozen
from evalkit.scoring.stats.arrays import Bounds, Floats, Ints, bisect
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.quantiles import percentiles

STEPS = 40
SQRT_2 = sqrt(2)
FEW = 1000
"""With more clusters than this, the bounds no longer affect the interval of the mean."""
Reach: TypeAlias = Callable[[float], Bounds]
"""Maps a share of clusters that are unlike those seen to the lowest and highest value they could
give."""
_PAIRED = 40
"""Alternatives are also mixed in pairs if there are at most this many."""
_FLOATS = 2**18
"""Numbers of alternatives that are held at a time."""


def unlike_share(clusters: int, confidence: float) -> float:
    """Return the largest share of clusters unlike those seen, if all `clusters` seen are alike.

    It is the exact bound of a share of which none was seen (Clopper and Pearson 1934, Biometrika
    26, 404-413).
    """
    tail = (1 - confidence) / 2
    alike = tail ** (1 / clusters)
    return float(1 - alike)


def toward(value: float, limits: Bounds) -> Reach:
    """Return the reach of a mean of values within `limits`.

    The share of unlike clusters is at one of the limits.

    An end is `None` if there is no such limit.
    """

    def reach(share: float) -> Bounds:
        bottom, top = limits
        low = None if bottom is None else value + share * (bottom - value)
        high = None if top is None else value + share * (top - value)
        return low, high

    return reach


@frozen
class Halves:
    """Rows that add one half to each of two columns, or one to a column.

    Attributes:
        first: (rows,) a column of each row.
        second: (rows,) the other, or the same.
        columns: the number of columns.
    """

    first: Ints
    second: Ints
    columns: int

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, part: slice) -> Floats:
        # A row whose two columns are the same gets one in it, since halves are added twice.
        first = self.first[part]
        second = self.second[part]
        row = np.arange(len(first))
        rows = np.zeros((len(first), self.columns))
        rows[row, first] += 0.5
        rows[row, second] += 0.5
        return rows


def mixed(
    value: Callable[[Floats], Floats],
    totals: Floats,
    rows: Floats | Halves,
    units: float,
) -> Reach:
    """Return the reach of a function of column totals.

    The share of unlike clusters replaces as many of those seen. Its units are all like one of the
    `rows`, or half like one and half like another, whichever is worst: a kappa of 1 falls most if
    all of them confuse the same two classes.

    Args:
        value: maps totals (rows, columns) to the statistic.
        totals: (columns,) the totals seen.
        rows: (alternatives, columns) what one unit of an unlike cluster can add.
        units: the number of units seen.
    """

    def reach(share: float) -> Bounds:
        """Return the lowest and highest value if alternatives replace a share of the units."""
        every = rows
        if len(rows) <= _PAIRED:
            # Every pair of alternatives once, each with itself too.
            dense_rows = rows[:]
            first, second = np.triu_indices(len(rows))
            every = (dense_rows[first] + dense_rows[second]) / 2
        # Alternatives at a time, so that (alternatives, columns) stays small.
        size = max(1, _FLOATS // max(1, len(totals)))
        remaining = (1 - share) * totals
        ends = []
        for start in range(0, len(every), size):
            part = every[start : start + size]
            replaced = share * units * part
            changed = remaining + replaced
            ends.append(extremes(value(changed)))
        return extremes(np.array(ends, dtype=np.float64))

    return reach


def extremes(values: Floats) -> Bounds:
    """Return the lowest and highest of the values that are defined."""
    defined = values[np.isfinite(values)]
    if len(defined):
        return (float(defined.min()), float(defined.max()))
    return (None, None)


def debiased_sum(gaps: Floats, errors: Floats) -> float:
    """Return the sum of absolute gaps, corrected for what their noise adds to it.

    Noise makes absolute values larger. For normal gaps t g with standard errors s, the expected sum
    is that of folded normals. The result is t times the observed sum, for the t whose expected sum
    equals the observed one, and 0 if noise alone would give more (MacKinnon and Smith 1998, J.
    Econometrics 85, 205-230; for calibration errors compare Roelofs et al. 2022, arXiv 2012.08668).

    Args:
        gaps: (k,) the observed gaps.
        errors: (k,) their standard errors.
    """
    noisy = errors > 1e-12
    unit = np.where(noisy, errors, 1.0)

    def expected(t: float) -> float:
        size = np.abs(t * gaps)
        z = size / unit
        # The mean of a folded normal, and the size itself where there is no noise. Without SciPy,
        # whose import takes as long as scoring a small run.
        within = [erf(value) for value in z / SQRT_2]
        by_size = size * within
        by_noise = unit * np.sqrt(2 / np.pi) * np.exp(-z * z / 2)
        folded = by_size + by_noise
        expected_sizes = np.where(noisy, folded, size)
        return float(expected_sizes.sum())

    observed = float(np.abs(gaps).sum())
    return _first_crossing(expected, observed) * observed


def invert_test(gaps: Floats, noise: Floats, confidence: float) -> tuple[float, float]:
    """Return the interval of the sum of absolute gaps by inverting a test.

    For each t, the test asks whether the observed sum is unusual if the gaps were t times those
    observed. The interval holds every t that is not rejected (Carpenter 1999, J. R. Stat. Soc. B
    61, 159). If every t is rejected, because the gaps are smaller than their noise explains, it
    ends at the observed sum.

    Args:
        gaps: (k,) the observed gaps.
        noise: (resamples, k) the noise of the gaps in each resample.
        confidence: the confidence of the interval.
    """
    observed = float(np.abs(gaps).sum())
    tail = (1 - confidence) / 2

    def end(probability: float) -> float:
        def quantile(t: float) -> float:
            # (resamples,): the sums if the gaps were t times those observed
            sums = np.abs(t * gaps + noise).sum(axis=1)
            [value] = percentiles(sums, probability)
            return value

        return _first_crossing(quantile, observed) * observed

    low = end(1 - tail)
    high = end(tail)
    return low, high or observed


def _first_crossing(increasing: Callable[[float], float], target: float) -> float:
    """Return the smallest t >= 0 at which an increasing function reaches `target`."""
    if target <= 0 or increasing(0.0) >= target:
        return 0.0
    low = 0.0
    high = 1.0
    while increasing(high) < target and high < 1e6:
        low = high
        high = 2 * high
    _, crossing = bisect(lambda t: increasing(t) >= target, low, high, STEPS)
    return crossing


def bounded_mean(
    sums: Floats,
    counts: Floats,
    ends: tuple[float, float],
    resamples: int,
    confidence: float,
    seed: int,
    *,
    squares: float | None = None,
    widest: float | None = None,
) -> tuple[float, float]:
    """Return the interval of a mean of values between `ends`.

    This is the Bayesian bootstrap (Rubin 1981, Ann. Statist. 9, 130-134) with half a cluster added
    at the end of the range. With a whole cluster it is Gaffke's interval (2005), which never
    undercovers (Learned-Miller and Thomas 2019, arXiv 1905.06208), and for shares Clopper and
    Pearson's. With half a cluster it is Jeffreys', which is narrower (Brown, Cai and DasGupta 2001,
    Statist. Sci. 16, 101-133). A few correlations that are mostly high have no lower tail to
    resample.

    Args:
        sums: (clusters,) the sum of the values of each cluster.
        counts: (clusters,) the number of values of each cluster.
        ends: the lowest and highest possible value.
        resamples: the number of resamples.
        confidence: the confidence of the interval.
        seed: the seed of the resamples.
        squares: the sum of the squared deviations of single values from the mean, if clusters have
            several: half a cluster then has as many values as half an independent one is worth.
        widest: the lower quantile that expands resamples of clusters of several values; as the half
            cluster is enough by itself where it is a whole half, the less it is, the nearer the
            ends are to this quantile.
    """
    nonempty = counts > 0
    sums = sums[nonempty]
    counts = counts[nonempty]
    generator = np.random.default_rng(seed)
    tail = (1 - confidence) / 2
    # Gamma variables divided by their sum are the weights of a Bayesian bootstrap; a ratio needs no
    # division.
    weights = generator.standard_gamma(1.0, size=(resamples, len(sums)))
    size = counts.mean()
    if squares and widest is not None and len(sums) > 1:
        n = len(sums)
        residuals = sums - counts * sums.sum() / counts.sum()
        squares_of_clusters = float(residuals @ residuals)
        effect = n / (n - 1) * squares_of_clusters / squares
        whole = size
        size = float(np.clip(effect, min(1.0, size), size))
        # The quantile moves from the usual one to the widest as the half cluster shrinks.
        plain = NormalDist().inv_cdf(tail)
        moved = (widest - plain) * (1 - size / whole)
        tail = NormalDist().cdf(plain + moved)
    # (resamples,) the values of the half cluster at an end of the range
    extra = generator.standard_gamma(0.5, size=resamples) * size
    over = weights @ sums
    under = weights @ counts + extra
    bottom, top = ends
    lowest_means = (over + extra * bottom) / under
    highest_means = (over + extra * top) / under
    low = np.quantile(lowest_means, tail)
    high = np.quantile(highest_means, 1 - tail)
    return float(low), float(high)


@frozen
class PseudoCounts:
    """Clusters that no case is in, which take part in every resample with a small weight.

    Where all answers to a rare class are right, no resample has a wrong one, though other cases
    would. Half a cluster that is right and half a cluster that is wrong for each class make the
    interval of a share Jeffreys' (Brown, Cai and DasGupta 2001, Statist. Sci. 16, 101-133), and
    extend it to functions of several shares: the resamples are those of the Bayesian bootstrap
    (Rubin 1981, Ann. Statist. 9, 130-134), which for independent cases is the posterior
    distribution of the confusion matrix under a Dirichlet prior.

    Attributes:
        rows: (pseudo, columns) what each pseudo-cluster adds to the columns; `None` if one to one
            of the last columns.
        weights: (pseudo,) the weight of each, where a cluster of cases has 1.
        units: (columns,) the columns, as factors, that add up to the number of units of a cluster.
    """

    rows: Floats | None
    weights: Floats
    units: Floats

    @classmethod
    def matrix(cls, k: int, per_label: float) -> PseudoCounts:
        """Return pseudo-clusters of flat confusion matrices of `k` classes: of
        `per_label` by label, half are right.
        """
        right = per_label / 2
        wrong = per_label / 2 / (k - 1)
        # (labels, verdicts)
        weights = np.where(np.eye(k) > 0, right, wrong)
        return cls(None, weights.ravel(), np.ones(k * k))

    def resample(
        self,
        columns: Sequence[NDArray[Any]],
        resamples: int,
        seed: int,
        value: Callable[[Floats], Floats] | None = None,
    ) -> Floats | None:
        """Return resampled totals (resamples, columns); `None` if more than `FEW`
        clusters differ from all others.

        Args:
            columns: the sums of each cluster, each (clusters,).
            resamples: the number of resamples.
            seed: the seed of the resamples.
            value: the statistic, if a cluster can have several units: a pseudo-cluster then has as
                many units as one independent unit is worth (see `design_effect`).
        """
        # Clusters with equal sums are one term, whose weight is that of all of them.
        first, counts = kinds(columns)
        used = np.any([column[first] for column in columns], axis=0)
        first = first[used]
        counts = counts[used]
        if len(first) > FEW:
            return None
        sums = np.stack([column[first] for column in columns], axis=1, dtype=np.float64)
        size = float(counts @ (sums @ self.units) / counts.sum())
        if value is not None and size > 1:
            size = self.design_effect(sums, counts, value, size)
        generator = np.random.default_rng(seed)
        weights = generator.standard_gamma(
            counts.astype(np.float64), size=(resamples, len(counts))
        )
        # (resamples, pseudo) the weight of each pseudo-cluster
        pseudo = generator.standard_gamma(
            self.weights, size=(resamples, len(self.weights))
        )
        totals = weights @ sums
        added = size * pseudo
        if self.rows is None:
            # Pseudo-clusters are one to one of the last columns.
            totals[:, -len(self.weights) :] += added
        else:
            totals += added @ self.rows
        return np.asarray(totals)

    def design_effect(
        self,
        sums: Floats,
        counts: Ints,
        value: Callable[[Floats], Floats],
        size: float,
    ) -> float:
        """Return how many units of a cluster are worth one independent unit, from 1 to `size`.

        It is the variance of the linearized statistic between clusters, divided by that of as many
        independent units (Rao and Scott 1981, J. Am. Stat. Assoc. 76, 221-230). If neither varies,
        a cluster is worth one unit. Half a cluster of forty responses would be twenty of them.

        Args:
            sums: (kinds, columns) the sums of the clusters of each kind.
            counts: (kinds,) the number of clusters of each kind.
            value: the statistic.
            size: the mean number of units of a cluster.
        """
        # (pseudo, columns)
        rows = self.rows
        if rows is None:
            width = sums.shape[1]
            first = width - len(self.weights)
            rows = np.eye(width)[first:]
        # (columns,): those of which a pseudo-cluster has some, the kinds of unit
        typed = rows.any(axis=0)
        totals = counts @ sums
        # The derivative by the count of each kind of unit, numerically.
        step = 1e-4 * max(float(totals @ self.units), 1.0)
        with np.errstate(invalid="ignore"):
            shifted = value(totals + step * np.eye(len(totals))[typed])
            slopes = (shifted - value(totals[None])) / step
        # (pseudo,): how many units there are like each pseudo-cluster
        typed_rows = rows[:, typed]
        per_pseudo = totals[typed] @ np.linalg.pinv(typed_rows)
        units = np.maximum(per_pseudo, 0.0)
        independent = float(units @ (typed_rows @ slopes) ** 2)
        clustered = float(counts @ (sums[:, typed] @ slopes) ** 2)
        clusters = float(counts.sum())
        if clusters < 2 or not independent > 0 or not np.isfinite(clustered):
            return size
        effect = clusters / (clusters - 1) * clustered / independent
        return float(np.clip(effect, 1.0, size))


def kinds(columns: Sequence[NDArray[Any]] | Floats) -> tuple[Ints, Ints]:
    """Return the first row of each kind, whose rows are equal in all columns, and the
    number of its rows.

    Their fingerprints are equal, and else almost surely differ.
    """
    rows = len(columns[0]) if len(columns) else 0
    fingerprints = np.zeros(rows)
    # One random factor for each column, the same in every run.
    factors = np.random.default_rng(0).random(len(columns))
    for column, factor in zip(columns, factors, strict=True):
        fingerprints += factor * column
    _, first, counts = np.unique(fingerprints, return_index=True, return_counts=True)
    return first, counts


def standard_errors(values: Floats, counts: Floats, clusters: Clusters) -> Floats:
    """Return the standard errors of column totals divided by the total of `counts`.

    Args:
        values: (cases, columns) the columns.
        counts: (cases,) the denominator.
        clusters: the clusters of the cases.
    """
    sums = np.stack([clusters.sums(column) for column in values.T], axis=1)
    sizes = clusters.sums(counts)
    nonempty = sizes > 0
    sums = sums[nonempty]
    sizes = sizes[nonempty]
    n = len(sizes)
    total = float(sizes.sum())
    if n < 2:
        return np.zeros(values.shape[1])
    # (clusters, columns)
    residuals = sums - sizes[:, None] * sums.sum(axis=0) / total
    squares = (residuals**2).sum(axis=0)
    deviations = np.sqrt(squares * n / (n - 1))
    return np.asarray(deviations / total)
