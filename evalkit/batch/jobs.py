"""Judge through a provider's batch API: submit the requests of a round, wait, and collect, until nothing is missing.

Each batch is a text in the store's shared state, written before the batch is created and removed
after its answers are stored. A command that ends at any point is repeated, and goes on with these
batches.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict, replace
from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import Any
from uuid import uuid4

from evalkit.batch.answers import read_answers
from evalkit.batch.requests import (
    AnsweredJudge,
    BatchRequest,
    BatchTarget,
    Outcome,
    RequestFile,
    RequestIndex,
    Round,
    codec,
    reason_against,
    record_round,
    write_round,
)
from evalkit.config import RunConfig
from evalkit.core.hashing import is_content_key
from evalkit.engine import JudgingResult, Progress
from evalkit.engine.budget import require_known
from evalkit.engine.event_loop import on_interrupt
from evalkit.engine.progress import Spend, Tally, add
from evalkit.errors import CallError, ConfigError, StoreError, pasted
from evalkit.judges.batch_api import BatchApi, BatchStatus
from evalkit.protocols import ClaimChecker, Evaluator, Judge, Store
from evalkit.results import Calls, Spent
from evalkit.store import shared_state
from evalkit.types import Case, Rung
from evalkit.values import frozen

_NAMES, _LOCK, _LOCK_SECONDS = "batch/", "batches", 0.2
_DAY = 86_400.0
_KEPT_DAYS = 30
"""Days after which a batch that its provider does not know is forgotten; until then, the key may be
the wrong one."""
_FORGOTTEN = "forgotten by the provider"
_log = logging.getLogger("evalkit.batch")


@frozen
class PendingBatch:
    """A batch whose answers are not stored: its requests, the most it can cost, and its id once it has one."""

    file: RequestFile
    rungs: dict[str, Rung]
    created: float
    reserved: float
    batch: str | None = None


class BatchRun:
    """The batches of one run; `observe` is called after each look at them, `spent` is shared with other runs.

    Raises:
        ConfigError: If the store cannot be used for batches.
    """

    def __init__(
        self,
        config: RunConfig,
        cases: Iterable[Case],
        evaluator: Evaluator,
        store: Store | None,
        observe: Callable[[Progress], None] | None,
        spent: Spent | None,
    ) -> None:
        if config.store.mode != "read_write":
            what = f"with '{config.store.mode}' answers of batches would be lost"
            raise ConfigError(
                what, where="store.mode", remedy="set store.mode=read_write"
            )
        if store is None or (state := shared_state(store)) is None:
            raise ConfigError(
                "this store cannot keep batches",
                where="store.url",
                remedy="use SQLite or PostgreSQL",
            )
        self._config, self._cases, self._evaluator, self._observe = (
            config,
            cases,
            evaluator,
            observe,
        )
        self._store = store
        self._state = state
        self._spent = spent or Spent()
        members = [
            *config.judge.members,
            *([config.swap.arbiter] if config.swap.arbiter else []),
        ]
        self._apis = {
            (one.model, one.api_base): BatchApi(one, config.runner.timeout)
            for one in members
        }
        self._outcomes: dict[str, Outcome] = {}
        self._attempts: Counter[str] = Counter()
        self._tally = Tally()
        self._stopped: str | None = None
        self._skips = False
        self._waiting: dict[str, PendingBatch] = {}

    async def collect(self) -> JudgingResult | None:
        """Submit, wait and collect until nothing can be sent; return the result of a run that a signal stopped.

        Raises:
            ConfigError: If a batch cannot be submitted, or failed as a whole.
            StoreError: If the store fails.
        """
        signals: list[int] = []
        task: Any = asyncio.current_task()

        def stop(number: int) -> None:
            signals.append(number)
            task.cancel()

        try:
            with on_interrupt(stop):
                while await self._submit_round(signals):
                    await self._wait()
        except asyncio.CancelledError:
            if not signals:
                raise
            requests = sum(len(one.rungs) for one in self._waiting.values())
            count = len(self._waiting)
            sent = f"{requests:,} requests are in {count} batch{'es' * (count != 1)} at the provider"
            text = f"{sent if count else 'what was submitted is kept'}; repeat the command to go on"
            return JudgingResult(
                (),
                Spend(cost_usd=None),
                interrupted=True,
                stopped=text,
                signal=signals[0],
            )
        return None

    def judge(self, one: Judge) -> Judge:
        """Return the judge to score with: one that calls nobody, if its requests were batched."""
        return one if reason_against(one) else AnsweredJudge(one.spec, self._outcomes)

    @property
    def spent(self) -> Spent:
        """What the judges that were not batched must leave of the budget."""
        return self._spent if self._skips else Spent()

    def counted(self, judged: JudgingResult) -> JudgingResult:
        """Return a result in which the answers of these batches count as sent and paid for."""
        sent = min(self._tally.sent, judged.calls.stored)
        calls = Calls(stored=-sent, sent=sent, retried=self._tally.retried)
        spend = add(judged.spend, replace(self._tally.spend, calls=calls))
        return replace(judged, spend=spend, stopped=judged.stopped or self._stopped)

    async def _submit_round(self, signals: list[int]) -> bool:
        """Submit the requests that are missing and in no batch, and return whether there are batches to wait for."""
        while not await asyncio.to_thread(
            self._store.claim, _LOCK
        ):  # another command is submitting
            await asyncio.sleep(_LOCK_SECONDS)
        try:
            pending = {tag: one async for tag, one in self._pending()}
            found = Round()
            judged = await record_round(
                self._config, self._cases, self._evaluator, self._store, found
            )
            if judged.interrupted:
                signals.append(judged.signal or 2)
                raise asyncio.CancelledError
            self._skips = bool(found.skipped)
            if found.skipped and not found.batched:
                name, reason = next(iter(found.skipped.items()))
                raise ConfigError(
                    f"judge {name} cannot be batched: {reason}",
                    remedy="set runner=default",
                )
            places = {key: tag for tag, one in pending.items() for key in one.rungs}
            missing = [one for one in found.requests if not self._is_final(one.key)]
            self._waiting = {
                tag: pending[tag]
                for tag in {places[one.key] for one in missing if one.key in places}
            }
            found.requests = self._affordable(
                [one for one in missing if one.key not in places]
            )
            if found.requests:
                await self._submit(found)
            return bool(self._waiting)
        finally:
            await asyncio.to_thread(self._store.release, _LOCK)

    def _is_final(self, key: str) -> bool:
        """Return whether a request without a stored answer is not sent again."""
        outcome = self._outcomes.get(key)
        if isinstance(outcome, CallError):
            return (
                not outcome.retryable
                or self._attempts[key] > self._config.runner.retries
            )
        return outcome is not None

    def _affordable(self, requests: list[BatchRequest]) -> list[BatchRequest]:
        """Return the first requests that the budget covers, at the most that each can cost."""
        runner = self._config.runner
        count = len(requests)
        if (
            runner.budget_calls is not None
            and runner.budget_calls - self._spent.calls < count
        ):
            count = max(0, runner.budget_calls - self._spent.calls)
            reason = f"budget_calls={runner.budget_calls}"
        if runner.budget_usd is not None:
            taken = self._spent.usd + sum(
                one.reserved for one in self._waiting.values()
            )
            for place, one in enumerate(requests[:count]):
                if (taken := taken + require_known(one.ceiling)) > runner.budget_usd:
                    count = place
                    reason = f"budget_usd={runner.budget_usd:g}"
                    break
        if requests and not count and not self._waiting:
            self._stopped = f"runner.{reason} is reached"
            self._outcomes |= {
                one.key: CallError("budget", self._stopped, retryable=False)
                for one in requests
            }
        return requests[:count]

    async def _submit(self, found: Round) -> None:
        for target in {one.target for one in found.requests}:
            await self._api(target)
        with TemporaryDirectory(prefix="evalkit-batch-") as folder:
            path = Path(folder, "requests.jsonl")
            for file, requests in await asyncio.to_thread(
                write_round, path, found, store=None
            ):
                rungs = {one.key: one.rung for one in requests}
                most = sum(one.ceiling or 0.0 for one in requests)
                one = PendingBatch(file, rungs, time(), most)
                tag = uuid4().hex
                await self._save(tag, one)
                try:
                    batch = await (await self._api(file.target)).submit(
                        path.with_name(file.name), tag, self._check_lock
                    )
                except CallError as error:
                    what = f"{file.target.model}: no batch could be created ({error.message})"
                    raise ConfigError(
                        what, remedy="repeat the command; what was submitted is kept"
                    ) from error
                self._waiting[tag] = one = replace(one, batch=batch)
                await self._save(tag, one)
                self._spent.calls += len(rungs)
                self._attempts.update(rungs.keys())
                self._tally.retried += sum(self._attempts[key] > 1 for key in rungs)
                _log.warning(
                    "batch %s: %s requests to %s",
                    batch,
                    f"{len(rungs):,}",
                    file.target.name,
                )

    def _check_lock(self) -> None:
        if isinstance(self._store, ClaimChecker) and not self._store.holds(_LOCK):
            raise StoreError(
                "the store's connection was lost while a batch was submitted; repeat the command"
            )

    async def _pending(self) -> AsyncIterator[tuple[str, PendingBatch]]:
        """Yield each batch by its tag; one that was created without its id being stored is found by its tag."""
        for name, text in (await asyncio.to_thread(self._state.states, _NAMES)).items():
            try:
                one: PendingBatch = codec(PendingBatch).validate_json(text)
                if not all(map(is_content_key, one.rungs)):
                    raise ValueError(name)
            except ValueError:
                what = (
                    f"the store has a damaged batch '{name}'; update evalkit, or use another"
                    " store.url"
                )
                raise StoreError(what) from None
            tag = name.removeprefix(_NAMES)
            target = one.file.target
            if one.batch is None and (target.model, target.api_base) in self._apis:
                one = replace(
                    one,
                    batch=await (await self._api(target)).find(tag, one.created - _DAY),
                )
                await self._save(tag, None if one.batch is None else one)
                if one.batch is None:  # it was never created
                    continue
            yield tag, one

    async def _wait(self) -> None:
        """Wait until every batch has ended, and store its answers."""
        total = sum(len(one.rungs) for one in self._waiting.values())
        while True:
            running = 0
            for tag, one in list(self._waiting.items()):
                status = await self._look(one)
                if status is not None and status.ended:
                    await self._collect(tag, one, status)
                else:
                    running += len(one.rungs) - (0 if status is None else status.done)
            if self._observe is not None:
                self._observe(
                    replace(self._tally, done=total - running, sent=total).progress(
                        total
                    )
                )
            if not self._waiting:
                return
            await asyncio.sleep(self._config.runner.poll)

    async def _look(self, one: PendingBatch) -> BatchStatus | None:
        api = await self._api(one.file.target)
        batch = one.batch or ""
        try:
            return await api.look(batch)
        except CallError as error:
            old = time() - one.created > _KEPT_DAYS * _DAY
            if error.kind == "not_found" and (
                old or batch in self._config.runner.resend
            ):
                return BatchStatus(batch, _FORGOTTEN, True, 0, (), "")
            if not error.retryable:
                raise _blocked(one, error, len(one.rungs)) from error
            _log.warning("batch %s: %s; it is looked up again", batch, error.message)
            return None

    async def _collect(self, tag: str, one: PendingBatch, status: BatchStatus) -> None:
        index = RequestIndex()
        index.add(one.file, one.rungs)
        gone: CallError | None = None
        with TemporaryDirectory(prefix="evalkit-batch-") as folder:
            paths: list[Path] = []
            for file in status.files:
                path = Path(folder, f"{len(paths)}.jsonl")
                try:
                    await (await self._api(one.file.target)).download(file, path)
                    paths.append(path)
                except CallError as error:
                    if error.retryable:
                        _log.warning(
                            "batch %s: %s; it is looked up again",
                            status.id,
                            error.message,
                        )
                        return
                    gone = error
            report = await asyncio.to_thread(read_answers, paths, index, self._store)
        found = await asyncio.to_thread(self._store.get_many, list(one.rungs))
        unknown = len(one.rungs) - len(found.keys() | report.outcomes.keys())
        if gone is not None and status.id not in self._config.runner.resend:
            raise _blocked(one, gone, len(one.rungs) - len(found)) from gone
        lost = CallError(
            "bad_response",
            f"batch {status.id} ({status.status}) has no answer to it",
            retryable=True,
        )
        self._outcomes |= {
            key: report.outcomes.get(key, lost) for key in one.rungs if key not in found
        }
        # What an answer that is not stored cost is not known: it counts as the most that it could.
        unread = sum(
            count
            for what, count in report.faults.items()
            if "bad_resp" in what or "refused" in what
        )
        unread += unknown if gone is not None or status.status == _FORGOTTEN else 0
        cost = report.paid.cost_usd
        most = (
            one.reserved
            if cost is None
            else cost + one.reserved * unread / len(one.rungs)
        )
        self._spent.usd += min(one.reserved, most)
        self._tally.count_paid(report.paid)
        self._tally.sent += report.stored
        await self._save(tag, None)
        del self._waiting[tag]
        if status.status in ("failed", "cancelled"):
            what = f"batch {status.id} {'was ' * (status.status == 'cancelled')}{status.status}"
            remedy = "its answers are stored; repeat the command to submit the rest"
            raise ConfigError(
                what + (f" ({status.error})" if status.error else ""), remedy=remedy
            )

    async def _api(self, target: BatchTarget) -> BatchApi:
        api = self._apis[target.model, target.api_base]
        await api.open()
        return api

    async def _save(self, tag: str, one: PendingBatch | None) -> None:
        text = None if one is None else dumps(asdict(one))
        await asyncio.to_thread(
            self._state.change_state, f"{_NAMES}{tag}", lambda *_: text
        )


def _blocked(batch: PendingBatch, error: CallError, count: int) -> ConfigError:
    """Return the error for a batch whose answers the provider does not have, with what to do about it."""
    resend = pasted("runner.resend", batch.batch or "")
    requests = f"the {count:,} request{'s' * (count > 1)} without an answer"
    remedy = (
        f"use the key and address with which it was submitted, or send {requests} again with"
        f" {resend}"
    )
    return ConfigError(f"batch {batch.batch}: {error.message}", remedy=remedy)
