"""A file in each layout becomes a run, and a wrong file is refused with what it looks like."""

from __future__ import annotations

import json
from typing import Any
from zipfile import ZipFile

import pytest

from evalkit.cli import main
from evalkit.config import DatasetConfig
from evalkit.datasets import load_cases
from evalkit.errors import ConfigError, DatasetError
from evalkit.interop import Options, describe_file, formats, importers, recognize_format
from evalkit.interop import import_judgments as brought
from evalkit.plugins import iter_benchmarks
from tests.support.import_layouts import (
    BATCH,
    CASES,
    INSPECT,
    JUDGEBENCH,
    MT_PAIR,
    PROMETHEUS,
    QLORA,
    REWARD,
    SHAPES,
    UNIEVAL,
    WORDS,
)

SCORED = {
    "alpaca_eval": [
        ("1", [0, 1], 1.0),
        ("2", [0, 1], -0.8),
        ("3", [0, 1], 0.0),
        ("4", [0, 1], "unparseable"),
        ("5", [0, 1], 0.0),
    ],
    "mt_bench": [
        ("81", [0], {"quality": 7.0}),
        ("81", [1], {"quality": 3.0}),
        ("81 turn 2", [0], {"quality": 5.0}),
        ("81 turn 2", [1], "unparseable"),
    ],
    "arena_hard": [("u1", [0, 1], 1.0), ("u1", [1, 0], 0.0), ("u2", [0, 1], "unparseable"), ("u2", [1, 0], -1 / 3)],
    "judgebench": [("p1", [0, 1], 1.0), ("p1", [1, 0], -1.0), ("p2", [0, 1], -1.0), ("p2", [1, 0], "failed")],
    "llmbar": [("0", [0, 1], 1.0), ("0", [1, 0], 1.0), ("1", [0, 1], -1.0), ("1", [1, 0], "unparseable")],
    "qlora": [("1", [0, 1], 1.0), ("1", [1, 0], "unparseable")],
    "unieval": [
        (case, [k], {"overall": score, "coherence": 0.4})
        for case, k, score in [("1", 0, 0.9), ("1", 1, 0.3), ("2", 0, 0.1)]
    ],
    "prometheus": [
        ("1", [k], {"quality": float(s)}) for k, scores in enumerate([[5, 5, 5], [2, 3, 2]]) for s in scores
    ],
    "llm_rubric": [("a", [0], {"Q0": 4.0}), ("b", [0], {"Q0": 1.0}), ("c", [0], "unparseable")],
    "halluqa": [
        ("0", [0], {"not_hallucinated": 0.0}),
        ("1", [0], {"not_hallucinated": 1.0}),
        ("2", [0], "unparseable"),
    ],
    "reward_bench": [("hep-cpp/30", [0, 1], 1.0), ("hep-cpp/31", [0, 1], -1.0), ("donotanswer/32", [0, 1], 0.0)],
    "devai": [("01_Task", [0], {"0": "met", "1": "not_met", "2": None})],
    "paperbench": [("paper", [0], {"a": "met", "b": "not_met"})],
    "icescore": [
        ("0", [0], {"quality": 4.0}),
        ("0", [1], {"quality": 1.0}),
        ("1", [0], "unparseable"),
        ("1", [1], "unparseable"),
    ],
    "wildbench": [("w1", [0], {"quality": 7.0}), ("w2", [0], "unparseable")],
    "inspect": [("1", [0], {"model_graded_qa": 1.0}), ("1", [0], {"model_graded_qa": 0.0}), ("1", [0], "unparseable")],
    "promptfoo": [("0", [0], {"llm-rubric": 0.8}), ("1", [0], "failed")],
    "deepeval": [
        ("0 test_case_0", [0], {"Answer Relevancy": 1.0, "Correctness [GEval]": 0.4}),
        ("1 test_case_0", [0], "failed"),
    ],
    "openai_batch": [
        ("q-1", [0, 1], 1.0),
        ("q-1", [1, 0], -1.0),
        ("q-2", [0, 1], "unparseable"),
        ("q-2", [1, 0], "failed"),
    ],
    "mlflow_traces": [
        ("tr-faed6cb55df8fdee8200f55ae4eeaa12", [0], "ok"),
        ("tr-e8d993f827d4fc83e39bcf29c4be3f8b", [0], "failed"),
        ("tr-3b6510986cd55e6aa0e5dc2f6c4a341f", [0], "ok"),
        ("tr-2cb66bb0aaaa8cedbd0f8336f0c19db8", [0], "ok"),
    ],
    "pydantic_evals": [
        (case, [0], "failed" if score is None else {"quality": score})
        for case, score in [("france", 1.0), ("france", 1.0), ("italy", 0.25), ("chat", 0.25), ("fails", None)]
        for _judge in range(2)
    ],
}
ALSO_CASES = {
    "judgebench": "judgebench",
    "llmbar": "llmbar",
    "unieval": "topical_chat",
    "prometheus": "prometheus",
    "halluqa": "halluqa",
}
"""Files of judgments that hold a benchmark's cases, too: which one's."""
ITEMS = ("devai", "paperbench")


