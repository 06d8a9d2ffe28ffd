"""`evalkit serve` under load that clients choose: large questions are bounded and block nobody."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event

import httpx
import pytest

from evalkit.core.admission import OF_ADDRESS
from evalkit.serving.service import STOP_SECONDS
from evalkit.store.sqlite import SqliteStore
from tests.serving.test_serve import CRITERIA, NEW, TOOL, hanging
from tests.support.servers import PATIENCE
from tests.support.serving import Served, served

PROMPT = {"prompt": "Question 78: is sport healthy?"}


def named(count: int) -> list[str]:
    return [f"criterion {number}" for number in range(count)]


@pytest.fixture
def judge(judge_folder, provider):
    """Return the words that serve the judge."""
    return str(judge_folder), "--api-base", provider.api_base


def slowest_health(server: Served, question: object) -> float:
    """Return the longest time to answer `/health` until a question is answered."""
    slowest = 0.0
    while not question.done():
        started = time.perf_counter()
        assert server.get("/health").status_code == 200
        slowest = max(slowest, time.perf_counter() - started)
    return slowest


def test_a_question_with_many_criteria_blocks_nobody(judge):
    question = {**TOOL, "criteria": named(100)}
    with served(*judge) as server, ThreadPoolExecutor(1) as clients:
        answer = clients.submit(server.post, "/pairwise_compare", question)
        # Scoring the case again for each criterion took 35 s.
        assert slowest_health(server, answer) < 5
        status, result = answer.result()
    assert (status, len(result["comparison"])) == (200, 100)


@pytest.mark.parametrize(
    ("path", "fields", "problem"),
    [
        ("/pairwise_compare", {**TOOL, "criteria": named(101)}, "--max-criteria allows 100"),
        ("/pairwise_compare", {**TOOL, "criteria": named(50_000)}, "--max-criteria allows 100"),
        ("/pairwise_compare", {**TOOL, "criteria": ["x"] * 50_000}, "two criteria are named"),
        ("/judge", {**PROMPT, "responses": named(21)}, "--max-responses allows 20"),
        ("/judge", {**PROMPT, "responses": named(11)}, "has 110 calls to the judge"),
        ("/judge", {**NEW, "checklist": named(101)}, "--max-items allows 100"),
        ("/judge", {**NEW, "metadata": dict.fromkeys(named(101), 1)}, "--max-items allows 100"),
        (
            "/pairwise_compare",
            {**TOOL, "criteria": CRITERIA, "metadata": dict.fromkeys(named(101), 1)},
            "--max-items allows 100",
        ),
    ],
)
def test_a_question_over_a_bound_is_one_line_and_costs_nothing(shared, path, fields, problem):
    before = len(shared.sent)
    status, answer = shared.post(path, fields)
    assert (status, problem in answer["error"]) == (422, True), answer
    assert len(shared.sent) == before


def test_the_bounds_can_be_chosen(judge):
    words = ("--max-criteria", "3", "--max-calls", "6")
    with served(*judge, *words) as server:
        statuses = [
            server.post("/pairwise_compare", {**TOOL, "criteria": named(count)})[0]
            for count in (3, 4)
        ]
        statuses += [
            server.post("/judge", {**PROMPT, "responses": named(count)})[0] for count in (3, 4)
        ]
    assert statuses == [200, 422, 200, 422]


def test_a_question_counts_by_its_pairs(judge, provider):
    with served(*judge, "--rate", "7") as server:
        ends = [server.post("/judge", {**PROMPT, "responses": named(count)}) for count in (5, 4, 3)]
        single = server.post("/judge", NEW)[0]
    assert [status for status, _ in ends] == [422, 200, 429]
    assert "counts as 10" in ends[0][1]["error"]
    assert (single, len(provider.requests)) == (200, 14)


def test_a_stop_does_not_wait_for_a_provider_that_hangs_and_counts_its_calls(
    judge, provider, capsys
):
    reached, released = hanging(provider, 2)
    with served(*judge) as server, ThreadPoolExecutor(1) as clients:
        answer = clients.submit(server.post, "/judge", NEW)
        assert reached.wait(PATIENCE)
        started = time.perf_counter()
        assert server.ended() == 0
        # The provider hangs until it is released, so this holds on a busy machine, too.
        assert time.perf_counter() - started < PATIENCE / 10
        released.set()
        assert answer.exception() is not None or answer.result()[0] == 503
    assert "2 calls were sent and are unanswered after 0.8 s" in capsys.readouterr().err


def test_a_stop_does_not_wait_for_a_computation(judge, monkeypatch):
    computing, over = Event(), Event()

    def endless(*_):
        computing.set()
        over.wait()

    monkeypatch.setattr("evalkit.serving.scoring_queue.verdicts_of", endless)
    long = {**NEW, "prompt": "Write a line. " * 2000}
    with served(*judge) as server, ThreadPoolExecutor(1) as clients:
        clients.submit(server.post, "/judge", long)
        assert computing.wait(PATIENCE)
        assert server.ended() == 0
    over.set()


def test_a_stop_waits_until_the_answers_that_arrived_are_stored(judge, provider, monkeypatch):
    put_many, writing, free = SqliteStore.put_many, Event(), Event()

    def slow(store, answers):
        writing.set()
        free.wait()
        put_many(store, answers)

    with (
        monkeypatch.context() as patch,
        ThreadPoolExecutor(1) as clients,
    ):
        patch.setattr(SqliteStore, "put_many", slow)
        with served(*judge) as server:
            clients.submit(server.post, "/judge", NEW)
            assert writing.wait(PATIENCE)
            server.stop()
            server.thread.join(2 * STOP_SECONDS)  # longer than calls may take
            assert server.thread.is_alive()
            free.set()
            assert server.ended() == 0
    sent = len(provider.requests)
    with served(*judge) as server:
        assert server.post("/judge", NEW)[0] == 200
    assert len(provider.requests) == sent


def test_slow_heads_are_ended_and_keep_nobody_from_an_answer(judge, monkeypatch):
    monkeypatch.setattr("evalkit.core.admission.SILENT_SECONDS", 0.5)
    monkeypatch.setattr("evalkit.core.admission.OF_ADDRESS", 20)
    first = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
    with served(*judge) as server, server.connected() as slow, ExitStack() as stack:
        slow.sendall(first % server.port)
        assert slow.recv(12) == b"HTTP/1.1 200"
        slow.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
        slow.settimeout(PATIENCE)
        while slow.recv(1000):  # until the server ends it
            pass
        for _ in range(60):
            client = stack.enter_context(server.connected())
            client.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
        assert server.get("/health").status_code == 200
        assert len(server.server.server_state.connections) <= 20


def test_hundreds_of_idle_connections_keep_nobody_from_an_answer(judge):
    """Each has had an answer, and then begins a request that never ends."""
    first = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
    with served(*judge) as server, ExitStack() as stack:
        for _ in range(OF_ADDRESS + 50):
            client = stack.enter_context(server.connected())
            client.sendall(first % server.port)
            assert client.recv(12) == b"HTTP/1.1 200"
            client.sendall(b"POST /judge HTTP/1.1\r\nX-Slow: ")
        assert server.get("/health").status_code == 200
        assert server.post("/judge", NEW)[0] == 200
        assert len(server.server.server_state.connections) <= OF_ADDRESS


def test_a_body_over_the_limit_is_413_however_large(judge):
    chunks = (b" " * 1_000_000 for _ in range(400))
    with served(*judge) as server:
        reply = httpx.post(
            f"{server.url}/judge", content=chunks, headers=server.headers({}), timeout=PATIENCE
        )
    assert (reply.status_code, "1,000,000 bytes" in reply.json()["error"]) == (413, True)


def test_a_budget_pays_for_whole_questions_only(judge, provider):
    cases = [{**NEW, "prompt": f"Question {number}?"} for number in range(20)]
    with served(*judge, "runner.budget_calls=15") as server, ThreadPoolExecutor(20) as clients:
        ends = [*clients.map(lambda case: server.post("/judge", case), cases)]
    statuses = [status for status, _ in ends]
    assert {*statuses} == {200, 429}
    assert len(provider.requests) == 2 * statuses.count(200)
