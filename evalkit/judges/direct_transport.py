"""Call an OpenAI-compatible server over plain HTTP: a tenth of LiteLLM's work per call,
without importing LiteLLM.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError, JudgeSetupError
from evalkit.core.types import Message
from evalkit.core.values import Json, JsonObject
from evalkit.guard.credentials import is_withheld, stand_in
from evalkit.judges import context, setup
from evalkit.judges.adaptations import OPTIONAL, Shape
from evalkit.judges.error_mapping import clean_message
from evalkit.judges.http_bodies import (
    ENCODINGS,
    LONGEST_HEADER,
    body_of,
    read_body,
    unless_redirected,
)
from evalkit.judges.model_judge import ProviderReply
from evalkit.judges.pricing import entry_of, listed_cost, price_list, tier_of
from evalkit.judges.responses import Answer, answer_in, positive, reported_context
from evalkit.judges.setup import LOCAL

if TYPE_CHECKING:
    from aiohttp import ClientSession

# LiteLLM reads these prefixes of a model name as the protocol; they are not part of the name.
_PREFIXES = (*setup.OPENAI_SERVERS, "ollama", "ollama_chat")
_OPENAI_ALIASES = ("custom_openai", "aiohttp_openai", "openai_like")
_CHUNK = 2**16
SUPPORTED = ("response_format", "tools", *OPTIONAL)


class DirectTransport:
    """Posts to `<judge.api_base>/chat/completions`, with the key from the provider's
    environment variable if it is set.

    Args:
        config: The config of one judge, not of a panel.
        runner: Provides the timeout of one call, in seconds.

    Raises:
        JudgeSetupError: If the config has no `api_base`.
    """

    def __init__(self, config: JudgeConfig, runner: RunnerConfig) -> None:
        self.config = config
        self.timeout = runner.timeout
        model = config.model or ""
        if config.api_base is None or model.startswith(LOCAL):
            raise JudgeSetupError(
                f"transport direct needs the address of an OpenAI-compatible server for {model}",
                where="judge.api_base",
                remedy=(
                    "set it, for example to http://127.0.0.1:8000/v1, or set"
                    " judge.transport=litellm"
                ),
            )
        self._base = config.api_base.rstrip("/")
        self._proxy: str | None = None
        self._session: ClientSession | None = None
        self._entry: Json = {}
        self.context: int | None = None
        """The model's context as the server reports it."""
        self._tokenizes = True
        self._asking: asyncio.Task[None] | None = None
        """The question for the context; calls need not wait for it, as a server of chat refuses
        what is too long."""

    async def open(
        self, judge: str, *, check: bool = True
    ) -> tuple[setup.Target, Shape]:
        """Check the endpoint, unless `check` is false; return the target and the shape of the first
        request.

        A shape is a rung, which is the format of structured answers, and the parameters that are
        not sent. The best rung that the price list has for the model is tried first.

        Raises:
            JudgeSetupError: If the endpoint does not accept connections.
        """
        target = _target(self.config.model or "", self._base)
        if check:
            await setup.check(target, judge=judge)
        prices = await asyncio.to_thread(price_list)
        self._entry = entry_of(prices, target.model)
        self._proxy = setup.proxy_of(self._base)
        setup.check_listed_mode(self._entry, self.config)
        self._session = self._session or _session(
            target, self.timeout, self.config.headers
        )
        if check and self.config.context is None:
            # In the background: a server that does not answer this question must not delay the
            # first call.
            self._asking = asyncio.create_task(self._ask_context(target.name))
        rung = self.config.response_format
        if rung == "auto":
            rung = setup.top_rung(
                listed=target.name in prices or target.model in prices,
                response_schema=bool(self._entry.get("supports_response_schema")),
                functions=bool(self._entry.get("supports_function_calling")),
                supported=SUPPORTED,
            )
        return target, Shape(rung)

    async def send(self, target: setup.Target, call: Json) -> ProviderReply:
        """Send one call and return the reply.

        Raises:
            CallError: If the call fails.
        """
        # Redirects are never followed: they would send the prompt and the key to another host.
        status, content, headers = await self._post(
            f"{self._base}/chat/completions", self.body(target, call)
        )
        return self._reply(target, call, answer_in(status, content, headers), headers)

    def _reply(
        self,
        target: setup.Target,
        call: Json,
        answer: Answer,
        headers: Mapping[str, str],
    ) -> ProviderReply:
        model = answer.model or target.name
        tier = tier_of(answer.tier, call.get("service_tier"))
        cost = listed_cost(
            target.provider, (model, target.name), answer.usage, answer.cached, tier
        )
        return ProviderReply(replace(answer, model=model), cost, headers)

    async def count(
        self, target: setup.Target, messages: Sequence[Message]
    ) -> int | None:
        """Return the number of tokens of messages, as vLLM's `/tokenize` counts them;
        `None` if the server does not.
        """
        if self._tokenizes:
            raw = messages[-1]["role"] == context.TEXT
            text = (
                {"prompt": messages[-1]["content"]}
                if raw
                else {"messages": list(messages)}
            )
            url = f"{self._base.removesuffix('/v1')}/tokenize"
            if number := positive(
                await self._asked("POST", url, {"model": target.name, **text}), "count"
            ):
                return number
        # Asked once: a server without `/tokenize` would otherwise be asked before every call.
        self._tokenizes = False
        return None

    async def _ask_context(self, model: str) -> None:
        self.context = reported_context(
            await self._asked("GET", f"{self._base}/models"), model
        )

    async def _asked(self, method: str, url: str, body: Json | None = None) -> Any:
        """Return the parsed JSON answer to an optional question about the server.

        Returns `None` if the server cannot be reached, or its answer is too long or not JSON. The
        status is not looked at. `open` must have been called before.
        """
        from aiohttp import ClientError, ClientTimeout

        assert self._session is not None
        seconds = ClientTimeout(total=setup.CONNECT_SECONDS)
        sent = self._session.request(
            method,
            url,
            json=body,
            proxy=self._proxy,
            allow_redirects=False,
            timeout=seconds,
        )
        try:
            async with sent as response:
                chunks = response.content.iter_chunked(_CHUNK)
                encoding = response.headers.get("content-encoding", "")
                return json.loads(
                    await read_body(chunks, encoding, self.config.max_answer_bytes)
                )
        except (CallError, ClientError, OSError, ValueError, RecursionError):
            return None

    def body(self, target: setup.Target, call: Json) -> JsonObject:
        """Return the JSON body that sends a call."""
        body = {"model": target.name, **call}
        if target.provider == "hosted_vllm" and "tools" in call:
            body["tools"] = _without_strictness(call["tools"])
        return body | (body.pop("extra_body", None) or {})

    def entry(self) -> Json:
        """Return the model's entry in LiteLLM's price list."""
        return self._entry

    async def close(self) -> None:
        """Close the connections."""
        session = self._session
        self._session = None
        if self._asking is not None:
            self._asking.cancel()
        if session is not None:
            await session.close()

    async def _post(self, url: str, body: Json) -> tuple[int, bytes, Mapping[str, str]]:
        """Send one request; return the status, the decompressed body, and the headers by
        lowercase name.

        `open` must have been called before.

        Raises:
            CallError: Of kind `timeout` or `connection`, which can be retried; or about a
                redirect or a body that is too long.
        """
        from aiohttp import ClientConnectorError, ClientError

        assert self._session is not None
        try:
            async with self._session.post(
                url, json=body, proxy=self._proxy, allow_redirects=False
            ) as response:
                headers = {
                    name.lower(): value for name, value in response.headers.items()
                }
                unless_redirected(response.status, headers)
                chunks = response.content.iter_chunked(_CHUNK)
                encoding = headers.get("content-encoding", "")
                limit = self.config.max_answer_bytes
                body_read = await body_of(response.status, chunks, encoding, limit)
                return response.status, body_read, headers
        except (
            TimeoutError
        ) as error:  # before ClientError: aiohttp's own timeouts are both
            raise CallError(
                "timeout", f"no answer within {self.timeout:g} s", retryable=True
            ) from error
        except (ClientError, OSError) as error:
            unreached = isinstance(error, ClientConnectorError | ConnectionRefusedError)
            raise CallError(
                "connection",
                clean_message(str(error) or type(error).__name__),
                retryable=True,
                scope="outage" if unreached else "server",
            ) from error


