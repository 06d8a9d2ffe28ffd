"""Alignments on labels of noise: how often `evalkit align` reports an improvement that
is not there.

    uv run python benchmarks/alignments.py [RUNS] [LABELS] [KINDS...]

Labels are a coin's, so every judge agrees with them by chance only, whatever its settings. Each
kind of tuning is tried on new data each time: the tie threshold, also of labels without ties; the
weights of criteria; how samples of scores are combined; the vote of a panel of pairs or of classes;
and other answers, as for examples, prompts and criteria, whose calls are simulated in the process.
It exits with 1 if a kind reports an improvement in more than 5% of the alignments by its 99%
interval (37 of 500).
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.stats import binomtest

from evalkit.alignment import alignment
from evalkit.alignment.alignment import align
from evalkit.alignment.calls import Asking
from evalkit.alignment.search import Candidate, Side
from evalkit.config import RunConfig
from evalkit.config.align import AlignConfig
from evalkit.core.types import Case, Judgment, Response
from evalkit.runs.results import RunResult
from evalkit.scoring.pipeline import score_run

HIGHEST = 0.05
CRITERIA = ("accuracy", "tone")
PANEL = {
    "judges": [{"model": "openai/m", "name": f"j{index}"} for index in range(4)],
    "vote": "majority",
}
SINGLE = {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
CLASSES = {**SINGLE, "rubric": {"classes": {"pass": "good", "fail": "bad"}}}


@dataclass(frozen=True)
class Noise:
    """A kind of tuning on labels of noise.

    Attributes:
        tune: the settings to tune.
        sections: the config.
        labels: the labels to choose from.
        answer: returns the judgments of one case.
        answers: whether other answers are tried, as for other prompts.
    """

    tune: tuple[str, ...]
    sections: dict[str, Any]
    labels: tuple[Any, ...]
    answer: Callable[[np.random.Generator, str], list[Judgment]]
    answers: bool = False


def margins(ties: float = 0.0, judges: int = 1) -> Callable[..., list[Judgment]]:
    """Return margins of pairs by coins, a share of them close to 0."""

    def answer(rng: np.random.Generator, case: str) -> list[Judgment]:
        judgments = []
        for index in range(judges):
            name = f"j{index}" if judges > 1 else "m"
            width = 0.04 if rng.random() < ties else 1.0
            margin, *parts = (width * rng.uniform(-1, 1, 3)).round(3).tolist()
            criteria = dict(zip(CRITERIA, parts, strict=True))
            judgments += [
                Judgment(case, (0, 1), shown, 0, name, "ok", margin, criteria=criteria)
                for shown in ((0, 1), (1, 0))
            ]
        return judgments

    return answer


def scores(rng: np.random.Generator, case: str) -> list[Judgment]:
    """Return three samples of random scores on two criteria."""
    judgments = []
    for sample in range(3):
        values = rng.integers(1, 6, 2).astype(float).tolist()
        criteria = dict(zip(CRITERIA, values, strict=True))
        judgments.append(
            Judgment(case, (0,), (0,), sample, "m", "ok", criteria=criteria)
        )
    return judgments


def classes(judges: int, share: float = 0.5) -> Callable[..., list[Judgment]]:
    """Return classes by coins, a share of them the first."""

    def answer(rng: np.random.Generator, case: str) -> list[Judgment]:
        return [
            Judgment(
                case,
                (0,),
                (0,),
                0,
                f"j{index}" if judges > 1 else "m",
                "ok",
                class_name="pass" if rng.random() < share else "fail",
            )
            for index in range(judges)
        ]

    return answer


SIDES = ("A", "B")
GRADES = (1.0, 2.0, 3.0, 4.0, 5.0)
NAMES = ("pass", "fail")
SAMPLED = {**SINGLE, "mode": {"name": "pointwise", "samples": 3}}
KINDS = {
    "threshold": Noise(("threshold",), {}, (*SIDES, "TIE"), margins()),
    "threshold, no ties in labels": Noise(
        ("threshold",), {"tie": {"threshold": 0.05}}, SIDES, margins(0.5)
    ),
    "threshold and weights": Noise(
        ("threshold", "weights"), {"tie": {"threshold": 0.05}}, SIDES, margins(0.5)
    ),
    "weights of scores": Noise(("weights", "combine"), SAMPLED, GRADES, scores),
    "vote on pairs": Noise(
        ("vote",), {"judge": PANEL, "tie": {"threshold": 0.05}}, SIDES, margins(0.3, 4)
    ),
    "vote on classes": Noise(("vote",), {"judge": PANEL, **CLASSES}, NAMES, classes(4)),
    "answers on pairs": Noise(
        ("examples",), {"tie": {"threshold": 0.05}}, SIDES, margins(0.5), answers=True
    ),
    "answers on classes": Noise(
        ("examples",), CLASSES, NAMES, classes(1, 0.9), answers=True
    ),
    "answers on scores": Noise(("examples",), SAMPLED, GRADES, scores, answers=True),
}


def run_of_noise(kind: Noise, seed: int, labels: int) -> RunResult:
    """Return a run whose answers have nothing to do with its labels."""
    generator = np.random.default_rng(seed)
    config = RunConfig.model_validate(
        {
            "judge": {"model": "openai/m", "name": "m"},
            "criteria": dict.fromkeys(CRITERIA, ""),
            "scoring": {"bootstrap": 200, "search": "none"},
            **kind.sections,
        }
    )
    cases = []
    judgments = []
    for number in range(labels):
        label: Any = kind.labels[int(generator.integers(len(kind.labels)))]
        name = str(number)
        prompt = f"question {number}"
        if isinstance(label, float):
            case = Case(name, prompt, (Response("text", grade=label),))
        elif label in NAMES:
            case = Case(name, prompt, (Response("text", class_name=label),))
        else:
            case = Case(name, prompt, (Response("one"), Response("two")), label=label)
        cases.append(case)
        judgments += kind.answer(generator, name)
    scored = score_run(config, cases, judgments)
    manifest = {
        "mode": config.mode.name,
        "judge": "m",
        "dataset": {"name": "noise", "fingerprint": str(seed)},
    }
    return RunResult(
        None, config, manifest, cases, judgments, scored.verdicts, scored.metrics
    )


def outcome(kind: Noise, seed: int, labels: int, tried: int = 4) -> str:
    """Return what an alignment on noise reports; of other answers, the best of some on
    dev is proved.

    Reports are not written: they take a third of the time, and no outcome depends on them.
    """
    with patch.object(alignment, "rescore"):
        return _outcome(kind, seed, labels, tried)


def _outcome(kind: Noise, seed: int, labels: int, tried: int) -> str:
    result = run_of_noise(kind, seed, labels)
    if not kind.answers:
        settings = AlignConfig.model_validate({"tune": kind.tune})
        return align(result, Path(), settings).outcome
    generator = np.random.default_rng([seed, 1])

    def answered(self: Asking, candidate: Candidate, side: Side, **_: Any) -> Side:
        judgments = [kind.answer(generator, case.id) for case in side.cases]
        return replace(side, judgments=[one for listed in judgments for one in listed])

    # Each candidate changes a setting that no score depends on: only its answers differ.
    sets = [(f"noise {index}",) for index in range(tried)]
    settings = AlignConfig.model_validate(
        {"tune": kind.tune, "budget_usd": 1, "sets": tried}
    )
    with (
        patch.object(Asking, "answer", answered),
        patch.object(alignment, "check_calls"),
        patch.object(alignment, "example_sets", return_value=sets),
        patch.object(alignment, "SHOWN", "dataset.name"),
        patch.object(Candidate, "of", lambda self, config: config),
        patch.object(alignment, "write_preset", lambda found, *_: found),
    ):
        return align(result, Path(), settings).outcome


def main(runs: int = 500, labels: int = 100, names: tuple[str, ...] = ()) -> int:
    """Print the outcomes of each kind, and return 1 if improvements are too frequent in one."""
    failed = 0
    print(
        "| tuned | improved | worse | unproved | none | of |\n| --- "
        + "| ---: " * 5
        + "|"
    )
    for name in names or KINDS:
        outcomes: Counter[str] = Counter()
        for seed in range(runs):
            with TemporaryDirectory() as folder, contextlib.chdir(folder):
                outcomes[outcome(KINDS[name], seed, labels)] += 1
        improved = outcomes["improved"]
        failed |= binomtest(improved, runs).proportion_ci(0.99).low > HIGHEST
        counts = " | ".join(
            str(outcomes[kind]) for kind in ("improved", "worse", "unproved", "none")
        )
        print(f"| {name} | {counts} | {runs} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    words = tuple(word for word in sys.argv[1:] if not word.isdigit())
    sys.exit(main(*numbers, names=words))
