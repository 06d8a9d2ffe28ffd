"""What a run would ask, without asking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from evalkit.distinct import Hashes, new_among
from evalkit.engine.asking import Ask, Asks, key_of
from evalkit.protocols import Evaluator, Store
from evalkit.types import Case, Completion, JudgeRequest, JudgeSpec

CHARACTERS_PER_TOKEN = 4
_KEY, _HALF = 16, 2**63  # 64 bits of a key tell a hundred million requests apart
UNKNOWN = Completion("?" * 1000)
"""Stands for an answer that is yet to be given where a further ask is made of it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would ask: `requests` in all, `stored` of them answered, and the others in `to_send`.

    There each stands as the beginning of its content key, with the approximate tokens of its prompt: by these the plans
    of several runs are added up. `unique` calls are to be sent, since equal requests share one. The `answers` found
    stored whose tokens are known had `answer_tokens` in all: what the others will take is told by them.
    """

    requests: int = 0
    stored: int = 0
    unique: int = 0
    prompt_tokens: int = 0
    to_send: Hashes = field(default_factory=Hashes)
    answers: int = 0
    answer_tokens: int = 0

    def after(self, others: Sequence[Plan]) -> Plan:
        """Return this plan without what is sent for `others` anyway."""
        unique, tokens = new_among(self.to_send, [other.to_send for other in others])
        return replace(self, unique=unique, prompt_tokens=tokens)


def plan(cases: Iterable[Case], evaluator: Evaluator, specs: Sequence[JudgeSpec], store: Store | None) -> Plan:
    """Return what judging `cases` would ask of the judges `specs`, given what is stored.

    Asks that are prepared for by others are counted; re-asks and what follows from judgments cannot be foreseen.
    """
    asks = Asks(cases, evaluator, specs, store)
    requests = stored = answers = answer_tokens = 0
    to_send = Hashes()
    while batch := asks.batch():
        steps = [step for ask in batch for step in _steps(ask, evaluator, specs, store)]
        requests += len(steps)
        stored += sum(step.found is not None for step in steps)
        for step in steps:
            if step.found is not None and step.found.usage.completion_tokens is not None:
                answers += 1
                answer_tokens += step.found.usage.completion_tokens
            if step.found is None:
                to_send.add(int(step.key[:_KEY], 16) - _HALF, prompt_tokens(step.request))
    unique, tokens = new_among(to_send)
    return Plan(requests, stored, unique, tokens, to_send, answers, answer_tokens)


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
