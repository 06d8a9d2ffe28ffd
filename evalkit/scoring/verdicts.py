"""From columns back to Verdicts, the only objects that leave scoring beside metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evalkit.scoring.columns import NAMES, NONE, Columns, Floats, Ints
from evalkit.scoring.pointwise import Scored
from evalkit.scoring.resolve import group_mean
from evalkit.scoring.ties import REASONS, Resolved, Shown
from evalkit.scoring.values import tidy
from evalkit.types import Case, Orders, Verdict


@dataclass(frozen=True, slots=True)
class _Criteria:
    """The mean over orders and samples of each unit's values by criterion."""

    names: tuple[str, ...]
    means: list[list[float]]

    @classmethod
    def of(cls, columns: Columns, place: Ints, size: int) -> _Criteria:
        means = [group_mean(place, column, size).tolist() for column in columns.criteria.T]
        return cls(columns.names, means)

    def __getitem__(self, place: int) -> Mapping[str, float]:
        values = ((name, tidy(mean[place])) for name, mean in zip(self.names, self.means, strict=True))
        return {name: value for name, value in values if value is not None}


def pair_verdicts(cases: Sequence[Case], resolved: Resolved, columns: Columns, shown: Shown) -> list[Verdict]:
    """Return one Verdict for each pair, in order, with what each of its passes said."""
    pairs = resolved.pairs
    criteria = _Criteria.of(columns, pairs.find(columns.case, columns.i, columns.j), len(pairs))
    thirds = [NONE] * len(pairs) if shown.third is None else shown.third.tolist()
    one_pass = (shown.both & resolved.present & (shown.read.sum(axis=1) == 1)).tolist()
    return [
        replace(verdict, criteria=criteria[place], orders=_orders(first, second, third), incomplete=alone)
        for place, (verdict, (first, second), third, alone) in enumerate(
            zip(implied_verdicts(cases, resolved, columns.judge), shown.winner.tolist(), thirds, one_pass, strict=True)
        )
    ]


def implied_verdicts(cases: Sequence[Case], resolved: Resolved, judge: str) -> list[Verdict]:
    """Return one Verdict for each pair, in order."""
    pairs = resolved.pairs
    rows = zip(
        *(column.tolist() for column in (pairs.case, pairs.i, pairs.j, pairs.label)),
        *(column.tolist() for column in (resolved.winner, resolved.reason, resolved.margin, resolved.confidence)),
        strict=True,
    )
    return [
        Verdict(
            case_id=cases[case].id,
            unit=(i, j),
            winner=NAMES.get(winner),
            score=None,
            reason=REASONS[reason],
            margin=tidy(margin),
            confidence=tidy(confidence),
            label=NAMES.get(label),
            judge=judge,
        )
        for case, i, j, label, winner, reason, margin, confidence in rows
    ]


def _orders(first: int, second: int, third: int) -> Orders:
    complete = first in NAMES and second in NAMES
    return Orders(NAMES.get(first), NAMES.get(second), first == second if complete else None, NAMES.get(third))


def score_verdicts(cases: Sequence[Case], scored: Scored, columns: Columns) -> list[Verdict]:
    """Return one Verdict for each response, in order."""
    criteria = _Criteria.of(columns, scored.offset[columns.case] + columns.i, len(scored.case))
    numbers: tuple[Floats, ...] = (scored.score, scored.confidence, scored.grade)
    rows = zip(scored.case.tolist(), scored.index.tolist(), *(column.tolist() for column in numbers), strict=True)
    return [
        Verdict(
            case_id=cases[case].id,
            unit=(index,),
            winner=None,
            score=tidy(score),
            reason="missing" if np.isnan(score) else "judged",
            confidence=tidy(confidence),
            label=tidy(grade),
            criteria=criteria[place],
            judge=columns.judge,
        )
        for place, (case, index, score, confidence, grade) in enumerate(rows)
    ]


def interleave(cases: Sequence[Case], scores: list[Verdict], pairs: list[Verdict]) -> Iterator[Verdict]:
    """Yield verdicts case by case: first each response's, then each pair's."""
    i = j = 0
    for case in cases:
        n = len(case.responses)
        yield from scores[i : i + n]
        yield from pairs[j : j + n * (n - 1) // 2]
        i, j = i + n, j + n * (n - 1) // 2
