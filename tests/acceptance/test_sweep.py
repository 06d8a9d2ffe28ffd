"""`-m`: what jobs ask alike is sent once, and MLflow has one parent with a child for each job."""

import json
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copy, rmtree
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.command_line import Commands, Done, fake, pair, prefers
from tests.support.fake_provider import Provider, Reply, said

pytestmark = pytest.mark.slow
Within = Callable[..., Done]
CASES, JOBS = 6, 3


@pytest.fixture(autouse=True)
def cases(commands, provider, empty_store, monkeypatch):
    """Cases that the judge finds easy, and stores of the test's own."""
    provider.rule = prefers()
    copy(empty_store, commands.folder / "mlflow.db")
    commands.write("cases.jsonl", *(pair(number) for number in range(CASES)))
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("EVALKIT_STORE", str(commands.folder / "store.sqlite"))


def words(provider: Provider, *more: str) -> list[str]:
    data = [
        *("dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=20"),
        "tracking.traces=1",
    ]
    return ["run", *fake(provider), "judge.transport=direct", *data, *more]


def test_a_sweep_pays_once_is_tracked_and_goes_on_where_it_was_interrupted(
    commands, within, provider
):
    sweep = words(provider, "swap=none,both,random", "-m")
    first = within(*sweep)
    [folder] = {path.parent for path in commands.folder.glob("multirun/*/*/sweep.json")}
    jobs = [json.loads((folder / str(job) / "metrics.json").read_text()) for job in range(JOBS)]
    assert [job["calls"]["planned"] for job in jobs] == [CASES, 2 * CASES, CASES]
    assert [job["calls"]["sent"] for job in jobs] == [CASES, CASES, 0]
    assert len(provider.requests) == 2 * CASES
    check_tracked(commands.folder, folder)
    check_interrupted(commands, within, sweep, folder)
    within(*sweep, f"hydra.sweep.dir={folder}", "gate={agreement/accuracy: '< 0.5'}", status=4)
    gates = query(commands.folder, "select value from tags where key = 'evalkit.gate'")
    assert gates == [("failed",)] * JOBS, (
        "what became of a finished job's gate is not what MLflow says"
    )
    assert len(provider.requests) == 2 * CASES
    assert f"Leaderboard of {JOBS} jobs" in first.out


@pytest.mark.thorough
def test_an_interrupt_loses_no_recording_and_the_sweep_goes_on_when_repeated(
    commands, within, provider, tmp_path
):
    """The second job's judge does not answer before the interrupt; the first is recorded meanwhile."""
    answers, asked = Event(), Event()

    def rule(body: dict[str, Any]) -> Reply:
        if body["model"] != "slow":
            return said("[[A]]")
        asked.set()
        return replace(said("[[A]]"), hang=answers)

    provider.rule = rule
    sweep = [*words(provider), "judge.model=openai/quick,openai/slow", "hydra.sweep.dir=s", "-m"]
    with commands.started(*sweep, log=tmp_path / "log") as begun:
        begun.wait_for(asked)
        begun.send(signal.SIGINT)
        answers.set()
        assert begun.ended() == 130, begun.said()
    first = json.loads((commands.folder / "s" / "0" / "manifest.json").read_text())
    states = query(
        commands.folder, "select run_uuid, status from runs where name like 'judge.model=%'"
    )
    assert states == [(first["mlflow_run_id"], "FINISHED")]
    assert not (commands.folder / "s" / "1" / "manifest.json").exists()
    assert "already finished: judge.model=openai/quick" in within(*sweep).err
    assert len(query(commands.folder, "select 1 from runs where status = 'FINISHED'")) == 3


