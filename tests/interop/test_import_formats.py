"""A file in each layout becomes a run, and a wrong file is refused with what it looks like."""

from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from evalkit import benchmarks
from evalkit.config import DatasetConfig
from evalkit.core.benchmark_discovery import benchmarks_in, find_benchmark, iter_benchmarks
from evalkit.core.errors import ConfigError, DatasetError, EvalkitError
from evalkit.datasets import load_cases
from evalkit.interop import format_signs, importer_discovery, importers
from evalkit.interop.import_file import import_judgments as brought
from evalkit.interop.importer_discovery import describe_file, formats, recognize_format
from evalkit.interop.layouts.judgment_files import Peek
from evalkit.interop.layouts.records import Options
from tests.golden.runs import GOLDEN
from tests.support.exports import SHAPES as EXPORTS
from tests.support.exports import format_of
from tests.support.import_layouts import (
    BATCH,
    CASES,
    JUDGEBENCH,
    MT_PAIR,
    PROMETHEUS,
    QLORA,
    REWARD,
    SHAPES,
    UNIEVAL,
    WORDS,
)

ALSO_CASES = {
    "judgebench": "judgebench",
    "llmbar": "llmbar",
    "unieval": "topical_chat",
    "prometheus": "prometheus",
    "halluqa": "halluqa",
}
"""Files of judgments that hold a benchmark's cases, too: which one's."""


def test_every_format_has_a_file_whose_run_is_golden():
    exports = {format_of(name) for name in EXPORTS}
    assert {*SHAPES, *exports} == set(formats()) - {
        *("generic", "lm_eval", "otel_spans", "ultrafeedback"),
        *("anthropic_batch", "gemini_batch", "bedrock_batch", "preferences", "helpsteer2"),
        *("published_pairs", "oasst", "prm800k", "ranked_answers", "helm", "openevals"),
    }
    assert {f"import_{name}" for name in SHAPES} <= set(GOLDEN)


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


@pytest.mark.parametrize("name", sorted({*SHAPES} - {"openai_batch"}))
def test_a_mapped_word_that_no_rater_says_is_an_error(write, name):
    path = write(*SHAPES[name])
    with pytest.raises(EvalkitError) as unsaid:
        brought(name, path, Options(winners={"zzz": "A"}))
    assert str(unsaid.value).startswith(f"--map zzz=A: no rater in {path} says this; ")


@pytest.mark.parametrize("name", SHAPES)
def test_judgments_named_as_cases_are_told_from_them(write, name):
    path = write(*SHAPES[name])
    own, cases = ALSO_CASES.get(name, name), name in ALSO_CASES
    for benchmark in {None, *(benchmark.name for benchmark in iter_benchmarks())} - (
        {own} if cases else set()
    ):
        with pytest.raises(DatasetError) as bad:
            load_cases(
                DatasetConfig(benchmark=benchmark, path=str(path)),
                mode="pointwise",
                describe=describe_file,
            )
        needed = getattr(find_benchmark(own), "settings", "") if cases else ""
        assert str(bad.value).endswith(
            f"use dataset={own} {needed}".rstrip() if cases else f"evalkit import {name} {path}"
        )


@pytest.mark.parametrize("name", ALSO_CASES)
def test_imported_cases_are_those_of_the_data_set_so_that_runs_of_both_can_be_compared(write, name):
    file, content = SHAPES[name]
    grades = {
        "naturalness": 1.0,
        "coherence": 1.0,
        "engagingness": 1.0,
        "groundedness": 1.0,
        "understandability": 1.0,
    }
    if name == "unieval":
        both = {"scores": {**grades, "overall": 2.0}, "predict_scores": {**grades, "overall": 0.5}}
        content = [{**row, **both, "source": f"{row['source']} \n"} for row in content]
    path = write(f"Natural/evaluators/{file}" if name == "llmbar" else file, content)
    found = brought(name, path, Options()).cases
    cases = load_cases(
        DatasetConfig(benchmark=ALSO_CASES[name], path=str(path)), mode="pointwise"
    ).cases
    assert [(case.prompt, case.context, case.reference, case.label) for case in found] == [
        (case.prompt, case.context, case.reference, case.label) for case in cases
    ]
    assert [[one.text for one in case.responses] for case in found] == [
        [one.text for one in case.responses] for case in cases
    ]
    if name != "llmbar":  # whose set the data set tells by the folder of the file itself
        assert [case.id for case in found] == [case.id for case in cases]


