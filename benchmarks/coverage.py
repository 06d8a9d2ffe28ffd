"""Intervals: how often they hold the truth, for simulated judges of whom everything is known.

    uv run python benchmarks/coverage.py [SIMULATIONS] > benchmarks/coverage.md

Two judges are made up, one of pairs and one of scores, with a preference for what is shown first, one for length, noise
between samples, overconfidence and systems of different strength planted in them. The truth of each metric is what a
run of 100,000 cases comes to; an interval covers if it holds it. One process, a few minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Metric, Response

SIMULATIONS, CASES, TRUTH, RESAMPLES = 1000, 200, 100_000, 600
SYSTEMS = {"strong": 0.8, "middling": 0.2, "weak": -1.0}
Run = tuple[list[Case], list[Judgment]]

PAIRS = {
    "agreement": "accuracy accuracy_per_order accuracy_both_orders kappa kappa_weighted ac1",
    "position": "first_rate consistency",
    "length": "longer_rate",
    "win_rate": "a",
    "calibration": "brier",
    "samples": "flip_rate",
    "corrected": "win_rate/a tie_rate",
    "jnd": "noise labels",
    "ranking": "rating/strong rating/middling rating/weak win_rate/strong",
    "variance": "case order sample",
}
SCORES = {
    "score": "mean",
    "agreement": "accuracy pearson spearman kendall",
    "samples": "spread",
    "corrected": "score_mean",
    "jnd": "noise",
    "ranking": "rating/strong",
    "variance": "case criterion sample",
}
BIASED = {
    "conflict/weak_rate": "one or two cases of a run have it: too few for any interval to be exact",
    "calibration/ece": "the mean of absolute gaps is never below 0, so that few cases overstate it",
}


@dataclass(frozen=True)
class Judge:
    """One simulated judge: its settings, how to make a run of so many cases, and the metrics looked at."""

    name: str
    config: RunConfig
    make: Callable[[np.random.Generator, int], Run]
    metrics: dict[str, str]

    def names(self) -> list[str]:
        biased = list(BIASED) if self.name == "pairs" else []
        named = [f"{group}/{name}" for group, names in self.metrics.items() for name in names.split()]
        return ["tie_rate", *named, *biased]


def _cases(generator: np.random.Generator, count: int) -> tuple[list[Case], np.ndarray, np.ndarray]:
    """Return cases of three systems' responses, their true qualities and the standardised log-lengths."""
    quality = generator.normal(size=(count, 3)) * 0.8 + np.array(list(SYSTEMS.values()))
    length = generator.normal(size=(count, 3))
    characters = np.maximum(1, np.round(np.exp(4 + 0.4 * length))).astype(int)
    labelled = generator.random(count) < 0.5
    grade = np.clip(np.round(quality * 1.2 + 3 + 0.4 * generator.normal(size=quality.shape)), 1, 5)
    cases = [
        Case(
            str(k),
            "question",
            tuple(
                Response("x" * int(n), name, float(g) if labelled[k] else None)
                for n, name, g in zip(characters[k], SYSTEMS, grade[k], strict=True)
            ),
        )
        for k in range(count)
    ]
    return cases, quality, length


def pairs(generator: np.random.Generator, count: int) -> Run:
    cases, quality, length = _cases(generator, count)
    judgments = []
    for i, j in combinations(range(3), 2):
        lead = quality[:, i] - quality[:, j] + 0.3 * (length[:, i] - length[:, j]) + 0.5 * generator.normal(size=count)
        for order, sign in enumerate((1, -1)):
            for sample in (0, 1):
                felt = lead + 0.35 * sign + 0.6 * generator.normal(size=count)
                value = np.where(np.abs(felt) < 0.15, 0.0, np.tanh(felt))
                confidence = 1 / (1 + np.exp(-2.2 * np.abs(felt)))
                shown = ((i, j), (j, i))[order]
                judgments += [
                    Judgment(str(k), (i, j), shown, sample, "judge", "ok", v, c)
                    for k, (v, c) in enumerate(zip(value.tolist(), confidence.tolist(), strict=True))
                ]
    return cases, judgments


