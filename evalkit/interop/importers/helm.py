"""Import HELM's scenario states: what model annotators made of each answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, mapping_at, mapping_of
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import JUDGE, Assessment, assessment
from evalkit.interop.layouts.free_columns import with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of, text
from evalkit.interop.layouts.rater_names import is_judges, words_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_STATES: Final = "request_states"
_VERDICTS: Final = frozenset(
    {"score", "judgment", "label", "grade", "rating", "verdict"}
)
"""Last words of the key of a verdict, as in `gpt_score`; other keys are texts."""
_REASONS: Final = ("reasoning", "justification", "explanation")
_OF_EMPTY: Final = "empty_output"
"""The beginning of what HELM writes for an empty answer, which no model saw."""


def _sniff(start: Peek) -> bool:
    states = start.top.get(_STATES)
    row = start.row
    is_state = "instance" in row and "request" in row
    return is_state and (states is not None or "annotations" in row)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each answer, annotator model and criterion.

    HELM's annotators are models. Columns of the instance may have labels of people.
    """
    rows = [row for _, row in rows_of(path)]
    units = [_assessed_state(row, index) for index, row in enumerate(rows)]
    data = [_columns(row) for row in rows]
    return read_assessed(path, with_raters_in_data(units, data, options), options)


def _columns(row: Json) -> Json:
    """Return the columns that users added to an instance or a state."""
    extra = mapping_at(mapping_at(row, "instance"), "extra_data")
    added = {
        key: value for key, value in row.items() if isinstance(value, str | int | float)
    }
    added.update(extra)
    return added


def _assessed_state(row: Json, index: int) -> Assessed:
    instance = mapping_at(row, "instance")
    request = mapping_at(row, "request")
    # An instance may have several answers: one of each trial or perturbation.
    perturbation = mapping_at(instance, "perturbation")
    parts = [
        instance.get("id", index),
        perturbation.get("name"),
        row.get("train_trial_index") or None,
    ]
    metadata = {}
    for key in ("split", "sub_split"):
        if instance.get(key) is not None:
            metadata[key] = instance[key]
    cells: JsonObject = {
        "id": "/".join(str(part) for part in parts if part is not None),
        "prompt": text(mapping_at(instance, "input").get("text")),
        "response": _completion(row),
        "reference": _reference(instance),
        "model": request.get("model"),
        "metadata": metadata,
    }
    return Assessed(cells, tuple(_assessments(row)))


def _completion(row: Json) -> str:
    completions = mapping_at(row, "result").get("completions")
    if not isinstance(completions, list) or not completions:
        return ""
    first = mapping_of(completions[0])
    return text(first.get("text"))


def _reference(instance: Json) -> str | None:
    """Return the first correct reference of an instance, if it has one."""
    references = instance.get("references")
    for reference in references if isinstance(references, list) else []:
        tags = mapping_of(reference).get("tags")
        if isinstance(tags, list) and "correct" in tags:
            return text(mapping_at(reference, "output").get("text"))
    return None


def _assessments(row: Json) -> Iterator[Assessment]:
    """Yield what each annotator said; its verdicts may be by model or by criterion."""
    for name, annotation in mapping_at(row, "annotations").items():
        parts = mapping_of(annotation)
        for key, value in parts.items():
            if isinstance(value, Mapping):
                yield from _by_criterion(str(key), value)
            elif _is_verdict(str(key)):
                yield _verdict(str(name), str(key), parts)


def _is_verdict(key: str) -> bool:
    if key.startswith(_OF_EMPTY):
        return False
    *_, last = words_of(key) or ("",)
    # In British spelling, too.
    return last.replace("gem", "gm") in _VERDICTS


def _verdict(name: str, key: str, parts: Json) -> Assessment:
    """Return a verdict: `score` of the annotator, or `gpt_score` of a model."""
    model = words_of(key)[0]
    prefix = f"{model}_"
    if not is_judges(model):
        model = name
        prefix = ""
    reason = _reason(parts, prefix)
    return assessment(name, model, JUDGE, parts[key], reason=reason)


def _reason(parts: Json, prefix: str) -> Any:
    for word in _REASONS:
        key = f"{prefix}{word}"
        if key in parts:
            return parts[key]
    return None


def _by_criterion(model: str, criteria: Mapping[str, Any]) -> Iterator[Assessment]:
    """Yield the scores that a model of a jury gave by criterion."""
    for criterion, value in criteria.items():
        parts = mapping_of(value)
        if "score" in parts:
            reason = _reason(parts, "")
            yield assessment(criterion, model, JUDGE, parts["score"], reason=reason)


IMPORTER: Final = Importer(
    "helm",
    "HELM's scenario states with the annotations of models, JSON",
    _sniff,
    _read_records,
    is_log=True,
)
