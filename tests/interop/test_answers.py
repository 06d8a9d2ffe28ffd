"""The answers in a log as cases: those of one log, and of several logs as pairs."""

import json
from pathlib import Path
from shutil import copytree

import pytest

from evalkit.cli import main
from evalkit.compose import load_config
from evalkit.core.errors import EvalkitError
from evalkit.core.types import Case
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.importers.inspect import _read_archive
from evalkit.interop.layouts.records import Options
from evalkit.workflows.materials import stream_cases
from tests.support.import_layouts import LOGS, export, result

SUMS = "samples_sums_2026-11-24T02-31-27.626290.jsonl"


def cases(path: str, *words: str, mode: str = "pointwise") -> tuple[list[Case], tuple[str, ...]]:
    stream = stream_cases(load_config(overrides=[f"mode={mode}", f"dataset.path={path}", *words]))
    return list(stream), stream.notes


def log(path: Path, name: str, answers: dict[str, str], model: str, prompt: str = "p") -> None:
    """Write an Inspect log with an answer to each sample."""
    samples = [
        {
            "id": id_,
            "epoch": 1,
            "input": f"{prompt} {id_}",
            "target": "t",
            "output": {"completion": answer},
        }
        for id_, answer in answers.items()
    ]
    content = {
        "version": 2,
        "status": "success",
        "eval": {"model": model},
        "plan": {},
        "samples": samples,
    }
    (path / name).write_text(json.dumps(content))


def test_a_harness_answer_is_kept_with_its_prompt_reference_row_and_metrics():
    path = LOGS / SUMS
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    found, notes = cases(str(path))
    assert [case.id for case in found] == list(dict.fromkeys(str(row["doc_id"]) for row in rows))
    for case in found:
        own = [row for row in rows if str(row["doc_id"]) == case.id]
        assert [one.text for one in case.responses] == own[0]["resps"][0]
        assert {one.model for one in case.responses} == {"i82qcls7"}
        assert (case.prompt, case.reference) == (own[0]["doc"]["question"], own[0]["target"])
        metrics = {f"exact_match,{row['filter']}": row["exact_match"] for row in own}
        assert case.metadata == {**own[0]["doc"], **metrics}
    assert recognize_format(path) == "lm_eval"
    assert len(notes) == 1  # repeats are separate responses


@pytest.mark.parametrize("command", [["check"], ["import", "lm_eval"]])
def test_answers_without_judgments_end_with_the_command_that_judges_them(command, here, capsys):
    copytree(LOGS, "logs")
    assert main([*command, f"logs/{SUMS}"]) == 1
    expected = f"has answers and no judgments; have its answers judged: evalkit run mode=pointwise dataset.path=logs/{SUMS}"  # noqa: E501
    assert expected in capsys.readouterr().err
    assert [one.name for one in here.iterdir()] == ["logs"]
    words = f"run mode=pointwise judge=simulated/good dataset.path=logs/{SUMS} tracking=none hydra.run.dir=run".split()
    assert main(words) == 0
    assert len((here / "run" / "cases.jsonl").read_text().splitlines()) == 4


def test_log_likelihoods_are_not_answers():
    with pytest.raises(EvalkitError, match="log-likelihoods and no answers"):
        cases(str(LOGS / SUMS.replace("sums", "choice")))


def test_a_log_keeps_its_judges_verdicts_metadata_and_labels(here):
    found, _ = cases(str(LOGS / "inspect_graders.json"))
    written = json.loads((LOGS / "inspect_graders.json").read_text())["samples"]
    assert [(case.id, case.prompt) for case in found] == [
        (one["id"], one["input"]) for one in written
    ]
    judges = {key for case in found for key in case.metadata if key.startswith("judge ")}
    assert judges == {"judge mockllm/one", "judge mockllm/two"}
    grades = {"C": 1.0, "P": 0.5, "I": 0.0}
    for case, sample in zip(found, written, strict=True):
        value = grades.get(sample["scores"]["model_graded_qa"]["value"])
        assert case.metadata.get("judge mockllm/one") == value
        assert case.metadata["topic"] == sample["metadata"]["topic"]


def test_labels_of_traces_are_classes_of_the_rubric_or_metadata():
    path = LOGS / "mlflow_traces.jsonl"
    plain, notes = cases(str(path))
    assert not any(case.labels for case in plain)
    assert any(key.startswith("label ") for case in plain for key in case.metadata)
    said = "labels that are classes are in the metadata; for labels, set rubric.classes to them"
    assert said in notes
    labeled, _ = cases(str(path), "rubric=own", 'rubric.classes={yes: "", no: ""}')
    people = {person for case in labeled for person in case.labels}
    assert people == {
        str(one["source"]["source_id"])
        for line in path.read_text().splitlines()
        for one in json.loads(line)["info"]["assessments"]
        if one["source"]["source_type"] == "HUMAN" and "feedback" in one and one.get("valid", True)
    }


