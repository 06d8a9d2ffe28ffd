"""Verdict objects made from columns; each is created when it is accessed."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evalkit.core.spool import LazySequence
from evalkit.scoring.columns import ABSTENTION, JUDGED, MISSING, NAMES, NONE, REASONS, SPLIT, VerdictColumns
from evalkit.scoring.judgments import ABSTAINED, ClassColumns, JudgmentColumns
from evalkit.scoring.stats.arrays import Codes, Floats, Ints, round_metric
from evalkit.scoring.verdicts.pairs import by_criterion
from evalkit.types import Case, ItemVerdict, Orders, Verdict

Read: TypeAlias = Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class _Table:
    """Units of one size.

    Attributes:
        case: (units,) the index of each unit's case.
        unit: for each response of a unit, (units,) its index in the case.
        fields: the fields of `Verdict` that such units have, each read from the index of a unit.
    """

    case: Ints
    unit: tuple[Ints, ...]
    fields: Mapping[str, Read]


class Verdicts(LazySequence[Verdict]):
    """One Verdict for each unit, case by case: first each response's, then each pair's."""

    def __init__(self, cases: Sequence[Case], judge: str, tables: Sequence[_Table]) -> None:
        self._ids, self._judge, self._tables = [case.id for case in cases], judge, tables
        self._order: Sequence[int] = range(len(tables[0].case))
        if len(tables) > 1:
            order = np.argsort(np.concatenate([table.case for table in tables]), kind="stable")
            self._order = array("q", order.astype(np.int64).tobytes())

    def __len__(self) -> int:
        return len(self._order)

    def values(self, name: str) -> list[Any]:
        """Return a field of each verdict, `None` where its units do not have it, without making the verdicts."""
        found: list[Any] = []
        for table in self._tables:
            if name == "case_id":
                found += [self._ids[case] for case in table.case]
            elif name == "unit":
                found += zip(*(index.tolist() for index in table.unit), strict=True)
            else:
                found += map(table.fields.get(name, lambda _: None), range(len(table.case)))
        return [found[place] for place in self._order]

    def _make(self, index: int) -> Verdict:
        place, table = self._order[index], self._tables[0]
        if place >= len(table.case):
            place, table = place - len(table.case), self._tables[1]
        values = {name: read(place) for name, read in table.fields.items()}
        unit = tuple([int(index[place]) for index in table.unit])
        winner, score = values.pop("winner", None), values.pop("score", None)
        return Verdict(self._ids[table.case[place]], unit, winner, score, judge=self._judge, **values)


def field_values(verdicts: Sequence[Verdict], *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the named fields of each verdict; fields of `Verdicts` are read without making the verdicts."""
    if isinstance(verdicts, Verdicts):
        return zip(*map(verdicts.values, names), strict=True)
    return (tuple(getattr(verdict, name) for name in names) for verdict in verdicts)


def verdict_objects(
    cases: Sequence[Case],
    verdicts: VerdictColumns,
    each: Mapping[str, VerdictColumns],
    how: str,
    items: Sequence[tuple[ItemVerdict, ...]] = (),
) -> Verdicts:
    """Return a Verdict for each pair, preceded by one for each response if responses have scores, case by case.

    They are created when accessed, and do not hold the judgments.

    Args:
        cases: the cases.
        verdicts: their verdicts.
        each: the verdicts of each judge of a panel, by the judge's name.
        how: how samples of values by criterion are combined; for panels and rankings they are averaged.
        items: the checklist items of each response.
    """
    pairs, passes, scored = verdicts.pairs, verdicts.passes, verdicts.scores
    fields = {
        "winner": _winner(verdicts.winner),
        "reason": _reason(verdicts.reason),
        "margin": _number(verdicts.margin),
        "confidence": _number(verdicts.confidence),
        "label": _winner(pairs.label),
        **_votes({name: _winner(one.winner) for name, one in each.items()}),
    }
    if passes is not None:
        place = pairs.find(verdicts.judgments.case, verdicts.judgments.i, verdicts.judgments.j)
        alone = passes.both & verdicts.present & (passes.read.sum(axis=1) == 1)
        third = np.full(len(pairs), NONE) if passes.third is None else passes.third
        fields |= {
            "criteria": _criteria(verdicts.judgments, place, len(pairs), how),
            "orders": _orders(passes.winner, third),
            "incomplete": lambda place: bool(alone[place]),
        }
    tables = [_Table(pairs.case, (pairs.i, pairs.j), fields)]
    if scored is not None:
        judgments = verdicts.ranks or verdicts.judgments
        place = scored.offset[judgments.case] + judgments.i
        fields = {
            "score": _number(scored.score),
            "reason": _reason(np.where(np.isnan(scored.score), MISSING, JUDGED)),
            "confidence": _number(scored.confidence),
            "label": _number(scored.grade),
            "criteria": _criteria(judgments, place, len(scored.case), "mean" if verdicts.ranks else how),
            **_votes({n: _number(one.scores.score) for n, one in each.items() if one.scores is not None}),
        }
        if items:
            fields["items"] = items.__getitem__
        tables.insert(0, _Table(scored.case, (scored.index,), fields))
    return Verdicts(cases, verdicts.judge, tables)


def class_verdict_objects(cases: Sequence[Case], columns: ClassColumns) -> Verdicts:
    """Return a Verdict for each response, in order."""
    given, chances, classes = columns.verdicts, columns.probabilities, dict(enumerate(columns.names))
    rows = (columns.split, columns.abstained, columns.missing)
    stated = np.full(len(columns), np.nan)
    if chances is not None:
        stated = np.where(columns.decided, chances[np.arange(len(columns)), given], np.nan)
    answers = classes | {ABSTAINED: columns.abstain}
    fields = {
        "reason": _reason(np.select(rows, (SPLIT, ABSTENTION, MISSING), JUDGED)),
        "confidence": _number(stated),
        "label": _name(columns.labels, classes),
        **_votes({judge: _name(cast, answers) for judge, cast in columns.votes.items()}),
        "class_name": _name(given, classes),
    }
    return Verdicts(cases, columns.judge, [_Table(columns.case, (columns.index,), fields)])


def _name(codes: Codes | Ints, names: Mapping[int, Any]) -> Read:
    return lambda place: names.get(int(codes[place]))


def _winner(codes: Codes) -> Read:
    return _name(codes, NAMES)


def _reason(codes: Codes | Ints) -> Read:
    return lambda place: REASONS[codes[place]]


def _number(values: Floats) -> Read:
    return lambda place: round_metric(values[place])


def _votes(reads: Mapping[str, Read]) -> dict[str, Read]:
    """Return the field of the votes of each judge of a panel, if there are any."""
    return {"votes": lambda place: {judge: read(place) for judge, read in reads.items()}} if reads else {}


def _criteria(judgments: JudgmentColumns, place: Ints, size: int, how: str) -> Read:
    """Return how to read each unit's values by criterion, without missing ones.

    Args:
        judgments: the judgments.
        place: (n,) the index of each judgment's unit.
        size: the number of units.
        how: how samples are combined.
    """
    named = [*zip(judgments.names, by_criterion(judgments, place, size, how), strict=True)]
    return lambda place: {n: value for n, values in named if (value := round_metric(values[place])) is not None}


def _orders(passes: Codes, third: Codes) -> Read:
    def read(place: int) -> Orders:
        first, second = (NAMES.get(code) for code in passes[place].tolist())
        consistent = None if first is None or second is None else first == second
        return Orders(first, second, consistent, NAMES.get(int(third[place])))

    return read
