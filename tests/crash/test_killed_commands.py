"""Commands other than `run` that are killed while a judge answers: what was paid for is not asked again."""

import json
import signal
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.support.command_line import Commands, call_main, fake, pair
from tests.support.fake_provider import Reply, said
from tests.support.serving import free_port

CASES = 20
KILLED_AT = 12
STUDY = [
    "dataset=file", "dataset.path=data.jsonl", "output=bracket", "judge.transport=direct",
    "store.url=answers.db", "tracking=none", "scoring.bootstrap=20", "runner.concurrency=1",
]  # fmt: skip


@pytest.fixture
def commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{**pair(number), "id": f"c{number}"} for number in range(CASES)]
    Path("data.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return Commands(tmp_path)


class Killing:
    """Answers, and at a request says that the command may be killed; that one is never answered."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.reached = threading.Event()
        self.gone = threading.Event()

    def __call__(self, body: dict[str, object]) -> Reply:
        self.asked[json.dumps(body)] += 1
        if self.asked.total() == KILLED_AT:
            self.reached.set()
            return Reply({}, hang=self.gone)
        return said("[[A]]")

    def repeated(self) -> int:
        return sum(number - 1 for number in self.asked.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "again"),
    [
        # An audit asks for each answer twice, to know how often the judge changes its mind.
        pytest.param(["audit", "probe.probes={padding: {}}"], 2 * CASES, id="audit"),
        pytest.param(["watch", "--output", "seen"], 0, id="watch", marks=pytest.mark.thorough),
    ],
)
def test_a_command_that_is_killed_pays_again_only_for_what_was_in_flight(
    words, again, commands, provider, capfd, tmp_path
):
    provider.rule = killing = Killing()
    command, *more = words
    folder = [] if command == "watch" else ["hydra.run.dir=run"]
    whole = [command, *fake(provider), *STUDY, *more, *folder]
    with commands.started(*whole, log=tmp_path / "log") as started:
        started.wait_for(killing.reached)
        started.process.send_signal(signal.SIGKILL)
        started.process.wait()
    killing.gone.set()
    call_main(capfd, *whole)
    assert killing.asked.total() > 2 * KILLED_AT
    # The request in flight, and perhaps the answer before it, which was being stored.
    assert again + 1 <= killing.repeated() <= again + 2


@pytest.mark.slow
@pytest.mark.thorough
def test_a_server_that_is_killed_has_stored_what_it_has_answered(
    commands, provider, capfd, tmp_path
):
    provider.rule = killing = Killing()
    call_main(capfd, "run", *fake(provider), *STUDY, "dataset.limit=2", "hydra.run.dir=run")
    call_main(capfd, "export", "run", "--to", "judge", "--output", "judge")
    port = free_port()
    serve = ["serve", "judge", "--port", str(port), "--api-base", provider.api_base]
    question = {"prompt": "Name a prime.", "response_a": "7", "response_b": "9"}
    for times in (1, 2):
        log = tmp_path / f"log{times}"
        with commands.started(*serve, "store.url=served.db", log=log) as started:
            while True:
                assert started.process.poll() is None, started.said()
                with suppress(httpx.TransportError):
                    answer = httpx.post(f"http://127.0.0.1:{port}/judge", json=question)
                    break
            assert answer.json()["winner"] == "TIE"
            started.process.send_signal(signal.SIGKILL)
            started.process.wait()
    assert killing.repeated() == 0
