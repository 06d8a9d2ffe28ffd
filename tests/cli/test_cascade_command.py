"""`judge=cascade` from the command line: who is asked about what, what is stored, and what is refused before a call."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Commands, Done, pair, shown
from tests.support.fake_provider import Provider, Reply, said, serving

Call = Callable[..., Done]
COUNT = 120
JUDGE = """name: {name}
model: openai/{name}
api_base: {base}
transport: direct
price: {{input: {price}, output: {price}}}
"""


def number(body: dict[str, Any]) -> int:
    return int(re.search(r"Question (\d+)\?", str(body))[1])  # type: ignore[index]


def judges(body: dict[str, Any]) -> Reply:
    """The small judge follows the order in every third case, and is right in the others; the large one is right."""
    good = shown(body)[0].startswith("good")
    if body["model"] == "small" and number(body) % 3 == 0:
        good = True
    return said(f"[[{'A' if good else 'B'}]]", usage=(100, 10))


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    (tmp_path / "cases.jsonl").write_text("\n".join(json.dumps(pair(n)) for n in range(COUNT)), "utf-8")
    folder = tmp_path / "conf" / "judge"
    folder.mkdir(parents=True)
    with serving() as provider:
        provider.rule = judges
        for name, price in (("small", 0.1), ("large", 10)):
            (folder / f"{name}.yaml").write_text(JUDGE.format(name=name, base=provider.api_base, price=price), "utf-8")
        yield provider


def words(*more: str, names: str = "[small,large]") -> list[str]:
    data = ["dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=50", "tracking=none"]
    return ["judge=cascade", f"judge.judges={names}", "judge.target=0.8", *data, "hydra.run.dir=first", *more]


def asked(provider: Provider) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = {"small": Counter(), "large": Counter()}
    for body in provider.requests:
        found[body["model"]][number(body)] += 1
    return found


def test_the_next_judge_is_asked_only_about_what_the_first_one_is_not_sure_of(call: Call, provider: Provider) -> None:
    done = call("run", *words())
    assert asked(provider) == {
        "small": Counter(dict.fromkeys(range(COUNT), 2)),
        "large": Counter(dict.fromkeys(range(0, COUNT, 3), 2)),
    }
    assert "calls: 320 planned, 0 stored, 320 sent, 0 failed" in done.out
    assert "The judges of the cascade decide in turn: small 67%" in done.out
    cost = "times as much as with the last judge alone ($0.0022)"
    assert f"A case costs $0.00076, 0.34 [0.24, 0.42] {cost}" in re.sub(r"\[0\.2\d, 0\.4\d\]", "[0.24, 0.42]", done.out)
    lines = [json.loads(line) for line in Path("first/judgments.jsonl").read_text("utf-8").splitlines()]
    assert [line["case_id"] for line in lines] == sorted((line["case_id"] for line in lines), key=lambda c: int(c[1:]))
    assert [line["judge"] for line in lines[:6]] == ["small", "small", "large", "large", "small", "small"]
    steps = json.loads(Path("first/cascade.json").read_text("utf-8"))["steps"]
    assert [(step["judge"], step["decided"]) for step in steps] == [("small", 80), ("large", 40)]
    # Everything is stored, and comes out the same.
    again = call("run", *words("--overwrite"))
    assert "calls: 320 planned, 320 stored, 0 sent, 0 failed" in again.out
    assert "all" in call("reproduce", "first").out
    strict = call("score", "first", "judge.target=0.95", "judge.last=answer", "scoring.bootstrap=20")
    assert "small 0%" in strict.out
    voted = call("score", "first", "judge.vote=majority", "scoring.bootstrap=20")
    assert "of the cascade" not in voted.out
    files = json.loads(Path("first/manifest.json").read_text("utf-8"))["files"]
    assert [Path("first/cascade.json").exists(), "cascade.json" in files] == [False, False]
    assert [Path("first/panel.json").exists(), "panel.json" in files] == [True, True]
    call("score", "first", "judge.vote=cascade", "scoring.bootstrap=20")
    files = json.loads(Path("first/manifest.json").read_text("utf-8"))["files"]
    assert [Path("first/cascade.json").exists(), "cascade.json" in files] == [True, True]
    assert [Path("first/panel.json").exists(), "panel.json" in files] == [False, False]
    for tune in ("tune=[vote]", "tune=prompt", "tune=examples"):
        line = call("align", "first", tune, "align.model=m", "align.budget_usd=1", status=1).line()
        assert "labels choose the thresholds of a cascade" in line
    assert len(provider.requests) == 320


def test_a_plan_says_that_later_judges_are_asked_less(call: Call, provider: Provider) -> None:
    done = call("plan", *words())
    assert "requests to large are at most these: for the cases that are not decided before" in done.err
    assert provider.requests == []


@pytest.mark.parametrize("command", ["run", "plan"])
def test_too_few_labels_are_an_error_before_any_call(call: Call, provider: Provider, command: str) -> None:
    line = call(command, *words("judge.target=0.97"), status=1).line()
    assert line.startswith("judge.vote=cascade: ")
    assert "of the 120 labels choose thresholds (judge.calibration=0.5)" in line
    assert "judge.target=0.97 with judge.delta=0.1 needs 76" in line
    assert provider.requests == []


@pytest.mark.parametrize(
    ("setting", "needed"), [("judge.target=0.97", 76), ("judge.delta=1e-7", 73), ("judge.calibration=0.05", 11)]
)
@pytest.mark.parametrize("vote", ["majority", "cascade"])
def test_too_few_labels_for_a_finished_run_leave_it_as_it_is(
    call: Call, provider: Provider, vote: str, setting: str, needed: int
) -> None:
    call("run", *words(f"judge.vote={vote}"))
    before = {path: path.read_bytes() for path in Path("first").rglob("*") if path.is_file()}
    line = call("score", "first", "judge.vote=cascade", setting, status=1).line()
    assert line.startswith("judge.vote=cascade: ")
    assert f"needs {needed}; label more cases" in line
    assert {path: path.read_bytes() for path in Path("first").rglob("*") if path.is_file()} == before


def test_the_terminal_shows_which_judges_are_enough(call: Call, provider: Provider) -> None:
    done = call("run", *words("judge.vote=majority"))
    table = json.loads(Path("first/panel.json").read_text("utf-8"))["subsets"]
    assert [row["judges"] for row in table if row["chosen"]] == [["large"]]
    assert "large can replace all 2 judges: at most 5 points less accurate." in re.sub(r"\s+", " ", done.out)
    start = done.out.splitlines().index(
        next(one for one in done.out.splitlines() if one.startswith("judges that vote"))
    )
    lines = [line.split() for line in done.out.splitlines()[start + 1 : start + 4]]
    assert [(*line[:-4], line[-4], line[-1]) for line in lines] == [
        ("small", "0.667", "$0.000022"),
        ("large", "★", "1.000", "$0.0022"),
        ("small,", "large", "0.667", "$0.0022"),
    ]


def test_nothing_is_asked_of_the_next_judge_once_a_budget_is_reached(call: Call, provider: Provider) -> None:
    done = call("run", *words("runner.budget_calls=300"), status=2)
    assert "runner.budget_calls=300 is reached" in done.err
    assert len(provider.requests) == 300
    # A higher budget goes on where it stopped.
    done = call("run", *words("--overwrite", "runner.budget_calls=300"))
    assert "calls: 320 planned, 300 stored, 20 sent" in done.out


def test_a_judge_that_fails_sends_nothing_on_to_the_next(call: Call, provider: Provider) -> None:
    provider.rule = lambda body: Reply({"error": {"message": "no"}}, 400) if body["model"] == "small" else judges(body)
    call("run", *words("runner.retries=0"), status=2)
    assert not asked(provider)["large"]


@pytest.mark.parametrize(
    ("command", "said_"),
    [
        (["run", *words("swap=none")], "judge.vote: nothing shows how sure small is"),
        (["run", *words(names="[small,other]")], "other"),
        (["batch", "write", *words(), "out.jsonl"], "a cascade asks its next judge only where the answers of the one"),
        (["batch", "write", *words("judge.thresholds=[1,1]"), "out.jsonl"], "a cascade asks its next judge only where"),
        (["work", "first", "--shard", "1/2"], ""),
    ],
)
def test_what_a_cascade_cannot_do_is_one_line(call: Call, provider: Provider, command: list[str], said_: str) -> None:
    if command[0] == "work":
        Path("experiments").mkdir()
        Path("experiments/first.yaml").write_text(
            "judge:\n  vote: cascade\n  judges: [{model: openai/a, name: a}, {model: openai/b, name: b}]\n"
            "dataset: {path: cases.jsonl}\n"
        )
        said_ = "labels choose the thresholds of a cascade"
    assert said_ in call(*command, status=1).line()
    assert provider.requests == []


@pytest.mark.slow
def test_an_interrupted_cascade_goes_on_where_it_stopped(provider: Provider, tmp_path: Path) -> None:
    import signal

    reached = threading.Event()

    def rule(body: dict[str, Any]) -> Reply:
        if body["model"] == "large" and len(provider.requests) > 250:
            reached.set()
        return judges(body)

    provider.rule = rule
    commands = Commands(tmp_path, {"EVALKIT_STORE": str(tmp_path / "store.sqlite")})
    with commands.started("run", *words("runner.concurrency=1"), log=tmp_path / "log") as started:
        started.wait_for(reached)
        started.send(signal.SIGINT)
        assert started.ended() == 130, started.said()
    assert not (tmp_path / "first").exists()
    before = len(provider.requests)
    assert 250 < before < 320
    done = commands("run", *words())
    assert len(provider.requests) == 320
    assert f"{before:,} stored" in done.out
