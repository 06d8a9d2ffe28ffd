"""Logs of several judges: each value as written, each judge by its model, and what is not a judge's counted."""

import json
from copy import deepcopy
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.core.errors import DatasetError, EvalkitError
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.layouts.criteria import OpenCriterionError
from evalkit.interop.layouts.records import ImportedJudgments, Options
from tests.support.import_layouts import (
    LOGS,
    MLFLOW_TRACES,
    PYDANTIC_EVALS,
    TEST_RUN,
    export,
    result,
)


@pytest.fixture
def read(write):
    def make(name: str, file: str, content: Any, **options: Any) -> ImportedJudgments:
        path = write(file, content)
        assert recognize_format(path) == name
        return import_judgments(name, path, Options(**options))

    return make


def report(**options: Any) -> tuple[str, str, Any]:
    return "pydantic_evals", "report.json", deepcopy(PYDANTIC_EVALS)


def test_an_assertion_is_the_verdict_of_a_judge_without_a_score_and_a_failed_judge_failed(read):
    name, file, content = report()
    for case in content["cases"]:
        del case["scores"]["correct_score"]
    broken = content["cases"][0]
    failure = {
        "name": "LLMJudge",
        "error_message": "no answer",
        "source": broken["scores"].pop("brief")["source"],
    }
    broken["evaluator_failures"].append(failure)
    found = read(name, file, content)
    verdicts = {
        (one.case_id, one.sample, one.judge): dict(one.criteria) or one.error
        for one in found.judgments
    }
    assert verdicts["france", 0, "function:judge-1"] == {"quality": 1.0}
    assert verdicts["italy", 0, "function:judge-1"] == {"quality": 0.0}
    assert verdicts["france", 0, "function:judge-2"] == "no answer"


def test_an_evaluator_is_a_judge_only_if_it_is_named(read):
    name, file, content = report()
    for case in content["cases"]:
        for kind in ("scores", "assertions"):
            case[kind] = {
                key: one for key, one in case[kind].items() if one["source"]["name"] != "LLMJudge"
            }
    with pytest.raises(DatasetError, match=r"--judge NAME \(Tone, Broken, EqualsExpected\)"):
        read(name, file, content)
    counted = "scores of graders that are not judges, omitted: 20 (Tone, Broken, EqualsExpected)"
    assert counted in read(*report()).notes
    found = read(name, file, content, judge="EqualsExpected")
    assert [dict(one.criteria) for one in found.judgments][:3] == [
        {"EqualsExpected": value} for value in (1, 1, 0)
    ]


