"""The requests of the next round of a run, and their files.

Judging with stored answers only records what would be sent; a round is written to files with an
index next to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from glob import escape
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

from evalkit.config import RunConfig
from evalkit.config.stopping import refuse_stop
from evalkit.core.atomic_files import file_errors, write_files
from evalkit.core.errors import ConfigError
from evalkit.core.hashing import is_content_key
from evalkit.core.protocols import CompletionCache, Evaluator, Judge
from evalkit.core.regular_files import open_file
from evalkit.core.spool import Spool
from evalkit.core.types import Case, Completion, JudgeRequest, Rung
from evalkit.core.values import Json, frozen
from evalkit.engine.answer_estimates import prompt_tokens
from evalkit.engine.answered_judge import AnsweredJudge, not_stored
from evalkit.engine.judging import judge_cases
from evalkit.engine.progress import JudgingResult
from evalkit.engine.requests import call_key, steps_left
from evalkit.judges import make_arbiter, make_judges, setup
from evalkit.judges.adaptations import RUNGS, Shape
from evalkit.judges.model_judge import ModelJudge
from evalkit.judges.pricing import batch_entry

URL = "/v1/chat/completions"
_SORTED_BY = 240
"""Characters of a prompt by which requests are sorted after their system message."""
_UNLIMITED = {
    "budget_usd": None,
    "budget_calls": None,
    "retries": 0,
    "max_failure_rate": 1.0,
}
INDEX = ".index.jsonl"
_START = b'{"evalkit_batch"'
MAX_REQUESTS, MAX_MEGABYTES = 50_000, 200
"""The limits of a file of OpenAI's batch API."""


