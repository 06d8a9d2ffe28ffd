"""Verdict objects made from columns; each is created when it is accessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from evalkit.core.spool import LazySequence
from evalkit.core.types import Case, ItemVerdict, Orders, Verdict
from evalkit.scoring.columns import (
    ABSTENTION,
    JUDGED,
    MISSING,
    NAMES,
    REASONS,
    SPLIT,
    ClassColumns,
    VerdictColumns,
)
from evalkit.scoring.judgments import ABSTAINED, JudgmentColumns
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints, round_metric
from evalkit.scoring.verdicts.cascade import Cascade
from evalkit.scoring.verdicts.pairs import by_criterion

T = TypeVar("T")
Read: TypeAlias = Callable[[Ints], list[Any]]
"""Returns a field of the units with these indices."""
Fields: TypeAlias = Mapping[str, Read]
"""The fields of `Verdict` that units of one size have."""
_BLOCK: Final = 1024
"""So many verdicts are read from the columns at once: element by element, NumPy takes most of the
time."""


class Verdicts(LazySequence[Verdict]):
    """One Verdict for each unit, case by case: first each response's, then each pair's; `each` has those of judges."""

    def __init__(
        self,
        judge: str,
        tables: Sequence[tuple[Ints, Fields]],
        each: Mapping[str, Verdicts] | None = None,
    ) -> None:
        """Initialize with the case (units,) and the fields of the units of each size."""
        self.each: Mapping[str, Verdicts] = each or {}
        self._judge, self._tables = judge, tables
        self._order = np.argsort(
            np.concatenate([case for case, _ in tables]), kind="stable"
        )

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Verdict]:
        for start in range(0, len(self), _BLOCK):
            yield from self._read(slice(start, start + _BLOCK), self._verdicts)

    def values(self, name: str) -> list[Any]:
        """Return a field of each verdict, `None` where its units do not have it, without making the verdicts."""

        def field(fields: Fields, units: Ints) -> list[Any]:
            read = fields.get(name, _missing)
            return list(read(units))

        return self._read(slice(None), field)

    def _make(self, index: int) -> Verdict:
        [verdict] = self._read(slice(index, index + 1), self._verdicts)
        return verdict

    def _verdicts(self, fields: Fields, units: Ints) -> list[Verdict]:
        columns = [read(units) for read in fields.values()]
        rows = zip(*columns, strict=True)
        return [
            Verdict(judge=self._judge, **dict(zip(fields, row, strict=True)))
            for row in rows
        ]

    def _read(self, part: slice, read: Callable[[Fields, Ints], list[T]]) -> list[T]:
        """Return what is read of the units in a part of the order."""
        # index into the units of all tables; those of the first table come first
        rows = self._order[part]
        (case, first), *later_tables = self._tables
        if not later_tables:
            return read(first, rows)
        is_first = rows < len(case)
        streams = (
            iter(read(first, rows[is_first])),
            iter(read(later_tables[0][1], rows[~is_first] - len(case))),
        )
        # The parts were read table by table; this restores the order of cases.
        return [next(streams[not in_first]) for in_first in is_first.tolist()]


def field_values(verdicts: Sequence[Verdict], *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the named fields of each verdict; fields of `Verdicts` are read without making the verdicts."""
    if isinstance(verdicts, Verdicts):
        return zip(*map(verdicts.values, names), strict=True)
    return (tuple(getattr(verdict, name) for name in names) for verdict in verdicts)


def verdict_objects(
    cases: Sequence[Case],
    rule: str,
    items: Sequence[tuple[ItemVerdict, ...]],
    verdicts: VerdictColumns,
    judge_verdicts: Mapping[str, VerdictColumns],
    cascade: Cascade | None = None,
) -> Verdicts:
    """Return a Verdict for each pair, preceded by one for each response if responses have scores, case by case.

    They are created when accessed, and do not hold the judgments.

    Args:
        cases: the cases.
        rule: how a judge's samples of values by criterion are combined; for panels and rankings they
            are averaged.
        items: the checklist items of each response.
        verdicts: their verdicts.
        judge_verdicts: the verdicts of each judge of a panel, by the judge's name.
        cascade: what decides each pair, if the judges are a cascade.
    """
    pairs = verdicts.pairs
    passes = verdicts.passes
    scored = verdicts.scores
    ids = [case.id for case in cases]
    fields = {
        **_units(ids, pairs.case, pairs.i, pairs.j),
        "winner": _winner(verdicts.winner),
        "reason": _reason(verdicts.reason),
        "margin": _number(verdicts.margin),
        "confidence": _number(verdicts.confidence),
        "label": _winner(pairs.label),
        **_votes(
            {name: _winner(columns.winner) for name, columns in judge_verdicts.items()}
        ),
        **_deciders(cascade),
    }
    if passes is not None:
        # judgment -> its pair
        unit = pairs.rows(verdicts.judgments)
        single_pass = passes.read.sum(axis=1) == 1
        alone = passes.both & verdicts.present & single_pass
        fields |= {
            "criteria": _criteria(
                verdicts.judgments, unit, len(pairs), "mean" if judge_verdicts else rule
            ),
            "orders": _orders(passes.winner, passes.third, verdicts.withheld),
            "incomplete": lambda units: alone[units].tolist(),
        }
    tables: list[tuple[Ints, Fields]] = [(pairs.case, fields)]
    if scored is not None:
        judgments = verdicts.ranks or verdicts.judgments
        # judgment -> its response
        unit = scored.offset[judgments.case] + judgments.i
        fields = {
            **_units(ids, scored.case, scored.index),
            "score": _number(scored.score),
            "reason": _reason(np.where(np.isnan(scored.score), MISSING, JUDGED)),
            "confidence": _number(scored.confidence),
            "label": _number(scored.grade),
            "criteria": _criteria(
                judgments,
                unit,
                len(scored.case),
                "mean" if judge_verdicts or verdicts.ranks else rule,
            ),
            **_votes(
                {
                    n: _number(columns.scores.score)
                    for n, columns in judge_verdicts.items()
                    if columns.scores is not None
                }
            ),
        }
        if items:
            fields["items"] = lambda units: [items[unit] for unit in units.tolist()]
        tables.insert(0, (scored.case, fields))
    by_judge = {
        name: verdict_objects(cases, rule, (), columns, {})
        for name, columns in judge_verdicts.items()
    }
    return Verdicts(verdicts.judge, tables, by_judge)


