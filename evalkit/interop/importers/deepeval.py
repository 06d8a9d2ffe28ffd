"""Import DeepEval test runs and evaluation results: each test case's output with its
metrics' scores from 0 to 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.judgment_files import Peek, load_json, number
from evalkit.interop.layouts.layouts import Field
from evalkit.interop.layouts.logs import Part, read_log
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_LISTS = (
    "testCases",
    "test_cases",
    "conversationalTestCases",
    "conversational_test_cases",
    "testResults",
    "test_results",
)
_TEXTS = (
    "input",
    "scenario",
    "actualOutput",
    "turns",
    "expectedOutput",
    "context",
    "retrievalContext",
)
_WRAPPED = "testRunData"
"""The key of the test run in .deepeval/.latest_test_run.json."""
_EXTRAS = "tags", "comments", "expectedTools"
"""Keys of a test case that are metadata."""

Case = Json


def _sniff(start: Peek) -> bool:
    cases = [*_cases(start.top), start.row]
    return any(
        isinstance(case, Mapping) and _get(case, "metricsData") is not None
        for case in cases
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each test case and model, with its metrics as criteria.

    Metrics of code are no criteria.

    The response of a conversation is its full text. A test case with equal texts is the same,
    measured again.
    """
    whole = load_json(path)
    run = whole.get(_WRAPPED, whole) if isinstance(whole, Mapping) else {}
    settings = run.get("hyperparameters") or {}
    listed = _cases(whole)
    ids: dict[str, str] = {}
    for case in listed:
        if isinstance(case, Mapping) and (options.answers or _get(case, "metricsData")):
            ids.setdefault(_key(case), f"{len(ids)} {case.get('name') or ''}".strip())
    fields: dict[str, Field] = {
        "id": lambda case: ids.get(_key(case)),
        "prompt": ("input", "scenario"),
        "model": lambda _: settings.get("model"),
        "response": _either("actualOutput", "turns"),
        "context": _either("context", "retrievalContext"),
        "reference": _either("expectedOutput", "expectedOutcome"),
        "metadata": _metadata,
        "messages": _messages_of_case,
    }
    parsed = read_log(path, listed, fields, _parts, options, "deepeval")
    named = ", ".join(f"{key}={value}" for key, value in settings.items())
    return replace(
        parsed,
        notes=(
            *parsed.notes,
            *([f"hyperparameters of the run: {named}"] if named else []),
        ),
    )


def _key(case: Case) -> str:
    return json.dumps([_get(case, name) for name in _TEXTS], sort_keys=True)


def _either(*names: str) -> Callable[[Case], Any]:
    return lambda case: next(
        (value for name in names if (value := _get(case, name)) not in (None, "", [])),
        None,
    )


def _cases(whole: Any) -> list[Any]:
    if isinstance(whole, Mapping):
        run = whole.get(_WRAPPED, whole)
        if isinstance(run, Mapping):
            whole = [case for name in _LISTS for case in run.get(name) or ()]
        else:
            whole = []
    if isinstance(whole, list):
        return whole
    return []


def _get(case: Case, name: str) -> Any:
    """Return the value of a camel-case key, or of the same key in snake case."""
    snake = "".join(
        f"_{letter.lower()}" if letter.isupper() else letter for letter in name
    )
    return case.get(name, case.get(snake))


def _metadata(case: Case) -> JsonObject:
    extras = {name: value for name in _EXTRAS if (value := _get(case, name))}
    return {**extras, **(_either("additionalMetadata", "metadata")(case) or {})}


def _messages_of_case(case: Case) -> list[Any] | None:
    """Return the messages of a test case with tool calls."""
    if not (called := _get(case, "toolsCalled")):
        return None
    calls = [
        {
            "type": "function",
            "function": {
                "name": call.get("name"),
                "arguments": _get(call, "inputParameters"),
            },
        }
        for call in called
    ]
    answer = {
        "role": "assistant",
        "content": _get(case, "actualOutput"),
        "tool_calls": calls,
    }
    return [{"role": "user", "content": case.get("input")}, answer]


def _parts(case: Case) -> Iterator[Part]:
    for metric in _get(case, "metricsData") or ():
        if isinstance(metric, Mapping):
            failure = str(metric.get("error") or "")
            model = _get(metric, "evaluationModel")
            score = None if failure else number(metric.get("score"))
            reason = None if score is None else metric.get("reason")
            name = str(metric.get("name"))
            yield Part(
                name, score, str(model or name), bool(model), reason, failure=failure
            )


IMPORTER = Importer(
    "deepeval",
    "DeepEval's test run or evaluation result as JSON",
    _sniff,
    _read_records,
    is_log=True,
)
