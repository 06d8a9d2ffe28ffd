"""What benchmarks share that compare models with one baseline: the contest of a case, and which model is the baseline.

The model is the first response, the baseline the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.benchmarks.benchmark import Source
from evalkit.benchmarks.scoring_rules import View, slug
from evalkit.datasets.formats import Row
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.scoring.columns.codes import NONE
from evalkit.scoring.stats.arrays import Bools, Floats
from evalkit.scoring.verdicts.pairs import combine_samples, over_orders
from evalkit.scoring.verdicts.weighting import pair_margins
from evalkit.types import Case

Answers = dict[str, dict[str, tuple[str, Row]]]
"""Placed rows by model, and then by question."""

NO_MODEL = "no case names a model and its baseline"

USUAL = (
    "baseline",
    "gpt4_1106_preview",
    "gpt4_turbo",
    "text_davinci_003",
    "gpt-4-0314",
    "o3-mini-2025-01-31",
    "gemini-2.0-flash-001",
)
"""Models that AlpacaEval and Arena-Hard compare others with."""


def find_baseline(answers: Answers, source: Source, usual: Sequence[str]) -> str:
    """Return the model that the others are compared with: the one that is set, or else the benchmark's own."""
    where = "dataset.baseline"
    if source.baseline is not None and source.baseline not in answers:
        what = f"no outputs of '{source.baseline}' in {source.path}"
        raise ConfigError(what, where=where, remedy=did_you_mean(source.baseline, answers))
    found = source.baseline or next((name for name in usual if name in answers), None)
    if found is None:
        what = f"{source.path} holds outputs of {', '.join(sorted(answers))}, and of no usual baseline"
        raise ConfigError(what, where=where, remedy=f"set it to one of them, or add those of {usual[0]}")
    if len(answers) < 2:
        what = f"holds outputs of {found} only"
        raise DatasetError(
            what, where=str(source.path), remedy="name a folder with a model's outputs and the baseline's"
        )
    return found


@dataclass(frozen=True, slots=True)
class Contest:
    """The first pair of each case: `margin` by order, in favour of the model, NaN where missing; (cases, 1 or 2)."""

    margin: Floats
    model: list[str]

    @classmethod
    def of(cls, view: View) -> Contest:
        """Return the contest of every case, `margin` NaN where a case has no model with its baseline."""
        sides = [sides_of(case, view.config.dataset.baseline) for case in view.cases]
        margin = np.full((len(sides), 2 if view.both else 1), np.nan)
        first = (view.pairs.i == 0) & (view.pairs.j == 1)
        margin[view.pairs.case[first]] = _margins(view)[first]
        turn = np.array([side[1] for side in sides], dtype=np.float64)
        return cls(margin * turn[:, None], [side[0] for side in sides])

    def models(self) -> dict[str, Bools]:
        """Return the cases of all models, by the end of the metric's name: none where there is one model."""
        names = np.array(self.model, dtype=object)
        known = sorted(set(self.model) - {""})
        if len(known) < 2:
            return {"": np.asarray(names != "")}
        return {f"/{slug(name)}": np.asarray(names == name) for name in known}


def _margins(view: View) -> Floats:
    """Return each pass's margin, the mean of its samples: (pairs, 1 or 2)."""
    if view.outcome.passes is None:
        return np.where(view.passes == NONE, np.nan, view.passes)
    columns = view.outcome.judgments
    margin = combine_samples(columns, pair_margins(view.config, columns), view.pairs, "mean").margin
    return margin if view.both else over_orders(margin)[:, None]


def sides_of(case: Case, named: str | None) -> tuple[str, int]:
    """Return the model of a case, and 1 where it is the first response, -1 where the baseline is.

    The baseline is what the case says, or else `named`, a usual one, or the second response's model.
    """
    first, second = (case.responses[k].model if len(case.responses) > k else None for k in (0, 1))
    if not first or not second:
        return "", 0
    usual = next((name for name in (first, second) if name in USUAL), second)
    baseline = case.metadata.get("baseline") or named or usual
    if baseline not in (first, second):
        return "", 0
    return (second, -1) if baseline == first else (first, 1)
