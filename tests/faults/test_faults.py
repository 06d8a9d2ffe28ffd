import asyncio
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import JudgeSetupError
from evalkit.engine.event_loop import Clock
from evalkit.engine.judging import judge_cases
from evalkit.engine.progress import JudgingResult
from evalkit.judges import make_judges
from evalkit.store.sqlite import SqliteStore
from tests.support import fault_server
from tests.support.engine_fakes import Both, cases
from tests.support.fault_server import FAULTS

FASTER = 20  # how much faster waits between attempts pass than on a clock
# Through LiteLLM a call costs milliseconds of the machine: fewer of them, and more time before one
# counts as hanging.
REQUESTS = {"direct": (300, 1.0), "litellm": (150, 4.0)}
# What each fault comes to where it is the last that a request meets.
KINDS = {
    **dict.fromkeys(("429_seconds", "429_date"), "rate_limit"),
    **dict.fromkeys(("500", "502", "503", "529"), "server"),
    **dict.fromkeys(("truncated", "html", "empty"), "bad_response"),
    **dict.fromkeys(("hang", "drip"), "timeout"),
    "reset": "connection",
    "context": "too_long",
}
ANSWERED = ("answered", "length")
REFUSED = ("filtered", "policy")


@dataclass(frozen=True)
class Provider:
    api_base: str
    log: Path

    def done(self) -> dict[str, list[str]]:
        """What was done to each text, in the order in which it was asked."""
        by_text = defaultdict(list)
        for line in self.log.read_text().splitlines():
            text, done = json.loads(line)
            by_text[text].append(done)
        return by_text


@contextmanager
def serving(tmp_path: Path, script: str, share: float = 0.0) -> Iterator[Provider]:
    log = tmp_path / "log"
    words = [sys.executable, fault_server.__file__, script, str(share), str(log)]
    with subprocess.Popen(
        words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        yield Provider(f"http://127.0.0.1:{server.stdout.readline().strip()}/v1", log)
        server.stdin.close()


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret-1234")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


def run(
    provider: Provider, store: SqliteStore | None, n: int, transport: str = "direct", **runner
) -> JudgingResult:
    config = JudgeConfig(model="openai/m", api_base=provider.api_base, transport=transport)
    settings = RunnerConfig(
        **{"concurrency": 32, "timeout": 1.0, "retries": 6, "max_failure_rate": 1.0, **runner}
    )
    clock = Clock(
        lambda: time.monotonic() * FASTER, lambda seconds: asyncio.sleep(seconds / FASTER)
    )
    judges = make_judges(config, settings)
    return asyncio.run(judge_cases(cases(n), Both(orders=1), judges, store, settings, clock=clock))


def text_of(judgment) -> str:
    return f"question {judgment.case_id[1:]} {judgment.shown}"


def check(judged: JudgingResult, provider: Provider, n: int, *, first: bool = True) -> Counter[str]:
    """Hold each row of a store's first or later run against what the server did; return how often it did what."""
    assert [j.case_id for j in judged.judgments] == [f"c{i}" for i in range(n)]
    done = provider.done()
    for judgment in judged.judgments:
        *before, last = done[text_of(judgment)]
        assert not {*before} & {*ANSWERED}, "an answered request was sent again"
        if judgment.completion is not None and judgment.completion.refusal is None:
            assert last in ANSWERED
            assert judgment.completion.attempts == len(before) + 1 or not first
        elif judgment.completion is not None:
            assert last in REFUSED
        else:
            assert (judgment.status, judgment.error_kind) == ("failed", KINDS[last])
            assert judgment.error
            assert "secret-secret" not in judgment.error
    return Counter(fate for fates in done.values() for fate in fates)


@pytest.mark.slow
@pytest.mark.parametrize("transport", REQUESTS)
def test_hundreds_of_requests_come_to_their_end_at_thirty_percent_faults(tmp_path, transport):
    n, timeout = REQUESTS[transport]
    store = SqliteStore(tmp_path / "s.sqlite")
    with serving(tmp_path, "seed 1", 0.3) as provider:
        judged = run(provider, store, n, transport, timeout=timeout)
        met = check(judged, provider, n)
        assert {*met} <= {"answered", *FAULTS}
        assert len(met) >= (len(FAULTS) + 1 if n >= 2000 else 12)
        assert sum(met[name] for name in FAULTS) / sum(met.values()) == pytest.approx(0.3, abs=0.05)
        answered = [
            j for j in judged.judgments if j.completion is not None and j.completion.refusal is None
        ]
        assert len(answered) > 0.95 * n
        assert len([*store.scan()]) == len(answered)
        # What failed is asked again by the next run, and nothing else.
        again = run(provider, store, n, transport, timeout=timeout)
        check(again, provider, n, first=False)
        assert again.calls.sent == n - len(answered)
    store.close()


@pytest.mark.parametrize("transport", ["direct", "litellm"])
@pytest.mark.parametrize("fate", ["401", "404"])
def test_what_no_retry_mends_ends_the_run_at_once(tmp_path, fate, transport):
    with serving(tmp_path, fate) as provider:
        with pytest.raises(JudgeSetupError) as error:
            run(provider, None, 1000, transport, concurrency=8, timeout=120.0)
        assert "\n" not in str(error.value)
        assert "secret-secret" not in str(error.value)
        assert sum(map(len, provider.done().values())) <= 8


@pytest.mark.parametrize("transport", ["direct", "litellm"])
def test_an_optional_parameter_that_is_refused_is_left_out_once_and_for_all(
    tmp_path, transport, caplog
):
    with serving(tmp_path, "unsupported") as provider:
        judged = run(provider, None, 100, transport, concurrency=4, timeout=120.0)
        assert {j.status for j in judged.judgments} == {"ok"}
        assert judged.dropped == {"m": ("temperature",)}
        assert sum(map(len, provider.done().values())) <= 104
    said = [record.getMessage() for record in caplog.records if record.name.startswith("evalkit")]
    assert len(said) == 1
    assert "temperature" in said[0]


def test_a_hopeless_run_ends_early_and_keeps_what_there_is(tmp_path):
    store = SqliteStore(tmp_path / "s.sqlite")
    with serving(tmp_path, "seed 2", 0.9) as provider:
        judged = run(provider, store, 1000, max_failure_rate=0.05, retries=0, timeout=0.5)
        sent = sum(map(len, provider.done().values()))
    store.close()
    assert len(judged.judgments) == 1000
    assert "runner.max_failure_rate" in judged.stopped
    kinds = Counter(j.error_kind for j in judged.judgments)
    assert kinds["stopped"] > 800
    assert 51 <= sent <= 51 / 0.8 + 32
    assert judged.calls.sent == sent
    assert sum(j.status == "ok" for j in judged.judgments) > 0
