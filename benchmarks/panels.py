"""Panels whose judges share a planted part of their errors: how often intervals hold the truth.

    uv run python benchmarks/panels.py [SIMULATIONS]

It prints a table of benchmarks/coverage.md.
"""

from __future__ import annotations

import sys

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.core.types import Metric
from evalkit.scoring.metrics.panels import ERRORS, VOTES, PanelVotes, shared_errors
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Tally

SETTINGS = ScoringConfig(bootstrap=400)
PANELS = (
    (50, 1, 3, 0.1),
    (50, 1, 3, 0.3),
    (200, 1, 3, 0.1),
    (200, 1, 5, 0.2),
    (1000, 1, 3, 0.05),
    (50, 4, 3, 0.2),
)
"""Prompts, pairs to a prompt, judges, share of errors."""
CORRELATIONS = (0.0, 0.2, 0.5, 0.9, 1.0)


def simulated(
    generator: np.random.Generator,
    prompts: int,
    size: int,
    judges: int,
    wrong: float,
    correlation: float,
) -> dict[str, Metric]:
    """Return the metrics of judges whose errors have a correlation; half of a prompt's
    errors are the same.
    """
    n = prompts * size
    half, prompt = generator.random(n) < 0.5, np.repeat(np.arange(prompts), size)

    def errors() -> np.ndarray:
        return (
            np.where(half, generator.random(prompts)[prompt], generator.random(n))
            < wrong
        )

    common = errors()
    copied = generator.random((judges, n)) < np.sqrt(correlation)
    off = np.where(copied, common, np.stack([errors() for _ in range(judges)]))
    votes = PanelVotes(
        np.where(off, 0.0, 1.0), np.ones(n), Tally.each(n), numbers=False
    )
    clusters = Clusters.by_key((prompt + 1).tolist(), "prompt")
    return measure(shared_errors(votes)[:2], SETTINGS, clusters)


def covered(metric: Metric, truth: float) -> bool:
    """Return whether the interval holds the truth."""
    return (
        metric.low is not None
        and metric.high is not None
        and metric.low - 1e-9 <= truth <= metric.high + 1e-9
    )


def main(simulations: int) -> None:
    """Print the table."""
    names = (
        "prompts",
        "pairs each",
        "judges",
        "errors",
        "correlation",
        "effective votes",
        "correlation held",
    )
    print(f"| {' | '.join(names)} | votes held | of |\n{'| --- ' * 9}|")
    for prompts, size, judges, wrong in PANELS:
        for correlation in CORRELATIONS:
            truth = judges / (1 + (judges - 1) * correlation)
            generator = np.random.default_rng(7)
            runs = [
                simulated(generator, prompts, size, judges, wrong, correlation)
                for _ in range(simulations)
            ]
            known = [run for run in runs if run[VOTES].value is not None]
            errors = np.mean([covered(run[ERRORS], correlation) for run in known])
            votes = np.mean([covered(run[VOTES], truth) for run in known])
            row = [
                prompts,
                size,
                judges,
                f"{100 * wrong:.0f} %",
                correlation,
                f"{truth:.2f}",
                f"{100 * errors:.1f} %",
            ]
            print(
                f"| {' | '.join(map(str, [*row, f'{100 * votes:.1f} %', len(known)]))} |",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
