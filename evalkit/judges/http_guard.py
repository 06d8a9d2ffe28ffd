"""Guard LiteLLM's HTTP: refuse redirects, limit the size of bodies, and clean OpenAI answers.

LiteLLM creates every asynchronous HTTP client through one function, which this module wraps. It changes only calls
made within `guarded`; other users of LiteLLM in the process are not affected.

Calls of OpenAI's protocol within `guarded` use LiteLLM's own HTTP handler instead of OpenAI's client, like LiteLLM's
setting `EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER`: the same request for half the work.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from evalkit.errors import CallError
from evalkit.judges.openai_protocol import ENCODINGS, answer_in, read_body, unless_redirected
from evalkit.judges.responses import as_openai

if TYPE_CHECKING:
    from httpx import Request, Response


OPENAI_PROTOCOL = (
    *("openai", "custom_openai", "aiohttp_openai", "openai_like", "hosted_vllm", "litellm_proxy", "lm_studio"),
    *("llamafile", "xinference", "docker_model_runner", "azure"),
    *("cerebras", "deepinfra", "deepseek", "fireworks_ai", "groq", "nvidia_nim", "openrouter", "together_ai", "xai"),
    *("dashscope", "moonshot", "nebius", "novita", "sambanova"),
)
"""The providers that answer with OpenAI chat completions."""
_OTHER_CLIENTS = ("azure", "aiohttp_openai", "litellm_proxy", "xinference")
BY_OWN_HANDLER = tuple(name for name in OPENAI_PROTOCOL if name not in _OTHER_CLIENTS)
"""The providers of these that LiteLLM's own HTTP handler can call."""
_LONGEST_ERROR, _DEEPEST_ERROR = 16_384, 32
_BODY_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
_OWN_HANDLER = "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER"
Handle = Callable[["Request"], Awaitable["Response"]]


@dataclass(slots=True)
class Guard:
    """Limits of one call, and the reason if its response was refused.

    Attributes:
        limit: The largest response body, in bytes.
        openai: Whether the response must be an OpenAI chat completion.
        own_handler: Whether LiteLLM's own HTTP handler makes the call instead of OpenAI's client.
        extra_headers: The headers that OpenAI's client would have sent.
        refused: Why the response was refused; `None` if it was not.
    """

    limit: int
    openai: bool
    own_handler: bool = False
    extra_headers: Mapping[str, str] = field(default_factory=dict)
    refused: CallError | None = None


_current: ContextVar[Guard | None] = ContextVar("evalkit_guard", default=None)


@contextmanager
def guarded(guard: Guard) -> Iterator[Guard]:
    """Guard the calls that LiteLLM makes within the block, and yield the guard."""
    token = _current.set(guard)
    try:
        yield guard
    finally:
        _current.reset(token)


def install() -> None:
    """Guard every HTTP client that LiteLLM creates from now on."""
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    make, mount = AsyncHTTPHandler.create_async_transport, AsyncHTTPHandler.create_httpx_proxy_mounts

    def transport(*args: Any, **settings: Any) -> Any:
        return _guard_transport(make(*args, **settings))

    def mounts(*args: Any, **settings: Any) -> Any:
        made = mount(*args, **settings)
        return made and {pattern: _guard_transport(one) for pattern, one in made.items()}

    AsyncHTTPHandler.create_async_transport = staticmethod(transport)
    AsyncHTTPHandler.create_httpx_proxy_mounts = staticmethod(mounts)

    from litellm import main

    setting = main.get_secret_bool

    def get_setting(name: str, default: bool | None = None) -> bool | None:
        guard = _current.get()
        if name != _OWN_HANDLER or guard is None or not guard.own_handler:
            value: bool | None = setting(name, default)
            return value
        guard.extra_headers = _openai_client_headers(main.litellm.organization)
        return True

    main.get_secret_bool = get_setting


def _openai_client_headers(organization: str | None) -> Mapping[str, str]:
    """Return the headers that OpenAI's client reads from the environment."""
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    custom = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    organization = organization or os.environ.get("OPENAI_ORGANIZATION") or os.environ.get("OPENAI_ORG_ID")
    standard = {"OpenAI-Organization": organization, "OpenAI-Project": os.environ.get("OPENAI_PROJECT_ID")}
    return {**{name: value for name, value in standard.items() if value}, **custom}


def _guard_transport(transport: Any) -> Any:
    if transport is not None:
        transport.handle_async_request = _guard_handler(transport.handle_async_request)
    return transport


def _guard_handler(handle: Handle) -> Handle:
    async def guarded_handler(request: Request) -> Response:
        guard = _current.get()
        if guard is None or request.method != "POST":
            return await handle(request)
        request.headers["accept-encoding"] = ENCODINGS
        request.headers.update(guard.extra_headers)
        response = await handle(request)
        try:
            return await _checked(response, guard)
        except CallError as error:
            guard.refused = error
            raise
        finally:
            await response.aclose()

    return guarded_handler


async def _checked(response: Response, guard: Guard) -> Response:
    from httpx import AsyncByteStream, Response

    headers = {name.lower(): value for name, value in response.headers.items()}
    unless_redirected(response.status_code, headers)
    assert isinstance(response.stream, AsyncByteStream)
    body = await read_body(response.stream, headers.get("content-encoding", ""), guard.limit)
    if guard.openai and response.status_code < 400:
        body = json.dumps(as_openai(answer_in(response.status_code, body, headers))).encode()
    if response.status_code >= 400:
        body = _readable_error(body)
    kept = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _BODY_HEADERS]
    return Response(response.status_code, headers=kept, content=body, extensions=response.extensions)


def _readable_error(body: bytes) -> bytes:
    """Return an error's body; of a long or deeply nested one the beginning, as a message.

    LiteLLM reads such a body for seconds in the event loop, and all other requests wait.
    """
    depths = accumulate(1 if bracket in b"[{" else -1 for bracket in re.findall(rb"[][{}]", body[:_LONGEST_ERROR]))
    if len(body) <= _LONGEST_ERROR and max(depths, default=0) <= _DEEPEST_ERROR:
        return body
    return json.dumps({"error": {"message": body[:2000].decode("utf-8", "replace")}}).encode()