@pytest.fixture
def shape(bring, write):
    def make(name: str, *words: str):
        file, content = SHAPES[name]
        write("cases.jsonl", CASES)
        return bring(name, str(write(file, content)), *WORDS.get(name, ()), *words)

    return make


def test_every_format_has_a_shape():
    assert set(SHAPES) == set(formats()) - {"generic", "lm_eval", "otel_spans"} == set(SCORED)


FIGURES = {
    "alpaca_eval": "alpaca_eval/win_rate",
    "mt_bench": "mt_bench/score/vicuna",
    "arena_hard": "arena_hard/score",
    "judgebench": "judgebench/net_vote_accuracy",
    "llmbar": "llmbar/mean_accuracy",
    "halluqa": "halluqa/non_hallucination_rate",
    "reward_bench": "rewardbench/score",
    "devai": "devai/requirements_met",
    "paperbench": "paperbench/replication_score",
    "wildbench": "wildbench/score",
}
"""A metric by the rule of the benchmark whose judgments a format has."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_a_file_becomes_a_run_that_can_be_scored_again(shape, name):
    ran = shape(name)
    found = [
        (case, shown, value if isinstance(value, str) or name in ITEMS else pytest.approx(value))
        for case, shown, value in SCORED[name]
    ]
    assert ran.values == found
    missing = sum(isinstance(value, str) and value != "ok" for _, _, value in SCORED[name])
    counted = [ran.metrics[f"missing/{kind}"] for kind in ("unparseable", "failed", "refused")]
    assert sum(round(one["value"] * one["n"]) for one in counted) == missing
    if metric := FIGURES.get(name):
        manifest = ran.json("manifest.json")
        assert ran.metrics[metric]["value"] is not None
        assert manifest["dataset"]["benchmark"]["name"] == metric.partition("/")[0]
        assert any("license" in note for note in manifest["notes"])
    assert main(["score", str(ran.folder), "scoring.bootstrap=10"]) == 0
    assert ran.values == found


@pytest.mark.parametrize("name", SHAPES)
def test_a_wrong_file_is_told_what_it_looks_like(write, name):
    file, content = SHAPES[name]
    path = write(file, content)
    assert recognize_format(path) == name
    told = f"it looks like {name}: evalkit import {name} {path}"
    for wrong in set(formats()) - {name, "generic"}:
        with pytest.raises(DatasetError) as bad:
            brought(wrong, path, Options())
        assert str(bad.value) == f"{path}: does not look like {wrong}; {told}"
    if name not in ("mt_bench", "qlora", "wildbench"):  # which have a column `score`
        with pytest.raises(ConfigError) as silent:
            brought("generic", path, Options())
        assert str(silent.value).endswith(told)


@pytest.mark.parametrize("name", SHAPES)
def test_judgments_named_as_cases_are_told_from_them(write, name):
    path = write(*SHAPES[name])
    own, cases = ALSO_CASES.get(name, name), name in ALSO_CASES
    for benchmark in {None, *(benchmark.name for benchmark in iter_benchmarks())} - ({own} if cases else set()):
        with pytest.raises(DatasetError) as bad:
            load_cases(DatasetConfig(benchmark=benchmark, path=str(path)), mode="pointwise", describe=describe_file)
        assert str(bad.value).endswith(f"use dataset={own}" if cases else f"evalkit import {name} {path}")


@pytest.mark.parametrize("name", ALSO_CASES)
def test_imported_cases_are_those_of_the_data_set_so_that_runs_of_both_can_be_compared(write, name):
    file, content = SHAPES[name]
    grades = {"naturalness": 1.0, "coherence": 1.0, "engagingness": 1.0, "groundedness": 1.0, "understandability": 1.0}
    if name == "unieval":
        both = {"scores": {**grades, "overall": 2.0}, "predict_scores": {**grades, "overall": 0.5}}
        content = [{**row, **both, "source": f"{row['source']} \n"} for row in content]
    path = write(f"Natural/evaluators/{file}" if name == "llmbar" else file, content)
    found = brought(name, path, Options()).cases
    cases = load_cases(DatasetConfig(benchmark=ALSO_CASES[name], path=str(path)), mode="pointwise").cases
    assert [(case.prompt, case.context, case.reference, case.label) for case in found] == [
        (case.prompt, case.context, case.reference, case.label) for case in cases
    ]
    assert [[one.text for one in case.responses] for case in found] == [
        [one.text for one in case.responses] for case in cases
    ]
    if name != "llmbar":  # whose set the data set tells by the folder of the file itself
        assert [case.id for case in found] == [case.id for case in cases]


def test_unieval_scores_every_dimension_and_weighs_one(bring, write):
    names = ("naturalness", "coherence", "engagingness", "groundedness", "understandability", "overall")
    rows = [
        {
            **row,
            "scores": {name: human + k % 2 for k, name in enumerate(names)},
            "predict_scores": {name: machine - k * (n == 0) for k, name in enumerate(names)},
        }
        for n, (row, human, machine) in enumerate(zip(UNIEVAL, (4.0, 2.0, 1.0), (0.9, 0.3, 0.1), strict=True))
    ]
    ran = bring("unieval", str(write("topical_chat_result.json", rows)))
    assert ran.metrics["topical_chat/naturalness/spearman"]["value"] == pytest.approx(1)
    assert ran.metrics["topical_chat/overall/spearman"]["value"] == ran.metrics["agreement/spearman"]["value"] == -0.5
    assert ran.rows("cases.jsonl")[0]["metadata"]["grades"]["coherence"] == [5.0, 3.0]
    chosen = bring("unieval", "topical_chat_result.json", "--dimension", "naturalness").metrics
    assert chosen["agreement/spearman"]["value"] == pytest.approx(1)
    assert chosen["topical_chat/overall/spearman"]["value"] == -0.5
    wrong = bring("unieval", "topical_chat_result.json", "--dimension", "natural", status=1)
    assert "--dimension natural: no such dimension; did you mean 'naturalness'" in wrong.err
    summaries = [{**row, "doc_id": f"cnn-{row['source']}", "reference": "r"} for row in rows]
    for row in summaries:
        row["scores"] = row["predict_scores"] = dict.fromkeys(("coherence", "consistency", "fluency", "relevance"), 1)
    ran = bring("unieval", str(write("summeval_result.json", summaries)))
    assert "summeval/coherence/system/pearson" in ran.metrics
    assert [case["id"] for case in ran.rows("cases.jsonl")] == ["cnn-hi", "cnn-yo"]


def test_prometheus_own_scores_are_held_against_gpt4s(bring, write, shape):
    assert shape("prometheus").metrics["prometheus/pearson"]["value"] is None
    rows = [
        {**row, "prometheus_score": scores, "prometheus_output": ["x", "y", "z"]}
        for row, scores in zip(PROMETHEUS, ([4, 4, 5], [1, 2, 2]), strict=True)
    ]
    ran = bring("prometheus", str(write("output.jsonl", rows)))
    assert ran.metrics["prometheus/pearson"]["value"] == pytest.approx(1)
    assert {row["judge"] for row in ran.rows("judgments.jsonl")} == {"prometheus"}
    assert [one["grade"] for one in ran.rows("cases.jsonl")[0]["responses"]] == pytest.approx([5, 7 / 3])


def test_votes_of_people_beside_mt_bench_judgments(bring, write):
    vote = {"question_id": 82, "turn": 1, "model_a": "alpaca", "model_b": "vicuna"}
    votes = [
        {**vote, "winner": winner, "judge": judge}
        for winner, judge in [("model_b", ["expert_1"]), ("tie", "expert_2"), ("tie", "expert_2"), ("model_a", "gpt-4")]
    ]
    write("human_judgments.jsonl", votes)
    both = [{**MT_PAIR[0], "g2_winner": "model_1"}]
    ran = bring("mt_bench", str(write("gpt-4_pair.jsonl", both)))
    (case,) = ran.rows("cases.jsonl")
    assert case["labels"] == {"expert_1": "A", "expert_2": "TIE", "expert_2#2": "TIE"}
    assert ran.metrics["mt_bench/agreement"]["value"] == pytest.approx(1 / 3)
    assert ran.metrics["mt_bench/win_rate/vicuna"]["value"] == 1.0


def test_a_data_set_is_told_from_judgments(bring, write):
    pair = {key: value for key, value in JUDGEBENCH[0].items() if key not in ("judgments", "judge_name")}
    ran = bring("judgebench", str(write("data.jsonl", [pair])), status=1)
    assert "it has no judge's verdicts and looks like JudgeBench pairs; use dataset=judgebench" in ran.err


def test_texts_are_read_again_and_differences_listed(shape):
    ran = shape("llmbar")
    assert "texts read again: 4; 1 differ from the file" in ran.out
    assert "1 [0, 1]: stored B, read A" in ran.out
    (difference,) = ran.rows("differences.jsonl")
    assert (difference["case_id"], difference["stored"], difference["read"]) == ("1", "B", "A")
    assert ran.json("manifest.json")["dataset"]["name"] == "Vanilla/result"
    again = shape("llmbar", "--reread")
    assert again.values[2] == ("1", [0, 1], 1.0)
    assert not (shape("halluqa").folder / "differences.jsonl").exists()


def test_scores_are_read_again_too(shape):
    ran = shape("mt_bench")
    (difference,) = ran.rows("differences.jsonl")
    assert (difference["case_id"], difference["stored"], difference["read"]) == ("81 turn 2", "5", "6")


def test_what_the_files_tell_of_the_cases(shape, bring, write):
    arena = shape("arena_hard")
    case = arena.rows("cases.jsonl")[0]
    assert (case["prompt"], [one["text"] for one in case["responses"]]) == ("Sort a list.", ["sorted(x)", "x.sort()"])
    prometheus = shape("prometheus").rows("cases.jsonl")[0]
    assert (prometheus["prompt"], prometheus["reference"]) == ("Greet.", "Good day.")
    assert [one["text"] for one in prometheus["responses"]] == ["Hello from vicuna", "Hello from llama"]
    inspect = shape("inspect")
    assert inspect.rows("cases.jsonl")[0]["reference"] == "Scattering"
    assert inspect.metrics["samples/unanimous"]["value"] == 0
    judgebench = shape("judgebench")
    assert {row["judge"] for row in judgebench.rows("judgments.jsonl")} == {"gpt-4o"}
    assert judgebench.metrics["agreement/accuracy_first_order"]["value"] == 0.5
    pairs = bring("mt_bench", str(write("gpt-4_pair.jsonl", MT_PAIR)))
    assert pairs.values == [("82", [0, 1], 1.0), ("82", [1, 0], 0.0)]
    assert [one["text"] for one in pairs.rows("cases.jsonl")[0]["responses"]] == ["Scattering.", "Paint."]
    batch = shape("openai_batch")
    assert batch.rows("judgments.jsonl")[0]["completion"]["usage"] == {"prompt_tokens": 24, "completion_tokens": 8}


def test_a_batch_needs_its_cases(bring, write):
    ran = bring("openai_batch", str(write("out.jsonl", BATCH)), status=1)
    assert "a batch file has only answers; name its cases: dataset=file dataset.path=FILE" in ran.err
    write("cases.jsonl", [{**CASES[0], "id": "other"}])
    ran = bring("openai_batch", "out.jsonl", *WORDS["openai_batch"], status=1)
    assert "out.jsonl:1: custom_id 'q-1-ab' matches no case; set the pattern of ids: --custom-id" in ran.err


def test_scores_of_a_reward_model(bring, write):
    ran = bring("reward_bench", str(write("reward.json", REWARD)), "--scores")
    assert ran.values[:2] == [("hep-cpp/30", [0], {"reward": 1.5}), ("hep-cpp/30", [1], {"reward": 0.5})]
    assert ran.metrics["agreement/accuracy"]["value"] == pytest.approx(1 / 3)
    rows = [{key: value[n] if isinstance(value, list) else value for key, value in REWARD.items()} for n in range(3)]
    assert len(bring("reward_bench", str(write("rows.jsonl", rows))).values) == 3


def test_an_inspect_archive(bring, tmp_path):
    path = tmp_path / "log.eval"
    with ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({key: INSPECT[key] for key in ("version", "status", "eval")}))
        for sample in INSPECT["samples"]:
            archive.writestr(f"samples/1_epoch_{sample['epoch']}.json", json.dumps(sample))
    assert recognize_format(path) == "inspect"
    assert bring("inspect", str(path)).values == SCORED["inspect"]


def test_reviews_are_keyed_on_answer_ids(bring, write):
    def review(one: str, two: str, score: int) -> list[dict[str, Any]]:
        return [{**QLORA[0], "answer1_id": one, "answer2_id": two, "score": score}]

    write("pairwise/a-vs-b-gpt-4-reviewer.jsonl", [])
    write("pairwise/a-vs-b-gpt-4-reviewer-threeclass.jsonl", review("x", "y", 1))
    write("pairwise/b-vs-a-gpt-4-reviewer-threeclass.jsonl", review("y", "x", 2))
    write("pairwise/a-vs-c-gpt-4-reviewer-threeclass.jsonl", review("x", "z", 1))
    # This file's name has its systems the wrong way round.
    write("pairwise/c-vs-a-gpt-4-reviewer-threeclass.jsonl", review("x", "z", 1) + review("z", "x", 2))
    write("pairwise/b-vs-c-gpt-4-reviewer-threeclass.jsonl", review("y", "z", 3))
    ran = bring("qlora", "pairwise")
    (case,) = ran.rows("cases.jsonl")
    assert [response["model"] for response in case["responses"]] == ["a", "b", "c"]
    assert all(row["value"] == 1.0 for row in ran.rows("judgments.jsonl") if 0 in row["unit"])


LAYOUT = """
from evalkit.benchmarks.benchmark import Importer
from evalkit.benchmarks.judgment_files import rows_of
from evalkit.benchmarks.layouts import cells_of, record_of
from evalkit.benchmarks.records import ParsedFile

