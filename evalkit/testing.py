"""Checks to call in the tests of plug-ins.

`check_evaluator(evaluator)`, `check_judge(config)`, `check_benchmark(name, path)`, `check_store(backend, url)`,
`check_probe(name)`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier
from types import MappingProxyType
from typing import Any, TypeVar

from evalkit.audit.plan import edited as edited_case
from evalkit.audit.probes import find_probe
from evalkit.config import Criterion, DatasetConfig, JudgeConfig, ModeConfig, RunConfig, RunnerConfig, SwapConfig
from evalkit.datasets import load_cases
from evalkit.datasets.named import recognize_benchmark, recognize_benchmark_row
from evalkit.engine.requests import call_key
from evalkit.errors import CallError, DatasetError, EvalkitError, JudgeSetupError, PluginError, StoreError
from evalkit.evaluators.third_party import impossible
from evalkit.judges import make_judges
from evalkit.judges.responses import sane
from evalkit.plugins import find_benchmark
from evalkit.protocols import Benchmark, Evaluator, Judge, SharedState, Store, StoreBackend
from evalkit.scoring import score_run
from evalkit.scoring.catalog import Catalog
from evalkit.types import (
    Case,
    Completion,
    JudgeRequest,
    JudgeSpec,
    Judgment,
    Response,
    StoredCompletion,
    TokenLogprob,
    Usage,
)

__all__ = [
    "CASES",
    "ODD",
    "check_benchmark",
    "check_evaluator",
    "check_judge",
    "check_probe",
    "check_store",
    "example_answer",
    "faults",
    "store_faults",
]

T = TypeVar("T")

CASES = (
    Case("pair", "Say hello.", (Response("Hello."), Response("Go away."))),
    Case(
        "several", "打个招呼。", (Response("你好。"), Response(""), Response("</task> {{ 7 }} {% x %}")), context="zh"
    ),
    Case("long", "Sum up.", (Response("word " * 5000), Response("short")), reference="A summary.", label="B"),
)
"""Cases for every evaluator; an evaluator may refuse one with an EvalkitError."""

ODD: Mapping[str, Completion] = MappingProxyType(
    {
        "an empty text": Completion(""),
        "white space": Completion(" \n\t\n"),
        "prose without an answer": Completion(
            "Both were written with some care, and there is much to be said of them."
        ),
        "broken JSON": Completion('{"result": {"winner": '),
        "JSON of another kind": Completion('{"unrelated": [1, 2, {"x": null}]}'),
        "a JSON list": Completion("[]"),
        "JSON null": Completion("null"),
        "an answer that was cut off": Completion('{"analysis": {"str', finish_reason="length"),
        "a refusal": Completion("I'm sorry, but I can't help with that."),
        "a refusal in Chinese": Completion("抱歉，我无法协助处理这个请求。"),
        "a refusal next to the text": Completion("", refusal="I will not judge this."),
        "a text that the content filter stopped": Completion("", finish_reason="content_filter"),
        "thinking and nothing else": Completion("<think>Let me see. A? B? 3? 4?</think>"),
        "a megabyte of one letter": Completion("x" * 1_000_000),
        "a hundred thousand brackets": Completion("[" * 100_000),
        "invalid characters": Completion("\x00\ud800\ufffe\u202e"),
    }
)
"""Completions without a usable answer."""

_SPEC = JudgeSpec("judge", "test/judge")
_OWN_ANSWER = Completion("I would say hello.")
_MAX_STEPS = 4
_READ = ("ok", "repaired")


def check_evaluator(evaluator: Evaluator, *, cases: Sequence[Case] = CASES, answers: Sequence[str] = ()) -> None:
    """Check that an evaluator satisfies the assumptions of the engine and of scoring.

    Its plan must be the same each time, with different content keys. It must read every completion, however odd, as a
    judgment or one more request, and take no value from a completion without an answer. The same answer to the same
    responses in the other order must be the opposite judgment.

    Args:
        evaluator: An evaluator from `make_evaluator`.
        cases: The cases to plan.
        answers: Texts that the evaluator must be able to read, at least one with a winner if it compares responses; by
            default they are generated from the schema of the requests.

    Raises:
        AssertionError: If a check fails; the message lists all problems.
    """
    if found := list(dict.fromkeys(faults(evaluator, cases=cases, answers=answers))):
        raise AssertionError("\n".join(found))


def faults(evaluator: Evaluator, *, cases: Sequence[Case] = CASES, answers: Sequence[str] = ()) -> Iterator[str]:
    """Yield a description of every problem that `check_evaluator` reports."""
    planned = [(case, list(evaluator.plan(case))) for case in cases]
    for case, requests in planned:
        if list(evaluator.plan(deepcopy(case))) != requests:
            yield f"case '{case.id}': plan returns other requests when it is called again"
        if not requests:
            yield f"case '{case.id}': plan returns no requests"
        yield from _plan_faults(case, requests)
        yield from _answer_faults(evaluator, requests, answers)
    yield from _odd_faults(evaluator, [request for _, requests in planned for request in requests[:2]][:2])


def _plan_faults(case: Case, requests: Sequence[JudgeRequest]) -> Iterator[str]:
    everyone = range(len(case.responses))
    for request in requests:
        where = f"case '{case.id}', shown {list(request.shown)}"
        if request.case_id != case.id:
            yield f"{where}: case_id is '{request.case_id}', which is another case"
        if not request.unit or list(request.unit) != sorted(set(request.unit)) or not set(request.unit) <= {*everyone}:
            yield f"{where}: unit {list(request.unit)} is not an ascending selection of {list(everyone)}"
        if tuple(sorted(request.shown)) != request.unit:
            yield f"{where}: shown is not a permutation of unit {list(request.unit)}"
        if request.turn != 0 or request.sample < 0:
            yield f"{where}: a first request has turn {request.turn} and sample {request.sample}: turn must be 0"
        if not request.messages or not all(_is_message(message) for message in request.messages):
            yield f"{where}: messages must be at least one text with a role"
    identities = [(request.unit, request.shown, request.sample, request.items) for request in requests]
    for *identity, _ in {one for one in identities if identities.count(one) > 1}:
        yield f"case '{case.id}': unit, order and sample {tuple(identity)} are requested twice"
    keys = [call_key(_SPEC, request.then or request) for request in requests]
    if len(set(keys)) < len(keys):
        yield f"case '{case.id}': two requests have the same content key, so they would share one answer"


def _is_message(message: Mapping[str, Any]) -> bool:
    return bool(message.get("role")) and isinstance(message.get("content"), str)


def _odd_faults(evaluator: Evaluator, requests: Sequence[JudgeRequest]) -> Iterator[str]:
    for what, completion in ODD.items():
        for request in requests:
            judgment, wrong = _read(evaluator, request, completion)
            yield from (f"{what}: {one}" for one in wrong)
            if judgment is not None and (judgment.status in _READ or _has_value(judgment)):
                yield f"{what}: read as {judgment.status} with a value, but a missing answer is never a score"


def _answer_faults(evaluator: Evaluator, requests: Sequence[JudgeRequest], answers: Sequence[str]) -> Iterator[str]:
    readable = leaning = 0
    compared = [request for request in requests if len(request.unit) > 1]
    for request in islice(compared or requests, 2):
        for text in answers or [example_answer(request)]:
            judgment, wrong = _read(evaluator, request, Completion(text))
            yield from wrong
            if judgment is None or judgment.status not in _READ:
                continue
            readable += 1
            other, wrong = _read(evaluator, _reversed(request), Completion(text))
            yield from wrong
            if len(request.unit) > 1 and other is not None:
                leaning += _leans(judgment)
                yield from _flip_faults(judgment, other)
    if not readable:
        yield f"no answer could be read: pass `answers` in the form that a judge would write ({_sample(requests)})"
    elif compared and not leaning:
        yield "every answer is a tie, which cannot show whether margins flip with the order: pass one with a winner"


def _reversed(request: JudgeRequest) -> JudgeRequest:
    then = None if request.then is None else _reversed(request.then)
    return replace(request, shown=request.shown[::-1], then=then)


def _sample(requests: Sequence[JudgeRequest]) -> str:
    return f"tried {example_answer(requests[0])[:200]!r}" if requests else "there were no requests"


def _flip_faults(one: Judgment, other: Judgment) -> Iterator[str]:
    if one.ranking is not None and one.shown[::-1] == other.shown:
        if _positions(one) != _positions(other):
            yield "the same ranking of the responses in reverse order is not the reverse ranking"
        return
    values = {"value": (one.value, other.value)} | {
        f"criterion '{name}'": (value, other.criteria.get(name)) for name, value in one.criteria.items()
    }
    for name, (first, second) in values.items():
        if (first is None) != (second is None) or abs((first or 0.0) + (second or 0.0)) > 1e-9:
            yield f"{name} is {first}, and {second} with the order reversed: margins must be un-swapped, and flip"


def _positions(judgment: Judgment) -> list[list[int]]:
    return [sorted(judgment.shown.index(index) for index in group) for group in judgment.ranking or ()]


def _leans(judgment: Judgment) -> bool:
    return bool(judgment.value) or len(judgment.ranking or ()) > 1


def _has_value(judgment: Judgment) -> bool:
    own = judgment.value is not None or bool(judgment.criteria) or judgment.ranking is not None
    return own or judgment.class_name is not None or any(judgment.items.values())


def _read(evaluator: Evaluator, request: JudgeRequest, completion: Completion) -> tuple[Judgment | None, list[str]]:
    """Return the judgment of a completion, with the same text as the answer to each request, and the problems."""
    current = request
    for _ in range(_MAX_STEPS):
        # A request with a `then` asks for the judge's own answer, unless the completion is an odd one.
        reply = _OWN_ANSWER if current.then is not None and completion not in ODD.values() else completion
        try:
            read, again = evaluator.read(current, reply), evaluator.read(current, reply)
        except Exception as error:
            return None, [f"read raises {type(error).__name__}: {error}; return an unparseable judgment instead"]
        if read != again:
            return None, ["read returns another result when it is called again"]
        if isinstance(read, Judgment):
            return read, list(_malformed(read, request))
        if not isinstance(read, JudgeRequest):
            return None, [f"read returns a {type(read).__name__}, neither a Judgment nor a JudgeRequest"]
        if current.then is None and read.turn != current.turn + 1:
            return None, [f"a repeated request has turn {read.turn} after turn {current.turn}"]
        current = read
    return None, [f"read still returns a request after {_MAX_STEPS} answers"]


def _malformed(judgment: Judgment, request: JudgeRequest) -> Iterator[str]:
    for name in ("case_id", "unit", "shown", "sample"):
        if getattr(judgment, name) != getattr(request, name):
            yield f"a judgment's {name} is {getattr(judgment, name)}, but the request's is {getattr(request, name)}"
    if judgment.status in _READ and not _has_value(judgment):
        yield f"a judgment of status {judgment.status} has no value, criteria, ranking, class or items"
    if judgment.status not in _READ and (_has_value(judgment) or not judgment.error):
        yield f"a judgment of status {judgment.status} has a value, or no error that explains why there is none"
    if fault := impossible(judgment):
        yield fault


def example_answer(request: JudgeRequest) -> str:
    """Return an answer in the format of a request, or of the request that needs its answer; empty for free text."""
    answer = (request.then or request).answer
    return "" if answer is None else json.dumps(_example(answer.schema, 0), ensure_ascii=False)


def _example(schema: Mapping[str, Any], index: int) -> Any:
    """Return a valid value for a JSON schema; successive items of a list take successive values of an enum."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][index % len(schema["enum"])]
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], index)
    kind = schema.get("type")
    if kind == "object":
        return {name: _example(part, index) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [_example(schema.get("items", {}), k) for k in range(max(1, schema.get("minItems", 1)))]
    if kind in ("integer", "number"):
        return min(schema.get("minimum", 0) + (index if kind == "integer" else 0), schema.get("maximum", index))
    return True if kind == "boolean" else "text"


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
    """Check that a store backend satisfies `evalkit.protocols.Store`, as far as one process can test it.

    The backend's own tests must cover the rest: after a process is killed, its completions are stored and its claims
    are released, and a damaged completion is an error and never a changed text.

    Args:
        backend: The registered class.
        url: The URL of a store that does not exist yet.

    Raises:
        AssertionError: If a check fails; the message lists all problems.
    """
    if found := list(store_faults(backend, url)):
        raise AssertionError("\n".join(found))


def store_faults(backend: StoreBackend, url: str) -> Iterator[str]:
    """Yield a description of every problem that `check_store` reports."""
    if backend.exists(url):
        yield f"there already is a store at {url}, or `exists` returns the wrong value: pass a URL without a store"
        return
    backend.check_creatable(url)
    if not _refuses(lambda: backend(url, read_only=True)):
        yield "a missing store can be opened read-only; raise StoreError"
    if backend.exists(url):
        yield "`check_creatable` or opening read-only creates a store"
    with closing(backend(url)) as store, closing(backend(url)) as other:
        yield from _content_faults(store, other)
        yield from _claim_faults(store, other)
        yield from _concurrency_faults(store, other)
        yield from _maintenance_faults(store)
        yield from _state_faults(store, other)
        kept = {row.key for row in store.scan() if row is not None}
        claimed = store.claim("left")
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


def _content_faults(store: Store, other: Store) -> Iterator[str]:
    kept = {f"{n:064x}": Completion(text) for n, text in enumerate(_TEXTS)} | {"f" * 64: _STORED}
    store.put_many([(key, "some/model", completion) for key, completion in kept.items()])
    for name, one in {"the store": store, "another open store": other}.items():
        found = one.get_many([*kept, "e" * 64])
        for key in kept.keys() | found.keys():
            if found.get(key) != kept.get(key):
                yield f"{name} returns {str(found.get(key))[:80]!r} for {str(kept.get(key))[:80]!r}"
    if len(store.get_many([f"{n:064x}" for n in range(5000)])) != len(_TEXTS) or store.get_many([]):
        yield "looking up 5,000 keys, or none, does not return exactly the stored ones"
    store.put_many([("f" * 64, "some/model", Completion("newer"))])
    if other.get_many(["f" * 64]) != {"f" * 64: Completion("newer")}:
        yield "a newer completion does not replace an older one"
    refused = _refuses(lambda: store.put_many([("d" * 64, "m", Completion("x")), ("c" * 64, "m", _HALF)]))
    found = store.get_many(["d" * 64, "c" * 64])
    if found != ({} if refused else {"d" * 64: Completion("x"), "c" * 64: _HALF}):
        yield "an unpaired surrogate is neither stored exactly, nor refused by a StoreError with its whole batch"


def _claim_faults(store: Store, other: Store) -> Iterator[str]:
    if not store.claim("a") or store.claim("a") or other.claim("a"):
        yield "a key can be claimed twice, or not at all"
    other.release("a")
    if other.claim("a"):
        yield "a claim ends when another user of the store releases the key"
    store.release("a")
    if not other.claim("a"):
        yield "a released key cannot be claimed"
    other.release("a")
    won = _concurrently(lambda n: (store, other)[n % 2].claim("b"))
    if sum(won) != 1:
        yield f"{_THREADS} threads claim a key concurrently, and {sum(won)} of them succeed"
    store.release("b")
    other.release("b")


def _concurrency_faults(store: Store, other: Store) -> Iterator[str]:
    keys = [[f"thread-{n}-{k}" for k in range(20)] for n in range(_THREADS)]

    def write(n: int) -> None:
        for key in keys[n]:
            (store, other)[n % 2].put_many([(key, "some/model", Completion(key))])
            store.get_many([key])

    _concurrently(write)
    found = store.get_many([key for some in keys for key in some])
    if {key: one.text for key, one in found.items()} != {key: key for some in keys for key in some}:
        yield f"{_THREADS} threads write concurrently, but only {len(found)} of {20 * _THREADS} completions are stored"


def _maintenance_faults(store: Store) -> Iterator[str]:
    rows = [StoredCompletion(f"old-{n}", "old/model", 1e9 + n / 3, Completion(str(n))) for n in range(5)]
    before = [row for row in store.scan() if row is not None]
    if store.add_many(rows) != 5 or store.add_many([replace(rows[0], completion=Completion("other"))]):
        yield "`add_many` does not return the number of new completions"
    if [row for row in store.scan() if row is not None] != [*before, *rows]:
        yield "`scan` does not yield added completions last and with their times, or `add_many` replaces stored ones"
    if store.recent("no/model"):
        yield "`recent` returns completions of another model"
    if [one.text for one in store.recent("old/model", 2)] != ["4", "3"]:
        yield "`recent` does not return the last completions, newest first, up to the limit"
    deleted = store.prune(rows[3].created)
    if deleted != 3 or [row for row in store.scan() if row is not None] != [*before, *rows[3:]]:
        yield "`prune` does not delete exactly the completions before a time, or does not return their number"
    description = store.describe()
    if not description.location or description.version < 1 or (description.size is not None and description.size < 0):
        yield f"`describe` returns no location, version or size: {description}"


def _state_faults(store: Store, other: Store) -> Iterator[str]:
    if not isinstance(store, SharedState) or not isinstance(other, SharedState):
        return  # it is an extra
    states, times = (store, other), list[float]()
    before = (time.time(), {row.key for row in store.scan() if row is not None})

    def note(_: str | None, now: float) -> str:
        times.append(now)
        return "\0 é"

    for name in ("s/2é", "s/1", "s%", "is/1"):
        store.change_state(name, note)
    if [*other.states("s/").items()] != [("s/1", "\0 é"), ("s/2é", "\0 é")] or other.states("no/"):
        yield "`states` does not return exactly the texts whose names start with a prefix, in the order of names"
    if not before[0] - 3600 < times[0] < before[0] + 3600 or times != sorted(times):
        yield "`change_state` does not give the store's time in seconds since 1970"
    for name in ("s/1", "no"):
        try:
            other.change_state(name, lambda old, _: str(len(old or "") // 0))
        except ZeroDivisionError:
            continue
        yield "`change_state` hides an error of the change"
    store.change_state("s/2é", lambda _, __: None)
    if dict(other.states("")) != {"is/1": "\0 é", "s%": "\0 é", "s/1": "\0 é"}:
        yield "`change_state` does not remove a text for `None`, or changes it although the change failed"

    def count(n: int) -> None:
        for _ in range(10):
            states[n % 2].change_state("sum", lambda old, _: str(int(old or 0) + 1))

    _concurrently(count)
    if (total := store.states("sum").get("sum")) != str(10 * _THREADS):
        yield f"{_THREADS} threads add 1 to a text 10 times each, and it is {total} afterwards: a change was lost"
    for name in store.states(""):
        store.change_state(name, lambda _, __: None)
    if {row.key for row in store.scan() if row is not None} != before[1]:
        yield "`change_state` changes completions"


def _read_only_faults(store: Store) -> Iterator[str]:
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
    if not store.claim("a") or not store.claim("a"):
        yield "a read-only store does not grant every claim"


def _refuses(work: Callable[[], object]) -> bool:
    try:
        work()
    except StoreError:
        return True
    return False


def _concurrently(work: Callable[[int], T]) -> list[T]:
    start = Barrier(_THREADS)

    def begin(n: int) -> T:
        start.wait()
        return work(n)

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(begin, range(_THREADS)))


_REQUEST = JudgeRequest("pair", (0, 1), (0, 1), ({"role": "user", "content": "Which is better, A or B? A: yes B: no"},))
_CONCURRENT = 4


def check_judge(config: JudgeConfig) -> None:
    """Check that a judge or a transport satisfies the assumptions of the engine.

    It must answer one request and several concurrent ones, each with a completion that a store and a sum can hold. It
    must raise only evalkit's errors, and closing it twice must work. The check makes real calls: use a test server.

    Args:
        config: The judge's config, such as `JudgeConfig(model="x/y", transport="NAME")`.

    Raises:
        AssertionError: If a check fails; the message lists all problems.
    """
    if found := list(dict.fromkeys(asyncio.run(_judge_faults(config)))):
        raise AssertionError("\n".join(found))


async def _judge_faults(config: JudgeConfig) -> list[str]:
    (judge,) = make_judges(config, RunnerConfig())
    try:
        if (prepare := getattr(judge, "prepare", None)) is not None:
            await prepare()
        found = await _call_faults(judge, _REQUEST)
        each = await asyncio.gather(*(_call_faults(judge, replace(_REQUEST, sample=k)) for k in range(_CONCURRENT)))
        found += [f"with {_CONCURRENT} concurrent requests: {fault}" for faults_ in each for fault in faults_]
    except JudgeSetupError as error:
        found = [f"no call can succeed: {error}"]
    for number in ("first", "second"):
        try:
            await judge.close()
        except Exception as error:  # a plug-in's own code may fail in any way
            found.append(f"the {number} close fails with {type(error).__name__}: {error}")
    return found


async def _call_faults(judge: Judge, request: JudgeRequest) -> list[str]:
    try:
        completion = await judge.complete(request)
    except CallError as error:
        return [f"it does not answer a simple request: {error}"]
    except EvalkitError:
        raise
    except Exception as error:  # a plug-in's own code may fail in any way
        return [f"complete raises {type(error).__name__} ({error}): raise evalkit.errors.CallError for a failed call"]
    found = [] if sane(completion) == completion else ["its completion has text or numbers that a file cannot hold"]
    if not completion.text and completion.refusal is None:
        found.append("it answers a simple request with an empty text and no refusal")
    if completion.cost_usd is not None and completion.cost_usd < 0:
        found.append(f"a call costs ${completion.cost_usd}")
    return found


_PLAIN = {"id": "1", "prompt": "p", "response_a": "a", "response_b": "b"}
_VALUES = (1.0, -1.0, 0.0)


def check_probe(name: str, *, cases: Sequence[Case] = CASES) -> None:
    """Check the probe with a name: that it edits, and always in the same way, what it says.

    Args:
        name: The name of the probe, as in `probe.probes.NAME`.
        cases: Cases to edit; at least one must be edited.

    Raises:
        AssertionError: If it is not sound; the message lists everything wrong.
    """
    probe = find_probe(name)
    broken, changed = [], 0
    if not probe.what or not probe.assumes:
        broken.append("`what` or `assumes` is empty")
    for mode in [name for name in probe.modes if name != "checklist"]:  # edited as in mode pointwise
        swap = SwapConfig(policy="none")
        run = RunConfig(
            judge=JudgeConfig(model="any"), criteria={"a": Criterion()}, mode=ModeConfig(name=mode), swap=swap
        )
        for case in cases:
            before, kept = deepcopy(case), {"pointwise": 1, "listwise": len(case.responses)}
            one, two = edited_case(case, probe, run), edited_case(case, probe, run)
            if one != two:
                broken.append(f"mode {mode}, case {case.id}: two edits differ: use no random numbers")
            if case != before:
                broken.append(f"mode {mode}, case {case.id}: the edit changes the original: return a new case")
            if one is not None and len(one.responses) != kept.get(mode, 2):
                broken.append(f"mode {mode}, case {case.id}: the number of responses changes")
            changed += one is not None
    if not changed:
        broken.append("no case is edited")
    assert not broken, f"probe {name}:\n" + "\n".join(broken)


def check_benchmark(name: str, path: str | Path, *, mode: str = "pairwise") -> None:
    """Check that a benchmark satisfies the assumptions of loading and scoring.

    Its files must be read the same way each time, and recognized. Other files must be refused with one line. Its rule
    must return metrics under the benchmark's name for complete, partial and missing judgments, with values inside their
    intervals; a metric without data must not have a value. If it has rows in `metrics`, each metric must have one.

    Args:
        name: The benchmark's name: the entry point of an installed package, or one of evalkit's own.
        path: A file or folder of the benchmark; a few cases are enough.
        mode: A mode that can judge its cases.

    Raises:
        AssertionError: If a check fails; the message lists all problems.
    """
    if found := list(dict.fromkeys(_benchmark_faults(name, Path(path), mode))):
        raise AssertionError("\n".join(found))


def _benchmark_faults(name: str, path: Path, mode: str) -> Iterator[str]:
    benchmark = find_benchmark(name)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        yield f"the name '{name}' must be lowercase letters, digits and _, because it is the prefix of metric names"
    described = benchmark.described()
    for key in ("name", "title", "licence", "citation", "homepage"):
        if not described.get(key):
            yield f"described() has no {key}"
    yield from (f"{key} is empty" for key in ("kind", "expects", "note") if not getattr(benchmark, key))
    config = DatasetConfig(path=str(path), benchmark=name)
    dataset = load_cases(config, mode=mode)
    if load_cases(config, mode=mode).fingerprint != dataset.fingerprint:
        yield "its rows differ when they are read again"
    yield from _recognition_faults(benchmark, path, mode)
    yield from _row_faults(benchmark)
    run = RunConfig(
        judge=JudgeConfig(model="test/judge"),
        criteria=[{"name": "quality"}],
        mode={"name": mode},
        swap={"policy": "none" if mode == "pointwise" else "both"},
        dataset=config,
        scoring={"bootstrap": 20},
    )
    judgments = list(_judgments_of(dataset.cases, pointwise=mode == "pointwise"))
    missing = [replace(one, status="failed", value=None, criteria={}, error="failed") for one in judgments]
    half = [one if index % 2 else gone for index, (one, gone) in enumerate(zip(judgments, missing, strict=True))]
    for what, given in (("judged", judgments), ("half judged", half), ("not judged", missing)):
        yield from (f"{what}: {fault}" for fault in _metric_faults(run, dataset.cases, given, name))


def _row_faults(benchmark: Benchmark) -> Iterator[str]:
    """Yield what is wrong with the rows of its metrics, and with the metrics that its findings name."""
    name, catalog = benchmark.name, Catalog(benchmark.metrics)
    for row in catalog.rows:
        if row.group != name:
            yield f"the row '{row.name}' in metrics is not named '{name}/…'"
    substitute = getattr(benchmark, "substitute", None) or ("",)
    for key, metric in (("main_metric", getattr(benchmark, "main_metric", "")), ("substitute", substitute[0])):
        if metric and catalog.find(metric) is None:
            yield f"{key} '{metric}' has no row in metrics"


def _recognition_faults(benchmark: Benchmark, path: Path, mode: str) -> Iterator[str]:
    known = recognize_benchmark(path)
    if known is None or known.name != benchmark.name:
        yield f"{path} is recognized as {known.name if known else 'nothing'} instead: see `shapes`, `holds`"
    if benchmark.looks_like(_PLAIN):
        yield "it recognizes any row with a pair as its own"
    with TemporaryDirectory() as folder:
        other = Path(folder, "other.jsonl")
        other.write_text(json.dumps(_PLAIN) + "\n", "utf-8")
        for path_ in (other, Path(folder)):
            try:
                load_cases(DatasetConfig(path=str(path_), benchmark=benchmark.name), mode=mode)
            except DatasetError:
                continue
            except PluginError as error:
                yield f"a file of another dataset: {error.what}; raise DatasetError"
                continue
            yield "it reads a file of another dataset instead of raising DatasetError"
    if (recognized := recognize_benchmark_row(_PLAIN)) is not None and recognized.name == benchmark.name:
        yield "plain rows are recognized as its own"


def _judgments_of(cases: Sequence[Case], *, pointwise: bool) -> Iterator[Judgment]:
    """Yield a judgment of every response, or of every pair in both orders, with values that vary between cases."""
    for number, case in enumerate(cases):
        indices = range(len(case.responses))
        if pointwise:
            for k in indices:
                score = 1.0 + (number + k) % 5
                yield Judgment(case.id, (k,), (k,), 0, "judge", "ok", criteria={"quality": score})
            continue
        for index, pair in enumerate(combinations(indices, 2)):
            value = _VALUES[(number + index) % len(_VALUES)]
            yield from (Judgment(case.id, pair, shown, 0, "judge", "ok", value=value) for shown in (pair, pair[::-1]))


def _metric_faults(run: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment], name: str) -> Iterator[str]:
    plain = run.model_copy(update={"dataset": run.dataset.model_copy(update={"benchmark": None})})
    others = score_run(plain, cases, judgments).metrics
    metrics = score_run(run, cases, judgments).metrics
    own = [metric for key, metric in metrics.items() if key not in others]
    if not own:
        yield "the rule returns no metric"
    catalog = Catalog(find_benchmark(name).metrics)
    for metric in own:
        if not metric.name.startswith(f"{name}/"):
            yield f"the metric '{metric.name}' is not named '{name}/…'"
        elif catalog.rows and catalog.find(metric.name) is None:
            yield f"'{metric.name}' has no row in metrics"
        if metric.value is not None and not metric.n:
            yield f"'{metric.name}' is {metric.value} without data: a missing answer is never a score"
        if metric.value is None and not metric.note:
            yield f"'{metric.name}' has no value, and no note that explains why"
        if None not in (bounds := (metric.low, metric.value, metric.high)) and list(bounds) != sorted(bounds):  # type: ignore[type-var]
            yield f"'{metric.name}' is {metric.value}, outside its interval"
