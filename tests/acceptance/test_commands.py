"""Every command once on a real run, with a judge on loopback."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.store.sqlite import SqliteStore
from tests.support.command_line import BRIEF, Commands, Done, fake, pair, prefers, rows
from tests.support.fake_provider import Reply, said
from tests.support.servers import PATIENCE

pytestmark = pytest.mark.slow
Within = Callable[..., Done]
FOLDER = {
    *("config.yaml", "manifest.json", "cases.jsonl", "judgments.jsonl", "verdicts.jsonl"),
    *("metrics.json", "findings.md", "frontier.json", "report.html", "prompts.json", "figures"),
}
CASES = 12


@pytest.fixture
def data(commands, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    commands.write("cases.jsonl", *(pair(number) for number in range(CASES)))
    return ["dataset=file", "dataset.path=cases.jsonl", "output=bracket"]


def said_of(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{name}.jsonl").read_text("utf-8").splitlines()]


def test_a_run_again_sends_nothing(commands, within, provider, data, monkeypatch):
    provider.rule = prefers()
    done = within("run", *fake(provider), *data, *BRIEF, "hydra.run.dir=first")
    assert {p.name for p in (commands.folder / "first").iterdir()} >= FOLDER
    assert "report: first/report.html" in done.out
    found = commands.metrics("first")
    assert found["metrics"]["agreement/accuracy"]["value"] == 1.0
    assert found["metrics"]["position/consistency"]["value"] == 1.0
    assert found["calls"] == {"planned": 24, "stored": 0, "sent": 24, "retried": 0, "failed": 0}
    monkeypatch.setenv("OPENAI_API_KEY", "")
    within("run", *fake(provider), *data, *BRIEF, "hydra.run.dir=second")
    again = commands.metrics("second")
    assert again["metrics"] == found["metrics"]
    assert again["calls"] == {"planned": 24, "stored": 24, "sent": 0, "retried": 0, "failed": 0}
    within("run", "first/config.yaml", "hydra.run.dir=third")
    assert commands.metrics("third") == again
    assert len(provider.requests) == 24


def test_scoring_again_asks_nobody(commands, within, provider, data):
    """In scores of 1 to 5, a difference of 1 is a win until the threshold is as large."""
    provider.rule = lambda body: said(f"[[{4 if 'good' in body['messages'][1]['content'] else 3}]]")
    scored = [*data[:2], "output=rating", "mode=pointwise", "criteria=overall"]
    within("run", *fake(provider), *scored, *BRIEF, "hydra.run.dir=run")
    before = commands.metrics("run")["metrics"]
    assert (before["tie_rate"]["value"], before["win_rate/a"]["value"]) == (0.0, 1.0)
    asked = len(provider.requests)
    store = Path(os.environ["EVALKIT_STORE"])
    store.unlink()
    done = within("score", "run", "tie.threshold=1")
    assert "of pairs are ties because" in done.out
    after = commands.metrics("run")["metrics"]
    assert (after["tie_rate"]["value"], after["tie_rate/threshold"]["value"]) == (1.0, 1.0)
    assert {v["reason"] for v in said_of(commands.folder / "run", "verdicts") if v["winner"]} == {
        "threshold"
    }
    assert len(provider.requests) == asked
    assert not store.exists()
    assert "threshold: 1" in (commands.folder / "run" / "config.yaml").read_text("utf-8")
    line = within("score", "run", "judge.model=openai/other", status=1).line()
    assert line.startswith("judge.model: cannot be changed here; these can: scoring")
    assert line.endswith("for another value, start a new run with `evalkit run`")
    line = within("score", "run", "gate={agreement/kappa: >= 0.6}", status=1).line()
    assert line.startswith(
        "gate: cannot be read as YAML: {agreement/kappa: >= 0.6}; put quotes around "
    )


def test_a_run_that_could_not_be_tracked_is_tracked_later(
    commands, within, provider, data, empty_store
):
    shutil.copy(empty_store, commands.folder / "mlflow.db")
    provider.rule = prefers()
    brief, store = "scoring.bootstrap=50", f"sqlite:///{commands.folder}/mlflow.db"
    away = "tracking.uri=http://127.0.0.1:9"
    done = within("run", *fake(provider), *data, brief, away, "hydra.run.dir=run", status=3)
    assert "http://127.0.0.1:9" in done.err
    assert {p.name for p in (commands.folder / "run").iterdir()} >= FOLDER
    assert commands.metrics("run")["calls"]["sent"] == 24
    assert (
        json.loads((commands.folder / "run" / "manifest.json").read_text())["mlflow_run_id"] is None
    )
    shutil.move(commands.folder / "run", commands.folder / "elsewhere")
    done = within("track", "elsewhere", f"tracking.uri={store}")
    run_id = json.loads((commands.folder / "elsewhere" / "manifest.json").read_text())[
        "mlflow_run_id"
    ]
    assert run_id in done.out
    [row] = query(commands, "select run_uuid, status from runs")
    assert row == [run_id, "FINISHED"]
    assert ["agreement/accuracy", 1.0] in query(commands, "select key, value from latest_metrics")
    assert within("track", "elsewhere", away, status=3).line().startswith("http://127.0.0.1:9")


def query(commands: Commands, sql: str) -> list[list[Any]]:
    import sqlite3

    database = sqlite3.connect(f"file:{commands.folder}/mlflow.db?mode=ro", uri=True)
    try:
        return [list(row) for row in database.execute(sql)]
    finally:
        database.close()


def test_planning_counts_and_writes_nothing(commands, within, provider, data):
    provider.rule = prefers()
    store = Path(os.environ["EVALKIT_STORE"])
    before = commands.files()
    assert rows(within("plan", *fake(provider), *data).out) == {"the run": [24, 0, 24]}
    assert not store.exists()
    assert not store.parent.joinpath(store.name + "-wal").exists()
    within("run", *fake(provider), *data, *BRIEF, "swap=none", "hydra.run.dir=run")
    asked, kept = (
        len(provider.requests),
        (store.read_bytes(), sorted(p.name for p in store.parent.iterdir())),
    )
    found = rows(
        within("plan", *fake(provider), *data, "swap=none,both", "dataset.limit=8,12", "-m").out
    )
    assert {tuple(counts) for counts in found.values()} == {
        (8, 8, 0),
        (12, 12, 0),
        (16, 8, 8),
        (24, 12, 12),
        (60, 40, 12),
    }
    assert found["all, shared requests once"] == [60, 40, 12]
    assert len(provider.requests) == asked
    assert (store.read_bytes(), sorted(p.name for p in store.parent.iterdir())) == kept
    assert {name for name in commands.files() if not name.startswith("run/")} == before
    assert rows(within("plan", *fake(provider), *data, "store.mode=refresh").out) == {
        "the run": [24, 0, 24]
    }


def test_the_doctor_finds_what_is_there_and_what_is_not(within, provider, data, monkeypatch):
    done = within("doctor", *fake(provider), *data, "tracking=none")
    assert all(line.startswith("ok ") for line in done.out.splitlines()), done.out
    assert "dataset and prompts: 12 cases" in done.out
    assert provider.requests == []
    monkeypatch.delenv("OPENAI_API_KEY")
    done = within("doctor", "judge=gpt-4o", "dataset=file", "dataset.path=gone.jsonl", status=1)
    wrong = [line for line in done.out.splitlines() if line.startswith("wrong")]
    assert [line.split(":")[0] for line in wrong] == ["wrong dataset and prompts", "wrong judge"]
    assert "gone.jsonl: no such file" in wrong[0]
    assert "OPENAI_API_KEY" in wrong[1]


def answers_kept() -> int:
    store = SqliteStore(Path(os.environ["EVALKIT_STORE"]), read_only=True)
    try:
        return sum(1 for _ in store.scan())
    finally:
        store.close()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "signals", "transport"),
    [
        pytest.param(signal.SIGINT, 1, "litellm", marks=pytest.mark.thorough),
        (signal.SIGINT, 2, "direct"),
        pytest.param(signal.SIGTERM, 1, "direct", marks=pytest.mark.thorough),
        pytest.param(signal.SIGHUP, 1, "direct", marks=pytest.mark.thorough),
    ],
    ids=["once", "twice", "terminated", "hung up"],
)
def test_an_interrupted_run_goes_on_where_it_was(
    number, signals, transport, commands, within, provider, data, tmp_path
):
    """After the fifth answer the server keeps its answers back; what it gives after all is kept too."""
    hold, held, judged = threading.Event(), threading.Event(), prefers()
    answered = 5

    def rule(body: dict[str, Any]) -> Reply:
        reply: Reply = judged(body)
        if len(provider.requests) > answered:
            reply.hang = hold
        if len(provider.requests) == answered + 2:
            held.set()
        return reply

    provider.rule = rule
    words = [
        *("run", *fake(provider), *data, *BRIEF, f"judge.transport={transport}"),
        "runner.concurrency=2",
    ]
    with commands.started(*words, log=tmp_path / "log") as begun:
        begun.wait_for(held)
        wait_until(lambda: answers_kept() == answered)
        for _ in range(signals):
            begun.send(number)
        if signals == 1:
            hold.set()
        assert begun.ended() == 128 + number
    hold.set()
    text = begun.said()
    kept = answered + (2 if signals == 1 else 0)
    assert len(provider.requests) == answered + 2
    found = re.search(r"^evalkit: interrupted: (\d+) of 24 answers are stored", text, re.MULTILINE)
    # A second signal leaves no time to count an answer that has only just been stored.
    assert int(found[1]) == kept if signals == 1 else int(found[1]) <= kept
    assert text.splitlines()[-1].endswith("answers are stored; run again to continue")
    assert "Traceback" not in text
    assert not (commands.folder / "outputs").exists()
    within(*words, "hydra.run.dir=run")
    calls = commands.metrics("run")["calls"]
    assert (calls["stored"], calls["sent"]) == (kept, 24 - kept)
    assert len(provider.requests) == answered + 2 + 24 - kept
    assert commands.metrics("run")["metrics"]["agreement/accuracy"]["n"] == CASES


def test_an_interrupt_counts_the_whole_plan(commands, provider, tmp_path):
    """Requests are planned in batches: what is said is how many there are in all, those of later batches included."""
    hold, held, judged = threading.Event(), threading.Event(), prefers()
    commands.write("cases.jsonl", *(pair(n) for n in range(200)))

    def rule(body: dict[str, Any]) -> Reply:
        reply: Reply = judged(body)
        if len(provider.requests) > 3:
            reply.hang = hold
            held.set()
        return reply

    provider.rule = rule
    words = [
        *("run", *fake(provider), "dataset=file", "dataset.path=cases.jsonl", *BRIEF),
        "runner.concurrency=1",
    ]
    with commands.started(
        *words, "judge.transport=direct", "output=bracket", log=tmp_path / "log"
    ) as begun:
        begun.wait_for(held)
        begun.send(signal.SIGTERM)
        hold.set()
        assert begun.ended() == 143
    assert "interrupted: 4 of 400 answers are stored" in begun.said()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_imports_has_its_line(number, commands):
    command = [sys.executable, "-X", "importtime", "-m", "evalkit", "run", "--cfg", "job"]
    with subprocess.Popen(
        command, cwd=commands.folder, env=commands.env(), stderr=subprocess.PIPE, text=True
    ) as begun:
        before = iter(begun.stderr.readline, "")
        assert any("evalkit.cli.console" in line for line in before)
        begun.send_signal(number)
        said = [line for line in begun.stderr if not line.startswith("import time:")]
    assert begun.returncode == 128 + number
    assert said == ["evalkit: interrupted\n"]


def test_an_interrupted_sweep_begins_no_further_job(commands, provider, data, tmp_path):
    hold, held = threading.Event(), threading.Event()

    def rule(body: dict[str, Any]) -> Reply:
        held.set()
        return Reply({}, 500, hang=hold)

    provider.rule = rule
    words = ["run", *fake(provider), *data, *BRIEF, "swap=none,both", "-m", "hydra.sweep.dir=sweep"]
    with commands.started(
        *words, "judge.transport=direct", "runner.concurrency=1", log=tmp_path / "log"
    ) as begun:
        begun.wait_for(held)
        for _ in range(2):
            begun.send(signal.SIGINT)
        assert begun.ended() == 130
    hold.set()
    text = begun.said()
    assert "evalkit: interrupted: 0 of " in text
    assert "Traceback" not in text
    assert len(provider.requests) == 1
    assert commands.files() <= {"cases.jsonl", "sweep/multirun.yaml", "sweep/sweep.json"}


def test_too_many_failures_are_said_and_written(commands, within, provider, data):
    judged = prefers()
    provider.rule = lambda body: (
        Reply({"error": {"message": "no"}}, 500) if "Question 3?" in str(body) else judged(body)
    )
    words = ["run", *fake(provider), *data, *BRIEF, "runner.retries=0"]
    done = within(*words, "hydra.run.dir=run", status=2)
    assert "8.3% of the requests failed, more than runner.max_failure_rate=5.0% allows" in done.err
    found = commands.metrics("run")
    assert found["calls"]["failed"] == 2
    accuracy = found["metrics"]["agreement/accuracy"]
    assert (accuracy["value"], accuracy["n"], accuracy["missing"]) == (1.0, 11, 1)
    assert (accuracy["worst_low"], accuracy["worst_high"]) == (pytest.approx(11 / 12), 1.0)
    within(*words, "runner.max_failure_rate=0.1", "hydra.run.dir=again")


def test_ui_of_a_remote_store_says_where_it_is(within):
    assert (
        "the runs are at http://mlflow.example"
        in within("ui", "tracking.uri=http://mlflow.example").out
    )


def test_bash_completes_in_place(commands):
    """The installed script, in a real bash, by the console script."""
    script = Path(sys.executable).with_name("evalkit")
    if not script.exists() or shutil.which("bash") is None:
        pytest.skip("needs the console script and bash")
    lines = f"""
        PATH={script.parent}:$PATH
        eval "$(evalkit -sc install=bash)"
        COMP_LINE="evalkit run judge=gp" COMP_POINT=20 COMP_CWORD=2 COMP_WORDS=(evalkit run judge=gp)
        hydra_bash_completion
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", lines],
        cwd=commands.folder,
        env=commands.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["judge=gpt-4o", "judge=gpt-4o-mini"], done.stderr


def test_output_that_nobody_reads_on_is_no_error(commands):
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"set -o pipefail; {sys.executable} -m evalkit run --cfg job | head -1 >/dev/null",
        ],
        cwd=commands.folder,
        env=commands.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
