"""What a run would ask, without asking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappush, heappushpop

from evalkit.core.hash_set import HashSet, find_new
from evalkit.core.hashing import text_digest
from evalkit.engine.requests import PlannedCall, PlannedCalls, call_key
from evalkit.engine.token_estimates import Kind, prompt_tokens, response_tokens
from evalkit.protocols import CompletionCache, Evaluator
from evalkit.types import Case, Completion, JudgeRequest, JudgeSpec, Judgment, Unit


class PilotSample:
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
        self._asks: dict[str, PlannedCall] = {}

    def offer(self, asks: Iterable[PlannedCall]) -> None:
        """Take asks into account."""
        for ask in asks:
            self._offer(ask)

    def _offer(self, ask: PlannedCall) -> None:
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
    def asks(self) -> Sequence[PlannedCall]:
        """Those that are drawn, in the order of the plan."""
        return sorted(self._asks.values(), key=lambda ask: ask.position)

    @property
    def cases(self) -> Sequence[Case]:
        """The cases that they are of, each once."""
        return list({ask.group.case.id: ask.group.case for ask in self.asks}.values())


class SubsetEvaluator:
    """An evaluator that asks only what was drawn, and nothing after it."""

    def __init__(self, inner: Evaluator, draw: PilotSample) -> None:
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


_KEY, _HALF = 16, 2**63  # 64 bits of a key tell a hundred million requests apart
_OWN = "an answer of the judge's own"
UNKNOWN = Completion("?" * 1000)
"""Stands for an answer that is yet to be given where a further ask is made of it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would ask: `requests` in all, `stored` of them answered, and the others in `to_send`.

    There each stands as 64 bits that are its own, with the approximate tokens of its prompt: by these the plans of
    several runs are added up. `unique` calls are to be sent, since equal requests share one, with `prompt_tokens`
    in all. `kinds` tells the formats of the answers, and what those that are stored came to. `told` is what the
    prompts of these had by the provider's count, as a multiple of what they have by their characters.
    """

    requests: int = 0
    stored: int = 0
    unique: int = 0
    prompt_tokens: int = 0
    to_send: HashSet = field(default_factory=HashSet)
    kinds: tuple[Kind, ...] = ()
    told: float = 1.0

    def after(self, others: Sequence[Plan]) -> Plan:
        """Return this plan without what is sent for `others` anyway."""
        unique, tokens = find_new(self.to_send, [other.to_send for other in others])
        return replace(self, unique=unique, prompt_tokens=round(tokens * self.told))


def plan(
    cases: Iterable[Case],
    evaluator: Evaluator,
    specs: Sequence[JudgeSpec],
    store: CompletionCache | None,
    draw: PilotSample | None = None,
) -> Plan:
    """Return what judging `cases` would ask of the judges `specs`, given what is stored; `draw` is offered every ask.

    Asks that are prepared for by others are counted; re-asks and what follows from judgments cannot be foreseen.
    """
    asks = PlannedCalls(cases, evaluator, specs, store)
    requests = stored = counted = told = 0
    to_send, kinds = HashSet(), dict[str | None, Kind]()
    while batch := asks.batch():
        if draw is not None:
            draw.offer(batch)
        for step in (step for ask in batch for step in _steps(ask, evaluator, specs, store)):
            requests += 1
            answer, tokens = step.request.answer, prompt_tokens(step.request)
            own = step.request.then is not None
            kind = kinds.setdefault(_OWN if own else answer.name if answer else None, Kind(answer))
            if step.found is None:
                kind.wanted += 1
                kind.likely += response_tokens(step.group.case) if own else 0.0
                to_send.add(int(step.key[:_KEY], 16) - _HALF, tokens)
                continue
            stored += 1
            kind.add(step.found)
            if step.found.usage.prompt_tokens is not None:
                counted += tokens
                told += step.found.usage.prompt_tokens
    known = told / counted if told and counted else 1.0
    return Plan(requests, stored, 0, 0, to_send, tuple(kinds.values()), known).after(())


def _steps(
    ask: PlannedCall, evaluator: Evaluator, specs: Sequence[JudgeSpec], store: CompletionCache | None
) -> Iterator[PlannedCall]:
    """Yield an ask and those it prepares for; a key that hangs on an answer yet to come is one for equal asks only."""
    yield ask
    if ask.request.then is None:
        return
    read = evaluator.read(ask.request, ask.found or UNKNOWN)
    if isinstance(read, JudgeRequest) and read.then != ask.request.then:
        key = call_key(specs[ask.judge], read)
        found = store.get_many([key]).get(key) if store is not None and ask.found else None
        yield from _steps(replace(ask, request=read, key=key, found=found), evaluator, specs, store)