FIELDS = {
    "id": "task.id",
    "prompt": ("task.question", "task.text"),
    "response": "answers.0.content",
    "model": lambda row: row["system"].lower(),
    "score.truth": "grades.truth",
    "label": "vote",
    "text": "reason",
}


def read(path, options):
    return ParsedFile([record_of(cells_of(row, FIELDS), place, "response", options) for place, row in rows_of(path)])


IMPORTER = Importer("mine", "files of mine", lambda start: start.has("task", "grades"), read)
"""


def test_a_new_layout_is_one_file(bring, write, monkeypatch):
    added = write("added/mine.py", LAYOUT)
    monkeypatch.setattr(importers, "__path__", [*importers.__path__, str(added.parent)])
    rows = [
        {"task": {"id": 1, "text": "Why?"}, "answers": [{"content": "So."}], "system": "M", "grades": {"truth": score},
         "vote": 2, "reason": "Because."}
        for score in (3, None)
    ]  # fmt: skip
    path = write("rows.jsonl", rows)
    assert formats()["mine"] == "files of mine"
    assert recognize_format(path) == "mine"
    ran = bring("mine", str(path), "--judge", "judge-1")
    assert ran.values == [("1", [0], {"truth": 3.0}), ("1", [0], "unparseable")]
    (case,) = ran.rows("cases.jsonl")
    assert case["prompt"] == "Why?"
    assert [(one["text"], one["model"], one["grade"]) for one in case["responses"]] == [("So.", "m", 2.0)]
    assert [row["judge"] for row in ran.rows("judgments.jsonl")] == ["judge-1", "judge-1"]


@pytest.mark.parametrize("content", ["", "{", "[]", "[1]", "\x00", "a,b\n"])
def test_files_that_hold_nothing(bring, write, content):
    path = write("bad.json", content)
    ran = bring("llmbar", str(path), status=1)
    assert len(ran.err.strip().splitlines()) == 1
    assert str(path) in ran.err
