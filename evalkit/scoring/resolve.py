"""Pairs: from un-swapped margins over orders and samples to one winner.

Criteria make a judgment's margin, samples a pass's, the two orders' passes the pair's; tie rules come last (ties.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.columns import NONE, TIE, A, B, Bools, Columns, Floats, Ints, Pairs, sign
from evalkit.scoring.disagreement import DISAGREEMENTS, surer, two_say_tie
from evalkit.scoring.passes import Passes, Third, over_all, over_orders
from evalkit.scoring.samples import Draws, combine
from evalkit.scoring.ties import DISAGREEMENT, JUDGED, MISSING, SPLIT, Resolved, Shown, apply_ties
from evalkit.types import Case


def resolve_pairs(
    config: RunConfig, cases: Sequence[Case], columns: Columns, pairs: Pairs, thirds: Columns
) -> tuple[Resolved, Shown]:
    """Resolve every pair of every case under `scoring.aggregate`, `swap` and `tie`; `thirds` are third judgments.

    Raises:
        ConfigError: if the judgments do not hold what the settings ask for.
    """
    how, margins = config.scoring.combine, pair_margins(config, columns)
    columns = replace(columns, confidence=confidence_in(margins, columns))
    passes = combine_samples(columns, margins, pairs, how)
    both = config.swap.policy == "both"
    if both and len(columns) and not passes.asked[:, 1].any():
        raise ConfigError(
            "both orders are asked for, and every pair was judged in one",
            where="swap.policy",
            remedy="set swap=none, or judge again with swap=both",
        )
    if both and config.swap.resolve == "third_pass":
        passes = replace(passes, third=_third(config, columns, thirds, pairs))
    if both:
        third = np.full(len(pairs), NONE, dtype=np.int8) if passes.third is None else sign(passes.third.margin)
        shown = Shown(
            passes.winner, passes.asked, both=True, third=np.where(passes.differ, third, NONE).astype(np.int8)
        )
        resolved = _resolve_both(config.swap.resolve, pairs, passes)
    else:
        resolved, shown = (_resolve_drawn if config.swap.policy == "random" else _resolve_single)(pairs, passes)
    settled = two_say_tie(passes) if both else np.zeros(len(pairs), dtype=bool)
    resolved = _tell_split(resolved, _most_say_tie(columns, margins, pairs, shown) | settled)
    return apply_ties(resolved, config.tie, cases), shown


def _tell_split(resolved: Resolved, said_so: Bools) -> Resolved:
    """Give ties that the judge did not say, since its samples cancel out, the reason `split`."""
    split = (resolved.lean == TIE) & (resolved.reason == JUDGED) & ~said_so
    return replace(resolved, reason=np.where(split, SPLIT, resolved.reason).astype(np.int8))


def _most_say_tie(columns: Columns, margins: Floats, pairs: Pairs, shown: Shown) -> Bools:
    """Return for which pairs more of the single answers in the orders that count say TIE than A, and than B."""
    place, winner = passes_of(columns, pairs), sign(margins)
    counts = (np.bincount(place[winner == code], minlength=2 * len(pairs)).reshape(-1, 2) for code in (A, TIE, B))
    a, tie, b = (np.where(shown.asked, count, 0).sum(axis=1) for count in counts)
    return np.asarray((tie > a) & (tie > b))


def pair_margins(config: RunConfig, columns: Columns) -> Floats:
    """Return each judgment's margin: the judge's overall one, or the weighted mean of its margins by criterion.

    A judgment that lacks a criterion of weight above 0 has no weighted margin. For a whole run `auto` is settled first.

    Raises:
        ConfigError: if criteria are to be weighted and no judgment holds any.
    """
    given = bool(np.isfinite(columns.criteria).any())
    if config.aggregate(by_criterion=given) == "overall":
        return columns.value
    if np.isfinite(columns.value).any() and not given:
        raise ConfigError(
            "winners by criterion are to be weighted, and the judge gave none",
            where="scoring.aggregate",
            remedy="use output=json, or set scoring.aggregate=auto",
        )
    return weigh(columns, config.weights())


def confidence_in(margins: Floats, columns: Columns) -> Floats:
    """Return the confidence in each judgment's margin where it was stated in an overall winner that may be another.

    As of a panel's judges: of confidence c, the opposite winner has 1 - c, and 0.5 where either is a tie.
    """
    stated, weighed = sign(columns.value), sign(margins)
    other = np.where((stated == TIE) | (weighed == TIE), 0.5, 1 - columns.confidence)
    known = np.isfinite(columns.confidence) & (stated != NONE) & (weighed != NONE)
    return np.where(known & (stated != weighed), other, columns.confidence)


def weigh(columns: Columns, weights: dict[str, float]) -> Floats:
    """Return the weighted mean of each judgment's criteria, NaN where one of weight above 0 is missing."""
    total = np.zeros(len(columns))
    for place, name in enumerate(columns.names):
        if weights[name] > 0:
            total = total + weights[name] * columns.criteria[:, place]
    return total


def group_mean(place: Ints, values: Floats, size: int) -> Floats:
    """Return the mean of the values at each of `size` places, missing ones (NaN) left out; NaN where there is none."""
    there = np.isfinite(values)
    counts = np.bincount(place[there], minlength=size)
    sums = np.bincount(place[there], weights=values[there], minlength=size)
    return np.asarray(np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0))


