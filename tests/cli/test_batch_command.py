"""Batch files to a provider and back by `evalkit batch`, and `runner=batch`: as online, and nothing sent twice."""

import json
import random
import signal
import threading
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError
from evalkit.core.types import AnswerFormat, JudgeRequest
from evalkit.engine.batch.requests import RecordingJudge, Round
from evalkit.judges import make_judges
from evalkit.judges.model_judge import ModelJudge
from evalkit.store import open_url
from evalkit.store.sqlite import SqliteStore
from tests.support.batch_server import BatchServer, batch_server
from tests.support.command_line import BRIEF, Commands, Done, fake, pair
from tests.support.fake_provider import Provider, Reply, refused, said
from tests.support.thorough import some_of

Call = Callable[..., Done]
DATA = ["dataset=file", "dataset.path=cases.jsonl"]
PRICE = "judge.price={input: 1, output: 10}"


def instance(schema: dict[str, Any], draw: int, place: int = 0) -> Any:
    """Something that a schema allows: winners drawn by a number, and the names in a list one after the other."""
    if "enum" in schema:
        return schema["enum"][(draw if "A" in schema["enum"] else place) % len(schema["enum"])]
    if schema.get("type") == "object":
        return {name: instance(part, draw, place) for name, part in schema["properties"].items()}
    if schema.get("type") == "array":
        return [
            instance(schema["items"], draw, place) for place in range(schema.get("minItems", 1))
        ]
    return (
        schema.get("minimum", 1)
        if schema.get("type") in ("integer", "number")
        else "It says what is true."
    )


def unsteady(body: dict[str, Any]) -> Reply:
    """A judge whose answers, some of them unreadable, depend on the request alone."""
    draw = int(
        sha256(
            json.dumps([message["content"] for message in body["messages"]]).encode()
        ).hexdigest(),
        16,
    )
    asked = body.get("response_format", {}).get("json_schema")
    text = (
        json.dumps(instance(asked["schema"], draw)) if asked and draw % 5 else "Both have merits."
    )
    return said(text, usage=(100 + draw % 50, 30 + draw % 20))


@pytest.fixture
def provider(provider, monkeypatch, tmp_path):
    monkeypatch.setenv("EVALKIT_STORE", "batch.sqlite")
    (tmp_path / "cases.jsonl").write_text(
        "".join(f"{json.dumps(pair(number))}\n" for number in range(8))
    )
    provider.rule = unsteady
    return provider


def words(provider: Provider, *more: str) -> list[str]:
    return [
        *(*fake(provider), "judge.transport=direct", "output=json", "swap=third_pass", *DATA),
        *(PRICE, *more),
    ]


def lines(*paths: str | Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in paths for line in Path(path).read_text("utf-8").splitlines()
    ]


def line(key: str, body: Any, status: int = 200, **more: Any) -> dict[str, Any]:
    return {
        "id": "1",
        "custom_id": key,
        "response": {"status_code": status, "body": body},
        "error": None,
        **more,
    }


def write_rows(path: str, rows: list[Any]) -> None:
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    Path(path).write_text(text, "utf-8")


class Batches:
    """A batch API on files: some requests expire or fail, the others are answered in any order by `rule`."""

    def __init__(self, rule: Callable[[dict[str, Any]], Reply]) -> None:
        self.rule, self.draw = rule, random.Random(0)
        self.answered: list[str] = []

    def end(self, requests: Path, *, lost: float = 0.0) -> list[str]:
        """Write the output and error file of a batch, and return their names."""
        output, errors = [], []
        for row in lines(requests):
            assert (row["method"], row["url"]) == ("POST", "/v1/chat/completions")
            if self.draw.random() < lost:
                error = {"code": "batch_expired", "message": "This request could not be executed."}
                errors.append(
                    {"id": "1", "custom_id": row["custom_id"], "response": None, "error": error}
                )
                continue
            self.answered.append(row["custom_id"])
            output.append(line(row["custom_id"], self.rule(row["body"]).body))
        self.draw.shuffle(output)
        names = [f"{requests.stem}.output.jsonl", f"{requests.stem}.errors.jsonl"]
        write_rows(names[0], output)
        write_rows(names[1], errors)
        return names


