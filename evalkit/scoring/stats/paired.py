"""Several runs on the same cases: their aligned verdicts, leads, tests, and corrections
for multiple tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, erfc, log2, sqrt
from statistics import NormalDist
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.core.types import Metric, Verdict
from evalkit.core.values import frozen
from evalkit.scoring.stats.arrays import (
    Bools,
    Bounds,
    Codes,
    Floats,
    Ints,
    bisect,
    round_metric,
)
from evalkit.scoring.stats.bootstrap import measure, metric_of_draws
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.quantiles import student_share
from evalkit.scoring.stats.statistic import Statistic, Tally

EXACT_BELOW = 25
"""Below this number of discordant pairs the exact test is used, as in statsmodels."""
POWER = 0.8
"""Power of the minimum detectable difference."""


class PairTest(Protocol):
    """The test of whether two runs differ: the p-value, if there is one, and the same
    adjusted for other tests.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def first(self) -> str: ...  # noqa: D102
    @property
    def second(self) -> str: ...  # noqa: D102
    @property
    def p(self) -> float | None: ...  # noqa: D102
    @property
    def p_holm(self) -> float | None: ...  # noqa: D102


Tested = TypeVar("Tested", bound=PairTest)


@frozen
class AlignedRuns:
    """What several runs say about the same pairs.

    Attributes:
        tally: the case of each pair.
        clusters: the clusters of the cases.
        codes: (runs, pairs) the code of each run's verdict.
    """

    tally: Tally
    clusters: Clusters
    codes: Codes


def align(
    runs: Sequence[Sequence[Verdict]],
    code: Callable[[Verdict], int],
    cluster: Mapping[str, int],
    *,
    missing: int,
    shared: bool = False,
) -> AlignedRuns:
    """Align the verdicts of runs on pairs, in the order in which the runs first name them.

    Args:
        runs: the verdicts of each run; those on single responses are ignored.
        code: maps a verdict to its code, 0 or more, or -1, or `missing`.
        cluster: the cluster of each case by its id; other cases are their own cluster.
        missing: the code of a pair without a verdict, less than -1.
        shared: whether pairs that any run lacks are left out.
    """
    units = dict.fromkeys(
        (v.case_id, v.unit) for run in runs for v in run if len(v.unit) == 2
    )
    index = {unit: number for number, unit in enumerate(units)}
    # A pair that a run does not have, in contrast to one without a verdict; only `shared` tells
    # them apart.
    absent = missing - 1
    codes = np.full((len(runs), len(units)), absent, dtype=np.int8)
    for row, run in zip(codes, runs, strict=True):
        for verdict in run:
            if len(verdict.unit) == 2:
                row[index[verdict.case_id, verdict.unit]] = code(verdict)
    # (pairs,) which pairs stay.
    kept = (codes != absent).all(axis=0) | (not shared)
    cases = [case for (case, _), keep in zip(units, kept, strict=True) if keep]
    numbers, clusters = number_cases(cases, cluster)
    tally = Tally(
        np.array([numbers[case] for case in cases], dtype=np.int64), len(numbers)
    )
    kept_codes = np.maximum(codes[:, kept], np.int8(missing))
    return AlignedRuns(tally, clusters, kept_codes)


def number_cases(
    names: Iterable[str], cluster: Mapping[str, int]
) -> tuple[dict[str, int], Clusters]:
    """Return the index of each case, in order of appearance, and the clusters of these cases.

    Args:
        names: the ids of cases, which may repeat.
        cluster: the cluster of each case by its id; other cases are their own cluster.
    """
    numbers = {case: number for number, case in enumerate(dict.fromkeys(names))}
    # A key of 0 is a cluster of its own.
    keys = [cluster.get(case, -1) + 1 for case in numbers]
    return numbers, Clusters.by_key(keys, "cluster")


