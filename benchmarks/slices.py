"""Slices of one judge: false alarms where none differs, and what is said about the lowest slice.

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
from evalkit.core.types import Case, Response
from evalkit.scoring.metrics.correlation import spearman_statistic
from evalkit.scoring.slice_metrics import slice_results
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Tally

AVERAGE = {"accuracy": 0.75, "spearman": 0.6}
SIZES = {
    "accuracy": ((4, 10), (4, 30), (4, 100), (10, 30), (40, 30)),
    "spearman": ((4, 30), (10, 30)),
}
SPREADS = (0.0, 0.05, 0.1, "one bad")
"""The standard deviation between slices; of `one bad` one slice is lower by 0.25."""
SETTINGS = ScoringConfig(bootstrap=1000, slices=["source"])
CONFIG = cast(RunConfig, SimpleNamespace(scoring=SETTINGS))


def simulated(
    generator: np.random.Generator,
    metric: str,
    slices: int,
    size: int,
    spread: float | str,
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return the rows of slices with one metric, and its true value in each."""
    truth = np.full(slices, AVERAGE[metric])
    if isinstance(spread, str):
        truth[0] -= 0.25
    else:
        truth = np.clip(generator.normal(truth, spread), 0.01, 0.99)
    source = np.repeat(np.arange(slices), size)
    cases = [
        Case(str(k), "", (Response("a"),), metadata={"source": f"{one:02}"})
        for k, one in enumerate(source)
    ]
    tally = Tally.each(len(cases))
    if metric == "accuracy":
        right = generator.random(len(source)) < truth[source]
        statistic = tally.rate(
            "agreement/accuracy", right, np.ones(len(cases), dtype=bool)
        )
    else:  # of normal scores and grades: Pearson's r is 2 sin(pi rho / 6)
        r = 2 * np.sin(np.pi * truth[source] / 6)
        score = generator.normal(size=len(source))
        grade = r * score + np.sqrt(1 - r**2) * generator.normal(size=len(source))
        statistic = spearman_statistic(tally, score, grade)
    return slice_results(CONFIG, cases, [statistic], Clusters.each(len(cases)))[1][
        "slices"
    ], truth


def main(simulations: int) -> None:
    """Print the table."""
    head = (
        *(
            "metric",
            "slices",
            "cases each",
            "spread",
            "runs with an alarm",
            "plain held, all slices",
        ),
        *("plain held, lowest", "together held, lowest", "together / plain width"),
        *("error of the lowest", "shrunk"),
    )
    print("|", " | ".join(head), "|\n|" + " --- |" * len(head), flush=True)
    cells = [
        (metric, *size, spread)
        for metric, sizes in SIZES.items()
        for size, spread in product(sizes, SPREADS)
    ]
    for metric, slices, size, spread in cells:
        alarms = 0
        plain = []
        chosen = []
        held = []
        widths = []
        errors = []
        for seed in range(simulations):
            rows, truth = simulated(
                np.random.default_rng([seed, slices, size]),
                metric,
                slices,
                size,
                spread,
            )
            alarms += any(
                row["p_holm"] is not None and row["p_holm"] <= 1 - SETTINGS.confidence
                for row in rows
            )
            plain += [
                row["low"] <= value <= row["high"]
                for row, value in zip(rows, truth, strict=True)
            ]
            if any(row["shrunk"] is None for row in rows):
                continue
            row, value = min(
                zip(rows, truth, strict=True),
                key=lambda pair: pair[0]["shrunk"]["value"],
            )
            shrunk = row["shrunk"]
            chosen.append(row["low"] <= value <= row["high"])
            held.append(shrunk["low"] <= value <= shrunk["high"])
            widths.append((shrunk["high"] - shrunk["low"]) / (row["high"] - row["low"]))
            errors.append([abs(row["estimate"] - value), abs(shrunk["value"] - value)])
        shares = (alarms / simulations, np.mean(plain), np.mean(chosen), np.mean(held))
        numbers = (np.mean(widths), *np.mean(errors, axis=0))
        shown = (
            *(f"{share:.1%}" for share in shares),
            *(f"{number:.2f}" for number in numbers),
        )
        print(
            "|",
            " | ".join(map(str, (metric, slices, size, spread, *shown))),
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
