import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from evalkit.store.sqlite import SqliteStore

HERE = Path(__file__).parent
CASES = 150
REQUESTS = 2 * CASES
KILLS = (
    6  # a session: a store that is new, and that many kills before its runs may come to their end
)
SESSIONS = (
    3,
    7,
)  # of these, the first is not disturbed: what it finds is what all others must find
LONGEST_LIFE = 0.35
LONGEST_SESSION = 300.0  # on a busy machine


@dataclass
class Session:
    """One store, the runs on it, and when each of them was killed."""

    folder: Path
    driver: subprocess.Popen[str]
    alive: dict[int, Path] = field(default_factory=dict)
    killed: dict[int, float] = field(default_factory=dict)
    results: list[Path] = field(default_factory=list)

    def start(self) -> None:
        result = (
            self.folder
            / f"result-{len(self.killed) + len(self.results) + len(self.alive)}-{time.monotonic_ns()}"
        )
        print(
            self.folder / "store.sqlite",
            self.folder / "acknowledged",
            result,
            file=self.driver.stdin,
            flush=True,
        )
        self.alive[int(self.driver.stdout.readline())] = result

    def kill(self, pid: int) -> None:
        del self.alive[pid]
        self.killed[pid] = time.monotonic()
        os.kill(pid, signal.SIGKILL)

    def gather(self) -> None:
        """Take note of the runs that came to their end by themselves."""
        for pid, result in list(self.alive.items()):
            if not running(pid):
                assert result.exists(), "a run failed: see the driver's errors"
                self.results.append(result)
                del self.alive[pid]


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("server") / "asked"


@pytest.fixture(scope="module")
def cases():
    return CASES


@pytest.fixture(scope="module")
def driver(log, cases):
    def process(*words: str) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen([sys.executable, *words], text=True, **pipes)  # type: ignore[call-overload]

    with process(str(HERE / "crash_server.py"), str(log)) as server:
        port = server.stdout.readline().strip()
        with process(str(HERE / "crash_driver.py"), port, str(cases)) as started:
            assert started.stdout.readline() == "ready\n"
            yield started
            started.stdin.close()
        server.stdin.close()


@dataclass(frozen=True)
class Request:
    """A request that the server got: who sent it, and when that process looked in the store and checked its claim."""

    key: str
    pid: int
    looked: float
    checked: float


def rows(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def requests(log: Path) -> list[Request]:
    return [
        Request(key, int(pid), float(looked), float(checked))
        for key, pid, looked, checked in rows(log)
    ]


def sent(log: Path) -> int:
    """How many requests the server got so far."""
    return log.read_bytes().count(b"\n") if log.exists() else 0


def by_key(asked: list[Request]) -> dict[str, list[Request]]:
    """The requests for each key, in the order in which they were sent."""
    found = defaultdict(list)
    for request in sorted(asked, key=lambda request: request.checked):
        found[request.key].append(request)
    return found


def kill_in_flight(session: Session, log: Path, end: float) -> None:
    """Kill a run whose call the server has, and does not answer before the run is gone."""
    held = log.with_name("held")
    held.touch()
    before = sent(log)
    session.start()
    asking = set[int]()
    while not asking:
        assert time.monotonic() < end
        time.sleep(0.01)
        asking = {asked.pid for asked in requests(log)[before:]} & session.alive.keys()
    session.kill(min(asking))
    held.unlink()


def run_and_kill(
    session: Session, log: Path, at_once: int, draw: random.Random, kills: int
) -> None:
    end = time.monotonic() + LONGEST_SESSION
    if kills:
        kill_in_flight(session, log, end)
    while len(session.killed) < kills:
        assert time.monotonic() < end
        session.gather()
        while len(session.alive) < at_once:
            session.start()
        time.sleep(draw.random() * LONGEST_LIFE / at_once)
        session.gather()
        if session.alive:
            session.kill(draw.choice(sorted(session.alive)))
    session.start()
    while session.alive:
        assert time.monotonic() < end
        time.sleep(0.01)
        session.gather()


def check(session: Session, log: Path, before: int) -> int:
    """Check what the server was asked against what the store holds; return how many answers were lost in flight."""
    asked = by_key(requests(log)[before:])
    acknowledged = {
        key: float(moment) for moment, key in reversed(rows(session.folder / "acknowledged"))
    }
    store = SqliteStore(session.folder / "store.sqlite", read_only=True)
    stored = set(store.get_many(list(asked)))
    assert len([*store.scan()]) == len(stored) == len(asked) == REQUESTS
    assert set(acknowledged) <= stored
    store.close()
    again = 0
    for key, times in asked.items():
        kept = acknowledged.get(key, float("inf"))
        assert all(request.looked <= kept for request in times), "asked again though it was kept"
        for first, second in pairwise(times):
            assert session.killed.get(first.pid, float("inf")) <= second.checked, (
                "asked by two processes at once"
            )
            again += 1
    return again


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 4])
def test_killed_at_any_moment_nothing_that_was_kept_is_lost_or_asked_again(
    at_once, driver, log, tmp_path, thorough
):
    sessions = SESSIONS[thorough]
    draw = random.Random(at_once)
    expected, again, killed = None, 0, 0
    for number in range(sessions):
        folder = tmp_path / str(number)
        folder.mkdir()
        session, before = Session(folder, driver), sent(log)
        run_and_kill(session, log, at_once, draw, KILLS if number else 0)
        again += check(session, log, before)
        killed += len(session.killed)
        for result in session.results:
            told = json.loads(result.read_text())
            expected = expected or told
            assert told == expected
    assert killed >= KILLS * (sessions - 1)
    assert (
        again >= sessions - 1
    )  # else no kill fell between an answer and its being kept, and nothing was shown
    print(f"{at_once} at once: {killed} kills, {again} calls lost in flight")