@frozen
class Lead:
    """By how much one run is ahead of another on each unit.

    Attributes:
        value: (units,) the first run's value minus the second's, 0 for a unit that either did not
            read.
        read: (units,) which units both read.
        tally: the case of each unit.
        clusters: the clusters of the cases.
    """

    value: Ints
    read: Bools
    tally: Tally
    clusters: Clusters

    @classmethod
    def of(
        cls,
        first: Codes | Ints,
        second: Codes | Ints,
        missing: int,
        tally: Tally,
        clusters: Clusters,
    ) -> Lead:
        """Return the lead of a run with the values `first` over one with `second`;
        `missing` is no value.
        """
        read = (first != missing) & (second != missing)
        leads = np.where(read, first.astype(np.int64) - second, 0)
        return cls(leads, read, tally, clusters)

    @property
    def only(self) -> tuple[int, int]:
        """The number of units on which the first run is ahead, and on which the second is."""
        first = int((self.value > 0).sum())
        second = int((self.value < 0).sum())
        return first, second

    @property
    def n(self) -> int:
        """The number of units that both read."""
        return int(self.read.sum())

    def mean(self, name: str, **attributes: Any) -> Statistic:
        """Return the mean lead over the units that both read; see `Tally.mean`."""
        return self.tally.mean(
            name, self.value.astype(np.float64), self.read, **attributes
        )

    def difference(self, name: str, scoring: ScoringConfig) -> Metric:
        """Return the mean with Tango's interval, as wide as resampling needs if
        clusters hold several units.
        """
        # (clusters,) the number of units that both read.
        size = self.clusters.sums(self.tally(self.read))
        n = self.n
        if not n:
            return Metric(name, None, note="no pair was read in both")
        read = int(np.count_nonzero(size))
        share = read / n  # a cluster counts once, however many units it has
        first, second = self.only
        ends: list[float | None] = [
            *tango(first * share, second * share, read, scoring.confidence)
        ]
        if size.max() > 1:
            resampled = measure([self.mean(name)], scoring, self.clusters)[name]
            ends += [resampled.low, resampled.high]
        low, high = widest(ends)
        value = round_metric(self.value.sum() / n)
        return Metric(name, value, low, high, n)

    def test(self) -> tuple[float | None, str]:
        """Return McNemar's test over clusters."""
        by_case = self.tally(self.value)
        leads = np.rint(self.clusters.sums(by_case))
        return mcnemar(leads.astype(np.int64))


def widest(ends: Iterable[float | None]) -> Bounds:
    """Return the lowest and the highest of the known ends of intervals."""
    bounded = [end for end in ends if end is not None]
    return round_metric(min(bounded)), round_metric(max(bounded))


@frozen
class ResampledLead:
    """By how much one run is ahead of another in a number, such as a coefficient.

    Attributes:
        value: the first run's number minus the second's.
        draws: (resamples,) the same in each resample of the clusters, which both runs share.
        clusters: the number of clusters.
        attributes: other attributes of the statistic, such as `n` and `limits`.
    """

    value: float
    draws: Floats
    clusters: int
    attributes: Mapping[str, Any]

    def difference(self, name: str, scoring: ScoringConfig) -> Metric:
        """Return the difference with its expanded percentile interval."""
        every = np.ones(self.clusters, dtype=bool)
        unclustered = Clusters.each(self.clusters)
        return metric_of_draws(
            name, self.value, self.draws, every, scoring, unclustered, **self.attributes
        )

    def test(self) -> tuple[float | None, str]:
        """Return the bootstrap's test."""
        return by_resampling(self.draws, self.clusters)


def mcnemar(leads: Ints) -> tuple[float | None, str]:
    """Return the p-value of the hypothesis that neither run is correct more often, and
    the name of the test.

    With one unit per cluster this is McNemar's test (1947, Psychometrika 12, 153-157). It is exact
    below 25 discordant units, otherwise chi-squared with Edwards' (1948) continuity correction.
    With several units per cluster, whole clusters change sign: exactly below 25 discordant
    clusters, otherwise by Obuchowski's test (1998, Statist. Med. 17, 1495-1507).

    Args:
        leads: (clusters,) the units that only the first run has correct minus those that only the
            second has.

    Returns:
        The p-value and the test's name; `None` and the reason if no cluster is discordant.
    """
    leads = leads[leads != 0]
    if not len(leads):
        return None, "the runs are correct on the same cases"
    single = bool((np.abs(leads) == 1).all())
    if len(leads) < EXACT_BELOW:
        return sign_flip(leads), (
            "McNemar, exact" if single else "sign flips of whole clusters, exact"
        )
    # The continuity correction is for single units only; sums of clusters are finer.
    excess = abs(int(leads.sum()))
    if single:
        excess -= 1
    squares = float((leads**2).sum())
    statistic = max(excess, 0) ** 2 / squares
    # The upper tail of chi-squared with one degree of freedom.
    return erfc(sqrt(statistic / 2)), (
        "McNemar, chi-squared" if single else "McNemar of clusters (Obuchowski)"
    )


