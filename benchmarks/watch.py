"""Watches: how often they raise a false alarm over 200 looks, and how soon they find a change.

    uv run python benchmarks/watch.py [SIMULATIONS]

It prints the tables behind docs/concepts/intervals.md. Answers of a case flip by themselves with a
probability of the case, as those of easy and hard cases do. In the second table, a share of the
answers is different for good from one look on. All simulations are computed at once from the counts
of two answers, and some are compared with `change_evidence`. One process, a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import log

import numpy as np
from numpy.random import Generator

from evalkit.scoring.looks import BASELINE, FALSE_ALARMS, TILTS, WINDOW, change_evidence
from evalkit.scoring.stats.arrays import Bools, Floats
from evalkit.scoring.stats.bounded_intervals import unlike_share

LOOKS, AFTER = 200, 20
FEW, MANY = 30, 200
NOISE: dict[str, Callable[[Generator, tuple[int, int]], Floats]] = {
    "none": lambda _, shape: np.zeros(shape),
    "2% in each case": lambda _, shape: np.full(shape, 0.02),
    "6% on average, 0% to 50% by case": lambda generator, shape: (
        generator.beta(0.3, 2, shape) / 2
    ),
    "50% in each case": lambda _, shape: np.full(shape, 0.5),
}


def answers(
    generator: Generator, noise: str, simulations: int, looks: int, cases: int
) -> Bools:
    """Return (looks, simulations, cases) whether each answer is the second of two."""
    shares = NOISE[noise](generator, (simulations, cases))
    return generator.random((looks, simulations, cases)) < shares


def evidence(second: Bools) -> Floats:
    """Return (simulations,) the log of the evidence after the last look, as
    `change_evidence` of each simulation.

    The distance of two answers is 1 if they differ, so scores depend on counts only.
    """
    last = len(second) - 1
    counts = second.cumsum(axis=0)
    terms = []
    total = np.zeros((len(TILTS), second.shape[1]))
    for width, t in enumerate(range(last, max(BASELINE, last + 1 - WINDOW) - 1, -1), 1):
        seen = t + 1
        after = last - t
        late = (counts[last] - counts[t]) / max(after, 1)
        both = counts[t]
        # How far the first and the second answer are from the others so far, minus how far from
        # later ones.
        first = both / t - late
        other = (seen - both) / t - np.where(after, 1 - late, 0.0)
        weights = [np.exp(TILTS[:, None, None] * score) for score in (first, other)]
        mean = ((seen - both) * weights[0] + both * weights[1]) / seen
        total = total + np.log(np.where(second[t], weights[1], weights[0]) / mean).sum(
            axis=2
        )
        terms.append(total - log(width * (width + 1)))
    looks = last - BASELINE + 1
    return np.asarray(
        np.logaddexp.reduce(np.concatenate(terms), axis=0)
        - log(len(TILTS) * looks * (looks + 1))
    )


def first_alarms(second: Bools, start: int) -> Floats:
    """Return (simulations,) the first look from `start` on, from 0, after which the
    evidence suffices, or infinity.
    """
    found = np.full(second.shape[1], np.inf)
    for t in range(start, len(second)):
        sizes = evidence(second[: t + 1])
        found = np.where(np.isinf(found) & (sizes >= -log(FALSE_ALARMS)), t, found)
    for simulation in range(3):
        values = np.where(second[:, simulation], 20.0, 10.0)
        np.testing.assert_allclose(
            sizes[simulation], change_evidence(values, np.arange(values.shape[1]))
        )
    return found


def false_alarms(simulations: int) -> None:
    """Print the share of watches with an alarm, of judges that have not changed."""
    print(
        f"| noise | watches of {LOOKS} looks at {FEW} cases | with a false alarm | at most (95%) |"
    )
    print("| --- | --: | --: | --: |")
    for noise in NOISE:
        second = answers(np.random.default_rng(1), noise, simulations, LOOKS, FEW)
        alarms = int(np.isfinite(first_alarms(second, BASELINE)).sum())
        most = "" if alarms else f"{unlike_share(simulations, 0.9):.1%}"
        print(
            f"| {noise} | {simulations:,} | {alarms / simulations:.1%} | {most} |",
            flush=True,
        )


def detection(simulations: int) -> None:
    """Print how often a change is found, at the first look after it and within 20 looks."""
    print(
        f"\n| noise | changed answers | from look | found at once | within {AFTER} looks | median"
        " looks |"
    )
    print("| --- | --: | --: | --: | --: | --: |")
    for noise in [*NOISE][:3]:
        for share in (0.02, 0.05, 0.1, 0.2):
            for at in (BASELINE, 10):
                second = answers(
                    np.random.default_rng(2), noise, simulations, at + AFTER, MANY
                )
                second[at:, :, : round(share * MANY)] ^= True
                taken = first_alarms(second, at) - at + 1
                median = np.median(taken)
                soon = np.isfinite(taken).mean()
                shown = f"{median:g}" if np.isfinite(median) else "-"
                print(
                    f"| {noise} | {share:.0%} | {at + 1} | {(taken == 1).mean():.0%} | {soon:.0%} |"
                    f" {shown} |",
                    flush=True,
                )


if __name__ == "__main__":
    count = int(sys.argv[1]) if sys.argv[1:] else 1000
    false_alarms(count)
    detection(count // 5)
