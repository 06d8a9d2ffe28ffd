"""`evalkit batch`: write the next requests to files, and store the answers that came back."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from signal import SIGINT

from evalkit.cli.console import log, log_handler
from evalkit.cli.parser import UsageError, is_override, study_words
from evalkit.cli.plan import WATCH, PlannedJob, planned_jobs
from evalkit.cli.store import check_store_words, configured_url
from evalkit.core.claims import claim_file
from evalkit.core.display import counted
from evalkit.core.errors import ConfigError, ExitStatus, Signaled
from evalkit.core.protocols import Store
from evalkit.core.redaction import without_password
from evalkit.engine.batch.answers import ReadReport, read_answers
from evalkit.engine.batch.requests import (
    RequestIndex,
    Round,
    check_free,
    find_indexes,
    load_named,
    record_round,
    write_round,
)
from evalkit.engine.event_loop import run_async
from evalkit.engine.progress import JudgingResult
from evalkit.store import backend_of, open_url, store_location, store_url
from evalkit.workflows.materials import stream_cases

_LOOKED_UP = 1000


def main(arguments: Namespace) -> int:
    """Write or read a batch's files.

    Raises:
        ConfigError: if the config is invalid, or a file cannot be used.
        StoreError: if the store fails.
    """
    return ACTIONS[arguments.action](arguments)


def _write_command(arguments: Namespace) -> int:
    """Write the requests without a stored answer to files, and return the exit status.

    Raises:
        UsageError: if no file is named.
        ConfigError: if the jobs use several stores, or a file exists.
    """
    path: Path = arguments.file
    if is_override(str(path)):
        raise UsageError(
            "batch write", "needs a file to write", "name it after the overrides"
        )
    if study_words(arguments)[:1] == [WATCH]:
        raise UsageError(
            "batch write",
            "cannot write the requests of a look",
            "use evalkit watch … runner=batch",
        )
    jobs = planned_jobs(arguments)
    urls = {_writable_url(job) for job in jobs}
    # An index names one store, and its answers are read into that one.
    if len(urls) > 1:
        raise ConfigError(
            "differs between the jobs",
            where="store.url",
            remedy="write the requests of each job separately",
        )
    # Claimed before the look at what exists, so that two commands cannot pass it together.
    with claim_file(path, "choose another file"):
        check_free(path)
        return _write_requests(path, jobs, urls.pop(), arguments)


def _print_total(count: int, files: int, batch_round: Round) -> None:
    """Print the numbers of requests, files and tokens of a round, and how many rounds follow."""
    if batch_round.rounds == 1:
        rounds = "one round"
    else:
        rounds = f"about {batch_round.rounds} rounds with this one"
    print(
        f"{counted(count, 'request')} in {counted(files, 'file')}, about"
        f" {batch_round.tokens:,} prompt tokens; {rounds}, and answers that must be"
        " requested again need"
        " one more"
    )


def _write_requests(
    path: Path, jobs: Sequence[PlannedJob], url: str, arguments: Namespace
) -> int:
    """Record the requests of jobs, write those without a stored answer, and return the exit status.

    Args:
        path: The file to write; several files get numbers.
        jobs: The jobs.
        url: The store that has answers.
        arguments: The options of the command.

    Raises:
        Signaled: if the user stops it; nothing is written then.
    """
    batch_round = Round(arguments.model)
    with (
        # Writing requests must not create a store; without one, nothing is stored.
        closing(open_url(url, read_only=True))
        if backend_of(url).exists(url)
        else nullcontext()
    ) as store:
        for job in jobs:
            with log_handler():
                # One round for all jobs: requests that they share are written once.
                judged = run_async(_record(job, store, batch_round))
            if judged.interrupted:
                raise Signaled(
                    judged.signal or SIGINT, "interrupted; nothing is written"
                )
        _note_skipped(batch_round)
        if not batch_round.requests:
            print(
                "0 requests to write: each has a stored answer; `evalkit run` uses them"
            )
            return ExitStatus.DONE
        # Other files in the folder may hold the same requests: sending both pays twice.
        _note_pending(path, batch_round)
    # the index records the store, but never its password
    shareable_url = url if without_password(url) == url else None
    limits = {
        "max_requests": arguments.max_requests,
        "max_bytes": arguments.max_megabytes * 10**6,
    }
    written = write_round(path, batch_round, store=shareable_url, **limits)
    for file, requests in written:
        print(
            f"{path.with_name(file.name)}: {counted(len(requests), 'request')} to"
            f" {arguments.model or file.target.name}"
        )
    _print_total(
        sum(len(requests) for _, requests in written), len(written), batch_round
    )
    return ExitStatus.DONE


async def _record(job: PlannedJob, store: Store | None, into: Round) -> JudgingResult:
    """Record what can be sent now: first an earlier step, whose answers are judged in
    the next round.
    """
    # Texts of a rewriter must exist before there are requests that judge them.
    if (step := job.questions.earlier_step()) is not None:
        cases = stream_cases(step.config)
        first = await record_round(
            step.config, cases, step.evaluator, store, into, later=1
        )
        if first.interrupted:
            return first
        job = replace(job, questions=job.questions.after(first.judgments))
    return await record_round(job.config, job, job.evaluator, store, into)


def _writable_url(job: PlannedJob) -> str:
    store = job.config.store
    if store.mode != "read_write":
        remedy = "set store.mode=read_write"
        raise ConfigError(
            f"with '{store.mode}' the run would not use the answers",
            where="store.mode",
            remedy=remedy,
        )
    return store_url(store.url)


def _note_skipped(batch_round: Round) -> None:
    """Log which judges cannot be batched.

    Raises:
        ConfigError: if no judge can be.
    """
    for judge, reason in batch_round.skipped.items():
        problem = f"judge {judge} cannot be batched: {reason}"
        if not batch_round.batched:
            raise ConfigError(
                problem,
                remedy="judge with `evalkit run`, or choose a judge behind an API",
            )
        log("note", f"{problem}; `evalkit run` calls it")


def _note_pending(path: Path, batch_round: Round) -> None:
    index = RequestIndex()
    for index_path in find_indexes([path.parent]):
        index.load(index_path)
    if pending := sum(request.key in index for request in batch_round.requests):
        log(
            "note",
            f"{pending:,} of these requests were written before and have no stored answer: read"
            " every answer first, and send this file only once the earlier batches have ended",
        )


def _read_command(arguments: Namespace) -> int:
    """Store the answers of files, print what is missing, and return the exit status.

    Raises:
        UsageError: if no file is named.
        ConfigError: if a file, its requests or their store cannot be found.
    """
    paths = [Path(word) for word in arguments.file if not is_override(word)]
    overrides = [
        word for word in (*arguments.file, *arguments.overrides) if is_override(word)
    ]
    check_store_words("batch read", overrides)
    if not paths:
        raise UsageError("batch read", "needs a file of answers")
    if missing := next((path for path in paths if not path.is_file()), None):
        raise ConfigError("no such file", where=str(missing))
    index = _load_indexes(paths, arguments.requests)
    url = _store_to_fill(index, overrides)
    with closing(open_url(url)) as store:
        # Answers first; what is missing is then counted from the store itself.
        report = read_answers(paths, index, store)
        _print_report(report, url)
        missing_answers = _count_missing(index, report.files, store)
    _print_rounds(index, missing_answers)
    # Nothing could be read: a script must not go on as if the round were complete.
    useless = report.faults and not report.stored and not report.known
    return int(ExitStatus.TOO_MANY_FAILURES if useless else ExitStatus.DONE)


def _load_indexes(paths: Sequence[Path], requests: Sequence[Path]) -> RequestIndex:
    """Return the requests that files of answers belong to.

    Raises:
        ConfigError: if none are found.
    """
    index = RequestIndex()
    for named in requests:
        load_named(named, index)
    if not requests:
        # Without a named file: the indexes next to the answers, and those in the current folder.
        for index_path in find_indexes([*(path.parent for path in paths), Path()]):
            index.load(index_path)
    if not index.files:
        raise ConfigError(
            "no requests were found that these answers belong to",
            where=str(paths[0]),
            remedy=(
                "name the file that `evalkit batch write` wrote, next to its index: --requests"
                " requests.jsonl"
            ),
        )
    return index


def _store_to_fill(index: RequestIndex, overrides: Sequence[str]) -> str:
    """Return the URL of the store for the answers: as set, or the one that the requests are for.

    Raises:
        ConfigError: if they are for several.
    """
    if not overrides and len(index.stores) == 1:
        return next(iter(index.stores))
    if not overrides and len(index.stores) > 1:
        raise ConfigError(
            "the requests were written for several stores"
            f" ({', '.join(map(store_location, sorted(index.stores)))})",
            where="store.url",
            remedy="name one, or name the file of requests: --requests requests.jsonl",
        )
    return configured_url(overrides)


def _print_report(report: ReadReport, url: str) -> None:
    already_stored = f", {report.known:,} were already stored" if report.known else ""
    stored = counted(report.stored, "answer")
    print(f"{stored} stored in {store_location(url)}{already_stored}")
    for fault, count in report.faults.most_common():
        log(
            "note",
            f"{counted(count, 'line')} {fault}, for example {report.examples[fault]}",
        )


def _count_missing(
    index: RequestIndex, files: set[int], store: Store
) -> dict[int, tuple[int, int]]:
    """Return how many requests each file has, and how many of them have no stored answer, by the
    position of the file in the index.

    Args:
        index: Where each request is.
        files: The positions of the files to count.
        store: Where answers are looked up.
    """
    # position of the file -> (its requests, those without an answer)
    counts = dict.fromkeys(sorted(files), (0, 0))
    keys = list(index.keys_of(files))
    # In parts: a batch may have many thousands of keys.
    for start in range(0, len(keys), _LOOKED_UP):
        part = keys[start : start + _LOOKED_UP]
        answered = store.get_many([key for key, _ in part])
        for key, position in part:
            requests, missing = counts[position]
            counts[position] = (requests + 1, missing + (key not in answered))
    return counts


def _print_rounds(index: RequestIndex, counts: dict[int, tuple[int, int]]) -> None:
    """Print how many requests of each file have an answer, and how many rounds are left.

    `counts` has (requests, missing) by the position of the file in the index.
    """
    for position, (requests, missing) in counts.items():
        folder, file = index.files[position]
        print(
            f"{folder / file.name}: {requests - missing:,} of {requests:,} requests have an answer"
        )
    if not counts:
        return
    # without the round that was read
    rounds_left = max(index.files[position][1].rounds for position in counts) - 1
    if rounds_left:
        likely = f"about {rounds_left} more round{'s' * (rounds_left > 1)} likely"
    else:
        likely = "no more rounds planned"
    print(
        f"{likely}; `evalkit batch write` with the same settings writes missing and repeated"
        " requests; if there are none, `evalkit run` sends nothing"
    )


ACTIONS: dict[str, Callable[[Namespace], int]] = {
    "write": _write_command,
    "read": _read_command,
}