def sign_flip(leads: Ints) -> float:
    """Return the exact probability that random signs of the leads give a sum at least
    as far from 0.
    """
    sizes = np.abs(leads)
    ways = np.ones(1)
    for size in sizes.tolist():
        wider = np.zeros(len(ways) + 2 * size)
        wider[: len(ways)] += ways / 2
        wider[2 * size :] += ways / 2
        ways = wider
    sums = np.arange(len(ways)) - int(sizes.sum())
    observed = abs(int(leads.sum()))
    as_extreme = ways[np.abs(sums) >= observed]
    return float(min(1.0, as_extreme.sum()))


def tango(
    only_first: float, only_second: float, n: float, confidence: float
) -> tuple[float, float]:
    """Return the score interval of a difference of two paired proportions.

    Tango 1998, Statist. Med. 17, 891-908. Unlike resampling, it is valid with few discordant units
    or none: eight agreements do not show
    that two runs are equal.

    Args:
        only_first: the number of units that only the first run has correct.
        only_second: the number of units that only the second run has correct.
        n: the number of units.
        confidence: the confidence of the interval.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    observed = (only_first - only_second) / n

    def statistic(difference: float) -> float:
        b = (2 * n - only_first + only_second) * difference - only_first - only_second
        c = -only_second * difference * (1 - difference)
        root = sqrt(max(0.0, b * b - 8 * n * c))
        share = (root - b) / (4 * n)
        variance = n * (2 * share + difference * (1 - difference))
        if variance > 1e-12:
            return (only_first - only_second - n * difference) / sqrt(variance)
        return 0.0

    def crossing(low: float, high: float, target: float) -> float:
        return (
            sum(
                bisect(
                    lambda difference: statistic(difference) <= target, low, high, 50
                )
            )
            / 2
        )

    low = crossing(-1.0, observed, z)
    high = crossing(observed, 1.0, -z)
    return low, high


def wilcoxon(difference: Floats) -> tuple[float | None, str]:
    """Return the p-value of the hypothesis that differences are symmetric about 0, and
    the name of the test.

    The signed-rank test without zeros (Wilcoxon 1945, Biometrics Bull. 1, 80-83), exact for at most
    50 differences without ties.
    """
    # Imported late: SciPy takes long to load.
    from scipy.stats import wilcoxon as signed_ranks

    nonzero = np.round(difference[np.isfinite(difference)], 12)
    nonzero = nonzero[nonzero != 0]
    if not len(nonzero):
        return None, "the runs do not differ on any case"
    sizes = np.unique(np.abs(nonzero))
    tied = len(sizes) < len(nonzero)
    exact = len(nonzero) <= 50 and not tied
    result = signed_ranks(
        nonzero, method="exact" if exact else "asymptotic", correction=not exact
    )
    return float(result.pvalue), "Wilcoxon signed ranks, " + (
        "exact" if exact else "normal"
    )


def by_resampling(draws: Floats, clusters: int) -> tuple[float | None, str]:
    """Return twice the share of resampled differences on the far side of 0 (Efron and
    Tibshirani 1993, ch. 15).

    The share is corrected for a small number of clusters as intervals are: at z standard errors it
    is that of Student's t at z sqrt((n - 1) / n) (Hesterberg 2015, Am. Stat. 69, 371-386).

    Args:
        draws: (resamples,) the resampled differences.
        clusters: the number of clusters.
    """
    finite = draws[np.isfinite(draws)]
    if not len(finite) or not finite.any():
        return None, "the runs do not differ in any resample"
    if clusters < 2:
        return None, "all cases are in one cluster: no resample differs"
    below = int((finite <= 0).sum())
    above = int((finite >= 0).sum())
    share = min(0.5, (min(below, above) + 1) / (len(finite) + 1))
    # Few clusters: the quantile is read as one of Student's distribution.
    quantile = NormalDist().inv_cdf(share)
    quantile *= sqrt((clusters - 1) / clusters)
    share = student_share(quantile, clusters - 1)
    return min(1.0, 2 * share), "paired bootstrap"


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted to control the familywise error rate.

    Holm 1979, Scand. J. Statist. 6, 65-70. Tests without a p-value are not part of the family.
    """
    ordered = sorted(
        (value, index) for index, value in enumerate(p) if value is not None
    )
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, index) in enumerate(ordered):
        scaled = (len(ordered) - rank) * value
        largest = max(largest, min(1.0, scaled))
        adjusted[index] = largest
    return adjusted


