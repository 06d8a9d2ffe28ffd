"""Verdicts as columns: the result of each order of each pair, the score of each response, and the verdicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalkit.scoring.columns.cases import NONE, PairColumns
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints
from evalkit.scoring.stats.bootstrap import Tally


@dataclass(frozen=True, slots=True)
class PassColumns:
    """The result of each order of each pair, with samples combined. Order 0 is the unit's own order.

    Attributes:
        winner: (pairs, 2) the winner, or the code NONE. `tie.threshold` applies to pairs, not to passes.
        margin: (pairs, 2) the margin in [-1, 1], positive for the unit's first response; NaN if missing.
        confidence: (pairs, 2) the probability that the winner is correct; NaN if unstated.
        asked: (pairs, 2) whether the order was requested.
        both: whether both orders of every pair were to be judged.
        third: (pairs,) the winner of the third judgment of a pair whose orders disagree, or the code NONE.
        third_margin: (pairs,) the margin of the third judgment, NaN if there is none; `None` without third judgments.
        third_confidence: (pairs,) its confidence, likewise.
    """

    winner: Codes
    margin: Floats
    confidence: Floats
    asked: Bools
    both: bool = False
    third: Codes | None = None
    third_margin: Floats | None = None
    third_confidence: Floats | None = None

    @property
    def read(self) -> Bools:
        """Which passes have a winner or a tie, (pairs, 2)."""
        return np.asarray(self.winner != NONE)

    @property
    def complete(self) -> Bools:
        """Which pairs have both passes, (pairs,)."""
        return np.asarray(self.read.all(axis=1))

    @property
    def differ(self) -> Bools:
        """Which pairs have two passes with different winners, (pairs,)."""
        return np.asarray(self.complete & (self.winner[:, 0] != self.winner[:, 1]))


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """One row for each response of each case, in order; NaN if missing.

    Attributes:
        case: (responses,) the index of its case.
        index: (responses,) its index in the case.
        raw: (responses,) its score in scale units, samples combined.
        score: (responses,) the score after `scoring.normalize` and `scoring.length_control`.
        confidence: (responses,) the mean stated confidence.
        grade: (responses,) the annotators' grade.
        offset: (cases,) the row of each case's first response.
    """

    case: Ints
    index: Ints
    raw: Floats
    score: Floats
    confidence: Floats
    grade: Floats
    offset: Ints


@dataclass(frozen=True, slots=True)
class VerdictColumns:
    """The verdicts of one judge or a panel, one row for each pair; metrics are computed from them.

    Attributes:
        pairs: every pair of responses of every case, with its label.
        lean: (pairs,) the winner before the tie rules, or the code NONE.
        winner: (pairs,) the winner after the tie rules.
        reason: (pairs,) the reason, an index into `REASONS`.
        margin: (pairs,) the margin in units of `tie.threshold`; NaN if missing.
        confidence: (pairs,) the probability that the winner is correct; NaN if unstated.
        settle: (pairs,) the margin that decides if ties are forbidden.
        surer: (pairs,) the winner of the more confident pass.
        judgments: the judgments behind the verdicts: of pairs, or in mode pointwise of single responses.
        passes: the result of each order; `None` if the verdicts are implied by scores.
        scores: the score of each response; `None` if only pairs were judged.
        ranks: the scores of single responses implied by rankings; `None` without rankings.
        panel: the name of the panel that voted; `None` for a single judge.
    """

    pairs: PairColumns
    lean: Codes
    winner: Codes
    reason: Codes
    margin: Floats
    confidence: Floats
    settle: Floats
    surer: Codes
    judgments: JudgmentColumns
    passes: PassColumns | None = None
    scores: ScoreColumns | None = None
    ranks: JudgmentColumns | None = None
    panel: str | None = None

    @property
    def judge(self) -> str:
        """The name of the judge, or of the panel."""
        return "".join(self.judgments.by) if self.panel is None else self.panel

    @property
    def present(self) -> Bools:
        """Which pairs have a verdict, (pairs,)."""
        return np.asarray(self.winner != NONE)

    @property
    def labeled(self) -> Bools:
        """Which pairs have a label, (pairs,)."""
        return np.asarray(self.pairs.label != NONE)

    @property
    def listed(self) -> bool:
        """Whether rankings were judged."""
        return self.ranks is not None

    @property
    def tally(self) -> Tally:
        """Sums over the pairs of each case."""
        return Tally(self.pairs.case, len(self.pairs.sizes))
