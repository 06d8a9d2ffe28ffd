"""A new benchmark is one file of at most 60 lines: read, scored, recognized and imported like evalkit's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from evalkit.cli import main
from evalkit.testing import check_benchmark

SOURCE = Path(__file__).parent / "one_file" / "trivia.py"
DUELS = [
    {"question": f"What is {n} + 1?", "first": str(n + 1), "second": str(n), "best": 1, "topic": "sums"}
    if n % 2
    else {"question": f"Which word has {n} letters?", "first": "b", "second": "a" * n, "best": 2, "topic": "words"}
    for n in range(2, 8)
]
WINNERS = [["2", "2"], ["1", "1"], ["1", "2"], ["1", "1"], ["2", "1"], ["2", "none"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a folder with the benchmark's file installed, and its data."""
    info = tmp_path / "site" / "trivia-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trivia\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[evalkit.benchmarks]\ntrivia = trivia:TRIVIA\n", "utf-8")
    (tmp_path / "site" / "trivia.py").write_bytes(SOURCE.read_bytes())
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    judged = [{**row, "judge": "sphinx", "winners": own} for row, own in zip(DUELS, WINNERS, strict=True)]
    for name, rows in (("duels", DUELS), ("judged", judged)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("trivia", None)


def test_a_benchmark_is_one_file_of_sixty_lines(folder: Path) -> None:
    assert len(SOURCE.read_text("utf-8").splitlines()) <= 60
    check_benchmark("trivia", folder / "duels.jsonl")
    words = ("tracking=none", "scoring.bootstrap=50")
    run = ("dataset=trivia", "dataset.path=duels.jsonl", "judge=simulated/good", "hydra.run.dir=run", *words)
    assert main(["run", *run]) == 0
    assert "own rule: both" in (folder / "run" / "findings.md").read_text("utf-8")
    assert main(["import", "trivia", "judged.jsonl", "hydra.run.dir=imported", *words]) == 0
    metrics = json.loads((folder / "imported" / "metrics.json").read_text("utf-8"))["metrics"]
    shown = {name: (one["value"], one["n"], one["missing"]) for name, one in metrics.items() if name[:7] == "trivia/"}
    assert shown == {
        "trivia/both": (0.6, 5, 1),
        "trivia/both/sums": (1.0, 2, 1),
        "trivia/both/words": (pytest.approx(1 / 3), 3, 0),
        "trivia/consistency": (0.6, 5, 1),
        "trivia/consistency/sums": (1.0, 2, 1),
        "trivia/consistency/words": (pytest.approx(1 / 3), 3, 0),
    }
    cases = [json.loads(line) for line in (folder / "run" / "cases.jsonl").read_text("utf-8").splitlines()]
    assert cases[1]["id"] == "duels/2"
    assert [case["label"] for case in cases[:2]] == ["B", "A"]


def test_its_mistakes_are_one_line_with_the_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "duels.jsonl").write_text("".join(json.dumps({**row, "best": 3}) + "\n" for row in DUELS), "utf-8")
    assert main(["run", "dataset.benchmark=trivia", "dataset.path=duels.jsonl", "tracking=none"]) == 1
    assert "duels.jsonl:1: label '3' is not one of 1, 2; fix the row" in capsys.readouterr().err
