"""Checks for plug-ins, to be called in their own tests.

`check_evaluator(evaluator)`, `check_judge(config)`, `check_benchmark(name, path)`, `check_store(backend, url)`.
"""

from __future__ import annotations

import asyncio
import json
import re
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

from evalkit.config import DatasetConfig, JudgeConfig, RunConfig, RunnerConfig
from evalkit.datasets import load_cases
from evalkit.datasets.named import recognize_benchmark, recognize_benchmark_row
from evalkit.engine.requests import call_key
from evalkit.errors import CallError, DatasetError, EvalkitError, JudgeSetupError, PluginError, StoreError
from evalkit.evaluators.third_party import impossible
from evalkit.judges import make_judges
from evalkit.judges.responses import sane
from evalkit.plugins import find_benchmark
from evalkit.protocols import Benchmark, Evaluator, Judge, Store, StoreBackend
from evalkit.scoring import score_run
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
"""Cases that every evaluator should manage; those it refuses with an EvalkitError are not for it."""

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
        "a refusal beside the text": Completion("", refusal="I will not judge this."),
        "a text that a filter stopped": Completion("", finish_reason="content_filter"),
        "thinking and nothing else": Completion("<think>Let me see. A? B? 3? 4?</think>"),
        "a megabyte of one letter": Completion("x" * 1_000_000),
        "a hundred thousand brackets": Completion("[" * 100_000),
        "characters that are none": Completion("\x00\ud800\ufffe\u202e"),
    }
)
"""Completions that hold no answer to anything."""

_SPEC = JudgeSpec("judge", "test/judge")
_OWN = Completion("I would say hello.")
_STEPS = 4
_READ = ("ok", "repaired")


def check_evaluator(evaluator: Evaluator, *, cases: Sequence[Case] = CASES, answers: Sequence[str] = ()) -> None:
    """Check that an evaluator keeps what the engine and scoring rely on.

    Its plan is the same each time and its requests have keys of their own; it reads every completion, however odd, as
    the judgment it is or as one further ask, and takes no value from one that holds none; and the same answer to the
    same responses in the other order is the opposite judgment.

    Args:
        evaluator: as `make_evaluator` makes it.
        cases: what to plan for.
        answers: completions' texts it must be able to read, one at least with a winner where it compares responses;
            without any, they are made from the schema that a request asks to be answered by.

    Raises:
        AssertionError: if it does not; says everything that is wrong.
    """
    if found := list(dict.fromkeys(faults(evaluator, cases=cases, answers=answers))):
        raise AssertionError("\n".join(found))


def faults(evaluator: Evaluator, *, cases: Sequence[Case] = CASES, answers: Sequence[str] = ()) -> Iterator[str]:
    """Yield in words everything that `check_evaluator` would complain of."""
    planned = [(case, list(evaluator.plan(case))) for case in cases]
    for case, requests in planned:
        if list(evaluator.plan(deepcopy(case))) != requests:
            yield f"case '{case.id}': plan gives other requests the second time"
        if not requests:
            yield f"case '{case.id}': plan asks nothing"
        yield from _planning(case, requests)
        yield from _reading_answers(evaluator, requests, answers)
    yield from _reading_odd(evaluator, [request for _, requests in planned for request in requests[:2]][:2])


def _planning(case: Case, requests: Sequence[JudgeRequest]) -> Iterator[str]:
    everyone = range(len(case.responses))
    for request in requests:
        where = f"case '{case.id}', shown {list(request.shown)}"
        if request.case_id != case.id:
            yield f"{where}: case_id is '{request.case_id}'"
        if not request.unit or list(request.unit) != sorted(set(request.unit)) or not set(request.unit) <= {*everyone}:
            yield f"{where}: unit {list(request.unit)} is not an ascending choice of {list(everyone)}"
        if tuple(sorted(request.shown)) != request.unit:
            yield f"{where}: shown is not unit {list(request.unit)} in some order"
        if request.turn != 0 or request.sample < 0:
            yield f"{where}: turn is {request.turn} and sample {request.sample} in a first ask"
        if not request.messages or not all(_is_message(message) for message in request.messages):
            yield f"{where}: messages are not texts with a role, one at least"
    places = [(request.unit, request.shown, request.sample) for request in requests]
    for place in {place for place in places if places.count(place) > 1}:
        yield f"case '{case.id}': unit, order and sample {place} are asked twice"
    keys = [call_key(_SPEC, request.then or request) for request in requests]
    if len(set(keys)) < len(keys):
        yield f"case '{case.id}': two requests have one content key, so that one answer would stand for both"