@cache
def codec(kind: type) -> Any:
    """Return the validator of a dataclass."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind).validator


@frozen
class BatchTarget:
    """The model that a file of requests is for, with what is needed to read its answers.

    Attributes:
        model: The model as the config names it.
        name: The model's name for the provider, as in the price list.
        provider: LiteLLM's name of the provider.
        api_base: The server's address, if it is set.
        price: USD per million prompt and answer tokens, if `judge.price` is set.
        logprobs: Whether answers must have usable log-probabilities.
        max_answer_bytes: The largest answer to read.
    """

    model: str
    name: str
    provider: str
    api_base: str | None
    price: tuple[float, float] | None
    logprobs: bool
    max_answer_bytes: int


@frozen
class BatchRequest:
    """One recorded request: its content key, its target, its rung, its place in the
    order of shared prefixes.

    `ceiling` is the most that it can cost in USD, `None` if that is unknown.
    """

    key: str
    target: BatchTarget
    rung: Rung
    prefix: tuple[str, str]
    position: int
    size: int
    ceiling: float | None


@dataclass(slots=True)
class Round:
    """The requests that can be sent now, each once.

    Attributes:
        model: The name of the model in the requests, instead of the provider's.
        requests: The requests, in the order in which they were recorded.
        lines: The JSON of their bodies, in the same order.
        rounds: The number of rounds that these requests are likely to need, this one included.
        tokens: The estimated tokens of the prompts.
        batched: The names of judges that can be batched.
        skipped: The names of judges that cannot be batched, with the reason.
    """

    model: str | None = None
    requests: list[BatchRequest] = field(default_factory=list)
    lines: Spool[bytes] = field(default_factory=Spool)
    rounds: int = 0
    tokens: int = 0
    batched: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)
    _keys: set[str] = field(default_factory=set)
    _systems: dict[str, str] = field(default_factory=dict)

    def add(
        self,
        key: str,
        target: BatchTarget,
        rung: Rung,
        request: JudgeRequest,
        body: Json,
        rounds: int,
        ceiling: float | None = None,
    ) -> None:
        """Add a request, unless an equal one is in the round.

        Args:
            key: The content key, by which the answer is stored.
            target: The judge's model, server and price.
            rung: The format of the answer.
            request: The request as planned.
            body: The JSON that is sent; `model` of the round replaces its model.
            rounds: The rounds that the case of this request still needs, with this one.
            ceiling: The most USD that its answer can cost; `None` if it is not known.
        """
        if key in self._keys:
            return
        self._keys.add(key)
        body = body if self.model is None else {**body, "model": self.model}
        try:
            line = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # a text that UTF-8 cannot encode is escaped
            line = json.dumps(body, separators=(",", ":")).encode()
        # Requests are sorted by their prefix, so that a provider's prompt cache finds equal
        # starts next to each other.
        first, *contents = [message["content"] for message in request.messages]
        system = first if request.messages[0]["role"] == "system" else ""
        prompt = "\n".join(contents if system else [first, *contents])[:_SORTED_BY]
        # equal system prompts are one object in memory
        prefix = (self._systems.setdefault(system, system), prompt)
        self.requests.append(
            # `position` is the index of the line in `lines`, before it is appended below.
            BatchRequest(
                key=key,
                target=target,
                rung=rung,
                prefix=prefix,
                position=len(self.lines),
                size=len(line),
                ceiling=ceiling,
            )
        )
        self.lines.append(line)
        self.tokens += prompt_tokens(request)
        self.rounds = max(self.rounds, rounds)


class RecordingJudge(ModelJudge):
    """A judge that builds the body of each request as if to send it, and records it instead.

    Args:
        inner: The judge that would send the requests.
        into: Where to record them.
        later: The number of rounds that need the answers of these requests.
        third_pass: Whether a third request may follow those of a pair.
    """

    def __init__(
        self,
        inner: ModelJudge,
        into: Round,
        later: int = 0,
        *,
        third_pass: bool = False,
    ) -> None:
        super().__init__(inner.config, inner.spec, inner.transport)
        # Nothing is sent, so nothing may wait for a limit.
        self.concurrency = self.rpm = self.tpm = None
        self._into, self._later, self._third_pass = into, later, third_pass

    def ceiling(self, request: JudgeRequest) -> float | None:
        """Return the most that a request of a batch can cost in USD; `None` if that is unknown."""
        return setup.ceiling(batch_entry(self.transport.entry()), self.config, request)

    async def _open(self) -> tuple[setup.Target, Shape]:
        transport: Any = self.transport
        # No check of the server: a plan to a file needs no connection.
        target, shape = await transport.open(self.spec.name, check=False)
        return target, shape

    async def _send(self, request: JudgeRequest, shape: Shape) -> Completion:
        """Record the request of a call for the round, and send nothing.

        Raises:
            CallError: Always, as there is no answer.
        """
        assert self._target is not None
        transport: Any = self.transport
        config = self.config
        price = self.config.price
        target = BatchTarget(
            model=self.spec.model,
            name=self._target.name,
            provider=self._target.provider,
            api_base=config.api_base,
            price=None if price is None else (price.input, price.output),
            logprobs=config.logprobs is True,
            max_answer_bytes=config.max_answer_bytes,
        )
        body = transport.body(self._target, self._call(request, shape))
        rounds = (
            self._later
            + 1
            + steps_left(request)
            + (self._third_pass and not request.third)
        )
        rung = shape.rung if request.answer is not None else "text"
        self._into.add(
            call_key(self.spec, request),
            target,
            rung,
            request,
            body,
            rounds,
            self.ceiling(request),
        )
        # A failure with this kind: the engine goes on, so that all requests of the round are
        # recorded.
        raise not_stored()


async def record_round(
    config: RunConfig,
    cases: Iterable[Case],
    evaluator: Evaluator,
    store: CompletionCache | None,
    into: Round,
    later: int = 0,
) -> JudgingResult:
    """Add to `into` each request of a run that can be sent now and has no stored answer.

    These are the planned requests, and the follow-up requests of stored answers. Nothing is sent
    and nothing is stored.

    Args:
        config: The config of the run.
        cases: The cases.
        evaluator: Plans and reads the requests.
        store: Where answers are looked up; `None` for no store.
        into: The round that requests are added to.
        later: The number of rounds that need the answers of these requests.

    Returns:
        The judgments of stored answers; those of recorded requests have failed.

    Raises:
        ConfigError: If the config has a cascade or a stop, or is invalid.
        StoreError: If the store fails.
    """
    if config.judge.cascades:
        problem = (
            "a cascade asks its next judge only where the answers of the one before are not sure"
            " enough"
        )
        remedy = "use evalkit run with runner=batch, which sends a batch to each judge in turn"
        raise ConfigError(problem, where="judge.vote=cascade", remedy=remedy)
    # A stopping rule needs answers one after the other, and a round has them all at once.
    refuse_stop(config)
    third_pass = config.swap.policy == "both" and config.swap.resolve == "third_pass"

    def recording(judge: Judge) -> Judge:
        if (reason := reason_against(judge)) is None:
            assert isinstance(judge, ModelJudge)
            into.batched.add(judge.spec.name)
            return RecordingJudge(judge, into, later, third_pass=third_pass)
        into.skipped[judge.spec.name] = reason
        return AnsweredJudge(judge.spec)

    arbiter = make_arbiter(config)
    return await judge_cases(
        cases,
        evaluator,
        [recording(judge) for judge in make_judges(config.judge, config.runner)],
        store,
        # Each recorded request fails, so no cap, no retry and no failure rate may end the
        # recording.
        config.runner.model_copy(update=_UNLIMITED),
        arbiter=None if arbiter is None else recording(arbiter),
    )


def reason_against(judge: Judge) -> str | None:
    """Return why a judge cannot be batched; `None` if it can."""
    if getattr(judge, "free", False):
        return f"{judge.spec.model} runs in evalkit's own process"
    if not isinstance(judge, ModelJudge) or not hasattr(judge.transport, "body"):
        return "its transport cannot write requests to a file"
    if judge.config.endpoint != "chat":
        return (
            f"batches hold chat requests, and judge.endpoint is {judge.config.endpoint}"
        )
    return None


@frozen
class RequestFile:
    """A file of requests to one model."""

    name: str
    target: BatchTarget
    rounds: int


@frozen
class _Header:
    evalkit_batch: Literal[1]
    store: str | None
    files: tuple[RequestFile, ...]


class RequestIndex:
    """The requests that were written: the file and the rung of each content key.

    Attributes:
        files: The files of requests, with the folders they are in.
        stores: The stores for which they were written.
    """

    def __init__(self) -> None:
        self.files: list[tuple[Path, RequestFile]] = []
        self.stores: set[str] = set()
        self._keys: dict[bytes, tuple[int, Rung]] = {}

    def load(self, path: Path, only: str | None = None) -> None:
        """Add the requests in an index file, or only those of the file of requests named `only`.

        An index has a header in its first line, then a line for each request: its content key,
        the position of its file in the header, and its rung (the format of its answer). A request
        that was written again counts for the index that is loaded last.

        Raises:
            ConfigError: If it cannot be read or is not an index.
        """
        try:
            with open_file(path) as lines:
                header = codec(_Header).validate_json(next(lines, b""))
                # Positions in an index file count from 0; here they follow the files loaded
                # before.
                start = len(self.files)
                self.files += [(path.parent, file) for file in header.files]
                self.stores |= {header.store} if header.store is not None else set()
                for line in lines:
                    key, position, rung = json.loads(line)
                    if (
                        not is_content_key(key)
                        or position not in range(len(header.files))
                        or rung not in RUNGS
                    ):
                        raise ValueError(line)
                    # Keys are kept as bytes: half the memory, for indexes with millions of
                    # requests.
                    if only in (None, header.files[position].name):
                        self._keys[bytes.fromhex(key)] = start + position, rung
        except OSError as error:
            raise ConfigError(
                f"cannot be read ({error.strerror})", where=str(path)
            ) from None
        except (ValueError, TypeError, LookupError, RecursionError):
            remedy = "restore the file, or write the requests again"
            raise ConfigError(
                "is not an index of `evalkit batch write`",
                where=str(path),
                remedy=remedy,
            ) from None

    def add(self, file: RequestFile, rungs: Mapping[str, Rung]) -> None:
        """Add the requests of a file, each with its rung."""
        self._keys |= {
            bytes.fromhex(key): (len(self.files), rung) for key, rung in rungs.items()
        }
        self.files.append((Path(), file))

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._keys

    def __getitem__(self, key: str) -> tuple[int, Rung]:
        """Return the number of a key's file, and its rung; the key must be a content key."""
        return self._keys[bytes.fromhex(key)]

    def keys_of(self, files: set[int]) -> Iterator[tuple[str, int]]:
        """Yield the content keys in these files, with the number of the file."""
        return (
            (key.hex(), position)
            for key, (position, _) in self._keys.items()
            if position in files
        )


