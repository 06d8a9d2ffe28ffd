"""Judgments as stated, or as expectations over their probabilities: each judge's are all of one kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from evalkit.config import JudgeConfig, RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.bootstrap import Statistic, Tally, divide
from evalkit.scoring.columns import Bools
from evalkit.types import Case, Judgment, Weighted

READABLE = ("ok", "repaired")
UNLIKELY = 0.5


def in_one_kind(config: RunConfig, judgments: Sequence[Judgment]) -> Sequence[Judgment]:
    """Return judgments with their expectations in place of what was stated, where `judge.logprobs` asked for them.

    A judge of which one readable judgment has none (`fallback`) is taken at its word throughout: the two kinds are
    never averaged.

    Raises:
        ConfigError: if log-probabilities are a must, and a judgment has none.
    """
    if not config.scoring.weighted:
        return judgments
    wanted = {judge.label: judge.logprobs for judge in _judges(config) if judge.logprobs}
    lacking = {_giver(judgment) for judgment in _readable(judgments) if judgment.weighted is None}
    for name in sorted(lacking & set(wanted)):
        if wanted[name] is True:
            raise ConfigError(
                f"judgments by {name} have no probabilities",
                where="judge.logprobs",
                remedy="judge again, or set scoring.weighted=false",
            )
    weighing = set(wanted) - lacking
    return [
        _weighted(judgment, judgment.weighted) if _giver(judgment) in weighing else judgment for judgment in judgments
    ]


def weight_statistics(config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment]) -> list[Statistic]:
    """Return `weighted/rate`, `weighted/mass` and `weighted/open` where log-probabilities were asked for.

    They are the share of readable judgments that have probabilities, and the means of these judgments' `mass` and
    `open` (see `Weighted`).
    """
    wanted = {judge.label for judge in _judges(config) if judge.logprobs}
    if not wanted or (judgments and not wanted & {_giver(judgment) for judgment in judgments}):
        return []
    places = {case.id: place for place, case in enumerate(cases)}
    asked = [judgment for judgment in _readable(judgments) if _giver(judgment) in wanted]
    tally = Tally(np.array([places[judgment.case_id] for judgment in asked], dtype=np.int64), len(cases))
    has = np.array([judgment.weighted is not None for judgment in asked], dtype=bool)
    every = np.ones(len(asked), dtype=bool)
    why = "no judgment could be read"
    taken = "the others are why all of their judge's are scored as stated" if has.any() and not has.all() else None
    return [
        tally.rate("weighted/rate", has, every, ~every, note=taken, why=why),
        _mean("weighted/mass", [one.weighted.mass for one in asked if one.weighted], has, tally),
        _mean("weighted/open", [one.weighted.open for one in asked if one.weighted], has, tally),
    ]


def _mean(name: str, values: Sequence[float], has: Bools, tally: Tally) -> Statistic:
    numbers = np.zeros(len(has))
    numbers[has] = values
    unlikely = name == "weighted/mass" and bool(values) and float(np.mean(values)) < UNLIKELY
    return Statistic(
        name,
        np.stack([tally(numbers), tally(has)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=len(values),
        cases=int(np.count_nonzero(tally(has))),
        note="most of the probability was on what is no value of the scale" if unlikely else None,
        why="no judgment has probabilities",
    )


def _judges(config: RunConfig) -> Iterable[JudgeConfig]:
    arbiter = config.swap.arbiter
    return (*config.judge.members, *((arbiter,) if arbiter is not None else ()))


def _readable(judgments: Iterable[Judgment]) -> list[Judgment]:
    return [judgment for judgment in judgments if judgment.status in READABLE]


def _giver(judgment: Judgment) -> str:
    return judgment.arbiter or judgment.judge


def _weighted(judgment: Judgment, weighted: Weighted | None) -> Judgment:
    if weighted is None:
        return judgment
    return replace(judgment, value=weighted.value, criteria=weighted.criteria)
