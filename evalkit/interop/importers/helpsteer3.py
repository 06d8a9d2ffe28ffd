"""Import preferences of HelpSteer2 and HelpSteer3: people's strengths from -3 to 3 are labels of
pairs, other strengths judges'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import JUDGE, PERSON, Assessment, assessment
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, text
from evalkit.interop.layouts.rater_names import is_judges
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_OVERALL: Final = ("overall_preference", "preference_strength")
"""The strength of all annotators, in HelpSteer3 and in HelpSteer2."""
_INDIVIDUAL: Final = {
    "individual_preference": "score",
    "all_preferences_unprocessed": "strength",
}
"""The key of each annotator's preference, with that of its strength."""
_RESPONSES: Final = (("response1", "response2"), ("response_1", "response_2"))
_CRITERION: Final = "preference"
_STRONGEST: Final = 3
_READ_AS: Final = "strengths of preferences, of which only the sign is read"


def _sniff(start: Peek) -> bool:
    return any(
        start.has(first, second, overall)
        for (first, second), overall in zip(_RESPONSES, _OVERALL, strict=True)
    )


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
        if name not in _OVERALL
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
    strengths = [
        part.get(key)
        for name, key in _INDIVIDUAL.items()
        for part in _objects(row.get(name))
    ]
    if not strengths:
        overall = _first(row, _OVERALL)
        yield assessment(_CRITERION, "annotators", PERSON, _winner(overall))
    for position, strength in enumerate(strengths, 1):
        annotator = f"annotator {position}"
        yield assessment(_CRITERION, annotator, PERSON, _winner(strength))


def _objects(value: Any) -> list[Json]:
    listed = value if isinstance(value, list) else []
    return [part for part in listed if isinstance(part, Mapping)]


def _first(row: Json, keys: Iterable[str]) -> Any:
    """Return the value of the first of the keys that the row has."""
    return next((row[key] for key in keys if key in row), None)


def _cells(row: Json, index: int) -> JsonObject:
    response_a, response_b = (
        _first(row, names) for names in zip(*_RESPONSES, strict=True)
    )
    return {
        "id": str(row.get("id", index)),
        "prompt": text(_first(row, ("context", "prompt"))),
        "response_a": text(response_a),
        "response_b": text(response_b),
        "metadata": {key: row[key] for key in ("domain", "language") if key in row},
    }


IMPORTER: Final = Importer(
    "helpsteer3",
    "preferences of HelpSteer2 and 3: strengths by annotator, with columns of judges",
    _sniff,
    _read_records,
    is_log=True,
)
