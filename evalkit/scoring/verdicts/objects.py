"""From columns back to Verdicts, the only objects that leave scoring beside metrics; each is made when asked for."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from evalkit.core.sequences import LazySequence, ReorderedSequence
from evalkit.scoring.columns.codes import NAMES, NONE, REASONS
from evalkit.scoring.columns.judgments import Columns
from evalkit.scoring.stats.arrays import Codes, Floats, Ints, round_metric
from evalkit.scoring.verdicts.outcome import Outcome
from evalkit.scoring.verdicts.pairs import OrderOutcomes, Resolution, by_criterion
from evalkit.scoring.verdicts.pointwise import ScoreColumns
from evalkit.types import Case, Orders, Verdict


@dataclass(frozen=True, slots=True)
class Criteria:
    """Each unit's values by criterion: samples combined, then the mean of orders."""

    names: tuple[str, ...]
    values: tuple[Floats, ...]

    @classmethod
    def of(cls, columns: Columns, place: Ints, size: int, how: str) -> Criteria:
        """Combine judgments by the place, of `size`, that each has."""
        return cls(columns.names, tuple(by_criterion(columns, place, size, how)))

    def __getitem__(self, place: int) -> Mapping[str, float]:
        found = ((name, round_metric(values[place])) for name, values in zip(self.names, self.values, strict=True))
        return {name: value for name, value in found if value is not None}


class PairVerdicts(LazySequence[Verdict]):
    """One Verdict for each pair, in order; where there are passes, with what each of them said.

    `ids` are those of the cases; `votes` the winners by judge where a panel voted; `how` says how samples combine.
    """

    def __init__(
        self,
        ids: Sequence[str],
        resolved: Resolution,
        columns: Columns,
        shown: OrderOutcomes | None,
        votes: Mapping[str, Codes] | None = None,
        how: str = "mean",
    ) -> None:
        self._ids, self._resolved, self._judge, self._shown, self._votes = ids, resolved, columns.judge, shown, votes
        if shown is None:
            return
        pairs = resolved.pairs
        self._criteria = Criteria.of(columns, pairs.find(columns.case, columns.i, columns.j), len(pairs), how)
        self._alone = shown.both & resolved.present & (shown.read.sum(axis=1) == 1)

    def __len__(self) -> int:
        return len(self._resolved.pairs)

    def _make(self, place: int) -> Verdict:
        resolved, pairs, shown = self._resolved, self._resolved.pairs, self._shown
        return Verdict(
            case_id=self._ids[pairs.case[place]],
            unit=(int(pairs.i[place]), int(pairs.j[place])),
            winner=NAMES.get(int(resolved.winner[place])),
            score=None,
            reason=REASONS[resolved.reason[place]],
            margin=round_metric(resolved.margin[place]),
            confidence=round_metric(resolved.confidence[place]),
            label=NAMES.get(int(pairs.label[place])),
            criteria={} if shown is None else self._criteria[place],
            orders=None if shown is None else _orders(shown, place),
            judge=self._judge,
            votes={judge: NAMES.get(int(cast[place])) for judge, cast in (self._votes or {}).items()},
            incomplete=shown is not None and bool(self._alone[place]),
        )


def _orders(shown: OrderOutcomes, place: int) -> Orders:
    first, second = shown.winner[place].tolist()
    third = NONE if shown.third is None else int(shown.third[place])
    complete = first in NAMES and second in NAMES
    return Orders(NAMES.get(first), NAMES.get(second), first == second if complete else None, NAMES.get(third))


class ScoreVerdicts(LazySequence[Verdict]):
    """One Verdict for each response, in order; `votes` are the scores by judge of a panel; `how` is as above."""

    def __init__(
        self,
        ids: Sequence[str],
        scored: ScoreColumns,
        columns: Columns,
        votes: Mapping[str, Floats] | None = None,
        how: str = "mean",
    ) -> None:
        self._ids, self._scored, self._judge, self._votes = ids, scored, columns.judge, votes
        self._criteria = Criteria.of(columns, scored.offset[columns.case] + columns.i, len(scored.case), how)

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
            criteria=self._criteria[place],
            judge=self._judge,
            votes={judge: round_metric(cast[place]) for judge, cast in (self._votes or {}).items()},
        )


class _Both(LazySequence[Verdict]):
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
    """Return verdicts case by case: first each response's, then each pair's; `…_case` says whose each is."""
    order = np.argsort(np.concatenate([score_case, pair_case]), kind="stable")
    return ReorderedSequence(_Both(scores, pairs), array("q", order.astype(np.int64).tobytes()))


def verdicts(
    cases: Sequence[Case], outcome: Outcome, each: Mapping[str, Outcome] | None = None, how: str = "mean"
) -> Sequence[Verdict]:
    """Return a Verdict for each pair, before them one for each response where responses have scores, case by case.

    They are made when asked for, with the votes of `each` judge by name where they are a panel's. `how` combines the
    samples of values by criterion; those of a panel, and of rankings, are means over all that there are.
    """
    resolved, scored, columns = outcome.resolved, outcome.scored, outcome.columns
    ids, judges = [case.id for case in cases], (each or {}).items()
    winners = {name: one.resolved.winner for name, one in judges}
    pairs = PairVerdicts(ids, resolved, columns, outcome.shown, winners, how)
    if scored is None:
        return pairs
    scores = {name: one.scored.score for name, one in judges if one.scored is not None}
    responses = ScoreVerdicts(ids, scored, outcome.ranks or columns, scores, "mean" if outcome.ranks else how)
    return interleave(responses, scored.case, pairs, resolved.pairs.case)
