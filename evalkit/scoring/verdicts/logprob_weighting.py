"""Judgments as stated, or as expectations over their probabilities: each judge's are all of one kind."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

import numpy as np

from evalkit.config import JudgeConfig, RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.columns.judgments import Answers
from evalkit.scoring.stats.arrays import Bools


def use_expectations(config: RunConfig, answers: Answers) -> Answers:
    """Return judgments with their expectations in place of what was stated, where `judge.logprobs` asked for them.

    A judge of which one readable judgment has none (`fallback`) is taken at its word throughout: the two kinds are
    never averaged.

    Raises:
        ConfigError: if log-probabilities are a must, and a judgment has none.
    """
    if not config.scoring.weighted:
        return answers
    wanted = {judge.label: judge.logprobs for judge in _judges(config) if judge.logprobs}
    lacking = _givers(answers, answers.readable & ~_has(answers))
    for name in sorted(lacking & set(wanted)):
        if wanted[name] is True:
            raise ConfigError(
                f"judgments by {name} have no probabilities",
                where="judge.logprobs",
                remedy="judge again, or set scoring.weighted=false",
            )
    expected, taken = answers.expected, _by(answers, set(wanted) - lacking) & _has(answers)
    if expected is None or not taken.any():
        return answers
    criteria = np.where(taken[:, None], expected.criteria, answers.criteria)
    return replace(answers, value=np.where(taken, expected.value, answers.value), criteria=criteria)


def _judges(config: RunConfig) -> Iterable[JudgeConfig]:
    arbiter = config.swap.arbiter
    return (*config.judge.members, *((arbiter,) if arbiter is not None else ()))


def _has(answers: Answers) -> Bools:
    none = np.zeros(len(answers), dtype=bool)
    return none if answers.expected is None else answers.expected.there


def _givers(answers: Answers, rows: Bools) -> set[str]:
    return {answers.judges[place] for place in np.unique(answers.giver[rows])}


def _by(answers: Answers, names: Set[str]) -> Bools:
    """Return which were given by one of these judges."""
    return np.isin(answers.giver, [place for place, name in enumerate(answers.judges) if name in names])
