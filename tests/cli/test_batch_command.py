"""`evalkit batch`: files to a provider and back, round by round, until a run equals an online run and sends nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from evalkit.batch.requests import RecordingJudge, Round
from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.errors import CallError
from evalkit.judges import make_judges
from evalkit.judges.model_judge import ModelJudge
from evalkit.store.sqlite import SqliteStore
from evalkit.types import AnswerFormat, JudgeRequest
from tests.support.command_line import BRIEF, Done, fake, pair
from tests.support.fake_provider import Provider, Reply, refused, said

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
        return [instance(schema["items"], draw, place) for place in range(schema.get("minItems", 1))]
    return schema.get("minimum", 1) if schema.get("type") in ("integer", "number") else "It says what is true."


def unsteady(body: dict[str, Any]) -> Reply:
    """A judge whose answers, some of them unreadable, depend on the request alone."""
    draw = int(sha256(json.dumps([message["content"] for message in body["messages"]]).encode()).hexdigest(), 16)
    asked = body.get("response_format", {}).get("json_schema")
    text = json.dumps(instance(asked["schema"], draw)) if asked and draw % 5 else "Both have merits."
    return said(text, usage=(100 + draw % 50, 30 + draw % 20))


@pytest.fixture
def provider(provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Provider:
    monkeypatch.setenv("EVALKIT_STORE", "batch.sqlite")
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(pair(number))}\n" for number in range(8)))
    provider.rule = unsteady
    return provider


def words(provider: Provider, *more: str) -> list[str]:
    return [*fake(provider), "judge.transport=direct", "output=json", "swap=third_pass", *DATA, PRICE, *more]


def lines(*paths: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in Path(path).read_text("utf-8").splitlines()]


def line(key: str, body: Any, status: int = 200, **more: Any) -> dict[str, Any]:
    return {"id": "1", "custom_id": key, "response": {"status_code": status, "body": body}, "error": None, **more}


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
                errors.append({"id": "1", "custom_id": row["custom_id"], "response": None, "error": error})
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
    return judgments, {name: metric for name, metric in metrics.items() if not name.startswith("latency/")}


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
def test_rounds_of_batches_equal_an_online_run(call: Call, provider: Provider) -> None:
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
        {"transport": "litellm", "model": "hosted_vllm/fake", "params": {"extra_body": {"top_k": 5}}},
        {"transport": "litellm", "model": "openai/o3-mini", "max_tokens": 99, "temperature": None},
    ],
)
async def test_a_body_is_the_one_that_is_sent_online(provider: Provider, settings: dict[str, Any]) -> None:
    config = JudgeConfig(**{"model": "openai/fake", "api_base": provider.api_base, **settings})
    schema = {"type": "object", "properties": {"winner": {"enum": ["A", "B"]}}, "additionalProperties": False}
    request = JudgeRequest("c", (0, 1), (0, 1), ({"role": "user", "content": "?"},), AnswerFormat("x", schema), 2)
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


def test_a_sweep_writes_shared_requests_once(call: Call, provider: Provider) -> None:
    sweep = words(provider, "swap=both,none", "judge.temperature=0,1", "-m")
    written = call("batch", "write", *sweep, "r.jsonl").out
    assert "r.jsonl: 32 requests to fake" in written
    rows = lines("r.jsonl")
    assert len({row["custom_id"] for row in rows}) == len(rows) == 32
    output, _ = Batches(unsteady).end(Path("r.jsonl"))
    assert "32 answers stored" in call("batch", "read", output).out
    second = call("batch", "write", *sweep, "r2.jsonl").out
    assert 0 < len(lines("r2.jsonl")) < 32, second


def test_files_are_split_by_limits_and_by_model(call: Call, provider: Provider) -> None:
    judges = ",".join(
        f"{{name: j{k}, model: openai/m{k}, api_base: '{provider.api_base}', transport: direct}}" for k in range(2)
    )
    panel = ["judge=panel", f"judge.judges=[{judges}]", "output=bracket", *DATA]
    call("batch", "write", *panel, "--max-requests", "10", "r.jsonl")
    files = sorted(path for path in Path().glob("r-*.jsonl"))
    assert [len(lines(file)) for file in files] == [10, 6, 10, 6]
    assert [{row["body"]["model"] for row in lines(file)} for file in files] == [{"m0"}] * 2 + [{"m1"}] * 2
    refused = call("batch", "write", *panel, "--model", "x", "s.jsonl", status=1)
    assert refused.err.splitlines()[-1] == "evalkit: --model: names one model, and the requests are for m0, m1"
    call("batch", "write", *words(provider), "--model", "mine", "t.jsonl")
    assert {row["body"]["model"] for row in lines("t.jsonl")} == {"mine"}
    # The requests of a case stand together, as they share a prefix.
    prompts = [row["body"]["messages"][-1]["content"].partition("<response_a>")[0] for row in lines("t.jsonl")]
    assert len([1 for one, next_ in pairwise(prompts) if one != next_]) == 7


def test_what_cannot_be_batched_is_said_in_a_line(call: Call, provider: Provider) -> None:
    assert "cannot be batched" in call("batch", "write", "judge=smollm2", *DATA, "r.jsonl", status=1).line()
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


def test_only_answers_to_requests_that_were_written_are_stored(call: Call, provider: Provider) -> None:
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
    for part in ("not JSON", "without the custom_id", "in no index", "failed (", "refused", "max_answer_bytes"):
        assert part in done.err
    store = SqliteStore(Path("batch.sqlite"))
    found = store.get_many([key, "a" * 64, *others])
    store.close()
    assert set(found) == {key, *others[3:6]}
    assert (found[key].text, found[others[3]].text) == ("[[A]]", "[[A]] ?")
    # A file without one answer is a failure.
    write_rows("answers.jsonl", hostile[:20])
    assert call("batch", "read", "answers.jsonl", status=2).out.startswith("0 answers stored")


def test_answers_can_be_limited_to_one_file_of_requests(call: Call, provider: Provider) -> None:
    call("batch", "write", *words(provider), "--max-requests=8", "r.jsonl")
    Path("elsewhere").mkdir()
    output, _ = Batches(unsteady).end(Path("r-1.jsonl"))
    only = call("batch", "read", output, "--requests", "r-2.jsonl", status=2)
    assert "8 lines to requests that are in no index" in only.err
    moved = Path(output).rename("elsewhere/answers.jsonl")
    assert "8 answers stored in other.sqlite" in call("batch", "read", str(moved), "store.url=other.sqlite").out
    assert "8 answers stored" in call("batch", "read", str(moved), "--requests", "r.jsonl").out


def test_an_expired_request_is_written_again_and_counts_for_that_file(call: Call, provider: Provider) -> None:
    call("batch", "write", *words(provider), "s.jsonl")
    expired = call("batch", "read", *Batches(unsteady).end(Path("s.jsonl"), lost=1), status=2)
    assert "16 lines failed (bad_request), for example s.errors.jsonl:1: This request could not" in expired.err
    assert "s.jsonl: 0 of 16 requests have an answer" in expired.out
    assert "about 1 more round likely" in expired.out
    call("batch", "write", *words(provider), "r.jsonl")
    assert {row["custom_id"] for row in lines("r.jsonl")} == {row["custom_id"] for row in lines("s.jsonl")}
    done = call("batch", "read", *Batches(unsteady).end(Path("r.jsonl")))
    assert done.out.splitlines()[1] == "r.jsonl: 16 of 16 requests have an answer"


def test_an_answer_costs_the_price_of_a_batch(call: Call, monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    call("batch", "write", "judge=gpt-4o-mini", *DATA, "dataset.limit=1", "swap=none", "r.jsonl")
    [row] = lines("r.jsonl")
    assert row["body"]["response_format"]["type"] == "json_schema"
    write_rows("answers.jsonl", [line(row["custom_id"], said("{}", usage=(1_000_000, 100_000)).body)])
    call("batch", "read", "answers.jsonl")
    store = SqliteStore(Path("batch.sqlite"))
    [found] = store.get_many([row["custom_id"]]).values()
    store.close()
    assert (found.cost_usd, found.rung) == (pytest.approx(0.075 + 0.03), "json_schema")