def check_interrupted(commands: Commands, within: Within, sweep: list[str], folder: Path) -> None:
    ids = {
        job: json.loads((folder / str(job) / "manifest.json").read_text())["run_id"]
        for job in range(JOBS)
    }
    # As a kill in the middle leaves it: not closed, one job half there, one never begun.
    noted = json.loads((folder / "sweep.json").read_text())
    assert noted["ended"] is not None
    (folder / "sweep.json").write_text(json.dumps({**noted, "ended": None}))
    (folder / "1" / "metrics.json").unlink()
    rmtree(folder / "2")
    (folder / "2").mkdir()
    again = within(*sweep)
    assert [path.parent for path in commands.folder.glob("multirun/*/*/sweep.json")] == [folder]
    assert again.err.count("already finished") == 1
    now = {
        job: json.loads((folder / str(job) / "manifest.json").read_text())["run_id"]
        for job in range(JOBS)
    }
    assert [now[job] == ids[job] for job in range(JOBS)] == [True, False, False]
    tags = query(
        commands.folder,
        "select key, value from tags where key in ('evalkit.run_id', 'mlflow.parentRunId')",
    )
    assert sorted(value for key, value in tags if key == "evalkit.run_id") == sorted(
        {*ids.values(), *now.values()}
    )
    assert len({value for key, value in tags if key == "mlflow.parentRunId"}) == 1
    assert f"Leaderboard of {JOBS} jobs" in again.out
    within(*sweep, "tracking=none")
    assert len(list(commands.folder.glob("multirun/*/*/sweep.json"))) == 2, (
        "a sweep that had ended was gone on with"
    )


def check_tracked(folder: Path, sweep: Path) -> None:
    tags: dict[str, dict[str, str]] = {}
    for run, key, value in query(folder, "select run_uuid, key, value from tags"):
        tags.setdefault(run, {})[key] = value
    runs = dict(query(folder, "select run_uuid, status from runs where lifecycle_stage = 'active'"))
    children = {
        run: found["mlflow.parentRunId"]
        for run, found in tags.items()
        if "mlflow.parentRunId" in found
    }
    [parent] = set(children.values())
    assert set(runs) == {parent, *children}
    assert len(children) == JOBS
    assert set(runs.values()) == {"FINISHED"}
    recorded = [json.loads((sweep / str(job) / "manifest.json").read_text()) for job in range(JOBS)]
    assert {manifest["mlflow_run_id"] for manifest in recorded} == set(children)
    params = query(folder, "select run_uuid, value from params where key = 'swap.policy'")
    assert sorted(value for run, value in params if run in children) == ["both", "none", "random"]
    uris = dict(query(folder, "select run_uuid, artifact_uri from runs"))
    artifacts, child = (Path(urlsplit(uris[run]).path) for run in (parent, next(iter(children))))
    assert (artifacts / "leaderboard.csv").read_bytes() == (sweep / "leaderboard.csv").read_bytes()
    table = json.loads((artifacts / "tables" / "leaderboard.json").read_text("utf-8"))
    assert len(table["data"]) == JOBS
    linked = {
        run: json.loads(found["mlflow.linkedPrompts"])
        for run, found in tags.items()
        if run in children
    }
    assert len(linked) == JOBS
    assert all(
        {"name": "evalkit.en.pairwise", "version": "1"} in prompts for prompts in linked.values()
    )
    assert {one["version"] for prompts in linked.values() for one in prompts} == {"1"}
    assert {"rates.svg", "confusion.svg"} <= {file.name for file in (child / "figures").iterdir()}
    accuracies = query(
        folder, "select run_uuid, value from latest_metrics where key = 'agreement/accuracy'"
    )
    assert {run: value for run, value in accuracies if run in children} == dict.fromkeys(
        children, 1.0
    )


def query(folder: Path, sql: str) -> list[Any]:
    database = sqlite3.connect(f"file:{folder}/mlflow.db?mode=ro", uri=True)
    try:
        return list(database.execute(sql))
    finally:
        database.close()


def test_optuna_searches_by_the_objective_and_joblib_runs_in_processes(commands, within, provider):
    base = words(provider, "tracking=none", "-m")
    searched = commands(
        *base, "hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "hydra.sweeper.direction=maximize",
        "objective=agreement/accuracy", "tie.threshold=interval(0, 0.5)", "hydra.sweep.dir=searched",
    )  # fmt: skip
    best = (commands.folder / "searched" / "optimization_results.yaml").read_text()
    assert "best_value: 1.0" in best
    assert "Leaderboard of 2 jobs" in searched.out
    within(
        *base,
        "hydra/launcher=joblib",
        "hydra.launcher.n_jobs=2",
        "tie.threshold=0,0.5",
        "hydra.sweep.dir=spread",
    )
    assert (commands.folder / "spread" / "leaderboard.csv").is_file()
    assert json.loads((commands.folder / "spread" / "sweep.json").read_text())["ended"] is not None
    assert len(provider.requests) == 2 * CASES
