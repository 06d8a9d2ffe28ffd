"""The test of all slices of all columns as one family.

A slice is worse if it has more wrong verdicts than its labels explain: verdicts are compared within
each label, so a slice with another mix of labels is not worse for that. Each slice is tested by
each label and by all labels together, and the largest of all statistics under permutation is what
an observed one must exceed (Westfall and Young 1993, Resampling-Based Multiple Testing, 2.5): the
probability of any false alarm is that of the largest, however many slices, labels and columns there
are, and columns that say the same cost nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from evalkit.core.values import frozen
from evalkit.scoring.search.outcomes import Outcomes
from evalkit.scoring.stats.arrays import Bools, Floats, Ints
from evalkit.scoring.stats.clusters import CHUNK

UNITS: Final = 30
"""A slice of fewer units is never withdrawn."""
LABELS: Final = 10
"""So many labels of each of two classes show whether verdicts follow them."""
CLUSTERS: Final = 5
"""Fewer clusters than this say nothing about others."""
_BLOCK: Final = CHUNK // 8
"""The most numbers of a block of rows: more would take memory, and no less time."""
_FEW_LEVELS: Final = 3
"""The most different values that are counted instead of summed."""
WORK: Final = 8_000_000
"""Rows times permutations: with more rows there are fewer permutations, at least `FEWEST`."""
FEWEST: Final = 199


@frozen
class FamilyTest:
    """The result of a test of slices.

    Attributes:
        enough: (slices,) which slices have enough labels, and are tested.
        units: (slices,) the number of labeled units of each.
        statistic: (slices,) the largest of its statistics, in standard errors.
        p: (slices,) its p-value, adjusted for the whole family.
        critical: what a statistic must exceed.
    """

    enough: Bools
    units: Floats
    statistic: Floats
    p: Floats
    critical: float


@frozen
class _Hypotheses:
    """What is tested: a slice by one label, or by all of them.

    Attributes:
        members: (hypotheses, rows) the rows of each.
        slices: (hypotheses,) its slice.
        labels: (hypotheses, strata) which labels it is about.
    """

    members: Bools
    slices: Ints
    labels: Bools


def compare_slices(
    outcomes: Outcomes,
    members: Bools,
    cluster: Ints,
    draws: int,
    confidence: float,
    seed: int,
) -> FamilyTest:
    """Return which slices have more wrong verdicts than the other cases with the same labels.

    If each cluster has one unit, verdicts are permuted among the units with the same label, so the
    test is exact. Otherwise the contributions of whole clusters change sign (the wild bootstrap of
    scores: Kline and Santos 2012, J. Econom. Methods 1, 23-41).

    Args:
        outcomes: verdicts next to labels.
        members: (cases, slices) which cases are in each slice.
        cluster: (cases,) the cluster of each case.
        draws: the number of permutations.
        confidence: one minus the probability of any false alarm.
        seed: the seed.
    """
    # shape (slices, rows)
    members_of_row = members[outcomes.case]
    rows = np.ascontiguousarray(members_of_row.T)
    # row -> number of its cluster
    cluster_of_row = cluster[outcomes.case]
    clusters, of_row = np.unique(cluster_of_row, return_inverse=True)
    # (slices,) each
    enough, units = _enough(outcomes, rows, of_row)
    count = members.shape[1]
    tested = _hypotheses(outcomes, rows, enough)
    if not len(tested.slices):
        statistic = np.zeros(count)
        p = np.ones(count)
        return FamilyTest(enough, units, statistic, p, np.inf)
    affordable = max(FEWEST, WORK // len(outcomes.case))
    draws = min(draws, affordable)
    alone = len(clusters) == len(of_row)
    one_unit = bool((outcomes.units == 1).all())
    single = alone and one_unit
    generator = np.random.default_rng(seed)
    # totals: (hypotheses, draws) in blocks; variance: (hypotheses,)
    if single:
        totals, variance = _permuted(outcomes, tested, draws, generator)
    else:
        totals, variance = _flipped(outcomes, tested, of_row, draws, generator)
    observed = _sums(tested.members, outcomes.residuals)
    scale = _Scale.of(outcomes, tested, variance)
    # One column: the observed order.
    in_errors = scale.of_totals(observed[:, None])
    statistic = in_errors[:, 0]
    # shape (draws,): the largest statistic of all hypotheses
    maxima = [scale.of_totals(block).max(axis=0) for block in totals]
    largest = np.concatenate(maxima)
    # A slice has several hypotheses; the one with the largest statistic counts.
    by_slice = np.full(count, -np.inf)
    np.maximum.at(by_slice, tested.slices, statistic)
    threshold = by_slice[:, None] - 1e-9
    # shape (slices, draws)
    as_large = largest[None] >= threshold
    exceeding = as_large.sum(axis=1)
    share = (1 + exceeding) / (1 + len(largest))
    p = np.where(enough, share, 1.0)
    critical = np.quantile(largest, confidence, method="higher")
    return FamilyTest(enough, units, by_slice, p, float(critical))


def _sums(members: Bools, values: Floats) -> Floats:
    """Return the sums of the values of the rows of each hypothesis or slice, in blocks of rows.

    Dense sums need no SciPy, whose import takes as long as the whole search of a small table.

    Args:
        members: (hypotheses, rows) the rows of each.
        values: (rows,) or (rows, columns) the values.
    """
    sums = np.zeros((len(members), *values.shape[1:]))
    hypotheses, rows = members.shape
    step = max(1, _BLOCK // max(1, hypotheses))
    for start in range(0, rows, step):
        block = slice(start, start + step)
        inside = members[:, block].astype(np.float64)
        sums += inside @ values[block]
    return sums


def _sums_of_levels(members: Bools, indices: Ints, levels: Floats) -> Floats:
    """Return the sums of the values of the rows of each hypothesis, as `_sums` does.

    Rows are counted for each value, in a fraction of the time and memory of a sum of the values:
    single precision is exact for counts in a block.

    Args:
        members: (hypotheses, rows) the rows of each.
        indices: (columns, rows) the index of each value among the levels.
        levels: the different values.
    """
    hypotheses, rows = members.shape
    columns = len(indices)
    sums = np.zeros((hypotheses, columns))
    step = max(1, _BLOCK // max(1, hypotheses, columns))
    for start in range(0, rows, step):
        block = slice(start, start + step)
        inside = members[:, block].astype(np.float32)
        indices_of_block = indices[:, block].T
        # All rows have the first level, but for those that are counted below.
        counts_of_all = np.count_nonzero(members[:, block], axis=1)
        sums += levels[0] * counts_of_all[:, None]
        for index, level in enumerate(levels[1:], 1):
            is_level = indices_of_block == index
            counts = inside @ is_level.astype(np.float32)
            excess = level - levels[0]
            sums += excess * counts
    return sums


def _enough(outcomes: Outcomes, rows: Bools, of_row: Ints) -> tuple[Bools, Floats]:
    """Return which slices have enough labels, with their numbers of units."""
    sides = np.arange(outcomes.side.max(initial=0) + 1)
    # shape (rows, sides)
    on_side = outcomes.side[:, None] == sides
    by_side = on_side * outcomes.units[:, None]
    # shape (slices, sides): the sides with the fewest units first
    counts = np.sort(_sums(rows, by_side), axis=1)
    units = counts.sum(axis=1)
    several = np.zeros(len(counts), dtype=bool)
    if counts.shape[1] > 1:
        second_most = counts[:, -2]
        several = second_most >= LABELS
    clusters = np.zeros(len(rows), dtype=np.int64)
    present = np.zeros(of_row.max(initial=-1) + 1, dtype=bool)
    # shape (rows,): whether the row is in the slice
    for index, inside in enumerate(rows):
        present[:] = False
        present[of_row[inside]] = True
        clusters[index] = np.count_nonzero(present)
    outside = outcomes.units.sum() - units
    large = units >= UNITS
    spread_out = clusters >= CLUSTERS
    has_others = outside > 0
    enough = several & large & spread_out & has_others
    return np.asarray(enough), np.asarray(units)


def _hypotheses(outcomes: Outcomes, rows: Bools, enough: Bools) -> _Hypotheses:
    """Return each slice by all labels, and then by each label that it has enough of."""
    strata = np.arange(outcomes.stratum.max(initial=0) + 1)
    by_label = outcomes.stratum[:, None] == strata
    slices = np.flatnonzero(enough)
    every_label = np.ones((len(slices), len(strata)), dtype=bool)
    # of each hypothesis: its rows, its slice, and the labels that it is about
    members = [rows[slices]]
    owners = [slices]
    about = [every_label]
    if outcomes.counted and len(slices):
        # shape (slices, labels)
        units_by_label = by_label * outcomes.units[:, None]
        counts = _sums(rows, units_by_label)
        for label in strata:
            has_label = counts[:, label] >= LABELS
            chosen = np.flatnonzero(enough & has_label)
            rows_with_label = rows[chosen] & by_label[:, label]
            members.append(rows_with_label)
            owners.append(chosen)
            only_label = np.tile(strata == label, (len(chosen), 1))
            about.append(only_label)
    return _Hypotheses(
        np.concatenate(members),
        np.concatenate(owners),
        np.concatenate(about),
    )


@frozen
class _Scale:
    """What makes totals of residuals comparable between hypotheses.

    Attributes:
        expected: (hypotheses, 1) the expected number of wrong verdicts.
        units: (hypotheses, 1) the number of units.
        error: (hypotheses, 1) the standard error of the total.
        counted: whether totals count verdicts.
    """

    expected: Floats
    units: Floats
    error: Floats
    counted: bool

    @classmethod
    def of(cls, outcomes: Outcomes, tested: _Hypotheses, variance: Floats) -> _Scale:
        usual = outcomes.means[outcomes.stratum] * outcomes.units
        expected = _sums(tested.members, usual)
        units = _sums(tested.members, outcomes.units)
        return cls(
            expected[:, None],
            units[:, None],
            np.sqrt(variance)[:, None],
            outcomes.counted,
        )

    def of_totals(self, totals: Floats) -> Floats:
        """Return totals (hypotheses, rows) in standard errors.

        Numbers of wrong verdicts are skewed if few are wrong. The signed root of their deviance
        (McCullagh and Nelder 1989, Generalized Linear Models, 2.4.3) is not, so small slices do not
        make large ones hard to find.
        """
        varies = self.error > 1e-9
        error = np.where(varies, self.error, 1.0)
        if not self.counted:
            return np.where(varies, totals / error, 0.0)
        # shape (hypotheses, rows)
        wrong = np.clip(self.expected + totals, 0.0, self.units)
        right = self.units - wrong
        expected_right = self.units - self.expected
        usual = self.expected * expected_right / self.units
        varies &= usual > 1e-9
        with np.errstate(divide="ignore", invalid="ignore"):
            excess_of_wrong = wrong / self.expected
            excess_of_right = right / expected_right
            of_wrong = wrong * np.log(excess_of_wrong)
            of_right = right * np.log(excess_of_right)
        # 0 log 0 is 0.
        of_wrong = np.where(wrong > 0, of_wrong, 0.0)
        of_right = np.where(right > 0, of_right, 0.0)
        deviance = 2 * (of_wrong + of_right)
        deviance = np.maximum(deviance, 0.0)
        scaled = deviance * np.maximum(usual, 0.0)
        size = np.sqrt(scaled) / error
        return np.where(varies, np.sign(totals) * size, 0.0)


def _permuted(
    outcomes: Outcomes,
    tested: _Hypotheses,
    draws: int,
    generator: np.random.Generator,
) -> tuple[list[Floats], Floats]:
    """Return totals with verdicts permuted within labels, in blocks, and their variances."""
    residuals = outcomes.residuals
    variance = np.zeros(len(tested.slices))
    strata = [
        np.flatnonzero(outcomes.stratum == stratum)
        for stratum in np.unique(outcomes.stratum)
    ]
    for rows in strata:
        if len(rows) > 1:
            # shape (hypotheses,): how many rows of this label are in the slice
            inside = np.count_nonzero(tested.members[:, rows], axis=1)
            spread = residuals[rows].var(ddof=1)
            inside_share = inside / len(rows)
            outside_share = 1 - inside_share
            variance += spread * inside * outside_share
    # Few residuals with one label differ: what is permuted is the index of each, a byte.
    different = [_different(residuals[rows]) for rows in strata]
    blocks = []
    step = max(1, CHUNK // max(len(residuals), len(tested.slices)))
    for start in range(0, draws, step):
        width = min(step, draws - start)
        totals = np.zeros((len(tested.slices), width))
        for rows, (levels, indices) in zip(strata, different, strict=True):
            copies = np.broadcast_to(indices, (width, len(rows)))
            permuted = generator.permuted(copies, axis=1)
            members = tested.members[:, rows]
            if len(levels) <= _FEW_LEVELS:
                totals += _sums_of_levels(members, permuted, levels)
            else:
                totals += _sums(members, levels[permuted].T)
        blocks.append(totals)
    return blocks, variance


def _different(values: Floats) -> tuple[Floats, Ints]:
    """Return the different values, and the index of each value among them."""
    levels, indices = np.unique(values, return_inverse=True)
    smallest_type = np.min_scalar_type(len(levels))
    return levels, indices.astype(smallest_type)


def _flipped(
    outcomes: Outcomes,
    tested: _Hypotheses,
    of_row: Ints,
    draws: int,
    generator: np.random.Generator,
) -> tuple[list[Floats], Floats]:
    """Return totals with the signs of clusters changed, in blocks, and their variances.

    A cluster contributes its residuals in the slice, less the share that the estimated mean of each
    label takes from it.
    """
    residuals = outcomes.residuals
    count = int(of_row.max()) + 1
    strata = int(outcomes.stratum.max()) + 1
    # shape (hypotheses, clusters): the residuals of the cluster's rows in the slice
    inside = np.zeros((len(tested.members), count))
    for index, rows in enumerate(tested.members):
        inside[index] = np.bincount(of_row[rows], residuals[rows], count)
    # shape (clusters, strata): the residuals of the cluster's rows with each label
    every = np.zeros((count, strata))
    np.add.at(every, (of_row, outcomes.stratum), residuals)
    # shape (rows, strata): the units of a row, in the column of its label
    row_count = len(of_row)
    by_label = np.zeros((row_count, strata))
    by_label[np.arange(row_count), outcomes.stratum] = outcomes.units
    # shape (hypotheses, strata): the share of each label's units that are in the slice
    total = np.maximum(by_label.sum(axis=0), 1e-12)
    share = _sums(tested.members, by_label) / total
    share = share * tested.labels
    # The square of (inside - share @ every.T), summed over clusters term by term.
    squares = (inside**2).sum(axis=1)
    inside_by_label = inside @ every
    cross = (inside_by_label * share).sum(axis=1)
    products = every.T @ every
    share_by_label = share @ products
    both = (share_by_label * share).sum(axis=1)
    variance = np.maximum(squares - 2 * cross + both, 0.0)
    blocks = []
    columns = max(count, len(tested.slices))
    step = max(1, CHUNK // columns)
    for start in range(0, draws, step):
        width = min(step, draws - start)
        signs = generator.choice([-1.0, 1.0], size=(count, width))
        of_slices = inside @ signs
        of_labels = every.T @ signs
        blocks.append(of_slices - share @ of_labels)
    return blocks, variance
