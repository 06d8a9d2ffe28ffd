"""`runner.stop` from the command line: what is asked and paid, what the files say, and what is refused."""

import csv
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Commands, Done, fake, pair, shown
from tests.support.fake_provider import Provider, Reply, said
from tests.support.thorough import some_of

Call = Callable[..., Done]
COUNT = 160


def number(body: dict[str, Any]) -> int:
    return int(re.search(r"Question (\d+)\?", str(body))[1])  # type: ignore[index]


def judge(body: dict[str, Any]) -> Reply:
    """Response A wins in one of ten cases, B in the others; the judge does not look at the position."""
    wins = shown(body)[0].startswith("good") == (number(body) % 10 == 0)
    return said(f"[[{'A' if wins else 'B'}]]", usage=(100, 10))


@pytest.fixture
def provider(provider, tmp_path):
    (tmp_path / "cases.jsonl").write_text(
        "\n".join(json.dumps(pair(n)) for n in range(COUNT)), "utf-8"
    )
    provider.rule = judge
    return provider


def words(provider: Provider, *more: str, width: float = 0.25, folder: str = "first") -> list[str]:
    data = [
        *("dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=50"),
        "tracking=none",
    ]
    rule = f"runner.stop={{metric: win_rate/a, width: {width}}}"
    return [
        *(*fake(provider), "judge.transport=direct", rule, *data, f"hydra.run.dir={folder}", *more),
    ]


def read(name: str, folder: str = "first") -> Any:
    return json.loads((Path(folder) / name).read_text("utf-8"))


def lines(name: str, folder: str = "first") -> list[Any]:
    return [json.loads(line) for line in (Path(folder) / name).read_text("utf-8").splitlines()]


def test_a_run_asks_what_it_needs_and_says_so(call, provider):
    done = call("run", "-v", *words(provider))
    cases, metric = lines("cases.jsonl"), read("metrics.json")["metrics"]["win_rate/a"]
    n, left, manifest = len(cases), COUNT - len(cases), read("manifest.json")
    assert 30 < n < 120
    assert (
        f"clusters in random order, at most 0.25 wide. This holds at any stopping time. {left} other cases"
        in done.out
    )
    assert f"({n} cases)" in done.out
    assert 2 * n <= len(provider.requests) <= 2 * n + 4 * 16 + 2
    assert (
        f"calls: {len(provider.requests)} planned, 0 stored, {len(provider.requests)} sent, 0 failed"
        in done.out
    )
    late = len(provider.requests) - 2 * n
    assert manifest["not_needed"] == {**manifest["not_needed"], "cases": left, "answers": late}
    assert (
        f"{late} answers about other cases were already requested: they are paid and stored, and"
        in done.out
    ) == (late > 1)
    assert [metric["n"], metric["missing"]] == [n, 0]
    assert metric["high"] - metric["low"] <= 0.25
    assert metric["low"] < 0.1 < metric["high"]
    assert len(lines("judgments.jsonl")) == 2 * n
    assert [case["id"] for case in cases] != sorted(
        (case["id"] for case in cases), key=lambda one: int(one[1:])
    )
    table = read("sequence.json")
    assert [manifest["dataset"]["rows"], manifest["stopped"], manifest["clusters"]["count"]] == [
        *(n, None, n),
    ]
    assert table["points"][-1] == {"clusters": n, "low": metric["low"], "high": metric["high"]}
    assert "Confidence sequence" in Path("first/report.html").read_text("utf-8")
    assert "置信序列" in Path("first/report.html").read_text("utf-8")
    # The same command asks nothing, and everything is the same.
    asked = len(provider.requests)
    call("run", *words(provider, folder="again"))
    assert [lines("cases.jsonl", "again"), read("metrics.json", "again")["metrics"]] == [
        cases,
        read("metrics.json")["metrics"],
    ]
    assert "equal" in call("reproduce", "first").out
    assert "equal" in call("reproduce", "first", "dataset.path=cases.jsonl").out
    call("export", "first", "--to", "csv")
    assert (
        len(list(csv.DictReader(Path("first/judgments.csv").read_text("utf-8").splitlines())))
        == 2 * n
    )
    assert len(provider.requests) == asked


