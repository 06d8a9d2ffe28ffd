"""A panel's judges beside it: the metrics of each, and how far they agree with one another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from evalkit.errors import ConfigError
from evalkit.scoring.alpha import interval_alpha, interval_columns, nominal_alpha, nominal_columns
from evalkit.scoring.bootstrap import Statistic, Tally
from evalkit.scoring.columns import NONE, TIE, A, B, Bools, Codes, Floats, Ints
from evalkit.scoring.outcome import Outcome
from evalkit.scoring.rates import split_rate
from evalkit.types import Metric

_NOT_IN_A_NAME = re.compile(r"[^\w.-]+")


def named(judge: str, found: Sequence[Statistic | Metric]) -> Iterator[Statistic | Metric]:
    """Yield a judge's metrics by the names they have beside the panel's: `judge/<its name>/<metric>`."""
    for one in found:
        yield replace(one, name=f"judge/{metric_part(judge)}/{one.name}")


def metric_part(judge: str) -> str:
    """Return a judge's name as it stands in names of metrics."""
    return _NOT_IN_A_NAME.sub("_", judge)


def check_names(judges: Sequence[str]) -> None:
    """Refuse judges whose metrics would go by one name.

    Raises:
        ConfigError: if there are two.
    """
    parts = [metric_part(judge) for judge in judges]
    if twice := [judge for judge, part in zip(judges, parts, strict=True) if parts.count(part) > 1]:
        raise ConfigError(
            f"the judges {' and '.join(twice[:2])} cannot be told apart in names of metrics",
            where="judge.judges",
            remedy="give one another 'name'",
        )


def between(panel: Outcome, each: Sequence[Outcome], cases: int) -> list[Statistic]:
    """Return `panel/alpha`, of winners or in mode pointwise of scores, `panel/unanimous` and `tie_rate/split`."""
    if panel.shown is None and panel.scored is not None:
        scores = np.stack([one.scored.raw for one in each if one.scored is not None])
        return [_alpha_of_scores(scores, panel.scored.case, cases)]
    winners = np.stack([one.resolved.winner for one in each])
    tally = Tally(panel.resolved.pairs.case, cases)
    return [*_of_winners(winners, tally), split_rate(panel.resolved, cases)]


def _of_winners(winners: Codes, tally: Tally) -> list[Statistic]:
    """Nominal alpha over A, TIE and B, and how often all that voted say the same, where at least two did."""
    counts = np.stack([(winners == code).sum(axis=0) for code in (A, TIE, B)], axis=1).astype(np.float64)
    votes = counts.sum(axis=1)
    several = votes > 1
    columns = nominal_columns(counts, tally)
    same = counts.max(axis=1) == votes
    why = _why(several)
    return [
        _alpha(columns, nominal_alpha, winners != NONE),
        tally.rate("panel/unanimous", same, several, ~several, note="of the pairs on which two judges voted", why=why),
    ]


def _alpha_of_scores(scores: Floats, case: Ints, cases: int) -> Statistic:
    tally, units = Tally(case, cases), scores.shape[1]
    there = np.isfinite(scores)
    unit = np.broadcast_to(np.arange(units), scores.shape)
    # Centred, since sums of squares of large numbers that differ little lose what they differ by.
    centre = float(scores[there].mean()) if there.any() else 0.0
    columns = interval_columns(scores[there] - centre, unit[there], units, tally)
    return _alpha(columns, interval_alpha, there)


def _alpha(columns: Floats, value: Callable[[Floats], Floats], there: Bools) -> Statistic:
    several = there.sum(axis=0) > 1
    return Statistic(
        "panel/alpha",
        columns,
        value,
        n=int(there[:, several].sum()),
        missing=int((~there).sum()),
        note="missing votes are left out and not bounded" if not there.all() else None,
        why="all votes are equal" if several.any() else _why(several),
    )


def _why(several: Bools) -> str:
    return "nothing to count" if several.any() else "nothing was judged by two judges"
