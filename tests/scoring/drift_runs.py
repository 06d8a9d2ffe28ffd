"""Runs of pairs, scores, classes and checklists, constructed from verdicts, for tests of drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evalkit.config import RunConfig, ScoringConfig
from evalkit.core.types import Case, Judgment, Response
from evalkit.scoring.drift import Drift, measure_drift
from evalkit.scoring.paired_runs import RunEntry

VALUES = {"A": 1.0, "TIE": 0.0, "B": -1.0, None: None}
SETTINGS = ScoringConfig(bootstrap=200)


def pairs(
    verdicts: Sequence[Any], labels: Sequence[Any], name: str = "run", **sections: Any
) -> RunEntry:
    """Return a run of one pair a case; a verdict can be a tuple of samples, `None` is unparseable."""
    config = {
        "judge": {"model": "m"},
        "criteria": [{"name": "quality"}],
        "swap": {"policy": "none"},
        **sections,
    }
    cases = tuple(
        Case(str(k), f"question {k}", (Response("one"), Response("two")), label=label)
        for k, label in enumerate(labels)
    )
    judgments = tuple(
        Judgment(str(k), (0, 1), (0, 1), sample, "m", "ok" if one else "unparseable", VALUES[one])
        for k, given in enumerate(verdicts)
        for sample, one in enumerate(given if isinstance(given, tuple) else (given,))
    )
    return RunEntry(name, RunConfig.model_validate(config), cases, judgments)


def scores(
    given: Sequence[float], grades: Sequence[float | None], name: str = "run", **sections: Any
) -> RunEntry:
    """Return a run of one score a case."""
    config = {
        **{"judge": {"model": "m"}, "criteria": [{"name": "quality"}], "swap": {"policy": "none"}},
        **{"mode": {"name": "pointwise"}, **sections},
    }
    cases = tuple(
        Case(str(k), f"question {k}", (Response("one", grade=one),)) for k, one in enumerate(grades)
    )
    judgments = tuple(
        Judgment(str(k), (0,), (0,), 0, "m", "ok", criteria={"quality": one})
        for k, one in enumerate(given)
    )
    return RunEntry(name, RunConfig.model_validate(config), cases, judgments)


def truth(n: int, seed: int = 0) -> list[str]:
    """Return labels, half A and half B."""
    return np.random.default_rng(seed).permutation(["AB"[k % 2] for k in range(n)]).tolist()


def right_in(labels: Sequence[str], share: float, seed: int) -> list[str]:
    """Return verdicts of which a share is equal to the labels."""
    wrong = np.random.default_rng(seed).permutation(len(labels))[: round((1 - share) * len(labels))]
    return [
        ("B" if one == "A" else "A") if k in set(wrong.tolist()) else one
        for k, one in enumerate(labels)
    ]


def measured(
    before: RunEntry, after: RunEntry, margin: float = 0.05, manifest: Any = None
) -> Drift:
    """Return the drift from one run to another; `manifest` is that of the run after."""
    known = {"prompt_hashes": {"pairwise": "1"}}
    runs = replace(before, name="before"), replace(after, name="after")
    return measure_drift(*runs, [known, known if manifest is None else manifest], SETTINGS, margin)
