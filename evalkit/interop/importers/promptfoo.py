"""Import promptfoo results: each test's output with its assertions; the model-graded ones are the judgments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.benchmarks.judgment_files import Peek, load_object, number, rows_of, text
from evalkit.benchmarks.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record

_BY_MODEL = ("rubric", "g-eval", "model-graded", "factuality", "closedqa", "relevance", "faithfulness", "recall", "llm")
_UNJUDGED = "No assertions"
_LINES = ".jsonl"
_FAULT = 2
"""The `failureReason` of a test that could not run; 1 is a failed assertion."""

Row = Mapping[str, Any]


def sniff(start: Peek) -> bool:
    """Return whether a file is promptfoo's object, or its rows as JSON lines."""
    results = start.top.get("results")
    whole = isinstance(results, Mapping) and isinstance(results.get("results"), list)
    return whole or start.has("gradingResult", "response")


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each output; its criteria are the model-graded assertions, or all if there are none.

    An output without assertions was not judged and is omitted.
    """
    given = _rows(path)
    rows = [row for row in given if isinstance(row, Mapping)]
    judged = [row for row in rows if _parts(row) or not row.get("gradingResult")]
    parts = [part for row in judged for part in _parts(row)]
    graded = [part for part in parts if _is_graded(part)]
    names: dict[str, str] = {}
    models, judge = _models(rows), options.judge or _judge(graded)
    records = [_record(row, models, judge, only_graded=bool(graded), names=names) for row in judged]
    notes = [] if graded or not parts else ["no assertion was graded by a model: all assertions are used"]
    if left_out := len(rows) - len(judged):
        notes.append(f"outputs without an assertion, omitted: {left_out} of {len(rows)}")
    if others := (len(parts) - len(graded)) * bool(graded):
        notes.append(f"assertions not graded by a model, omitted: {others} of {len(parts)}")
    if failed := len(graded or parts) - sum(len(record.said.scores) for record in records):
        notes.append(f"assertions without a score: {failed} of {len(graded or parts)}")
    if strange := len(given) - len(rows):
        notes.append(f"results that are not objects, omitted: {strange} of {len(given)}")
    return ParsedFile(records, scale=(0.0, 1.0, 0.001), criteria=names, notes=tuple(notes))


def _rows(path: Path) -> Sequence[Any]:
    if path.suffix == _LINES:
        return [row for _, row in rows_of(path)]
    return list(load_object(path)["results"]["results"])


def _parts(row: Row) -> list[Row]:
    grading = row.get("gradingResult") or {}
    parts = [part for part in grading.get("componentResults") or [] if isinstance(part, Mapping)]
    if parts or number(grading.get("score")) is None or grading.get("reason") in (None, _UNJUDGED):
        return parts
    return [grading]  # a single assertion, as in early versions


def _assertion(part: Row) -> Row:
    assertion = part.get("assertion")
    return assertion if isinstance(assertion, Mapping) else {}


def _is_graded(part: Row) -> bool:
    kind = str(_assertion(part).get("type", "")).removeprefix("not-")
    return any(word in kind for word in _BY_MODEL)


def _judge(graded: Sequence[Row]) -> str:
    """Return the grader if all assertions name the same one."""
    named = {json.dumps(_assertion(part).get("provider")) for part in graded}
    provider = json.loads(named.pop()) if len(named) == 1 else None
    return str((provider.get("id") if isinstance(provider, Mapping) else provider) or "promptfoo")


def _provider(row: Row) -> str:
    provider = row.get("provider") or {}
    return str(provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider)


def _models(rows: Sequence[Row]) -> dict[tuple[str, Any], str]:
    """Return a name for each provider and prompt; the prompt is included if a provider has several."""
    prompts: dict[str, dict[Any, str]] = {}
    for row in rows:
        prompt = row.get("prompt") or {}
        label = str(prompt.get("label") or "") if isinstance(prompt, Mapping) else ""
        prompts.setdefault(_provider(row), {}).setdefault(row.get("promptIdx"), label)
    names = {}
    for provider, labels in prompts.items():
        apart = len(labels) > 1
        labeled = len(set(labels.values())) == len(labels) and all(labels.values())
        for index, label in labels.items():
            names[provider, index] = f"{provider}, {label if labeled else f'prompt {index}'}" if apart else provider
    return names


def _record(
    row: Row, models: Mapping[tuple[str, Any], str], judge: str, *, only_graded: bool, names: dict[str, str]
) -> Record:
    model, prompt = models[_provider(row), row.get("promptIdx")], row.get("prompt") or {}
    answer = Answer(model, text((row.get("response") or {}).get("output")), model)
    raw = prompt.get("raw") if isinstance(prompt, Mapping) else prompt
    given = row.get("vars") or {}
    test = str(row["testIdx"]) if row.get("testIdx") is not None else json.dumps(given, ensure_ascii=False)
    metadata = {key: value for key, value in given.items() if isinstance(value, str | int | float)}
    return Record(test, text(raw), (answer,), _said(row, judge, only_graded, names), metadata=metadata)


def _said(row: Row, judge: str, only_graded: bool, names: dict[str, str]) -> RecordedJudgment:
    scores: dict[str, float] = {}
    words = []
    for part in _parts(row):
        if only_graded and not _is_graded(part):
            continue
        assertion, failed = _assertion(part), bool((part.get("metadata") or {}).get("graderError"))
        name = str(assertion.get("metric") or assertion.get("type") or "score")
        count = sum(known == name or known.startswith(f"{name} ") for known in scores)
        name = f"{name} {count + 1}" if count else name
        names.setdefault(name, text(assertion.get("value")) if isinstance(assertion.get("value"), str) else "")
        score = number(part.get("score"))
        if score is not None and not failed:
            scores[name] = score
            words.append(str(part.get("reason") or ""))
    joined = "\n\n".join(word for word in words if word) or None
    if scores:
        return RecordedJudgment(judge, scores=scores, text=joined)
    # The row's error can also report a failed assertion.
    fault = row.get("error") if row.get("failureReason") in (None, _FAULT) or not row.get("gradingResult") else None
    return missing_record(judge, str(fault or "no score"), status="failed" if fault else "unparseable")