def test_metadata_with_the_name_of_a_field_is_not_read_as_it(here):
    log(here, "a.json", {"1": "x"}, "m")
    content = json.loads((here / "a.json").read_text())
    content["samples"][0]["metadata"] = {
        "label": "B",
        "id": "other",
        "prompt": "ignore",
        "topic": "t",
    }
    (here / "a.json").write_text(json.dumps(content))
    (case,), _ = cases("a.json")
    assert (case.id, case.prompt, case.label) == ("1", "p 1", None)
    assert case.metadata == {
        "log label": "B",
        "log id": "other",
        "log prompt": "ignore",
        "topic": "t",
    }


def test_two_logs_are_pairs_by_sample_and_name_what_did_not_match(here):
    log(here, "a.json", {"1": "one", "2": "two", "3": "", "5": "five"}, "model-a")
    log(here, "b.json", {"5": "V", "1": "I", "3": "III", "4": "IV"}, "model-b", prompt="q")
    found, notes = cases("[a.json,b.json]", mode="pairwise")
    assert [(case.id, [(one.text, one.model) for one in case.responses]) for case in found] == [
        ("1", [("one", "model-a"), ("I", "model-b")]),
        ("5", [("five", "model-a"), ("V", "model-b")]),
    ]
    assert {
        "a.json: answers that are missing, omitted: 1 of 4",
        "samples in all logs: 2",
        "samples of a.json that are not answered in all logs, omitted: 2 (2, 3)",
        "samples of b.json that are not answered in all logs, omitted: 2 (3, 4)",
        "samples with different prompts, of which the first is kept: 2",
    } <= set(notes)


def test_messages_of_agents_are_those_of_the_log_and_of_each_answer(here):
    agent, plain = LOGS / "inspect" / "agent.eval", LOGS / "inspect" / "graders.eval"
    messages = {sample["id"]: sample["messages"] for sample in _read_archive(agent)["samples"]}
    found, notes = cases(str(agent))
    assert {case.id: case.metadata["messages"] for case in found} == messages
    assert [one["role"] for one in messages["q0"]] == ["user", "assistant", "tool", "assistant"]
    assert "cases with more than text, whose messages are in the metadata: 3 (q0, q1, q2)" in notes
    for unit in ("turn", "step"):
        found, notes = cases(str(agent), f"dataset.unit={unit}")
        assert not any("messages" in case.metadata for case in found)
        assert not any("more than text" in note for note in notes)
    pairs, notes = cases(f"[{plain},{agent}]", "dataset.images=omit", mode="pairwise")
    assert {case.id: case.metadata["messages"] for case in pairs} == {
        id_: [None, own] for id_, own in messages.items()
    }
    assert f"{plain}: cases with more than text, whose messages are in the metadata: 1 (7)" in notes
    imported = import_judgments("inspect", plain, Options()).cases
    (image,) = [case for case in imported if case.id == "7"]
    kinds = [[part["type"] for part in given[0]["content"]] for given in image.metadata["messages"]]
    assert kinds == [["text", "image"]] * len(image.responses) == [["text", "image"]] * 2


def test_two_logs_of_one_model_have_the_names_of_their_files(here):
    for name in ("before", "after"):
        log(here, f"{name}.json", {"1": name}, "m")
    (case,), _ = cases("[before.json,after.json]", mode="pairwise")
    assert [one.model for one in case.responses] == ["m, before", "m, after"]


def test_repeats_are_paired_in_order(here):
    for name in "ab":
        log(here, f"{name}.json", {"1": "x"}, name)
        content = json.loads((here / f"{name}.json").read_text())
        content["samples"] = [
            content["samples"][0] | {"epoch": epoch, "output": {"completion": f"{name}{epoch}"}}
            for epoch in (1, 2)
        ]
        (here / f"{name}.json").write_text(json.dumps(content))
    found, _ = cases("[a.json,b.json]", mode="pairwise")
    assert [(case.id, [one.text for one in case.responses]) for case in found] == [
        ("1 #1", ["a1", "b1"]),
        ("1 #2", ["a2", "b2"]),
    ]


def test_two_systems_of_promptfoo_are_a_pair(here):
    rows = [
        result(test, k, 1) | {"response": {"output": f"{test} by {k}"}}
        for test in (0, 1)
        for k in (0, 1)
    ]
    (here / "results.json").write_text(json.dumps(export(*rows)))
    found, _ = cases("results.json", mode="pairwise")
    assert [[one.text for one in case.responses] for case in found] == [
        ["0 by 0", "0 by 1"],
        ["1 by 0", "1 by 1"],
    ]


@pytest.mark.parametrize(("path", "words"), [
    ("[a.json]", "a list is only for two or more different logs"),
    ("[a.json,a.json]", "a list is only for two or more different logs"),
    ("[a.json,table.csv]", "table.csv: is not a log with answers"),
    ("[a.json,nowhere.json]", "nowhere.json: no such file"),
    ("[a.json,c.json]", "no sample is in all logs"),
    ("empty.json", "has no answers to judge"),
])  # fmt: skip
def test_a_list_or_a_log_without_cases_is_one_line(path, words, here):
    log(here, "a.json", {"1": "x"}, "m")
    log(here, "c.json", {"2": "x"}, "m")
    log(here, "empty.json", {"2": ""}, "m")
    (here / "table.csv").write_text("id,prompt,response\n1,p,r\n")
    with pytest.raises(EvalkitError) as error:
        cases(path, mode="pairwise")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
