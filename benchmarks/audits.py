"""Audits of judges of whom everything is known: are planted biases recovered, and is an
unbiased judge left alone?

    uv run python benchmarks/audits.py [SIMULATIONS]

Each judge sees the quality of two responses with logistic noise that is new in each order and in
each question. A bias adds to the quality of the edited response. The code under test is that of
`evalkit audit`: `contrast`, its metrics and its tests. The truth of a metric is what 300,000 cases
come to.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import numpy as np

from evalkit.audit.metrics import (
    Answers,
    Contrast,
    contrast,
    outcomes,
    probe_statistics,
)
from evalkit.audit.probes import Probe, own_probes
from evalkit.config import ScoringConfig
from evalkit.scoring.stats.arrays import Floats
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters

CASES, TRUTH, RESAMPLES = 60, 300_000, 600
PLANTED = {
    "authority": 1.0,
    "sentiment": 0.5,
    "padding": -0.7,
    "master_key": 2.5,
    "error": 0.8,
    "letters": 0.6,
}
"""What each bias adds to the quality of the edited response; for `letters`, the spread of a random
change."""
PROBES = {
    name: probe
    for name, probe in own_probes().items()
    if name not in ("repeat", "identical")
}


def verdicts(
    generator: np.random.Generator,
    quality: Floats,
    position: float = 0.0,
    lost: float = 0.0,
) -> Answers:
    """Return what a judge answers to pairs whose first response is better by `quality`;
    a share of cases is lost.
    """
    noise = generator.logistic(0, 0.6, size=(2, len(quality)))
    first = np.sign(quality + position + noise[0])
    second = np.sign(quality - position + noise[1])
    margin = (first + second) / 2
    margin[generator.random(len(quality)) < lost] = np.nan
    return Answers(margin, margin, first, second, np.ones(len(quality), dtype=bool))


def audit(
    generator: np.random.Generator,
    cases: int,
    planted: dict[str, float],
    lost: float = 0.0,
) -> list[Contrast]:
    """Return the effects of each probe on one judge; the second response of each pair
    is the edited one.
    """
    better = np.abs(generator.normal(1.2, 0.8, size=cases))
    base, repeat = (verdicts(generator, better, lost=lost) for _ in range(2))
    return [
        _one(generator, probe, better, base, repeat, planted.get(name, 0.0), lost)
        for name, probe in PROBES.items()
    ]


def _one(
    generator: np.random.Generator,
    probe: Probe,
    better: Floats,
    base: Answers,
    repeat: Answers,
    bias: float,
    lost: float,
) -> Contrast:
    sign = -np.ones(len(better))
    if probe.name == "order":
        turn = [
            Answers(o, o, o, o, base.applies)
            for o in (base.second, repeat.second, base.first)
        ]
        return contrast(probe, *turn, -sign)
    change = bias * (1.0 if probe.directed else generator.normal(size=len(better)))
    quality = {"fails": better + 1.0, "loses": better}.get(probe.expects, better)
    return contrast(
        probe, base, repeat, verdicts(generator, quality - change, lost=lost), sign
    )


def false_findings(simulations: int, lost: float) -> tuple[float, Counter[str]]:
    """Return the share of audits of an unbiased noisy judge that report any bias, and
    what they report.
    """
    scoring = ScoringConfig()
    clusters = Clusters.each(CASES)
    found = 0
    by = Counter[str]()
    for seed in range(simulations):
        effects = audit(np.random.default_rng([1, seed]), CASES, {}, lost)
        seen = [
            one.contrast.probe.name
            for one in outcomes(effects, scoring, clusters, 1.0)
            if one.found or one.silenced
        ]
        by.update(seen)
        found += bool(seen)
    return found / simulations, by


def values(
    effects: list[Contrast], resamples: int, seed: int
) -> dict[str, tuple[float, float, float]]:
    """Return the value and interval of each planted metric."""
    chosen = [
        s for one in effects if one.probe.name in PLANTED for s in probe_statistics(one)
    ]
    scoring = ScoringConfig(bootstrap=resamples, seed=seed)
    metrics = measure(
        [s for s in chosen if not s.name.endswith("missing")],
        scoring,
        Clusters.each(len(effects[0].shift)),
    )
    return {
        name: (one.value or 0.0, one.low or 0.0, one.high or 0.0)
        for name, one in metrics.items()
    }


def coverage(simulations: int) -> list[str]:
    """Return the rows of the table of planted biases."""
    truth = values(audit(np.random.default_rng(0), TRUTH, PLANTED), 0, 0)
    held = Counter[str]()
    means = Counter[str]()
    power = Counter[str]()
    for seed in range(simulations):
        effects = audit(np.random.default_rng([2, seed]), CASES, PLANTED)
        for name, (value, low, high) in values(effects, RESAMPLES, seed).items():
            held[name] += low <= truth[name][0] <= high
            means[name] += value / simulations
        for one in outcomes(effects, ScoringConfig(), Clusters.each(CASES), 1.0):
            power[one.contrast.probe.name] += one.found
    return [
        f"| {name} | {true:.4f} | {means[name]:.4f} | {100 * held[name] / simulations:.1f} % |"
        f" {simulations} | {100 * power[name.split('/')[1]] / simulations:.0f} % |"
        for name, (true, _, _) in truth.items()
    ]


def main(simulations: int) -> None:
    """Print the part of coverage.md on audits."""
    started = time.process_time()
    print("## Audits\n")
    print(
        f"Written by `benchmarks/audits.py`: {simulations:,} audits of {CASES} cases with"
        f" {len(PROBES)} probes."
    )
    print("Six biases are planted in one judge.\n")
    print(
        "| metric | truth | mean | covered | of | probe found |\n| --- | --- | --- | --- | --- |"
        " --- |"
    )
    print("\n".join(coverage(simulations)))
    print("\nAn unbiased judge with the same noise, audited with the same probes:\n")
    print("| answers lost | audits that report any bias | of |\n| --- | --- | --- |")
    for lost in (0.0, 0.05):
        rate, _ = false_findings(simulations, lost)
        print(f"| {100 * lost:.0f} % | {100 * rate:.1f} % | {simulations} |")
    print(f"\n{time.process_time() - started:.0f} s of one processor.\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
