"""`evalkit reproduce`: a run done again from stored answers, and what is said when it comes out otherwise."""

import io
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from evalkit import load_config, run
from evalkit.datasets import sources
from tests.support.command_line import Done, fake, pair, prefers
from tests.support.fake_provider import Provider, refused, said

Call = Callable[..., Done]


@pytest.fixture
def provider(provider):
    provider.rule = prefers()
    return provider


@pytest.fixture
def ran(call, provider, tmp_path, monkeypatch, finished):
    """The folder of a run of six pairs, which is made once."""

    def judge() -> None:
        write_cases(tmp_path, 6)
        call("run", *words(provider))

    finished("first", judge)
    monkeypatch.delenv("OPENAI_API_KEY")
    return tmp_path / "first"


def write_cases(folder: Path, count: int, **more: str) -> None:
    lines = [json.dumps(pair(number, **more)) for number in range(count)]
    (folder / "cases.jsonl").write_text("\n".join(lines), "utf-8")


def words(provider: Provider, *more: str) -> list[str]:
    data = ["dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=50"]
    return [*fake(provider), *data, "tracking=none", "hydra.run.dir=first", *more]


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()
    }


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir() if not p.name.startswith("store.sqlite")}


def test_a_run_comes_out_the_same_and_stays_as_it_was(call, provider, ran, tmp_path):
    before, asked, there = contents(ran), len(provider.requests), names(tmp_path)
    done = call("reproduce", "first")
    count = len(json.loads((ran / "metrics.json").read_text())["metrics"])
    assert f"Reproduced: all {count} metrics are equal to the last bit." in done.out
    assert "pairwise · fake · cases (first, 12 answers)" in done.out
    assert contents(ran) == before
    assert len(provider.requests) == asked
    assert names(tmp_path) == there


def test_one_bit_of_one_metric_is_seen(call, ran):
    import math

    metrics = json.loads((ran / "metrics.json").read_text())
    metrics["metrics"]["agreement/accuracy"]["value"] = math.nextafter(1.0, 0.0)
    (ran / "metrics.json").write_text(json.dumps(metrics))
    manifest = json.loads((ran / "manifest.json").read_text())
    manifest["packages"]["numpy"] = "1.0"
    (ran / "manifest.json").write_text(json.dumps(manifest))
    done = call("reproduce", "first", "folder=found", status=4)
    assert "Not reproduced: 1 of" in done.out
    assert "agreement/accuracy value" in done.out
    assert "0.9999999999999999  1.0" in done.out
    assert "package numpy" in done.out
    found = json.loads(Path("found/reproduction.json").read_text())
    assert found["equal"] is False
    assert [change["what"] for change in found["metrics"]] == ["agreement/accuracy value"]


def test_metrics_that_came_with_a_later_evalkit_are_no_difference(call, ran):
    recorded = json.loads((ran / "metrics.json").read_text())
    for name in ("tie_rate", "win_rate/a"):
        del recorded["metrics"][name]
    (ran / "metrics.json").write_text(json.dumps(recorded))
    out = call("reproduce", "first").out
    assert (
        "equal to the last bit, and this evalkit has 2 that the run lacks: tie_rate, win_rate/a."
        in out
    )
    recorded["metrics"]["win_rate/b"]["value"] += 0.25
    (ran / "metrics.json").write_text(json.dumps(recorded))
    assert "Not reproduced" in call("reproduce", "first", status=4).out


def test_other_data_are_named_as_the_reason(call, ran, tmp_path):
    write_cases(tmp_path, 6, label="B")
    done = call("reproduce", "first", "dataset.path=cases.jsonl", status=4)
    assert "dataset fingerprint" in done.out
    assert "agreement/accuracy value" in done.out
    assert "answers that are not in the store" not in done.out


def test_another_prompt_and_the_answers_it_never_had_are_named(call, ran, tmp_path):
    shipped = (Path(__file__).parents[2] / "prompts" / "en" / "pairwise.md.j2").read_text()
    (tmp_path / "mine.md.j2").write_text(shipped.replace("# Guidelines", "# Rules"))
    before, heading, after = (ran / "config.yaml").read_text().partition("\nprompt:\n")
    (ran / "config.yaml").write_text(
        before + heading + after.replace("template: null", "template: mine.md.j2", 1)
    )
    out = " ".join(call("reproduce", "first", status=4).out.split())
    assert "prompt mine.md.j2 –" in out
    assert "prompts that differ from those of the run 0 12" in out
    assert "0 of 12 prompts have the same content keys" in out


