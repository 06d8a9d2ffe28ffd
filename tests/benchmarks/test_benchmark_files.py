"""Every benchmark's files are read as published, and a file of another one is told apart in one line.

The cases that are read are in tests/golden/expected/benchmark_NAME.json."""

import json
import sys
from pathlib import Path

import pytest

from evalkit.cli import main
from evalkit.cli.parser import config_groups
from evalkit.compose import load_config
from evalkit.config import DatasetConfig
from evalkit.core.benchmark_discovery import iter_benchmarks, own_benchmark_names
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.datasets import load_cases
from evalkit.datasets.named_benchmarks import recognize_benchmark, recognize_benchmark_row
from evalkit.testing import check_benchmark
from tests.support.command_line import BRIEF

BENCHMARKS = {benchmark.name: benchmark for benchmark in iter_benchmarks()}
A, B, TIE, LOST = 1.0, -1.0, 0.0, None
HERE = Path(__file__).parent / "files"
CHECKLISTS = ("healthbench", "devai", "paperbench", "wildbench")
ALONE = (
    "halluqa",
    "prometheus",
    "helpsteer",
    "summeval",
    "topical_chat",
    "rewardbench2",
    "rm_bench",
    *CHECKLISTS,
)
PATHS = {"prometheus": "prometheus/feedback_bench.json"}


def test_each_benchmark_is_an_option_without_a_file():
    names = {*BENCHMARKS}
    assert names == own_benchmark_names()
    assert names <= {*config_groups()["dataset"]}
    assert load_config(overrides=["dataset=shp"]).dataset.benchmark == "shp"


def test_a_users_option_with_the_name_of_a_benchmark_is_hidden(tmp_path, monkeypatch, capsys):
    (tmp_path / "conf" / "dataset").mkdir(parents=True)
    (tmp_path / "conf" / "dataset" / "shp.yaml").write_text("path: mine.jsonl", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "dataset=shp"]) == 1
    assert "conf/dataset/shp.yaml is hidden by evalkit's" in (err := capsys.readouterr().err)
    assert "dataset.path: not set; set it to a file or folder of Stanford Human Preferences" in err
    assert main(["run", "dataset=[shpp]"]) == 1
    assert "did you mean 'shp'" in capsys.readouterr().err


def test_a_plan_says_once_whose_benchmark_it_is(capsys):
    words = (
        "dataset=llmbar",
        f"dataset.path={HERE / 'llmbar'}",
        "judge=simulated/good",
        "swap=both,none",
    )
    assert main(["plan", "-m", *words]) == 0
    said = capsys.readouterr()
    assert said.err.count("LLMBar: license MIT") == 1
    assert said.out.count("swap=") == 2


def test_imported_games_of_arena_hard_keep_their_strength(tmp_path, monkeypatch):
    games = [
        ("B>>A", "A>B"),
        ("A=B", "B>A"),
        ("A>>B", "A>>B"),
    ]  # the baseline is shown first in the first game
    shared = {"category": "hard_prompt", "judge": "j", "model": "mine"}
    _written(
        tmp_path / "mine.jsonl",
        *(
            {**shared, "uid": f"u{n}", "games": [{"score": one} for one in two]}
            for n, two in enumerate(games)
        ),
    )
    monkeypatch.chdir(tmp_path)
    assert main(["import", "arena_hard", "mine.jsonl", "hydra.run.dir=run", *BRIEF]) == 0
    metrics = json.loads(Path("run/metrics.json").read_text("utf-8"))["metrics"]
    # Credits and weights: 1 of 3, 1 of 1; 1/2 of 1, 0 of 1; 0 of 3, 1 of 3.
    assert metrics["arena_hard/score"]["value"] == pytest.approx((3 + 1 + 0.5 + 0 + 0 + 3) / 12)


