"""Guards LiteLLM's HTTP: no redirect is followed, no body is longer than allowed, and an OpenAI answer arrives clean.

LiteLLM makes every asynchronous HTTP client through one function, which is wrapped here. Only calls made within
`guarded` are touched: whatever else uses LiteLLM in the process finds it as it was.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalkit.errors import CallError
from evalkit.judges.openai_answer import ENCODINGS, answer_in, read_body, unless_redirected
from evalkit.judges.reading import as_openai

if TYPE_CHECKING:
    from httpx import Request, Response

OPENAI_PROTOCOL = (
    *("openai", "custom_openai", "aiohttp_openai", "openai_like", "hosted_vllm", "litellm_proxy", "lm_studio"),
    *("llamafile", "xinference", "docker_model_runner", "azure"),
    *("cerebras", "deepinfra", "deepseek", "fireworks_ai", "groq", "nvidia_nim", "openrouter", "together_ai", "xai"),
)
"""The providers whose answers are OpenAI chat completions as they are."""
_ENDS = ("content-encoding", "content-length", "transfer-encoding")
Handle = Callable[["Request"], Awaitable["Response"]]


@dataclass(slots=True)
class Guard:
    """What one call may receive: at most `limit` bytes, an OpenAI answer if `openai`; `refused` is why it did not."""

    limit: int
    openai: bool
    refused: CallError | None = None


_current: ContextVar[Guard | None] = ContextVar("evalkit_guard", default=None)


@contextmanager
def guarded(guard: Guard) -> Iterator[Guard]:
    """Guard the calls that LiteLLM makes within the block."""
    token = _current.set(guard)
    try:
        yield guard
    finally:
        _current.reset(token)


def install() -> None:
    """Guard every HTTP client that LiteLLM makes from now on."""
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    make, mount = AsyncHTTPHandler.create_async_transport, AsyncHTTPHandler.create_httpx_proxy_mounts

    def transport(*args: Any, **settings: Any) -> Any:
        return _watched(make(*args, **settings))

    def mounts(*args: Any, **settings: Any) -> Any:
        made = mount(*args, **settings)
        return made and {pattern: _watched(one) for pattern, one in made.items()}

    AsyncHTTPHandler.create_async_transport = staticmethod(transport)
    AsyncHTTPHandler.create_httpx_proxy_mounts = staticmethod(mounts)


def _watched(transport: Any) -> Any:
    if transport is not None:
        transport.handle_async_request = _watching(transport.handle_async_request)
    return transport


def _watching(handle: Handle) -> Handle:
    async def watched(request: Request) -> Response:
        guard = _current.get()
        if guard is None or request.method != "POST":
            return await handle(request)
        request.headers["accept-encoding"] = ENCODINGS
        response = await handle(request)
        try:
            return await _checked(response, guard)
        except CallError as error:
            guard.refused = error
            raise
        finally:
            await response.aclose()

    return watched


async def _checked(response: Response, guard: Guard) -> Response:
    from httpx import AsyncByteStream, Response

    headers = {name.lower(): value for name, value in response.headers.items()}
    unless_redirected(response.status_code, headers)
    assert isinstance(response.stream, AsyncByteStream)
    body = await read_body(response.stream, headers.get("content-encoding", ""), guard.limit)
    if guard.openai and response.status_code < 400:
        body = json.dumps(as_openai(answer_in(response.status_code, body, headers))).encode()
    kept = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _ENDS]
    return Response(response.status_code, headers=kept, content=body, extensions=response.extensions)