def _is_message(message: Mapping[str, Any]) -> bool:
    return bool(message.get("role")) and isinstance(message.get("content"), str)


def _reading_odd(evaluator: Evaluator, requests: Sequence[JudgeRequest]) -> Iterator[str]:
    for what, completion in ODD.items():
        for request in requests:
            judgment, wrong = _read(evaluator, request, completion)
            yield from (f"{what}: {one}" for one in wrong)
            if judgment is not None and (judgment.status in _READ or _says_something(judgment)):
                yield f"{what}: read as {judgment.status}, with a value; what is no answer is missing"


def _reading_answers(evaluator: Evaluator, requests: Sequence[JudgeRequest], answers: Sequence[str]) -> Iterator[str]:
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
                yield from _flipping(judgment, other)
    if not readable:
        yield f"none of the answers could be read: give `answers` as a judge would write them ({_sample(requests)})"
    elif compared and not leaning:
        yield "every answer is a tie, which does not show whether margins flip with the order: give one with a winner"


def _reversed(request: JudgeRequest) -> JudgeRequest:
    then = None if request.then is None else _reversed(request.then)
    return replace(request, shown=request.shown[::-1], then=then)


def _sample(requests: Sequence[JudgeRequest]) -> str:
    return f"tried {example_answer(requests[0])[:200]!r}" if requests else "nothing was asked"


def _flipping(one: Judgment, other: Judgment) -> Iterator[str]:
    if one.ranking is not None and one.shown[::-1] == other.shown:
        if _places(one) != _places(other):
            yield "the same ranking of what is shown, shown in reverse, is not the reverse ranking"
        return
    values = {"value": (one.value, other.value)} | {
        f"criterion '{name}'": (value, other.criteria.get(name)) for name, value in one.criteria.items()
    }
    for name, (first, second) in values.items():
        if (first is None) != (second is None) or abs((first or 0.0) + (second or 0.0)) > 1e-9:
            yield f"{name} is {first} and, with the order reversed, {second}: margins must be un-swapped, and flip"


def _places(judgment: Judgment) -> list[list[int]]:
    return [sorted(judgment.shown.index(index) for index in group) for group in judgment.ranking or ()]


def _leans(judgment: Judgment) -> bool:
    return bool(judgment.value) or len(judgment.ranking or ()) > 1


def _says_something(judgment: Judgment) -> bool:
    return judgment.value is not None or bool(judgment.criteria) or judgment.ranking is not None


def _read(evaluator: Evaluator, request: JudgeRequest, completion: Completion) -> tuple[Judgment | None, list[str]]:
    """Return the judgment a completion leads to, each ask answered by the same text, and what is wrong with it."""
    asked = request
    for _ in range(_STEPS):
        # An ask that only prepares for another is for the judge's own answer, unless that is what is odd.
        given = _OWN if asked.then is not None and completion not in ODD.values() else completion
        try:
            read, again = evaluator.read(asked, given), evaluator.read(asked, given)
        except Exception as error:
            return None, [f"read raises {type(error).__name__}: {error}; what cannot be read is a judgment too"]
        if read != again:
            return None, ["read gives something else the second time"]
        if isinstance(read, Judgment):
            return read, list(_malformed(read, request))
        if not isinstance(read, JudgeRequest):
            return None, [f"read gives a {type(read).__name__}, neither a Judgment nor a JudgeRequest"]
        if asked.then is None and read.turn != asked.turn + 1:
            return None, [f"a further ask has turn {read.turn}, after turn {asked.turn}"]
        asked = read
    return None, [f"read still asks again after {_STEPS} answers"]


