"""Turn cases into planned calls, lazily: each request with its judge, content key,
stored answer, and tokens.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from evalkit.core.hashing import canonical_json, content_key
from evalkit.core.planners import Planners
from evalkit.core.protocols import CompletionCache, Judge
from evalkit.core.types import (
    AnswerFormat,
    Case,
    Completion,
    JudgeRequest,
    JudgeSpec,
    Unit,
)
from evalkit.core.values import Json, frozen
from evalkit.judges.adaptations import bounded_answer, merged_messages

BATCH = 64
COUNTING_SECONDS = 2.0
_REMEMBERED = 8


@frozen
class CallGroup:
    """The calls of one unit of a case to one judge, by their positions in the run;
    `whole` counts all of the case.
    """

    case: Case
    judge: int
    positions: tuple[int, ...]
    whole: int


@frozen
class PlannedCall:
    """One request to one judge.

    Attributes:
        position: The position in the run.
        judge: The index of the judge.
        request: The request.
        key: The content key.
        group: The calls of the same unit to the same judge.
        stored: The stored answer; `None` if there is none.
        after: 0 for a planned call; follow-up calls of a group are numbered from 1 and come after
            its last call.
    """

    position: int
    judge: int
    request: JudgeRequest
    key: str
    group: CallGroup
    stored: Completion | None = None
    after: int = 0


def call_key(spec: JudgeSpec, request: JudgeRequest) -> str:
    """Return the content key of sending `request` to a judge: the hash of everything that the
    answer depends on.
    """
    messages = request.messages
    if spec.merged:
        messages = merged_messages(messages)
    return content_key(
        model=spec.model,
        api_base=spec.api_base,
        messages=[(message["role"], message["content"]) for message in messages],
        params=encoded(spec.params),
        answer=encoded(bounded_answer(request.answer, spec.longest_string)),
        # A shared request, such as the judge's own solution, is asked once for all samples.
        sample=0 if request.shared else request.sample,
        look=spec.look,
    )


def answer_keys(call: PlannedCall, judge: Judge) -> list[str]:
    """Return the keys under which an answer is stored: by its request as configured and, if that
    differs, as sent.

    A judge that moved the system text into the user message, because the endpoint refuses the
    role, sends what `judge.system=user` sends. A repeated run looks for the request as
    configured, before it knows of the refusal: with one key only it would pay again.
    """
    if not getattr(judge, "moved_system", False):
        return [call.key]
    as_sent = call_key(replace(judge.spec, merged=True), call.request)
    # Each key once, in this order.
    return list(dict.fromkeys((call.key, as_sent)))


def steps_left(request: JudgeRequest) -> int:
    """Return the number of requests that need the answer of this one, one after the other."""
    if request.then is None:
        return 0
    return 1 + steps_left(request.then)


_ENCODED: list[tuple[AnswerFormat | Json | None, bytes]] = [(None, b"null")]


def encoded(value: AnswerFormat | Json | None) -> bytes:
    """Return an answer format or parameters as canonical JSON, `null` for `None`.

    The last few values are cached by identity, so a value must not change after its first use.
    """
    # By identity: one format serves thousands of requests, and hashing it costs more than this
    # look through a few entries.
    for cached, encoded in _ENCODED:
        if cached is value:
            return encoded
    assert value is not None  # null is always cached
    if isinstance(value, AnswerFormat):
        content = {"name": value.name, "schema": dict(value.schema)}
    else:
        content = dict(value)
    encoded = canonical_json(content)
    # Index 0 is `None` forever; the newest comes next, and the oldest falls off the end.
    _ENCODED.insert(1, (value, encoded))
    del _ENCODED[_REMEMBERED:]
    return encoded


class PlannedCalls:
    """The calls of a run, read from its cases in batches; each batch is looked up in
    the store at once.
    """

    def __init__(
        self,
        cases: Iterable[Case],
        planners: Planners,
        specs: Sequence[JudgeSpec],
        store: CompletionCache | None,
    ) -> None:
        self._planners = planners
        self._specs = specs
        self._store = store
        self._size = len(cases) if isinstance(cases, Sequence) else None
        self._cases_read = self._yielded = self._planned = 0
        self._exhausted = False
        self._cases = iter(cases)
        self._calls = self._plan_calls(self._cases)

    def batch(self) -> list[PlannedCall]:
        """Return the next calls, or an empty list at the end."""
        calls = list(islice(self._calls, BATCH))
        self._yielded += len(calls)
        self._exhausted = self._exhausted or len(calls) < BATCH
        if self._store is None or not calls:
            return calls
        # One look-up for each batch: one for each call would be most of the time of a stored run.
        stored = self._store.get_many(list({call.key for call in calls}))
        return [
            replace(call, stored=stored[call.key]) if call.key in stored else call
            for call in calls
        ]

    @property
    def total(self) -> int | None:
        """The number of calls: exact once every case is read, else estimated; `None`
        without an estimate.
        """
        if self._exhausted:
            return self._yielded
        if self._size is None or not self._cases_read:
            return None
        # Calls per case so far, times the number of cases.
        return max(self._yielded, round(self._yielded / self._cases_read * self._size))

    def whole(self, seconds: float = COUNTING_SECONDS) -> int | None:
        """Plan the remaining cases and return the number of calls; `None` if it takes too long.

        Ends the batches.
        """
        until = time.monotonic() + seconds
        for case in self._cases:
            self._planned += self._planners.count([case])
            if time.monotonic() > until:
                return None
        return self._planned

    def _plan_calls(self, cases: Iterable[Case]) -> Iterator[PlannedCall]:
        """Yield the calls of each case: for each judge, the requests as planned."""
        position = 0
        for case in cases:
            self._cases_read += 1
            planned_by_judge = self._planners.plan(case)
            calls_of_case = sum(len(planned) for planned in planned_by_judge)
            self._planned += calls_of_case
            # The order of positions: by case, then by judge, then as planned. Judgments are put
            # back into this order at the end.
            for index, (spec, planned) in enumerate(
                zip(self._specs, planned_by_judge, strict=True)
            ):
                positions = defaultdict[Unit, list[int]](list)
                for number, request in enumerate(planned, position):
                    positions[request.unit].append(number)
                # Positions are known before the calls are: a group names all calls of its unit.
                groups = {
                    unit: CallGroup(case, index, tuple(numbers), calls_of_case)
                    for unit, numbers in positions.items()
                }
                for request in planned:
                    named = replace(request, judge=spec.name)
                    yield PlannedCall(
                        position,
                        index,
                        named,
                        call_key(spec, request),
                        groups[request.unit],
                    )
                    position += 1
