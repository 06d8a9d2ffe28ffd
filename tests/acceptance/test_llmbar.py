"""The published table, all the way: files, config, HTTP, regex, swap, metrics."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from tests.support.replaying import Replay, replay_data
from tests.support.thorough import some_of

pytestmark = [pytest.mark.shared, pytest.mark.slow]

PATTERNS = {"CoT": r"Output \((?P<winner>[ab])\) is better"}
ANY_PATTERN = r"Output \((?P<winner>[ab])\)"
# The paper's Table 2: right in the first order, in the second, in both; orders that agree; texts
# that cannot be read.
TABLE = {
    ("Natural", "GPT-4", "Vanilla_NoRules"): (92, 95, 92, 97, 0),
    ("Natural", "GPT-4", "Vanilla"): (95, 96, 93, 95, 0),
    ("Natural", "GPT-4", "CoT"): (94, 95, 90, 91, 0),
    ("Natural", "ChatGPT", "Vanilla_NoRules"): (79, 79, 63, 68, 0),
    ("Natural", "ChatGPT", "CoT"): (70, 78, 56, 64, 1),
    ("GPTInst", "GPT-4", "Vanilla_NoRules"): (71, 70, 66, 83, 0),
    ("GPTInst", "GPT-4", "Vanilla"): (78, 81, 77, 87, 0),
    ("GPTInst", "GPT-4", "CoT"): (75, 78, 72, 83, 0),
    ("GPTInst", "ChatGPT", "Vanilla"): (25, 24, 7, 57, 0),
    ("GPTInst", "ChatGPT", "CoT"): (28, 26, 8, 54, 1),
    ("Natural", "PaLM2", "Vanilla"): (78, 88, 73, 80, 4),
}
WITHIN = 0.15
SIZE = {"Natural": 100, "GPTInst": 92}
Row = tuple[str, str, str]
Sweep = tuple[str, bool]
QUICK = (
    ("Natural", "GPT-4", "CoT"),
    ("Natural", "ChatGPT", "CoT"),
    ("Natural", "PaLM2", "Vanilla"),
)
"""With texts that can be read, one that cannot, and several; the other rows are judged with --thorough."""


def sweeps_of(rows: Iterable[Row]) -> dict[Sweep, list[Row]]:
    """The rows of each data set and way of reading, which one sweep over judges gives."""
    found: dict[Sweep, list[Row]] = {}
    for row in rows:
        found.setdefault((row[0], row[2] == "CoT"), []).append(row)
    return found


def pattern(row: Row) -> str:
    return PATTERNS.get(row[2], ANY_PATTERN)


@pytest.fixture(scope="module")
def sweeps(thorough):
    return sweeps_of(TABLE if thorough else QUICK)


@pytest.fixture(scope="module")
def judged(replay, sweeps, tmp_path_factory):
    """The run folder of each row."""
    folder = tmp_path_factory.mktemp("runs")
    folders = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "any")
        patch.setenv("EVALKIT_STORE", str(folder / "store.sqlite"))
        for number, rows in enumerate(sweeps.values()):
            assert main([*words(replay, rows), f"hydra.sweep.dir={folder}/sweep{number}"]) == 0
            for job, row in enumerate(rows):
                folders[row] = folder / f"sweep{number}" / str(job)
    return folders


def words(replay: Replay, rows: list[Row]) -> list[str]:
    subset, _, strategy = rows[0]
    data = replay_data(subset)
    return [
        "run",
        "dataset=file",
        f"dataset.path={data}",
        "dataset.fields={prompt: input, response_a: output_1, response_b: output_2}",
        "dataset.label_map={1: A, 2: B}",
        "judge=openai_compatible",
        "judge.model=" + ",".join(f"openai/{model}-{strategy}" for _, model, strategy in rows),
        f"judge.api_base=http://127.0.0.1:{replay.port}/v1",
        "output=regex",
        f"output.pattern='{pattern(rows[0])}'",
        "swap=both",
        "tracking=none",
        "scoring.bootstrap=100",
        f"judge.transport={'litellm' if (subset, strategy) == ('GPTInst', 'CoT') else 'direct'}",
        "-m",
    ]


def priced(replay: Replay, rows: list[Row], prompt: int, completion: int) -> list[str]:
    """Return the words of a sweep over judges, with a price in US$ per million tokens."""
    _, *sweep = words(replay, rows)
    return [
        *sweep,
        "judge.transport=direct",
        f"judge.price={{input: {prompt}, output: {completion}}}",
    ]


def readings(replay: Replay, row: Row) -> list[tuple[bool | None, bool | None]]:
    """Whether each order of each case finds the better answer, none where the text cannot be read: the slow way."""
    subset, model, strategy = row
    found = []
    for line in (
        (replay.manifests / f"{subset}__{model}__{strategy}.jsonl").read_text("utf-8").splitlines()
    ):
        case = json.loads(line)
        sides = [re.findall(pattern(row), case[order]) for order in ("ab", "ba")]
        first, second = (side[-1] if side else None for side in sides)
        right = {1: ("a", "b"), 2: ("b", "a")}[case["label"]]
        found.append((first and first == right[0], second and second == right[1]))
    return found


def metrics(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "metrics.json").read_text("utf-8"))
    return loaded


def counted(metric: dict[str, Any]) -> tuple[int, int]:
    """A proportion as the count it is, and what it is out of."""
    count = metric["value"] * metric["n"]
    assert count == pytest.approx(round(count), abs=1e-6)
    return round(count), metric["n"]


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=() if row in QUICK else pytest.mark.thorough) for row in TABLE],
    ids="-".join,
)
def test_a_published_row_comes_out(row, judged, replay):
    first, second, both, agree, unread = TABLE[row]
    size = SIZE[row[0]]
    orders = readings(replay, row)
    assert (sum(a is True for a, _ in orders), sum(b is True for _, b in orders)) == (first, second)
    complete = [(a, b) for a, b in orders if a is not None and b is not None]
    found = metrics(judged[row])["metrics"]
    per_order = found["agreement/accuracy_per_order"]
    both_orders = found["agreement/accuracy_both_orders"]
    consistency = found["position/consistency"]
    read = [sum(one is not None for one in order) for order in zip(*orders, strict=True)]
    assert per_order["value"] == pytest.approx((first / read[0] + second / read[1]) / 2, abs=1e-9)
    assert per_order["n"] == sum(read) == 2 * size - unread
    assert per_order["worst_low"] == pytest.approx((first + second) / (2 * size))
    assert counted(both_orders) == (both, len(complete))
    assert both_orders["worst_low"] == pytest.approx(both / size)
    assert counted(consistency) == (sum(a == b for a, b in complete), len(complete))
    if not unread:
        assert counted(consistency) == (agree, size)
    assert (per_order["missing"], both_orders["missing"]) == (unread, size - len(complete))


def test_two_unreadable_texts_agree_by_their_rule_only(judged):
    found = metrics(judged["Natural", "PaLM2", "Vanilla"])["metrics"]["position/consistency"]
    assert (counted(found), found["missing"]) == ((78, 98), 2)
    assert (found["worst_low"], found["worst_high"]) == (0.78, 0.80)


def test_each_pair_is_asked_once_in_each_order(judged, replay):
    calls = [metrics(folder)["calls"] for folder in judged.values()]
    asked = sum(SIZE[subset] for subset, _, _ in judged)
    assert sum(one["sent"] for one in calls) == sum(one["planned"] for one in calls) == 2 * asked
    assert all(one["failed"] == one["retried"] == one["stored"] == 0 for one in calls)
    assert replay.stat() == {"requests": 2 * asked, "hit_ab": asked, "hit_ba": asked}


def test_a_second_run_sends_nothing_and_finds_the_same(
    judged, sweeps, replay, tmp_path, monkeypatch
):
    before = replay.stat()
    rows = sweeps["Natural", False]
    folder = judged[rows[0]].parents[1]
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("EVALKIT_STORE", str(folder / "store.sqlite"))
    assert main([*words(replay, rows), f"hydra.sweep.dir={tmp_path}/again"]) == 0
    assert replay.stat() == before
    for job, row in enumerate(rows):
        again, once = metrics(tmp_path / "again" / str(job)), metrics(judged[row])
        assert again["metrics"] == once["metrics"]
        assert (again["calls"]["sent"], again["calls"]["stored"]) == (0, 2 * SIZE[row[0]])


def test_a_plan_after_some_cases_costs_what_the_run_then_costs(
    judged, sweeps, replay, monkeypatch, call
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    rows = sweeps["Natural", True]
    sweep = priced(replay, rows, 1, 5)
    call("run", *sweep, "dataset.limit=20", "hydra.sweep.dir=some")
    planned = call("plan", *sweep).out
    [total] = [line for line in planned.splitlines() if line.startswith("all, shared")]
    remaining = 0.0
    for job, row in enumerate(rows):
        every, paid = (
            metrics(folder)["tokens"] for folder in (judged[row], Path("some") / str(job))
        )
        remaining += (
            every["prompt"] - paid["prompt"] + 5 * (every["completion"] - paid["completion"])
        )
    assert float(total.split()[-1].lstrip("$")) == pytest.approx(remaining / 1e6, rel=WITHIN)


@pytest.mark.parametrize("subset", some_of(["Natural", "GPTInst"], 2))
def test_a_pilot_tells_what_published_judges_cost(
    subset, judged, sweeps, replay, monkeypatch, call
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    asked = replay.stat()["requests"]
    judges = sweeps[subset, True]
    told = call("plan", *priced(replay, judges, 30, 60), "--pilot", "80").out
    requests = 80 * len(judges)
    assert replay.stat()["requests"] - asked == requests
    assert f"pilot: {requests} random requests, {requests} calls sent, " in told
    lines = [re.split(r"\s{2,}", line.strip()) for line in told.splitlines()]
    planned = [
        dict(zip(lines[0], line, strict=True)) for line in lines[1:] if len(line) == len(lines[0])
    ]
    for row, plan in zip(judges, planned, strict=False):
        assert plan["job"] == f"judge.model=openai/{row[1]}-CoT"
        assert plan["to send"] == str(2 * SIZE[subset] - 80)
        tokens, share = metrics(judged[row])["tokens"], 1 - 40 / SIZE[subset]
        for column, every in (
            ("prompt tokens, about", tokens["prompt"]),
            ("answer tokens, about", tokens["completion"]),
            ("cost, about", (30 * tokens["prompt"] + 60 * tokens["completion"]) / 1e6),
        ):
            expected = float(plan[column].replace(",", "").removeprefix("$"))
            assert expected == pytest.approx(share * every, rel=WITHIN), (row, column)


def test_the_study_pays_each_judging_once_and_its_leaderboard_is_the_published_table(
    replay, call, monkeypatch
):
    """Of one judge on one subset, with two of the study's settings; its pattern reads more than the authors'."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    before = replay.stat().get("requests", 0)
    study = [
        "judge.name=ChatGPT",
        f"judge.api_base={replay.api_base}",
        f"dataset.path={replay_data('Natural')}",
        "+tracking.tags.strategy=Vanilla_NoRules,CoT",
        "tie.threshold=0",
    ]
    call(
        "run",
        "llmbar_replay",
        *study,
        "tracking=none",
        "scoring.bootstrap=2",
        "hydra.sweep.dir=study",
    )
    rows = json.loads(Path("study/leaderboard.json").read_text("utf-8"))["rows"]
    assert len(rows) == 4
    sent = sum(metrics(Path("study") / row["job"])["calls"]["sent"] for row in rows)
    assert sent == replay.stat()["requests"] - before == 2 * 2 * SIZE["Natural"]
    for strategy in ("Vanilla_NoRules", "CoT"):
        first, second, both, agree, unread = TABLE["Natural", "ChatGPT", strategy]
        standings = [row["metrics"] for row in rows if f"strategy={strategy}," in row["name"]]
        assert len(standings) == 2
        for found in standings:
            between(
                found["agreement/accuracy_per_order"], first + second, first + second + unread, 200
            )
            between(found["agreement/accuracy_both_orders"], both, both + unread, 100)
            between(found["position/consistency"], agree - unread, agree + unread, 100)


def between(metric: dict[str, Any], least: int, most: int, of: int) -> None:
    assert (least - 1e-9) / of <= metric["worst_low"] <= metric["worst_high"] <= (most + 1e-9) / of
