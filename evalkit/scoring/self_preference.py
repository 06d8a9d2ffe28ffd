"""Whether a judge favours responses of models of its own family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.bootstrap import Bounds, Statistic, Tally, divide, share
from evalkit.scoring.columns import TIE, Bools, Codes, Pairs
from evalkit.scoring.families import family, judge_families
from evalkit.scoring.ties import Resolved
from evalkit.types import Case


def self_statistics(config: RunConfig, resolved: Resolved, cases: Sequence[Case]) -> list[Statistic]:
    """Return `self/own_rate` and `self/preference`; nothing if no response names its model.

    The first is the share of decided pairs of one own and one other response that the own one won. The second holds
    people's choice equal: the rate at which the own response wins where people preferred it, less the rate at which
    the other wins where people preferred that (Wataoka et al. 2024, arXiv 2410.21819, eq. 1). 0 is fair.
    """
    if not any(response.model for case in cases for response in case.responses):
        return []
    own = _own(resolved.pairs, cases, set(judge_families(config).values()))
    mixed = own != TIE
    won, lost = resolved.winner == own, mixed & ~resolved.present
    tally = Tally(resolved.pairs.case, len(cases))
    nothing = "no pair has one response of the judge's own family"
    decided = mixed & resolved.present & (resolved.winner != TIE)
    why = "no such pair has a winner" if mixed.any() else nothing
    return [
        tally.rate("self/own_rate", won, decided, lost, why=why),
        _preference(resolved, own, tally, nothing),
    ]


def _own(pairs: Pairs, cases: Sequence[Case], families: set[str]) -> Codes:
    """Return A or B for the one response of each pair that is of the judge's family, TIE for none or both."""
    flags = np.array([family(r.model) in families for case in cases for r in case.responses], dtype=np.int8)
    offset = (np.cumsum(pairs.sizes) - pairs.sizes)[pairs.case]
    return np.asarray(flags[offset + pairs.i] - flags[offset + pairs.j], dtype=np.int8)


def _preference(resolved: Resolved, own: Codes, tally: Tally, why: str) -> Statistic:
    label = resolved.pairs.label
    sides = [(own != TIE) & (label == own), (own != TIE) & (label == -own)]
    read = [side & resolved.present for side in sides]
    right = [side & (resolved.winner == label) for side in read]
    columns = np.stack([tally(column) for column in (right[0], read[0], right[1], read[1])], axis=1)
    used = read[0] | read[1]
    return Statistic(
        "self/preference",
        columns,
        lambda totals: divide(totals[:, 0], totals[:, 1]) - divide(totals[:, 2], totals[:, 3]),
        n=int(used.sum()),
        missing=int(((sides[0] | sides[1]) & ~resolved.present).sum()),
        worst=_worst(sides, right, resolved),
        why="people preferred own and other responses to each other in too few pairs" if (own != TIE).any() else why,
    )


def _worst(sides: list[Bools], right: list[Bools], resolved: Resolved) -> Bounds:
    ends = [
        share(float(hit.sum()), float(side.sum()), float((side & ~resolved.present).sum()))
        for side, hit in zip(sides, right, strict=True)
    ]
    (low, high), (other_low, other_high) = ends
    if low is None or high is None or other_low is None or other_high is None:
        return None, None
    return low - other_high, high - other_low
