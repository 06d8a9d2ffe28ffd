"""A judgment's margin or score: its overall value, or the weighted values by criterion."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import Final

import numpy as np

from evalkit.config import JudgeConfig, RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.columns.cases import NONE, TIE, sign
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.arrays import FUZZ, Bools, Floats

AGGREGATE: Final = "scoring.aggregate="
"""Prefix of notes about the setting."""
WEIGHED: Final = "verdicts are the weighted mean of the winners by criterion"
OVERALL: Final = "verdicts are the judge's overall winner"
DECIDING: Final = 0.001
"""The margin of an overall winner that decides because the weighted criteria cancel out: less than any of these."""


def settled(config: RunConfig, judgments: JudgmentColumns) -> RunConfig:
    """Return the config with `scoring.aggregate` resolved for the whole run, by the content of all its answers."""
    how = config.aggregate(by_criterion=bool(np.isfinite(judgments.criteria).any()))
    return config.model_copy(update={"scoring": config.scoring.model_copy(update={"aggregate": how})})


def aggregate_notes(config: RunConfig, judgments: JudgmentColumns) -> tuple[str, ...]:
    """Return a note on which aggregate a run of pairs or lists uses, if the two could differ and it has answers."""
    has_criteria, weights = bool(np.isfinite(judgments.criteria).any()), config.raw_weights()
    alone = all(len(unit) == 1 for unit in judgments.units)
    if alone or not (has_criteria or judgments.readable.any()):
        return ()
    name, unequal = f"{AGGREGATE}{config.scoring.aggregate}", len({*weights.values()}) > 1
    if not has_criteria:
        return (
            (f"{name}: {OVERALL}; weights have no effect: the output names no winners by criterion",) if unequal else ()
        )
    if (how := config.aggregate()) != "overall":
        shares = ", ".join(f"{criterion} {share:.3g}" for criterion, share in config.weights().items())
        rest = "; where they cancel out, the judge's overall winner" if how == "criteria_first" else ""
        return (f"{name}: {WEIGHED} ({shares}){rest}",)
    why = "; weights have no effect" if unequal else ", since all weights are equal"
    return (f"{name}: {OVERALL}{why}",) if len(weights) > 1 else ()


def pair_margins(config: RunConfig, judgments: JudgmentColumns) -> Floats:
    """Return each judgment's margin: the judge's overall margin, or the weighted mean of its margins by criterion.

    With `criteria_first`, a weighted mean of 0 becomes a margin of `DECIDING` for the judge's overall winner: smaller
    than any that the criteria give, so that it only breaks ties. A judgment that lacks a criterion with a weight above
    0 has no weighted margin. For a whole run, `auto` is resolved first.

    Raises:
        ConfigError: if criteria are to be weighted and no judgment has any.
    """
    has_criteria = bool(np.isfinite(judgments.criteria).any())
    if (how := config.aggregate(by_criterion=has_criteria)) == "overall":
        return judgments.value
    if np.isfinite(judgments.value).any() and not has_criteria:
        raise ConfigError(
            f"scoring.aggregate={how} needs winners by criterion, and the judge gave none",
            where="scoring.aggregate",
            remedy="use output=json, or set scoring.aggregate=auto",
        )
    margins, overall = weigh(judgments, config.weights()), sign(judgments.value)
    breaks = (margins == 0) & (overall != NONE) & (judgments.i != judgments.j) & (how == "criteria_first")
    return np.where(breaks, DECIDING * overall, margins)


def cancels(config: RunConfig, judgments: JudgmentColumns, margins: Floats) -> Bools:
    """Return which margins are ties that the judge did not call: criteria with weights cancel out, (n,)."""
    weights = config.weights()
    counted = judgments.criteria[:, [weights[name] > 0 for name in judgments.names]]
    named = (np.abs(counted) > FUZZ).any(axis=1)
    return np.asarray((sign(margins) == TIE) & (sign(judgments.value) != TIE) & named)


def confidence_in(margins: Floats, judgments: JudgmentColumns) -> Floats:
    """Return the confidence in each judgment's margin, if it was stated for an overall winner that may differ.

    As for judges of a panel: with confidence c, the opposite winner has 1 - c, and 0.5 if either is a tie.
    """
    stated, weighted_winner = sign(judgments.value), sign(margins)
    other = np.where((stated == TIE) | (weighted_winner == TIE), 0.5, 1 - judgments.confidence)
    known = np.isfinite(judgments.confidence) & (stated != NONE) & (weighted_winner != NONE)
    return np.where(known & (stated != weighted_winner), other, judgments.confidence)


def weigh(judgments: JudgmentColumns, weights: dict[str, float]) -> Floats:
    """Return the weighted mean of each judgment's criteria, NaN if one with a weight above 0 is missing.

    Criteria that cancel out give exactly 0, whatever the rounding of their weights and their order.
    """
    total = np.zeros(len(judgments))
    for place, name in enumerate(judgments.names):
        if weights[name] > 0:
            total = total + weights[name] * judgments.criteria[:, place]
    return np.where(np.abs(total) <= FUZZ, 0.0, total)


def judgment_values(config: RunConfig, verdicts: VerdictColumns) -> Floats:
    """Return the value of each judgment behind the verdicts: the margin of a pair, or a score in scale units."""
    if verdicts.passes is None:
        return judgment_scores(config, verdicts.judgments)
    return pair_margins(config, verdicts.judgments)


def judgment_scores(config: RunConfig, judgments: JudgmentColumns) -> Floats:
    """Return the score of each judgment in scale units: the weighted mean of its criteria, or its overall value."""
    alone = np.isnan(judgments.criteria).all(axis=1)
    return np.where(alone, judgments.value, weigh(judgments, config.weights()))


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
