"""From cases to asks, lazily: each request with its judge, its content key, and its stored answer if there is one."""

from __future__ import annotations

import time
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from evalkit.core.hashing import canonical_json, content_key
from evalkit.core.spool import Spool
from evalkit.protocols import CompletionCache, Evaluator
from evalkit.types import AnswerFormat, Case, Completion, Failure, JudgeRequest, JudgeSpec, Judgment, Unit

BATCH = 64
COUNTING_SECONDS = 2.0
_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class CallGroup:
    """The asks of one unit of a case to one judge: `positions` are their places in the run."""

    case: Case
    judge: int
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One request. `position` is its place in the run, `judge` the index of the judge asked.

    `after` is 0 for a planned ask; those that follow from a whole group stand behind its last, numbered from 1.
    """

    position: int
    judge: int
    request: JudgeRequest
    key: str
    group: CallGroup
    found: Completion | None = None
    after: int = 0


def call_key(spec: JudgeSpec, request: JudgeRequest) -> str:
    """Return the content key of putting `request` to a judge."""
    return content_key(
        model=spec.model,
        api_base=spec.api_base,
        messages=[(message["role"], message["content"]) for message in request.messages],
        params=spec.params,
        answer=encoded(request.answer),
        sample=0 if request.shared else request.sample,
    )


_ENCODED: list[tuple[AnswerFormat | None, bytes]] = [(None, b"null")]


def encoded(answer: AnswerFormat | None) -> bytes:
    """Return an answer's format as canonical JSON; the last few are remembered, as the objects they are."""
    for known, encoded in _ENCODED:
        if known is answer:
            return encoded
    assert answer is not None  # null is known
    encoded = canonical_json({"name": answer.name, "schema": dict(answer.schema)})
    _ENCODED.insert(1, (answer, encoded))
    del _ENCODED[_REMEMBERED:]
    return encoded


class PlannedCalls:
    """The asks of a run, read from its cases in batches; each batch is looked up in the store at once."""

    def __init__(
        self, cases: Iterable[Case], evaluator: Evaluator, specs: Sequence[JudgeSpec], store: CompletionCache | None
    ) -> None:
        self._evaluator, self._specs, self._store = evaluator, specs, store
        self._size = len(cases) if isinstance(cases, Sequence) else None
        self._cases_read = self._asked = self._planned = 0
        self._exhausted = False
        self._cases = iter(cases)
        self._asks = self._plan(self._cases)

    def batch(self) -> list[PlannedCall]:
        """Return the next asks, or an empty list when there are no more."""
        asks = list(islice(self._asks, BATCH))
        self._asked += len(asks)
        self._exhausted = self._exhausted or len(asks) < BATCH
        if self._store is None or not asks:
            return asks
        found = self._store.get_many(list({ask.key for ask in asks}))
        return [replace(ask, found=found[ask.key]) if ask.key in found else ask for ask in asks]

    @property
    def total(self) -> int | None:
        """How many asks there are in all: exact when every case is read, else estimated, or none."""
        if self._exhausted:
            return self._asked
        if self._size is None or not self._cases_read:
            return None
        return max(self._asked, round(self._asked / self._cases_read * self._size))

    def whole(self, seconds: float = COUNTING_SECONDS) -> int | None:
        """Return how many asks there are in all, planning the rest; `None` if that takes too long. No batch follows."""
        until = time.monotonic() + seconds
        for case in self._cases:
            self._planned += len(self._evaluator.plan(case)) * len(self._specs)
            if time.monotonic() > until:
                return None
        return self._planned

    def _plan(self, cases: Iterable[Case]) -> Iterator[PlannedCall]:
        position = 0
        for case in cases:
            self._cases_read += 1
            planned = self._evaluator.plan(case)
            self._planned += len(planned) * len(self._specs)
            for index, spec in enumerate(self._specs):
                groups = _groups(case, index, planned, position)
                for request in planned:
                    named = replace(request, judge=spec.name)
                    yield PlannedCall(position, index, named, call_key(spec, request), groups[request.unit])
                    position += 1


def _groups(case: Case, judge: int, planned: Sequence[JudgeRequest], start: int) -> Mapping[Unit, CallGroup]:
    positions: defaultdict[Unit, list[int]] = defaultdict(list)
    for position, request in enumerate(planned, start):
        positions[request.unit].append(position)
    return {unit: CallGroup(case, judge, tuple(places)) for unit, places in positions.items()}


MOST_AFTER = 2**20
"""More judgments than this never follow from one unit."""


class JudgmentCollector:
    """Judgments in whatever order they are finished, each with its place in the run."""

    def __init__(self, folder: Path | None) -> None:
        """Spool to a file in or above `folder`, once they are too many."""
        self._judgments: Spool[Judgment] = Spool(folder=folder)
        self._places = array("q")

    def add(self, ask: PlannedCall, judgment: Judgment) -> None:
        """Take the judgment that an ask came to.

        Raises:
            ConfigError: if it cannot be written.
        """
        self._judgments.append(judgment)
        self._places.append(ask.position * MOST_AFTER + ask.after)

    def in_order(self) -> Sequence[Judgment]:
        """Return them by position, those that follow from a unit behind it."""
        order = sorted(range(len(self._places)), key=self._places.__getitem__)
        return self._judgments.arrange(array("q", order))


class OpenGroups:
    """The judgments of those units of which some are still to come."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, Judgment]] = {}

    def complete(self, ask: PlannedCall, judgment: Judgment) -> list[Judgment] | None:
        """Take a judgment, and return all of its unit in the order planned once it is the last of them, else none."""
        positions = ask.group.positions
        found = self._open.setdefault(positions[0], {})
        found[ask.position] = judgment
        if len(found) < len(positions):
            return None
        del self._open[positions[0]]
        return [found[position] for position in positions]


class CompletedCalls:
    """What requests came to, by content key, for equal ones that come later; a call that was never made is not kept."""

    def __init__(self, folder: Path | None) -> None:
        """Spool to a file in or above `folder`, once answers are too many."""
        self._outcomes: Spool[Completion | Failure] = Spool(folder=folder)
        self._places: dict[bytes, int] = {}

    def keep(self, key: str, outcome: Completion | Failure) -> None:
        """Keep what a request came to.

        Raises:
            ConfigError: if it cannot be written.
        """
        if isinstance(outcome, Completion) or outcome.attempts:
            self._places[bytes.fromhex(key)] = len(self._outcomes)
            self._outcomes.append(outcome)

    def get(self, key: str) -> Completion | Failure | None:
        """Return what an equal request came to, or none."""
        place = self._places.get(bytes.fromhex(key)) if self._places else None
        return None if place is None else self._outcomes[place]
