"""Guards LiteLLM's HTTP: no redirect is followed, no body is longer than allowed, and an OpenAI answer arrives clean.

LiteLLM makes every asynchronous HTTP client through one function, which is wrapped here. Only calls made within
`guarded` are touched: whatever else uses LiteLLM in the process finds it as it was.

Calls of OpenAI's protocol within `guarded` go through LiteLLM's own HTTP handler in place of OpenAI's client, as its
setting `EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER` has it: the same request for half the work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
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
"""The providers whose answers are OpenAI chat completions as they are."""
_BY_ANOTHER = ("azure", "aiohttp_openai", "litellm_proxy", "xinference")
BY_OWN_HANDLER = tuple(name for name in OPENAI_PROTOCOL if name not in _BY_ANOTHER)
"""Those of them that LiteLLM's own HTTP handler can call."""
_ENDS = ("content-encoding", "content-length", "transfer-encoding")
_OWN_HANDLER = "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER"
Handle = Callable[["Request"], Awaitable["Response"]]


@dataclass(slots=True)
class Guard:
    """What one call may receive: at most `limit` bytes, an OpenAI answer if `openai`; `refused` is why it did not.

    With `own_handler`, OpenAI's client is left out of it; `further` are the headers that it would have sent.
    """

    limit: int
    openai: bool
    own_handler: bool = False
    further: Mapping[str, str] = field(default_factory=dict)
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

    from litellm import main

    setting = main.get_secret_bool

    def set_here(name: str, default: bool | None = None) -> bool | None:
        guard = _current.get()
        if name != _OWN_HANDLER or guard is None or not guard.own_handler:
            known: bool | None = setting(name, default)
            return known
        guard.further = _headers_of_openai(main.litellm.organization)
        return True

    main.get_secret_bool = set_here


def _headers_of_openai(organization: str | None) -> Mapping[str, str]:
    """Return the headers that OpenAI's client takes from the environment."""
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    found = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    organization = organization or os.environ.get("OPENAI_ORGANIZATION") or os.environ.get("OPENAI_ORG_ID")
    known = {"OpenAI-Organization": organization, "OpenAI-Project": os.environ.get("OPENAI_PROJECT_ID")}
    return {**{name: value for name, value in known.items() if value}, **found}


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
        request.headers.update(guard.further)
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
