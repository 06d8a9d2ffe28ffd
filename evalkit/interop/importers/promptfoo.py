"""Import promptfoo results: each test's output with its assertions; the model-graded ones are the judgments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.benchmarks.benchmark import Importer
from evalkit.benchmarks.judgment_files import Peek, load_object, number, rows_of
from evalkit.benchmarks.layouts import Field, Part, scored_items
from evalkit.benchmarks.records import Options, ParsedFile

_BY_MODEL = ("rubric", "g-eval", "model-graded", "factuality", "closedqa", "relevance", "faithfulness", "recall", "llm")
_UNJUDGED = "No assertions"
_PLAIN = str | int | float
_FAULT = 2
"""The `failureReason` of a test that could not run; 1 is a failed assertion."""

Row = Mapping[str, Any]


def _sniff(start: Peek) -> bool:
    results = start.top.get("results")
    whole = isinstance(results, Mapping) and isinstance(results.get("results"), list)
    return whole or start.has("gradingResult", "response")


def _read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each output; its criteria are the model-graded assertions, or all if there are none.

    An output without assertions was not judged and is omitted.
    """
    jsonl = path.suffix == ".jsonl"
    results = [row for _, row in rows_of(path)] if jsonl else list(load_object(path)["results"]["results"])
    # Rows are in the order in which their tests finished, which differs from run to run.
    rows = sorted((row for row in results if isinstance(row, Mapping)), key=_place)
    every = [part for row in rows for part in _assertions(row)]
    graded = [part for part in every if _is_graded(part)]
    models, judge = _models(rows), options.judge or _judge(graded)
    fields: dict[str, Field] = {
        "id": lambda row: (
            json.dumps(_variables(row), ensure_ascii=False) if row.get("testIdx") is None else row["testIdx"]
        ),
        "prompt": lambda row: _prompt(row).get("raw"),
        "model": lambda row: models[_provider(row), row.get("promptIdx")],
        "response": "response.output",
        "judge": lambda _: judge,
        "metadata": lambda row: {key: value for key, value in _variables(row).items() if isinstance(value, _PLAIN)},
        "failure": _failure,
    }

    def parts(row: Row) -> Sequence[Part] | None:
        assertions = _assertions(row)
        if not assertions and row.get("gradingResult"):
            return None
        return [_part(part) for part in assertions if not graded or _is_graded(part)]

    parsed = scored_items(rows, fields, parts, ("outputs without an assertion", "assertions without a score"))
    notes = list(parsed.notes)
    if every and not graded:
        notes.insert(0, "no assertion was graded by a model: all assertions are used")
    elif others := len(every) - len(graded):
        notes.append(f"assertions not graded by a model, omitted: {others} of {len(every)}")
    if strange := len(results) - len(rows):
        notes.append(f"results that are not objects, omitted: {strange} of {len(results)}")
    return replace(parsed, notes=tuple(notes))


def _place(row: Row) -> tuple[int, int]:
    """Return the position of a row in the config: its test and its prompt, 0 where they are not numbered."""
    test, prompt = (row.get(key) for key in ("testIdx", "promptIdx"))
    return test if isinstance(test, int) else 0, prompt if isinstance(prompt, int) else 0


def _variables(row: Row) -> Row:
    return row.get("vars") or {}


def _prompt(row: Row) -> Row:
    """Return the prompt of an output: its text as `raw`, and its label if it has one."""
    prompt = row.get("prompt") or {}
    return prompt if isinstance(prompt, Mapping) else {"raw": prompt}


def _failure(row: Row) -> str | None:
    # The row's error can also report a failed assertion.
    failed = row.get("failureReason") in (None, _FAULT) or not row.get("gradingResult")
    return str(row["error"]) if failed and row.get("error") else None


def _part(part: Row) -> Part:
    assertion, failed = _assertion(part), bool((part.get("metadata") or {}).get("graderError"))
    score, value = None if failed else number(part.get("score")), assertion.get("value")
    name = str(assertion.get("metric") or assertion.get("type") or "score")
    reason = str(part.get("reason") or "") if score is not None else None
    return Part(name, score, reason, description=value if isinstance(value, str) else "")


def _assertions(row: Row) -> list[Row]:
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
        label = str(_prompt(row).get("label") or "")
        prompts.setdefault(_provider(row), {}).setdefault(row.get("promptIdx"), label)
    names = {}
    for provider, labels in prompts.items():
        labeled = len(set(labels.values())) == len(labels) and all(labels.values())
        for index, label in labels.items():
            part = f", {label if labeled else f'prompt {index}'}" if len(labels) > 1 else ""
            names[provider, index] = provider + part
    return names


IMPORTER = Importer("promptfoo", "promptfoo's results, --output results.json", _sniff, _read)