def index_of(path: Path) -> Path:
    """Return the index's path of a path that was given to `evalkit batch write`."""
    return path.with_name(f"{path.stem}{INDEX}")


def find_indexes(folders: Sequence[Path]) -> list[Path]:
    """Return the index files in these folders, the newest last; other files of such a
    name are left out.
    """
    indexes: dict[Path, Path] = {}
    for path in (path for folder in folders for path in folder.glob(f"*{INDEX}")):
        with suppress(OSError), open_file(path) as file:
            if file.read(len(_START)) == _START:
                indexes[path.resolve()] = path
    return sorted(indexes.values(), key=lambda path: (path.stat().st_mtime_ns, path))


def load_named(requests: Path, index: RequestIndex) -> None:
    """Add the requests that were written to a file, to all files of one round, or that
    an index file lists.

    Raises:
        ConfigError: If there is no index of this file.
    """
    if requests.name.endswith(INDEX):
        index.load(requests)
        return
    # First as the whole round, then as one numbered part of it. `only` limits a part to its own
    # requests.
    stems = [requests.stem, requests.stem.rpartition("-")[0]]
    for position, stem in enumerate(stems):
        index_path = requests.with_name(f"{stem}{INDEX}")
        if stem and index_path.is_file():
            index.load(index_path, only=requests.name if position else None)
            return
    remedy = "name a file that `evalkit batch write` wrote, with its index next to it"
    raise ConfigError("has no index", where=str(requests), remedy=remedy)