@pytest.mark.thorough
def test_scoring_with_another_width_sends_nothing_and_never_says_settled_if_it_is_not(
    call, provider
):
    call("run", *words(provider, "runner.concurrency=2"))
    before, asked = read("metrics.json")["metrics"]["win_rate/a"], len(provider.requests)
    assert "Settled: " in call("score", "-v", "first", "runner.stop.width=0.4").out
    done = call("score", "-v", "first", "runner.stop.width=0.1")
    assert "Not settled: " in done.out
    assert re.search(
        r"The run had stopped at a larger width: run it again to judge more cases\. \d+ other",
        done.out,
    )
    assert read("metrics.json")["metrics"]["win_rate/a"] == before
    for change in ("runner.stop=null", "runner.stop.metric=tie_rate"):
        assert "cannot be changed here" in call("score", "first", change, status=1).line()
    line = call("score", "first", "scoring.cluster=id", status=1).line()
    assert line.startswith("scoring.cluster: the clusters of a run that stops cannot be changed")
    # A smaller width goes on where the run stopped.
    done = call("run", "-v", *words(provider, width=0.2, folder="second"))
    assert "Settled: " in done.out
    first, second = lines("cases.jsonl"), lines("cases.jsonl", "second")
    assert second[: len(first)] == first
    assert len(provider.requests) <= 2 * len(second) + 66
    assert len(provider.requests) > asked


def test_an_unsettled_run_is_written_with_its_interval(call, provider):
    done = call("run", "-v", *words(provider, width=0.02))
    assert "There are no other cases." in done.out
    assert len(lines("cases.jsonl")) == COUNT
    assert read("manifest.json")["not_needed"]["cases"] == 0


def test_a_budget_ends_at_a_complete_cluster_and_a_higher_one_resumes(call, provider):
    done = call(
        "run", "-v", *words(provider, "runner.budget_calls=41", "runner.concurrency=4"), status=2
    )
    assert "runner.budget_calls=41 is reached" in done.err
    assert "The run ended early: runner.budget_calls=41 is reached. " in done.out
    assert len(provider.requests) == 41
    judgments = lines("judgments.jsonl")
    assert {one["status"] for one in judgments} == {"ok"}
    assert 30 <= len(judgments) == 2 * len(lines("cases.jsonl")) <= 40
    assert read("metrics.json")["metrics"]["missing/budget"]["value"] == 0
    done = call("run", "-v", *words(provider, "runner.budget_calls=400", "--overwrite"))
    assert "Settled: " in done.out


@pytest.mark.thorough
def test_failed_requests_stay_missing_and_widen_the_interval(call, provider):
    call("run", *words(provider, folder="whole"))
    whole = len(lines("cases.jsonl", "whole"))
    fails = lambda body: (  # noqa: E731
        Reply({"error": {"message": "no"}}, 400) if number(body) % 12 == 5 else judge(body)
    )
    provider.rule = fails
    more = ["runner.retries=0", "runner.max_failure_rate=0.5", "store.mode=refresh"]
    call("run", *words(provider, *more))
    metric = read("metrics.json")["metrics"]["win_rate/a"]
    assert metric["missing"] > 3
    assert metric["n"] + metric["missing"] == len(lines("cases.jsonl")) > whole
    assert metric["low"] < metric["worst_low"] < metric["worst_high"] < metric["high"]


def test_a_plan_says_how_many_clusters_it_takes(call, provider):
    price = ["judge.price={input: 1, output: 1}"]
    few = call("plan", *words(provider, *price, width=0.1)).out
    assert (
        "win_rate/a to a width of 0.1 takes about 970 clusters if it is near the middle of its range"
        in few
    )
    assert f"the {COUNT} here may be too few: near the middle, its width would be 0.2" in few
    many = call("plan", *words(provider, *price, width=0.3)).out
    found = re.search(
        r"about (\d+) clusters .* of 160 here: about (\d+) requests to send, \$0\.\d+", many
    )
    assert int(found[2]) == 2 * int(found[1])
    assert provider.requests == []


def test_a_plan_of_a_run_that_goes_on_counts_what_is_left(call, provider):
    call("run", *words(provider, "runner.concurrency=1", width=0.4))
    stored = len(provider.requests)
    left = call("plan", *words(provider, width=0.3)).out
    assert (
        f"about 113 clusters if it is near the middle of its range, and 20 or more at an end; of {COUNT} here"
        in left
    )
    assert f": about {2 * 113 - stored} requests to send, " in left
    swept = call("plan", *words(provider, "-m", "tie.threshold=0,0.5", width=0.3)).out
    found = re.findall(r"about (\d+) requests to send", swept)
    assert [int(count) for count in found] == [2 * 113 - stored, 0]  # both ask the same
    assert re.findall(r"^(.*): runner.stop: ", swept, re.MULTILINE) == [
        "tie.threshold=0",
        "tie.threshold=0.5",
    ]