def rounds(call: Call, batches: Batches, *settings: str, lost: float = 0.3) -> int:
    """Write, answer and read until nothing is left to write; return the number of rounds."""
    for number in range(1, 20):
        if call("batch", "write", *settings, f"r{number}.jsonl").out.startswith("0 requests"):
            return number - 1
        files = [name for file in sorted(Path().glob(f"r{number}*.jsonl")) if "index" not in file.name
                 for name in batches.end(file, lost=lost / number**2)]  # fmt: skip
        call("batch", "read", *reversed(files))
        call("batch", "read", *files)
    raise AssertionError("endless")


def results(run: str) -> tuple[list[Any], dict[str, Any]]:
    """The judgments and metrics of a run, without what only waiting changes."""
    judgments = lines(Path(run, "judgments.jsonl"))
    for judgment in judgments:
        judgment.pop("stored", None)
        judgment.get("completion", {}).pop("latency", None)
        for earlier in judgment.get("earlier", ()):
            earlier.pop("latency", None)
    metrics = json.loads(Path(run, "metrics.json").read_bytes())["metrics"]
    return judgments, {
        name: metric for name, metric in metrics.items() if not name.startswith("latency/")
    }


def compared(call: Call, provider: Provider, *settings: str) -> None:
    """Check that a run of the answers of batches sends nothing, and equals one that was judged online."""
    before = len(provider.requests)
    call("run", *settings, *BRIEF, "hydra.run.dir=batched")
    assert len(provider.requests) == before
    call("run", *settings, *BRIEF, "store.url=online.sqlite", "hydra.run.dir=online")
    assert results("batched") == results("online")
    latency = json.loads(Path("batched/metrics.json").read_bytes())["metrics"]["latency/per_case"]
    assert (latency["value"], latency["note"]) == (None, "no answer has a latency")


@pytest.mark.slow
def test_rounds_of_batches_equal_an_online_run(call, provider):
    batches, settings = Batches(unsteady), words(provider, "mode.commit_first=true")
    assert rounds(call, batches, *settings) > 3
    assert not provider.requests
    compared(call, provider, *settings)
    judgments = lines("batched/judgments.jsonl")
    assert {len(judgment["keys"]) for judgment in judgments} == {2, 3}
    assert any(judgment.get("arbiter") for judgment in judgments)
    # Nothing is requested twice, and nothing that the online run does not request.
    assert len(batches.answered) == len(set(batches.answered)) == len(provider.requests)


@pytest.mark.parametrize(
    "settings",
    [
        {"transport": "direct", "params": {"top_k": 5}, "seed": 3, "logprobs": True},
        {"transport": "direct", "model": "hosted_vllm/fake", "response_format": "tool"},
        {"transport": "litellm", "max_tokens": 99},
        {
            "transport": "litellm",
            "model": "hosted_vllm/fake",
            "params": {"extra_body": {"top_k": 5}},
        },
        {"transport": "litellm", "model": "openai/o3-mini", "max_tokens": 99, "temperature": None},
    ],
)
async def test_a_body_is_the_one_that_is_sent_online(provider, settings):
    config = JudgeConfig(**{"model": "openai/fake", "api_base": provider.api_base, **settings})
    schema = {
        "type": "object",
        "properties": {"winner": {"enum": ["A", "B"]}},
        "additionalProperties": False,
    }
    request = JudgeRequest(
        "c", (0, 1), (0, 1), ({"role": "user", "content": "?"},), AnswerFormat("x", schema), 2
    )
    [online] = make_judges(config, RunnerConfig())
    [inner] = make_judges(config, RunnerConfig())
    assert isinstance(inner, ModelJudge)
    recording = RecordingJudge(inner, round_ := Round())
    await online.complete(request)
    with pytest.raises(CallError, match="not_stored"):
        await recording.complete(request)
    await online.close()
    await recording.close()
    [sent] = provider.requests
    assert [json.loads(line) for line in round_.lines] == [
        {name: value for name, value in sent.items() if name != "stream"}
    ]