def test_unieval_scores_every_dimension_and_weighs_one(bring, write):
    names = (
        *("naturalness", "coherence", "engagingness", "groundedness", "understandability"),
        "overall",
    )
    rows = [
        {
            **row,
            "scores": {name: human + k % 2 for k, name in enumerate(names)},
            "predict_scores": {name: machine - k * (n == 0) for k, name in enumerate(names)},
        }
        for n, (row, human, machine) in enumerate(
            zip(UNIEVAL, (4.0, 2.0, 1.0), (0.9, 0.3, 0.1), strict=True)
        )
    ]
    ran = bring("unieval", str(write("topical_chat_result.json", rows)))
    assert ran.metrics["topical_chat/naturalness/spearman"]["value"] == pytest.approx(1)
    assert (
        ran.metrics["topical_chat/overall/spearman"]["value"]
        == ran.metrics["agreement/spearman"]["value"]
        == -0.5
    )
    assert ran.rows("cases.jsonl")[0]["metadata"]["grades"]["coherence"] == [5.0, 3.0]
    chosen = bring("unieval", "topical_chat_result.json", "--dimension", "naturalness").metrics
    assert chosen["agreement/spearman"]["value"] == pytest.approx(1)
    assert chosen["topical_chat/overall/spearman"]["value"] == -0.5
    wrong = bring("unieval", "topical_chat_result.json", "--dimension", "natural", status=1)
    assert "--dimension natural: no such dimension; did you mean 'naturalness'" in wrong.err
    summaries = [{**row, "doc_id": f"cnn-{row['source']}", "reference": "r"} for row in rows]
    for row in summaries:
        row["scores"] = row["predict_scores"] = dict.fromkeys(
            ("coherence", "consistency", "fluency", "relevance"), 1
        )
    ran = bring("unieval", str(write("summeval_result.json", summaries)))
    assert "summeval/coherence/system/pearson" in ran.metrics
    assert [case["id"] for case in ran.rows("cases.jsonl")] == ["cnn-hi", "cnn-yo"]


def test_prometheus_own_scores_are_held_against_gpt4s(bring, write):
    rows = [
        {**row, "prometheus_score": scores, "prometheus_output": ["x", "y", "z"]}
        for row, scores in zip(PROMETHEUS, ([4, 4, 5], [1, 2, 2]), strict=True)
    ]
    ran = bring("prometheus", str(write("output.jsonl", rows)))
    assert ran.metrics["prometheus/pearson"]["value"] == pytest.approx(1)
    assert {row["judge"] for row in ran.rows("judgments.jsonl")} == {"prometheus"}
    assert [one["grade"] for one in ran.rows("cases.jsonl")[0]["responses"]] == pytest.approx(
        [5, 7 / 3]
    )


def test_votes_of_people_beside_mt_bench_judgments(bring, write):
    vote = {"question_id": 82, "turn": 1, "model_a": "alpaca", "model_b": "vicuna"}
    votes = [
        {**vote, "winner": winner, "judge": judge}
        for winner, judge in [
            ("model_b", ["expert_1"]),
            ("tie", "expert_2"),
            ("tie", "expert_2"),
            ("model_a", "gpt-4"),
        ]
    ]
    write("human_judgments.jsonl", votes)
    both = [{**MT_PAIR[0], "g2_winner": "model_1"}]
    ran = bring("mt_bench", str(write("gpt-4_pair.jsonl", both)))
    (case,) = ran.rows("cases.jsonl")
    assert case["labels"] == {"expert_1": "A", "expert_2": "TIE", "expert_2#2": "TIE"}
    assert ran.metrics["mt_bench/agreement"]["value"] == pytest.approx(1 / 3)
    assert ran.metrics["mt_bench/win_rate/vicuna"]["value"] == 1.0


def test_a_data_set_is_told_from_judgments(bring, write):
    pair = {
        key: value for key, value in JUDGEBENCH[0].items() if key not in ("judgments", "judge_name")
    }
    ran = bring("judgebench", str(write("data.jsonl", [pair])), status=1)
    assert "it has no judge's verdicts and looks like JudgeBench pairs; use" in ran.err


