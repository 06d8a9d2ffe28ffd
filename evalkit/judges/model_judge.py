"""A judge backed by one model: choose the request's shape, and interpret answers and
refusals, for any transport.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from typing import Protocol

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError, JudgeSetupError
from evalkit.core.finish_reasons import CONTEXT_FULL
from evalkit.core.tokens import message_tokens, share_seen
from evalkit.core.types import Completion, JudgeRequest, JudgeSpec, Rung
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.judges import setup
from evalkit.judges.adaptations import (
    LIMITS,
    OPTIONAL,
    RUNGS,
    TOP,
    Shape,
    adapted,
    bounded_answer,
    describe,
    is_unspecific,
    lower_rung,
    merged_messages,
    names_parameter,
    refuses_parameter,
)
from evalkit.judges.completions import check_logprobs, completion_of, priced
from evalkit.judges.context import excess, room
from evalkit.judges.error_bodies import PAGE
from evalkit.judges.images import wire_messages
from evalkit.judges.model_list import confirm
from evalkit.judges.responses import Answer
from evalkit.judges.setup import COPIES, ENDPOINT, FREE, HEADERS, LOCAL
from evalkit.judges.waits import pause_from_headers

_log = logging.getLogger("evalkit.judges")
_UNSENT = (ENDPOINT, HEADERS)
_MOST_STEPS = len(RUNGS) + len(OPTIONAL) + 4
_ROUNDING = 8
"""Tokens by which servers count differently at the end of a context."""
_ADAPTABLE = ("bad_request", "auth", "server", "bad_response")
_ENDING = ("key", "account")
_GONE = ("model", "address")
_NO_ROUTE = 404
_DENIALS = 3
"""Requests that are denied, with no answer between them, until more than the requests is to
blame."""
_GATEWAYS = re.compile(
    rf"{PAGE}\b|404 page not found|no route matched|default backend|an empty response",
    re.IGNORECASE,
)
"""How a gateway that knows no server, as during a restart, says so: servers answer with JSON."""


@frozen
class ProviderReply:
    """A provider's reply.

    Attributes:
        answer: The cleaned answer.
        cost_usd: Its cost by the price list; `None` if the list does not have the model.
        headers: The response headers, by lowercase name.
    """

    answer: Answer
    cost_usd: float | None
    headers: Mapping[str, str] = field(default_factory=dict)


def max_concurrency(config: JudgeConfig) -> int | None:
    """Return the concurrency limit of one judge, or `None` if only the runner limits it.

    A copy of the embedded model answers one request at a time: requests must not wait there while
    their timeout runs.
    """
    if (config.model or "").startswith(LOCAL):
        return min(config.concurrency or COPIES, COPIES)
    return config.concurrency


def sent_params(params: Json, request: JudgeRequest) -> JsonObject:
    """Return the sampling parameters of one request: the seed of sample k is the
    judge's seed plus k.

    With one seed, all samples would be the same answer. The content key contains the seed and the
    sample, so it does not need their sum. The request's token limit, if it has one, can only lower
    the judge's limit.
    """
    sent = {name: value for name, value in params.items() if name not in _UNSENT}
    if request.max_tokens is not None:
        name = next((name for name in LIMITS if name in params), LIMITS[0])
        sent[name] = min(request.max_tokens, params.get(name) or request.max_tokens)
    if (seed := params.get("seed")) is not None and not request.shared:
        sent["seed"] = seed + request.sample
    return sent


class Transport(Protocol):
    """Sends calls to a provider."""

    async def open(self, judge: str) -> tuple[setup.Target, Shape]:
        """Prepare the transport, and return the target of the calls and the shape of
        the first request.

        Raises:
            JudgeSetupError: If no call can succeed.
        """
        ...

    async def send(self, target: setup.Target, call: Json) -> ProviderReply:
        """Send one call, given as the arguments of OpenAI's chat completions, and return the reply.

        Raises:
            CallError: If the call fails.
            JudgeSetupError: If no call can succeed.
        """
        ...

    def entry(self) -> Json:
        """Return the model's entry in the price list; empty before `open`, or if the
        list does not have the model.
        """
        ...

    async def close(self) -> None:
        """Close the connections; `open` may be called again."""
        ...


class InProcess:
    """What the transports of models in this process share: no connection, no key and no
    entry in the price list.

    Args:
        config: The config of one judge, not of a panel.
        _: The runner's settings, which a call within the process does not need.
    """

    def __init__(self, config: JudgeConfig, _: RunnerConfig) -> None:
        self.config = config
        self.model = config.model or ""

    @classmethod
    def check(cls, config: JudgeConfig) -> None:
        """Check the model and the parameters of a config, without loading the model.

        Raises:
            JudgeSetupError: If there is no such model, or a parameter is not valid.
        """

    @classmethod
    def identified(cls, model: str) -> str:
        """Return the name of a model as it enters the content key.

        Raises:
            JudgeSetupError: If there is no such model, or it is not installed.
        """
        return model

    def entry(self) -> Json:
        """Return an empty entry: the price list has none for a model in this process."""
        return {}

    async def close(self) -> None:
        """Do nothing."""


class ModelJudge:
    """One model behind a transport; each `complete` sends one call, and the engine retries.

    Args:
        config: The config of one judge, not of a panel.
        spec: The judge's identity.
        transport: Sends the calls.
        key: The key of its config, for errors.
    """

    def __init__(
        self,
        config: JudgeConfig,
        spec: JudgeSpec,
        transport: Transport,
        key: str = "judge",
    ) -> None:
        self.config, self.spec = config, spec
        self.key = key
        self.free = (config.model or "").startswith(FREE)
        self.concurrency = max_concurrency(config)
        self.rpm = config.rpm
        self.tpm = config.tpm
        from asyncio import Lock  # late: a run that asks nothing makes no judge

        self.transport = transport
        self._target: setup.Target | None = None
        self._shape = Shape("text")
        self._answered = False
        self._weighable = False
        self._proven: set[str] = set()
        """The formats in which the provider has answered."""
        self._format_cleared = False
        """Whether no format helped against an error without a reason."""
        self._prompt_cut = False
        self._denials = 0
        self._probing = Lock()
        self.notes: list[str] = []
        """How requests differ from the config, because the provider refused something."""
        self.rest = 0.0
        """Seconds until the provider accepts more calls, from the headers of its last answer."""
        self._preparing = Lock()

    @property
    def dropped(self) -> tuple[str, ...]:
        """The optional parameters that are set but dropped because the provider does
        not support them.
        """
        return tuple(sorted(self._shape.dropped & set(self.spec.params)))

    @property
    def moved_system(self) -> bool:
        """Whether the system text is sent in the first user message because the role is refused."""
        return self._shape.merged

    async def prepare(self) -> None:
        """Import the packages and check the model, key and endpoint, once.

        Raises:
            JudgeSetupError: If no call to this judge can succeed.
        """
        # Many calls begin at once; the first one prepares, the others wait for it.
        async with self._preparing:
            if self._target is None:
                with setup.keys_below(self.key):
                    self._target, self._shape = await self._open()
                if self.dropped:
                    dropped = ", ".join(self.dropped)
                    _log.warning(
                        "judge %s: the provider does not support %s; continuing without",
                        self.spec.name,
                        dropped,
                    )

    async def confirm(self) -> None:
        """Ask the server whether it accepts the key and has the model; call `prepare` first.

        Raises:
            JudgeSetupError: If it does not.
        """
        if self._target is not None:
            with setup.keys_below(self.key):
                await confirm(self._target, self.config)

    def ceiling(self, request: JudgeRequest) -> float | None:
        """Return the most that one call can cost in USD, or `None` if that is unknown;
        call `prepare` first.
        """
        if self.free:
            return 0.0
        return setup.ceiling(self.transport.entry(), self.config, request)

    async def too_long(self, request: JudgeRequest) -> str | None:
        """Return why a request does not fit the model's context, as far as that is
        known without sending it.
        """
        if (count := getattr(self.transport, "count", None)) is None:
            return None
        fits = room(
            self.config,
            self.transport.entry(),
            getattr(self.transport, "context", None),
        )
        return await excess(
            request.messages, fits, partial(count, self._target, request.messages)
        )

    async def complete(self, request: JudgeRequest) -> Completion:
        """Send one request in the best shape that the provider is known to accept.

        A shape is the rung of structured output (the format of the answer), and what differs
        because the provider refuses it. If the provider refuses the shape, the request is sent
        again in the next one, which is remembered.

        Raises:
            CallError: If the call fails.
            JudgeSetupError: If no call to this judge can succeed.
        """
        if self._target is None:
            await self.prepare()
        # Each turn changes the shape in one way. The bound covers every rung and every optional
        # parameter once.
        for _ in range(_MOST_STEPS):
            shape = self._shape
            try:
                return await self._send(request, shape)
            except CallError as error:
                # The provider has answered, only in the form of an error: no other shape would
                # change it.
                if (ended := ended_answer(error, shape.rung)) is not None:
                    return ended
                if self._step(shape, request, error):
                    continue
                answer = await self._other_format(shape, request, error)
                if answer is not None:
                    return answer
                # Unchanged by this call and by others: no shape is left to try.
                if self._shape == shape:
                    with setup.keys_below(self.key):
                        raise self._final(error) from error.__cause__
        raise CallError(
            "bad_request",
            "the provider refuses this request in every supported format",
            retryable=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        self._target = None
        await self.transport.close()

    async def _open(self) -> tuple[setup.Target, Shape]:
        return await self.transport.open(self.spec.name)

    def _call(self, request: JudgeRequest, shape: Shape) -> JsonObject:
        """Return the arguments of OpenAI's chat completions that send a request in a shape."""
        answer = bounded_answer(request.answer, self.spec.longest_string)
        bounded = request
        if answer is not request.answer:
            bounded = replace(request, answer=answer)
        settings = setup.settings(
            shape, bounded, sent_params(self.spec.params, request)
        )
        messages = request.messages
        if shape.merged or self.spec.merged:
            messages = merged_messages(messages)
        return {"messages": wire_messages(messages, self.config), **settings}

    async def _send(self, request: JudgeRequest, shape: Shape) -> Completion:
        """Send one request in a shape and return its completion, with its price if it is known.

        Latency is in seconds. What the answer shows about the key, the format and the prompt is
        remembered for later calls. `prepare` must have been called before.

        Raises:
            CallError: If the call fails, or the answer shows that the prompt was cut off.
        """
        assert self._target is not None
        started = time.monotonic()
        reply = await self.transport.send(self._target, self._call(request, shape))
        # From here on, a vague denial is about its own request: the key and the model have
        # worked.
        self._answered = True
        self._denials = 0
        self._check_prompt(request, reply.answer)
        if request.answer is not None:
            # A format that has worked once is not given up for one failure.
            self._proven.add(shape.rung)
        self.rest = pause_from_headers(reply.headers)
        rung = shape.rung if request.answer is not None else "text"
        answer = reply.answer
        finish = self._end(answer, request)
        if finish != answer.finish_reason:
            answer = replace(answer, finish_reason=finish)
        read = completion_of(answer, rung=rung, latency=time.monotonic() - started)
        if self.config.logprobs is True:
            self._weighable = check_logprobs(reply.answer, weighable=self._weighable)
        return priced(read, 0.0 if self.free else reply.cost_usd, self.config.price)

    def _check_prompt(self, request: JudgeRequest, answer: Answer) -> None:
        """Report once that the server read much less than was sent: it cuts long prompts."""
        received = answer.usage.prompt_tokens
        if self._prompt_cut or received is None:
            return
        share = share_seen(request.messages, received)
        if share is None:
            return
        self._prompt_cut = True
        sent = message_tokens(request.messages)
        note = (
            f"the judge saw about {share:.0%} of a prompt of about {sent:,} tokens: the server"
            f" counted {received:,}, so it cuts prompts; raise its context (with Ollama:"
            " judge.params.num_ctx)"
        )
        _log.warning("judge %s: %s", self.spec.name, note)
        self.notes.append(note)

    def _end(self, answer: Answer, request: JudgeRequest) -> str | None:
        """Return why an answer ended, `None` if that is not known.

        An answer that is said to end by its length before the token limit has filled the context:
        `CONTEXT_FULL`.
        """
        prompt = answer.usage.prompt_tokens
        written = answer.usage.completion_tokens
        if answer.finish_reason != "length" or prompt is None or written is None:
            return answer.finish_reason
        context = self.config.context or getattr(self.transport, "context", None)
        sent = sent_params(self.spec.params, request)
        limit = next((sent[name] for name in LIMITS if name in sent), None)
        # "length" by the context and not by `max_tokens`: raising `max_tokens` would not help, so
        # the advice is another one.
        if context is not None and prompt + written >= context - _ROUNDING:
            return CONTEXT_FULL
        if isinstance(limit, int) and written < limit - _ROUNDING:
            return CONTEXT_FULL
        return answer.finish_reason

    def _step(self, sent: Shape, request: JudgeRequest, error: CallError) -> bool:
        """Adapt the shape to what an error says; return whether the request can be sent again.

        Args:
            sent: The shape of the request that failed; another request may have changed the shape
                since.
            request: The request.
            error: Why it failed.
        """
        if error.kind not in _ADAPTABLE or error.scope in ("key", "account"):
            return False
        if error.kind != "bad_request" and error.http_status < 400:
            return False
        if error.kind == "bad_response" and error.http_status < 500:
            return False  # the endpoint accepted the request; the model failed
        if self._shape != sent:  # another request changed it in the meantime
            return True
        # An error of the server's own may name a parameter in passing, so it must say more.
        names = set(self.spec.params) - sent.dropped
        if error.http_status >= 500:
            names = {name for name in names if refuses_parameter(error.message, name)}
        shape = adapted(
            sent,
            error.message,
            fixed=self._is_fixed(request),
            sent=names,
            top=self._top(sent),
            system=not self.spec.merged
            and any(message["role"] == "system" for message in request.messages),
        )
        if shape is None or (
            self.config.logprobs is True and "logprobs" in shape.dropped
        ):
            return False
        self._adapt(sent, shape, error)
        return True

    def _is_fixed(self, request: JudgeRequest) -> bool:
        # The questions to a decision model are its format.
        fixed = self.config.response_format != "auto" or self.config.decides
        return fixed or request.answer is None

    def _top(self, shape: Shape) -> int | None:
        """Return the number of alternatives that were requested with log-probabilities."""
        if TOP not in self.spec.params or TOP in shape.dropped:
            return None
        number = self.spec.params[TOP] if shape.top is None else shape.top
        if isinstance(number, int):
            return number
        return None

    def _adapt(self, sent: Shape, shape: Shape, error: CallError) -> None:
        change = describe(sent, shape)
        _log.warning(
            "judge %s: %s; continuing %s", self.spec.name, error.message, change
        )
        self.notes.append(change)
        self._shape = shape

    async def _other_format(
        self, sent: Shape, request: JudgeRequest, error: CallError
    ) -> Completion | None:
        """Try the next formats once, after an error without a reason; return the answer in the
        first that works.

        Returns `None` if the error has a reason, the format may not change, or no format works. A
        format that works is kept for later requests. Only one request tries at a time.

        Args:
            sent: The shape of the request that failed.
            request: The request.
            error: Why it failed.
        """
        if not is_unspecific(error) or self._is_fixed(request) or sent.rung == "text":
            return None
        # One call probes; the others then find the result in `_shape` or `_format_cleared`.
        async with self._probing:
            settled = self._format_cleared or sent.rung in self._proven
            if settled or self._shape != sent:
                return None
            shape: Shape | None = sent
            if error.kind == "bad_request":
                shape = lower_rung(sent)  # the same request is refused again
            while shape is not None:
                try:
                    answer = await self._send(request, shape)
                except CallError as refusal:
                    if (ended := ended_answer(refusal, shape.rung)) is not None:
                        return ended
                    # An error of another kind says nothing about the format.
                    if refusal.kind not in _ADAPTABLE or refusal.scope in _ENDING:
                        break
                    shape = lower_rung(shape)
                    continue
                if shape != sent:
                    self._adapt(sent, shape, error)
                return answer
            self._format_cleared = True
        return None

    def _final(self, error: CallError) -> CallError | JudgeSetupError:
        """Return a call's error as the engine gets it: a `JudgeSetupError` ends the run, a
        `CallError` only the call.

        An error ends the run if it is about the key, the account, the model or the address. If it
        could also be about this one input, the run ends at the third such error without an answer
        between them.
        """
        assert self._target is not None
        endpoint = self.config.endpoint
        rung = self.config.response_format
        if error.scope in _ENDING:
            return setup.setup_error(self._target, error, endpoint, rung)
        fixed = rung != "auto" or (endpoint != "chat" and setup.is_unsupported(error))
        blames = not self._answered and self._blames(error)
        # A page with a good status may be one of a short maintenance.
        page = (
            error.kind == "bad_response"
            and error.retryable
            and 200 <= error.http_status < 300
        )
        if self._answered:  # so the key, the model and the format were right
            if is_gateways(error):
                return away(error)
            ends = error.kind == "not_found" or (error.scope in _GONE and not page)
            # One redirect among answers may be about this request.
            unproven = error.scope not in _GONE or error.kind == "bad_response"
        else:
            refused = error.kind in ("auth", "not_found") or error.scope == "address"
            # No route has what is asked for, in any format.
            refused = refused or error.http_status == _NO_ROUTE
            ends = refused or (error.kind == "bad_request" and (fixed or blames))
            vague = error.kind == "auth" and error.scope == "request"
            unproven = vague or page or (blames and not fixed)
        if ends and unproven:
            # Nothing says whether the key, the parameter, the model or this input is refused.
            self._denials += 1
            ends = self._denials >= _DENIALS
        if ends:
            return setup.setup_error(self._target, error, endpoint, rung)
        return error

    def _blames(self, error: CallError) -> bool:
        """Return whether an error names a parameter that the config sets, so that every
        request has it.
        """
        if error.kind != "bad_request":
            return False
        return any(names_parameter(error.message, name) for name in self.spec.params)


def is_gateways(error: CallError) -> bool:
    """Return whether a gateway says that there is no such address, and not the server behind it."""
    if error.scope != "address" or error.http_status != 404:
        return False
    return _GATEWAYS.match(error.message) is not None


def away(error: CallError) -> CallError:
    """Return the error of a gateway whose server has answered before, and may be restarting."""
    return CallError(
        error.kind,
        f"{error.message}; if it stays so, check judge.api_base",
        retryable=True,
        scope="outage",
        status=error.http_status,
    )


def ended_answer(error: CallError, rung: Rung) -> Completion | None:
    """Return the answer that an error stands for, because the provider ended it; `None`
    if there is none.
    """
    if error.kind == "content_filter":
        return Completion(
            "", finish_reason="content_filter", refusal=error.message, rung=rung
        )
    if error.kind == "truncated":
        return Completion("", finish_reason="length", rung=rung)
    return None
