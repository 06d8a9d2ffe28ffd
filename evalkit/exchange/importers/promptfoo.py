"""promptfoo's results: each test's output with its assertions, those that a model graded being the judgments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.exchange.files import Peek, load_object, number, text
from evalkit.exchange.records import Answer, Found, Options, Record, Said, lost

_BY_MODEL = ("rubric", "g-eval", "model-graded", "factuality", "closedqa", "relevance", "faithfulness", "recall", "llm")


def sniff(start: Peek) -> bool:
    """Say whether it is the object that promptfoo writes."""
    results = start.top.get("results")
    return isinstance(results, Mapping) and isinstance(results.get("results"), list)


def read(path: Path, options: Options) -> Found:
    """Return a record for each output; its criteria are the assertions graded by a model, or all if none was."""
    rows = [row for row in load_object(path)["results"]["results"] if isinstance(row, Mapping)]
    parts = [part for row in rows for part in _parts(row)]
    graded = [part for part in parts if _is_graded(part)]
    names: dict[str, str] = {}
    records = [_record(row, index, options, only_graded=bool(graded), names=names) for index, row in enumerate(rows)]
    notes = () if graded else ("no assertion was graded by a model: all assertions are taken",)
    return Found(records, scale=(0.0, 1.0, 0.001), criteria=names, notes=notes)


def _parts(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    grading = row.get("gradingResult") or {}
    return [part for part in grading.get("componentResults") or [] if isinstance(part, Mapping)]


def _assertion(part: Mapping[str, Any]) -> Mapping[str, Any]:
    assertion = part.get("assertion")
    return assertion if isinstance(assertion, Mapping) else {}


def _is_graded(part: Mapping[str, Any]) -> bool:
    kind = str(_assertion(part).get("type", "")).removeprefix("not-")
    return any(word in kind for word in _BY_MODEL)


def _record(
    row: Mapping[str, Any], index: int, options: Options, *, only_graded: bool, names: dict[str, str]
) -> Record:
    provider, prompt = row.get("provider") or {}, row.get("prompt") or {}
    named = provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider
    model = f"{named}" + (f" #{row['promptIdx']}" if row.get("promptIdx") else "")
    answer = Answer(model, text((row.get("response") or {}).get("output")), model)
    raw = prompt.get("raw") if isinstance(prompt, Mapping) else prompt
    said = _said(row, options.judge or "promptfoo", only_graded, names)
    metadata = {key: value for key, value in (row.get("vars") or {}).items() if isinstance(value, str | int | float)}
    return Record(str(row.get("testIdx", index)), text(raw), (answer,), said, metadata=metadata)


def _said(row: Mapping[str, Any], judge: str, only_graded: bool, names: dict[str, str]) -> Said:
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
        return Said(judge, scores=scores, text=joined)
    return lost(judge, str(row.get("error") or "no score"), status="failed" if row.get("error") else "unparseable")
