"""DeepEval's test runs and evaluation results: each test case's output with its metrics' scores from 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.exchange.files import Peek, load_object, number, text
from evalkit.exchange.records import Answer, Found, Options, Record, Said, lost

_LISTS = ("testCases", "test_cases", "testResults", "test_results")


def sniff(start: Peek) -> bool:
    """Say whether it is a test run or an evaluation result."""
    cases: list[Any] = next((start.top[name] for name in _LISTS if isinstance(start.top.get(name), list)), [])
    return bool(cases) and isinstance(cases[0], Mapping) and _get(cases[0], "metricsData") is not None


def read(path: Path, options: Options) -> Found:
    """Return a record for each test case, with each metric as a criterion; an error in a metric leaves it missing."""
    whole = load_object(path)
    cases = next(whole[name] for name in _LISTS if isinstance(whole.get(name), list))
    records = [_record(case, index, options) for index, case in enumerate(cases)]
    return Found(records, scale=(0.0, 1.0, 0.001))


def _get(case: Mapping[str, Any], name: str) -> Any:
    """Return what stands under a camel-case name, or the same in snake case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return case.get(name, case.get(snake))


def _record(case: Mapping[str, Any], index: int, options: Options) -> Record:
    metrics = [one for one in _get(case, "metricsData") or [] if isinstance(one, Mapping)]
    judges = [str(name) for one in metrics if (name := _get(one, "evaluationModel"))]
    judge = options.judge or (judges[0] if judges else "deepeval")
    scores, words = {}, []
    for one in metrics:
        score = number(one.get("score"))
        if score is not None and not one.get("error"):
            scores[str(one.get("name"))] = score
            words.append(str(one.get("reason") or ""))
    errors = "; ".join(str(one["error"]) for one in metrics if one.get("error"))
    said = (
        Said(judge, scores=scores, text="\n\n".join(word for word in words if word) or None)
        if scores
        else lost(judge, errors or "no score", status="failed" if errors else "unparseable")
    )
    answer = Answer("1", text(_get(case, "actualOutput")))
    context = text(_get(case, "context")) or text(_get(case, "retrievalContext")) or None
    reference = text(_get(case, "expectedOutput")) or None
    name = f"{index} {case.get('name') or ''}".strip()
    return Record(name, text(case.get("input")), (answer,), said, context=context, reference=reference)