def test_texts_are_read_again_and_differences_counted_or_taken(bring, write):
    path = str(write(*SHAPES["llmbar"]))
    assert "texts read again: 4; 1 differ from the file" in bring("llmbar", path).out
    assert bring("llmbar", path, "--reread").values[2] == ("1", [0, 1], 1.0)


def test_a_batch_needs_its_cases(bring, write):
    ran = bring("openai_batch", str(write("out.jsonl", BATCH)), status=1)
    assert "a batch file has only answers; name its cases: dataset=file" in ran.err
    write("cases.jsonl", [{**CASES[0], "id": "other"}])
    ran = bring("openai_batch", "out.jsonl", *WORDS["openai_batch"], status=1)
    assert "out.jsonl:1: custom_id 'q-1-ab' matches no case; set the pattern of ids" in ran.err


def test_scores_of_a_reward_model(bring, write):
    ran = bring("reward_bench", str(write("reward.json", REWARD)), "--scores")
    assert ran.values[:2] == [
        ("hep-cpp/30", [0], {"reward": 1.5}),
        ("hep-cpp/30", [1], {"reward": 0.5}),
    ]
    assert ran.metrics["agreement/accuracy"]["value"] == pytest.approx(1 / 3)
    rows = [
        {key: value[n] if isinstance(value, list) else value for key, value in REWARD.items()}
        for n in range(3)
    ]
    assert len(bring("reward_bench", str(write("rows.jsonl", rows))).values) == 3


def test_reviews_are_keyed_on_answer_ids(bring, write):
    def review(one: str, two: str, score: int) -> list[dict[str, Any]]:
        return [{**QLORA[0], "answer1_id": one, "answer2_id": two, "score": score}]

    write("pairwise/a-vs-b-gpt-4-reviewer.jsonl", [])
    write("pairwise/a-vs-b-gpt-4-reviewer-threeclass.jsonl", review("x", "y", 1))
    write("pairwise/b-vs-a-gpt-4-reviewer-threeclass.jsonl", review("y", "x", 2))
    write("pairwise/a-vs-c-gpt-4-reviewer-threeclass.jsonl", review("x", "z", 1))
    # This file's name has its systems the wrong way round.
    write(
        "pairwise/c-vs-a-gpt-4-reviewer-threeclass.jsonl", review("x", "z", 1) + review("z", "x", 2)
    )
    write("pairwise/b-vs-c-gpt-4-reviewer-threeclass.jsonl", review("y", "z", 3))
    ran = bring("qlora", "pairwise")
    (case,) = ran.rows("cases.jsonl")
    assert [response["model"] for response in case["responses"]] == ["a", "b", "c"]
    assert all(row["value"] == 1.0 for row in ran.rows("judgments.jsonl") if 0 in row["unit"])


LAYOUT = """
from evalkit.interop.layouts.records import Importer
from evalkit.interop.layouts.judgment_files import rows_of
from evalkit.interop.layouts.layouts import cells_of, record_of
from evalkit.interop.layouts.records import ParsedFile

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
    assert [(one["text"], one["model"], one["grade"]) for one in case["responses"]] == [
        ("So.", "m", 2.0)
    ]
    assert [row["judge"] for row in ran.rows("judgments.jsonl")] == ["judge-1", "judge-1"]


@pytest.mark.parametrize("content", ["", "{", "[]", "[1]", "\x00", "a,b\n"])
def test_files_that_hold_nothing(bring, write, content):
    path = write("bad.json", content)
    ran = bring("llmbar", str(path), status=1)
    assert len(ran.err.strip().splitlines()) == 1
    assert str(path) in ran.err


def test_a_plain_table_needs_no_reader_of_logs():
    table = Peek(Path("table.csv"), {"id": "1", "question": "Why?", "human": "pass", "gpt": "fail"})
    assert not [*importer_discovery.candidates(table)]


def test_every_sign_is_of_a_module():
    tools = {module.name for module in iter_modules(importers.__path__)}
    published = {module.name for module in iter_modules(benchmarks.__path__)}
    assert tools == format_signs.TOOL_SIGNS.keys()
    assert published == format_signs.BENCHMARK_SIGNS.keys()


def test_signs_hide_no_published_judgments():
    hidden = [
        name
        for name, signs in format_signs.BENCHMARK_SIGNS.items()
        if signs == format_signs.NO_IMPORTER
    ]
    made = [entry.name for name in hidden for entry in benchmarks_in(name) if entry.importer]
    assert made == []
