"""Import DeepEval test runs and evaluation results: each test case's output with its metrics' scores from 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
_WRAPPED = "testRunData"
"""The key of the test run in .deepeval/.latest_test_run.json."""

Case = Mapping[str, Any]


def _sniff(start: Peek) -> bool:
    cases = [start.row] if start.row else _cases(start.top)
    return any(_get(case, "metricsData") is not None for case in cases)


def _read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each test case, with each metric as a criterion; a failed metric is missing.

    The response of a conversation is its full text. A test case without metrics was not judged and is omitted.
    """
    cases = _cases(load_json(path))
    index = {id(case): index for index, case in enumerate(case for case in cases if _get(case, "metricsData"))}
    fields: dict[str, Field] = {
        "id": lambda case: f"{index[id(case)]} {case.get('name') or ''}".strip(),
        "prompt": ("input", "scenario"),
        "response": ("actualOutput", "actual_output", "turns"),
        "context": ("context", "retrievalContext", "retrieval_context"),
        "reference": ("expectedOutput", "expected_output", "expectedOutcome", "expected_outcome"),
        "judge": lambda case: options.judge or next(iter(_judges(case)), "deepeval"),
        "failure": lambda case: "; ".join(str(one["error"]) for one in _metrics(case) if one.get("error")),
    }
    parsed = scored_items(cases, fields, _parts, ("test cases without a metric", "metrics without a score"))
    judges = sorted({name for case in cases for name in _judges(case)})
    if len(judges) == 1 or options.judge or not judges:
        return parsed
    note = f"metrics have several judges ({', '.join(judges)}): a case uses that of its first metric"
    return replace(parsed, notes=(*parsed.notes, note))


def _cases(whole: Any) -> list[Case]:
    if isinstance(whole, Mapping):
        run = whole.get(_WRAPPED, whole)
        whole = [case for name in _LISTS for case in run.get(name) or ()] if isinstance(run, Mapping) else []
    return [case for case in whole if isinstance(case, Mapping)] if isinstance(whole, list) else []


def _get(case: Case, name: str) -> Any:
    """Return the value of a camel-case key, or of the same key in snake case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return case.get(name, case.get(snake))


def _metrics(case: Case) -> list[Case]:
    return [one for one in _get(case, "metricsData") or [] if isinstance(one, Mapping)]


def _judges(case: Case) -> list[str]:
    return [str(name) for metric in _metrics(case) if (name := _get(metric, "evaluationModel"))]


def _parts(case: Case) -> Sequence[Part] | None:
    if not _get(case, "metricsData"):
        return None
    scored = ((metric, None if metric.get("error") else number(metric.get("score"))) for metric in _metrics(case))
    return [Part(str(one.get("name")), score, None if score is None else one.get("reason")) for one, score in scored]


IMPORTER = Importer("deepeval", "DeepEval's test run or evaluation result as JSON", _sniff, _read)
