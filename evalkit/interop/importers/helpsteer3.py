"""Import HelpSteer3's preferences: people's strengths from -3 to 3 are labels of pairs,
other strengths judges'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import JUDGE, PERSON, Assessment, assessment
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, text
from evalkit.interop.layouts.rater_names import is_judges
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_OVERALL: Final = "overall_preference"
_INDIVIDUAL: Final = "individual_preference"
_CRITERION: Final = "preference"
_STRONGEST: Final = 3
_READ_AS: Final = "strengths of preferences, of which only the sign is read"


def _sniff(start: Peek) -> bool:
    return start.has("response1", "response2", _OVERALL)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each pair and judge; a negative strength prefers the first response."""
    rows = [row for _, row in rows_of(path)]
    judges = _judges(rows, options)
    units = [
        Assessed(
            _cells(row, index),
            (
                *_people(row),
                *(
                    assessment(_CRITERION, name, JUDGE, _winner(row.get(name)))
                    for name in judges
                ),
            ),
        )
        for index, row in enumerate(rows)
    ]
    present = Options(answers=options.answers) if options.judge in judges else options
    return read_assessed(path, units, present, [_READ_AS])


def _judges(rows: Sequence[Json], options: Options) -> list[str]:
    """Return the columns with strengths whose name is a judge's, or the one that the user names."""
    names = dict.fromkeys(name for row in rows for name in row)
    if options.judge in names:
        return [options.judge]
    return [
        name
        for name in names
        if name != _OVERALL
        and is_judges(name)
        and all(_winner(row[name]) for row in rows if row.get(name) is not None)
    ]


def _winner(value: Any) -> str | None:
    strength = number(value)
    if strength is None or abs(strength) > _STRONGEST:
        return None
    if strength == 0:
        return "TIE"
    if strength < 0:
        return "A"
    return "B"


def _people(row: Json) -> Iterator[Assessment]:
    individual = row.get(_INDIVIDUAL)
    scores = [
        part.get("score")
        for part in (individual if isinstance(individual, list) else [])
        if isinstance(part, Mapping)
    ]
    if not scores:
        yield assessment(_CRITERION, "annotators", PERSON, _winner(row.get(_OVERALL)))
    for position, score in enumerate(scores, 1):
        yield assessment(_CRITERION, f"annotator {position}", PERSON, _winner(score))


def _cells(row: Json, index: int) -> JsonObject:
    return {
        "id": str(row.get("id", index)),
        "prompt": text(row.get("context")),
        "response_a": text(row.get("response1")),
        "response_b": text(row.get("response2")),
        "metadata": {key: row[key] for key in ("domain", "language") if key in row},
    }


IMPORTER: Final = Importer(
    "helpsteer3",
    "HelpSteer3's preferences: strengths by annotator, with columns of judges",
    _sniff,
    _read_records,
    is_log=True,
)
