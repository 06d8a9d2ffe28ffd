"""Import pydantic-evals reports as JSON: each case's output with the scores and assertions of each LLMJudge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.benchmarks.benchmark import Importer
from evalkit.benchmarks.judgment_files import Peek, load_object, number, subject
from evalkit.benchmarks.layouts import Field, Part, scored_items
from evalkit.benchmarks.records import Options, ParsedFile
from evalkit.core.hashing import canonical_json
from evalkit.errors import DatasetError

_JUDGE = "LLMJudge"
_RESULTS = "scores", "assertions"

Case = Mapping[str, Any]


def _sniff(start: Peek) -> bool:
    cases = start.top.get("cases")
    return isinstance(cases, list) and ("failures" in start.top or {*_RESULTS} <= cases[0].keys())


def _read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each case and judge, with each LLMJudge's score as a criterion; it is a judge by its model.

    An assertion of an LLMJudge that also gives a score is the same verdict, and is omitted. Other evaluators are judges
    only if `options.judge` names them. A case whose task failed is a failed judgment.

    Raises:
        DatasetError: If no evaluator is a judge.
    """
    report = load_object(path)
    listed = [*report["cases"], *report.get("failures", ())]
    cases = [case for case in listed if isinstance(case, Mapping)]
    judges = dict.fromkeys(judge for case in cases for judge, _ in _verdicts(case, options))
    if options.answers and not judges:
        judges = {"": None}
    if not judges:
        names = dict.fromkeys(str(_source(result).get("name")) for case in cases for result in _results(case))
        remedy = f"if an evaluator is a judge, name it: --judge NAME ({', '.join(names) or 'the report has none'})"
        raise DatasetError("no case was judged by an LLMJudge", where=str(path), remedy=remedy)
    fields: dict[str, Field] = {
        "id": lambda item: str(item[0].get("source_case_name") or item[0]["name"]),
        "prompt": lambda item: subject(item[0].get("inputs")),
        "model": lambda _: report.get("name"),
        "response": lambda item: subject(item[0].get("output")),
        "reference": lambda item: subject(item[0].get("expected_output")),
        "metadata": lambda item: item[0].get("metadata"),
        "judge": lambda item: item[1],
        "failure": lambda item: item[0].get("error_message"),
    }

    def parts(item: tuple[Case, str]) -> Sequence[Part] | None:
        verdicts = [_part(result) for judge, result in _verdicts(item[0], options) if judge == item[1]]
        return verdicts if verdicts or "error_message" in item[0] else None

    items = [(case, judge) for case in cases for judge in judges]
    counted = "cases without a verdict of a judge", "verdicts without a score"
    parsed = scored_items(items, fields, parts, counted, unjudged=options.answers)
    values = [score for record in parsed.records for score in record.said.scores.values()]
    others = sum(not _grader(result, options) for case in cases for result in _results(case))
    notes = [*parsed.notes]
    if others:
        notes.append(f"results of evaluators that are no judges, omitted: {others}")
    if strange := len(listed) - len(cases):
        notes.append(f"cases that are not objects, omitted: {strange}")
    return replace(parsed, scale=parsed.scale if all(0 <= value <= 1 for value in values) else None, notes=tuple(notes))


def _results(case: Case) -> Iterator[Case]:
    """Yield the results of a case's evaluators, failed ones last; an evaluator may have several."""
    for kind in (*_RESULTS, "labels"):
        yield from (result for result in (case.get(kind) or {}).values() if isinstance(result, Mapping))
    yield from (result for result in case.get("evaluator_failures") or () if isinstance(result, Mapping))


def _verdicts(case: Case, options: Options) -> Iterator[tuple[str, Case]]:
    """Yield the name of a judge and its result; of a score and an assertion by one LLMJudge, only the score."""
    seen = set()
    for result in _results(case):
        if (judge := _grader(result, options)) and (key := canonical_json(result["source"])) not in seen:
            if _source(result)["name"] == _JUDGE:
                seen.add(key)
            yield judge, result


def _grader(result: Case, options: Options) -> str | None:
    """Return the name of the judge of a result: the model of an LLMJudge; `None` if it is another evaluator."""
    source = _source(result)
    if source.get("name") == _JUDGE:
        return str((source.get("arguments") or {}).get("model") or _JUDGE)
    return options.judge if source.get("name") == options.judge else None


def _source(result: Case) -> Case:
    source = result.get("source")
    return source if isinstance(source, Mapping) else {}


def _part(result: Case) -> Part:
    rubric = (_source(result).get("arguments") or {}).get("rubric")
    error = str(result.get("error_message") or "")
    value = result.get("value")
    score = number(value) if isinstance(value, bool | int | float) else None
    return Part(str(result.get("name")), score, result.get("reason"), error, rubric if isinstance(rubric, str) else "")


IMPORTER = Importer("pydantic_evals", "a pydantic-evals report as JSON", _sniff, _read, is_log=True)
