"""What sways a judge but should not: the position a response is shown in, and its length."""

from __future__ import annotations

import numpy as np

from evalkit.scoring.bootstrap import Statistic, Tally
from evalkit.scoring.chance_level import ONE_ORDER
from evalkit.scoring.columns import NONE, TIE, A, B
from evalkit.scoring.ties import Resolved, Shown


def position_statistics(resolved: Resolved, shown: Shown, cases: int) -> list[Statistic]:
    """Return `position/consistency` and `position/first_rate`.

    Consistency is the share of pairs, read in both orders, whose two passes give one winner. The first rate is the
    share of passes with a winner that the response shown first won: a fair judge asked in both orders is at 0.5.
    """
    passes, case, read = shown.winner, resolved.pairs.case, shown.read
    complete = read[:, 0] & read[:, 1] & shown.both
    consistency = Tally(case, cases).rate(
        "position/consistency",
        passes[:, 0] == passes[:, 1],
        complete,
        ~complete & shown.both,
        why="no pair was read in both orders" if shown.both else "each pair was judged in one order",
    )
    first_won = passes == np.array([A, B], dtype=np.int8)
    alone = not shown.both and not shown.asked[:, 1].any()
    first_rate = Tally(np.repeat(case, 2), cases).rate(
        "position/first_rate",
        first_won.ravel(),
        (read & (passes != TIE)).ravel(),
        (~read & (shown.asked | shown.both)).ravel(),
        note=f"{ONE_ORDER}: position and quality cannot be separated" if alone else None,
        why="no pass has a winner",
    )
    return [consistency, first_rate]


def length_statistics(resolved: Resolved, cases: int) -> list[Statistic]:
    """Return `length/longer_rate`: of pairs with a winner and unequal numbers of characters, won by the longer."""
    longer, winner = resolved.pairs.longer, resolved.winner
    unequal = (longer != TIE) & (longer != NONE)
    decided = resolved.present & (winner != TIE) & unequal
    why = "no pair of unequal length has a winner"
    tally = Tally(resolved.pairs.case, cases)
    return [tally.rate("length/longer_rate", winner == longer, decided, ~resolved.present & unequal, why=why)]
