"""What a run would ask, without asking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evalkit.engine.asking import Ask, Asks, key_of
from evalkit.protocols import Evaluator, Store
from evalkit.types import Case, Completion, JudgeRequest, JudgeSpec

CHARACTERS_PER_TOKEN = 4
UNKNOWN = Completion("?" * 1000)
"""Stands for an answer that is yet to be given where a further ask is made of it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would ask: `requests` in all, `stored` of them answered, and of the others each key with its tokens.

    `to_send` maps content key to the approximate tokens of the prompt: plans of several runs are added up by key.
    """

    requests: int = 0
    stored: int = 0
    to_send: Mapping[str, int] = field(default_factory=dict)

    @property
    def unique(self) -> int:
        """How many calls are to be sent; equal requests share one."""
        return len(self.to_send)

    @property
    def prompt_tokens(self) -> int:
        """About how many tokens the prompts to be sent have."""
        return sum(self.to_send.values())

    def __add__(self, other: Plan) -> Plan:
        return Plan(self.requests + other.requests, self.stored + other.stored, {**self.to_send, **other.to_send})


def plan(cases: Iterable[Case], evaluator: Evaluator, specs: Sequence[JudgeSpec], store: Store | None) -> Plan:
    """Return what judging `cases` would ask of the judges `specs`, given what is stored.

    Asks that are prepared for by others are counted; re-asks and what follows from judgments cannot be foreseen.
    """
    asks = Asks(cases, evaluator, specs, store)
    requests = stored = 0
    to_send: dict[str, int] = {}
    while batch := asks.batch():
        steps = [step for ask in batch for step in _steps(ask, evaluator, specs, store)]
        requests += len(steps)
        stored += sum(step.found is not None for step in steps)
        to_send |= {step.key: prompt_tokens(step.request) for step in steps if step.found is None}
    return Plan(requests, stored, to_send)


def _steps(ask: Ask, evaluator: Evaluator, specs: Sequence[JudgeSpec], store: Store | None) -> Iterator[Ask]:
    """Yield an ask and those it prepares for; a key that hangs on an answer yet to come is one for equal asks only."""
    yield ask
    if ask.request.then is None:
        return
    read = evaluator.read(ask.request, ask.found or UNKNOWN)
    if isinstance(read, JudgeRequest) and read.then != ask.request.then:
        key = key_of(specs[ask.judge], read)
        found = store.get_many([key]).get(key) if store is not None and ask.found else None
        yield from _steps(replace(ask, request=read, key=key, found=found), evaluator, specs, store)


def prompt_tokens(request: JudgeRequest) -> int:
    """Return about how many tokens a request's messages have, at four characters a token."""
    characters = sum(len(message["content"]) for message in request.messages)
    return -(-characters // CHARACTERS_PER_TOKEN)
