"""Position effects: order against noise, the response shown first, identical texts, and the longer response."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from evalkit.config import RunConfig
from evalkit.decision import ONE_ORDER
from evalkit.scoring.columns.cases import NONE, TIE, A, B, PairColumns, sign
from evalkit.scoring.columns.verdicts import PassColumns, VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.pairs import passes_of
from evalkit.scoring.verdicts.weighting import pair_margins
from evalkit.types import Case

WINNERS = (A, TIE, B)


def order_statistics(
    config: RunConfig, verdicts: VerdictColumns, passes: PassColumns, cases: Sequence[Case], *, panel: bool
) -> list[Statistic]:
    """Return `position/repeat_consistency`, `swap_consistency`, `order_effect` and `identical_preference`.

    With two or more samples per order, two samples of one order agree with the first probability and samples of
    different orders with the second. Their difference is the order effect beyond noise: 0 for a judge that tosses
    coins, 1 for one that always picks the first response. This is the split of a variance into parts within and between
    orders, in terms of agreement (Gini 1912; Light and Margolin 1971, J. Am. Stat. Assoc. 66, 534-544). Judges of a
    panel are not samples of one another, so a panel has only the last metric.

    Args:
        config: the run's config.
        verdicts: the verdicts.
        passes: the result of each order.
        cases: the cases.
        panel: whether the verdicts are those of a panel.
    """
    preference = _false_preference(verdicts, passes, _identical(cases, verdicts.pairs), len(cases))
    return [preference] if panel else [*_order_effects(config, verdicts, passes), preference]


def _order_effects(config: RunConfig, verdicts: VerdictColumns, passes: PassColumns) -> list[Statistic]:
    place, winner = passes_of(verdicts.judgments, verdicts.pairs), sign(pair_margins(config, verdicts.judgments))
    counted = [np.bincount(place[winner == code], minlength=2 * len(verdicts.pairs)) for code in WINNERS]
    counts = np.stack(counted, axis=1).astype(np.float64).reshape(-1, 2, 3)  # by pair, order and winner
    size = counts.sum(axis=2)
    complete = (size >= 2).all(axis=1)
    within = divide((counts * (counts - 1)).sum(axis=2), size * (size - 1)).mean(axis=1)
    across = divide((counts[:, 0] * counts[:, 1]).sum(axis=1), size[:, 0] * size[:, 1])
    asked_twice = bool((size.max(axis=1) >= 2).any()) if len(size) else False
    why = _why_no_effect(passes, asked_twice)
    tally = verdicts.tally
    omitted = int((~complete).sum()) if complete.any() else 0

    def mean(name: str, values: Floats, *, proportion: bool) -> Statistic:
        return Statistic(
            f"position/{name}",
            np.stack([tally(np.where(complete, values, 0.0)), tally(complete)], axis=1),
            lambda totals: divide(totals[:, 0], totals[:, 1]),
            int(complete.sum()),
            omitted,
            proportion=proportion,
            note="pairs with fewer than two answers in an order are omitted and not bounded" if omitted else None,
            why=why,
        )

    return [
        mean("repeat_consistency", within, proportion=True),
        mean("swap_consistency", across, proportion=True),
        mean("order_effect", within - across, proportion=False),
    ]


def _why_no_effect(passes: PassColumns, asked_twice: bool) -> str:
    if not passes.both:
        return "each pair was judged in one order"
    if asked_twice:
        return "no pair has two readable samples in both orders"
    return "one sample of each order: set mode.samples to 2 or more to separate order from noise"


def _identical(cases: Sequence[Case], pairs: PairColumns) -> Bools:
    """Return which pairs have identical texts, (pairs,); a missing text equals no other."""
    same = np.zeros(len(pairs), dtype=bool)
    for place, case in enumerate(cases):
        texts = [response.text for response in case.responses]
        if len(set(texts)) < len(texts):
            start, n = int(pairs.start[place]), len(texts)
            same[start : start + n * (n - 1) // 2] = [one == two != "" for one, two in combinations(texts, 2)]
    return same


def _false_preference(verdicts: VerdictColumns, passes: PassColumns, identical: Bools, cases: int) -> Statistic:
    """Return `position/identical_preference`: the share of passes over identical texts in which one is preferred."""
    relevant = np.repeat(identical, 2)
    read = passes.read.ravel()
    asked = (passes.asked | passes.both).ravel()
    return Tally(np.repeat(verdicts.pairs.case, 2), cases).rate(
        "position/identical_preference",
        passes.winner.ravel() != TIE,
        read & relevant,
        ~read & asked & relevant,
        why="no pair of identical responses was read" if identical.any() else "no case has two identical responses",
    )


def position_statistics(verdicts: VerdictColumns, passes: PassColumns) -> list[Statistic]:
    """Return `position/consistency` and `position/first_rate`.

    Consistency is the share of pairs read in both orders whose passes have the same winner. The first rate is the share
    of passes with a winner that the response shown first won; it is 0.5 for an unbiased judge asked in both orders.
    """
    winner, case, read = passes.winner, verdicts.pairs.case, passes.read
    complete = read[:, 0] & read[:, 1] & passes.both
    consistency = verdicts.tally.rate(
        "position/consistency",
        winner[:, 0] == winner[:, 1],
        complete,
        ~complete & passes.both,
        why="no pair was read in both orders" if passes.both else "each pair was judged in one order",
    )
    first_won = winner == np.array([A, B], dtype=np.int8)
    alone = not passes.both and not passes.asked[:, 1].any()
    first_rate = Tally(np.repeat(case, 2), len(verdicts.pairs.sizes)).rate(
        "position/first_rate",
        first_won.ravel(),
        (read & (winner != TIE)).ravel(),
        (~read & (passes.asked | passes.both)).ravel(),
        note=f"{ONE_ORDER}: position and quality cannot be separated" if alone else _by_construction(winner[complete]),
        why="no pass has a winner",
    )
    return [consistency, first_rate]


def _by_construction(winner: Codes) -> str | None:
    """Return a note if no verdict changes with the order, given the winners in both orders, (pairs, 2)."""
    if len(winner) and (winner[:, 0] == winner[:, 1]).all():
        return "0.5 by construction: no verdict changes with the order"
    return None


def length_statistics(verdicts: VerdictColumns) -> list[Statistic]:
    """Return `length/longer_rate`: the share of decided pairs of different lengths that the longer wins."""
    longer, winner = verdicts.pairs.longer, verdicts.winner
    unequal = (longer != TIE) & (longer != NONE)
    decided = verdicts.present & (winner != TIE) & unequal
    why = "no pair of unequal length has a winner"
    tally = verdicts.tally
    return [tally.rate("length/longer_rate", winner == longer, decided, ~verdicts.present & unequal, why=why)]