def check_free(path: Path) -> None:
    """Check that no file of another round is where a round would be written.

    Raises:
        ConfigError: If there is one.
    """
    taken = [
        path,
        index_of(path),
        *path.parent.glob(f"{escape(path.stem)}-*{path.suffix}"),
    ]
    if existing := next((path for path in taken if path.exists()), None):
        remedy = "give another name: each round has its own files, and late answers need them"
        raise ConfigError("exists already", where=str(existing), remedy=remedy)


def write_round(
    path: Path,
    batch_round: Round,
    *,
    store: str | None,
    max_requests: int = MAX_REQUESTS,
    max_bytes: int = MAX_MEGABYTES * 10**6,
) -> list[tuple[RequestFile, list[BatchRequest]]]:
    """Write a round's requests, ordered by shared prefix, and their index; return the
    files with their requests.

    Each file has requests to one model. If there are several files, they are numbered:
    `requests-1.jsonl` and so on.

    Args:
        path: The file to write.
        batch_round: The requests.
        store: The URL of the store for which they are written; `None` to not name it.
        max_requests: The most requests in a file.
        max_bytes: The largest file.

    Raises:
        ConfigError: If the files cannot be written, or one name of a model is set for several
            models.
    """
    # By target first, because `groupby` only joins neighbors; the key makes the order the same in
    # every run.
    order = sorted(
        batch_round.requests,
        key=lambda request: (repr(request.target), request.prefix, request.key),
    )
    by_target = [
        list(group) for _, group in groupby(order, key=lambda request: request.target)
    ]
    if batch_round.model is not None and len(by_target) > 1:
        models = ", ".join(sorted(group[0].target.name for group in by_target))
        raise ConfigError(
            f"names one model, and the requests are for {models}", where="--model"
        )
    parts = [
        part
        for group in by_target
        for part in _split_by_limits(group, max_requests, max_bytes)
    ]
    if len(parts) == 1:
        names = [path.name]
    else:
        names = [f"{path.stem}-{n}{path.suffix}" for n, _ in enumerate(parts, 1)]
    files = [
        RequestFile(name, part[0].target, batch_round.rounds)
        for name, part in zip(names, parts, strict=True)
    ]
    header = json.dumps(asdict(_Header(1, store, tuple(files)))).encode() + b"\n"
    entries = (
        b'["%b",%d,"%b"]\n' % (request.key.encode(), number, request.rung.encode())
        for number, part in enumerate(parts)
        for request in part
    )
    # All files are written, or none: requests without their index could not be read back.
    contents: dict[str, Iterator[bytes]] = {
        index_of(path).name: chain([header], entries)
    }
    for name, part in zip(names, parts, strict=True):
        contents[name] = (
            _line(request.key, batch_round.lines[request.position]) for request in part
        )
    with file_errors("cannot be written", path):
        write_files(path.parent, contents)
    return list(zip(files, parts, strict=True))


def _split_by_limits(
    requests: Sequence[BatchRequest], max_requests: int, max_bytes: int
) -> list[list[BatchRequest]]:
    """Return requests in parts that keep the limits of a file, in the same order."""
    parts: list[list[BatchRequest]] = [[]]
    size = 0
    # all keys have the same length
    envelope = len(_line(requests[0].key, b""))
    for request in requests:
        # A request that alone exceeds the limit still gets a file; the provider reports it.
        if parts[-1] and (
            len(parts[-1]) == max_requests or size + envelope + request.size > max_bytes
        ):
            parts.append([])
            size = 0
        parts[-1].append(request)
        size += envelope + request.size
    return parts


def _line(key: str, body: bytes) -> bytes:
    return b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n' % (
        key.encode(),
        URL.encode(),
        body,
    )
