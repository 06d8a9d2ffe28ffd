"""A few requests of a plan, drawn at random, to be judged before the others: what they come to tells what all will."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappush, heappushpop

from evalkit.engine.asking import Ask
from evalkit.hashing import text_digest
from evalkit.protocols import Evaluator
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Unit


class Draw:
    """So many asks, each with a content key of its own, every choice of them being as likely as any other.

    They are those whose prompts have the smallest hashes: every judge is asked the same ones, plans of the same
    requests draw the same in whatever order they come, and what was drawn once is stored when it is drawn again.

    Args:
        most: how many to draw; all, where there are fewer.
        seed: draws others.
    """

    def __init__(self, most: int, seed: int = 0) -> None:
        self._most, self._seed = most, seed
        self._drawn: list[tuple[int, str]] = []
        self._asks: dict[str, Ask] = {}

    def offer(self, asks: Iterable[Ask]) -> None:
        """Take asks into account."""
        for ask in asks:
            self._offer(ask)

    def _offer(self, ask: Ask) -> None:
        if ask.key in self._asks:
            return
        entry = (-self._rank(ask.request), ask.key)
        self._asks[ask.key] = ask
        if len(self._drawn) < self._most:
            heappush(self._drawn, entry)
        else:
            del self._asks[heappushpop(self._drawn, entry)[1]]

    def _rank(self, request: JudgeRequest) -> int:
        texts = (message["content"] for message in request.messages)
        return int(text_digest("\0".join([f"{self._seed} {request.sample}", *texts])), 16)

    @property
    def asks(self) -> Sequence[Ask]:
        """Those that are drawn, in the order of the plan."""
        return sorted(self._asks.values(), key=lambda ask: ask.position)

    @property
    def cases(self) -> Sequence[Case]:
        """The cases that they are of, each once."""
        return list({ask.group.case.id: ask.group.case for ask in self.asks}.values())


class Only:
    """An evaluator that asks only what was drawn, and nothing after it."""

    def __init__(self, inner: Evaluator, draw: Draw) -> None:
        self._inner = inner
        self._wanted = {_place(ask.request) for ask in draw.asks}

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return those asks of the inner evaluator that were drawn."""
        return [request for request in self._inner.plan(case) if _place(request) in self._wanted]

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return what the inner evaluator reads."""
        return self._inner.read(request, completion)


def _place(request: JudgeRequest) -> tuple[str, Unit, Unit, int]:
    return request.case_id, request.unit, request.shown, request.sample
