"""Alignments on labels of noise: how often `evalkit align` reports an improvement that is not there.

    uv run python benchmarks/alignments.py [RUNS] [LABELS]

Labels are A, B or TIE at random, so every judge is right in a third of the pairs, whatever its
settings. The tie threshold and the weights of two criteria are tuned on new data each time. It
exits with 1 if more than 5% of the alignments report an improvement, or the upper end of the 95%
interval is above 7%. 500 alignments take some minutes.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import binomtest

from evalkit.alignment.alignment import align
from evalkit.config import RunConfig
from evalkit.config.align import AlignConfig
from evalkit.results import RunResult
from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Response

CRITERIA = ("accuracy", "tone")
HIGHEST, UPPER = 0.05, 0.07


def run_of_noise(seed: int, labels: int) -> RunResult:
    """Return a run whose margins have nothing to do with its labels."""
    generator = np.random.default_rng(seed)
    config = RunConfig.model_validate(
        {
            "judge": {"model": "m"},
            "criteria": dict.fromkeys(CRITERIA, ""),
            "scoring": {"bootstrap": 200},
        }
    )
    cases = []
    judgments = []
    for k in range(labels):
        label = str(generator.choice(["A", "B", "TIE"]))
        cases.append(
            Case(
                str(k), f"question {k}", (Response("one"), Response("two")), label=label
            )
        )  # type: ignore[arg-type]
        margin, *parts = generator.uniform(-1, 1, 1 + len(CRITERIA)).round(2).tolist()
        judgments += [
            Judgment(
                str(k),
                (0, 1),
                shown,
                0,
                "m",
                "ok",
                margin,
                criteria=dict(zip(CRITERIA, parts, strict=True)),
            )
            for shown in ((0, 1), (1, 0))
        ]
    scores = score_run(config, cases, judgments)
    manifest = {
        "mode": "pairwise",
        "judge": "m",
        "dataset": {"name": "noise", "fingerprint": str(seed)},
    }
    return RunResult(
        None, config, manifest, cases, judgments, scores.verdicts, scores.metrics
    )


def main(runs: int = 500, labels: int = 100) -> int:
    """Print the outcomes, and return 1 if improvements are too frequent."""
    outcomes: Counter[str] = Counter()
    for seed in range(runs):
        with TemporaryDirectory() as folder, contextlib.chdir(folder):
            result = run_of_noise(seed, labels)
            outcomes[
                align(
                    result, Path(folder), AlignConfig(tune=("threshold", "weights"))
                ).outcome
            ] += 1
    improved = outcomes["improved"]
    upper = binomtest(improved, runs).proportion_ci(method="exact").high
    for outcome, count in outcomes.most_common():
        print(f"{outcome:<10} {count:>5}  {count / runs:.1%}")
    print(
        f"improved in {improved / runs:.1%} of {runs} alignments on {labels} labels of noise, at"
        f" most {upper:.1%}"
    )
    return int(improved > HIGHEST * runs or upper > UPPER)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
