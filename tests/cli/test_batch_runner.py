"""`runner=batch`: judge through a provider's batch API; whatever happens, nothing is submitted twice."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalkit.store import open_url
from tests.cli.test_batch_command import DATA, PRICE, results, unsteady
from tests.support.batch_server import BatchServer, batch_server
from tests.support.command_line import BRIEF, Commands, Done, fake, pair
from tests.support.postgres import Postgres

Call = Callable[..., Done]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[BatchServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("EVALKIT_STORE", f"{tmp_path}/batch.sqlite")
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(pair(number))}\n" for number in range(8)))
    with batch_server() as found:
        found.rule = unsteady
        yield found


def words(server: BatchServer, *more: str, folder: str = "batched") -> list[str]:
    judge = [*fake(server), "judge.transport=direct", "output=json", "swap=third_pass", PRICE]
    return ["run", *judge, *DATA, *BRIEF, f"hydra.run.dir={folder}", "runner=batch", "runner.poll=0.02", *more]


def compared(call: Call, server: BatchServer, command: list[str] | None = None) -> None:
    """Check that the run of batches equals one that judges the same online."""
    assert server.online == 0
    more = ["runner=default", "store.url=online.sqlite", "hydra.run.dir=online"]
    call(*(command or [word for word in words(server) if not word.startswith("hydra")]), *more)
    assert results("batched") == results("online")
    files = [json.loads(Path(run, "metrics.json").read_bytes()) for run in ("batched", "online")]
    assert files[0]["cost_usd"] == pytest.approx(files[1]["cost_usd"])
    assert files[0]["tokens"] == files[1]["tokens"]


def left(tmp_path: Path) -> dict[str, Any]:
    store = open_url(f"{tmp_path}/batch.sqlite")
    found = store.states("batch/")
    store.close()
    return dict(found)


@pytest.mark.slow
def test_rounds_through_the_api_equal_an_online_run(call: Call, server: BatchServer, tmp_path: Path) -> None:
    fates = iter(["expire", "fail", "lose", "answer", "answer"] * 5)
    server.fate = lambda key: next(fates, "answer")
    done = call(*words(server))
    assert "note: batch batch_0: 16 requests to fake" in done.err
    assert len(server.batches) > 3
    compared(call, server)
    assert left(tmp_path) == {}
    sent = len(server.submitted)
    call(*words(server, folder="again"))
    call("reproduce", "batched")
    assert len(server.submitted) == sent


def test_a_request_that_keeps_failing_is_missing_as_it_is_online(call: Call, server: BatchServer) -> None:
    seen: dict[str, int] = {}
    server.fate = lambda key: "fail" if seen.setdefault(key, len(seen)) < 3 else "answer"
    done = call(*words(server, "runner.retries=1", "swap=none", "runner.max_failure_rate=1"))
    assert [server.submitted[key] for key in seen] == [2, 2, 2, *[1] * (len(seen) - 3)]
    assert "3 failed (server), for example case" in done.err
    assert json.loads(Path("batched/metrics.json").read_bytes())["calls"]["failed"] == 3


class Server(threading.Event):
    """Set when a call of the server matches; from then on the call waits, so that its client never hears of it."""

    def __init__(self, method: str, path: str) -> None:
        super().__init__()
        self.method, self.path, self.free = method, path, threading.Event()

    def __call__(self, method: str, path: str) -> None:
        if method == self.method and path.startswith(self.path):
            self.set()
            self.free.wait(60)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("POST /v1/files", marks=pytest.mark.thorough),
        "POST /v1/batches",
        pytest.param("GET /v1/batches/", marks=pytest.mark.thorough),
    ],
)
def test_a_killed_command_is_repeated_and_submits_nothing_twice(
    call: Call, server: BatchServer, tmp_path: Path, path: str
) -> None:
    server.on = event = Server(*path.split())
    with Commands(tmp_path).started(*words(server), log=tmp_path / "log") as process:
        process.wait_for(event)
        process.process.kill()
        process.ended()
    server.on = lambda *_: None
    event.free.set()
    assert len(left(tmp_path)) == 1
    for number in range(3):  # newer batches of others, so that an orphan is not on the first page
        row = {"id": f"other_{number}", "status": "completed", "metadata": None, "created_at": 10**11 + number}
        server.batches[f"other_{number}"] = {**next(iter(server.batches.values()), {}), **row}
    call(*words(server))
    assert set(server.submitted.values()) == {1}
    compared(call, server)
    assert left(tmp_path) == {}


@pytest.mark.slow
def test_a_signal_ends_the_wait_with_one_line(call: Call, server: BatchServer, tmp_path: Path) -> None:
    server.looks = 10**6
    server.on = event = Server("GET", "/v1/batches/")
    event.free.set()
    with Commands(tmp_path).started(*words(server), log=tmp_path / "log") as process:
        process.wait_for(event)
        process.send(signal.SIGTERM)
        assert process.ended() == 128 + signal.SIGTERM
    [*_, last] = process.said().splitlines()
    assert last == "evalkit: interrupted: 16 requests are in 1 batch at the provider; repeat the command to go on"
    assert not Path("batched/metrics.json").exists()
    server.looks = 1
    call(*words(server))
    assert set(server.submitted.values()) == {1}


@pytest.mark.slow
def test_two_commands_at_once_share_their_batches(call: Call, server: BatchServer, tmp_path: Path) -> None:
    with Commands(tmp_path).started(*words(server, folder="other"), log=tmp_path / "log") as process:
        call(*words(server))
        assert process.ended() == 0, process.said()
    assert set(server.submitted.values()) == {1}
    assert results("batched") == results("other")


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["judge=simulated/good"], "judge simulated_good cannot be batched: simulated/good runs in evalkit's own"),
        (["store.mode=refresh"], "store.mode: with 'refresh' answers of batches would be lost; set store.mode=read_"),
        (["judge.model=groq/x"], "runner.kind: groq/x: evalkit cannot create batches of provider groq through LiteLLM"),
        (["judge.price=null", "runner.budget_usd=1"], "runner.budget_usd: the cost of a call is unknown; set judge."),
    ],
)
def test_what_cannot_be_batched_is_one_line(call: Call, server: BatchServer, overrides: list[str], line: str) -> None:
    judge = [*fake(server), PRICE] if "judge=" not in overrides[0] else []
    more = ["runner=batch", "swap=both", *DATA, *BRIEF, "hydra.run.dir=out"]
    assert call("run", *judge, *more, *overrides, status=1).line().startswith(line)
    assert not server.batches


def test_a_panel_asks_the_judges_that_cannot_be_batched_itself(call: Call, server: BatchServer) -> None:
    one = f"{{model: openai/fake, api_base: '{server.api_base}', price: {{input: 1, output: 10}}, name: fake}}"
    panel = ["judge=panel", f"judge.judges=[{one},{{model: simulated/good}}]", "swap=both", *DATA, *BRIEF]
    call("run", *panel, "runner=batch", "runner.poll=0.02", "hydra.run.dir=batched")
    compared(call, server, ["run", *panel])


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_batch_that_ends_early_is_one_line_and_its_rest_is_submitted_when_repeated(
    call: Call, server: BatchServer, end: str, tmp_path: Path
) -> None:
    server.end, server.fate = end, lambda key: "answer" if end == "cancelled" and key < "8" else "lose"
    done = call(*words(server), status=1)
    assert f"evalkit: batch batch_0 {'was ' * (end == 'cancelled')}{end}; its answers are stored" in done.err
    assert left(tmp_path) == {}
    server.end, server.fate = "completed", lambda key: "answer"
    call(*words(server))
    assert {count for key, count in server.submitted.items() if key < "8" and end == "cancelled"} <= {1}
    call(*words(server, "runner=default", "store.url=online.sqlite", folder="online"))
    assert results("batched") == results("online")


@pytest.mark.parametrize("file", [pytest.param("output_file_id", marks=pytest.mark.thorough), "error_file_id", "batch"])
def test_a_batch_that_the_provider_has_lost_is_named_and_sent_again_on_request(
    call: Call, server: BatchServer, tmp_path: Path, file: str
) -> None:
    seen: dict[str, int] = {}
    server.fate = lambda key: "expire" if seen.setdefault(key, len(seen)) == 0 else "answer"
    server.looks = 1
    if file == "batch":
        server.on = lambda method, path: server.batches.pop("batch_0", None) if path == "/v1/batches" else None
    else:
        server.lost = {"file-1" if file == "output_file_id" else "file-2": 404}
    for _ in range(2):
        line = call(*words(server, "swap=none"), status=1).err.splitlines()[-1]
        count = "1 request" if file == "error_file_id" else "8 requests"
        assert line.startswith("evalkit: batch batch_0: ")
        assert "404" in line or "No such" in line
        assert f"or send the {count} without an answer again with runner.resend=batch_0" in line
        assert '"batch": "batch_0"' in "".join(left(tmp_path).values())
    server.on, server.fate, before = lambda *_: None, lambda key: "answer", server.submitted.copy()
    call(*words(server, "swap=none", "runner.resend=batch_0", "runner.retries=0"))
    again = [key for key in before if server.submitted[key] > before[key]]
    assert len(again) == (1 if file == "error_file_id" else 8)
    assert left(tmp_path) == {}
    call(*words(server, "swap=none", "runner=default", "store.url=online.sqlite", folder="online"))
    assert results("batched") == results("online")


def test_a_file_that_cannot_be_had_now_is_asked_for_again(call: Call, server: BatchServer, tmp_path: Path) -> None:
    server.lost["file-1"] = 503
    server.on = lambda method, path: server.lost.clear() if path.endswith("/content") else None
    assert "it is looked up again" in call(*words(server, "swap=none")).err
    assert set(server.submitted.values()) == {1}
    assert left(tmp_path) == {}


def test_a_budget_is_kept_at_the_most_that_each_request_can_cost(call: Call, server: BatchServer) -> None:
    # The longest answer costs $10, so two fit into a round.
    call(*words(server, "judge.max_tokens=1000000", "runner.budget_usd=25", "swap=none"))
    assert {batch["request_counts"]["total"] for batch in server.batches.values()} <= {1, 2}
    before = len(server.batches)
    done = call(*words(server, "judge.max_tokens=1000001", "runner.budget_usd=5", "swap=none", folder="b"), status=2)
    assert "runner.budget_usd=5 is reached" in done.err
    assert len(server.batches) == before
    call(*words(server, "judge.max_tokens=1000002", "runner.budget_calls=3", "swap=none", folder="c"), status=2)
    assert sum(batch["request_counts"]["total"] for batch in list(server.batches.values())[before:]) == 3


def test_a_plan_has_the_prices_of_batches(call: Call, server: BatchServer) -> None:
    plan = ["plan", *DATA, "judge=gpt-4o"]
    cost = [float(call(*plan, *more).out.splitlines()[1].split()[-1].lstrip("$")) for more in ([], ["runner=batch"])]
    assert cost[1] == pytest.approx(cost[0] / 2, rel=0.01)
    assert "batch price unknown" in call(*plan, "judge.model=openai/gpt-3.5-turbo", "runner=batch").out


@pytest.mark.postgres
def test_batches_are_kept_in_a_postgresql_store(call: Call, server: BatchServer, postgres: Postgres) -> None:
    url = postgres.new_database()
    server.end = "cancelled"
    call(*words(server, "swap=none", f"store.url={url}"), status=1)
    server.end = "completed"
    call(*words(server, "swap=none", f"store.url={url}"))
    store = open_url(url)
    assert store.states("batch/") == {}
    store.close()
    assert set(server.submitted.values()) == {1}


@pytest.mark.slow
def test_a_look_of_a_watch_in_batches(call: Call, server: BatchServer, tmp_path: Path) -> None:
    watch = ["watch", *(word for word in words(server)[1:] if not word.startswith("hydra")), "--output", "seen"]
    for state in ("baseline", "baseline", "same"):
        found = json.loads(call(*watch, "--json").out)
        assert (found["state"], found["looks"][-1]["complete"], server.online) == (state, True, 0)
    assert len(server.submitted) >= 3 * 16
    assert left(tmp_path) == {}
