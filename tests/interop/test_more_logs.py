"""Logs of pydantic-evals: each value as written, each judge by its model, and results of other evaluators counted."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from evalkit.errors import DatasetError
from evalkit.interop import ImportedJudgments, Options, import_judgments, recognize_format
from tests.support.import_layouts import PYDANTIC_EVALS


@pytest.fixture
def read(write):
    def make(name: str, file: str, content: Any, **options: Any) -> ImportedJudgments:
        path = write(file, content)
        assert recognize_format(path) == name
        return import_judgments(name, path, Options(**options))

    return make


def report(**options: Any) -> tuple[str, str, Any]:
    return "pydantic_evals", "report.json", deepcopy(PYDANTIC_EVALS)


def test_a_report_has_each_judges_scores_texts_and_repeats(read):
    found = read(*report())
    ok = [one for one in found.judgments if one.status == "ok"]
    written = [
        (case["source_case_name"], part["source"]["arguments"]["model"], {name: part["value"]}, part["reason"])
        for case in PYDANTIC_EVALS["cases"]
        for name, part in case["scores"].items()
        if part["source"]["name"] == "LLMJudge"
    ]
    assert [(one.case_id, one.judge, dict(one.criteria), one.completion.text) for one in ok] == written
    assert [one.sample for one in ok if one.case_id == "france"] == [0, 0, 1, 1]
    failed = [(one.case_id, one.judge, one.status, one.error) for one in found.judgments if one.status != "ok"]
    error = "RuntimeError: the task failed"
    assert failed == [("fails", f"function:judge-{number}", "failed", error) for number in (1, 2)]
    assert found.settings["criteria"]["brief"]["description"] == "The answer is short."
    first, *_, chat, _ = found.cases
    assert (first.prompt, first.reference, first.metadata) == ("Capital of France?", "Paris", {"region": "west"})
    assert [(one.text, one.model) for one in first.responses] == [("Paris", "model-a")]
    assert (chat.prompt, chat.responses[0].text) == ('{"question": "Capital of Spain?", "lang": "en"}', "Madrid")
    others = sum(len(case["labels"]) + len(case["evaluator_failures"]) for case in PYDANTIC_EVALS["cases"])
    others += sum(one["source"]["name"] != "LLMJudge" for case in PYDANTIC_EVALS["cases"]
                  for kind in ("scores", "assertions") for one in case[kind].values())  # fmt: skip
    assert f"results of evaluators that are no judges, omitted: {others}" in found.notes


def test_an_assertion_is_the_verdict_of_a_judge_without_a_score_and_a_failed_judge_failed(read):
    name, file, content = report()
    for case in content["cases"]:
        del case["scores"]["correct_score"]
    broken = content["cases"][0]
    failure = {"name": "LLMJudge", "error_message": "no answer", "source": broken["scores"].pop("brief")["source"]}
    broken["evaluator_failures"].append(failure)
    found = read(name, file, content)
    verdicts = {(one.case_id, one.sample, one.judge): dict(one.criteria) or one.error for one in found.judgments}
    assert verdicts["france", 0, "function:judge-1"] == {"correct_pass": 1.0}
    assert verdicts["italy", 0, "function:judge-1"] == {"correct_pass": 0.0}
    assert verdicts["france", 0, "function:judge-2"] == "no answer"


def test_an_evaluator_is_a_judge_only_if_it_is_named(read):
    name, file, content = report()
    for case in content["cases"]:
        for kind in ("scores", "assertions"):
            case[kind] = {key: one for key, one in case[kind].items() if one["source"]["name"] != "LLMJudge"}
    with pytest.raises(DatasetError, match=r"--judge NAME \(Tone, Broken, EqualsExpected\)"):
        read(name, file, content)
    found = read(name, file, content, judge="EqualsExpected")
    assert [dict(one.criteria) for one in found.judgments][:3] == [{"EqualsExpected": value} for value in (1, 1, 0)]


def test_check_says_what_it_can_about_two_judges_without_labels(write, tmp_path, capsys, monkeypatch):
    from evalkit.cli import main

    monkeypatch.chdir(tmp_path)
    path = write("report.json", json.dumps(PYDANTIC_EVALS))
    assert main(["check", str(path), "--output", "run", "scoring.bootstrap=0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines[:2]] == ["function:judge-1", "function:judge-2"]
    assert all("Label about" in line for line in lines[:2])
