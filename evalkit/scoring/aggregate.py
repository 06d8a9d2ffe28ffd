"""What a pair's margin is made of: the overall winner, or winners by criterion; and how often the two differ."""

from __future__ import annotations

from typing import Final

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.bootstrap import Statistic, Tally
from evalkit.scoring.columns import NONE, Answers, Columns, sign
from evalkit.scoring.pairs import weigh

AGGREGATE: Final = "scoring.aggregate="
"""What notes about it begin with."""
WEIGHED: Final = "verdicts are the weighted mean of the winners by criterion"
OVERALL: Final = "verdicts are the judge's overall winner"


def settled(config: RunConfig, answers: Answers) -> RunConfig:
    """Return the config with `scoring.aggregate` settled for the whole run, by what all of its answers hold."""
    how = config.aggregate(by_criterion=_by_criterion(answers))
    return config.model_copy(update={"scoring": config.scoring.model_copy(update={"aggregate": how})})


def aggregate_notes(config: RunConfig, answers: Answers) -> tuple[str, ...]:
    """Return which of the two a run of pairs or lists takes, where they could differ and it has answers."""
    given, weights = _by_criterion(answers), config.raw_weights()
    alone = all(len(unit) == 1 for unit in answers.units)
    if alone or not (given or answers.readable.any()):
        return ()
    name, unequal = f"{AGGREGATE}{config.scoring.aggregate}", len({*weights.values()}) > 1
    if not given:
        return (
            (f"{name}: {OVERALL}; weights have no effect: the output names no winners by criterion",) if unequal else ()
        )
    if config.aggregate() == "criteria":
        shares = ", ".join(f"{criterion} {share:.3g}" for criterion, share in config.weights().items())
        return (f"{name}: {WEIGHED} ({shares})",)
    why = "; weights have no effect" if unequal else ", since all weights are equal"
    return (f"{name}: {OVERALL}{why}",) if len(weights) > 1 else ()


def overall_statistics(config: RunConfig, columns: Columns, cases: int) -> list[Statistic]:
    """Return `criteria/overall_disagreement`: how often a judgment's overall winner is not its weighted one.

    A judgment that lacks either is missing. Formats without winners by criterion do not have it.
    """
    if config.output.format != "json" and not np.isfinite(columns.criteria).any():
        return []
    overall, weighed = sign(columns.value), sign(weigh(columns, config.weights()))
    known = (overall != NONE) & (weighed != NONE)
    note = WEIGHED if config.aggregate() == "criteria" else OVERALL
    why = "no judgment has an overall winner and winners by criterion"
    rate = Tally(columns.case, cases).rate(
        "criteria/overall_disagreement", overall != weighed, known, ~known, note=note, why=why
    )
    return [rate]


def _by_criterion(answers: Answers) -> bool:
    parts = (answers, answers.pairs)  # what rankings say of pairs stands apart
    return any(bool(np.isfinite(part.criteria).any()) for part in parts if part is not None)