def combine_samples(columns: Columns, margins: Floats, pairs: Pairs, how: str) -> Passes:
    """Combine the samples of each order: their margins as `how` says, their stated confidences by their mean.

    A majority is one of winners. Samples that could not be read are left out; a pass is missing when none could be.
    """
    size = 2 * len(pairs)
    place = passes_of(columns, pairs)
    confidence = np.where(np.isfinite(margins), columns.confidence, np.nan)
    return Passes(
        combine(how, place, said(margins) if how == "majority" else margins, size).reshape(-1, 2),
        group_mean(place, confidence, size).reshape(-1, 2),
        (np.bincount(place, minlength=size) > 0).reshape(-1, 2),
    )


def by_criterion(columns: Columns, place: Ints, size: int, how: str) -> list[Floats]:
    """Return each unit's value by each criterion: samples of one order combined as `how` says, then the mean of orders.

    A majority of judgments of pairs is one of winners, as it is for their margins. `place` is that of each judgment's
    unit, of `size`.
    """
    passes = 2 * place + columns.swapped
    voted = how == "majority" and bool((columns.i != columns.j).any())
    found = [combine(how, passes, said(v) if voted else v, 2 * size) for v in columns.criteria.T]
    return [over_orders(values.reshape(-1, 2)) for values in found]


def passes_of(columns: Columns, pairs: Pairs) -> Ints:
    """Return the place of each judgment's pass: the pair's times two, and one more if it was shown swapped."""
    return np.asarray(2 * pairs.find(columns.case, columns.i, columns.j) + columns.swapped)


def said(margins: Floats) -> Floats:
    """Return each margin's winner as 1, 0 or -1, NaN where there is none."""
    return np.where(np.isnan(margins), np.nan, sign(margins).astype(np.float64))


def pair_draws(config: RunConfig, columns: Columns, pairs: Pairs) -> Draws:
    """Return the single answers to each order of each pair: margins, and the winners they come to."""
    margins = pair_margins(config, columns)
    return Draws(passes_of(columns, pairs), margins, said(margins), np.repeat(pairs.case, 2), span=2.0)


def _third(config: RunConfig, columns: Columns, thirds: Columns, pairs: Pairs) -> Third:
    """Return what third judgments say; nobody being asked although the judge's own winners differ is a mistake."""
    if not len(thirds) and combine_samples(columns, columns.value, pairs, "mean").differ.any():
        raise ConfigError(
            "orders disagree, and no third judgment was asked for",
            where="swap.resolve",
            remedy="judge again with swap=third_pass, or choose another",
        )
    margins = pair_margins(config, thirds)
    thirds = replace(thirds, confidence=confidence_in(margins, thirds))
    passes = combine_samples(thirds, margins, pairs, config.scoring.combine)
    return Third(over_orders(passes.margin), over_orders(passes.confidence), np.asarray(passes.asked.any(axis=1)))


def _resolve_single(pairs: Pairs, passes: Passes) -> tuple[Resolved, Shown]:
    """Take one order for each pair: the unit's own where it was asked, else the swapped one."""
    column = (~passes.asked[:, 0]).astype(int)
    row = np.arange(len(pairs))
    used = np.zeros_like(passes.asked)
    used[row, column] = True
    margin, lean = passes.margin[row, column], passes.winner[row, column]
    reason = np.where(lean == NONE, MISSING, JUDGED).astype(np.int8)
    confidence = passes.confidence[row, column]
    resolved = Resolved(pairs, lean, lean, reason, margin, confidence, settle=margin, surer=lean)
    return resolved, Shown(np.where(used, passes.winner, NONE).astype(np.int8), used & passes.asked, both=False)


def _resolve_drawn(pairs: Pairs, passes: Passes) -> tuple[Resolved, Shown]:
    """Take the mean of the orders that the samples of each pair were drawn for: one, or both if there are several."""
    margin, confidence = over_orders(passes.margin), over_orders(passes.confidence)
    lean = sign(margin)
    reason = np.where(lean == NONE, MISSING, JUDGED).astype(np.int8)
    resolved = Resolved(pairs, lean, lean, reason, margin, confidence, settle=margin, surer=surer(passes))
    return resolved, Shown(passes.winner, passes.asked, both=False)


def _resolve_both(how: str, pairs: Pairs, passes: Passes) -> Resolved:
    """Take the common winner where both passes agree, else what `how` makes of them; missing if a pass is."""
    complete = passes.complete
    agree = complete & (passes.winner[:, 0] == passes.winner[:, 1])
    winner, margin, confidence = DISAGREEMENTS[how](passes)
    mean, stated = over_orders(passes.margin), over_orders(passes.confidence)
    # Only a net vote says anything of a pair with a missing pass.
    known = complete | (how == "net_vote")
    lean = np.where(known, np.where(agree, passes.winner[:, 0], winner), NONE).astype(np.int8)
    unsettled = complete & ~agree & (lean == TIE) & ~two_say_tie(passes)
    reason = np.where(unsettled, DISAGREEMENT, np.where(lean == NONE, MISSING, JUDGED))
    there = lean != NONE
    return Resolved(
        pairs,
        lean,
        lean,
        reason.astype(np.int8),
        margin=np.where(there, np.where(agree, mean, margin), np.nan),
        confidence=np.where(there, np.where(complete & ~agree, confidence, stated), np.nan),
        settle=np.where(there, np.where(agree, mean, over_all(passes)), np.nan),
        surer=surer(passes),
    )
