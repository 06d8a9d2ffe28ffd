"""Scoring: one million judgments in full, and how much faster that is than the slow obvious way.

    uv run python benchmarks/scoring.py [CASES]

250,000 labelled cases × 2 orders × 2 samples are scored with 2,000 resamples. The slow way takes a
thousandth of the cases, draws them 2,000 times over and counts a dozen of the metrics anew from the
judgments drawn; its time is scaled.
"""

from __future__ import annotations

import math
import os
import resource
import statistics
import sys
import time
from collections import Counter

# Before NumPy is imported: one processor for both ways, and no waiting for one that other programs
# hold.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.stats import norm, t

from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Response
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.clusters import Clusters

CASES, ORDERS, SAMPLES, RESAMPLES, THOUSANDTH = 250_000, 2, 2, 2000, 1000
TIMES, GIB = 50, 2.0
TEXTS = tuple("x" * size for size in (20, 40, 80))
CRITERIA = ({"quality": 1.0}, {"quality": 0.0}, {"quality": -1.0})


def make(cases: int) -> tuple[list[Case], list[Judgment]]:
    """Return cases with labels, and a judge that is right two times of three and leans
    to what it sees first.
    """
    generator = np.random.default_rng(0)
    labels = generator.choice(["A", "B"], cases)
    sizes = generator.integers(0, 3, (cases, 2))
    rows = [
        Case(
            f"case {k}",
            "question",
            (Response(TEXTS[a]), Response(TEXTS[b])),
            label=str(label),
        )  # type: ignore[arg-type]
        for k, (label, (a, b)) in enumerate(
            zip(labels.tolist(), sizes.tolist(), strict=True)
        )
    ]
    lean = (
        np.where(labels == "A", 0.4, -0.4)[:, None, None]
        + np.array([0.2, -0.2])[None, :, None]
    )
    drawn = lean + generator.normal(scale=0.7, size=(cases, ORDERS, SAMPLES))
    value = np.where(np.abs(drawn) < 0.1, 0, np.sign(drawn)).astype(int)
    confidence = np.round(np.clip(np.abs(drawn), 0.5, 0.95), 2)
    shown = ((0, 1), (1, 0))
    return rows, [
        Judgment(f"case {k}", (0, 1), shown[order], sample, "judge", "ok", float(value[k, order, sample]),
                 float(confidence[k, order, sample]), CRITERIA[1 - int(value[k, order, sample])])
        for k in range(cases)
        for order in range(ORDERS)
        for sample in range(SAMPLES)
    ]  # fmt: skip


def config() -> RunConfig:
    return RunConfig.model_validate(
        {
            "judge": {"model": "judge"},
            "mode": {"samples": SAMPLES},
            "criteria": [{"name": "quality"}],
            "scoring": {"bootstrap": RESAMPLES},
        }
    )


def slow(
    cases: list[Case], judgments: list[Judgment]
) -> dict[str, tuple[float, float, float]]:
    """Return a dozen metrics with intervals by going through the judgments anew for
    each resample.
    """
    by_case: dict[str, list[Judgment]] = {case.id: [] for case in cases}
    for judgment in judgments:
        by_case[judgment.case_id].append(judgment)
    observed = count(cases, by_case)
    draws: dict[str, list[float]] = {name: [] for name in observed}
    for _, weights in Clusters.each(len(cases)).draw(RESAMPLES, 0):
        for row in weights.astype(int).tolist():
            drawn = [
                case
                for case, times in zip(cases, row, strict=True)
                for _ in range(times)
            ]
            for name, value in count(drawn, by_case).items():
                draws[name].append(value)
    own = contributing(cases, by_case)
    ends = {
        name: expanded(values, own.get(name, len(cases)))
        for name, values in draws.items()
    }
    return {name: (observed[name], *map(float, ends[name])) for name in observed}


def expanded(values: list[float], n: int) -> np.ndarray:
    """Percentiles expanded for `n` cases, the p-th of B resamples at place p (B + 1)."""
    tail = norm.cdf(math.sqrt(n / (n - 1)) * t.ppf(0.025, n - 1))
    return np.quantile(values, [tail, 1 - tail], method="weibull")