def test_a_sweep_writes_shared_requests_once(call, provider):
    sweep = words(provider, "swap=both,none", "judge.temperature=0,1", "-m")
    written = call("batch", "write", *sweep, "r.jsonl").out
    assert "r.jsonl: 32 requests to fake" in written
    rows = lines("r.jsonl")
    assert len({row["custom_id"] for row in rows}) == len(rows) == 32
    output, _ = Batches(unsteady).end(Path("r.jsonl"))
    assert "32 answers stored" in call("batch", "read", output).out
    second = call("batch", "write", *sweep, "r2.jsonl").out
    assert 0 < len(lines("r2.jsonl")) < 32, second


def test_files_are_split_by_limits_and_by_model(call, provider):
    judges = ",".join(
        f"{{name: j{k}, model: openai/m{k}, api_base: '{provider.api_base}', transport: direct}}"
        for k in range(2)
    )
    panel = ["judge=panel", f"judge.judges=[{judges}]", "output=bracket", *DATA]
    call("batch", "write", *panel, "--max-requests", "10", "r.jsonl")
    files = sorted(path for path in Path().glob("r-*.jsonl"))
    assert [len(lines(file)) for file in files] == [10, 6, 10, 6]
    assert [{row["body"]["model"] for row in lines(file)} for file in files] == [{"m0"}] * 2 + [
        {"m1"}
    ] * 2
    refused = call("batch", "write", *panel, "--model", "x", "s.jsonl", status=1)
    assert (
        refused.err.splitlines()[-1]
        == "evalkit: --model: names one model, and the requests are for m0, m1"
    )
    call("batch", "write", *words(provider), "--model", "mine", "t.jsonl")
    assert {row["body"]["model"] for row in lines("t.jsonl")} == {"mine"}
    # The requests of a case stand together, as they share a prefix.
    prompts = [
        row["body"]["messages"][-1]["content"].partition("<response_a>")[0]
        for row in lines("t.jsonl")
    ]
    assert len([1 for one, next_ in pairwise(prompts) if one != next_]) == 7


def test_what_cannot_be_batched_is_said_in_a_line(call, provider):
    assert (
        "cannot be batched"
        in call("batch", "write", "judge=smollm2", *DATA, "r.jsonl", status=1).line()
    )
    assert not Path("r.jsonl").exists()
    mode = call("batch", "write", *words(provider, "store.mode=off"), "r.jsonl", status=1).line()
    assert mode.startswith("store.mode: ")
    assert "needs a file" in call("batch", "write", *words(provider), status=1).line()
    write_rows("answers.jsonl", [])
    assert "--requests" in call("batch", "read", "answers.jsonl", status=1).line()
    assert call("batch", "read", "none.jsonl", status=1).line() == "none.jsonl: no such file"
    call("batch", "write", *words(provider), "r.jsonl")
    taken = call("batch", "write", *words(provider), "r.jsonl", status=1).line()
    assert taken.startswith("r.jsonl: exists already")
    again = call("batch", "write", *words(provider), "s.jsonl")
    assert "16 of these requests were written before" in again.err
    write_rows("other.index.jsonl", ["{}"])
    write_rows("r.index.jsonl", ['{"evalkit_batch": 2}'])
    assert "is not an index" in call("batch", "read", "answers.jsonl", status=1).line()


