"""A process that starts runs: each in a fork of its own, so that it begins at once and can be killed alone.

    python crash_driver.py PORT CASES

Each line `STORE ACKNOWLEDGED RESULT` on its input starts a run, and prints its process id. A run
judges CASES pairs in both orders, notes in ACKNOWLEDGED each answer that the store has said to
hold, and at its end writes RESULT.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

from evalkit.config import (
    Criterion,
    JudgeConfig,
    OutputConfig,
    RunConfig,
    RunnerConfig,
    ScoringConfig,
)
from evalkit.core.types import Case, Completion, JudgeRequest, JudgeSpec, Response
from evalkit.engine.judging import judge_cases
from evalkit.engine.progress import JudgingResult
from evalkit.engine.requests import call_key
from evalkit.evaluators.factory import make_evaluator
from evalkit.scoring.pipeline import score_run
from evalkit.store import open_url

CONFIG = RunConfig(
    judge=JudgeConfig(model="test/crash"),
    criteria={"quality": Criterion()},
    output=OutputConfig(format="bracket"),
    scoring=ScoringConfig(bootstrap=50),
    runner=RunnerConfig(concurrency=8),
)


def cases(number: int) -> list[Case]:
    labels = ("A", "B", "TIE")
    return [
        Case(
            f"c{i}",
            f"question {i}",
            (Response(f"first {i}"), Response(f"second {i * i}")),
            label=labels[i % 3],
        )
        for i in range(number)
    ]


class PlainJudge:
    """A judge that speaks just enough HTTP, and tells the server which process asks for which key and why."""

    def __init__(self, port: int, store: Acknowledging) -> None:
        self.spec = JudgeSpec("crash", "test/crash")
        self._port, self._store = port, store
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def complete(self, request: JudgeRequest) -> Completion:
        reader, writer = (
            self._idle.pop()
            if self._idle
            else await asyncio.open_connection("127.0.0.1", self._port)
        )
        prompt = "\n".join(message["content"] for message in request.messages)
        key = call_key(self.spec, request)
        moments = {"looked": self._store.looked[key], "checked": self._store.checked[key]}
        asked = {"key": key, "pid": os.getpid(), "prompt": prompt} | moments
        body = json.dumps(asked).encode()
        writer.write(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        head = await reader.readuntil(b"\r\n\r\n")
        said = json.loads(await reader.readexactly(int(head.split(b"content-length:")[1])))
        self._idle.append((reader, writer))
        return Completion(said["text"], finish_reason="stop", cost_usd=0.001)

    async def close(self) -> None:
        for _, writer in self._idle:
            writer.close()


class Acknowledging:
    """A store that writes down, once an answer is said to be kept, that it was.

    Attributes:
        looked: When a run last began to look for a key's answer.
        checked: When it last began to check that its claim of a key holds, before it sends.
    """

    def __init__(self, path: str, log: str) -> None:
        self._store = open_url(path)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.claim, self.release = self._store.claim, self._store.release
        self.close, self.recent = self._store.close, self._store.recent
        if hasattr(self._store, "claim_many"):
            self.claim_many, self.release_many = self._store.claim_many, self._store.release_many
        self.looked: dict[str, float] = {}
        self.checked: dict[str, float] = {}

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        self.looked.update(dict.fromkeys(keys, time.monotonic()))
        return self._store.get_many(keys)

    def holds(self, key: str) -> bool:
        self.checked[key] = time.monotonic()
        holds = getattr(
            self._store, "holds", None
        )  # a local store's claims end with their process only
        return holds is None or holds(key)

    def put(self, key: str, model: str, completion: Completion) -> None:
        self.put_many([(key, model, completion)])

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        self._store.put_many(answers)
        now = time.monotonic()
        os.write(self._log, "".join(f"{now:.9f} {key}\n" for key, _, _ in answers).encode())


def told(cases: list[Case], judged: JudgingResult) -> dict[str, object]:
    """What must be the same however often a run was killed: judgments and metrics, not where answers came from."""
    scores = score_run(CONFIG, cases, judged.judgments)
    return {
        "judgments": [[j.case_id, j.shown, j.status, j.value, j.keys] for j in judged.judgments],
        "metrics": {
            name: [m.value, m.low, m.high, m.n, m.missing] for name, m in scores.metrics.items()
        },
    }


def run(port: int, cases: list[Case], store: str, acknowledged: str, result: str) -> None:
    kept = Acknowledging(store, acknowledged)
    evaluator = make_evaluator(CONFIG, prompt_folders=[])
    judged = asyncio.run(
        judge_cases(cases, evaluator, [PlainJudge(port, kept)], kept, CONFIG.runner)
    )
    kept.close()
    partial = Path(f"{result}.partial")
    partial.write_text(json.dumps(told(cases, judged)))
    partial.replace(result)


def serve(port: int, cases: list[Case], lines: Iterable[str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    told(cases, JudgingResult(()))  # imports now what each fork would import again
    print("ready", flush=True)
    for line in lines:
        child = os.fork()
        if not child:
            status = 1
            try:
                run(port, cases, *line.split())
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        print(child, flush=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]), cases(int(sys.argv[2])), sys.stdin)
