"""Import Opik traces, experiments and evaluation results as JSON, with their feedback scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, mapping_at, mapping_of
from evalkit.interop.layouts.assessments import Assessed, merged, read_assessed
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
)
from evalkit.interop.layouts.free_columns import text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of, subject
from evalkit.interop.layouts.rater_names import is_code, is_persons
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_SCORES: Final = "feedback_scores", "feedbackScores", "score_results"
_INPUTS: Final = "scoring_inputs", "dataset_item_content", "dataset_item_data"
"""Where the versions of test cases and items have the columns of the dataset."""
_OUTPUTS: Final = "output", "task_output", "evaluation_task_output"
_ONLINE: Final = "online_scoring"
_BY_SDK: Final = (
    "scores sent by the SDK, read as those of "
    "judges because no score is of online scoring"
)


def _sniff(start: Peek) -> bool:
    return any(isinstance(start.row.get(key), list | dict) for key in _SCORES)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each trace and judge.

    Scores given in the page are labels by their author. Scores of online scoring are judges'; those
    of the SDK only if there is no other judge.
    """
    rows = [row for _, row in rows_of(path)]
    scores = [score for row in rows for score in _scores(row)]
    # With online scoring, scores of the SDK are those of code.
    online = any(score.get("source") == _ONLINE for score in scores)
    units = []
    for index, row in enumerate(rows):
        entries = [
            entry for score in _scores(row) for entry in _assess(score, online=online)
        ]
        units.append(Assessed(_cells(row, index), tuple(entries)))
    sent = sum(
        score.get("source") not in ("ui", _ONLINE)
        and not is_persons(str(score.get("name")))
        and not is_code(str(score.get("name")))
        for score in scores
    )
    notes = [f"{_BY_SDK}: {sent}"] if sent and not online else []
    units = with_raters_in_data(units, [*map(_data, rows)], options, {"id"})
    return read_assessed(path, merged(units), options, notes)


def _named_score(name: str, value: Any) -> Json:
    """Return a score with its name; it is an object, or the value alone."""
    if isinstance(value, Mapping):
        return {"name": name, **value}
    return {"name": name, "value": value}


def _case(row: Json) -> Json:
    case = row.get("test_case")
    if isinstance(case, Mapping):
        return case
    return row


def _inputs(case: Json) -> Json:
    inputs = (case.get(key) for key in _INPUTS)
    return next((part for part in inputs if part and isinstance(part, Mapping)), {})


def _data(row: Json) -> Json:
    case = _case(row)
    return {**mapping_at(case, "metadata"), **_inputs(case)}


def _scores(row: Json) -> list[Json]:
    """Return the scores of a row as objects with names, wherever this export has them."""
    for key in _SCORES:
        # Scores by name, or a list of objects with names.
        listed = row.get(key)
        if isinstance(listed, Mapping):
            return [_named_score(name, value) for name, value in listed.items()]
        if isinstance(listed, list):
            return [score for score in listed if isinstance(score, Mapping)]
    return []


def _assess(score: Json, *, online: bool) -> Iterator[Assessment]:
    """Yield an assessment for each author of a score.

    `online`: some score of the file is of online scoring, so those of the SDK are of code.
    """
    name = str(score.get("name"))
    kind = score.get("source")
    # In order: online scoring, people, and else the SDK.
    source: Source = CODE
    if kind == _ONLINE:
        source = JUDGE
    elif kind == "ui" or is_persons(name):
        source = PERSON
    elif not online and not is_code(name):
        source = JUDGE
    authors = score.get("value_by_author") or score.get("valueByAuthor")
    if source == PERSON and isinstance(authors, Mapping) and authors:
        # Each author of a score is an annotator.
        for author, value in authors.items():
            if isinstance(value, Mapping):
                yield _assess_by({**score, **value}, name, str(author), source)
        return
    author = score.get("created_by") or score.get("createdBy") or "annotator"
    # Judges are named by the score, as Opik does not name their model.
    yield _assess_by(score, name, str(author) if source == PERSON else name, source)


def _assess_by(score: Json, name: str, rater: str, source: Source) -> Assessment:
    """Return a rater's assessment; one that failed has no value, and its reason is the failure."""
    failed = bool(score.get("scoring_failed") or score.get("scoringFailed"))
    reason = score.get("reason")
    return assessment(
        name,
        rater,
        source,
        None if failed else score.get("value"),
        word=score.get("category_name") or score.get("categoryName"),
        reason=reason,
        failure=(reason or "the metric failed") if failed else "",
    )


def _cells(row: Json, index: int) -> JsonObject:
    """Return the texts of a test case or of a row that is one."""
    case = _case(row)
    texts = text_cells(_inputs(case))
    output = next((case[key] for key in _OUTPUTS if case.get(key)), None)
    if output is not None:
        texts["response"] = subject(output)
    if case.get("input") is not None:
        texts["prompt"] = subject(case["input"])
    id_ = case.get("trace_id") or case.get("id") or case.get("dataset_item_id") or index
    metadata = case.get("metadata")
    return {
        **texts,
        "id": str(id_),
        "metadata": dict(mapping_of(metadata)),
    }


IMPORTER: Final = Importer(
    "opik",
    "Opik's traces, experiment items or evaluation results as JSON",
    _sniff,
    _read_records,
    is_log=True,
)