def test_only_answers_to_requests_that_were_written_are_stored(call, provider):
    call("batch", "write", *words(provider), "r.jsonl")
    key, *others = (row["custom_id"] for row in lines("r.jsonl"))
    good, body = line(key, said("[[A]]").body), said("[[B]]").body
    hostile: list[Any] = [
        "", "{", "[]", "null", '"text"', "[" * 100_000, "\x00", "NaN", "9" * 5000,
        {}, {"custom_id": 7}, {"custom_id": None}, {"custom_id": [key]}, {"custom_id": f"{key}\ud800"},
        line("a" * 64, body), line(key.upper(), body), line("request-1", body),
        line(others[0], None), line(others[0], "text"), line(others[0], {"choices": []}),
        line(others[0], {"choices": [{"message": {"content": 7}}]}), line(others[0], body, 500),
        line(others[0], {"error": {"message": "no", "code": 400}}), line(others[0], refused(429, "slow").body, 429),
        {"custom_id": others[0], "response": body, "error": {"code": "batch_expired", "message": "late"}},
        {"custom_id": others[0], "response": None, "error": "failed"}, {"custom_id": others[0]},
        {"custom_id": others[0], "response": [1], "error": [2]},
        line(others[1], said("", refusal="I cannot help.").body),
        line(others[2], said("x" * 5_000_000).body),
        good, line(key, body), line(key, None),
        f'{{"custom_id": "{others[3]}", "response": {{"body": {{"usage": {{"prompt_tokens": NaN}}, "choices": '
        '[{"message": {"content": "[[A]] \\ud83d"}, "logprobs": {"content": [{"token": 1}]}}]}}}',
        {"custom_id": others[4], "response": {"choices": [{"message": {"content": "[[A]]"}}]}},
        line(others[5], {**body, "choices": body["choices"][0]}),
    ]  # fmt: skip
    write_rows("answers.jsonl", hostile)
    done = call("batch", "read", "answers.jsonl")
    assert done.out.splitlines()[:2] == [
        "4 answers stored in batch.sqlite, 1 were already stored",
        "r.jsonl: 4 of 16 requests have an answer",
    ]
    assert "answers.jsonl:30" in done.err
    for part in (
        *("not JSON", "without the custom_id", "in no index", "failed (", "refused"),
        "max_answer_bytes",
    ):
        assert part in done.err
    store = SqliteStore(Path("batch.sqlite"))
    found = store.get_many([key, "a" * 64, *others])
    store.close()
    assert set(found) == {key, *others[3:6]}
    assert (found[key].text, found[others[3]].text) == ("[[A]]", "[[A]] ?")
    # A file without one answer is a failure.
    write_rows("answers.jsonl", hostile[:20])
    assert call("batch", "read", "answers.jsonl", status=2).out.startswith("0 answers stored")


def test_answers_can_be_limited_to_one_file_of_requests(call, provider):
    call("batch", "write", *words(provider), "--max-requests=8", "r.jsonl")
    Path("elsewhere").mkdir()
    output, _ = Batches(unsteady).end(Path("r-1.jsonl"))
    only = call("batch", "read", output, "--requests", "r-2.jsonl", status=2)
    assert "8 lines to requests that are in no index" in only.err
    moved = Path(output).rename("elsewhere/answers.jsonl")
    assert (
        "8 answers stored in other.sqlite"
        in call("batch", "read", str(moved), "store.url=other.sqlite").out
    )
    assert "8 answers stored" in call("batch", "read", str(moved), "--requests", "r.jsonl").out


def test_an_expired_request_is_written_again_and_counts_for_that_file(call, provider):
    call("batch", "write", *words(provider), "s.jsonl")
    expired = call("batch", "read", *Batches(unsteady).end(Path("s.jsonl"), lost=1), status=2)
    assert (
        "16 lines failed (bad_request), for example s.errors.jsonl:1: This request could not"
        in expired.err
    )
    assert "s.jsonl: 0 of 16 requests have an answer" in expired.out
    assert "about 1 more round likely" in expired.out
    call("batch", "write", *words(provider), "r.jsonl")
    assert {row["custom_id"] for row in lines("r.jsonl")} == {
        row["custom_id"] for row in lines("s.jsonl")
    }
    done = call("batch", "read", *Batches(unsteady).end(Path("r.jsonl")))
    assert done.out.splitlines()[1] == "r.jsonl: 16 of 16 requests have an answer"


