"""Tests of two runs on the same cases, and what many tests at once are worth."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import erfc, sqrt
from statistics import NormalDist

import numpy as np

from evalkit.scoring.stats.arrays import Floats, Ints

EXACT_BELOW = 25
"""With fewer discordant pairs than this the exact test is used, as statsmodels and most texts do."""
POWER = 0.8


def mcnemar(lead: Ints) -> tuple[float | None, str]:
    """Return the p-value of "neither run is right more often", and the name of the test.

    `lead` holds for each cluster the units that only the first run had right, less those that only the second had. With
    one unit a cluster this is McNemar's test (1947, Psychometrika 12, 153-157): exact below 25 discordant ones, else
    chi-squared with Edwards' (1948) continuity correction. Where a cluster has several units, whole clusters change
    sign (exact; Obuchowski 1998, Statist. Med. 17, 1495-1507, from 25 on). None where no cluster is discordant.
    """
    lead = lead[lead != 0]
    single = bool(len(lead)) and bool((np.abs(lead) == 1).all())
    if not len(lead):
        return None, "the runs are right and wrong in the same cases"
    if len(lead) < EXACT_BELOW:
        return sign_flip(lead), "McNemar, exact" if single else "sign flips of whole clusters, exact"
    excess = abs(int(lead.sum())) - (1 if single else 0)
    statistic = max(excess, 0) ** 2 / float((lead**2).sum())
    return _chi_squared(statistic), "McNemar, chi-squared" if single else "McNemar of clusters (Obuchowski)"


def sign_flip(lead: Ints) -> float:
    """Return how often random signs of the leads sum to as far from 0 as they do, by their exact distribution."""
    sizes = np.abs(lead)
    ways = np.ones(1)
    for size in sizes.tolist():
        wider = np.zeros(len(ways) + 2 * size)
        wider[: len(ways)] += ways / 2
        wider[2 * size :] += ways / 2
        ways = wider
    sums = np.arange(len(ways)) - int(sizes.sum())
    return float(min(1.0, ways[np.abs(sums) >= abs(int(lead.sum()))].sum()))


def _chi_squared(statistic: float) -> float:
    """Return the upper tail of chi-squared with one degree of freedom."""
    return erfc(sqrt(statistic / 2))


def tango(only_first: float, only_second: float, n: float, confidence: float) -> tuple[float, float]:
    """Return the score interval of the difference of two paired proportions (Tango 1998, Statist. Med. 17, 891-908).

    `only_first` and `only_second` count the units that only one of the two has right, of `n`. Unlike resampling it is
    sound with few discordant units, and with none: two runs that agree on eight cases are not shown to be equal.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    seen = (only_first - only_second) / n

    def statistic(difference: float) -> float:
        b = (2 * n - only_first + only_second) * difference - only_first - only_second
        c = -only_second * difference * (1 - difference)
        share = (sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
        variance = n * (2 * share + difference * (1 - difference))
        return (only_first - only_second - n * difference) / sqrt(variance) if variance > 1e-12 else 0.0

    return _crossing(statistic, -1.0, seen, z), _crossing(statistic, seen, 1.0, -z)


def _crossing(statistic: Callable[[float], float], low: float, high: float, target: float) -> float:
    """Return where a falling function of the difference crosses `target`, by bisection; an end if it does not."""
    for _ in range(50):
        middle = (low + high) / 2
        if statistic(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def wilcoxon(difference: Floats) -> tuple[float | None, str]:
    """Return the p-value of "differences are symmetric about 0" by signed ranks, and the name of the test.

    Wilcoxon 1945, Biometrics Bull. 1, 80-83, zeros left out; exact where there are no ties and at most 50 differences.
    """
    from scipy.stats import wilcoxon as signed_ranks

    there = np.round(difference[np.isfinite(difference)], 12)
    there = there[there != 0]
    if not len(there):
        return None, "the runs do not differ in any case"
    tied = len(np.unique(np.abs(there))) < len(there)
    exact = len(there) <= 50 and not tied
    found = signed_ranks(there, method="exact" if exact else "asymptotic", correction=not exact)
    return float(found.pvalue), "Wilcoxon signed ranks, " + ("exact" if exact else "normal")


def by_resampling(draws: Floats, clusters: int) -> tuple[float | None, str]:
    """Return twice the share of resampled differences on the other side of 0 (Efron and Tibshirani 1993, ch. 15).

    As for intervals, it is made larger by as much as few clusters make resamples too narrow: of z standard errors it is
    that of Student's t at z sqrt((n - 1) / n) (Hesterberg 2015, Am. Stat. 69, 371-386).
    """
    from scipy.special import ndtri, stdtr

    there = draws[np.isfinite(draws)]
    if not len(there) or not there.any():
        return None, "the runs do not differ in any resample"
    below, above = int((there <= 0).sum()), int((there >= 0).sum())
    share = min(0.5, (min(below, above) + 1) / (len(there) + 1))
    if clusters > 1:
        share = float(stdtr(clusters - 1, ndtri(share) * sqrt((clusters - 1) / clusters)))
    return min(1.0, 2 * share), "paired bootstrap"


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted so that the chance of any false finding among them stays where it was.

    Holm 1979, Scand. J. Statist. 6, 65-70; tests without a p-value are not of the family.
    """
    known = sorted((value, place) for place, value in enumerate(p) if value is not None)
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * value))
        adjusted[place] = largest
    return adjusted


def smallest_detectable(error: float, confidence: float, family: int) -> float:
    """Return the difference that would have been found with a chance of 0.8, at this standard error.

    The usual normal sum of quantiles, z(1 - alpha/2) + z(0.8), alpha shared by the tests of the family (Cohen 1988,
    "Statistical Power Analysis", ch. 2).
    """
    alpha = (1 - confidence) / max(1, family)
    return error * (NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(POWER))


def letters(order: Sequence[str], differ: Collection[frozenset[str]]) -> dict[str, str]:
    """Return a compact letter display: runs that share a letter do not differ, all others do.

    Insert and absorb (Piepho 2004, J. Comput. Graph. Stat. 13, 456-466); `order` is best first, and 'a' is best.
    """
    bit = {name: 1 << place for place, name in enumerate(order)}
    columns = [(1 << len(order)) - 1]
    for one, two in ((bit[one], bit[two]) for one, two in differ):
        apart = [column for column in columns if not (column & one and column & two)]
        halves = {column & ~name for column in columns if column & one and column & two for name in (one, two)}
        # Columns that stay are in none of the halves, since they were in none of the whole.
        for half in sorted(halves, key=int.bit_count, reverse=True):
            if not any(half & column == half for column in apart):
                apart.append(half)
        columns = apart
    members = sorted([place for place in range(len(order)) if column >> place & 1] for column in columns)
    found: dict[str, list[str]] = {name: [] for name in order}
    for number, column in enumerate(members):
        for place in column:
            found[order[place]].append(_letter(number))
    return {name: "".join(letters) for name, letters in found.items()}


def _letter(number: int) -> str:
    letter = chr(ord("a") + number % 26)
    return letter + str(number // 26) if number >= 26 else letter
