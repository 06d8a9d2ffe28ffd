"""Store the answers in a batch's output files.

Everything in them is hostile: a bad line is counted, never stored.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from evalkit.config import Price
from evalkit.core.atomic_files import file_errors
from evalkit.core.errors import CallError
from evalkit.core.hashing import is_content_key
from evalkit.core.protocols import Store
from evalkit.core.regular_files import open_file
from evalkit.core.types import Completion, Rung, StoredCompletion
from evalkit.core.values import Json
from evalkit.engine.answered_judge import Outcome
from evalkit.engine.batch.requests import BatchTarget, RequestIndex
from evalkit.engine.progress import RunCounts
from evalkit.judges.completions import check_logprobs, completion_of, priced, sane
from evalkit.judges.error_mapping import clean_message
from evalkit.judges.model_judge import ended_answer
from evalkit.judges.pricing import listed_cost
from evalkit.judges.responses import answer_in_line

_AT_ONCE = 500
_BYTES_AT_ONCE = 16 * 2**20
_AROUND = 2**16
"""Bytes that a line may have besides the largest answer."""


class _FaultError(Exception):
    """A line without an answer to store.

    Args:
        problem: What is wrong with it, as words after `3 lines`.
        detail: The provider's message.
        number: The number of the file that its request is in, if it has one.
        outcome: What the request came to, with its key.
    """

    def __init__(
        self,
        problem: str,
        detail: str = "",
        number: int | None = None,
        outcome: tuple[str, Outcome] | None = None,
    ) -> None:
        self.what, self.detail, self.number, self.outcome = (
            problem,
            detail,
            number,
            outcome,
        )
        super().__init__(problem)


@dataclass(slots=True)
class ReadReport:
    """What was read.

    Attributes:
        stored: The answers that are stored now and were not before.
        known: The answers to requests with a stored answer, which is kept.
        faults: The lines without an answer to store, by what is wrong with them.
        examples: The first of these lines, with its file and number, by the same names.
        files: The numbers of the files of requests with an answer or an error.
        outcomes: The failures and refusals by content key.
        paid: The tokens and the cost of answers.
    """

    stored: int = 0
    known: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    files: set[int] = field(default_factory=set)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    paid: RunCounts = field(default_factory=RunCounts)

    def add_fault(self, fault: _FaultError, location: str) -> None:
        """Count a line without an answer to store; the first of its kind is the example."""
        self.faults[fault.what] += 1
        example = f"{location}: {fault.detail}" if fault.detail else location
        self.examples.setdefault(fault.what, example)
        if fault.number is not None:
            self.files.add(fault.number)
        if fault.outcome is not None:
            key, outcome = fault.outcome
            self.outcomes[key] = outcome


def read_answers(
    paths: Iterable[Path], index: RequestIndex, store: Store
) -> ReadReport:
    """Store the answers in `paths` to requests in the index, under their content keys;
    return what was read.

    A stored answer is never replaced, so files can be read in any order, and again.

    Raises:
        ConfigError: If a file cannot be read; answers in the others before it are stored.
        StoreError: If the store fails.
    """
    report = ReadReport()
    # A bound on each line: one endless line would fill the memory.
    longest = max(file.target.max_answer_bytes for _, file in index.files) + _AROUND
    weighable: set[int] = set()
    batch: list[StoredCompletion] = []
    size = 0
    for path in paths:
        for location, line in _lines(path, longest):
            try:
                number, stored = _read_line(line, index, weighable)
            except _FaultError as fault:
                report.add_fault(fault, location)
                continue
            report.files.add(number)
            report.paid.count_paid(stored.completion)
            batch.append(stored)
            size += len(line or b"")
            # Few large writes, with a bound on the memory that waiting answers take.
            if len(batch) == _AT_ONCE or size > _BYTES_AT_ONCE:
                _store_batch(batch, store, report)
                size = 0
        _store_batch(batch, store, report)
        size = 0
    return report


def _store_batch(
    batch: list[StoredCompletion], store: Store, report: ReadReport
) -> None:
    """Store some answers, count the new and the known ones in the report, and empty the list."""
    added = 0
    if batch:
        # Of several answers to one request, the first one wins: later entries replace earlier
        # ones, so the order is reversed.
        first_by_key = {completion.key: completion for completion in reversed(batch)}
        added = store.add_many(list(first_by_key.values()))
    report.stored += added
    report.known += len(batch) - added
    batch.clear()


def _lines(path: Path, longest: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield each line that is not blank as `file:line` and its bytes, or `None` for a line that
    is too long.

    Args:
        path: A batch's output file.
        longest: The most bytes of a line, with its end.
    """
    number = 0
    with file_errors("cannot be read", path), open_file(path) as file:
        while line := file.readline(longest):
            number += 1
            # `readline` stopped at the bound: skip the rest of this line in pieces, and keep the
            # number.
            if len(line) == longest and not line.endswith(b"\n"):
                while (skipped := file.readline(longest)) and not skipped.endswith(
                    b"\n"
                ):
                    pass
                yield f"{path}:{number}", None
            elif line.strip():
                yield f"{path}:{number}", line