def test_an_answer_costs_the_price_of_a_batch(call, monkeypatch, provider):
    monkeypatch.delenv("OPENAI_API_KEY")
    call("batch", "write", "judge=gpt-4o-mini", *DATA, "dataset.limit=1", "swap=none", "r.jsonl")
    [row] = lines("r.jsonl")
    assert row["body"]["response_format"]["type"] == "json_schema"
    write_rows(
        "answers.jsonl", [line(row["custom_id"], said("{}", usage=(1_000_000, 100_000)).body)]
    )
    call("batch", "read", "answers.jsonl")
    store = SqliteStore(Path("batch.sqlite"))
    [found] = store.get_many([row["custom_id"]]).values()
    store.close()
    assert (found.cost_usd, found.rung) == (pytest.approx(0.075 + 0.03), "json_schema")


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("EVALKIT_STORE", f"{tmp_path}/batch.sqlite")
    (tmp_path / "cases.jsonl").write_text(
        "".join(f"{json.dumps(pair(number))}\n" for number in range(8))
    )
    with batch_server() as found:
        found.rule = unsteady
        yield found


def runner_words(server: BatchServer, *more: str, folder: str = "batched") -> list[str]:
    judge = [*fake(server), "judge.transport=direct", "output=json", "swap=third_pass", PRICE]
    return [
        *("run", *judge, *DATA, *BRIEF, f"hydra.run.dir={folder}", "runner=batch"),
        *("runner.poll=0.02", *more),
    ]


def compared_files(call: Call, server: BatchServer, command: list[str] | None = None) -> None:
    """Check that the run of batches equals one that judges the same online."""
    assert server.online == 0
    more = ["runner=default", "store.url=online.sqlite", "hydra.run.dir=online"]
    call(
        *(command or [word for word in runner_words(server) if not word.startswith("hydra")]), *more
    )
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
def test_rounds_through_the_api_equal_an_online_run(call, server, tmp_path):
    fates = iter(["expire", "fail", "lose", "answer", "answer"] * 5)
    server.fate = lambda key: next(fates, "answer")
    done = call(*runner_words(server))
    assert "note: batch batch_0: 16 requests to fake" in done.err
    assert len(server.batches) > 3
    compared_files(call, server)
    assert left(tmp_path) == {}
    sent = len(server.submitted)
    call(*runner_words(server, folder="again"))
    call("reproduce", "batched")
    assert len(server.submitted) == sent


def test_a_request_that_keeps_failing_is_missing_as_it_is_online(call, server):
    seen: dict[str, int] = {}
    server.fate = lambda key: "fail" if seen.setdefault(key, len(seen)) < 3 else "answer"
    done = call(*runner_words(server, "runner.retries=1", "swap=none", "runner.max_failure_rate=1"))
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
def test_a_killed_command_is_repeated_and_submits_nothing_twice(call, server, tmp_path, path):
    server.on = event = Server(*path.split())
    with Commands(tmp_path).started(*runner_words(server), log=tmp_path / "log") as process:
        process.wait_for(event)
        process.process.kill()
        process.ended()
    server.on = lambda *_: None
    event.free.set()
    assert len(left(tmp_path)) == 1
    for number in range(3):  # newer batches of others, so that an orphan is not on the first page
        row = {
            "id": f"other_{number}",
            "status": "completed",
            "metadata": None,
            "created_at": 10**11 + number,
        }
        server.batches[f"other_{number}"] = {**next(iter(server.batches.values()), {}), **row}
    call(*runner_words(server))
    assert set(server.submitted.values()) == {1}
    compared_files(call, server)
    assert left(tmp_path) == {}


