"""The tie rules: one comparison at the end, the same for pairs judged and for differences of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evalkit.config import TieConfig
from evalkit.hashing import digest
from evalkit.scoring.columns import FUZZ, NONE, TIE, Bools, Codes, Floats, Pairs, sign
from evalkit.types import Case, Reason

JUDGED, THRESHOLD, DISAGREEMENT, FORCED, MISSING, SPLIT, EQUAL = range(7)
REASONS: tuple[Reason, ...] = (
    "judged",
    "threshold",
    "swap_disagreement",
    "forced",
    "missing",
    "split",
    "equal_scores",
)


@dataclass(frozen=True, slots=True)
class Resolved:
    """Pairs resolved over orders and samples, as columns beside `pairs`.

    `lean` is who won before the tie rules, `winner` after them; NaN stands for a margin or confidence that is missing.
    `settle` is the margin that decides where ties are forbidden; `surer` who won the more confident pass.
    """

    pairs: Pairs
    lean: Codes
    winner: Codes
    reason: Codes
    margin: Floats
    confidence: Floats
    settle: Floats
    surer: Codes

    @property
    def present(self) -> Bools:
        """Which pairs have a verdict."""
        return np.asarray(self.winner != NONE)

    @property
    def labelled(self) -> Bools:
        """Which pairs people have judged."""
        return np.asarray(self.pairs.label != NONE)


@dataclass(frozen=True, slots=True)
class Shown:
    """Pairs as the judge saw them: who won each order (own, swapped), which were asked, whether both were to be.

    `third` is who won the third judgment of a pair whose orders disagree, NONE where there is none.
    """

    winner: Codes
    asked: Bools
    both: bool
    third: Codes | None = None

    @property
    def read(self) -> Bools:
        """Which passes have a winner or a tie."""
        return np.asarray(self.winner != NONE)


def at_threshold(resolved: Resolved, threshold: float, min_confidence: float) -> tuple[Codes, Bools]:
    """Return the winners under a threshold and a least confidence, and which winners these made into ties.

    A margin exactly at the threshold is a tie. A winner whose confidence was not stated is kept.
    """
    won = (resolved.lean != TIE) & (resolved.lean != NONE)
    close = np.abs(resolved.margin) <= threshold + FUZZ
    unsure = resolved.confidence < min_confidence - FUZZ
    tied = won & (close | unsure)
    return np.where(tied, TIE, resolved.lean).astype(np.int8), tied


def apply_ties(resolved: Resolved, tie: TieConfig, cases: Sequence[Case]) -> Resolved:
    """Apply `tie.threshold`, `tie.min_confidence` and `tie.allow` to resolved pairs."""
    winner, tied = at_threshold(resolved, tie.threshold, tie.min_confidence)
    reason = np.where(tied, THRESHOLD, resolved.reason).astype(np.int8)
    ruled = replace(resolved, winner=winner, reason=reason)
    return ruled if tie.allow else _forbid(ruled, cases)


def _forbid(resolved: Resolved, cases: Sequence[Case]) -> Resolved:
    """Settle every tie by margin, then by the surer pass, then by a coin that depends on case and texts only."""
    tied = resolved.winner == TIE
    winner = np.where(tied, sign(resolved.settle), resolved.winner)
    winner = np.where(winner == TIE, resolved.surer, winner).astype(np.int8)
    for place in np.flatnonzero(winner == TIE):
        case = cases[resolved.pairs.case[place]]
        winner[place] = coin(case, int(resolved.pairs.i[place]), int(resolved.pairs.j[place]))
    return replace(resolved, winner=winner, reason=np.where(tied, FORCED, resolved.reason).astype(np.int8))


def coin(case: Case, i: int, j: int) -> int:
    """Toss a coin (1 or -1) that always falls for the same text of a case, whichever of the two stands first."""
    one, two = (digest([case.id, case.prompt, case.responses[index].text]) for index in (i, j))
    if one == two:  # the same text twice: nothing but the position tells them apart
        return 1 if int(digest([case.id, i, j])[:8], 16) % 2 else -1
    return 1 if one < two else -1
