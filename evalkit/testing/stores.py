"""The check of a store: its content, claims, concurrent use and shared state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Barrier
from typing import TypeVar

from evalkit.core.errors import StoreError
from evalkit.core.protocols import SharedState, Store, StoreBackend
from evalkit.core.types import Completion, StoredCompletion, TokenLogprob, Usage

T = TypeVar("T")

_STORED = Completion(
    '{"a": "中文 \\u0000"}',
    model="other/model",
    finish_reason="stop",
    usage=Usage(3, None),
    cost_usd=0.1 + 0.2,
    latency=0.25,
    attempts=2,
    rung="tool",
    reasoning="",
    logprobs=(TokenLogprob("é", -0.5, (("é", -0.5), ("b", -9999.0)), (195, 169)),),
)
_TEXTS = (
    "",
    "\0 \n\r\u2028\ufeff\ufffe\u202e",
    "'; DROP TABLE completions; --",
    "null",
    "\U0001f600 é é",
    "x" * 1_000_000,
)
_HALF = Completion("half a pair: \ud83d")
_THREADS = 4


def check_store(backend: StoreBackend, url: str) -> None:
    """Check that a store backend satisfies `evalkit.core.protocols.Store`, as far as
    one process can test it.

    The backend's own tests must cover the rest: after a process is killed, its completions are
    stored and its claims are released, and a damaged completion is an error and never a changed
    text.

    Args:
        backend: The registered class.
        url: The URL of a store that does not exist yet.

    Raises:
        AssertionError: If a check fails; the message lists all problems.
    """
    if problems := list(store_faults(backend, url)):
        raise AssertionError("\n".join(problems))


def store_faults(backend: StoreBackend, url: str) -> Iterator[str]:
    """Yield a description of every problem that `check_store` reports."""
    if backend.exists(url):
        yield (
            f"there already is a store at {url}, or `exists` returns the wrong value: pass a URL"
            " without a store"
        )
        return
    backend.check_creatable(url)
    # Before anything is created: reading must not leave an empty store.
    if not _refuses(lambda: backend(url, read_only=True)):
        yield "a missing store can be opened read-only; raise StoreError"
    if backend.exists(url):
        yield "`check_creatable` or opening read-only creates a store"
    # Two open stores at one URL are like two processes, as far as one process can show it.
    with closing(backend(url)) as store, closing(backend(url)) as second:
        yield from _content_faults(store, second)
        yield from _claim_faults(store, second)
        yield from _concurrency_faults(store, second)
        yield from _maintenance_faults(store)
        yield from _state_faults(store, second)
        kept = {row.key for row in store.scan() if row is not None}
        claimed = store.claim("left")
    # A second time, after the block has closed it: that must be harmless.
    store.close()
    if not backend.exists(url):
        yield "`exists` does not find an existing store"
    with closing(backend(url)) as store:
        if {row.key for row in store.scan() if row is not None} != kept:
            yield "a reopened store does not have the completions that it had when it was closed"
        if not claimed or not store.claim("left"):
            yield "closing a store does not release its claims"
    with closing(backend(url, read_only=True)) as store:
        yield from _read_only_faults(store)


def _content_faults(store: Store, second: Store) -> Iterator[str]:
    """Yield what is wrong with what a store returns, at once and to another user of it."""
    # Keys as evalkit makes them: 64 hexadecimal digits.
    kept = {f"{n:064x}": Completion(text) for n, text in enumerate(_TEXTS)} | {
        "f" * 64: _STORED
    }
    store.put_many(
        [(key, "some/model", completion) for key, completion in kept.items()]
    )
    for name, opened in {"the store": store, "another open store": second}.items():
        completions = opened.get_many([*kept, "e" * 64])
        for key in kept.keys() | completions.keys():
            if completions.get(key) != kept.get(key):
                yield (
                    f"{name} returns {str(completions.get(key))[:80]!r} for"
                    f" {str(kept.get(key))[:80]!r}"
                )
    # More keys than some databases take in one statement.
    if len(store.get_many([f"{n:064x}" for n in range(5000)])) != len(
        _TEXTS
    ) or store.get_many([]):
        yield "looking up 5,000 keys, or none, does not return exactly the stored ones"
    store.put_many([("f" * 64, "some/model", Completion("newer"))])
    if second.get_many(["f" * 64]) != {"f" * 64: Completion("newer")}:
        yield "a newer completion does not replace an older one"
    refused = _refuses(
        lambda: store.put_many(
            [("d" * 64, "m", Completion("x")), ("c" * 64, "m", _HALF)]
        )
    )
    # A refused batch must leave nothing of it: the caller counts all of it as not stored.
    completions = store.get_many(["d" * 64, "c" * 64])
    if completions != ({} if refused else {"d" * 64: Completion("x"), "c" * 64: _HALF}):
        yield (
            "an unpaired surrogate is neither stored exactly, nor refused by a StoreError with its"
            " whole batch"
        )


def _claim_faults(store: Store, second: Store) -> Iterator[str]:
    """Yield where two users can claim one key, or a claim does not end."""
    if not store.claim("a") or store.claim("a") or second.claim("a"):
        yield "a key can be claimed twice, or not at all"
    second.release("a")
    if second.claim("a"):
        yield "a claim ends when another user of the store releases the key"
    store.release("a")
    if not second.claim("a"):
        yield "a released key cannot be claimed"
    second.release("a")
    # Threads share the two stores in turn, so claims are checked within a store and between two.
    won = _concurrently(lambda n: (store, second)[n % 2].claim("b"))
    if sum(won) != 1:
        yield f"{_THREADS} threads claim a key concurrently, and {sum(won)} of them succeed"
    # By both, since it is not known which of them won; a release without a claim does nothing.
    store.release("b")
    second.release("b")


def _concurrency_faults(store: Store, second: Store) -> Iterator[str]:
    """Yield whether completions are lost when threads write at the same time."""
    # For each thread, the keys that it writes.
    keys = [
        [f"thread-{thread}-{number}" for number in range(20)]
        for thread in range(_THREADS)
    ]

    def write(thread: int) -> None:
        for key in keys[thread]:
            opened = (store, second)[thread % 2]
            opened.put_many([(key, "some/model", Completion(key))])
            store.get_many([key])

    _concurrently(write)
    written = {key: key for keys_of_thread in keys for key in keys_of_thread}
    completions = store.get_many(list(written))
    texts = {key: completion.text for key, completion in completions.items()}
    if texts != written:
        yield (
            f"{_THREADS} threads write concurrently, but only {len(completions)} of {20 * _THREADS}"
            " completions are stored"
        )


def _maintenance_faults(store: Store) -> Iterator[str]:
    """Yield what is wrong with how a store adds, lists, counts and deletes completions."""
    rows = [
        StoredCompletion(f"old-{n}", "old/model", 1e9 + n / 3, Completion(str(n)))
        for n in range(5)
    ]
    before = [row for row in store.scan() if row is not None]
    if store.add_many(rows) != 5 or store.add_many(
        [replace(rows[0], completion=Completion("other"))]
    ):
        yield "`add_many` does not return the number of new completions"
    if [row for row in store.scan() if row is not None] != [*before, *rows]:
        yield (
            "`scan` does not yield added completions last and with their times, or `add_many`"
            " replaces stored ones"
        )
    if store.recent("no/model"):
        yield "`recent` returns completions of another model"
    if [completion.text for completion in store.recent("old/model", 2)] != ["4", "3"]:
        yield "`recent` does not return the last completions, newest first, up to the limit"
    # The row of exactly this time must stay.
    deleted = store.prune(rows[3].created)
    if deleted != 3 or [row for row in store.scan() if row is not None] != [
        *before,
        *rows[3:],
    ]:
        yield (
            "`prune` does not delete exactly the completions before a time, or does not return"
            " their number"
        )
    description = store.describe()
    if (
        not description.location
        or description.version < 1
        or (description.size is not None and description.size < 0)
    ):
        yield f"`describe` returns no location, version or size: {description}"


def _state_faults(store: Store, second: Store) -> Iterator[str]:
    """Yield what is wrong with the shared texts of a store; nothing for a store without them."""
    if not isinstance(store, SharedState) or not isinstance(second, SharedState):
        return  # it is an extra
    stores = (store, second)
    times = list[float]()
    started = time.time()
    keys = {row.key for row in store.scan() if row is not None}

    def note(_: str | None, now: float) -> str:
        times.append(now)
        return "\0 é"

    for name in ("s/2é", "s/1", "s%", "is/1"):
        store.change_state(name, note)
    if [*second.states("s/").items()] != [
        ("s/1", "\0 é"),
        ("s/2é", "\0 é"),
    ] or second.states("no/"):
        yield (
            "`states` does not return exactly the texts whose names start with a prefix, in the"
            " order of names"
        )
    if not started - 3600 < times[0] < started + 3600 or times != sorted(times):
        yield "`change_state` does not give the store's time in seconds since 1970"
    for name in ("s/1", "no"):
        try:
            # An error in the middle of a change must end its transaction and change nothing.
            second.change_state(name, lambda old, _: str(len(old or "") // 0))
        except ZeroDivisionError:
            continue
        yield "`change_state` hides an error of the change"
    store.change_state("s/2é", lambda _, __: None)
    if dict(second.states("")) != {"is/1": "\0 é", "s%": "\0 é", "s/1": "\0 é"}:
        yield (
            "`change_state` does not remove a text for `None`, or changes it although the change"
            " failed"
        )

    def count(n: int) -> None:
        for _ in range(10):
            # A read and a write: without one transaction for both, two threads read the same
            # number.
            stores[n % 2].change_state("sum", lambda old, _: str(int(old or 0) + 1))

    _concurrently(count)
    if (total := store.states("sum").get("sum")) != str(10 * _THREADS):
        yield (
            f"{_THREADS} threads add 1 to a text 10 times each, and it is {total} afterwards: a"
            " change was lost"
        )
    # Removed, so that the checks after this one find a store without shared texts.
    for name in store.states(""):
        store.change_state(name, lambda _, __: None)
    if {row.key for row in store.scan() if row is not None} != keys:
        yield "`change_state` changes completions"


def _read_only_faults(store: Store) -> Iterator[str]:
    """Yield where a read-only store can be changed, or does not return its completions."""
    rows = [row for row in store.scan() if row is not None]
    if not rows or store.get_many([rows[0].key]) != {rows[0].key: rows[0].completion}:
        yield "a read-only store does not return its completions"
    writes: tuple[Callable[[], object], ...] = (
        lambda: store.put_many([("new", "m", Completion("x"))]),
        lambda: store.add_many([StoredCompletion("new", "m", 0.0, Completion("x"))]),
        lambda: store.prune(1e12),
    )
    if isinstance(store, SharedState):
        shared = store
        writes = (*writes, lambda: shared.change_state("new", lambda _, __: "x"))
    refused = [_refuses(write) for write in writes]
    if not all(refused) or list(store.scan()) != rows:
        yield "a read-only store can be changed; raise StoreError"
    # A reader can store no answer, so there is nothing to wait for.
    if not store.claim("a") or not store.claim("a"):
        yield "a read-only store does not grant every claim"


def _refuses(work: Callable[[], object]) -> bool:
    try:
        work()
    except StoreError:
        return True
    return False


def _concurrently(work: Callable[[int], T]) -> list[T]:
    # All begin at the same moment, or the first may be done before the last begins.
    start = Barrier(_THREADS)

    def begin(n: int) -> T:
        start.wait()
        return work(n)

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(begin, range(_THREADS)))
