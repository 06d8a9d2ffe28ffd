"""Verdict objects made from columns; each is created when it is accessed."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from math import isnan

import numpy as np

from evalkit.core.spool import LazySequence, ReorderedSequence
from evalkit.scoring.columns import NAMES, NONE, REASONS, ScoreColumns, VerdictColumns
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import Codes, Floats, Ints, round_metric
from evalkit.scoring.verdicts.pairs import by_criterion
from evalkit.types import Case, Orders, Verdict


def verdict_objects(
    cases: Sequence[Case], verdicts: VerdictColumns, each: Mapping[str, VerdictColumns] | None = None, how: str = "mean"
) -> Sequence[Verdict]:
    """Return a Verdict for each pair, preceded by one for each response if responses have scores, case by case.

    They are created when accessed, and do not hold the judgments.

    Args:
        cases: the cases.
        verdicts: their verdicts.
        each: the verdicts of each judge of a panel, by the judge's name.
        how: how samples of values by criterion are combined; for panels and rankings they are averaged.
    """
    ids, judges = [case.id for case in cases], (each or {}).items()
    pairs = _PairVerdicts(ids, verdicts, {name: one.winner for name, one in judges}, how)
    if verdicts.scores is None:
        return pairs
    votes = {name: one.scores.score for name, one in judges if one.scores is not None}
    responses = _ScoreVerdicts(ids, verdicts.scores, verdicts, votes, "mean" if verdicts.ranks else how)
    return interleave(responses, verdicts.scores.case, pairs, verdicts.pairs.case)


class _PairVerdicts(LazySequence[Verdict]):
    """One Verdict for each pair, in order, with the result of each pass if there are passes."""

    def __init__(self, ids: Sequence[str], verdicts: VerdictColumns, votes: Mapping[str, Codes], how: str) -> None:
        self._ids, self._pairs, self._judge, self._votes = ids, verdicts.pairs, verdicts.judge, votes
        self._winner, self._reason = verdicts.winner, verdicts.reason
        self._margin, self._confidence = verdicts.margin, verdicts.confidence
        passes = verdicts.passes
        self._passes = None if passes is None else passes.winner
        self._third = None if passes is None else passes.third
        self._criteria: dict[str, Floats] = {}
        if passes is not None:
            pairs, judgments = verdicts.pairs, verdicts.judgments
            place = pairs.find(judgments.case, judgments.i, judgments.j)
            self._criteria = _criteria(judgments, place, len(pairs), how)
            self._alone = passes.both & verdicts.present & (passes.read.sum(axis=1) == 1)

    def __len__(self) -> int:
        return len(self._pairs)

    def _make(self, place: int) -> Verdict:
        pairs = self._pairs
        return Verdict(
            case_id=self._ids[pairs.case[place]],
            unit=(int(pairs.i[place]), int(pairs.j[place])),
            winner=NAMES.get(int(self._winner[place])),
            score=None,
            reason=REASONS[self._reason[place]],
            margin=round_metric(self._margin[place]),
            confidence=round_metric(self._confidence[place]),
            label=NAMES.get(int(pairs.label[place])),
            criteria=_named(self._criteria, place),
            orders=self._orders(place),
            judge=self._judge,
            votes={judge: NAMES.get(int(cast[place])) for judge, cast in self._votes.items()},
            incomplete=self._passes is not None and bool(self._alone[place]),
        )

    def _orders(self, place: int) -> Orders | None:
        if self._passes is None:
            return None
        first, second = self._passes[place].tolist()
        third = NONE if self._third is None else int(self._third[place])
        complete = first in NAMES and second in NAMES
        return Orders(NAMES.get(first), NAMES.get(second), first == second if complete else None, NAMES.get(third))


class _ScoreVerdicts(LazySequence[Verdict]):
    """One Verdict for each response, in order; `votes` are the scores by judge of a panel."""

    def __init__(
        self, ids: Sequence[str], scored: ScoreColumns, verdicts: VerdictColumns, votes: Mapping[str, Floats], how: str
    ) -> None:
        self._ids, self._scored, self._judge, self._votes = ids, scored, verdicts.judge, votes
        judgments = verdicts.ranks or verdicts.judgments
        self._criteria = _criteria(judgments, scored.offset[judgments.case] + judgments.i, len(scored.case), how)

    def __len__(self) -> int:
        return len(self._scored.case)

    def _make(self, place: int) -> Verdict:
        scored = self._scored
        score = float(scored.score[place])
        return Verdict(
            case_id=self._ids[scored.case[place]],
            unit=(int(scored.index[place]),),
            winner=None,
            score=round_metric(score),
            reason="missing" if isnan(score) else "judged",
            confidence=round_metric(scored.confidence[place]),
            label=round_metric(scored.grade[place]),
            criteria=_named(self._criteria, place),
            judge=self._judge,
            votes={judge: round_metric(cast[place]) for judge, cast in self._votes.items()},
        )


def _criteria(judgments: JudgmentColumns, place: Ints, size: int, how: str) -> dict[str, Floats]:
    """Return each unit's value by criterion; `place` is the index of each judgment's unit, out of `size`."""
    return dict(zip(judgments.names, by_criterion(judgments, place, size, how), strict=True))


def _named(criteria: Mapping[str, Floats], place: int) -> dict[str, float]:
    """Return one unit's values by criterion, without missing ones."""
    found = ((name, round_metric(values[place])) for name, values in criteria.items())
    return {name: value for name, value in found if value is not None}


class _Concatenation(LazySequence[Verdict]):
    """Two sequences, one after the other."""

    def __init__(self, first: Sequence[Verdict], second: Sequence[Verdict]) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def _make(self, place: int) -> Verdict:
        return self._first[place] if place < len(self._first) else self._second[place - len(self._first)]


def interleave(
    scores: Sequence[Verdict], score_case: Ints, pairs: Sequence[Verdict], pair_case: Ints
) -> Sequence[Verdict]:
    """Return verdicts case by case: first each response's, then each pair's.

    Args:
        scores: the verdicts on responses.
        score_case: (responses,) the case of each.
        pairs: the verdicts on pairs.
        pair_case: (pairs,) the case of each.
    """
    order = np.argsort(np.concatenate([score_case, pair_case]), kind="stable")
    return ReorderedSequence(_Concatenation(scores, pairs), array("q", order.astype(np.int64).tobytes()))
