"""Import JUDGE-BENCH: human scores of instances by property, with a model's answers as
judges if there are any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import JUDGE, PERSON, Assessment, assessment
from evalkit.interop.layouts.free_columns import text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_INDIVIDUAL: Final = "individual_human_scores", "individual_human_labels"
_JOINT: Final = "mean_human", "majority_human"
_OWN: Final = frozenset({"id", "instance", "annotations"})


def _sniff(start: Peek) -> bool:
    annotations = start.row.get("annotations")
    return (
        "instance" in start.row
        and isinstance(annotations, Mapping)
        and any(
            isinstance(item, Mapping)
            and any(key in item for key in (*_INDIVIDUAL, *_JOINT))
            for item in annotations.values()
        )
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each instance and judge; each person's score is a label of
    its property.
    """
    units = []
    data = []
    for index, (_, row) in enumerate(rows_of(path)):
        instance = row.get("instance")
        texts = text_cells(instance) if isinstance(instance, Mapping) else {}
        if isinstance(instance, str):
            texts = {"response": instance}
        cells: JsonObject = {**texts, "id": str(row.get("id", index))}
        units.append(Assessed(cells, tuple(_given(row))))
        data.append({key: value for key, value in row.items() if key not in _OWN})
    return read_assessed(path, with_raters_in_data(units, data, options), options)


def _given(row: Json) -> Iterator[Assessment]:
    annotations = row.get("annotations")
    for name, entries in (
        annotations.items() if isinstance(annotations, Mapping) else ()
    ):
        if isinstance(entries, Mapping):
            yield from _people(str(name), entries)
            for key, value in entries.items():
                if key not in (*_INDIVIDUAL, *_JOINT):
                    yield assessment(name, key, JUDGE, value)


def _people(name: str, entries: Json) -> Iterator[Assessment]:
    individual: Any = next(
        (entries[key] for key in _INDIVIDUAL if entries.get(key)), None
    )
    if isinstance(individual, list):
        for number, value in enumerate(individual, 1):
            yield assessment(name, f"annotator {number}", PERSON, value)
        return
    joint = next((entries[key] for key in _JOINT if entries.get(key) is not None), None)
    if joint is not None:
        yield assessment(name, "annotators", PERSON, joint)


IMPORTER: Final = Importer(
    "judge_bench",
    "JUDGE-BENCH: human scores by property, with columns of models as judges",
    _sniff,
    _read_records,
    is_log=True,
)
