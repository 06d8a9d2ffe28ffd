"""Import Prodigy's annotations as JSONL: accepted choices are labels, columns of the
task are judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json
from evalkit.interop.layouts.assessments import Assessed, merged, read_assessed
from evalkit.interop.layouts.criteria import JUDGE, PERSON, Assessment, assessment
from evalkit.interop.layouts.free_columns import text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of
from evalkit.interop.layouts.rater_names import is_judges
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_CRITERION: Final = "label"
_OF_TASK: Final = frozenset(
    {
        *(
            "options",
            "accept",
            "answer",
            "label",
            "tokens",
            "spans",
            "html",
            "text",
            "config",
        ),
        *("image", "priority", "score", "_view_id", "_timestamp", "_is_binary"),
        *("_input_hash", "_task_hash", "_session_id", "_annotator_id"),
    }
)
"""Keys of a task that are Prodigy's."""
_ANSWERS: Final = ("accept", "reject", "ignore")
_BINARY: Final = {"accept": "pass", "reject": "fail"}
_OMITTED: Final = "tasks with the answer '{}', omitted"
_SEVERAL: Final = "tasks with no choice or several, omitted"


def _sniff(start: Peek) -> bool:
    return start.row.get("answer") in _ANSWERS and (
        start.has("_task_hash")
        or start.has("_input_hash")
        or start.has("accept", "options")
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each task and judge.

    With choices, an accepted task has the chosen one as its label; rejected and ignored ones are
    counted. Without, accepting or rejecting a task is the annotator's verdict about it, or about
    the label that a model proposed.
    """
    rows = [row for _, row in rows_of(path)]
    tally: Counter[str] = Counter()
    opposite = _opposites(rows)
    units = []
    data = []
    for index, row in enumerate(rows):
        # The user's own columns, without those that Prodigy adds.
        selected = {name: value for name, value in row.items() if name not in _OF_TASK}
        cells = {
            **text_cells({"text": row.get("text"), **selected}),
            "id": str(row.get("_input_hash", row.get("id", index))),
            "metadata": selected,
        }
        units.append(Assessed(cells, _assess(row, tally, opposite)))
        data.append(selected)
    # Columns of a task are repeated in the row of each annotator, and count once.
    units = with_raters_in_data(units, _once(units, data), options, {"id"})
    notes = [f"{note}: {count}" for note, count in tally.items()]
    return read_assessed(path, merged(_labeled(units)), options, notes)


def _once(units: Sequence[Assessed], data: Sequence[Json]) -> list[Json]:
    """Return the columns of each task, which other annotators' rows repeat."""
    present: set[Any] = set()
    columns: list[Json] = []
    for unit, row in zip(units, data, strict=True):
        # Only the first row of a task has its columns.
        columns.append({} if unit.cells["id"] in present else row)
        present.add(unit.cells["id"])
    return columns


def _labeled(units: list[Assessed]) -> list[Assessed]:
    """Return the tasks with a label, or all if only judges are known."""
    labeled = {
        unit.cells["id"]
        for unit in units
        if any(entry.source == PERSON for entry in unit.entries)
    }
    return [unit for unit in units if unit.cells["id"] in labeled] or units


def _assess(
    row: Json, tally: Counter[str], opposite: Mapping[str, str]
) -> tuple[Assessment, ...]:
    """Return an annotator's verdict on a task; nothing for one that was ignored or has several."""
    rater = str(row.get("_annotator_id") or row.get("_session_id") or "annotator")
    answer = row.get("answer")
    # Without choices, accepting and rejecting are the verdicts.
    if "options" not in row and "accept" not in row:
        if answer not in _BINARY:
            tally[_OMITTED.format(answer)] += 1
            return ()
        if opposite:
            return _of_proposal(row, rater, opposite)
        return (assessment(_CRITERION, rater, PERSON, _BINARY[str(answer)]),)
    if answer != "accept":
        tally[_OMITTED.format(answer)] += 1
        return ()
    chosen = row.get("accept")
    said_value = assessment(_CRITERION, rater, PERSON, chosen)
    # None or several choices are not one verdict.
    if said_value.word is None and said_value.score is None:
        tally[_SEVERAL] += 1
        return ()
    return (said_value,)


def _of_proposal(
    row: Json, rater: str, opposite: Mapping[str, str]
) -> tuple[Assessment, ...]:
    """Return the label that a model proposed as its verdict, and what the annotator made of it.

    Accepting is the proposed label and rejecting the other one: to reject `bad` is to say `good`.
    """
    label = str(row.get("label"))
    said = label if row.get("answer") == "accept" else opposite[label]
    source = _model_of(row["meta"])
    return (
        assessment(_CRITERION, rater, PERSON, said),
        assessment(_CRITERION, source, JUDGE, label),
    )


def _model_of(meta: Json) -> str:
    """Return the model that proposed a label; a source is one only by its name, as
    texts have sources too.
    """
    source = str(meta.get("source") or "")
    return str(meta.get("model") or (source if is_judges(source) else ""))


def _opposites(rows: Sequence[Json]) -> dict[str, str]:
    """Return the other label of each, if models proposed one of two in every task;
    empty otherwise.
    """
    sources = [
        _model_of(meta) for row in rows if isinstance(meta := row.get("meta"), Mapping)
    ]
    labels = [row.get("label") for row in rows]
    names = [*dict.fromkeys(str(label) for label in labels if label)]
    if len(names) != 2 or len(sources) < len(rows) or not all((*sources, *labels)):
        return {}
    return {names[0]: names[1], names[1]: names[0]}


IMPORTER: Final = Importer(
    "prodigy",
    "Prodigy's annotations as JSONL: choices are labels, columns of the task are judges",
    _sniff,
    _read_records,
    is_log=True,
)