def test_check_says_what_it_can_about_two_judges_without_labels(write, here, capsys):
    path = write("report.json", json.dumps(PYDANTIC_EVALS))
    assert main(["check", str(path), "--output", "run", "scoring.bootstrap=0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines[:2]] == [
        "function:judge-1",
        "function:judge-2",
    ]
    assert all("Label " in line for line in lines[:2])


GRADES = {"C": 1.0, "P": 0.5, "I": 0.0}


def inspect_log(name: str) -> dict[str, Any]:
    return json.loads((LOGS / f"inspect_{name}.json").read_text("utf-8"))


def test_scorers_of_an_inspect_log_are_judges_only_if_they_are_named(read):
    log = inspect_log("graders")
    omitted = "scores of graders that are not judges, omitted: 12 (match, length)"
    assert omitted in read("inspect", "log.json", log).notes
    assert {one.judge for one in read("inspect", "log.json", log, judge="match").judgments} == {
        "match"
    }
    only = {
        **log,
        "samples": [{**one, "scores": {"match": one["scores"]["match"]}} for one in log["samples"]],
    }
    with pytest.raises(DatasetError, match=r"no grader is a model; .* --judge NAME \(match\)"):
        read("inspect", "log.json", only)


def test_a_failed_sample_is_missing_and_an_incomplete_log_has_a_note(read):
    log = inspect_log("panel")
    log["samples"] = log["samples"][:4]
    log["samples"][1] |= {"scores": None, "error": {"message": "out of memory"}}
    found = read("inspect", "log.json", {**log, "status": "cancelled"})
    failed = [
        (one.case_id, one.status, one.error) for one in found.judgments if one.case_id == "s1"
    ]
    assert failed == [("s1", "failed", "out of memory")] * 3
    assert "the log is incomplete (cancelled): it has 4 of 6 samples" in found.notes
    found = read("inspect", "log.json", {**log, "invalidated": True})
    assert "the log is invalidated: it has 4 of 6 samples" in found.notes


def test_a_log_in_which_all_samples_failed_says_so(here, capsys):
    log = inspect_log("panel")
    for sample in log["samples"]:
        sample |= {"scores": None, "error": {"message": "out of memory"}}
    (here / "log.json").write_text(json.dumps(log), encoding="utf-8")
    assert main(["check", "log.json", "tracking=none"]) == 1
    printed = capsys.readouterr().err
    assert "judgments failed; repeat the evaluation" in printed
    assert "--map" not in printed


def test_what_people_made_of_a_score_is_a_label_and_other_edits_are_counted(read):
    log = inspect_log("graders")
    edits = [("C", "ann"), ("who knows", "bob"), ("I", None)]
    for sample, (value, author) in zip(log["samples"], edits, strict=False):
        score = sample["scores"]["model_graded_qa"]
        score["history"] = [dict(score), {"value": value, "provenance": {"author": author}}]
        score["value"] = value
    found = read("inspect", "log.json", log)
    assert [dict(case.labels) for case in found.cases][:3] == [
        {"ann": (1.0,)},
        {},
        {"annotator": (0.0,)},
    ]
    assert "edits of scores that are not grades, omitted: 1 of 3" in found.notes
    before = {
        (one.case_id, one.judge): one.criteria
        for one in read("inspect", "log.json", inspect_log("graders")).judgments
    }
    assert {(one.case_id, one.judge): one.criteria for one in found.judgments} == before


@pytest.mark.parametrize("command", [["check"], ["import", "inspect"]])
def test_the_scores_of_a_named_grader_are_labels(command, here, capsys):
    path, log = LOGS / "inspect_graders.json", inspect_log("graders")
    where = ["--output", "run"] if command == ["check"] else ["hydra.run.dir=run"]
    words = [
        *command, str(path), "--label", "match", *where, "tracking=none", "scoring.bootstrap=0",
    ]  # fmt: skip
    assert main(words) == 0
    cases = [
        json.loads(line) for line in (here / "run" / "cases.jsonl").read_text("utf-8").splitlines()
    ]
    given = [GRADES[sample["scores"]["match"]["value"]] for sample in log["samples"]]
    assert [case["labels"] for case in cases] == [{"match": [value]} for value in given]
    manifest = json.loads((here / "run" / "manifest.json").read_text("utf-8"))
    assert {one["name"] for one in manifest["judges"]} == {"mockllm/one", "mockllm/two"}
    assert any("not judges, omitted: 6 (length)" in note for note in manifest["notes"])
    capsys.readouterr()
    assert main(["check", str(path), "--label", "matc", "--output", "other"]) == 1
    assert "--label matc: no such grader; did you mean 'match'" in capsys.readouterr().err


def test_each_model_of_deepevals_metrics_is_a_judge(read):
    metrics = [
        {"name": "Correct", "score": 0.8, "evaluationModel": "gpt-5", "reason": "why"},
        {"name": "Polite", "score": 0.4, "evaluationModel": "claude"},
        {"name": "Short", "score": 1.0, "evaluationModel": "claude"},
    ]
    cases = [
        {"name": str(n), "input": "q", "actualOutput": "a", "metricsData": metrics}
        for n in range(2)
    ]
    found = read(
        "deepeval",
        "run.json",
        {"testCases": [*cases, "text", None, {"name": "none", "metricsData": []}]},
    )
    values = {one.judge: one.criteria["quality"] for one in found.judgments}
    assert values == {"gpt-5": 0.8, "claude Polite": 0.4, "claude Short": 1.0}
    assert "cases that are not objects, omitted: 2 of 5" in found.notes
    assert "cases that no judge scored, omitted: 1 of 3" in found.notes


def of_deepeval(*labels):
    metric = {"name": "Correct", "evaluationModel": "gpt-5"}
    return {
        "testCases": [
            {
                "input": f"q{number}",
                "actualOutput": "a",
                "metricsData": [{**metric, "score": number % 5 / 4}],
                "additionalMetadata": {name: said[number % len(said)] for name, said in labels},
            }
            for number in range(10)
        ]
    }


def test_what_people_said_in_the_metadata_of_a_log_is_a_label(read):
    found = read("deepeval", "run.json", of_deepeval(("human_verdict", ("yes", "no"))))
    assert [case.labels for case in found.cases][:2] == [
        {"human_verdict": (1.0,)},
        {"human_verdict": (0.0,)},
    ]
    assert not any("human_verdict" in case.metadata for case in found.cases)
    # `--map` gives words a grade or none, and other words are an error.
    said = ("human_verdict", ("fine", "poor", "unsure"))
    words = {"fine": "5", "poor": "fail", "unsure": "NONE"}
    mapped = read("deepeval", "run.json", of_deepeval(said), winners=words)
    assert [one.labels.get("human_verdict") for one in mapped.cases][:3] == [(5.0,), (0.0,), None]
    with pytest.raises(EvalkitError, match=r"no rater in .* says this; did you mean 'poor'"):
        read("deepeval", "run.json", of_deepeval(said), winners={"por": "fail"})
    with pytest.raises(EvalkitError, match="the labels of a log are grades"):
        read("deepeval", "run.json", of_deepeval(said), winners={"poor": "blue"})
    assert "read as labels: human_verdict" in found.notes
    measured = (("human_minutes", (3, 9)), ("manual", (True,)), ("human_verified", (True, False)))
    found = read("deepeval", "run.json", of_deepeval(*measured))
    assert not any(case.labels for case in found.cases)
    # on another scale only the order counts, and names or words of people are no grades
    found = read(
        "deepeval", "run.json", of_deepeval(("expert_score", (1, 5)), ("annotator", ("kim", "lee")))
    )
    assert [next(iter(case.labels.values())) for case in found.cases][:2] == [(1.0,), (5.0,)]
    assert found.settings["rubric"]["real"] is True
    with pytest.raises(EvalkitError, match="labels of several criteria in its metadata"):
        read("deepeval", "run.json", of_deepeval(("human_tone", (1, 0)), ("human_truth", (0, 1))))


def test_people_are_compared_with_one_criterion_of_a_judge(read):
    def with_tone(label):
        log = of_deepeval((label, (1, 0)))
        for case in log["testCases"]:
            [metric] = case["metricsData"]
            case["metricsData"].append({**metric, "name": "Tone [GEval]", "score": 0.25})
        return log

    # The column names the criterion.
    found = read("deepeval", "run.json", with_tone("human_tone"))
    assert [dict(one.criteria) for one in found.judgments] == [{"Tone [GEval]": 0.25}] * 10
    # It names none, and each printed answer is one reading.
    with pytest.raises(OpenCriterionError, match="a judge of several criteria") as question:
        read("deepeval", "run.json", with_tone("human_score"))
    read_criteria = []
    for _, options in question.value.answers:
        chosen = dict(zip(options[::2], options[1::2], strict=True))
        named = {"dimension": chosen["--label"], "judge": chosen.get("--judge")}
        answered = read("deepeval", "run.json", with_tone("human_score"), **named)
        assert {one.judge for one in answered.judgments} == {"gpt-5"}
        read_criteria.append([*answered.judgments[0].criteria])
    assert read_criteria == [["Correct"], ["Tone [GEval]"], ["Correct", "Tone [GEval]"]]


def test_one_assessment_of_traces_is_selected_and_others_are_counted(read):
    found = read("mlflow_traces", "traces.jsonl", MLFLOW_TRACES)
    omitted = "omitted: values of 'quality' (4), scores of code (4)"
    assert f"assessments that are not compared, {omitted}" in found.notes
    # `search_traces` returns a row for each trace, whose parts a CSV file has as texts.
    rows = [
        {
            "trace_id": trace["info"]["trace_id"],
            "assessments": repr(trace["info"]["assessments"]),
            "spans": json.dumps(trace["data"]["spans"]),
            "tags": "{}",
            "request": "",
        }
        for trace in MLFLOW_TRACES
    ]
    flat = read("mlflow_traces", "rows.jsonl", rows)
    assert flat.judgments == found.judgments
    quality = read("mlflow_traces", "traces.jsonl", MLFLOW_TRACES, dimension="quality")
    assert [(one.judge, dict(one.criteria)) for one in quality.judgments] == [
        ("judge-2", {"quality": 4.0})
    ] * 4
    # The words of the file are mapped, and other words are an error.
    words = {"true": "no", "false": "yes"}
    mapped = read("mlflow_traces", "traces.jsonl", MLFLOW_TRACES, winners=words)
    assert [case.labels for case in mapped.cases] != [case.labels for case in found.cases]
    with pytest.raises(EvalkitError, match=r"no rater in .* says this; did you mean 'true'"):
        read("mlflow_traces", "traces.jsonl", MLFLOW_TRACES, winners={"tru": "fine"})
    with pytest.raises(EvalkitError, match=r"no rater or criterion has this name"):
        read("mlflow_traces", "traces.jsonl", MLFLOW_TRACES, dimension="other")
    unlabeled = deepcopy(MLFLOW_TRACES)
    for trace in unlabeled:
        kept = [
            one for one in trace["info"]["assessments"] if one["source"]["source_type"] != "HUMAN"
        ]
        trace["info"]["assessments"] = kept
    with pytest.raises(OpenCriterionError, match="several criteria of different kinds"):
        read("mlflow_traces", "traces.jsonl", unlabeled)


@pytest.mark.slow
def test_check_reads_the_traces_of_an_experiment(mlflow_store, tmp_path, capsys, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    from mlflow.entities import AssessmentSource

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_store)
    mlflow.set_tracking_uri(mlflow_store)
    mlflow.set_experiment("chats")
    for number in range(3):
        with mlflow.start_span(name="answer") as span:
            span.set_inputs({"question": f"What is {number}?"})
            span.set_outputs(str(number))
        mlflow.flush_trace_async_logging()
        for kind, name in (("LLM_JUDGE", "judge"), ("HUMAN", "ann")):
            source = AssessmentSource(source_type=kind, source_id=name)
            mlflow.log_feedback(
                trace_id=span.trace_id, name="right", value=number != 1, source=source
            )
    assert main(["check", "mlflow-traces:chats", "--output", "run", "scoring.bootstrap=0"]) == 0
    assert "3 labels are too few" in capsys.readouterr().out.splitlines()[0]
    cases = [
        json.loads(line)
        for line in (tmp_path / "run" / "cases.jsonl").read_text("utf-8").splitlines()
    ]
    assert sorted(case["prompt"] for case in cases) == [f"What is {number}?" for number in range(3)]
    assert main(["check", "mlflow-traces:none", "--output", "other"]) == 1
    assert "no such experiment" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_promptfoos_graders_are_judges_and_repeats_are_answers_of_one_case(read):
    rows = [result(test, 0, score) for test, score in ((0, 1), (1, 0.5), (2, 0.25))]
    for row, answer in zip(rows, ("one", "two", "three"), strict=True):
        row |= {
            "vars": {"n": "x"},
            "response": {"output": answer},
            "prompt": {"raw": "Solve riddle x"},
        }
        row["testCase"] = {"vars": {"n": "x"}}
        second = deepcopy(row["gradingResult"]["componentResults"][1])
        second["assertion"]["provider"], second["score"] = {"id": "judge-2"}, 0.1
        row["gradingResult"]["componentResults"].append(second)
    content = export(*rows) | {
        "config": {"defaultTest": {"options": {"provider": {"id": "judge-1"}}}}
    }
    found = read("promptfoo", "results.json", content)
    assert [
        (one.case_id, one.unit, one.judge, one.criteria["llm-rubric"]) for one in found.judgments
    ] == [
        ("0", (place,), judge, score)
        for place, first in enumerate((1, 0.5, 0.25))
        for judge, score in (("judge-1", first), ("judge-2", 0.1))
    ]
    assert [one.text for one in found.cases[0].responses] == ["one", "two", "three"]
    assert "tests that repeat another one, read as more answers to it: 2" in found.notes
    for row in rows:  # tests without variables are told apart by their number only
        row |= {"vars": {}}
    assert len(read("promptfoo", "results.json", content).cases) == 3


def test_promptfoos_yaml_is_read(write):
    row = {"prompt": {"raw": "q"}, "response": {"output": "a"}, "vars": {"human_ok": "yes"}}
    grading = {"pass": True, "score": 1.0, "reason": "fine", "componentResults": []}
    whole = {"results": {"results": [{**row, "gradingResult": grading}]}}
    file = write("results.json", whole)
    path = file.rename(file.with_suffix(".yaml"))
    assert recognize_format(path) == "promptfoo"
    found = import_judgments("promptfoo", path, Options())
    assert found.cases[0].labels == {"human_ok": (1.0,)}
    path.write_text("results: {results: [}", encoding="utf-8")
    with pytest.raises(EvalkitError, match=r"results\.yaml: "):
        import_judgments("promptfoo", path, Options())


def test_a_deepeval_case_that_is_there_twice_is_judged_twice(read):
    content = deepcopy(TEST_RUN)
    for number, case in enumerate(content["testCases"]):
        case["input"] = f"question {number}"
    again = deepcopy(content["testCases"][0]) | {"name": "test_case_9"}
    again["metricsData"][0]["score"] = 0.25
    content["testCases"].append(again)
    found = read("deepeval", "test_run.json", content)
    first = [
        one.criteria["Answer Relevancy"]
        for one in found.judgments
        if one.case_id == "0 sample_test_case"
    ]
    assert first == [0.92, 0.25]
    assert "judged more than once in one order: read as samples: 1" in found.notes


@pytest.mark.parametrize("command", ["import", "check"])
def test_a_file_without_a_usable_verdict_is_one_line_and_writes_nothing(
    command, write, here, capsys
):
    write(
        "table.csv",
        "id,prompt,response,verdict,human\n"
        + "".join(f"{n},p,r{n},error,pass\n" for n in range(30)),
    )
    words = ["import", "generic", "table.csv", "--fields", "class=verdict"]
    arguments = words if command == "import" else ["check", "table.csv", "--judge", "verdict"]
    assert main([*arguments, "tracking=none"]) == 1
    printed = capsys.readouterr()
    assert "no row has a usable verdict" in printed.err, printed
    assert [one.name for one in here.iterdir()] == ["table.csv"]
