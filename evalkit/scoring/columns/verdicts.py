"""Verdicts as columns: what each order of each pair says, each response's score, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalkit.scoring.columns.cases import PairColumns
from evalkit.scoring.columns.codes import NONE
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints
from evalkit.scoring.stats.bootstrap import Tally


@dataclass(frozen=True, slots=True)
class PassColumns:
    """What each order of each pair says, its samples combined: arrays of (pair, order), order 0 being the unit's own.

    Attributes:
        winner: (pairs, 2) who won; NONE where nothing could be read. `tie.threshold` is for pairs, not for passes.
        margin: (pairs, 2) the margin, in [-1, 1], positive for the unit's first response; NaN is missing.
        confidence: (pairs, 2) the probability that the winner is right; NaN is unstated.
        asked: (pairs, 2) whether it was asked for.
        both: whether both orders of every pair were to be judged.
        third: (pairs,) who won the third judgment of a pair whose orders disagree, NONE where there is none.
        third_margin: (pairs,) the margin of the third judgment, NaN where there is none; none if nobody gave any.
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
        """Which passes have a winner or a tie."""
        return np.asarray(self.winner != NONE)

    @property
    def complete(self) -> Bools:
        """Which pairs have both passes."""
        return np.asarray(self.read.all(axis=1))

    @property
    def differ(self) -> Bools:
        """Which pairs have two passes with different winners."""
        return np.asarray(self.complete & (self.winner[:, 0] != self.winner[:, 1]))


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """A row for each response of each case, in order; NaN is missing.

    Attributes:
        case: (responses,) the place of its case.
        index: (responses,) its place in the case.
        raw: (responses,) its score in scale units, samples combined.
        score: (responses,) the same as `scoring.normalize` and `scoring.length_control` want it.
        confidence: (responses,) the mean of the confidences stated.
        grade: (responses,) people's grade.
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
    """The verdicts of one judge, or of a panel: a row for each pair of `pairs`; metrics are computed from these.

    Attributes:
        pairs: every pair of responses of every case, with its label.
        lean: (pairs,) who won before the tie rules; NONE is missing.
        winner: (pairs,) who won after them.
        reason: (pairs,) why, a place in `REASONS`.
        margin: (pairs,) the margin, in units of `tie.threshold`; NaN is missing.
        confidence: (pairs,) the probability that the winner is right; NaN is unstated.
        settle: (pairs,) the margin that decides where ties are forbidden.
        surer: (pairs,) who won the more confident pass.
        judgments: what the verdicts rest on: judgments of pairs, or in mode pointwise of single responses.
        passes: what each order says; none where scores imply the verdicts.
        scores: each response's score; none where only pairs were judged.
        ranks: the scores of single responses that rankings imply; none where nothing was ranked.
        panel: the name of the panel whose judges voted; none where one judge judged.
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
        """Which pairs have a verdict."""
        return np.asarray(self.winner != NONE)

    @property
    def labelled(self) -> Bools:
        """Which pairs people have judged."""
        return np.asarray(self.pairs.label != NONE)

    @property
    def listed(self) -> bool:
        """Whether rankings were judged."""
        return self.ranks is not None

    @property
    def tally(self) -> Tally:
        """Sums over the pairs of each case."""
        return Tally(self.pairs.case, len(self.pairs.sizes))
