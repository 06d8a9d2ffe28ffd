"""Import DeepEval test runs and evaluation results: each test case's output with its metrics' scores from 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.benchmarks.judgment_files import Peek, load_json, number, text
from evalkit.benchmarks.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record

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


def sniff(start: Peek) -> bool:
    """Return whether a file is a test run, an evaluation result, or a list of test results."""
    cases = [start.row] if start.row else _cases(start.top)
    return any(_get(case, "metricsData") is not None for case in cases)


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each test case, with each metric as a criterion; a failed metric is missing.

    The response of a conversation is its full text. A test case without metrics was not judged and is omitted.
    """
    cases = _cases(load_json(path))
    judged = [case for case in cases if _get(case, "metricsData")]
    records = [_record(case, index, options) for index, case in enumerate(judged)]
    left_out = len(cases) - len(judged)
    notes = [f"test cases without a metric, omitted: {left_out} of {len(cases)}"] if left_out else []
    metrics = [metric for case in judged for metric in _metrics(case)]
    if failed := len(metrics) - sum(len(record.said.scores) for record in records):
        notes.append(f"metrics without a score: {failed} of {len(metrics)}")
    judges = sorted({str(name) for metric in metrics if (name := _get(metric, "evaluationModel"))})
    if len(judges) > 1 and not options.judge:
        notes.append(f"metrics have several judges ({', '.join(judges)}): a case uses that of its first metric")
    return ParsedFile(records, scale=(0.0, 1.0, 0.001), notes=tuple(notes))


def _cases(whole: Any) -> list[Case]:
    if isinstance(whole, Mapping):
        run = whole.get(_WRAPPED, whole)
        whole = [case for name in _LISTS for case in run.get(name) or ()] if isinstance(run, Mapping) else []
    return [case for case in whole if isinstance(case, Mapping)] if isinstance(whole, list) else []


def _metrics(case: Case) -> list[Case]:
    return [one for one in _get(case, "metricsData") or [] if isinstance(one, Mapping)]


def _get(case: Case, name: str) -> Any:
    """Return the value of a camel-case key, or of the same key in snake case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return case.get(name, case.get(snake))


def _record(case: Case, index: int, options: Options) -> Record:
    metrics = _metrics(case)
    judges = [str(name) for one in metrics if (name := _get(one, "evaluationModel"))]
    judge = options.judge or (judges[0] if judges else "deepeval")
    scores: dict[str, float] = {}
    words = []
    for one in metrics:
        score = number(one.get("score"))
        if score is not None and not one.get("error"):
            name = str(one.get("name"))
            same = sum(known == name or known.startswith(f"{name} ") for known in scores)
            scores[f"{name} {same + 1}" if same else name] = score
            words.append(str(one.get("reason") or ""))
    errors = "; ".join(str(one["error"]) for one in metrics if one.get("error"))
    said = (
        RecordedJudgment(judge, scores=scores, text="\n\n".join(word for word in words if word) or None)
        if scores
        else missing_record(judge, errors or "no score", status="failed" if errors else "unparseable")
    )
    turns = _get(case, "turns")
    answer = Answer("1", text(_get(case, "actualOutput")) or text(_turns(turns)))
    context = text(_get(case, "context")) or text(_get(case, "retrievalContext")) or None
    reference = text(_get(case, "expectedOutput")) or text(_get(case, "expectedOutcome")) or None
    name = f"{index} {case.get('name') or ''}".strip()
    prompt = text(case.get("input")) or text(case.get("scenario"))
    return Record(name, prompt, (answer,), said, context=context, reference=reference)


def _turns(turns: Any) -> Any:
    if not isinstance(turns, list):
        return None
    return [{"role": turn.get("role"), "content": turn.get("content")} for turn in turns if isinstance(turn, Mapping)]