@pytest.mark.thorough
@pytest.mark.slow
def test_a_signal_ends_the_wait_with_one_line(call, server, tmp_path):
    server.looks = 10**6
    server.on = event = Server("GET", "/v1/batches/")
    event.free.set()
    with Commands(tmp_path).started(*runner_words(server), log=tmp_path / "log") as process:
        process.wait_for(event)
        process.send(signal.SIGTERM)
        assert process.ended() == 128 + signal.SIGTERM
    [*_, last] = process.said().splitlines()
    assert (
        last
        == "evalkit: interrupted: 16 requests are in 1 batch at the provider; repeat the command to go on"
    )
    assert not Path("batched/metrics.json").exists()
    server.looks = 1
    call(*runner_words(server))
    assert set(server.submitted.values()) == {1}


@pytest.mark.slow
def test_two_commands_at_once_share_their_batches(call, server, tmp_path):
    with Commands(tmp_path).started(
        *runner_words(server, folder="other"), log=tmp_path / "log"
    ) as process:
        call(*runner_words(server))
        assert process.ended() == 0, process.said()
    assert set(server.submitted.values()) == {1}
    assert results("batched") == results("other")


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["judge=simulated/good"],
            "judge simulated_good cannot be batched: simulated/good runs in evalkit's own",
        ),
        (
            ["store.mode=refresh"],
            "store.mode: with 'refresh' answers of batches would be lost; set store.mode=read_",
        ),
        (
            ["judge.model=groq/x"],
            "runner.kind: groq/x: evalkit cannot create batches of provider groq through LiteLLM",
        ),
        (
            ["judge.price=null", "runner.budget_usd=1"],
            "runner.budget_usd: the cost of a call is unknown; set judge.",
        ),
    ],
)
def test_what_cannot_be_batched_is_one_line(call, server, overrides, line):
    judge = [*fake(server), PRICE] if "judge=" not in overrides[0] else []
    more = ["runner=batch", "swap=both", *DATA, *BRIEF, "hydra.run.dir=out"]
    assert call("run", *judge, *more, *overrides, status=1).line().startswith(line)
    assert not server.batches


def test_a_panel_asks_the_judges_that_cannot_be_batched_itself(call, server):
    one = f"{{model: openai/fake, api_base: '{server.api_base}', price: {{input: 1, output: 10}}, name: fake}}"
    panel = [
        *("judge=panel", f"judge.judges=[{one},{{model: simulated/good}}]", "swap=both", *DATA),
        *BRIEF,
    ]
    call("run", *panel, "runner=batch", "runner.poll=0.02", "hydra.run.dir=batched")
    compared_files(call, server, ["run", *panel])


@pytest.mark.parametrize("end", some_of(["failed", "cancelled"], 2))
def test_a_batch_that_ends_early_is_one_line_and_its_rest_is_submitted_when_repeated(
    call, server, end, tmp_path
):
    server.end, server.fate = (
        end,
        lambda key: "answer" if end == "cancelled" and key < "8" else "lose",
    )
    done = call(*runner_words(server), status=1)
    assert (
        f"evalkit: batch batch_0 {'was ' * (end == 'cancelled')}{end}; its answers are stored"
        in done.err
    )
    assert left(tmp_path) == {}
    server.end, server.fate = "completed", lambda key: "answer"
    call(*runner_words(server))
    assert {
        count for key, count in server.submitted.items() if key < "8" and end == "cancelled"
    } <= {1}
    call(*runner_words(server, "runner=default", "store.url=online.sqlite", folder="online"))
    assert results("batched") == results("online")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param("output_file_id", marks=pytest.mark.thorough),
        "error_file_id",
        pytest.param("batch", marks=pytest.mark.thorough),
    ],
)
def test_a_batch_that_the_provider_has_lost_is_named_and_sent_again_on_request(
    call, server, tmp_path, file
):
    seen: dict[str, int] = {}
    server.fate = lambda key: "expire" if seen.setdefault(key, len(seen)) == 0 else "answer"
    server.looks = 1
    if file == "batch":
        server.on = lambda method, path: (
            server.batches.pop("batch_0", None) if path == "/v1/batches" else None
        )
    else:
        server.lost = {"file-1" if file == "output_file_id" else "file-2": 404}
    for _ in range(2):
        line = call(*runner_words(server, "swap=none"), status=1).err.splitlines()[-1]
        count = "1 request" if file == "error_file_id" else "8 requests"
        assert line.startswith("evalkit: batch batch_0: ")
        assert "404" in line or "No such" in line
        assert f"or send the {count} without an answer again with runner.resend=batch_0" in line
        assert '"batch": "batch_0"' in "".join(left(tmp_path).values())
    server.on, server.fate, before = lambda *_: None, lambda key: "answer", server.submitted.copy()
    call(*runner_words(server, "swap=none", "runner.resend=batch_0", "runner.retries=0"))
    again = [key for key in before if server.submitted[key] > before[key]]
    assert len(again) == (1 if file == "error_file_id" else 8)
    assert left(tmp_path) == {}
    call(
        *runner_words(
            server, "swap=none", "runner=default", "store.url=online.sqlite", folder="online"
        )
    )
    assert results("batched") == results("online")