def test_what_is_no_benchmark_is_recognised_as_none(tmp_path):
    assert (
        recognize_benchmark_row({"id": "1", "prompt": "p", "response_a": "a", "response_b": "b"})
        is None
    )
    (tmp_path / "broken.json").write_text("[{", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    assert recognize_benchmark(tmp_path) is None
    assert recognize_benchmark(tmp_path / "broken.json") is None
    assert recognize_benchmark(tmp_path / "not-there.jsonl") is None


@pytest.mark.parametrize("name", BENCHMARKS)
def test_another_benchmarks_file_is_refused_with_the_one_it_looks_like(name, load):
    for other in set(BENCHMARKS) - {name}:
        with pytest.raises(DatasetError) as bad:
            load(name, PATHS.get(other, other))
        assert f"not {BENCHMARKS[name].title}" in str(bad.value)
        needed = f"use dataset={other} {getattr(BENCHMARKS[other], 'settings', '')}".rstrip()
        assert str(bad.value).endswith(needed)


def test_a_part_of_a_benchmark_is_told_with_its_folder(load):
    for part in (
        "faireval/question.jsonl",
        "faireval/answer/answer_gpt35.jsonl",
        "arena_hard_v0.1/model_answer/x.jsonl",
    ):
        path = HERE / part.replace("x.jsonl", "small-7b.jsonl")
        folder = HERE / part.partition("/")[0]
        for name in (None, "llmbar"):
            with pytest.raises(DatasetError, match=f"use dataset=.* dataset.path={folder}$"):
                load_cases(DatasetConfig(benchmark=name, path=str(path)), mode="pairwise")
    with pytest.raises(
        DatasetError, match="is a folder with no data files; it looks like LLMBar pairs"
    ):
        load_cases(DatasetConfig(path=str(HERE / "llmbar")), mode="pairwise")


@pytest.mark.parametrize("name", ["mt_bench", "faireval", "arena_hard"])
def test_a_file_that_is_no_benchmark_is_refused_with_what_is_expected(name, load, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "p", "response": "r"}\n', encoding="utf-8")
    with pytest.raises(DatasetError, match=f"name {BENCHMARKS[name].expects[:20]}"):
        load(name, tmp_path / "rows.jsonl")


def test_a_format_of_ones_own_keeps_the_benchmarks_name(tmp_path):
    row = {
        "id": "1",
        "prompt": "p",
        "response_a": "a",
        "response_b": "b",
        "label": "A",
        "subset": "natural",
    }
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    found = load_cases(
        DatasetConfig(benchmark="llmbar", format="jsonl", path=str(tmp_path / "mine.jsonl")),
        mode="pairwise",
    )
    assert found.cases[0].metadata["subset"] == "natural"
    assert found.benchmark["name"] == "llmbar"


def test_alpaca_eval_joins_each_model_with_the_baseline(load):
    turned = load("alpaca_eval", baseline="small-7b").cases[0]
    assert [response.model for response in turned.responses] == ["gpt4_1106_preview", "small-7b"]
    with pytest.raises(ConfigError, match=r"dataset.baseline.*did you mean 'small-7b'"):
        load("alpaca_eval", baseline="small-7")
    with pytest.raises(DatasetError, match="has only outputs of gpt4_1106_preview"):
        load("alpaca_eval", "alpaca_eval/results/gpt4_1106_preview")
    with pytest.raises(ConfigError, match="no usual baseline"):
        load("alpaca_eval", "alpaca_eval/results/small-7b")


def test_halluqas_questions_alone_are_not_enough(load):
    with pytest.raises(DatasetError, match="no answers to judge"):
        load("halluqa", "halluqa/HalluQA.json", mode="pointwise")


def test_a_heading_within_a_response_does_not_end_it(load, files, tmp_path):
    row = json.loads((files / "prometheus" / "vicuna_eval.json").read_text())[0]
    row["instruction"] = row["instruction"].replace(
        "Hello, friend.", "Hello.\n\n### Example:\nHi there."
    )
    case = load("prometheus", _written(tmp_path / "vicuna.jsonl", row), mode="pointwise").cases[0]
    assert case.responses[0].text == "Hello.\n\n### Example:\nHi there."


@pytest.mark.shared
@pytest.mark.parametrize(("name", "path", "cases", "responses"), [
    ("llmbar", "llmbar", 192, 2),
    ("topical_chat", "unieval_topical_chat", 60, 6),
    ("prometheus", "prometheus_vicuna", 80, 4),
    ("halluqa", "halluqa", 450, 4),
])  # fmt: skip
def test_the_published_files_are_read_whole(shared, name, path, cases, responses):
    mode = "pairwise" if name == "llmbar" else "pointwise"
    found = load_cases(
        DatasetConfig(benchmark=name, path=str(shared / "data" / path)), mode=mode
    ).cases
    assert len(found) == cases
    assert {len(case.responses) for case in found} == {responses}


def _written(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_row_that_is_wrong_names_its_line(load, tmp_path):
    row = {"input": "i", "output_1": "a", "output_2": "b", "label": 1}
    bad = _written(tmp_path / "dataset.jsonl", row, {**row, "label": 3})
    with pytest.raises(DatasetError, match=r"dataset.jsonl:2: label '3' is not one of 1, 2"):
        load("llmbar", bad)
    foreign = _written(tmp_path / "other.jsonl", row, {"input": "i", "output_1": "a", "label": 1})
    with pytest.raises(DatasetError, match=r"other.jsonl:2: not LLMBar: the row has no 'output_2'"):
        load("llmbar", foreign)
    chosen = {"id": "1", "prompt": "p", "chosen": "text", "rejected": ["r"], "domain": "chat"}
    with pytest.raises(DatasetError, match="'chosen' is not a list of texts"):
        load("rm_bench", _written(tmp_path / "rm.jsonl", chosen), mode="pointwise")
    vicuna = {"instruction": "Grade it.", "gpt4_score": [1]}
    with pytest.raises(DatasetError, match="no section 'The instruction to evaluate'"):
        load("prometheus", _written(tmp_path / "vicuna.jsonl", vicuna), mode="pointwise")


def test_a_null_label_is_none(load, tmp_path):
    row = {
        "scenario": "planning",
        "label": None,
        "prompt": "p",
        "response 1": "a",
        "response 2": "b",
    }
    assert load("auto_j", _written(tmp_path / "one.jsonl", row)).cases[0].label is None


def test_mt_bench_keeps_two_votes_of_one_person_and_refuses_a_missing_turn(load, files, tmp_path):
    rows = [
        json.loads(line) for line in (files / "mt_bench" / "human.jsonl").read_text().splitlines()
    ]
    twice = load("mt_bench", _written(tmp_path / "twice.jsonl", rows[0], rows[0])).cases[0]
    assert twice.labels == {"expert_1": "B", "expert_1#2": "B"}
    with pytest.raises(DatasetError, match="turn 3 has no message of the user"):
        load("mt_bench", _written(tmp_path / "turn.jsonl", {**rows[0], "turn": 3}))
    with pytest.raises(DatasetError, match="has no human votes"):
        load("mt_bench", _written(tmp_path / "gpt.jsonl", rows[-1]))


def test_faireval_with_parts_missing(load, files, tmp_path):
    folder = tmp_path / "faireval"
    for path in (p for p in (files / "faireval").rglob("*") if p.is_file()):
        target = folder / path.relative_to(files / "faireval")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    answers = folder / "answer" / "answer_gpt35.jsonl"
    whole = answers.read_text()
    answers.write_text("\n".join(whole.splitlines()[1:]))
    with pytest.raises(DatasetError, match="question 1 has no answer of gpt35"):
        load("faireval", folder)
    answers.write_text(whole)
    (folder / "review" / "review_gpt35_vicuna-13b_human.txt").write_text("TIE\n")
    with pytest.raises(DatasetError, match="has 1 labels for 5 questions"):
        load("faireval", folder)


def test_models_that_do_not_answer_the_same_questions(load, tmp_path):
    outputs = [
        {"instruction": i, "output": "o", "generator": g}
        for i, g in (("x", "gpt4_turbo"), ("y", "mine"))
    ]
    with pytest.raises(DatasetError, match="gpt4_turbo has no output for this instruction: y"):
        load("alpaca_eval", _written(tmp_path / "outputs.jsonl", *outputs))
    twice = [
        {**row, "instruction": "x", "output": f"{row['generator']} {k}"}
        for k in (1, 2)
        for row in outputs
    ]
    cases = load("alpaca_eval", _written(tmp_path / "twice.jsonl", *twice)).cases
    assert [[r.text for r in c.responses] for c in cases] == [
        ["mine 1", "gpt4_turbo 1"],
        ["mine 2", "gpt4_turbo 2"],
    ]
    (tmp_path / "table").mkdir()
    _written(tmp_path / "table" / "o.jsonl", outputs[0], {**outputs[1], "instruction": "x"})
    (tmp_path / "table" / "instruction_difficulty.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DatasetError, match="not a table of index and instruction_difficulty"):
        load("alpaca_eval", tmp_path / "table")


def test_arena_hard_with_parts_missing(load, tmp_path):
    question = {"uid": "u1", "category": "hard_prompt", "prompt": "p"}
    answer = {
        "uid": "u1",
        "messages": [{"role": "assistant", "content": "a"}],
        "model": "o3-mini-2025-01-31",
    }
    _written(tmp_path / "question.jsonl", question)
    base = _written(tmp_path / "model_answer" / "o3.jsonl", answer)
    with pytest.raises(DatasetError, match="has only outputs of o3-mini-2025-01-31"):
        load("arena_hard", tmp_path)
    writing = _written(
        tmp_path / "model_answer" / "gemini.jsonl", {**answer, "model": "gemini-2.0-flash-001"}
    )
    _written(
        tmp_path / "more" / "question.jsonl",
        {**question, "uid": "u2", "category": "creative_writing"},
    )
    with pytest.raises(
        DatasetError, match=r"has only answers of .*; add the answers of a model to compare"
    ):
        load("arena_hard", tmp_path)
    writing.unlink()
    (tmp_path / "more" / "question.jsonl").unlink()
    mine = _written(
        tmp_path / "model_answer" / "mine.jsonl", {**answer, "model": "mine", "messages": []}
    )
    with pytest.raises(DatasetError, match="the row has no answer"):
        load("arena_hard", tmp_path)
    _written(mine, {**answer, "model": "mine"})
    assert len(load("arena_hard", tmp_path).cases) == 1
    assert load("arena_hard", tmp_path, baseline="mine").cases[0].responses[1].model == "mine"
    with pytest.raises(DatasetError, match="question u1 is answered twice"):
        load(
            "arena_hard",
            _written(
                tmp_path / "model_answer" / "again.jsonl", {**answer, "model": "mine"}
            ).parents[1],
        )
    (tmp_path / "model_answer" / "again.jsonl").unlink()
    _written(base, {**answer, "uid": "u2"})
    with pytest.raises(DatasetError, match="o3-mini-2025-01-31 has no answer to question u1"):
        load("arena_hard", tmp_path)


def test_a_packed_folder_saved_by_datasets_is_read(load, tmp_path):
    pa = pytest.importorskip("pyarrow")
    row = {"input": "i", "output_1": "a", "output_2": "b", "label": 2}
    target = tmp_path / "natural"
    target.mkdir()
    with pa.OSFile(str(target / "dataset.arrow"), "wb") as sink:
        table = pa.Table.from_pylist([row])
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    assert load("llmbar", target / "dataset.arrow").cases[0].label == "B"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_keeps_what_loading_and_scoring_need(name):
    check_benchmark(
        name, HERE / PATHS.get(name, name), mode="pointwise" if name in ALONE else "pairwise"
    )


SOURCE = Path(__file__).parent / "one_file" / "trivia.py"
DUELS = [
    {
        "question": f"What is {n} + 1?",
        "first": str(n + 1),
        "second": str(n),
        "best": 1,
        "topic": "sums",
    }
    if n % 2
    else {
        "question": f"Which word has {n} letters?",
        "first": "b",
        "second": "a" * n,
        "best": 2,
        "topic": "words",
    }
    for n in range(2, 8)
]
WINNERS = [["2", "2"], ["1", "1"], ["1", "2"], ["1", "1"], ["2", "1"], ["2", "none"]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the benchmark's file installed, and its data."""
    info = tmp_path / "site" / "trivia-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trivia\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(
        "[evalkit.benchmarks]\ntrivia = trivia:TRIVIA\n", "utf-8"
    )
    (tmp_path / "site" / "trivia.py").write_bytes(SOURCE.read_bytes())
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    judged = [
        {**row, "judge": "sphinx", "winners": own} for row, own in zip(DUELS, WINNERS, strict=True)
    ]
    for name, rows in (("duels", DUELS), ("judged", judged)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), "utf-8"
        )
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("trivia", None)


def test_a_benchmark_is_one_short_file(folder):
    assert len(SOURCE.read_text("utf-8").splitlines()) <= 90
    check_benchmark("trivia", folder / "duels.jsonl")
    words = ("tracking=none", "scoring.bootstrap=50")
    run = (
        "dataset=trivia",
        "dataset.path=duels.jsonl",
        "judge=simulated/good",
        "hydra.run.dir=run",
        *words,
    )
    assert main(["run", *run]) == 0
    assert "own rule: both" in (folder / "run" / "findings.md").read_text("utf-8")
    assert main(["import", "trivia", "judged.jsonl", "hydra.run.dir=imported", *words]) == 0
    metrics = json.loads((folder / "imported" / "metrics.json").read_text("utf-8"))["metrics"]
    shown = {
        name: (one["value"], one["n"], one["missing"])
        for name, one in metrics.items()
        if name[:7] == "trivia/"
    }
    assert shown == {
        "trivia/both": (0.6, 5, 1),
        "trivia/both/sums": (1.0, 2, 1),
        "trivia/both/words": (pytest.approx(1 / 3), 3, 0),
        "trivia/consistency": (0.6, 5, 1),
        "trivia/consistency/sums": (1.0, 2, 1),
        "trivia/consistency/words": (pytest.approx(1 / 3), 3, 0),
    }
    cases = [
        json.loads(line)
        for line in (folder / "run" / "cases.jsonl").read_text("utf-8").splitlines()
    ]
    assert cases[1]["id"] == "duels/2"
    assert [case["label"] for case in cases[:2]] == ["B", "A"]


def test_its_mistakes_are_one_line_with_the_place(folder, capsys):
    (folder / "duels.jsonl").write_text(
        "".join(json.dumps({**row, "best": 3}) + "\n" for row in DUELS), "utf-8"
    )
    assert (
        main(["run", "dataset.benchmark=trivia", "dataset.path=duels.jsonl", "tracking=none"]) == 1
    )
    assert "duels.jsonl:1: label '3' is not one of 1, 2; fix the row" in capsys.readouterr().err


def test_the_settings_that_a_benchmark_needs_are_in_its_guide_and_in_hints():
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "benchmarks.md").read_text()
    rows = [line.split("|") for line in guide.splitlines() if line.startswith("| `")]
    needed = {row[1].strip().strip("`"): row[4].strip() for row in rows}
    own = {name: benchmark for name, benchmark in BENCHMARKS.items() if name in needed}
    settings = {name: getattr(benchmark, "settings", "") for name, benchmark in own.items()}
    assert {name for name, words in settings.items() if words} >= {"halluqa", *CHECKLISTS}
    for name, words in settings.items():
        assert f"`{words}`" in needed[name] or not words
        # Whatever needs one mode has it in its settings.
        only = needed[name].startswith("`mode=") and " or " not in needed[name]
        assert not only or words == needed[name].strip("`")


@pytest.mark.parametrize("name", ["healthbench", "halluqa"])
def test_a_hint_names_the_settings_with_which_a_benchmark_runs(name, tmp_path):
    shape = min(BENCHMARKS[name].shapes, key=len)
    row = {column: f"{column} text" for column in shape}
    (tmp_path / "b.jsonl").write_text(json.dumps(row) + "\n")
    recognized = recognize_benchmark(tmp_path / "b.jsonl")
    assert recognized is not None
    assert recognized.hint.endswith(f"use dataset={name} {BENCHMARKS[name].settings}")
