"""Import OpenAI's evaluations: output items of the Evals API, and event logs of the
evals package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from evalkit.core.values import Json, JsonObject, mapping_at
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
)
from evalkit.interop.layouts.free_columns import text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of, text
from evalkit.interop.layouts.rater_names import is_persons
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_ITEM: Final = "datasource_item"
_SUFFIX: Final = re.compile(r"-[0-9a-f]{8}-[0-9a-f-]{20,}$")
_GRADED: Final = "metrics"
_ANSWERED: Final = "sampling"
_INVALID: Final = "__invalid__"
"""The choice of a grader whose answer has none of the choices."""


def _sniff(start: Peek) -> bool:
    row = start.row
    if _ITEM in row and isinstance(row.get("results"), list):
        return True
    spec = row.get("spec")
    is_spec = isinstance(spec, Mapping) and "completion_fns" in spec
    return is_spec or {"event_id", "sample_id", "type", "data"} <= row.keys()


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each item and grader.

    Graders that sample a model are judges; the others are code and counted. In event logs, the
    choice or score of a model-graded sample is the verdict.
    """
    rows = [row for _, row in rows_of(path)]
    if rows and _ITEM in rows[0]:
        units = [_assessed_item(row, index) for index, row in enumerate(rows)]
        data = [_source(row) for row in rows]
        return read_assessed(path, with_raters_in_data(units, data, options), options)
    return read_assessed(path, _events(rows), options)


def _source(row: Json) -> Json:
    item = row.get(_ITEM)
    if isinstance(item, Mapping):
        return item
    return {}


def _assessed_item(row: Json, index: int) -> Assessed:
    """Return the texts of an item of a run, and the results of its graders."""
    sample = mapping_at(row, "sample")
    item = _source(row)
    cells: JsonObject = {
        **text_cells(item),
        "id": str(row.get("datasource_item_id", row.get("id", index))),
        "model": sample.get("model"),
        "metadata": {
            key: value
            for key, value in item.items()
            if isinstance(value, str | int | float)
        },
    }
    for cell, key in (("prompt", "input"), ("response", "output")):
        if sample.get(key):
            cells[cell] = text(sample[key])
    results = row.get("results")
    entries = [
        _assess(result)
        for result in (results if isinstance(results, list) else [])
        if isinstance(result, Mapping)
    ]
    return Assessed(cells, tuple(entries))


def _assess(result: Json) -> Assessment:
    """Return the assessment of a result; a grader with a model or a sample is a judge."""
    name = _SUFFIX.sub("", str(result.get("name")))
    kind = str(result.get("type") or "")
    is_model = "model" in kind or bool(result.get("sample"))
    source: Source = JUDGE if is_model else CODE
    score = result.get("score")
    passed = result.get("passed")
    word = None
    if isinstance(passed, bool):
        word = "pass" if passed else "fail"
    sample = result.get("sample")
    model = sample.get("model") if isinstance(sample, Mapping) else None
    label = result.get("label")
    return assessment(
        name,
        str(model or name),
        source,
        score if score is not None else word,
        word=label or word,
        reason=result.get("reasoning"),
    )


def _events(rows: Sequence[Json]) -> list[Assessed]:
    """Return the samples of an event log, in order."""
    spec: Json = next(
        (row["spec"] for row in rows if isinstance(row.get("spec"), Mapping)), {}
    )
    judge = str(spec.get("eval_name") or spec.get("base_eval") or "modelgraded")
    events: dict[str, list[Json]] = {}
    for row in rows:
        if "sample_id" in row and isinstance(row.get("data"), Mapping):
            events.setdefault(str(row["sample_id"]), []).append(row)
    return [
        Assessed(_event_cells(sample, selected), tuple(_assess_events(selected, judge)))
        for sample, selected in events.items()
    ]


def _event_cells(sample: str, events: Sequence[Json]) -> JsonObject:
    sampled = [event["data"] for event in events if event.get("type") == _ANSWERED]
    first: Json = sampled[0] if sampled else {}
    answer = first.get("sampled")
    return {
        "id": sample,
        "prompt": first.get("prompt"),
        "response": answer[0] if isinstance(answer, list) and answer else answer,
    }


def _assess_events(events: Sequence[Json], judge: str) -> Iterator[Assessment]:
    """Yield the verdicts of events: of the judge, and of comparisons by code."""
    for event in events:
        data = event["data"]
        if event.get("type") == _GRADED and ("choice" in data or "score" in data):
            choice = data.get("choice", data.get("score"))
            is_invalid = choice == _INVALID or data.get("invalid_choice") is True
            yield assessment(
                judge,
                judge,
                JUDGE,
                None if is_invalid else choice,
                reason=data.get("sampled"),
                failure="the answer has none of the choices" if is_invalid else "",
            )
            for name, value in data.items():
                if is_persons(name):
                    yield assessment(judge, name, PERSON, value)
        elif event.get("type") == "match":
            yield assessment("match", "match", CODE, data.get("correct"))


IMPORTER: Final = Importer(
    "openai_evals",
    "OpenAI's output items of an evaluation run, or an event log of the evals package",
    _sniff,
    _read_records,
    is_log=True,
)
