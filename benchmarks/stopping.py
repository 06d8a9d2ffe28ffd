"""Runs that stop once a rate is known to a width: how often the interval at the stop
misses it, and after how many.

    uv run python benchmarks/stopping.py [SIMULATIONS]

It prints the table of docs/concepts/intervals.md. Each run looks as `StopRule` does. It is compared
with a run that looks as often and stops at the same width of an ordinary interval for one fixed
size (Wilson), and with sampling without replacement from a data set of 2,000 pairs, whose own rate
must be in the interval. One process, minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from numpy.random import Generator
from scipy.stats import binomtest

from evalkit.scoring.stats.arrays import Ints
from evalkit.scoring.stats.sequences import clusters_needed, mean_sequence
from evalkit.workflows.stopping import STEP

CONFIDENCE, DATA = 0.95, 2_000


@cache
def sequence(n: int, hits: int) -> tuple[float, float]:
    """Return the confidence sequence after n pairs."""
    return mean_sequence(np.repeat([0.0, 1.0], [n - hits, hits]), confidence=CONFIDENCE)


@cache
def fixed(n: int, hits: int) -> tuple[float, float]:
    """Return the interval for n pairs if n had been fixed."""
    found = binomtest(hits, n).proportion_ci(CONFIDENCE, method="wilson")
    return float(found.low), float(found.high)


@cache
def first_look(width: float) -> int:
    """Return the fewest pairs whose interval can be so narrow."""
    return clusters_needed(width, CONFIDENCE, 0.0)


def looks(first: int, last: int) -> Iterator[int]:
    """Yield the numbers of clusters at which `StopRule` looks."""
    while first <= last:
        yield first
        first += max(1, first // STEP)


def stops(
    hits: Ints, width: float, interval: Callable[[int, int], tuple[float, float]]
) -> tuple[int, tuple[float, float]]:
    """Return the number of pairs at which a run stops, and its interval; without a
    stop, all pairs.
    """
    totals = hits.cumsum()
    bounds = (0.0, 1.0)
    for n in looks(first_look(width), len(hits)):
        bounds = interval(n, int(totals[n - 1]))
        if bounds[1] - bounds[0] <= width:
            return n, bounds
    return len(hits), interval(len(hits), int(totals[-1]))


def simulate(generator: Generator, rate: float, width: float, runs: int) -> None:
    """Print the row of one rate and width."""
    sizes = []
    missed = [0, 0, 0]
    data = np.zeros(DATA, dtype=np.int64)
    data[: round(rate * DATA)] = 1
    for _ in range(runs):
        drawn = (generator.random(DATA) < rate).astype(np.int64)
        for place, (hits, interval) in enumerate(
            [(drawn, sequence), (generator.permutation(data), sequence), (drawn, fixed)]
        ):
            n, (low, high) = stops(hits, width, interval)
            missed[place] += not low <= rate <= high
            sizes += [n] if place == 0 else []
    shares = " | ".join(f"{100 * count / runs:.1f}%" for count in missed)
    middle, most = np.quantile(sizes, [0.5, 0.95])
    print(
        f"| {rate:g} | {width:g} | {middle:,.0f} | {most:,.0f} | {shares} |", flush=True
    )


def main(runs: int) -> None:
    """Print the table."""
    print(
        "| rate | width | pairs, median | 95% of runs | missed | missed, of this data set | missed,"
        " fixed size |"
    )
    print("| --: | --: | --: | --: | --: | --: | --: |")
    generator = np.random.default_rng(1)
    for rate in (0.1, 0.3, 0.5):
        for width in (0.1, 0.2):
            simulate(generator, rate, width, runs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
