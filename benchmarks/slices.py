"""Slices of one judge: false alarms where none differs, and how often intervals of shrunk estimates hold the truth.

    uv run python benchmarks/slices.py [SIMULATIONS]

It prints a table of benchmarks/coverage.md.
"""

from __future__ import annotations

import sys
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from evalkit.config import RunConfig, ScoringConfig
from evalkit.scoring.slices import slice_results
from evalkit.scoring.stats.bootstrap import Tally
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Case, Response

ACCURACY = 0.75
SETTINGS = ScoringConfig(bootstrap=1000, slices=["source"])
CONFIG = cast(RunConfig, SimpleNamespace(scoring=SETTINGS))


def simulated(generator: np.random.Generator, slices: int, size: int, spread: float) -> tuple[list[Any], np.ndarray]:
    """Return the rows of slices with one metric, and the accuracy of the judge in each, of this standard deviation."""
    truth = np.clip(generator.normal(ACCURACY, spread, slices), 0.01, 0.99)
    source = np.repeat(np.arange(slices), size)
    right = generator.random(len(source)) < truth[source]
    cases = [Case(str(k), "", (Response("a"),), metadata={"source": f"{one:02}"}) for k, one in enumerate(source)]
    statistic = Tally.each(len(cases)).rate("agreement/accuracy", right, np.ones(len(cases), dtype=bool))
    return slice_results(CONFIG, cases, [statistic], Clusters.each(len(cases)))[1]["slices"], truth


def main(simulations: int) -> None:
    """Print the table."""
    head = ("slices", "cases each", "spread", "runs with an alarm", "shrunk held", "plain held", "shrunk width / plain")
    print("|", " | ".join(head), "|\n|" + " --- |" * len(head), flush=True)
    for (slices, size), spread in product(((4, 30), (4, 100), (10, 30)), (0.0, 0.05, 0.1)):
        alarms, shrunk, plain, widths = 0, [], [], []
        for seed in range(simulations):
            rows, truth = simulated(np.random.default_rng([seed, slices, size]), slices, size, spread)
            alarms += any(row["p_holm"] <= 1 - SETTINGS.confidence for row in rows)
            for row, value in zip(rows, truth, strict=True):
                if own := row["shrunk"]:
                    shrunk.append(own["low"] <= value <= own["high"])
                    plain.append(row["low"] <= value <= row["high"])
                    widths.append((own["high"] - own["low"]) / (row["high"] - row["low"]))
        shares = (alarms / simulations, np.mean(shrunk), np.mean(plain))
        shown = (*(f"{share:.1%}" for share in shares), f"{np.mean(widths):.2f}")
        print("|", " | ".join(map(str, (slices, size, spread, *shown))), "|", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
