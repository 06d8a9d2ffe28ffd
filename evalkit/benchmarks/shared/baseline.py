"""Shared code of benchmarks that compare models with a baseline.

The model is the first response, the baseline the second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evalkit.benchmarks.shared.benchmark import FACTS, Source
from evalkit.benchmarks.shared.scoring_rules import View, by_model
from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.types import Case
from evalkit.interop.layouts.judgment_files import LocatedRow
from evalkit.scoring.columns import NONE
from evalkit.scoring.stats.arrays import Bools, Floats, Ints
from evalkit.scoring.verdicts.pairs import over_orders

Answers = dict[str, dict[str, LocatedRow]]
"""Rows by model and question."""

NO_MODEL = "no case has a model and its baseline"

_ALPACA, _ARENA = (
    FACTS[name]["tables"]["baselines"] for name in ("alpaca_eval", "arena_hard")
)
USUAL = ("baseline", *_ALPACA, *_ARENA.values())
"""The baselines of AlpacaEval and Arena-Hard."""


def find_baseline(answers: Answers, source: Source, usual: Sequence[str]) -> str:
    """Return the baseline model: the configured one, or else the benchmark's."""
    where = "dataset.baseline"
    if source.baseline is not None and source.baseline not in answers:
        problem = f"no outputs of '{source.baseline}' in {source.path}"
        raise ConfigError(
            problem, where=where, remedy=did_you_mean(source.baseline, answers)
        )
    # In order of preference: the configured one, then those of the benchmark.
    baseline = source.baseline or next(
        (name for name in usual if name in answers), None
    )
    if baseline is None:
        problem = (
            f"{source.path} has outputs of {', '.join(sorted(answers))}, but of no"
            " usual baseline"
        )
        raise ConfigError(
            problem,
            where=where,
            remedy=f"set it to one of them, or add those of {usual[0]}",
        )
    if len(answers) < 2:
        problem = f"has only outputs of {baseline}"
        raise DatasetError(
            problem,
            where=str(source.path),
            remedy="use a folder with outputs of a model and the baseline",
        )
    return baseline


def contests(view: View) -> tuple[Floats, Ints, dict[str, Bools]]:
    """Return the contests of models with their baselines, in the first pair of each case.

    Returns:
        The margin by order in favor of the model, (cases, 1 or 2), NaN if it is missing or the case
        is no contest; 1 if the model is the first response, -1 if the baseline is, and 0 if the
        case is no contest or its verdict is withheld; and the cases of each model, by the suffix of
        its metrics.
    """
    named = view.config.dataset.baseline
    sides = [
        sides_of(case, named) if whole else ("", 0)
        for case, whole in zip(view.cases, view.whole, strict=True)
    ]
    # Winners as margins; judged orders have their own.
    margins = np.where(view.passes == NONE, np.nan, view.passes)
    if view.outcome.passes is not None:
        if view.both:
            margins = view.order_margins()
        else:
            # One order: a single column, (cases, 1) below.
            margins = over_orders(view.order_margins())[:, None]
    # (cases,) 1, -1 or 0: the side of the model.
    turn = np.array([turn for _, turn in sides], dtype=np.int64)
    return (
        view.of_first(margins, np.nan) * turn[:, None],
        turn,
        by_model([model for model, _ in sides]),
    )


def sides_of(case: Case, named: str | None) -> tuple[str, int]:
    """Return the model of a case, and 1 if it is the first response, -1 if the baseline is.

    The baseline is that of the case, or else `named`, a usual one, or the second response's model.
    """
    if len(case.responses) < 2:
        return "", 0
    # More responses are not compared.
    first = case.responses[0].model
    second = case.responses[1].model
    if not first or not second:
        return "", 0
    # Published baselines first, then the second response's model.
    usual = next((name for name in (first, second) if name in USUAL), second)
    baseline = case.metadata.get("baseline") or named or usual
    if baseline not in (first, second):
        return "", 0
    if baseline == first:
        return (second, -1)
    return (first, 1)
