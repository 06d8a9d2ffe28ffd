"""`runner.judgments=parquet`: every command reads it, and it holds exactly what judgments.jsonl would."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evalkit.runs import read_run, write_run
from tests.support.command_line import BRIEF, pair

WORDS = ("dataset=file", "dataset.path=cases.jsonl", "judge=simulated/good", *BRIEF, "store.url=a.sqlite")


@pytest.fixture
def run(call, tmp_path) -> Path:
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(pair(n)) + "\n" for n in range(12)))
    call("run", *WORDS, "runner.judgments=parquet", "--output", "columns")
    return tmp_path / "columns"


@pytest.mark.usefixtures("mlflow_store")
def test_every_command_reads_judgments_in_parquet(call, run, tmp_path) -> None:
    call("run", *WORDS, "--output", "lines")
    assert (run / "judgments.parquet").is_file()
    assert not (run / "judgments.jsonl").exists()
    assert read_run(tmp_path / "lines").judgments == [replace(one, stored=True) for one in read_run(run).judgments]
    before = json.loads((run / "metrics.json").read_text())["metrics"]
    call("score", "columns", "tie.min_confidence=1")
    assert json.loads((run / "metrics.json").read_text())["metrics"] != before
    call("score", "columns", "tie.min_confidence=0")
    call("compare", "columns", "lines")
    call("reproduce", "columns")
    own = (run / "judgments.parquet").read_bytes()
    assert "judgments-table.parquet" in call("export", "columns", "--to", "parquet").out
    said = call("export", "columns", "--to", "parquet", "--output", "columns/judgments.parquet", status=1).line()
    assert said.endswith("holds the run's own judgments; choose another --output")
    call("export", "columns", "--to", "csv")
    (tmp_path / "labels.csv").write_text("id,annotator,label\nc1,ann,B\n")
    call("label", "columns", "labels.csv")
    assert (run / "judgments.parquet").read_bytes() == own
    call("track", "columns", "tracking.uri=sqlite:///mlflow.db")


def test_a_run_that_changes_the_format_leaves_one_file(call, run) -> None:
    call("run", *WORDS, "--output", "columns")
    assert [path.name for path in run.glob("judgments.*")] == ["judgments.jsonl"]
    call("run", *WORDS, "runner.judgments=parquet", "--output", "columns")
    assert [path.name for path in run.glob("judgments.*")] == ["judgments.parquet"]


def test_what_columns_cannot_hold_is_kept_and_a_damaged_file_is_one_line(call, run, tmp_path) -> None:
    result = read_run(run)
    odd = [
        replace(result.judgments[0], case_id="\ud800", error="\udfff", answer={"\ud800": ["\x00", 1]}),
        replace(result.judgments[1], value=None, criteria={"a": 0.5}, ranking=((0,), (1,))),
        *result.judgments[2:],
    ]
    write_run(tmp_path / "odd", replace(result, judgments=odd))
    assert read_run(tmp_path / "odd").judgments == odd
    content = (run / "judgments.parquet").read_bytes()
    (run / "judgments.parquet").write_bytes(content[: len(content) // 2])
    assert "judgments.parquet: row 1: the file is damaged" in call("score", "columns", status=1).line()
    (run / "judgments.parquet").unlink()
    assert "judgments.jsonl: the file is missing" in call("score", "columns", status=1).line()
