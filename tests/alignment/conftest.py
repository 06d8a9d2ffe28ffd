"""Finished runs in folders, of margins and labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.config import RunConfig
from evalkit.results import RunResult
from evalkit.runs import read_run, write_run
from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Response

NAMES = ("accuracy", "tone")


def write(folder: Path, cases: Sequence[Case], judgments: Sequence[Judgment], **sections: Any) -> RunResult:
    """Write a run folder, and read it."""
    settings = {
        "judge": {"model": "m"},
        "criteria": dict.fromkeys(NAMES, ""),
        "dataset": {"path": "pairs.jsonl"},
        "scoring": {"bootstrap": 50},
        **sections,
    }
    config = RunConfig.model_validate(settings)
    scores = score_run(config, cases, judgments)
    dataset = {"name": "pairs", "source": "pairs.jsonl", "fingerprint": "f", "rows": len(cases)}
    manifest = {"run_id": folder.name, "judge": "m", "mode": config.mode.name, "dataset": dataset}
    write_run(folder, RunResult(None, config, manifest, cases, judgments, scores.verdicts, scores.metrics))
    return read_run(folder)


def pair(number: int, label: str | None, prompt: str = "") -> Case:
    return Case(
        f"c{number}",
        prompt or f"question {number}",
        (Response("one"), Response("two")),
        label=label,  # type: ignore[arg-type]
    )


def passes(number: int, value: float, judge: str = "m", sample: int = 0, **criteria: float) -> list[Judgment]:
    """Return both orders of a pair, which agree."""
    return [
        Judgment(f"c{number}", (0, 1), shown, sample, judge, "ok", value, criteria=criteria)
        for shown in ((0, 1), (1, 0))
    ]


@pytest.fixture
def ties(tmp_path: Path) -> Callable[..., Path]:
    """Write a run whose labels are ties where its margin is at most 0.4, or with `noise`, at random."""

    def make(name: str = "run", n: int = 120, *, noise: bool = False, seed: int = 0, **sections: Any) -> Path:
        generator = np.random.default_rng(seed)
        margins = generator.uniform(-1, 1, n).round(3)
        labels = ["TIE" if abs(m) <= 0.4 else "A" if m > 0 else "B" for m in margins]
        if noise:
            labels = generator.choice(["A", "B", "TIE"], n).tolist()
        cases = [pair(k, label) for k, label in enumerate(labels)]
        judgments = [one for k, margin in enumerate(margins.tolist()) for one in passes(k, margin)]
        write(tmp_path / name, cases, judgments, **sections)
        return tmp_path / name

    return make
