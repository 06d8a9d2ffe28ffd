"""Import Weave calls as JSON: scores of evaluations are judges', annotations and
reactions labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, mapping_at
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    PERSON,
    Assessment,
    assessment,
    source_by_name,
)
from evalkit.interop.layouts.free_columns import flat, text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of, subject
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_ANNOTATION: Final = "wandb.annotation."
_SCORER: Final = "wandb.runnable."
_REACTION: Final = "wandb.reaction"
_SCORED: Final = "predict_and_score"
_EMOJI: Final = {"👍": "true", "👎": "false"}
_NO_VERDICTS: Final = frozenset(
    (
        "reason",
        "reasoning",
        "explanation",
        "rationale",
        "model_latency",
        "latency",
        "confidence",
    )
)


def _sniff(start: Peek) -> bool:
    row = start.row
    if not ("op_name" in row and ("output" in row or "inputs" in row)):
        return False
    # A call without a score may be of a trace that has some.
    return _scores(row) is not None or bool(_feedback(row)) or "trace_id" in row


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each scored call and judge.

    The scores of an evaluation's `predict_and_score`, and of scorers in a call's feedback, are
    judges'. Annotations by people, and thumbs, are labels by their author.
    """
    rows = [row for _, row in rows_of(path)]
    units = []
    data = []
    for index, row in enumerate(rows):
        entries = [*_score_values(row), *_assess_feedback(row)]
        # Calls of an evaluation count even if no scorer answered.
        is_scored = _SCORED in str(row.get("op_name"))
        if not entries and not is_scored:
            continue
        example = _example(row)
        units.append(Assessed(_cells(row, example, index), tuple(entries)))
        data.append(example)
    omitted = len(rows) - len(units)
    if omitted:
        notes = [f"calls without a score or an annotation, omitted: {omitted}"]
    else:
        notes = []
    return read_assessed(
        path, with_raters_in_data(units, data, options), options, notes
    )


def _scores(row: Json) -> Json | None:
    output = row.get("output")
    scores = output.get("scores") if isinstance(output, Mapping) else None
    if isinstance(scores, Mapping):
        return scores
    return None


def _feedback(row: Json) -> list[Json]:
    summary = row.get("summary")
    weave = summary.get("weave") if isinstance(summary, Mapping) else None
    if isinstance(weave, Mapping):
        listed = weave.get("feedback")
    else:
        listed = row.get("feedback")
    parts = listed if isinstance(listed, list) else []
    return [part for part in parts if isinstance(part, Mapping)]


def _score_values(row: Json) -> Iterator[Assessment]:
    for scorer, value in (_scores(row) or {}).items():
        yield from _scored(str(scorer), value)


def _scored(scorer: str, value: Any) -> Iterator[Assessment]:
    """Yield the values of a scorer: one, or those of an object by key."""
    # One value has no key; an object has one for each value.
    values = dict(flat(value)) if isinstance(value, Mapping) else {"": value}
    reason = next((text for key, text in values.items() if key in _NO_VERDICTS), None)
    verdicts = {
        key: part
        for key, part in values.items()
        if key.rpartition(".")[2] not in _NO_VERDICTS
    }
    for key, part in verdicts.items():
        # A scorer with one value is named by itself.
        name = f"{scorer}.{key}" if key and len(verdicts) > 1 else scorer
        source = source_by_name(scorer)
        entry = assessment(name, scorer, source, part, reason=reason)
        if entry.word is not None or entry.score is not None:
            yield entry


def _assess_feedback(row: Json) -> Iterator[Assessment]:
    """Yield the verdicts in the feedback of a row: of annotators, reactions, and scorers."""
    for feedback in _feedback(row):
        kind = str(feedback.get("feedback_type"))
        payload = mapping_at(feedback, "payload")
        author = feedback.get("creator") or feedback.get("wb_user_id") or "annotator"
        if kind.startswith(_ANNOTATION):
            value = payload.get("value")
            if isinstance(value, Mapping):  # by the annotator's id in some versions
                value = next(iter(value.values()), None)
            name = kind.removeprefix(_ANNOTATION)
            yield assessment(name, author, PERSON, value)
        elif kind.startswith(_REACTION):
            # The first character: a skin tone follows it.
            word = _EMOJI.get(str(payload.get("emoji"))[:1])
            if word:
                yield assessment("reaction", author, PERSON, word)
        elif kind.startswith(_SCORER):
            yield from _scored(kind.removeprefix(_SCORER), payload.get("output"))


def _example(row: Json) -> Json:
    inputs = mapping_at(row, "inputs")
    example = inputs.get("example")
    if isinstance(example, Mapping):
        return example
    return inputs


def _cells(row: Json, example: Json, index: int) -> JsonObject:
    """Return the texts of a prediction and of its example."""
    output = row.get("output")
    if isinstance(output, Mapping):
        # The answer of the model, without what the evaluation adds to it.
        output = output.get("output", output.get("model_output", output))
    plain = {
        key: value
        for key, value in example.items()
        if isinstance(value, str | int | float)
    }
    return {
        **text_cells(example),
        "id": str(row.get("id") or index),
        "response": subject(output),
        "failure": row.get("exception"),
        "metadata": plain,
    }


IMPORTER: Final = Importer(
    "weave",
    "Weave's calls as JSON: scorers are judges, annotations labels",
    _sniff,
    _read_records,
    is_log=True,
)
