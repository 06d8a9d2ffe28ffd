"""Judge through a provider's batch API: submit the requests of a round, wait, and
collect, until nothing is missing.

Each batch is a text in the store's shared state, written before the batch is created and removed
after its answers are stored. A command that ends at any point is repeated, and goes on with these
batches.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import asdict, replace
from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import Any
from uuid import uuid4

from evalkit.config import RunConfig
from evalkit.core.display import counted
from evalkit.core.errors import CallError, ConfigError, StoreError, pasted
from evalkit.core.hashing import is_content_key
from evalkit.core.protocols import ClaimChecker, Evaluator, Judge, Store
from evalkit.core.types import Case, Rung
from evalkit.core.values import frozen
from evalkit.engine.answered_judge import AnsweredJudge, Outcome
from evalkit.engine.batch.answers import read_answers
from evalkit.engine.batch.requests import (
    BatchRequest,
    BatchTarget,
    RequestFile,
    RequestIndex,
    Round,
    codec,
    reason_against,
    record_round,
    write_round,
)
from evalkit.engine.budget import require_known
from evalkit.engine.event_loop import on_interrupt
from evalkit.engine.progress import JudgingResult, Progress, RunCounts, Spend, add
from evalkit.judges.batch_api import BatchApi, BatchStatus
from evalkit.runs.results import Calls, Spent
from evalkit.store import shared_state

_NAMES, _LOCK, _LOCK_SECONDS = "batch/", "batches", 0.2
_DAY = 86_400.0
_KEPT_DAYS = 30
"""Days after which a batch that its provider does not know is forgotten; until then, the key may be
the wrong one."""
_FORGOTTEN = "forgotten by the provider"
_log = logging.getLogger("evalkit.batch")


@frozen
class PendingBatch:
    """A batch whose answers are not stored: its requests, the most it can cost, and its
    id once it has one.
    """

    file: RequestFile
    rungs: dict[str, Rung]
    created: float
    reserved: float
    batch: str | None = None


class BatchRun:
    """The batches of one run; `observe` is called after each look at them, `spent` is
    shared with other runs.

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
        # The store is the only memory between the commands of one batch.
        if config.store.mode != "read_write":
            problem = f"with '{config.store.mode}' answers of batches would be lost"
            raise ConfigError(
                problem, where="store.mode", remedy="set store.mode=read_write"
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
            (spec.model, spec.api_base): BatchApi(spec, config.runner.timeout)
            for spec in members
        }
        # All by content key: how requests without a stored answer ended, and how often each was
        # sent.
        self._outcomes: dict[str, Outcome] = {}
        self._attempts: Counter[str] = Counter()
        self._tally = RunCounts()
        self._stopped: str | None = None
        self._skips = False
        self._waiting: dict[str, PendingBatch] = {}

    async def collect(self) -> JudgingResult | None:
        """Submit, wait and collect until nothing can be sent; then return `None`.

        A signal ends the waiting: the result then has no judgments, only the reason and the
        signal.

        Raises:
            ConfigError: If a batch cannot be submitted, or failed as a whole.
            StoreError: If the store fails.
        """
        signals: list[int] = []
        task: Any = asyncio.current_task()

        def stop(number: int) -> None:
            signals.append(number)
            # Cancels this task only: the batches go on at the provider and stay in the store.
            task.cancel()

        try:
            with on_interrupt(stop):
                # A round may need the answers of the round before it, such as the steps of a
                # prompt.
                while await self._submit_round(signals):
                    await self._wait_for_batches()
        except asyncio.CancelledError:
            if not signals:
                raise
            requests = sum(len(pending.rungs) for pending in self._waiting.values())
            count = len(self._waiting)
            sent = (
                f"{requests:,} requests are in {count} "
                f"batch{'es' * (count != 1)} at the provider"
            )
            text = f"{sent if count else 'what was submitted is kept'}; repeat the command to go on"
            return JudgingResult(
                (),
                Spend(cost_usd=None),
                interrupted=True,
                stopped=text,
                signal=signals[0],
            )
        return None

    def judge(self, judge: Judge) -> Judge:
        """Return the judge to score with: one that calls nobody, if its requests were batched."""
        if reason_against(judge):
            return judge
        return AnsweredJudge(judge.spec, self._outcomes)

    @property
    def spent(self) -> Spent:
        """What the judges that were not batched must leave of the budget."""
        if self._skips:
            return self._spent
        return Spent()

    def counted(self, judged: JudgingResult) -> JudgingResult:
        """Return a result in which the answers of these batches count as sent and paid for."""
        # Scoring read these answers from the store and counted them as stored. This command has
        # paid for them, so they move from `stored` to `sent`.
        sent = min(self._tally.sent, judged.calls.stored)
        calls = Calls(stored=-sent, sent=sent, retried=self._tally.retried)
        spend = add(judged.spend, replace(self._tally.spend, calls=calls))
        return replace(judged, spend=spend, stopped=judged.stopped or self._stopped)

    async def _submit_round(self, signals: list[int]) -> bool:
        """Submit the requests that are missing and in no batch; return whether there are batches
        to wait for.

        Args:
            signals: The signals so far; one that arrives meanwhile is added.

        Raises:
            CancelledError: If a signal stopped the round.
            ConfigError: If no judge can be batched.
        """
        # Two commands at the same study would each submit the same requests, so this one waits
        # while another submits.
        while not await asyncio.to_thread(self._store.claim, _LOCK):
            await asyncio.sleep(_LOCK_SECONDS)
        try:
            # Read under the lock: it also has the batches that another command has just
            # submitted.
            pending = {tag: batch async for tag, batch in self._pending_batches()}
            batch_round = Round()
            judged = await record_round(
                self._config, self._cases, self._evaluator, self._store, batch_round
            )
            if judged.interrupted:
                signals.append(judged.signal or 2)
                raise asyncio.CancelledError
            self._skips = bool(batch_round.skipped)
            if batch_round.skipped and not batch_round.batched:
                name, reason = next(iter(batch_round.skipped.items()))
                raise ConfigError(
                    f"judge {name} cannot be batched: {reason}",
                    remedy="set runner=default",
                )
            # content key -> the tag of the pending batch with its request
            tags = {key: tag for tag, batch in pending.items() for key in batch.rungs}
            missing = [
                request
                for request in batch_round.requests
                if not self._is_final(request.key)
            ]
            # Only the batches that have a request of this run; others belong to other studies.
            self._waiting = {
                tag: pending[tag]
                for tag in {
                    tags[request.key] for request in missing if request.key in tags
                }
            }
            batch_round.requests = self._select_affordable(
                [request for request in missing if request.key not in tags]
            )
            if batch_round.requests:
                await self._submit(batch_round)
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

    def _select_affordable(self, requests: list[BatchRequest]) -> list[BatchRequest]:
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
                batch.reserved for batch in self._waiting.values()
            )
            # `taken` grows request by request; the first one that exceeds the cap ends the round.
            for index, request in enumerate(requests[:count]):
                if (
                    taken := taken + require_known(request.ceiling)
                ) > runner.budget_usd:
                    count = index
                    reason = f"budget_usd={runner.budget_usd:g}"
                    break
        # Batches in flight may cost less than reserved, so the budget is final only without any.
        if requests and not count and not self._waiting:
            # `count` is 0 only by one of the two caps above, so `reason` is set.
            self._stopped = f"runner.{reason} is reached"
            self._outcomes |= {
                request.key: CallError("budget", self._stopped, retryable=False)
                for request in requests
            }
        return requests[:count]

    async def _submit(self, batch_round: Round) -> None:
        """Write the requests of a round to files, and submit each file as a batch.

        Raises:
            ConfigError: If an address cannot be used, or no batch can be created.
        """
        # Open each address first: a wrong key must show before a batch of another model is paid
        # for.
        for target in {request.target for request in batch_round.requests}:
            await self._api(target)
        with TemporaryDirectory(prefix="evalkit-batch-") as folder:
            path = Path(folder, "requests.jsonl")
            written = await asyncio.to_thread(
                write_round, path, batch_round, store=None
            )
            for file, requests in written:
                await self._submit_file(path.with_name(file.name), file, requests)

    async def _submit_file(
        self, path: Path, file: RequestFile, requests: Sequence[BatchRequest]
    ) -> None:
        """Submit a file of requests as a batch, and keep in the store what a later command needs.

        Raises:
            ConfigError: If no batch can be created.
        """
        rungs = {request.key: request.rung for request in requests}
        most = sum(request.ceiling or 0.0 for request in requests)
        pending = PendingBatch(file, rungs, time(), most)
        tag = uuid4().hex
        # before it is submitted: if its id is lost, the batch is found by its tag
        await self._save(tag, pending)
        try:
            api = await self._api(file.target)
            batch = await api.submit(path, tag, self._check_lock)
        except CallError as error:
            raise ConfigError(
                f"{file.target.model}: no batch could be created ({error.message})",
                remedy="repeat the command; what was submitted is kept",
            ) from error
        # With its id, a later command finds the batch without a search at the provider.
        self._waiting[tag] = pending = replace(pending, batch=batch)
        await self._save(tag, pending)
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

    async def _pending_batches(self) -> AsyncIterator[tuple[str, PendingBatch]]:
        """Yield the tag and the text of each batch that was submitted and not yet collected.

        A batch whose id was not stored before the command died is found by its tag; one that the
        provider does not have is forgotten.

        Raises:
            StoreError: If a stored batch cannot be read.
        """
        for name, text in (await asyncio.to_thread(self._state.states, _NAMES)).items():
            try:
                pending: PendingBatch = codec(PendingBatch).validate_json(text)
                if not all(map(is_content_key, pending.rungs)):
                    raise ValueError(name)
            except ValueError:
                problem = (
                    f"the store has a damaged batch '{name}'; update evalkit, or use another"
                    " store.url"
                )
                raise StoreError(problem) from None
            tag = name.removeprefix(_NAMES)
            target = pending.file.target
            # A command was killed between the two saves of `_submit_file`. The provider is asked
            # for the tag; a day of margin covers clocks that differ.
            if pending.batch is None and (target.model, target.api_base) in self._apis:
                pending = replace(
                    pending,
                    batch=await (await self._api(target)).find(
                        tag, pending.created - _DAY
                    ),
                )
                # Not at the provider: the submission never arrived, and its requests are free to
                # be sent.
                await self._save(tag, None if pending.batch is None else pending)
                if pending.batch is None:  # it was never created
                    continue
            yield tag, pending

    async def _wait_for_batches(self) -> None:
        """Wait until every batch has ended, and store its answers; report the progress after each
        look.

        The seconds between looks are `runner.poll`.

        Raises:
            ConfigError: If a batch failed as a whole.
        """
        total = sum(len(pending.rungs) for pending in self._waiting.values())
        while True:
            running = 0
            # A copy: `_collect` deletes from the dictionary.
            for tag, pending in list(self._waiting.items()):
                status = await self._look_up(pending)
                if status is not None and status.ended:
                    await self._collect(tag, pending, status)
                else:
                    running += len(pending.rungs) - (
                        0 if status is None else status.done
                    )
            if self._observe is not None:
                self._observe(
                    replace(self._tally, done=total - running, sent=total).progress(
                        total
                    )
                )
            if not self._waiting:
                return
            await asyncio.sleep(self._config.runner.poll)

    async def _look_up(self, pending: PendingBatch) -> BatchStatus | None:
        """Return the status of a batch; `None` if the provider cannot say it now.

        A batch that the provider no longer knows counts as ended, without an answer.

        Raises:
            ConfigError: If the provider refuses, and only the user can decide what follows.
        """
        api = await self._api(pending.file.target)
        batch = pending.batch or ""
        try:
            return await api.look(batch)
        except CallError as error:
            old = time() - pending.created > _KEPT_DAYS * _DAY
            # A wrong key also gives "not found". Sending again at once could pay for everything
            # twice.
            if error.kind == "not_found" and (
                old or batch in self._config.runner.resend
            ):
                return BatchStatus(batch, _FORGOTTEN, True, 0, (), "")
            if not error.retryable:
                raise _blocked(pending, error, len(pending.rungs)) from error
            _log.warning("batch %s: %s; it is looked up again", batch, error.message)
            return None

    async def _download(
        self, pending: PendingBatch, status: BatchStatus, folder: Path
    ) -> tuple[list[Path], CallError | None] | None:
        """Download the files of a batch into a folder.

        Returns:
            The files, and the error of the last one that is gone, or `None`. Instead of the pair
                `None`, if a file must be tried again.
        """
        paths: list[Path] = []
        gone: CallError | None = None
        for file in status.files:
            path = folder / f"{len(paths)}.jsonl"
            try:
                api = await self._api(pending.file.target)
                await api.download(file, path)
                paths.append(path)
            except CallError as error:
                if error.retryable:
                    _log.warning(
                        "batch %s: %s; it is looked up again", status.id, error.message
                    )
                    return None
                gone = error
        return paths, gone

    async def _collect(
        self, tag: str, pending: PendingBatch, status: BatchStatus
    ) -> None:
        """Store the answers of an ended batch, count what it cost, and forget it.

        If a file cannot be downloaded now, the batch stays and is looked up again.

        Raises:
            ConfigError: If its files are gone, or it failed or was cancelled.
        """
        index = RequestIndex()
        index.add(pending.file, pending.rungs)
        with TemporaryDirectory(prefix="evalkit-batch-") as folder:
            download = await self._download(pending, status, Path(folder))
            if download is None:
                return
            paths, gone = download
            report = await asyncio.to_thread(read_answers, paths, index, self._store)
        # Every request of the batch is now stored, has an outcome, or is unknown.
        completions = await asyncio.to_thread(self._store.get_many, list(pending.rungs))
        unknown = len(pending.rungs) - len(completions.keys() | report.outcomes.keys())
        if gone is not None and status.id not in self._config.runner.resend:
            raise _blocked(
                pending, gone, len(pending.rungs) - len(completions)
            ) from gone
        lost = CallError(
            "bad_response",
            f"batch {status.id} ({status.status}) has no answer to it",
            retryable=True,
        )
        self._outcomes |= {
            key: report.outcomes.get(key, lost)
            for key in pending.rungs
            if key not in completions
        }
        # What an answer that is not stored cost is not known: it counts as the most that it could.
        unread = sum(
            count
            for fault, count in report.faults.items()
            if "bad_resp" in fault or "refused" in fault
        )
        if gone is not None or status.status == _FORGOTTEN:
            unread += unknown
        if report.paid.cost_usd is None:
            most = pending.reserved
        else:
            share = unread / len(pending.rungs)
            most = report.paid.cost_usd + pending.reserved * share
        # Never more than reserved: the cap was checked against that sum.
        self._spent.usd += min(pending.reserved, most)
        self._tally.count_paid(report.paid)
        self._tally.sent += report.stored
        # Only now: if the command dies before this line, the next one collects the batch again,
        # and stored answers are never replaced.
        await self._save(tag, None)
        del self._waiting[tag]
        if status.status in ("failed", "cancelled"):
            fault = f"batch {status.id} {'was ' * (status.status == 'cancelled')}{status.status}"
            remedy = "its answers are stored; repeat the command to submit the rest"
            raise ConfigError(
                fault + (f" ({status.error})" if status.error else ""), remedy=remedy
            )

    async def _api(self, target: BatchTarget) -> BatchApi:
        api = self._apis[target.model, target.api_base]
        await api.open()
        return api

    async def _save(self, tag: str, pending: PendingBatch | None) -> None:
        text = None if pending is None else dumps(asdict(pending))
        await asyncio.to_thread(
            self._state.change_state, f"{_NAMES}{tag}", lambda *_: text
        )


def _blocked(batch: PendingBatch, error: CallError, count: int) -> ConfigError:
    """Return the error for a batch whose answers the provider does not have, with what
    to do about it.
    """
    resend = pasted("runner.resend", batch.batch or "")
    requests = f"the {counted(count, 'request')} without an answer"
    remedy = (
        f"use the key and address with which it was submitted, or send {requests} again with"
        f" {resend}"
    )
    return ConfigError(f"batch {batch.batch}: {error.message}", remedy=remedy)
