"""What depends on how was asked: several samples, ties forbidden, a third judgment, a pass that may be missing."""

from __future__ import annotations

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.bootstrap import Statistic, Tally
from evalkit.scoring.columns import NONE
from evalkit.scoring.metrics.rates import split_rate
from evalkit.scoring.metrics.samples import SampleColumns, sample_statistics
from evalkit.scoring.pairs import FORCED, OrderOutcomes, Resolution


def optional_statistics(
    config: RunConfig, resolved: Resolution, shown: OrderOutcomes | None, draws: SampleColumns | None, cases: int
) -> list[Statistic]:
    """Return the statistics of settings that not every run has; those of orders and samples for single judges only."""
    found: list[Statistic] = [] if config.tie.allow else [forced_rate(resolved, cases)]
    if draws is None:
        return found
    if config.mode.samples > 1:
        found += sample_statistics(draws, cases)
        found += [] if shown is None else [split_rate(resolved, cases)]
    if shown is None or not shown.both:
        return found
    if config.swap.resolve == "third_pass":
        found.append(settled_rate(resolved, shown, cases))
    return [*found, *([one_pass_rate(resolved, shown, cases)] if config.swap.resolve == "net_vote" else [])]


def forced_rate(resolved: Resolution, cases: int) -> Statistic:
    """Return `forced_rate`: the share of verdicts that would be ties, and were settled because ties are forbidden."""
    present = resolved.present
    forced = resolved.reason == FORCED
    why = "no pair has a verdict"
    return Tally(resolved.pairs.case, cases).rate("forced_rate", forced, present, ~present, why=why)


def settled_rate(resolved: Resolution, shown: OrderOutcomes, cases: int) -> Statistic:
    """Return `third_pass/settled_rate`: of pairs whose orders disagree, where a third judgment agrees with one."""
    third = np.full(len(resolved.pairs), NONE) if shown.third is None else shown.third
    differ = shown.read.all(axis=1) & (shown.winner[:, 0] != shown.winner[:, 1])
    agrees = (shown.winner == third[:, None]).any(axis=1)
    read = third != NONE
    return Tally(resolved.pairs.case, cases).rate(
        "third_pass/settled_rate",
        agrees,
        differ & read,
        differ & ~read,
        why="no pair whose orders disagree has a third judgment",
    )


def one_pass_rate(resolved: Resolution, shown: OrderOutcomes, cases: int) -> Statistic:
    """Return `missing/one_pass`: the share of verdicts that rest on one order, the other being missing."""
    present = resolved.present
    alone = shown.read.sum(axis=1) == 1
    why = "no pair has a verdict"
    return Tally(resolved.pairs.case, cases).rate("missing/one_pass", alone, present, ~present, why=why)