def contributing(
    cases: list[Case], by_case: dict[str, list[Judgment]]
) -> dict[str, int]:
    """How many cases say anything to a metric, where that is not all of them."""
    alone = [count([case], by_case) for case in cases]
    names = ("position/first_rate", "length/longer_rate")
    return {name: sum(not math.isnan(one[name]) for one in alone) for name in names}


def count(cases: list[Case], by_case: dict[str, list[Judgment]]) -> dict[str, float]:
    tallies: Counter[str] = Counter()
    for case in cases:
        passes = [
            statistics.fmean(
                j.value or 0.0 for j in by_case[case.id] if j.shown == shown
            )
            for shown in ((0, 1), (1, 0))
        ]
        winners = [
            "A" if margin > 1e-9 else "B" if margin < -1e-9 else "TIE"
            for margin in passes
        ]
        verdict = winners[0] if winners[0] == winners[1] else "TIE"
        tallies["consistent"] += winners[0] == winners[1]
        tallies["tie"] += verdict == "TIE"
        tallies["a"] += verdict == "A"
        tallies["b"] += verdict == "B"
        tallies["first"] += (winners[0] == "A") + (winners[1] == "B")
        tallies["decided"] += sum(winner != "TIE" for winner in winners)
        tallies["right"] += verdict == case.label
        tallies["right in both"] += winners == [case.label] * 2
        tallies["right passes"] += sum(winner == case.label for winner in winners)
        one, two = (len(response.text) for response in case.responses)
        if one != two and verdict != "TIE":
            tallies["unequal"] += 1
            tallies["longer"] += (verdict == "A") == (one > two)
        tallies[f"{case.label} {verdict}"] += 1
    n = len(cases)
    table = np.array(
        [
            [tallies[f"{label} {verdict}"] for verdict in ("A", "TIE", "B")]
            for label in ("A", "TIE", "B")
        ]
    )
    chance = float((table.sum(axis=0) * table.sum(axis=1)).sum()) / n**2
    return {
        "position/consistency": tallies["consistent"] / n,
        "position/first_rate": (
            tallies["first"] / tallies["decided"] if tallies["decided"] else math.nan
        ),
        "tie_rate": tallies["tie"] / n,
        "win_rate/a": tallies["a"] / n,
        "win_rate/b": tallies["b"] / n,
        "agreement/accuracy": tallies["right"] / n,
        "agreement/accuracy_both_orders": tallies["right in both"] / n,
        "agreement/accuracy_per_order": tallies["right passes"] / (2 * n),
        "agreement/kappa": (
            (float(np.trace(table)) / n - chance) / (1 - chance)
            if chance < 1
            else math.nan
        ),
        "length/longer_rate": (
            tallies["longer"] / tallies["unequal"] if tallies["unequal"] else math.nan
        ),
    }


def differences(
    cases: list[Case],
    judgments: list[Judgment],
    found: dict[str, tuple[float, float, float]],
) -> float:
    """Return the largest difference between what the slow way finds and what scoring
    does on the same cases.
    """
    metrics = score_run(config(), cases, judgments).metrics
    pairs = [((m := metrics[name]).value, m.low, m.high) for name in found]
    return max(
        abs(x - (y or 0))
        for name, three in zip(found, pairs, strict=True)
        for x, y in zip(found[name], three, strict=True)
    )


def timed(work, *arguments):
    started = time.perf_counter()
    found = work(*arguments)
    return found, time.perf_counter() - started


def main() -> int:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else CASES
    cases, judgments = make(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    scores, fast = timed(score_run, config(), cases, judgments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    few = max(CASES, size) // THOUSANDTH
    small = cases[:few], judgments[: few * ORDERS * SAMPLES]
    found, taken = timed(slow, *small)
    scaled = taken * size / few
    print(
        f"{len(judgments):,} judgments, {RESAMPLES:,} resamples, {len(scores.metrics)} metrics"
    )
    print(
        f"scored in        {fast:9.1f} s; peak memory {peak:.2f} GiB, of which {before:.2f} GiB are"
        " the judgments"
    )
    print(
        f"the slow way     {scaled:9.0f} s for {len(found)} of the metrics ({taken:.1f} s for"
        f" {few:,} cases)"
    )
    print(f"times as fast    {scaled / fast:9.0f}")
    print(f"they differ by   {differences(*small, found):9.1e} at most, on those cases")
    return int(scaled / fast < TIMES or peak > GIB)


if __name__ == "__main__":
    raise SystemExit(main())
