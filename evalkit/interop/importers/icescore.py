"""Import ICE-Score's rows (Zhuo 2024, arXiv 2304.14317): a judge's grades of several
systems next to people's.

A row has `grade-SYSTEM`, people's grades from 0 to 4 by name, and `JUDGE-SYSTEM`, a judge's grade
as text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json
from evalkit.interop.layouts.judgment_files import Peek, number, require, rows_of
from evalkit.interop.layouts.records import (
    Answer,
    Importer,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
    missing_record,
)

_PEOPLE: Final = "grade"
_SCALE: Final = (0.0, 4.0, 1.0)


def _sniff(start: Peek) -> bool:
    return any(name != _PEOPLE for name, *_ in _read_grades(start.row))


def _read_grades(row: Json) -> list[tuple[str, str, Any]]:
    """Return judge, system and grade for each cell of a system that people graded."""
    systems = {
        key.removeprefix(f"{_PEOPLE}-")
        for key, cell in row.items()
        if isinstance(cell, dict)
    }
    split = (
        (key.removesuffix(f"-{system}"), system, row[key])
        for key in row
        for system in systems
        if "-" in key
    )
    return [
        (judge, system, cell)
        for judge, system, cell in split
        if f"{judge}-{system}" in row
    ]


def _read_records(path: Path, _: Options) -> ParsedFile:
    """Return a record for each judge's grade of a system's answer.

    A grade outside the scale is missing.
    """
    records = []
    for index, (location, row) in enumerate(rows_of(path)):
        for judge, system, cell in _read_grades(row):
            if judge == _PEOPLE:
                continue
            score = number(cell)
            if score is not None and _SCALE[0] <= score <= _SCALE[1]:
                recorded = RecordedJudgment(judge, scores={"quality": score})
            else:
                recorded = missing_record(judge, str(cell))
            people = {
                name: float(grade)
                for name, grade in require(row, f"{_PEOPLE}-{system}", location).items()
            }
            records.append(
                Record(
                    str(index),
                    "",
                    (Answer(system, "", system),),
                    recorded,
                    grades=people,
                )
            )
    return ParsedFile(records, scale=_SCALE)


IMPORTER: Final = Importer(
    "icescore",
    "ICE-Score: a judge's and people's grades of systems",
    _sniff,
    _read_records,
)