def test_a_folder_is_all_it_takes(call, provider, ran, tmp_path):
    for file in [tmp_path / "cases.jsonl", *tmp_path.glob("store.sqlite*")]:
        file.unlink()
    elsewhere = tmp_path / "somewhere" / "else"
    elsewhere.parent.mkdir()
    ran.rename(elsewhere)
    asked = len(provider.requests)
    out = " ".join(call("reproduce", "somewhere/else").out.split())
    assert "Reproduced: all" in out
    assert (
        "Checked from cases.jsonl, prompts.json, judgments.jsonl: 12 of 12 prompts have the same content keys, "
        "answers were parsed and scored again. No judge was called." in out
    )
    assert "differs" not in out
    assert len(provider.requests) == asked
    assert not list(tmp_path.glob("store.sqlite*"))


@pytest.mark.parametrize(
    "more",
    [
        ["mode.commit_first=true"],
        ["output=json"],  # which the judge does not write: each is asked once more
        ["swap=third_pass", "judge.temperature=0.5"],
        ["mode.samples=2", "judge.temperature=0.5", "judge.seed=1"],
    ],
)
def test_every_answer_of_a_judgment_is_in_the_folder(call, provider, tmp_path, more):
    write_cases(tmp_path, 3)
    judged = prefers()
    if "swap=third_pass" in more:  # always the first, so that every pair has a third pass
        provider.rule = lambda _: said("[[A]]")
    elif "mode.commit_first=true" in more:
        provider.rule = lambda body: (
            judged(body) if "<response_a>" in str(body) else said("An answer.")
        )
    call(
        "run",
        *words(provider, "runner.max_failure_rate=1", *more),
        status=2 if "output=json" in more else 0,
    )
    for file in [tmp_path / "cases.jsonl", *tmp_path.glob("store.sqlite*")]:
        file.unlink()
    out = call("reproduce", "first").out
    assert "Reproduced: all" in out
    assert "note:" not in out


def test_an_edited_answer_is_noticed(call, ran):
    path = ran / "judgments.jsonl"
    path.write_text(path.read_text().replace("[[A]]", "[[B]]", 1))
    out = " ".join(call("reproduce", "first", status=4).out.split())
    assert "Not reproduced:" in out
    assert "answers that are parsed differently" in out


def test_a_folder_without_its_templates_needs_the_store(call, ran, tmp_path):
    (ran / "prompts.json").unlink()
    out = " ".join(call("reproduce", "first").out.split())
    assert "note: prompts.json is missing, so the dataset and the store were read" in out
    assert "Reproduced: all" in out
    call("store", "prune", "--older-than", "0d")
    assert "answers that are not in the store" in call("reproduce", "first", status=4).out
    (tmp_path / "store.sqlite").unlink()
    assert "evalkit: " in call("reproduce", "first", status=1).err


def test_the_answers_of_a_store_can_be_checked(call, ran, tmp_path):
    store = f"store.url=sqlite:///{tmp_path / 'store.sqlite'}"
    assert "from cases.jsonl, prompts.json, store:" in " ".join(
        call("reproduce", "first", store).out.split()
    )
    call("store", "prune", "--older-than", "0d")
    assert "answers that are not in the store" in call("reproduce", "first", store, status=4).out


@pytest.fixture
def swept(call, provider, tmp_path):
    """The folder of a sweep of two jobs that is recorded in MLflow; data set and store are gone."""
    write_cases(tmp_path, 4)
    given = [word for word in words(provider) if not word.startswith(("tracking", "hydra"))]
    mlflow = ["tracking.uri=sqlite:///mlflow.db", "tracking.traces=0", "hydra.sweep.dir=swept"]
    call("run", *given, *mlflow, "swap=both,none", "-m")
    for file in [tmp_path / "cases.jsonl", *tmp_path.glob("store.sqlite*")]:
        file.unlink()
    return tmp_path / "swept"


