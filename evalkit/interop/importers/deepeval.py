"""Import DeepEval test runs and evaluation results: each test case's output with its metrics' scores from 0 to 1."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.benchmarks.benchmark import Importer
from evalkit.benchmarks.judgment_files import Peek, load_json, number
from evalkit.benchmarks.layouts import Field, Part, scored_items
from evalkit.benchmarks.records import Options, ParsedFile

_LISTS = (
    "testCases",
    "test_cases",
    "conversationalTestCases",
    "conversational_test_cases",
    "testResults",
    "test_results",
)
_TEXTS = "input", "scenario", "actualOutput", "turns", "expectedOutput", "context", "retrievalContext"
_WRAPPED = "testRunData"
"""The key of the test run in .deepeval/.latest_test_run.json."""

_UNNAMED = "deepeval"
"""The judge of metrics that name no model."""

Case = Mapping[str, Any]


def _sniff(start: Peek) -> bool:
    cases = [start.row] if start.row else _cases(start.top)
    return any(isinstance(case, Mapping) and _get(case, "metricsData") is not None for case in cases)


def _read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each test case, with each metric as a criterion; a failed metric is missing.

    The response of a conversation is its full text. A test case without metrics was not judged and is omitted.
    """
    listed = _cases(load_json(path))
    cases = [case for case in listed if isinstance(case, Mapping)]
    ids: dict[str, str] = {}
    for case in cases:
        if options.answers or _get(case, "metricsData"):
            ids.setdefault(_key(case), f"{len(ids)} {case.get('name') or ''}".strip())
    judges = [*dict.fromkeys(model for case in cases for metric in _metrics(case) if (model := _model(metric)))]
    only = options.judge or (judges[0] if len(judges) == 1 else None)
    fields: dict[str, Field] = {
        "id": lambda item: ids[_key(item[0])],
        "prompt": lambda item: item[0].get("input") or item[0].get("scenario"),
        "response": _either("actualOutput", "turns"),
        "context": _either("context", "retrievalContext"),
        "reference": _either("expectedOutput", "expectedOutcome"),
        "metadata": _either("additionalMetadata", "metadata"),
        "judge": lambda item: item[1],
        "failure": lambda item: "; ".join(str(metric["error"]) for metric in item[2] if metric.get("error")),
    }
    items = [
        (case, judge, [metric for metric in _metrics(case) if judge in (only, _model(metric) or _UNNAMED)])
        for case in cases
        for judge in (
            [only] if only else dict.fromkeys(_model(metric) or _UNNAMED for metric in _metrics(case) or [{}])
        )
    ]
    names = "test cases without a metric", "metrics without a score"
    parsed = scored_items(items, fields, _parts, names, unjudged=options.answers)
    strange = len(listed) - len(cases)
    return (
        replace(parsed, notes=(*parsed.notes, f"cases that are not objects, omitted: {strange}")) if strange else parsed
    )


def _key(case: Case) -> str:
    """Return what identifies a test case: one with equal texts is the same, measured again."""
    return json.dumps([_get(case, name) for name in _TEXTS], sort_keys=True)


def _either(*names: str) -> Callable[[tuple[Case, str, Sequence[Case]]], Any]:
    return lambda item: next((value for name in names if (value := _get(item[0], name)) not in (None, "", [])), None)


def _cases(whole: Any) -> list[Any]:
    if isinstance(whole, Mapping):
        run = whole.get(_WRAPPED, whole)
        whole = [case for name in _LISTS for case in run.get(name) or ()] if isinstance(run, Mapping) else []
    return whole if isinstance(whole, list) else []


def _get(case: Case, name: str) -> Any:
    """Return the value of a camel-case key, or of the same key in snake case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return case.get(name, case.get(snake))


def _metrics(case: Case) -> list[Case]:
    return [one for one in _get(case, "metricsData") or [] if isinstance(one, Mapping)]


def _model(metric: Case) -> str | None:
    model = _get(metric, "evaluationModel")
    return str(model) if model else None


def _parts(item: tuple[Case, str, Sequence[Case]]) -> Sequence[Part] | None:
    scored = ((metric, None if metric.get("error") else number(metric.get("score"))) for metric in item[2])
    parts = [
        Part(str(metric.get("name")), score, None if score is None else metric.get("reason"))
        for metric, score in scored
    ]
    return parts or None


IMPORTER = Importer("deepeval", "DeepEval's test run or evaluation result as JSON", _sniff, _read, is_log=True)
