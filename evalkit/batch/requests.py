"""Find the next round of a run's requests: judge with stored answers only, and record what would be sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from evalkit.config import RunConfig
from evalkit.core.spool import Spool
from evalkit.engine import JudgingResult, judge
from evalkit.engine.requests import call_key
from evalkit.engine.token_estimates import prompt_tokens
from evalkit.errors import CallError
from evalkit.judges import make_arbiter, make_judges, setup
from evalkit.judges.model_judge import ModelJudge
from evalkit.judges.pricing import batch_entry
from evalkit.judges.setup import Shape
from evalkit.protocols import CompletionCache, Evaluator, Judge
from evalkit.types import Case, Completion, JudgeRequest, JudgeSpec, Rung

URL = "/v1/chat/completions"
_SORTED_BY = 240
"""Characters of a prompt by which requests are sorted after their system message."""
_UNLIMITED = {"budget_usd": None, "budget_calls": None, "retries": 0, "max_failure_rate": 1.0}
Outcome: TypeAlias = CallError | Completion
Record: TypeAlias = Callable[["RecordingJudge", JudgeRequest, Rung, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One recorded request: its content key, its target, its rung, its place in the order of shared prefixes.

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
        body: Mapping[str, Any],
        rounds: int,
        ceiling: float | None = None,
    ) -> None:
        """Add a request, unless an equal one is in the round."""
        if key in self._keys:
            return
        self._keys.add(key)
        line = _encoded(body if self.model is None else {**body, "model": self.model})
        first, *rest = [message["content"] for message in request.messages]
        system = first if request.messages[0]["role"] == "system" else ""
        prompt = "\n".join(rest if system else [first, *rest])[:_SORTED_BY]
        prefix = (self._systems.setdefault(system, system), prompt)
        self.requests.append(BatchRequest(key, target, rung, prefix, len(self.lines), len(line), ceiling))
        self.lines.append(line)
        self.tokens += prompt_tokens(request)
        self.rounds = max(self.rounds, rounds)


def _encoded(body: Mapping[str, Any]) -> bytes:
    """Return a body as JSON in UTF-8; a text that UTF-8 cannot encode is escaped."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":")).encode()


class RecordingJudge(ModelJudge):
    """A judge that builds the body of each request as if to send it, and records it instead.

    Args:
        inner: The judge that would send the requests.
        record: Called with this judge, the request, its rung and its body.
    """

    def __init__(self, inner: ModelJudge, record: Record) -> None:
        super().__init__(inner.config, inner.spec, inner.transport)
        self.concurrency = self.rpm = self.tpm = None
        self._record = record

    @property
    def target(self) -> BatchTarget:
        """The target of the requests; call `prepare` first."""
        assert self._target is not None
        config, price = self.config, self.config.price
        return BatchTarget(
            self.spec.model,
            self._target.name,
            self._target.provider,
            config.api_base,
            None if price is None else (price.input, price.output),
            config.logprobs is True,
            config.max_answer_bytes,
        )

    def ceiling(self, request: JudgeRequest) -> float | None:
        """Return the most that a request of a batch can cost in USD; `None` if that is unknown."""
        return setup.ceiling(batch_entry(self.transport.entry()), self.config, request)

    async def _open(self) -> tuple[setup.Target, Shape]:
        transport: Any = self.transport
        target, shape = await transport.open(self.spec.name, check=False)
        return target, shape

    async def _send(self, request: JudgeRequest, shape: Shape) -> Completion:
        transport: Any = self.transport
        body = transport.body(self._target, self._call(request, shape))
        self._record(self, request, shape.rung if request.answer is not None else "text", body)
        raise _not_stored()


class AnsweredJudge:
    """A judge that sends nothing: what is not stored ends as in `outcomes`, by content key."""

    free = True

    def __init__(self, spec: JudgeSpec, outcomes: Mapping[str, Outcome] = MappingProxyType({})) -> None:
        self.spec, self._outcomes = spec, outcomes

    def ceiling(self, _: JudgeRequest) -> float:
        """Return 0: nothing is sent."""
        return 0.0

    async def complete(self, request: JudgeRequest) -> Completion:
        """Return or raise what a request came to."""
        outcome = self._outcomes.get(call_key(self.spec, request)) or _not_stored()
        if isinstance(outcome, Completion):
            return outcome
        raise CallError(outcome.kind, outcome.message, retryable=False)

    async def close(self) -> None:
        """Do nothing."""


def _not_stored() -> CallError:
    return CallError("not_stored", "no batch has the answer yet; repeat the run", retryable=False)


async def record_round(
    config: RunConfig,
    cases: Iterable[Case],
    evaluator: Evaluator,
    store: CompletionCache | None,
    into: Round,
    later: int = 0,
) -> JudgingResult:
    """Add to `into` each request of a run that can be sent now and has no stored answer.

    These are the planned requests, and the follow-up requests of stored answers. Nothing is sent and nothing is stored.
    `later` is the number of rounds that need the answers of these requests.

    Raises:
        ConfigError: If something is described wrongly.
        StoreError: If the store fails.
    """
    third_pass = config.swap.policy == "both" and config.swap.resolve == "third_pass"

    def record(by: RecordingJudge, request: JudgeRequest, rung: Rung, body: Mapping[str, Any]) -> None:
        rounds = later + _turns(request) + (third_pass and not request.third)
        into.add(call_key(by.spec, request), by.target, rung, request, body, rounds, by.ceiling(request))

    def recording(one: Judge) -> Judge:
        if (reason := reason_against(one)) is None:
            assert isinstance(one, ModelJudge)
            into.batched.add(one.spec.name)
            return RecordingJudge(one, record)
        into.skipped[one.spec.name] = reason
        return AnsweredJudge(one.spec)

    arbiter = make_arbiter(config)
    return await judge(
        cases,
        evaluator,
        [recording(one) for one in make_judges(config.judge, config.runner)],
        store,
        config.runner.model_copy(update=_UNLIMITED),
        arbiter=None if arbiter is None else recording(arbiter),
    )


def _turns(request: JudgeRequest) -> int:
    return 1 if request.then is None else 1 + _turns(request.then)


def reason_against(one: Judge) -> str | None:
    """Return why a judge cannot be batched; `None` if it can."""
    if getattr(one, "free", False):
        return f"{one.spec.model} runs in evalkit's own process"
    if not isinstance(one, ModelJudge) or not hasattr(one.transport, "body"):
        return "its transport cannot write requests to a file"
    return None