def class_verdict_objects(
    cases: Sequence[Case],
    columns: ClassColumns,
    judge_verdicts: Mapping[str, ClassColumns] | None = None,
    cascade: Cascade | None = None,
) -> Verdicts:
    """Return a Verdict for each response, in order, and those of each judge of a panel."""
    chosen = columns.verdicts
    chances = columns.probabilities
    classes = dict(enumerate(columns.names))
    rows = (columns.split, columns.abstained, columns.missing)
    stated = np.full(len(columns), np.nan)
    if chances is not None:
        stated = np.where(
            columns.present, chances[np.arange(len(columns)), chosen], np.nan
        )
    answers = classes | {ABSTAINED: columns.abstain}
    fields = {
        **_units([case.id for case in cases], columns.case, columns.index),
        "reason": _reason(np.select(rows, (SPLIT, ABSTENTION, MISSING), JUDGED)),
        "confidence": _number(stated),
        "label": _name(columns.labels, classes),
        **_votes(
            {judge: _name(cast, answers) for judge, cast in columns.votes.items()}
        ),
        "class_name": _name(chosen, classes),
        **_deciders(cascade),
    }
    by_judge = {
        name: class_verdict_objects(cases, judge_columns)
        for name, judge_columns in (judge_verdicts or {}).items()
    }
    return Verdicts(columns.judge, [(columns.case, fields)], by_judge)


def _missing(units: Ints) -> list[None]:
    return [None] * len(units)


def _units(ids: Sequence[str], case: Ints, *unit: Ints) -> dict[str, Read]:
    """Return the fields that every unit has; those that a size of units does not have are missing."""
    return {
        "case_id": lambda units: [ids[row] for row in case[units].tolist()],
        "unit": lambda units: [
            *zip(*(index[units].tolist() for index in unit), strict=True)
        ],
        "winner": _missing,
        "score": _missing,
    }


def _deciders(cascade: Cascade | None) -> dict[str, Read]:
    if cascade is None:
        return {}
    return {
        "decided_by": _name(
            cascade.decider, {n: step.judge for n, step in enumerate(cascade.steps)}
        )
    }


def _name(codes: Codes | Ints, names: Mapping[int, Any]) -> Read:
    return lambda units: [names.get(code) for code in codes[units].tolist()]


def _winner(codes: Codes) -> Read:
    return _name(codes, NAMES)


def _reason(codes: Codes | Ints) -> Read:
    return lambda units: [REASONS[code] for code in codes[units].tolist()]


def _number(values: Floats) -> Read:
    return lambda units: [round_metric(value) for value in values[units].tolist()]


def _votes(reads: Mapping[str, Read]) -> dict[str, Read]:
    """Return the field of the votes of each judge of a panel, if there are any."""
    if reads:
        return {"votes": lambda units: _by_name(reads, units)}
    return {}


def _by_name(reads: Mapping[str, Read], units: Ints) -> list[dict[str, Any]]:
    """Return a dict of several values for each unit."""
    if not reads:
        return [{} for _ in units]
    columns = [read(units) for read in reads.values()]
    rows = zip(*columns, strict=True)
    return [dict(zip(reads, row, strict=True)) for row in rows]


def _criteria(judgments: JudgmentColumns, unit: Ints, size: int, rule: str) -> Read:
    """Return how to read each unit's values by criterion, without missing ones.

    Args:
        judgments: the judgments.
        unit: (n,) the index of each judgment's unit.
        size: the number of units.
        rule: how samples are combined.
    """
    values = by_criterion(judgments, unit, size, rule)
    reads = {
        name: _number(column)
        for name, column in zip(judgments.names, values, strict=True)
    }
    return lambda units: [
        {name: value for name, value in row.items() if value is not None}
        for row in _by_name(reads, units)
    ]


def _orders(passes: Codes, third: Codes, withheld: Bools) -> Read:
    def read(units: Ints) -> list[Orders | None]:
        orders = list[Orders | None]()
        for codes, last, none in zip(
            *(column[units].tolist() for column in (passes, third, withheld)),
            strict=True,
        ):
            first, second = map(NAMES.get, codes)
            consistent = None if first is None or second is None else first == second
            orders.append(
                None if none else Orders(first, second, consistent, NAMES.get(last))
            )
        return orders

    return read
