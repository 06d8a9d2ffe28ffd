"""Judgments as stated, or as expectations over their probabilities: each judge's are all of one kind."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

import numpy as np

from evalkit.config import JudgeConfig, RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.bootstrap import Statistic, Tally, divide
from evalkit.scoring.columns import Answers, Bools, Floats

UNLIKELY = 0.5


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


def weight_statistics(config: RunConfig, answers: Answers, cases: int) -> list[Statistic]:
    """Return `weighted/rate`, `weighted/mass` and `weighted/open` where log-probabilities were asked for.

    They are the share of readable judgments that have probabilities, and the means of these judgments' `mass` and
    `open` (see `Weighted`).
    """
    wanted = {judge.label for judge in _judges(config) if judge.logprobs}
    if not wanted or (len(answers) and not _by(answers, wanted).any()):
        return []
    asked = answers.where(answers.readable & _by(answers, wanted))
    tally = Tally(asked.case, cases)
    has, every = _has(asked), np.ones(len(asked), dtype=bool)
    none = np.full(len(asked), np.nan)
    mass, open_ = (none, none) if asked.expected is None else (asked.expected.mass, asked.expected.open)
    why = "no judgment could be read"
    taken = "the others are why all of their judge's are scored as stated" if has.any() and not has.all() else None
    return [
        tally.rate("weighted/rate", has, every, ~every, note=taken, why=why),
        _mean("weighted/mass", mass[has], has, tally),
        _mean("weighted/open", open_[has], has, tally),
    ]


def _mean(name: str, values: Floats, has: Bools, tally: Tally) -> Statistic:
    numbers = np.zeros(len(has))
    numbers[has] = values
    unlikely = name == "weighted/mass" and len(values) > 0 and float(np.mean(values)) < UNLIKELY
    return Statistic(
        name,
        np.stack([tally(numbers), tally(has)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=len(values),
        note="most of the probability was on what is no value of the scale" if unlikely else None,
        why="no judgment has probabilities",
    )


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
