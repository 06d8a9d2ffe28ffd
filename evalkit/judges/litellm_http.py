"""The HTTP requests of LiteLLM: their bounds, and the answers as the provider sent them.

LiteLLM creates every asynchronous HTTP client through one function, which this module wraps to
refuse redirects, limit the size of bodies, and clean OpenAI answers. It changes only calls made
within `captured`; other users of LiteLLM in the process are not affected. Calls of OpenAI's
protocol within `captured` use LiteLLM's own HTTP handler instead of OpenAI's client, like its
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
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from evalkit.core.errors import CallError
from evalkit.core.finish_reasons import end_of
from evalkit.core.redaction import is_placeholder
from evalkit.core.values import JsonObject
from evalkit.judges.error_bodies import FIRST_ERROR
from evalkit.judges.http_bodies import (
    ENCODINGS,
    LONGEST_HEADER,
    body_of,
    unless_redirected,
)
from evalkit.judges.responses import Answer, OtherEnd, answer_in, error_in, other_end

if TYPE_CHECKING:
    from httpx import Request

_LONGEST_ERROR, _DEEPEST_ERROR = 16_384, 32
_BODY_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
_RESPONSES = "/responses"
_OWN_HANDLER = "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER"


def install_capture() -> None:
    """Guard every HTTP client that LiteLLM creates from now on, in the whole process.

    It replaces three functions of LiteLLM, so it must be called once. Calls outside of `captured`
    are unchanged.
    """
    from litellm import main
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    make = AsyncHTTPHandler.create_async_transport
    mount = AsyncHTTPHandler.create_httpx_proxy_mounts

    def transport(*args: Any, **settings: Any) -> Any:
        return _capturing(make(*args, **settings))

    def mounts(*args: Any, **settings: Any) -> Any:
        transports = mount(*args, **settings)
        return transports and {
            pattern: _capturing(transport) for pattern, transport in transports.items()
        }

    AsyncHTTPHandler.create_async_transport = staticmethod(transport)
    AsyncHTTPHandler.create_httpx_proxy_mounts = staticmethod(mounts)

    # LiteLLM reads this switch with each call. It is set for captured calls only, so other users
    # of LiteLLM in the process keep their client.
    setting = main.get_secret_bool

    def get_setting(name: str, default: bool | None = None) -> bool | None:
        call_record = _current.get()
        if name != _OWN_HANDLER or call_record is None or not call_record.own_handler:
            value: bool | None = setting(name, default)
            return value
        if not call_record.withheld:
            call_record.extra_headers = {
                **_openai_client_headers(main.litellm.organization),
                **call_record.extra_headers,
            }
        return True

    main.get_secret_bool = get_setting


@dataclass(slots=True)
class CapturedCall:
    """Limits of one call, and the reason if its response was refused.

    Attributes:
        limit: The largest response body, in bytes.
        openai: Whether the response must be an OpenAI chat completion.
        own_handler: Whether LiteLLM's own HTTP handler makes the call instead of OpenAI's client.
        withheld: Whether the server gets nothing of the environment.
        extra_headers: The headers that OpenAI's client would have sent.
        refused: Why the response was refused; `None` if it was not.
        failure: The provider's error, which LiteLLM rewords; `None` if there was none.
        answer: The answer in an OpenAI chat completion, of which LiteLLM gets no more than it may
            change.
        end: How the answer ended, in another protocol.
    """

    limit: int
    openai: bool
    own_handler: bool = False
    withheld: bool = False
    extra_headers: Mapping[str, str] = field(default_factory=dict)
    refused: CallError | None = None
    failure: CallError | None = None
    answer: Answer | None = None
    end: OtherEnd = field(default_factory=OtherEnd)


_current: ContextVar[CapturedCall | None] = ContextVar("evalkit_call", default=None)


@contextmanager
def captured(call_record: CapturedCall) -> Iterator[CapturedCall]:
    """Bound and record the call that LiteLLM makes within the block, and yield its record."""
    token = _current.set(call_record)
    try:
        yield call_record
    finally:
        _current.reset(token)


def _openai_client_headers(organization: str | None) -> Mapping[str, str]:
    """Return the headers that OpenAI's client reads from the environment.

    Args:
        organization: The organization that LiteLLM is set to; `None` for that of the environment.
    """
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    custom = {
        name.strip(): value.strip()
        for name, colon, value in (line.partition(":") for line in lines)
        if colon
    }
    standard = {
        "OpenAI-Organization": organization
        or os.environ.get("OPENAI_ORGANIZATION")
        or os.environ.get("OPENAI_ORG_ID"),
        "OpenAI-Project": os.environ.get("OPENAI_PROJECT_ID"),
    }
    return {**{name: value for name, value in standard.items() if value}, **custom}


def _accept_headers(transport: Any) -> None:
    """Let a transport of LiteLLM's read headers that are long or not ASCII, as gateways
    send them.
    """
    valid_session = getattr(transport, "get_valid_client_session", None)
    if valid_session is None:
        return

    def session() -> Any:
        client = valid_session()
        # Names of aiohttp's own: in a version without them, such an answer is a failed call.
        if hasattr(client, "_max_field_size"):
            client._max_field_size = LONGEST_HEADER
        if hasattr(client, "_response_class"):
            client._response_class = _response_in_ascii()
        return client

    transport.get_valid_client_session = session


@cache
def _response_in_ascii() -> type:
    """Return a class of aiohttp responses whose headers are ASCII: other characters become `?`."""
    from aiohttp import ClientResponse
    from multidict import CIMultiDict, CIMultiDictProxy

    class AsciiResponse(ClientResponse):
        @property
        def headers(self) -> CIMultiDictProxy[str]:
            received = self._headers
            if all(value.isascii() for value in received.values()):
                return received
            # httpx refuses others, and with them an answer that is paid for.
            return CIMultiDictProxy(
                CIMultiDict(
                    (name, value.encode("ascii", "replace").decode())
                    for name, value in received.items()
                )
            )

    return AsciiResponse


def _capturing(transport: Any) -> Any:
    """Change an httpx transport so that POST requests within `captured` are checked, and return
    it.

    A request gets the headers of the record. A redirect or a body that is too long is refused, and
    the answer or the error is kept in it. LiteLLM then gets a body that it can read. `None`,
    for no transport, is returned unchanged.
    """
    from httpx import AsyncByteStream, Response

    if transport is None:
        return None
    _accept_headers(transport)
    handle: Callable[[Request], Awaitable[Response]] = transport.handle_async_request

    async def handle_and_capture(request: Request) -> Response:
        """Send a request, keep its answer or error in the current record, and return a response
        that LiteLLM can read.

        Raises:
            CallError: If the response is a redirect, too long, or not an answer; `refused` has
                it, too.
        """
        call_record = _current.get()
        if call_record is None or request.method != "POST":
            return await handle(request)
        if call_record.withheld:  # clients read more headers from the environment
            _keep_plain_headers(request)
        request.headers["accept-encoding"] = ENCODINGS
        request.headers.update(call_record.extra_headers)
        response = await handle(request)
        try:
            headers = {name.lower(): value for name, value in response.headers.items()}
            unless_redirected(response.status_code, headers)
            assert isinstance(response.stream, AsyncByteStream)
            body = await body_of(
                response.status_code,
                response.stream,
                headers.get("content-encoding", ""),
                call_record.limit,
            )
            if response.status_code >= FIRST_ERROR:
                call_record.failure = error_in(response.status_code, body, headers)
                body = _readable_error(body)
            elif call_record.openai and not request.url.path.endswith(_RESPONSES):
                call_record.answer = answer_in(response.status_code, body, headers)
                # LiteLLM gets a short valid answer: what a server adds cannot make it fail or
                # slow.
                body = json.dumps(_stand_in(call_record.answer)).encode()
            else:
                call_record.end = other_end(body)
        except CallError as error:
            # Kept, because LiteLLM catches the exception and raises its own.
            call_record.refused = error
            raise
        finally:
            await response.aclose()
        # The body is decompressed and has another length now, so these headers would be wrong.
        kept = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in _BODY_HEADERS
        ]
        return Response(
            response.status_code,
            headers=kept,
            content=body,
            extensions=response.extensions,
        )

    transport.handle_async_request = handle_and_capture
    return transport


_PLAIN_HEADERS = frozenset(
    (
        "accept",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    )
)


def _keep_plain_headers(request: Request) -> None:
    """Remove all headers that could hold a value of the environment; the key is a placeholder."""
    for name in list(request.headers):
        value = request.headers[name].removeprefix("Bearer ")
        if name not in _PLAIN_HEADERS and not is_placeholder(value):
            del request.headers[name]


def _stand_in(answer: Answer) -> JsonObject:
    """Return the shortest OpenAI chat completion from which LiteLLM reads an answer's
    text, tool call and price.
    """
    message: JsonObject = {"role": "assistant", "content": answer.content}
    if answer.arguments is not None:
        function = {"name": "answer", "arguments": answer.arguments}
        message["tool_calls"] = [
            {"id": "call_1", "type": "function", "function": function}
        ]
    body: JsonObject = {"id": "", "object": "chat.completion", "created": 0}
    finish = _OPENAI_ENDS.get(end_of(answer.finish_reason), answer.finish_reason)
    body["choices"] = [{"index": 0, "finish_reason": finish, "message": message}]
    body |= {} if answer.model is None else {"model": answer.model}
    body["service_tier"] = answer.tier  # LiteLLM cannot read Groq's answers without it
    if (prompt := answer.usage.prompt_tokens) is not None:
        written = answer.usage.completion_tokens
        if answer.cached:
            details = {"prompt_tokens_details": {"cached_tokens": answer.cached}}
        else:
            details = {}
        body["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "total_tokens": prompt + (written or 0),
            **details,
        }
    return body


_OPENAI_ENDS = {
    "length": "length",
    "truncated": "length",
    "refused": "content_filter",
}


def _readable_error(body: bytes) -> bytes:
    """Return an error's body; of a long or deeply nested one the beginning, as a message.

    LiteLLM reads such a body for seconds in the event loop, and all other requests wait.
    """
    depths = accumulate(
        1 if bracket in b"[{" else -1
        for bracket in re.findall(rb"[][{}]", body[:_LONGEST_ERROR])
    )
    if len(body) <= _LONGEST_ERROR and max(depths, default=0) <= _DEEPEST_ERROR:
        return body
    return json.dumps(
        {"error": {"message": body[:2000].decode("utf-8", "replace")}}
    ).encode()
