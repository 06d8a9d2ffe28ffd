"""Judgments as stated, or as expectations over their probabilities: each judge's are all of one kind."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

import numpy as np

from evalkit.config import JudgeConfig, RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import Bools


def use_expectations(config: RunConfig, judgments: JudgmentColumns) -> JudgmentColumns:
    """Return judgments with their expectations in place of what was stated, where `judge.logprobs` asked for them.

    A judge of which one readable judgment has none (`fallback`) is taken at its word throughout: the two kinds are
    never averaged.

    Raises:
        ConfigError: if log-probabilities are a must, and a judgment has none.
    """
    if not config.scoring.weighted:
        return judgments
    wanted = {judge.label: judge.logprobs for judge in judges_asked(config) if judge.logprobs}
    lacking = {
        judgments.judges[place] for place in np.unique(judgments.giver[judgments.readable & ~judgments.weighted])
    }
    for name in sorted(lacking & set(wanted)):
        if wanted[name] is True:
            raise ConfigError(
                f"judgments by {name} have no probabilities",
                where="judge.logprobs",
                remedy="judge again, or set scoring.weighted=false",
            )
    expected, taken = judgments.expected, given_by(judgments, set(wanted) - lacking) & judgments.weighted
    if expected is None or not taken.any():
        return judgments
    value = np.where(taken, expected[:, 0], judgments.value)
    return replace(judgments, value=value, criteria=np.where(taken[:, None], expected[:, 1:], judgments.criteria))


def judges_asked(config: RunConfig) -> Iterable[JudgeConfig]:
    """Return the judges of a run, and the one that gives third judgments if there is one."""
    arbiter = config.swap.arbiter
    return (*config.judge.members, *((arbiter,) if arbiter is not None else ()))


def given_by(judgments: JudgmentColumns, names: Set[str]) -> Bools:
    """Return which were given by one of these judges."""
    return np.isin(judgments.giver, [place for place, name in enumerate(judgments.judges) if name in names])
