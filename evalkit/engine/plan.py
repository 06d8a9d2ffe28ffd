"""Plan the requests of a run without sending them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from heapq import nsmallest
from itertools import chain

from evalkit.core.causes import USABLE
from evalkit.core.hashing import text_digest
from evalkit.core.planners import Planners, SelectedRequests
from evalkit.core.protocols import CompletionCache, Evaluator
from evalkit.core.spool import HashSet, find_new
from evalkit.core.types import Case, Completion, JudgeRequest, JudgeSpec, Judgment, Unit
from evalkit.core.values import frozen
from evalkit.engine.answer_estimates import (
    AnswerEstimate,
    prompt_tokens,
    response_tokens,
)
from evalkit.engine.requests import PlannedCall, PlannedCalls, call_key


class PilotSample:
    """A random sample of calls with different content keys; every sample is equally likely.

    It contains the calls whose prompts have the smallest hashes. So every judge gets the same
    prompts, plans of the same requests have the same sample in any order, and a sample that was
    sent once is stored when it is sampled again.

    Args:
        size: The number of calls to sample; all of them if there are fewer.
        seed: A different seed gives a different sample.
    """

    def __init__(self, size: int, seed: int = 0) -> None:
        self._size, self._seed = size, seed
        self._calls: dict[tuple[int, str], PlannedCall] = {}

    def offer(self, calls: Sequence[PlannedCall]) -> None:
        """Consider calls for the sample."""
        offered = {
            # Of calls with equal keys, the first one stays: later entries win in a dictionary, so
            # the order is reversed, and earlier calls are merged last.
            (self._rank(call.request), call.key): call
            for call in reversed(calls)
        } | self._calls
        self._calls = {rank: offered[rank] for rank in nsmallest(self._size, offered)}

    def _rank(self, request: JudgeRequest) -> int:
        texts = (message["content"] for message in request.messages)
        return int(
            text_digest("\0".join([f"{self._seed} {request.sample}", *texts])), 16
        )

    @property
    def calls(self) -> Sequence[PlannedCall]:
        """The sampled calls, in the order of the plan."""
        return sorted(self._calls.values(), key=lambda call: call.position)

    @property
    def cases(self) -> Sequence[Case]:
        """The cases of the sampled calls, without duplicates."""
        return list(
            {call.group.case.id: call.group.case for call in self.calls}.values()
        )


class SubsetEvaluator(SelectedRequests):
    """Plans only the sampled requests of another evaluator, without follow-up requests."""

    def __init__(self, inner: Evaluator, sample: PilotSample) -> None:
        sampled = {_identity(call.request) for call in sample.calls}
        super().__init__(inner, lambda _, request: _identity(request) in sampled)


def _identity(request: JudgeRequest) -> tuple[str, Unit, Unit, int, tuple[str, ...]]:
    return request.case_id, request.unit, request.shown, request.sample, request.items


# 64 bits of a key distinguish a hundred million requests
_KEY = 16
_HALF = 2**63
_OWN = "the judge's own answer"
_MOST_TURNS = 3
UNKNOWN = Completion("?" * 1000)
"""Placeholder for an answer that a later request depends on."""


@frozen
class Plan:
    """The requests of a run.

    Attributes:
        requests: All requests.
        stored: The requests with a stored answer.
        unique: The calls to send; equal requests share one.
        prompt_tokens: The estimated prompt tokens of these calls.
        to_send: The other requests as 64 bits of their content keys, with the estimated tokens of
            their prompts. The plans of several runs are added up by these.
        kinds: The formats of the answers, with the lengths of the stored ones.
        token_ratio: The prompt tokens of stored answers as counted by the provider, relative to the
            estimate.
    """

    requests: int = 0
    stored: int = 0
    unique: int = 0
    prompt_tokens: int = 0
    to_send: HashSet = field(default_factory=HashSet)
    kinds: tuple[AnswerEstimate, ...] = ()
    token_ratio: float = 1.0

    def after(self, earlier_plans: Sequence[Plan]) -> Plan:
        """Return this plan without the calls that `earlier_plans` send anyway."""
        unique, tokens = find_new(
            self.to_send, [earlier_plan.to_send for earlier_plan in earlier_plans]
        )
        return replace(
            self, unique=unique, prompt_tokens=round(tokens * self.token_ratio)
        )


def plan(
    cases: Iterable[Case],
    evaluator: Evaluator,
    specs: Sequence[JudgeSpec],
    store: CompletionCache | None,
    sample: PilotSample | None = None,
    *,
    again: bool = False,
) -> Plan:
    """Plan the judging of `cases`.

    Requests that need the answer of another request are counted. Repeated requests and follow-up
    requests cannot be predicted.

    Args:
        cases: The cases to judge.
        evaluator: Plans the requests.
        specs: The judges.
        store: Where answers are looked up; `None` for no store.
        sample: Considers every call for a sample.
        again: Whether stored answers that cannot be used are requested again.
    """
    planners = Planners(evaluator, (spec.name for spec in specs))
    calls = PlannedCalls(cases, planners, specs, store)
    requests = stored = counted = reported = 0
    to_send = HashSet()
    kinds = dict[str | None, AnswerEstimate]()
    while batch := calls.batch():
        if sample is not None:
            sample.offer(batch)
        for step in chain.from_iterable(
            _calls_needed(call, evaluator, specs, store, again=again) for call in batch
        ):
            requests += 1
            answer = step.request.answer
            tokens = prompt_tokens(step.request)
            name = None if answer is None else answer.name
            # The judge's own answer is a free text, about as long as the responses.
            is_free_text = step.request.shared
            if is_free_text:
                name = _OWN
            # Answers of one format are about as long as each other, so lengths are estimated by
            # format.
            kind = kinds.get(name) or kinds.setdefault(name, AnswerEstimate(answer))
            if step.stored is None:
                kind.to_request += 1
                kind.likely += response_tokens(step.group.case) if is_free_text else 0.0
                # Shifted by half the range: the set holds signed 64-bit integers.
                to_send.add(int(step.key[:_KEY], 16) - _HALF, tokens)
                continue
            stored += 1
            kind.add(step.stored)
            if step.stored.usage.prompt_tokens is not None:
                counted += tokens
                reported += step.stored.usage.prompt_tokens
    # How the provider counts, over prompts of which both counts are known.
    ratio = reported / counted if reported and counted else 1.0
    return Plan(
        requests=requests,
        stored=stored,
        unique=0,
        prompt_tokens=0,
        to_send=to_send,
        kinds=tuple(kinds.values()),
        token_ratio=ratio,
    ).after(())


def _calls_needed(
    call: PlannedCall,
    evaluator: Evaluator,
    specs: Sequence[JudgeSpec],
    store: CompletionCache | None,
    *,
    again: bool,
) -> Sequence[PlannedCall]:
    """Return the calls that a call needs.

    With `again`, a stored answer that cannot be used is not counted.
    """
    steps = _steps_of_call(call, evaluator, specs, store)
    last = steps[-1]
    # A chain with a missing answer is asked from there on anyway.
    if not again or last.stored is None or any(step.stored is None for step in steps):
        return steps
    read = evaluator.read(last.request, last.stored)
    for _ in range(_MOST_TURNS):
        if isinstance(read, Judgment):
            break
        # The stored answer made the evaluator ask once more.
        key = call_key(specs[last.judge], read)
        answer = store.get_many([key]).get(key) if store is not None else None
        if answer is None:
            return [*steps, replace(last, request=read, key=key, stored=None)]
        read = evaluator.read(read, answer)
    if isinstance(read, Judgment) and read.status in USABLE:
        return steps
    # The stored answer cannot be used, so the run asks the whole chain again.
    return [replace(step, stored=None) for step in steps]


def _steps_of_call(
    call: PlannedCall,
    evaluator: Evaluator,
    specs: Sequence[JudgeSpec],
    store: CompletionCache | None,
) -> Sequence[PlannedCall]:
    """Return a call and the calls that need its answer.

    Without that answer, the keys of the latter only identify equal calls.
    """
    if call.request.then is None:
        return (call,)
    read = evaluator.read(call.request, call.stored or UNKNOWN)
    # An evaluator that asks the same once more is not a next step; it would never end.
    if not isinstance(read, JudgeRequest) or read.then == call.request.then:
        return (call,)
    key = call_key(specs[call.judge], read)
    if store is not None and call.stored:
        answer = store.get_many([key]).get(key)
    else:
        answer = None
    return (
        call,
        *_steps_of_call(
            replace(call, request=read, key=key, stored=answer), evaluator, specs, store
        ),
    )
