"""What becomes of a pair whose two passes disagree, by `swap.resolve`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from evalkit.scoring.columns import NONE, TIE, Bools, Codes, Floats, sign
from evalkit.scoring.passes import Passes, over_orders

Outcome: TypeAlias = tuple[Codes, Floats, Floats]
"""Winner, margin and confidence of pairs whose two passes disagree, or of which one is missing."""


def _as_tie(passes: Passes) -> Outcome:
    """Disagreement is a tie of confidence 0.5 (note 002)."""
    size = len(passes.margin)
    return np.zeros(size, np.int8), over_orders(passes.margin), np.full(size, 0.5)


def _as_surer(passes: Passes) -> Outcome:
    """The more confident pass wins, with its own margin, less surely.

    With confidences h > l the result's is min(h, 0.5 + (h - l) / 2): the mean of the two passes' probabilities that the
    winner is right, never above what the winning pass said. Equal or unstated confidences make it a tie at 0.5.
    """
    one, two = passes.confidence.T
    apart = _apart(passes)
    lowered = np.fmin(np.fmax(one, two), 0.5 + np.abs(one - two) / 2)
    own = np.where(one > two, passes.margin[:, 0], passes.margin[:, 1])
    return surer(passes), np.where(apart, own, over_orders(passes.margin)), np.where(apart, lowered, 0.5)


def _as_vote(passes: Passes) -> Outcome:
    """Each pass is a vote of +1, 0 or -1, a missing one 0: a win and a tie win, a win and a loss tie."""
    missing = (passes.winner == NONE).all(axis=1)
    margin = np.where(missing, np.nan, passes.votes.sum(axis=1) / 2)
    return sign(margin), margin, _confidence_in(sign(margin), passes)


def _as_mean(passes: Passes) -> Outcome:
    """The mean of the two margins decides."""
    margin = over_orders(passes.margin)
    return sign(margin), margin, _confidence_in(sign(margin), passes)


def _as_median(passes: Passes) -> Outcome:
    """A third judgment decides: what two of the three say wins, which is their median; A, TIE and B make a tie.

    The confidence is the mean over the three of the probability that this is right, as for votes.
    """
    assert passes.third is not None
    third = replace(
        passes,
        margin=np.column_stack([passes.margin, passes.third.margin]),
        confidence=np.column_stack([passes.confidence, passes.third.confidence]),
    )
    margin = np.median(third.margin, axis=1)
    return sign(margin), margin, _confidence_in(sign(margin), third)


def two_say_tie(passes: Passes) -> Bools:
    """Return where a tie is what two of three judgments say, and no disagreement."""
    if passes.third is None:
        return np.zeros(len(passes.margin), dtype=bool)
    return np.asarray((passes.winner == TIE).any(axis=1) & (sign(passes.third.margin) == TIE))


def _confidence_in(winner: Codes, passes: Passes) -> Floats:
    """Return the mean over the passes of the probability that the winner is right, NaN where a vote's is unstated.

    A pass of confidence c speaks for its winner with c and for the other side with 1 - c; a tied pass with 0.5.
    """
    votes = passes.votes * winner[:, None]
    parts = np.where(votes == 0, 0.0, votes * (passes.confidence - 0.5))
    return np.asarray(0.5 + parts.mean(axis=1))


def _apart(passes: Passes) -> Bools:
    """Return where both passes state a confidence, and not the same one."""
    return np.abs(passes.confidence[:, 0] - passes.confidence[:, 1]) > 1e-9


def surer(passes: Passes) -> Codes:
    """Return who won the more confident pass, a tie where neither is."""
    one, two = passes.confidence[:, 0], passes.confidence[:, 1]
    chosen = np.where(one > two, passes.winner[:, 0], passes.winner[:, 1])
    return np.where(_apart(passes), chosen, TIE).astype(np.int8)


DISAGREEMENTS: dict[str, Callable[[Passes], Outcome]] = {
    "tie": _as_tie,
    "lower_confidence": _as_surer,
    "net_vote": _as_vote,
    "mean": _as_mean,
    "third_pass": _as_median,
}
