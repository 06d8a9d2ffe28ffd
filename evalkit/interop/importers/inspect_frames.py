"""Import Inspect's data frames of samples: the scores of model graders are judges',
others labels if asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
    rater_of,
)
from evalkit.interop.layouts.free_columns import with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of
from evalkit.interop.layouts.rater_names import is_judges, is_persons
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_SCORE: Final = "score_"
_GRADES: Final = {"C": 1.0, "P": 0.5, "I": 0.0}
"""Inspect's grades."""
_UNGRADED: Final = "N"
"""The word for no answer to grade."""
_OWN: Final = frozenset(
    {"sample_id", "eval_id", "log", "input", "target", "output", "answer", "epoch"}
)
_GRADED: Final = ("model_graded", "rubric", "g_eval")
_OMITTED: Final = ("_explanation", "_metadata", "_answer", "headline_value")


def _sniff(start: Peek) -> bool:
    row = start.row
    is_frame = {"sample_id", "eval_id"} <= row.keys() or {
        "sample_id",
        "log",
    } <= row.keys()
    return is_frame and any(str(name).startswith(_SCORE) for name in row)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each sample, epoch and grader."""
    units = []
    data = []
    rows = [row for _, row in rows_of(path)]
    in_grades = {
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if {str(row[name]) for row in rows if row.get(name)} <= {*_GRADES, _UNGRADED}
    }
    for row in rows:
        entries = [
            _said(str(name).removeprefix(_SCORE), value)
            for name, value in row.items()
            if str(name).startswith(_SCORE) and not str(name).endswith(_OMITTED)
        ]
        cells = {
            "id": str(row.get("id", row.get("sample_id"))),
            "prompt": row.get("input"),
            "response": row.get("output", row.get("answer")),
            "reference": row.get("target"),
            "model": row.get("model"),
            "sample": _epoch(row),
        }
        units.append(Assessed(cells, tuple(entries)))
        in_cells = cells.keys() | _OWN
        data.append(
            {
                name: _grade(value) if name in in_grades else value
                for name, value in row.items()
                if name not in in_cells and not str(name).startswith(_SCORE)
            }
        )
    return read_assessed(path, with_raters_in_data(units, data, options), options)


def _epoch(row: Json) -> int:
    epoch = str(row.get("epoch") or 1)
    if epoch.isdecimal() and len(epoch) < 7:
        return max(0, int(epoch) - 1)
    return 0


def _grade(value: Any) -> Any:
    """Return the number of a grade, nothing for N, and any other value unchanged."""
    if not isinstance(value, str):
        return value
    word = value.strip()
    if word == _UNGRADED:
        return None
    return _GRADES.get(word, value)


def _said(name: str, value: Any) -> Assessment:
    source: Source = CODE
    if is_persons(name):
        source = PERSON
    elif name.startswith(_GRADED) or is_judges(name):
        source = JUDGE
    value = _grade(value)
    rater = rater_of(name, source)
    return assessment(name, rater, source, value)


IMPORTER: Final = Importer(
    "inspect_frames",
    "Inspect's data frames of samples, with columns score_NAME",
    _sniff,
    _read_records,
    is_log=True,
)
