"""Judgments as stated, or as expectations over their probabilities; never a mix of both for one judge."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

import numpy as np

from evalkit.config import JudgeConfig, RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import Bools


def use_expectations(config: RunConfig, judgments: JudgmentColumns) -> JudgmentColumns:
    """Return judgments with expectations instead of stated values, if `judge.logprobs` requested them.

    If any readable judgment of a judge has no probabilities (`fallback`), all its stated values are used, so the two
    kinds are never averaged.

    Raises:
        ConfigError: if log-probabilities are required and a judgment has none.
    """
    if not config.scoring.weighted:
        return judgments
    requested = {judge.label: judge.logprobs for judge in judges_asked(config) if judge.logprobs}
    unweighted = {
        judgments.judges[place] for place in np.unique(judgments.giver[judgments.readable & ~judgments.weighted])
    }
    for name in sorted(unweighted & set(requested)):
        if requested[name] is True:
            raise ConfigError(
                f"some judgments by {name} have no probabilities",
                where="judge.logprobs",
                remedy="rerun the judge, or set scoring.weighted=false",
            )
    expected, replaced = judgments.expected, given_by(judgments, set(requested) - unweighted) & judgments.weighted
    if expected is None or not replaced.any():
        return judgments
    value = np.where(replaced, expected[:, 0], judgments.value)
    return replace(judgments, value=value, criteria=np.where(replaced[:, None], expected[:, 1:], judgments.criteria))


def judges_asked(config: RunConfig) -> Iterable[JudgeConfig]:
    """Return the judges of a run, and the arbiter if there is one."""
    arbiter = config.swap.arbiter
    return (*config.judge.members, *((arbiter,) if arbiter is not None else ()))


def given_by(judgments: JudgmentColumns, names: Set[str]) -> Bools:
    """Return which judgments were made by one of these judges, (n,)."""
    return np.isin(judgments.giver, [place for place, name in enumerate(judgments.judges) if name in names])
