"""Labels chosen by `evalkit label --next` against labels at random: bias, coverage and
width of a corrected rate.

    uv run python benchmarks/next_labels.py [RUNS]

A judge is right in 95% of the pairs on which its two orders agree, and half of the others are A. In
each run, 40 labels at random are followed by 60 more: by `--next`, in three rounds of 20, or at
random. Prints the numbers of docs/guides/labels.md.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.annotations import INCLUSION, Label
from evalkit.core.types import Case, Judgment, Metric, Response
from evalkit.labels.next_labels import next_labels
from evalkit.labels.sample import with_probabilities
from evalkit.runs.results import RunResult
from evalkit.scoring.pipeline import score_run

RATE, FIRST, MORE, CASES = "corrected/win_rate/a", 40, 20, 800
FLIPS, RIGHT = 0.2, 0.95
PAIR = (Response("a"), Response("bb"))


def config(resamples: int) -> RunConfig:
    """Return the config of a run of pairs in both orders."""
    return RunConfig.model_validate(
        {
            "judge": {"model": "m"},
            "criteria": {"quality": ""},
            "scoring": {"bootstrap": resamples},
        }
    )


def simulated(
    random: np.random.Generator, cases: int = CASES
) -> tuple[list[Judgment], list[str]]:
    """Return judgments of pairs in both orders, and the labels."""
    better = random.random(cases) < 0.5
    flips = random.random(cases) < FLIPS
    judged = np.where(random.random(cases) < RIGHT, better, ~better)
    judgments = []
    for n in range(cases):
        first = 1.0 if judged[n] else -1.0
        for shown, value in (((0, 1), first), ((1, 0), -first if flips[n] else first)):
            judgments.append(Judgment(f"c{n}", (0, 1), shown, 0, "m", "ok", value))
    return judgments, ["A" if one else "B" for one in better]


def scored(made: RunConfig, cases: list[Case], judgments: list[Judgment]) -> RunResult:
    """Return a run."""
    scores = score_run(made, cases, judgments)
    return RunResult(None, made, {}, cases, judgments, scores.verdicts, scores.metrics)


def estimates(
    seed: int, resamples: int, rounds: int = 3
) -> tuple[float, Metric, Metric, float]:
    """Return the true rate, its estimates by chosen labels and by random ones, and the
    width expected of the former.
    """
    random = np.random.default_rng(seed)
    made = config(resamples)
    judgments, labels = simulated(random)
    every = [Case(f"c{n}", f"q{n}", PAIR) for n in range(CASES)]
    order = [int(n) for n in random.permutation(CASES)]
    at_random = [
        replace(every[n], label=labels[n])
        if n in order[: FIRST + MORE * rounds]
        else every[n]
        for n in range(CASES)
    ]
    cases = [*every]
    expected = 0.0
    for n in order[:FIRST]:
        cases[n] = replace(cases[n], label=labels[n])
    for number in range(rounds):
        found = next_labels(scored(made, cases, judgments), MORE, seed)
        expected = found.width or 0.0
        new = [int(name[1:]) for name, _ in found.sample.units]
        given = [Label(f"c{n}", (0, 1), "ann", labels[n]) for n in new]
        after = [
            replace(case, label=labels[n]) if n in new else case
            for n, case in enumerate(cases)
        ]
        cases = [*with_probabilities(cases, after, given, found.sample.probabilities)]
        assert number or all(INCLUSION in case.metadata for case in cases if case.label)
    chosen, plain = (
        scored(made, one, judgments).metrics[RATE] for one in (cases, at_random)
    )
    return float(np.mean([label == "A" for label in labels])), chosen, plain, expected


def main() -> int:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    found = [estimates(seed, 400) for seed in range(runs)]
    truth = np.array([one[0] for one in found])
    expected = np.mean([one[3] for one in found])
    print(
        "| labels | bias | interval holds the rate | width | expected width |\n| --- | --- | --- |"
        " --- | --- |"
    )
    for place, name in (
        (1, f"{FIRST} at random, then 60 by `--next`"),
        (2, f"{FIRST + 60} at random"),
    ):
        values, lows, highs = (
            np.array([getattr(one[place], part) for one in found])
            for part in ("value", "low", "high")
        )
        error = (values - truth).std() / runs**0.5
        held = np.mean((lows <= truth) & (truth <= highs))
        width = np.mean(highs - lows)
        shown = f"{expected:.3f}" if place == 1 else ""
        print(
            f"| {name} | {np.mean(values - truth):+.4f} (± {1.96 * error:.4f}) | {held:.1%} |"
            f" {width:.3f} | {shown} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