def _without_strictness(schema: Any) -> Any:
    """Return a schema as LiteLLM sends it to vLLM, which does not accept
    `additionalProperties` in a tool.
    """
    if isinstance(schema, list):
        return [_without_strictness(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: _without_strictness(part)
        for name, part in schema.items()
        if name not in ("additionalProperties", "strict")
    }


def _session(
    target: setup.Target, timeout: float, headers: Mapping[str, str]
) -> ClientSession:
    """Return a session that sends the config's headers and the provider's key, if there is one.

    Args:
        target: The model and the server's settings.
        timeout: The seconds that one call may take.
        headers: The headers of `judge.headers`.
    """
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

    name = _key_name(target.provider)
    key = os.environ.get(name)
    if is_withheld(target.settings["api_base"]):
        # A server that a file names, and that nobody trusted, gets a placeholder.
        key = stand_in(name)
    return ClientSession(
        # The engine limits the number of concurrent calls; the connector does not.
        connector=TCPConnector(limit=0, ttl_dns_cache=300),
        timeout=ClientTimeout(total=timeout),
        # A few bytes can decompress to gigabytes, so `read_body` decompresses with a limit.
        auto_decompress=False,
        # Gateways add headers, such as policies, beyond the 8 kB that are allowed by default.
        max_field_size=LONGEST_HEADER,
        headers={
            **headers,
            "Accept-Encoding": ENCODINGS,
            **({"Authorization": f"Bearer {key}"} if key else {}),
        },
    )


def _target(model: str, base: str) -> setup.Target:
    prefix, slash, name = model.partition("/")
    has_provider = bool(slash) and prefix in _PREFIXES
    provider = "openai" if not has_provider or prefix in _OPENAI_ALIASES else prefix
    missing = () if os.environ.get(_key_name(provider)) else (_key_name(provider),)
    return setup.Target(
        model,
        name if has_provider else model,
        provider,
        base,
        missing,
        {"api_base": base},
    )


def _key_name(provider: str) -> str:
    return f"{provider.upper()}_API_KEY"