def adjusted(tested: Sequence[Tested]) -> list[Tested]:
    """Return tests of pairs of runs with their adjusted p-values."""
    p_values = holm([test.p for test in tested])
    return [replace(test, p_holm=p) for test, p in zip(tested, p_values, strict=True)]


def differing(tests: Iterable[PairTest], confidence: float) -> set[frozenset[str]]:
    """Return the pairs of runs that differ significantly by their adjusted p-values."""
    alpha = 1 - confidence
    return {
        frozenset((test.first, test.second))
        for test in tests
        if test.p_holm is not None and test.p_holm <= alpha
    }


def smallest_detectable(error: float, confidence: float, family: int) -> float:
    """Return the minimum detectable difference at a power of 0.8.

    It is the standard error times z(1 - alpha/2) + z(0.8), with alpha divided by the number of
    tests (Cohen 1988, Statistical Power Analysis, ch. 2).

    Args:
        error: the standard error of the difference.
        confidence: the confidence of the tests.
        family: the number of tests.
    """
    alpha = (1 - confidence) / max(1, family)
    for_level = NormalDist().inv_cdf(1 - alpha / 2)
    for_power = NormalDist().inv_cdf(POWER)
    return error * (for_level + for_power)


def smallest_gain(clusters: int, confidence: float) -> float | None:
    """Return the smallest gain in accuracy that McNemar's exact test shows at a power
    of 0.8, `None` if it shows none.

    It is the gain of a run that corrects verdicts and breaks none: the share p with which the k
    discordant clusters that the test needs, 2 / 2^k <= alpha, are found among n with probability
    0.8. The number of discordant clusters is binomial, so p is a quantile of the beta distribution
    (Clopper and Pearson 1934, Biometrika 26, 404-413).

    Args:
        clusters: the number of labeled clusters.
        confidence: the confidence of the test.
    """
    # Imported late: SciPy takes long to load.
    from scipy.special import betaincinv

    needed = ceil(log2(2 / (1 - confidence)) - 1e-9)
    if clusters >= needed:
        return float(betaincinv(needed, clusters - needed + 1, POWER))
    return None


def letters(order: Sequence[str], differ: Collection[frozenset[str]]) -> dict[str, str]:
    """Return a compact letter display: runs that share a letter do not differ
    significantly, all others do.

    Insert and absorb (Piepho 2004, J. Comput. Graph. Stat. 13, 456-466).

    Args:
        order: the runs, best first; the best has the letter 'a'.
        differ: the pairs of runs that differ.
    """
    place_of = {name: position for position, name in enumerate(order)}
    # sets of runs as bits: bit p is the run at position p
    columns = [(1 << len(order)) - 1]
    # Any order of the pairs has the same result, but a random one has far more columns on the way.
    for first, second in sorted(
        sorted(place_of[name] for name in pair) for pair in differ
    ):
        first_bit = 1 << first
        second_bit = 1 << second
        kept = [
            column
            for column in columns
            if not (column & first_bit and column & second_bit)
        ]
        halves = {
            column & ~name
            for column in columns
            if column & first_bit and column & second_bit
            for name in (first_bit, second_bit)
        }
        # Kept columns are subsets of no half, since they were subsets of no column that was split.
        for half in sorted(halves, key=int.bit_count, reverse=True):
            if not any(half & column == half for column in kept):
                kept.append(half)
        columns = kept
    members = sorted(
        [position for position in range(len(order)) if column >> position & 1]
        for column in columns
    )
    letters_of: dict[str, list[str]] = {name: [] for name in order}
    for number, column in enumerate(members):
        for position in column:
            letters_of[order[position]].append(
                chr(ord("a") + number % 26)
                + (str(number // 26) if number >= 26 else "")
            )
    return {name: "".join(letters) for name, letters in letters_of.items()}
