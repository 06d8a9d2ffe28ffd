"""Shards of a study, judged by hand, by jobs and by actors: the same metrics, and a dead worker loses nothing."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from evalkit import load_config, run
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case
from evalkit.engine.workers import Shard, ShardTask
from evalkit.store import open_url
from evalkit.workflows import run as api
from tests.support.command_line import BRIEF, Commands, fake, pair
from tests.support.fake_provider import refused, said, serving
from tests.support.servers import PATIENCE

ENGINES = {"slurm": ["runner=slurm", "runner.options.cluster=local"], "ray": ["runner=ray"]}
SWEPT = ("judge=simulated/good,simulated/position_biased", "swap=both", "dataset.limit=null")


@pytest.fixture(autouse=True)
def folder(here, tmp_path_factory, monkeypatch):
    # Ray's sockets are in folders below its own, and the path of a socket must not exceed 107
    # bytes.
    base = tmp_path_factory.getbasetemp()
    monkeypatch.setenv(
        "RAY_TMPDIR", str(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)
    )
    return here


def cases(folder: Path, count: int) -> list[str]:
    rows = [
        {**pair(n), "prompt": f"Question {n // 3}?", "label": "AB"[n % 2]} for n in range(count)
    ]
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["dataset=file", "dataset.path=cases.jsonl", "judge=simulated/position_biased", *BRIEF]


def outcome(run: str | Path) -> tuple[dict, dict]:
    there = json.loads((Path(run) / "metrics.json").read_text())
    # A simulated judge has no price, but a latency of its own.
    return {name: one for name, one in there["metrics"].items() if "latency" not in name}, there[
        "calls"
    ]


def die_once(config, shard, observe):
    """Judge as a worker does, but let the process of each shard die half-way, once."""
    mark = Path(config.dataset.path).with_name(f"died-{shard.index}")

    def then_die(progress):
        observe(progress)
        if progress.done * 2 > progress.total and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return api.judge_shard(config, shard, then_die)


def preempt_once(config, shard, observe):
    """Judge as a worker does, but let Slurm preempt the job of the second shard half-way, at its first start."""
    starts = Path(config.dataset.path).with_name(f"starts-{shard.index}")
    with starts.open("a") as file:
        file.write("x")

    def then_preempt(progress):
        observe(progress)
        if shard.index == 2 and progress.done * 2 > progress.total and starts.read_text() == "x":
            os.kill(os.getpid(), signal.SIGUSR2)

    return api.judge_shard(config, shard, then_preempt)


def test_a_shard_holds_the_cases_of_a_prompt_and_every_case_is_in_one():
    shards = [Shard.of(f"{n}/7") for n in range(1, 8)]
    for n in range(200):
        case = Case(f"c{n}", f"Question {n}?", ())
        assert sum(shard.holds(case) for shard in shards) == 1
        assert all(
            shard.holds(case) == shard.holds(Case(f"d{n}", f"Question {n}?", ()))
            for shard in shards
        )
    assert Shard(10, 20).holds(Case("a", "Question 1?", ())), "the same on every machine, forever"
    assert Shard(1, 20).holds(Case("a", "", ()))


def test_work_judges_one_shard_into_the_store_and_run_scores_what_is_stored(call, folder):
    words = [*cases(folder, 30), "swap=both,none", "-m", "store.url=answers.sqlite"]
    sent = [
        int(re.findall(r"(\d+) sent", line)[0])
        for n in (1, 2, 3)
        for line in call("work", *words, "--shard", f"{n}/3").out.splitlines()
    ]
    assert len(sent) == 6
    assert sum(sent) == 60
    assert sum(sent[1::2]) == 0, "the second job's requests are the first one's"
    assert {path.name for path in folder.iterdir()} == {
        *("cases.jsonl", "answers.sqlite", "answers.sqlite-claims"),
    }
    call("run", *words, "--output", "sweep")
    assert outcome("sweep/0")[1] == {
        "planned": 60,
        "stored": 60,
        "sent": 0,
        "retried": 0,
        "failed": 0,
    }


def test_what_a_shard_says_names_it_and_its_host(call, folder):
    place = f"shard 2/3 on {socket.gethostname()}: "
    assert (
        call("work", "dataset=file", "dataset.path=no.jsonl", "--shard", "2/3", status=1)
        .line()
        .startswith(place)
    )
    with serving() as provider:
        provider.rule = lambda _: refused(401, "no such key", code="invalid_api_key")
        words = [*cases(folder, 30), *fake(provider), "store.url=a.sqlite"]
        assert place in call("work", *words, "--shard", "2/3", status=1).err
    for words in (["runner.budget_usd=1"], ["runner.budget_usd=1", "runner.budget_scope=sweep"]):
        line = call("work", *words, "--shard", "1/3", status=1).line()
        assert "runner.budget_usd: each worker would spend it" in line
        assert "set runner.budget_usd and runner.budget_scope=store" in line
    assert "is not a shard such as 3/20" in call("work", "--shard", "4/3", status=1).line()
    assert (
        "the answers would be lost"
        in call("work", "store.mode=off", "--shard", "1/3", status=1).line()
    )


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["runner=slurm"], "workers on several machines cannot share an SQLite file"),
        (["runner=slurm", "runner.options={cluster: local, no_such: 1}"], "no_such"),
        (
            ["runner=ray", "runner.options.address=127.0.0.1:9"],
            "Ray: no cluster answers at 127.0.0.1:9; start one there",
        ),
    ],
)
def test_what_workers_cannot_do_is_one_line(call, folder, words, what):
    for package in ("submitit", "ray"):
        pytest.importorskip(package)
    assert what in call("run", *cases(folder, 3), "store.url=a.sqlite", *words, status=1).line()


def test_cases_in_memory_are_refused_before_anything_is_paid(folder):
    config = load_config(
        "config", ["runner=ray", "judge=simulated/good", *BRIEF, "store.url=a.sqlite"]
    )
    with pytest.raises(ConfigError, match="workers cannot read cases from memory"):
        run(config, folder / "run", cases=[pair(1)])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["slurm", pytest.param("ray", marks=pytest.mark.thorough)])
def test_a_run_whose_workers_die_has_the_metrics_of_a_single_process(
    call, folder, engine, monkeypatch
):
    pytest.importorskip({"slurm": "submitit"}.get(engine, engine))
    words = cases(folder, 100)
    call("run", *words, "store.url=one.sqlite", "--output", "one")
    words[1] = f"dataset.path={folder / 'cases.jsonl'}"
    with monkeypatch.context() as patch:
        patch.setattr("evalkit.workflows.run.judge_shard", die_once)
        call(
            "run",
            *words,
            "store.url=many.sqlite",
            *ENGINES[engine],
            "runner.workers=2",
            "--output",
            "many",
        )
    assert {path.name for path in folder.glob("died-*")} == {"died-1", "died-2"}
    expected, calls = outcome("one")
    assert outcome("many")[0] == expected
    # What the dead workers had stored was found by those that took over.
    assert calls["sent"] == 200
    assert 50 < outcome("many")[1]["sent"] < 200


@pytest.mark.thorough
@pytest.mark.slow
def test_a_sweep_by_workers_has_the_metrics_of_a_single_process(call, folder):
    pytest.importorskip("ray")
    for name, more in (("one", []), ("many", [*ENGINES["ray"], "runner.workers=2"])):
        call(
            "run",
            "judge_sweep",
            *SWEPT,
            *BRIEF,
            f"store.url={name}.sqlite",
            *more,
            "--output",
            f"{name}-sweep",
        )
    for job in range(2):
        assert outcome(f"many-sweep/{job}")[0] == outcome(f"one-sweep/{job}")[0]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_job_that_is_preempted_is_queued_again_and_nothing_is_paid_for_twice(
    call, folder, monkeypatch
):
    pytest.importorskip("submitit")
    monkeypatch.setattr("evalkit.workflows.run.judge_shard", preempt_once)
    with serving() as provider:
        provider.rule = lambda _: said("[[A]]")
        words = [*cases(folder, 300), *fake(provider), "judge.transport=direct", "output=bracket"]
        words[1] = f"dataset.path={folder / 'cases.jsonl'}"
        call(
            "run",
            *words,
            "store.url=a.sqlite",
            *ENGINES["slurm"],
            "runner.workers=2",
            "--output",
            "r",
        )
        requests = len(provider.requests)
    assert [(folder / f"starts-{shard}").read_text() for shard in (1, 2)] == ["x", "xx"]
    assert not (folder / "r" / "workers").exists(), "the job died"
    assert requests == 600
    assert {name: outcome("r")[1][name] for name in ("planned", "failed")} == {
        "planned": 600,
        "failed": 0,
    }


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["slurm", pytest.param("ray", marks=pytest.mark.thorough)])
def test_ctrl_c_stops_every_worker_and_keeps_what_was_paid_for(folder, engine):
    pytest.importorskip({"slurm": "submitit"}.get(engine, engine))
    asked = threading.Event()

    with serving() as provider:

        def answer(body):
            if len(provider.requests) == 40:
                asked.set()
            return said("[[A]]")

        provider.rule = answer
        words = [
            *cases(folder, 3000),
            *fake(provider),
            "judge.transport=direct",
            "store.url=a.sqlite",
            *ENGINES[engine],
            "runner.workers=2",
            "output=bracket",
        ]
        with Commands(folder).started(
            "run", *words, "--output", "r", log=folder / "log"
        ) as started:
            started.wait_for(asked)
            os.killpg(started.process.pid, signal.SIGINT)
            assert started.ended() == 130, started.said()
        assert re.search(
            r"interrupted: [\d,]+ answers are stored; run again to continue", started.said()
        ), started.said()
        requests = len(provider.requests)
    store = open_url("a.sqlite", read_only=True)
    assert 40 <= sum(1 for _ in store.scan()) == requests < 6000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "number"),
    [
        ("slurm", signal.SIGINT),
        pytest.param("ray", signal.SIGTERM, marks=pytest.mark.thorough),
    ],
)
def test_a_second_signal_ends_every_worker_and_its_calls(folder, engine, number):
    pytest.importorskip({"slurm": "submitit"}.get(engine, engine))
    asked, answer_now = threading.Event(), threading.Event()
    with serving() as provider:

        def answer(body):
            if len(provider.requests) <= 20:
                return said("[[A]]")
            asked.set()
            answer_now.wait(PATIENCE)  # a judge that is slow to answer
            return said("[[A]]")

        provider.rule = answer
        words = [
            *(*cases(folder, 300), *fake(provider), "judge.transport=direct", "store.url=a.sqlite"),
            "output=bracket",
        ]
        words += [*ENGINES[engine], "runner.workers=2", "judge.price={input: 1, output: 1}"]
        with Commands(folder).started(
            "run", *words, "--output", "r", log=folder / "log"
        ) as started:
            started.wait_for(asked)
            started.send(number)
            started.send(number)
            assert started.ended() == 128 + number, started.said()
        answer_now.set()
        stored = sum(1 for _ in open_url("a.sqlite", read_only=True).scan())
    assert f"interrupted: {stored:,} answers are stored; run again to continue" in started.said()
    assert stored <= 20  # an answer that was on its way when the second signal came may be lost
    with sqlite3.connect(
        "a.sqlite"
    ) as database:  # nobody holds a claim, and nobody is there to store more
        assert database.execute("select count(*) from completions").fetchone() == (stored,)


NODELESS = """
import os, signal, subprocess, sys
from evalkit.engine.workers import ray_pool
ray_pool._NODE_SECONDS = 1.0
from evalkit.cli import entry_point
entry_point()
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_a_run_of_ray_without_a_node_ends_and_counts_what_is_stored(folder):
    pytest.importorskip("ray")
    asked, lost = threading.Event(), threading.Event()
    with serving() as provider:

        def answer(body):
            if len(provider.requests) > 40:
                asked.set()
                lost.wait(PATIENCE)
            return said("[[A]]")

        provider.rule = answer
        words = [
            *(*cases(folder, 300), *fake(provider), "judge.transport=direct", "store.url=a.sqlite"),
            "output=bracket",
        ]
        command = [
            *(sys.executable, "-c", NODELESS, "run", *words, "runner=ray", "runner.workers=2"),
            *("--output", "r"),
        ]
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as process,
        ):
            try:
                assert asked.wait(PATIENCE), (folder / "log").read_text()
                agents = [
                    pid
                    for pid in below(process.pid)
                    if b"ray::RuntimeEnvAgent" in command_line(pid)
                ]
                assert len(agents) == 1
                os.kill(agents[0], signal.SIGKILL)
                assert process.wait(PATIENCE) == 2, (folder / "log").read_text()
            finally:
                lost.set()
                process.kill()
        stored = sum(1 for _ in open_url("a.sqlite", read_only=True).scan())
    text = (folder / "log").read_text()
    assert "Ray has no node left: waiting 1 s for one to join" in text
    counted = re.search(
        r"none joined in 1 s: ([\d,]+) answers are stored; run again to continue", text
    )
    assert int(counted[1].replace(",", "")) <= stored
    assert len(provider.requests) < 600


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def below(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    try:
        children = [
            int(n)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for n in (task / "children").read_text().split()
        ]
    except OSError:
        return []
    return [one for child in children for one in (child, *below(child))]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_jobs_are_submitted_is_handled_once_they_are(folder, monkeypatch, number):
    pytest.importorskip("submitit")
    from evalkit.engine.workers.slurm_pool import SlurmPool

    class Job:
        pass

    job = Job()

    def submit(*_):
        signal.raise_signal(number)
        return [job]

    before = signal.signal(number, signal.default_int_handler)
    pool, shard = SlurmPool(1, {"cluster": "local"}, folder, lambda: None), Shard(1, 1)
    monkeypatch.setattr(pool._executor, "map_array", submit)
    pool.start(ShardTask(api.judge_shard, load_config("config", []), shard))
    try:
        with pytest.raises(KeyboardInterrupt):
            list(pool.poll(0.0))
    finally:
        signal.signal(number, before)
    assert pool.running == {job: shard}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["submitit_local", "ray"])
def test_a_launcher_judges_the_jobs_of_a_sweep_under_one_parent_run(
    call, folder, launcher, mlflow_store
):
    pytest.importorskip({"ray": "ray"}.get(launcher, "hydra_plugins.hydra_submitit_launcher"))
    words = ["judge_sweep", *SWEPT, "store.url=a.sqlite", "scoring.bootstrap=50"]
    call(
        "run",
        *words,
        f"tracking.uri={mlflow_store}",
        f"hydra/launcher={launcher}",
        "--output",
        "many",
    )
    call("run", *words, "tracking=none", "--output", "one")
    for job in range(2):
        assert outcome(f"many/{job}")[0] == outcome(f"one/{job}")[0]
    with sqlite3.connect(folder / "mlflow.db") as database:
        runs = [run for (run,) in database.execute("select run_uuid from runs")]
        parents = [
            run
            for (run,) in database.execute(
                "select value from tags where key = 'mlflow.parentRunId'"
            )
        ]
    assert len(runs) == 3
    assert len(parents) == 2
    assert len(set(parents)) == 1
    assert set(parents) <= set(runs)
