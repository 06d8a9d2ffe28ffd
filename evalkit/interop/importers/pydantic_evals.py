"""Import pydantic-evals reports as JSON: each case's output with the scores and
assertions of its LLM judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from evalkit.core.hashing import canonical_json
from evalkit.core.values import Json
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    Peek,
    load_object,
    number,
    subject,
)
from evalkit.interop.layouts.layouts import Field
from evalkit.interop.layouts.logs import Part, read_log
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_JUDGES = "LLMJudge", "GEval"
_RESULTS = "scores", "assertions"

Case = Json


def _sniff(start: Peek) -> bool:
    cases = start.top.get("cases")
    return isinstance(cases, list) and (
        "failures" in start.top or {*_RESULTS} <= cases[0].keys()
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each case and model that judges.

    Its criteria are the scores of its evaluators.

    An assertion of an evaluator that also gives a score is the same verdict, and is omitted. A case
    whose task failed is a failed judgment.
    """
    report = LocatedRow(load_object(path), str(path), file=path)
    fields: dict[str, Field] = {
        "id": ("source_case_name", "name"),
        "prompt": lambda case: subject(case.get("inputs")),
        "model": lambda _: report.get("name"),
        "response": lambda case: subject(case.get("output")),
        "reference": lambda case: subject(case.get("expected_output")),
        "metadata": "metadata",
        "failure": "error_message",
    }
    return read_log(
        path,
        [*report["cases"], *report.get("failures", ())],
        fields,
        _evaluator_results,
        options,
    )


def _evaluator_results(case: Case) -> Iterator[Part]:
    """Yield the results of a case's evaluators, failed ones last.

    Of a judge's score and assertion, only the score.
    """
    results = [
        result
        for kind in (*_RESULTS, "labels")
        for result in (case.get(kind) or {}).values()
    ]
    judge_sources = set()
    for result in (*results, *(case.get("evaluator_failures") or ())):
        source = result["source"]
        name = source["name"]
        arguments = source.get("arguments") or {}
        if not isinstance(arguments, Mapping):  # an only argument has no name
            arguments = {"rubric": arguments[0]}
        is_judge = name in _JUDGES or bool(arguments.get("model"))
        if is_judge:
            if (key := canonical_json(source)) in judge_sources:
                continue
            judge_sources.add(key)
        grader = str(arguments.get("model") or name) if is_judge else name
        failure = result.get("error_message") or ""
        text = str(arguments.get("rubric") or arguments.get("criteria") or "")
        value = result.get("value")
        reason = result.get("reason")
        score = number(value) if isinstance(value, bool | int | float) else None
        yield Part(
            str(result.get("name")),
            score,
            grader,
            is_judge,
            reason,
            failure=failure,
            description=text,
        )


IMPORTER = Importer(
    "pydantic_evals",
    "a pydantic-evals report as JSON",
    _sniff,
    _read_records,
    is_log=True,
)
