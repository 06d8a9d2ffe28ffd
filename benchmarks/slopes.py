"""Slopes on length that are 0, and judges that err so rarely that most runs have no error.

    uv run python benchmarks/slopes.py [SIMULATIONS]

It prints two tables of benchmarks/coverage.md: how often the interval of `length/slope_at_label`
excludes a slope of 0 that is planted, and how often intervals hold a kappa and a Spearman
correlation next to 1.
"""

from __future__ import annotations

import sys

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.core.types import Metric
from evalkit.scoring.metrics.correlation import spearman_statistic
from evalkit.scoring.stats.agreement_formulas import kappa
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.logistic import expit, slope
from evalkit.scoring.stats.statistic import Statistic, Tally

SETTINGS = ScoringConfig(bootstrap=400)
JUDGES = (
    (200, 1, 0.8, 0.0),
    (200, 1, 0.8, 0.3),
    (1000, 1, 0.98, 0.0),
    (20, 4, 0.8, 0.0),
    (50, 4, 0.8, 0.0),
    (50, 4, 0.8, 0.3),
    (150, 4, 0.97, 0.0),
    (300, 4, 0.985, 0.0),
)
"""Prompts, pairs to a prompt, accuracy, share of ties."""
RARE = ((20, 0.02), (20, 0.1), (50, 0.02), (100, 0.02), (300, 0.01))
"""Cases, share of errors."""


def slope_at_label(
    generator: np.random.Generator,
    prompts: int,
    size: int,
    accuracy: float,
    ties: float,
) -> Metric:
    """Return the slope of a judge that length does not move; half of a prompt's errors
    are the same.
    """
    n = prompts * size
    prompt = np.repeat(np.arange(prompts), size)
    x = np.repeat(generator.normal(size=prompts), size)
    label = np.where(generator.random(n) < 0.5, 1.0, -1.0)
    own = np.where(
        generator.random(n) < 0.5,
        np.repeat(generator.random(prompts), size),
        generator.random(n),
    )
    verdict = np.where(
        own < expit(np.log(accuracy / (1 - accuracy)) * label), 1.0, -1.0
    )
    verdict[generator.random(n) < ties] = 0.0
    design = np.stack([np.ones(n), x / x.std(), label], axis=1)
    rare = verdict != label
    why = "too few" if rare.sum() < 10 else ""
    item = slope(
        "length/slope_at_label",
        design,
        (1 + verdict) / 2,
        Tally(np.arange(n), n),
        1,
        rare=np.asarray(rare),
        why=why,
    )
    return measure([item], SETTINGS, Clusters.by_key((prompt + 1).tolist(), "prompt"))[
        "length/slope_at_label"
    ]


def next_to_one(
    generator: np.random.Generator, n: int, wrong: float
) -> list[tuple[Metric, float]]:
    """Return kappa and Spearman's rho with their true values, of a judge that is wrong
    at random in few cases.

    Labels are balanced. Scores equal the grades, but the best response has the lowest score where
    the judge is wrong.
    """
    label = generator.integers(0, 2, size=n)
    error = generator.random(n) < wrong
    cells = np.eye(4)[2 * label + np.where(error, 1 - label, label)]
    agreement = Statistic(
        "agreement/kappa", cells, kappa, n, reach=np.eye(cells.shape[1])
    )
    grade = generator.integers(1, 6, size=n).astype(np.float64)
    score = np.where(error & (grade == 5), 1.0, grade)
    rho = spearman_statistic(Tally.each(n), score, grade)
    found = measure([agreement, rho], SETTINGS, Clusters.each(n))
    return [
        (found["agreement/kappa"], 1 - 2 * wrong),
        (found["agreement/spearman"], true_rho(wrong)),
    ]


def true_rho(wrong: float) -> float:
    """Return Spearman's rho of all cases, from the probability of each pair of score and grade."""
    table = np.diag(np.full(5, 0.2))
    table[4] = [0.2 * wrong, 0, 0, 0, 0.2 * (1 - wrong)]
    ranks = [
        np.cumsum(margin) - margin / 2 - 0.5
        for margin in (table.sum(axis=1), table.sum(axis=0))
    ]
    spread = [
        float(margin @ rank**2)
        for margin, rank in zip(
            (table.sum(axis=1), table.sum(axis=0)), ranks, strict=True
        )
    ]
    return float(ranks[0] @ table @ ranks[1]) / (spread[0] * spread[1]) ** 0.5


def main(simulations: int) -> int:
    print(
        "## Slopes\n\n| prompts | pairs to a prompt | accuracy | ties | with a slope | excludes 0 |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for prompts, size, accuracy, ties in JUDGES:
        generator = np.random.default_rng([7, prompts, size])
        found = [
            slope_at_label(generator, prompts, size, accuracy, ties)
            for _ in range(simulations)
        ]
        ends = [
            (one.low, one.high)
            for one in found
            if one.low is not None and one.high is not None
        ]
        alarms = float(np.mean([low > 0 or high < 0 for low, high in ends]))
        shown = f"| {prompts} | {size} | {accuracy:.1%} | {ties:.0%} "
        print(f"{shown}| {len(ends) / simulations:.0%} | {alarms:.1%} |", flush=True)
    print(
        "\n## Next to 1\n\n| cases | errors | runs without an error | agreement/kappa |"
        " agreement/spearman |"
    )
    print("| --- | --- | --- | --- | --- |")
    for n, wrong in RARE:
        generator = np.random.default_rng([8, n])
        runs = [next_to_one(generator, n, wrong) for _ in range(simulations)]
        held = [
            [(one.low or 0.0) <= true <= (one.high or 0.0) for one, true in run]
            for run in runs
        ]
        clean = float(np.mean([run[0][0].value == 1.0 for run in runs]))
        kappas, rhos = np.mean(held, axis=0)
        print(
            f"| {n} | {wrong:.0%} | {clean:.0%} | {kappas:.1%} | {rhos:.1%} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
