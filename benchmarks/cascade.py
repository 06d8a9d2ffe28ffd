"""How often a cascade breaks its guarantee, by simulation: judges with known errors,
labels drawn again and again.

    uv run python benchmarks/cascade.py

In each row, labels are drawn `RUNS` times, thresholds are chosen on them, and the agreement of the
decided cases is computed in a population of 50,000. A run is a violation if it is below the target.
Prints a table, whose rows with 150 labels are in docs/guides/cascade.md, and exits 1 if more runs
than delta, by the lower end of a 95% interval, are violations.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.config import JudgeConfig
from evalkit.scoring.stats.share_intervals import share_interval
from evalkit.scoring.verdicts.cascade import Cascade, Vote

RUNS, POPULATION = 1000, 50_000
TARGET, DELTA = 0.9, 0.1
NAMES = ("small", "medium", "large")


@dataclass(frozen=True)
class Judges:
    """Judges whose errors depend on a certainty.

    Attributes:
        title: the row's title.
        errors: the error rate of each judge at certainty 0 and at certainty 1.
        levels: the number of values of the certainty; 0 for a continuous one.
        shared: the correlation of the difficulty of a case for two judges.
    """

    title: str
    errors: tuple[tuple[float, float], ...]
    levels: int = 0
    shared: float = 0.0


SITUATIONS = (
    Judges("certainty tells much", ((0.3, 0.0), (0.2, 0.0))),
    Judges("certainty tells little", ((0.2, 0.05), (0.12, 0.04))),
    Judges("errors at the limit", ((0.1, 0.1), (0.1, 0.1))),
    Judges("errors just above the limit", ((0.11, 0.11), (0.11, 0.11))),
    Judges("agreement of two orders", ((0.4, 0.06), (0.3, 0.03)), levels=2),
    Judges("five samples", ((0.4, 0.03), (0.3, 0.02)), levels=5),
    Judges("the same cases are difficult", ((0.3, 0.0), (0.2, 0.0)), shared=0.8),
    Judges("other cases are difficult", ((0.3, 0.0), (0.2, 0.0)), shared=-0.8),
    Judges("three judges", ((0.4, 0.02), (0.3, 0.02), (0.2, 0.0))),
)


def draw(judges: Judges, n: int, random: np.random.Generator) -> dict[str, Vote]:
    """Return the verdicts of all judges on `n` cases."""
    votes = dict[str, Vote]()
    first = random.standard_normal(n)
    for name, (worst, best) in zip(NAMES, judges.errors, strict=False):
        own = random.standard_normal(n)
        hard = (
            judges.shared * first + (1 - judges.shared**2) ** 0.5 * own
            if votes
            else first
        )
        luck = np.argsort(np.argsort(hard)) / n  # the errors are where a case is hard
        certainty = random.random(n)
        if judges.levels:
            certainty = np.floor(certainty * judges.levels) / (judges.levels - 1)
        wrong = luck > 1 - (worst + (best - worst) * certainty)
        votes[name] = Vote(name, np.ones(n, dtype=bool), ~wrong, certainty)
    return votes


def config(judges: Judges, **settings: Any) -> JudgeConfig:
    """Return the config of a cascade."""
    members = tuple(
        JudgeConfig(name=name, model=f"openai/{name}")
        for name in NAMES[: len(judges.errors)]
    )
    return JudgeConfig(
        judges=members, vote="cascade", target=TARGET, delta=DELTA, **settings
    )


def violations(
    judges: Judges, labels: int, runs: int, population: int, last: str
) -> tuple[float, float, float]:
    """Return the share of violations, and the mean shares that are decided and that the
    first judge decides.
    """
    random = np.random.default_rng(labels)
    cascade = config(judges, last=last)
    everyone = draw(judges, population, random)
    right = np.stack([one.right for one in everyone.values()])
    broken, decided, first = 0, 0.0, 0.0
    for _ in range(runs):
        votes = draw(judges, labels, random)
        chosen = Cascade.of(
            cascade, votes, np.ones(labels, dtype=bool), np.ones(labels, dtype=bool)
        )
        decider = np.full(population, -1)
        for place, (step, one) in enumerate(
            zip(chosen.steps, everyone.values(), strict=True)
        ):
            if step.guaranteed and step.threshold is not None:
                decider[(decider < 0) & (one.certainty >= step.threshold)] = place
        some = np.flatnonzero(decider >= 0)
        broken += len(some) > 0 and right[decider[some], some].mean() < TARGET
        decided = decided + len(some) / population
        first = first + float((decider == 0).mean())
    return broken / runs, decided / runs, first / runs


def main() -> int:
    """Print the table, and return 1 if the guarantee does not hold."""
    print(
        "| judges | labels | violations | decided | by the first judge |\n| --- | --- | --- | --- |"
        " --- |"
    )
    failed = False
    for judges in SITUATIONS:
        for labels in (60, 150, 400):
            share, decided, first = violations(
                judges, labels, RUNS, POPULATION, "abstain"
            )
            low, high = share_interval(share, RUNS, 0.95)
            failed |= low > DELTA
            print(
                f"| {judges.title} | {labels} | {share:.1%} [{low:.1%}, {high:.1%}] | {decided:.0%}"
                f" | {first:.0%} |"
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
