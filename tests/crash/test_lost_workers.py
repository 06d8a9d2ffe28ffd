"""Workers on one PostgreSQL store: some are killed and some lose their connection, and the result is a single one's."""

import json
import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from evalkit.store import open_url
from tests.crash.test_crashes import by_key, driver, log, requests, rows, running, sent  # noqa: F401  (fixtures)

WORKERS, KILLS, CASES = 6, 2, 400
PATIENCE = 300.0


@pytest.fixture(scope="module")
def cases():
    return CASES


def start(driver: subprocess.Popen[str], store: str, result: Path) -> int:  # noqa: F811
    print(store, result.with_suffix(".kept"), result, file=driver.stdin, flush=True)
    return int(driver.stdout.readline())


def wait_for(reached) -> None:
    end = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def end_one_holder(url: str) -> tuple[float, float]:
    """End the connection that holds the most claims, and return between which moments it ended."""
    holders = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' GROUP BY pid ORDER BY count(*) DESC LIMIT 1"
    with psycopg.connect(url, autocommit=True) as connection:
        began = time.monotonic()
        ended = connection.execute(
            f"SELECT pg_terminate_backend(pid, 60000) FROM ({holders}) AS most"
        ).fetchall()
    assert ended == [(True,)]
    return began, time.monotonic()


@pytest.mark.slow
@pytest.mark.postgres
def test_workers_that_are_killed_or_cut_off_pay_once_and_end_as_a_single_one(
    postgres,
    driver,  # noqa: F811
    log,  # noqa: F811
    tmp_path,
):
    url, alone = postgres.new_database(), tmp_path / "alone"
    single = start(driver, str(tmp_path / "alone.sqlite"), alone)
    wait_for(lambda: not running(single))
    before = sent(log)
    assert before == 2 * CASES
    results = [tmp_path / f"result{n}" for n in range(WORKERS)]
    workers = [start(driver, url, result) for result in results]
    killed: dict[int, float] = {}
    for n in range(KILLS):
        wait_for(lambda n=n: sent(log) - before >= (n + 1) * 2 * CASES // (KILLS + 2))
        killed[workers[n]] = time.monotonic()
        os.kill(workers[n], signal.SIGKILL)
    wait_for(lambda: sent(log) - before >= (KILLS + 1) * 2 * CASES // (KILLS + 2))
    began, ended = end_one_holder(url)
    wait_for(lambda: not any(running(pid) for pid in workers))

    expected = json.loads(alone.read_text())
    assert all(json.loads(result.read_text()) == expected for result in results[KILLS:])
    asked, kept = by_key(requests(log)[before:]), dict[str, float]()
    for result in results:
        for moment, key in rows(result.with_suffix(".kept")):
            kept[key] = min(float(moment), kept.get(key, float("inf")))
    store = open_url(url, read_only=True)
    assert len(asked) == len(store.get_many(list(asked))) == 2 * CASES
    store.close()
    repeated = 0
    for key, times in asked.items():
        for first, second in pairwise(times):
            assert second.looked <= kept.get(key, float("inf")), "asked again though it was kept"
            cut = first.checked <= ended and began <= second.checked
            assert cut or killed.get(first.pid, float("inf")) <= second.checked, "paid for twice"
            repeated += 1
    print(
        f"{WORKERS} workers, {2 * CASES} requests: {repeated} not yet stored at a kill or cut were sent again"
    )