@pytest.mark.slow
def test_every_job_of_a_sweep_is_checked(call, swept, tmp_path):
    child = json.loads((swept / "0" / "manifest.json").read_text())["mlflow_run_id"]
    with sqlite3.connect("mlflow.db") as database:
        query = "SELECT value FROM tags WHERE run_uuid = ? AND key = 'mlflow.parentRunId'"
        [(parent,)] = database.execute(query, (child,)).fetchall()
    swept = swept.rename(tmp_path / "renamed")
    shutil.rmtree(tmp_path / "renamed" / "0" / "figures", ignore_errors=True)
    out = call("reproduce", "renamed").out
    assert re.search(r"^0: reproduced, all \d+ metrics are equal", out, re.M)
    assert re.search(r"^1: reproduced, all \d+ metrics are equal", out, re.M)
    assert "renamed: 2 of 2 jobs reproduced" in out
    metrics = json.loads((swept / "1" / "metrics.json").read_text())
    metrics["metrics"]["agreement/accuracy"]["value"] = 0.25
    (swept / "1" / "metrics.json").write_text(json.dumps(metrics))
    out = call("reproduce", "renamed", "folder=found", status=4).out
    assert "1: not reproduced, 1 of" in out
    assert "for example agreement/accuracy value was 0.25, is 1.0" in out
    found = json.loads(Path("found/reproduction.json").read_text())
    assert [job["equal"] for job in found["jobs"]] == [True, False]
    # MLflow holds the jobs as they were recorded.
    out = call("reproduce", parent, "tracking.uri=sqlite:///mlflow.db").out
    assert "swap=none: reproduced" in out
    assert "2 of 2 jobs reproduced" in out
    (swept / "0" / "cases.jsonl").unlink()
    done = call("reproduce", "renamed", status=4)
    assert "evalkit: 0: " in done.err
    assert "0 of 2 jobs reproduced" in done.out


def test_failures_are_taken_as_they_stood(call, provider, tmp_path):
    write_cases(tmp_path, 6)
    provider.script.extend(
        [refused(400, "no"), said("I cannot help with that.", finish="content_filter")]
    )
    call(
        "run",
        *words(provider, "runner.concurrency=1", "runner.max_failure_rate=1", "runner.retries=0"),
    )
    lost = [
        json.loads(line)["status"]
        for line in (tmp_path / "first/judgments.jsonl").read_text().splitlines()
    ]
    assert "failed" in lost
    done = call("reproduce", "first")
    assert (
        f"note: {lost.count('failed')} failed requests have no answer and are copied as failures"
        in done.out
    )
    assert "Reproduced: all" in done.out


def test_an_answer_that_has_come_since_a_failure_is_named(call, provider, tmp_path):
    write_cases(tmp_path, 4)
    judged = prefers()
    provider.rule = lambda body: refused(400, "no") if "Question 3?" in str(body) else judged(body)
    call("run", *words(provider, "runner.max_failure_rate=1"))
    provider.rule = judged
    call("run", *words(provider), "hydra.run.dir=since")
    # The run's own files say what they said; the store has since learned more.
    assert "Reproduced: all" in call("reproduce", "first").out
    out = " ".join(
        call("reproduce", "first", f"store.url={tmp_path / 'store.sqlite'}", status=4).out.split()
    )
    assert "answers received since 0 2" in out
    assert "are copied as failures" not in out


@pytest.mark.parametrize("source", ["frame", "stdin"])
def test_cases_that_can_be_read_only_once_are_the_runs_own(
    call, provider, tmp_path, monkeypatch, source
):
    rows = [pair(number) for number in range(3)]
    if source == "frame":
        found = words(provider)
        overrides = [word for word in found if not word.startswith(("dataset", "hydra"))]
        run(load_config(overrides=overrides), tmp_path / "first", cases=rows)
    else:
        piped = io.TextIOWrapper(
            io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())
        )
        monkeypatch.setattr("sys.stdin", piped)
        sources._spool_standard_input.cache_clear()
        call("run", *words(provider, "dataset.path=-", "dataset.format=jsonl"))
        sources._spool_standard_input.cache_clear()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    out = call("reproduce", "first").out
    assert "Reproduced: all" in out
    assert "differs" not in out
    # A file that is named now is read instead.
    write_cases(tmp_path, 3, label="B")
    out = call("reproduce", "first", f"dataset.path={tmp_path / 'cases.jsonl'}", status=4).out
    assert "dataset fingerprint" in out


@pytest.mark.usefixtures("mlflow_store")
def test_a_recorded_run_is_fetched(call, ran):
    from evalkit.config import TrackingConfig
    from evalkit.runs import read_run
    from evalkit.tracking import make_tracker

    tracker = make_tracker(TrackingConfig(uri="sqlite:///mlflow.db"))
    run_id = tracker.record(read_run(ran))
    shutil.rmtree(ran)
    assert "Reproduced: all" in call("reproduce", run_id, "tracking.uri=sqlite:///mlflow.db").out


def test_a_mistake_is_one_line(call, ran):
    mistakes: list[tuple[list[str], str]] = [
        ([], "evalkit reproduce: needs RUN"),
        (["nowhere"], "nowhere: no such folder"),
        (["first", "tie.threshold=0.5"], "tie.threshold: cannot be changed here"),
        (["first", "dataset.path=gone.jsonl"], "gone.jsonl"),
    ]
    for given, complaint in mistakes:
        assert complaint in call("reproduce", *given, status=1).line()