def _malformed(judgment: Judgment, request: JudgeRequest) -> Iterator[str]:
    for name in ("case_id", "unit", "shown", "sample"):
        if getattr(judgment, name) != getattr(request, name):
            yield f"a judgment's {name} is {getattr(judgment, name)}, and was {getattr(request, name)} in the request"
    if judgment.status in _READ and not _says_something(judgment):
        yield f"a judgment of status {judgment.status} has no value, criteria or ranking"
    if judgment.status not in _READ and (_says_something(judgment) or not judgment.error):
        yield f"a judgment of status {judgment.status} has a value, or no error that says why it has none"
    if fault := impossible(judgment):
        yield fault


def example_answer(request: JudgeRequest) -> str:
    """Return an answer of the form that a request, or the one it prepares for, asks for; empty if it asks for none."""
    wanted = (request.then or request).answer
    return "" if wanted is None else json.dumps(_example(wanted.schema, 0), ensure_ascii=False)


def _example(schema: Mapping[str, Any], place: int) -> Any:
    """Return a value that a JSON schema allows; in a list, the item at each place takes the next of the choices."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][place % len(schema["enum"])]
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], place)
    kind = schema.get("type")
    if kind == "object":
        return {name: _example(part, place) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [_example(schema.get("items", {}), k) for k in range(max(1, schema.get("minItems", 1)))]
    if kind in ("integer", "number"):
        return min(schema.get("minimum", 0) + (place if kind == "integer" else 0), schema.get("maximum", place))
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
    """Check that a store backend keeps what `evalkit.protocols.Store` promises, as far as one process can see it.

    What it cannot see belongs into tests of the backend's own: what a killed process had put is there, its claims are
    not, and a damaged completion is an error and never another text.

    Args:
        backend: the class, as it is registered.
        url: where it makes a store; there is none yet.

    Raises:
        AssertionError: if it does not; says everything that is wrong.
    """
    if found := list(store_faults(backend, url)):
        raise AssertionError("\n".join(found))


def store_faults(backend: StoreBackend, url: str) -> Iterator[str]:
    """Yield in words everything that `check_store` would complain of."""
    if backend.exists(url):
        yield f"there is a store at {url} already, or `exists` says so: give a URL without one"
        return
    backend.check_creatable(url)
    if not _refuses(lambda: backend(url, read_only=True)):
        yield "a missing store can be opened read-only; that is a StoreError"
    if backend.exists(url):
        yield "`check_creatable` or opening read-only makes a store"
    with closing(backend(url)) as store, closing(backend(url)) as other:
        yield from _keeping(store, other)
        yield from _claiming(store, other)
        yield from _writing_at_once(store, other)
        yield from _maintaining(store)
        kept = {row.key for row in store.scan() if row is not None}
        claimed = store.claim("left")
    store.close()
    if not backend.exists(url):
        yield "`exists` does not find a store that was written"
    with closing(backend(url)) as store:
        if {row.key for row in store.scan() if row is not None} != kept:
            yield "a store that is opened again does not hold what it held when it was closed"
        if not claimed or not store.claim("left"):
            yield "a claim does not end when its store is closed"
    with closing(backend(url, read_only=True)) as store:
        yield from _reading_only(store)


def _keeping(store: Store, other: Store) -> Iterator[str]:
    kept = {f"{n:064x}": Completion(text) for n, text in enumerate(_TEXTS)} | {"f" * 64: _STORED}
    store.put_many([(key, "some/model", completion) for key, completion in kept.items()])
    for name, one in {"the store": store, "another that is open": other}.items():
        found = one.get_many([*kept, "e" * 64])
        for key in kept.keys() | found.keys():
            if found.get(key) != kept.get(key):
                yield f"{name} returns {str(found.get(key))[:80]!r} for {str(kept.get(key))[:80]!r}"
    if len(store.get_many([f"{n:064x}" for n in range(5000)])) != len(_TEXTS) or store.get_many([]):
        yield "looking up 5,000 keys, or none, does not return those that are stored"
    store.put_many([("f" * 64, "some/model", Completion("newer"))])
    if other.get_many(["f" * 64]) != {"f" * 64: Completion("newer")}:
        yield "a newer completion does not replace the older one"
    refused = _refuses(lambda: store.put_many([("d" * 64, "m", Completion("x")), ("c" * 64, "m", _HALF)]))
    found = store.get_many(["d" * 64, "c" * 64])
    if found != ({} if refused else {"d" * 64: Completion("x"), "c" * 64: _HALF}):
        yield "half a surrogate pair is neither kept as it is, nor refused by a StoreError with all it was put with"


def _claiming(store: Store, other: Store) -> Iterator[str]:
    if not store.claim("a") or store.claim("a") or other.claim("a"):
        yield "a claimed key is not claimed once"
    other.release("a")
    if other.claim("a"):
        yield "a claim ends when someone else releases the key"
    store.release("a")
    if not other.claim("a"):
        yield "a released key cannot be claimed"
    other.release("a")
    won = _at_once(lambda n: (store, other)[n % 2].claim("b"))
    if sum(won) != 1:
        yield f"{_THREADS} threads claim a key at once, and {sum(won)} of them win"
    store.release("b")
    other.release("b")


def _writing_at_once(store: Store, other: Store) -> Iterator[str]:
    keys = [[f"thread-{n}-{k}" for k in range(20)] for n in range(_THREADS)]

    def write(n: int) -> None:
        for key in keys[n]:
            (store, other)[n % 2].put_many([(key, "some/model", Completion(key))])
            store.get_many([key])

    _at_once(write)
    found = store.get_many([key for some in keys for key in some])
    if {key: one.text for key, one in found.items()} != {key: key for some in keys for key in some}:
        yield f"{_THREADS} threads write at once, and {len(found)} of {20 * _THREADS} completions are there"


def _maintaining(store: Store) -> Iterator[str]:
    rows = [StoredCompletion(f"old-{n}", "old/model", 1e9 + n / 3, Completion(str(n))) for n in range(5)]
    before = [row for row in store.scan() if row is not None]
    if store.add_many(rows) != 5 or store.add_many([replace(rows[0], completion=Completion("other"))]):
        yield "`add_many` does not return how many were new"
    if [row for row in store.scan() if row is not None] != [*before, *rows]:
        yield "`scan` does not yield what was added, last and with its times, or `add_many` replaces what is stored"
    if store.recent("no/model"):
        yield "`recent` takes one model for another"
    if [one.text for one in store.recent("old/model", 2)] != ["4", "3"]:
        yield "`recent` does not return the last completions, the newest first, no more than the limit"
    gone = store.prune(rows[3].created)
    if gone != 3 or [row for row in store.scan() if row is not None] != [*before, *rows[3:]]:
        yield "`prune` does not delete what is older than a time, and only that, and return how many"
    about = store.describe()
    if not about.location or about.version < 1 or (about.size is not None and about.size < 0):
        yield f"`describe` gives no location, version or size: {about}"


def _reading_only(store: Store) -> Iterator[str]:
    rows = [row for row in store.scan() if row is not None]
    if not rows or store.get_many([rows[0].key]) != {rows[0].key: rows[0].completion}:
        yield "a read-only store does not return what is stored"
    writes: tuple[Callable[[], object], ...] = (
        lambda: store.put_many([("new", "m", Completion("x"))]),
        lambda: store.add_many([StoredCompletion("new", "m", 0.0, Completion("x"))]),
        lambda: store.prune(1e12),
    )
    refused = [_refuses(write) for write in writes]
    if not all(refused) or list(store.scan()) != rows:
        yield "a read-only store can be changed; that is a StoreError"
    if not store.claim("a") or not store.claim("a"):
        yield "a read-only store does not grant every claim"


def _refuses(work: Callable[[], object]) -> bool:
    try:
        work()
    except StoreError:
        return True
    return False


def _at_once(work: Callable[[int], T]) -> list[T]:
    start = Barrier(_THREADS)

    def begin(n: int) -> T:
        start.wait()
        return work(n)

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(begin, range(_THREADS)))


_ASKED = JudgeRequest("pair", (0, 1), (0, 1), ({"role": "user", "content": "Which is better, A or B? A: yes B: no"},))
_AT_ONCE = 4


def check_judge(config: JudgeConfig) -> None:
    """Check that a judge, or a transport below one, keeps what the engine relies on.

    It answers one request and several at once, each with a completion that a store and a sum can hold; it raises
    nothing but evalkit's errors; and it can be closed twice. It is really called, so let it reach a server of the test.

    Args:
        config: what makes it, such as `JudgeConfig(model="x/y", transport="NAME")`.

    Raises:
        AssertionError: if it does not; says everything that is wrong.
    """
    if found := list(dict.fromkeys(asyncio.run(_judge_faults(config)))):
        raise AssertionError("\n".join(found))


async def _judge_faults(config: JudgeConfig) -> list[str]:
    (judge,) = make_judges(config, RunnerConfig())
    try:
        if (prepare := getattr(judge, "prepare", None)) is not None:
            await prepare()
        found = await _call_faults(judge, _ASKED)
        each = await asyncio.gather(*(_call_faults(judge, replace(_ASKED, sample=k)) for k in range(_AT_ONCE)))
        found += [f"with {_AT_ONCE} requests at once: {fault}" for faults_ in each for fault in faults_]
    except JudgeSetupError as error:
        found = [f"no call can succeed: {error}"]
    for number in ("first", "second"):
        try:
            await judge.close()
        except Exception as error:  # a plug-in's own code runs here, and may fail in any way
            found.append(f"the {number} close fails with {type(error).__name__}: {error}")
    return found


async def _call_faults(judge: Judge, request: JudgeRequest) -> list[str]:
    try:
        completion: Any = await judge.complete(request)
    except CallError as error:
        return [f"it does not answer a plain question: {error}"]
    except EvalkitError:
        raise
    except Exception as error:  # a plug-in's own code runs here, and may fail in any way
        return [f"complete raises {type(error).__name__} ({error}): raise evalkit.errors.CallError for a failed call"]
    if not isinstance(completion, Completion):
        return [f"complete returns {type(completion).__name__}, not a Completion"]
    found = [] if sane(completion) == completion else ["its completion holds text or numbers that no file can hold"]
    if not completion.text and completion.refusal is None:
        found.append("it answers a plain question with an empty text, and no refusal")
    if completion.cost_usd is not None and completion.cost_usd < 0:
        found.append(f"a call costs ${completion.cost_usd}")
    return found


_PLAIN = {"id": "1", "prompt": "p", "response_a": "a", "response_b": "b"}
_VALUES = (1.0, -1.0, 0.0)


def check_benchmark(name: str, path: str | Path, *, mode: str = "pairwise") -> None:
    """Check that a benchmark keeps what loading and scoring rely on.

    Its files are read the same each time, and recognized; other files are refused in one line. Its rule returns metrics
    under the benchmark's own name, for complete judgments, partial ones and none, with values inside their intervals;
    a metric without data has no value.

    Args:
        name: the name by which evalkit finds it: the entry point of an installed package, or one of evalkit's own.
        path: a file or folder of the benchmark; a few cases are enough.
        mode: a mode that judges its cases.

    Raises:
        AssertionError: if it does not; says everything that is wrong.
    """
    if found := list(dict.fromkeys(_benchmark_faults(name, Path(path), mode))):
        raise AssertionError("\n".join(found))


def _benchmark_faults(name: str, path: Path, mode: str) -> Iterator[str]:
    benchmark = find_benchmark(name)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        yield f"the name '{name}' is not lower-case letters, digits and _: it begins the names of metrics"
    described = benchmark.described()
    for key in ("name", "title", "licence", "citation", "homepage"):
        if not described.get(key):
            yield f"described() has no {key}"
    yield from (f"{key} is empty" for key in ("kind", "expects", "note") if not getattr(benchmark, key))
    config = DatasetConfig(path=str(path), benchmark=name)
    dataset = load_cases(config, mode=mode)
    if load_cases(config, mode=mode).fingerprint != dataset.fingerprint:
        yield "its rows differ the second time they are read"
    yield from _recognition_faults(benchmark, path, mode)
    run = RunConfig(
        judge=JudgeConfig(model="test/judge"),
        criteria=[{"name": "quality"}],
        mode={"name": mode},
        swap={"policy": "none" if mode == "pointwise" else "both"},
        dataset=config,
        scoring={"bootstrap": 20},
    )
    judgments = list(_judgments_of(dataset.cases, pointwise=mode == "pointwise"))
    lost = [replace(one, status="failed", value=None, criteria={}, error="failed") for one in judgments]
    half = [one if place % 2 else gone for place, (one, gone) in enumerate(zip(judgments, lost, strict=True))]
    for what, given in (("judged", judgments), ("half judged", half), ("not judged", lost)):
        yield from (f"{what}: {fault}" for fault in _metric_faults(run, dataset.cases, given, name))


def _recognition_faults(benchmark: Benchmark, path: Path, mode: str) -> Iterator[str]:
    known = recognize_benchmark(path)
    if known is None or known.name != benchmark.name:
        yield f"{path} is not recognized as its own, but as {known.name if known else 'nothing'}: see `shapes`, `holds`"
    if benchmark.looks_like(_PLAIN):
        yield "it takes any row of a pair for its own"
    with TemporaryDirectory() as folder:
        other = Path(folder, "other.jsonl")
        other.write_text(json.dumps(_PLAIN) + "\n", "utf-8")
        for place in (other, Path(folder)):
            try:
                load_cases(DatasetConfig(path=str(place), benchmark=benchmark.name), mode=mode)
            except DatasetError:
                continue
            except PluginError as error:
                yield f"a file of something else: {error.what}; raise DatasetError"
                continue
            yield "it reads a file of something else, instead of raising DatasetError"
    if (taken := recognize_benchmark_row(_PLAIN)) is not None and taken.name == benchmark.name:
        yield "plain rows are recognized as its own"


def _judgments_of(cases: Sequence[Case], *, pointwise: bool) -> Iterator[Judgment]:
    """Yield a judgment of every response, or of every pair in both orders; they vary from case to case."""
    for number, case in enumerate(cases):
        places = range(len(case.responses))
        if pointwise:
            for k in places:
                score = 1.0 + (number + k) % 5
                yield Judgment(case.id, (k,), (k,), 0, "judge", "ok", criteria={"quality": score})
            continue
        for place, pair in enumerate(combinations(places, 2)):
            value = _VALUES[(number + place) % len(_VALUES)]
            yield from (Judgment(case.id, pair, shown, 0, "judge", "ok", value=value) for shown in (pair, pair[::-1]))


def _metric_faults(run: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment], name: str) -> Iterator[str]:
    plain = run.model_copy(update={"dataset": run.dataset.model_copy(update={"benchmark": None})})
    others = score_run(plain, cases, judgments).metrics
    metrics = score_run(run, cases, judgments).metrics
    own = [metric for key, metric in metrics.items() if key not in others]
    if not own:
        yield "the rule returns no metric"
    for metric in own:
        if not metric.name.startswith(f"{name}/"):
            yield f"the metric '{metric.name}' is not named '{name}/…'"
        if metric.value is not None and not metric.n:
            yield f"'{metric.name}' is {metric.value} without data: a missing answer is never a score"
        if metric.value is None and not metric.note:
            yield f"'{metric.name}' has no value, and no note that says why"
        if None not in (bounds := (metric.low, metric.value, metric.high)) and list(bounds) != sorted(bounds):  # type: ignore[type-var]
            yield f"'{metric.name}' is {metric.value}, outside its interval"