def test_a_file_that_cannot_be_had_now_is_asked_for_again(call, server, tmp_path):
    server.lost["file-1"] = 503
    server.on = lambda method, path: server.lost.clear() if path.endswith("/content") else None
    assert "it is looked up again" in call(*runner_words(server, "swap=none")).err
    assert set(server.submitted.values()) == {1}
    assert left(tmp_path) == {}


def test_a_budget_is_kept_at_the_most_that_each_request_can_cost(call, server):
    # The longest answer costs $10, so two fit into a round.
    call(*runner_words(server, "judge.max_tokens=1000000", "runner.budget_usd=25", "swap=none"))
    assert {batch["request_counts"]["total"] for batch in server.batches.values()} <= {1, 2}
    before = len(server.batches)
    done = call(
        *runner_words(
            server, "judge.max_tokens=1000001", "runner.budget_usd=5", "swap=none", folder="b"
        ),
        status=2,
    )
    assert "runner.budget_usd=5 is reached" in done.err
    assert len(server.batches) == before
    call(
        *runner_words(
            server, "judge.max_tokens=1000002", "runner.budget_calls=3", "swap=none", folder="c"
        ),
        status=2,
    )
    assert (
        sum(batch["request_counts"]["total"] for batch in list(server.batches.values())[before:])
        == 3
    )


def test_a_plan_has_the_prices_of_batches(call, server):
    plan = ["plan", *DATA, "judge=gpt-4o"]
    cost = [
        float(call(*plan, *more).out.splitlines()[1].split()[-1].lstrip("$"))
        for more in ([], ["runner=batch"])
    ]
    assert cost[1] == pytest.approx(cost[0] / 2, rel=0.01)
    assert (
        "batch price unknown" in call(*plan, "judge.model=openai/gpt-3.5-turbo", "runner=batch").out
    )


@pytest.mark.postgres
def test_batches_are_kept_in_a_postgresql_store(call, server, postgres):
    url = postgres.new_database()
    server.end = "cancelled"
    call(*runner_words(server, "swap=none", f"store.url={url}"), status=1)
    server.end = "completed"
    call(*runner_words(server, "swap=none", f"store.url={url}"))
    store = open_url(url)
    assert store.states("batch/") == {}
    store.close()
    assert set(server.submitted.values()) == {1}


@pytest.mark.thorough
@pytest.mark.slow
def test_a_look_of_a_watch_in_batches(call, server, tmp_path):
    watch = [
        "watch",
        *(word for word in runner_words(server)[1:] if not word.startswith("hydra")),
        "--output",
        "seen",
    ]
    for state in ("baseline", "baseline", "same"):
        found = json.loads(call(*watch, "--json").out)
        assert (found["state"], found["looks"][-1]["complete"], server.online) == (state, True, 0)
    assert len(server.submitted) >= 3 * 16
    assert left(tmp_path) == {}
