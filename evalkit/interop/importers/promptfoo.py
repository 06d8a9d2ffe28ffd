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
from evalkit.core.hashing import canonical_json

_BY_MODEL = ("rubric", "g-eval", "model-graded", "factuality", "closedqa", "relevance", "faithfulness", "recall", "llm")
_UNNAMED = "promptfoo"
"""The judge of assertions that name no grader."""
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
    """Return a record for each output and grader; its criteria are the model-graded assertions, or all if none is.

    A grader is the provider of an assertion or that of the config. An output without assertions was not judged and is
    omitted. A repeated test is one case: its answers are responses to the same prompt.
    """
    whole = {} if path.suffix == ".jsonl" else load_object(path)
    results = [row for _, row in rows_of(path)] if path.suffix == ".jsonl" else list(whole["results"]["results"])
    # Rows are in the order in which their tests finished, which differs from run to run.
    rows = sorted((row for row in results if isinstance(row, Mapping)), key=_place)
    every = [part for row in rows for part in _assertions(row)]
    graded = [part for part in every if _is_graded(part)]
    models, default, tests = _models(rows), _name(_default(whole)) or _UNNAMED, _tests(rows)
    judges = [*dict.fromkeys(_grader(part, default) for part in graded)] or [default]
    only = options.judge or (judges[0] if len(judges) == 1 else None)

    def chosen(row: Row, judge: str) -> list[Row]:
        used = [part for part in _assertions(row) if not graded or _is_graded(part)]
        return [part for part in used if judge in (only, _grader(part, default))]

    items = [
        (row, judge, chosen(row, judge))
        for row in rows
        for judge in ([only] if only else [one for one in judges if chosen(row, one)] or judges)
    ]
    fields: dict[str, Field] = {
        "id": lambda item: tests[id(item[0])],
        "prompt": lambda item: _prompt(item[0]).get("raw"),
        "model": lambda item: models[_provider(item[0]), item[0].get("promptIdx")],
        "response": lambda item: (item[0].get("response") or {}).get("output"),
        "judge": lambda item: item[1],
        "metadata": lambda item: {
            key: value for key, value in _variables(item[0]).items() if isinstance(value, _PLAIN)
        },
        "failure": lambda item: _failure(item[0]),
    }

    def parts(item: tuple[Row, str, list[Row]]) -> Sequence[Part] | None:
        unjudged = not _assertions(item[0]) and item[0].get("gradingResult")
        return None if unjudged else [_part(part) for part in item[2]]

    names = "outputs without an assertion", "assertions without a score"
    parsed = scored_items(items, fields, parts, names, unjudged=options.answers)
    notes = list(parsed.notes)
    if every and not graded:
        notes.insert(0, "no assertion was graded by a model: all assertions are used")
    elif others := len(every) - len(graded):
        notes.append(f"assertions not graded by a model, omitted: {others} of {len(every)}")
    if strange := len(results) - len(rows):
        notes.append(f"results that are not objects, omitted: {strange} of {len(results)}")
    if repeated := len({row.get("testIdx") for row in rows}) - len(set(tests.values())):
        notes.append(f"tests that repeat another one, read as more answers to it: {repeated}")
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


def _default(whole: Row) -> Any:
    """Return the grader in the config of an evaluation."""
    found: Any = whole
    for key in ("config", "defaultTest", "options", "provider"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _name(provider: Any) -> str:
    return str((provider.get("id") if isinstance(provider, Mapping) else provider) or "")


def _grader(part: Row, default: str) -> str:
    return _name(_assertion(part).get("provider")) or default


def _tests(rows: Sequence[Row]) -> dict[int, Any]:
    """Return the number of each row's test, which is that of its first repetition, or its variables."""
    first: dict[Any, Any] = {}
    tests = {}
    for row in rows:
        number, variables = row.get("testIdx"), _variables(row)
        if number is None:
            number = json.dumps(variables, ensure_ascii=False)
        elif variables and row.get("testCase"):
            number = first.setdefault(canonical_json([variables, row["testCase"]]), number)
        tests[id(row)] = number
    return tests


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


IMPORTER = Importer("promptfoo", "promptfoo's results, --output results.json", _sniff, _read, is_log=True)