def test_a_plan_of_scores_measures_the_width_by_their_range(call, provider):
    Path("cases.jsonl").write_text(
        "\n".join(f'{{"id": "{n}", "prompt": "p{n}", "response": "r"}}' for n in range(COUNT))
    )
    more = ["mode=pointwise", "runner.stop.metric=score/mean", "output=json"]
    shown = call("plan", *words(provider, *more, width=1.2)).out  # 0.3 of the range from 1 to 5
    assert (
        "score/mean to a width of 1.2 takes about 113 clusters if it is near the middle of its range"
        in shown
    )
    assert "of 160 here: about 113 requests to send" in shown
    few = call("plan", *words(provider, *more, width=0.4)).out
    width = re.search(r"near the middle, its width would be ([\d.]+)", few)
    assert 0.8 < float(width[1]) < 1.2
    line = call("plan", *words(provider, *more, width=4), status=1).line()
    expected = "runner.stop.width=4: every interval is that narrow: score/mean is between 1 and 5; set less than 4"
    assert line == expected


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_width_in_points_is_refused_before_any_call(call, provider, command):
    line = call(command, *words(provider, width=10), status=1).line()
    assert line.startswith(
        "runner.stop.width=10: every interval is that narrow: win_rate/a is between 0 and 1; set less"
    )
    assert provider.requests == []
    assert not Path("first").exists()


def test_requests_that_do_not_wait_for_answers_are_refused(call, provider):
    line = call("batch", "write", *words(provider), "out.jsonl", status=1).line()
    assert line.startswith("runner.stop: the answers decide what is asked next")
    assert (
        "runner.stop: batch asks before"
        in call("run", *words(provider, "runner=batch"), status=1).line()
    )
    Path("experiments").mkdir()
    Path("experiments/first.yaml").write_text(
        "judge: {model: openai/a}\nrunner: {stop: {metric: tie_rate, width: 0.1}}\ndataset: {path: cases.jsonl}\n"
    )
    assert "the answers decide" in call("work", "first", "--shard", "1/2", status=1).line()
    assert not Path("out.jsonl").exists()


@pytest.mark.thorough
def test_the_jobs_of_a_sweep_stop_one_by_one(call, provider):
    swept = words(
        provider, "-m", "mode.samples=1,2", "hydra.sweep.dir=sweep", "judge.temperature=1"
    )
    assert "Leaderboard of 2 jobs" in call("run", *swept).out
    counts = {len(lines("cases.jsonl", f"sweep/{job}")) for job in range(2)}
    assert len(counts) == 1
    assert "already finished" in call("run", *swept).err
    line = call("compare", "sweep/0", "sweep/1", "bootstrap=50").out
    assert str(counts.pop()) in line


SETTINGS = {
    "panel": (["judge=panel", "judge.judges=[simulated/good,simulated/noisy]"], "win_rate/a"),
    "a third pass": (["judge=simulated/noisy", "swap=third_pass"], "agreement/accuracy"),
    "scores": (["judge=simulated/noisy", "mode=pointwise"], "score/mean"),
    "rankings": (["judge=simulated/noisy", "mode=listwise"], "position/consistency"),
}


@pytest.mark.parametrize("name", some_of(SETTINGS, 9))
def test_all_requests_about_a_case_are_complete_before_it_counts(call, name, tmp_path):
    (tmp_path / "cases.jsonl").write_text(
        "\n".join(json.dumps(pair(n)) for n in range(COUNT)), "utf-8"
    )
    settings, metric = SETTINGS[name]
    width = 1.0 if metric == "score/mean" else 0.45
    data = [
        *("dataset=file", "dataset.path=cases.jsonl", "scoring.bootstrap=20", "tracking=none"),
        "hydra.run.dir=first",
    ]
    done = call("run", "-v", *settings, *data, f"runner.stop={{metric: {metric}, width: {width}}}")
    assert "Settled: " in done.out
    cases, found = lines("cases.jsonl"), read("metrics.json")["metrics"][metric]
    asked = {
        (one["case_id"], one["judge"], tuple(one["shown"]), one["sample"])
        for one in lines("judgments.jsonl")
    }
    assert len(asked) % len(cases) == 0 or name == "a third pass"
    assert found["n"] + found["missing"] == len(cases) * (2 if metric == "score/mean" else 1)
    assert found["high"] - found["low"] <= width
    assert "equal" in call("reproduce", "first").out


@pytest.mark.thorough
@pytest.mark.slow
def test_an_interrupted_run_goes_on_where_it_stopped(provider, tmp_path):
    import signal

    reached = threading.Event()

    def rule(body: dict[str, Any]) -> Reply:
        if len(provider.requests) > 40:
            reached.set()
        return judge(body)

    provider.rule = rule
    commands = Commands(tmp_path, {"EVALKIT_STORE": str(tmp_path / "store.sqlite")})
    with commands.started(
        "run", *words(provider, "runner.concurrency=1"), log=tmp_path / "log"
    ) as started:
        started.wait_for(reached)
        started.send(signal.SIGINT)
        assert started.ended() == 130
    before = len(provider.requests)
    done = commands("run", "-v", *words(provider, "runner.concurrency=1"))
    assert "Settled: " in done.out
    cases = (tmp_path / "first" / "cases.jsonl").read_text("utf-8").splitlines()
    assert len(provider.requests) <= 2 * len(cases) + 4
    assert f"{before} stored" in done.out or f"{before - 1} stored" in done.out
