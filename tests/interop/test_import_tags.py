"""Columns of published files that group cases: tags of WildBench's tasks and LLM-Rubric's annotators, as slices."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalkit import load_config
from evalkit.cli import main
from evalkit.datasets import load_cases
from evalkit.evaluators import make_evaluator
from evalkit.runs import read_run

QUIET = ("tracking=none", "scoring.bootstrap=0", "hydra.run.dir=run", "--overwrite")
TAGS = ["Creative Writing", "Math & Data", "Coding/Debugging"]


def scores(folder: Path, count: int) -> Path:
    rows = [
        {"session_id": f"w{n}", "score": f"{1 + n % 10}", "model_test": "m", "model_output": "x"} for n in range(count)
    ]
    path = folder / "model.json"
    path.write_text(json.dumps(rows))
    return path


def tasks(ids: list[str], **more: Any) -> str:
    rows = [
        {
            "session_id": name,
            "conversation_input": [{"role": "user", "content": f"Write {n}."}],
            "checklist": ["Is it written?"],
            "primary_tag": TAGS[n % 3],
            "secondary_tags": [TAGS[(n + 1) % 3], TAGS[n % 3]],
            **more,
        }
        for n, name in enumerate(ids)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def counts(column: str) -> dict[str, int]:
    """Return the cases of each slice of the run."""
    metrics = json.loads(Path("run/metrics.json").read_text())["metrics"]
    start = f"slice/{column}/"
    return {name.split("/")[2]: one["n"] for name, one in metrics.items() if name.startswith(start)}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("whole", [True, False], ids=["folder", "file"])
def test_scores_have_the_tags_of_the_tasks_in_their_folder(here: Path, whole: bool) -> None:
    folder = here / "published"
    folder.mkdir()
    path = scores(folder, 60)
    (folder / "tasks.jsonl").write_text(tasks([f"w{n}" for n in range(50)]))
    assert main(["import", "wildbench", str(folder if whole else path), *QUIET]) == 0
    cases = {case.id: case.metadata.get("tags") for case in read_run(here / "run").cases}
    assert len(cases) == 60
    assert cases["w0"] == ["Creative Writing", "Math & Data"]
    assert cases["w1"] == ["Math & Data", "Coding/Debugging"]
    assert cases["w59"] is None


def test_tags_in_the_rows_themselves_are_kept(here: Path) -> None:
    row = {"session_id": "w1", "score": "7", "model_test": "m", "model_output": "x", "primary_tag": "Math"}
    (here / "model.json").write_text(json.dumps([row]))
    assert main(["import", "wildbench", "model.json", *QUIET]) == 0
    assert read_run(here / "run").cases[0].metadata["tags"] == ["Math"]


@pytest.mark.parametrize("text", ['{"todo": 1}\n', "not json\n", "", '{"session_id": "w1"}\n'], ids=repr)
def test_another_file_of_this_name_is_not_read(here: Path, text: str) -> None:
    scores(here, 3)
    (here / "tasks.jsonl").write_text(text)
    assert main(["import", "wildbench", "model.json", *QUIET]) == 0
    assert all("tags" not in case.metadata for case in read_run(here / "run").cases)


def test_tags_of_tasks_are_metadata_and_change_no_request(here: Path) -> None:
    keys = []
    for text in (tasks(["a", "b", "c"], response="x"), tasks(["a", "b", "c"], response="x", primary_tag=None)):
        Path("tasks.jsonl").write_text(text)
        config = load_config(
            overrides=["dataset=wildbench", "dataset.path=tasks.jsonl", "mode=pointwise", "rubric=likert10"]
        )
        cases = load_cases(config.dataset, mode=config.mode.name).cases
        keys.append([one.messages for case in cases for one in make_evaluator(config).plan(case)])
    assert keys[0] == keys[1]
    assert cases[0].metadata["tags"] == ["Math & Data", "Creative Writing"]


@pytest.mark.shared
def test_published_scores_of_wildbench_by_tag(here: Path, shared: Path) -> None:
    """The published files have no tags, so that these are of a file of tasks next to them."""
    for judge in ("gpt-4-turbo-2024-04-09", "gpt-4o-2024-05-13"):
        source = shared / "data/wildbench/v2.0522" / judge / "gpt-3.5-turbo-0125.json.gz"
        Path(judge).mkdir()
        shutil.copy(source, judge)
        ids = sorted(row["session_id"] for row in json.loads(gzip.decompress(source.read_bytes())))
        Path(judge, "tasks.jsonl").write_text(tasks(ids))
        settings = (*QUIET, "scoring.bootstrap=100", "scoring.slices=[tags]")
        assert main(["import", "wildbench", str(Path(judge) / source.name), *settings]) == 0
        named = {tag.replace(" ", "_20_").replace("&", "_26_").replace("/", "_2f_") for tag in TAGS}
        assert set(counts("tags")) == named
        assert "No slice" in (findings := Path("run/findings.md").read_text()) or "Different from" in findings


@pytest.mark.shared
def test_llm_rubric_by_annotator(here: Path, shared: Path) -> None:
    settings = (*QUIET, "scoring.bootstrap=100", "scoring.slices=[annotator,dialogue_system]")
    assert main(["import", "llm_rubric", str(shared / "data/llm_rubric"), *settings]) == 0
    cases = read_run(here / "run").cases
    expected = Counter(name for case in cases for name in case.metadata.get("annotator", ()))
    assert counts("annotator") == expected
    assert sum(counts("dialogue_system").values()) == len(cases) == 223
    rows = json.loads(Path("run/slices.json").read_text())
    assert {row["column"] for row in rows} == {"annotator", "dialogue_system"}
    assert all((row["estimate"] is None) == (row["n"] < 10) for row in rows)
    assert "slice" in Path("run/findings.md").read_text()