def _read_line(
    line: bytes | None, index: RequestIndex, weighable: set[int]
) -> tuple[int, StoredCompletion]:
    """Return the number of the request file that a line answers, and the answer to store.

    Args:
        line: A line of an output file; `None` if it was too long.
        index: Where each request is, by its content key.
        weighable: The numbers of the request files whose answers had usable log-probabilities;
            one is added when its first one is seen.

    Raises:
        _FaultError: If there is no answer to store.
    """
    if line is None:
        raise _FaultError("longer than judge.max_answer_bytes")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise _FaultError("not JSON") from None
    key = row.get("custom_id") if isinstance(row, Mapping) else None
    # Files of other programs have ids of their own; such a line is not ours.
    if not is_content_key(key):
        raise _FaultError("without the custom_id of a request of evalkit")
    if key not in index:
        raise _FaultError("to requests that are in no index")
    number, rung = index[key]
    target = index.files[number][1].target
    try:
        completion = _completion_of_line(row, target, rung, number, weighable)
    except CallError as error:
        # Some errors are the end of an answer, such as a content filter: they are final.
        outcome: Outcome = ended_answer(error, rung) or error
        if outcome is error and row.get("error") and not row.get("response"):
            # the batch did not send it: it expired, for example
            outcome = CallError(error.kind, error.message, retryable=True)
        raise _FaultError(
            f"failed ({error.kind})",
            clean_message(error.message),
            number,
            (key, outcome),
        ) from None
    if completion.refusal is not None:
        raise _FaultError(
            "refused by the model",
            clean_message(completion.refusal),
            number,
            (key, completion),
        )
    return number, StoredCompletion(key, target.model, time.time(), completion)


def _completion_of_line(
    row: Json, target: BatchTarget, rung: Rung, number: int, weighable: set[int]
) -> Completion:
    """Return the completion in a line, as if it had been sent as a single call.

    Its latency is 0, because a batch does not report one. Its price is that of the provider's
    batches; a server with another address has only the price of the config.

    Args:
        row: The parsed line.
        target: The judge's model, server and price.
        rung: The format of the answer that was requested.
        number: The number of the request file.
        weighable: The numbers of the files with usable log-probabilities; `number` may be added.

    Raises:
        CallError: If the line has no completion.
    """
    answer = answer_in_line(row)
    # Whether a file's answers can be weighed is known from its first usable one.
    if target.logprobs:
        weighable |= (
            {number} if check_logprobs(answer, weighable=number in weighable) else set()
        )
    models = (answer.model, target.name)
    # The list has the provider's own prices; another server may charge anything.
    if target.api_base:
        cost = None
    else:
        cost = listed_cost(
            target.provider, models, answer.usage, answer.cached, batch=True
        )
    if target.price is None:
        price = None
    else:
        price = Price(input=target.price[0], output=target.price[1])
    named = replace(answer, model=answer.model or target.name)
    return sane(priced(completion_of(named, rung=rung, latency=0.0), cost, price))