def scores(generator: np.random.Generator, count: int) -> Run:
    cases, quality, length = _cases(generator, count)
    judgments = []
    for i in range(3):
        for sample in (0, 1):
            felt = {
                name: quality[:, i] * 1.1 + 3.4 + lift + 0.2 * length[:, i] + 0.5 * generator.normal(size=count)
                for name, lift in (("substance", -0.3), ("style", 0.3))
            }
            given = {name: np.clip(np.round(values * 2) / 2, 1, 5).tolist() for name, values in felt.items()}
            judgments += [
                Judgment(
                    str(k), (i,), (i,), sample, "judge", "ok", criteria={name: row[k] for name, row in given.items()}
                )
                for k in range(count)
            ]
    return cases, judgments


def judges(resamples: int = RESAMPLES) -> list[Judge]:
    shared = {"judge": {"model": "judge"}, "scoring": {"bootstrap": resamples}}
    pairwise = shared | {"mode": {"samples": 2}, "swap": {"resolve": "mean"}, "tie": {"threshold": 0.1}}
    pointwise = shared | {"mode": {"name": "pointwise", "samples": 2}, "swap": {"policy": "none"}}
    one, two = [{"name": "quality"}], [{"name": "substance"}, {"name": "style"}]
    rubric = {"min": 1, "max": 5, "step": 0.5}
    return [
        Judge("pairs", RunConfig.model_validate(pairwise | {"criteria": one}), pairs, PAIRS),
        Judge("scores", RunConfig.model_validate(pointwise | {"criteria": two, "rubric": rubric}), scores, SCORES),
    ]


def truth(judge: Judge, cases: int = TRUTH) -> dict[str, float]:
    once = judge.config.model_copy(update={"scoring": judge.config.scoring.model_copy(update={"bootstrap": 0})})
    metrics = score_run(once, *judge.make(np.random.default_rng(12345), cases)).metrics
    return {name: float(metrics[name].value or 0.0) for name in judge.names()}


def covers(metric: Metric, value: float) -> bool | None:
    """Say whether a metric's interval holds the truth, none where it has no interval."""
    return None if metric.low is None or metric.high is None else metric.low <= value <= metric.high


def simulate(
    judge: Judge, true: dict[str, float], simulations: int, cases: int = CASES
) -> dict[str, list[bool | None]]:
    """Return for each metric whether its interval covered the truth, simulation by simulation."""
    found: dict[str, list[bool | None]] = {name: [] for name in true}
    for seed in range(simulations):
        scoring = judge.config.scoring.model_copy(update={"seed": seed})
        run = judge.make(np.random.default_rng([7, seed]), cases)
        metrics = score_run(judge.config.model_copy(update={"scoring": scoring}), *run).metrics
        for name, value in true.items():
            found[name].append(covers(metrics[name], value))
    return found


def table(true: dict[str, float], found: dict[str, list[bool | None]]) -> list[str]:
    lines = ["| metric | truth | covered | of |", "| --- | --- | --- | --- |"]
    for name, hits in found.items():
        there = [hit for hit in hits if hit is not None]
        rate = f"{100 * np.mean(there):.1f} %" if there else "–"
        lines.append(f"| {name}{' *' if name in BIASED else ''} | {true[name]:.4f} | {rate} | {len(there)} |")
    return lines


def main() -> int:
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else SIMULATIONS
    outside = []
    print("# How often 95 % intervals hold the truth\n")
    print(
        f"{simulations:,} simulated runs of {CASES} cases × 3 systems for each judge, {RESAMPLES} resamples of the "
        "cases; half of the cases have labels.\n"
        f"Written on {time.strftime('%Y-%m-%d')} by `uv run python benchmarks/coverage.py {simulations}`, "
        "which says what is planted.\n"
    )
    for judge in judges():
        started = time.process_time()
        true = truth(judge)
        found = simulate(judge, true, simulations)
        print(f"## {judge.name.capitalize()}\n")
        print("\n".join(table(true, found)))
        print(f"\n{time.process_time() - started:.0f} s of one processor.\n")
        for name, hits in found.items():
            rate = float(np.mean([hit for hit in hits if hit is not None]))
            if name not in BIASED and not 0.93 <= rate <= 0.97:
                outside.append(f"{judge.name}: {name} {100 * rate:.1f} %")
    print("\n".join(f"\\* {name}: {why}." for name, why in BIASED.items()))
    print("\nOutside 93-97 %: " + (", ".join(outside) or "none") + ".")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
