"""The number of labels that `evalkit plan --labels` promises for a width: how often
their interval is so narrow.

    uv run python benchmarks/labels.py [SIMULATIONS]

It prints a table of benchmarks/coverage.md.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.core.types import Metric
from evalkit.scoring.labels import labels_for_width
from evalkit.scoring.stats.agreement_formulas import kappa
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.coefficients import Confusion
from evalkit.scoring.stats.statistic import Tally

SETTINGS = ScoringConfig(bootstrap=400)
NAMES = "agreement/accuracy", "agreement/kappa"


def simulated(
    generator: np.random.Generator, n: int, right: float
) -> dict[str, Metric]:
    """Return accuracy and kappa of a judge that is right in this share of n pairs, half
    of them labeled A.
    """
    label = (generator.random(n) < 0.5).astype(np.int8)
    hit = generator.random(n) < right
    every = np.ones(n, dtype=bool)
    tally = Tally.each(n)
    table = Confusion.of(
        tally,
        np.where(hit, label, 1 - label).astype(np.int8),
        label,
        every,
        ~every,
        (0, 1),
    )
    return measure(
        [tally.rate(NAMES[0], hit, every), table.statistic(NAMES[1], kappa)],
        SETTINGS,
        Clusters.each(n),
    )


def main(simulations: int) -> None:
    """Print the table."""
    head = (
        "metric",
        "labels at hand",
        "right",
        "width",
        "labels promised",
        "width reached",
        "width / promised",
    )
    print("|", " | ".join(head), "|\n|" + " --- |" * len(head))
    for name, n, right, width in product(
        NAMES, (30, 100, 300), (0.6, 0.75, 0.9), (0.2, 0.1)
    ):
        totals = []
        widths = []
        for seed in range(simulations):
            generator = np.random.default_rng([seed, n])
            more = labels_for_width(
                simulated(generator, n, right)[name], width, SETTINGS.confidence
            )
            if more:
                found = simulated(generator, n + more, right)[name]
                totals.append(n + more)
                widths.append(((found.high or 0.0) - (found.low or 0.0)) / width)
        if len(widths) >= simulations / 2:
            row = (
                name,
                n,
                right,
                width,
                round(float(np.median(totals))),
                f"{np.mean(np.array(widths) <= 1):.0%}",
            )
            print("|", " | ".join(map(str, (*row, f"{np.mean(widths):.2f}"))), "|")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
