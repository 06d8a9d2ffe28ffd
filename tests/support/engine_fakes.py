"""Judges, evaluators and stores that are scripted, and a clock that does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from evalkit.core.types import Case, Completion, JudgeRequest, JudgeSpec, Judgment, Response, Usage
from evalkit.engine.event_loop import Clock

DONE = Completion("yes", finish_reason="stop", usage=Usage(10, 2), cost_usd=0.5)


def cases(n: int) -> list[Case]:
    return [Case(f"c{i}", f"question {i}", (Response("a"), Response("b"))) for i in range(n)]


class Time:
    """A clock that is moved by waiting on it."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.pause)


class Both:
    """Asks for each pair in both orders; `again` says which texts are worth a second ask."""

    def __init__(self, again: Callable[[str], bool] = lambda text: False, orders: int = 2) -> None:
        self.again, self.orders = again, orders

    def plan(self, case: Case) -> list[JudgeRequest]:
        orders = ((0, 1), (1, 0))[: self.orders]
        return [
            JudgeRequest(
                case.id, (0, 1), shown, ({"role": "user", "content": f"{case.prompt} {shown}"},)
            )
            for shown in orders
        ]

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        if self.again(completion.text):
            more = (*request.messages, {"role": "user", "content": "again"})
            return replace(request, messages=more, turn=request.turn + 1)
        return Judgment(
            request.case_id,
            request.unit,
            request.shown,
            request.sample,
            request.judge,
            "ok",
            answer={"t": completion.text},
        )


class Prepared:
    """Asks the case's question first, which all orders share, and puts the answer into each of another's asks."""

    def __init__(self, inner: Both) -> None:
        self.inner = inner

    def plan(self, case: Case) -> list[JudgeRequest]:
        question = ({"role": "user", "content": case.prompt},)
        return [
            replace(one, messages=question, then=one, shared=True) for one in self.inner.plan(case)
        ]

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        if request.then is None:
            return self.inner.read(request, completion)
        if completion.text == "endless":
            return replace(request.then, then=request)
        own = {"role": "user", "content": f"you said {completion.text}"}
        return replace(request.then, messages=(own, *request.then.messages))


class Third(Both):
    """Asks a third time where the two orders were answered differently."""

    def follow(self, case: Case, judgments: Sequence[Judgment]) -> list[JudgeRequest]:
        if len({str(judgment.answer) for judgment in judgments}) < 2:
            return []
        return [replace(self.plan(case)[0], sample=1, third=True)]


@dataclass
class Scripted:
    """A judge that answers as `answer` says, and keeps what it was asked and how many at once."""

    answer: Callable[[JudgeRequest, int], Completion | Exception] = lambda request, nth: DONE
    spec: JudgeSpec = field(default_factory=lambda: JudgeSpec("fake", "fake/model"))
    asked: list[JudgeRequest] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    closed: int = 0
    concurrency: int | None = None
    rpm: float | None = None
    tpm: float | None = None

    async def complete(self, request: JudgeRequest) -> Completion:
        self.asked.append(request)
        nth = len(self.asked)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            outcome = self.answer(request, nth)
        finally:
            self.at_once -= 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        self.closed += 1


class Memory:
    """A store in memory that notes what it was asked for."""

    def __init__(self) -> None:
        self.kept: dict[str, Completion] = {}
        self.puts: list[str] = []

    def get_many(self, keys: Iterable[str]) -> dict[str, Completion]:
        return {key: self.kept[key] for key in keys if key in self.kept}

    def put(self, key: str, model: str, completion: Completion) -> None:
        self.puts.append(key)
        self.kept[key] = completion

    def put_many(self, answers: Iterable[tuple[str, str, Completion]]) -> None:
        for answer in answers:
            self.put(*answer)

    def claim(self, key: str) -> bool:
        return True

    def release(self, key: str) -> None:
        pass

    def recent(self, model: str, limit: int = 500) -> list[Completion]:
        return []
