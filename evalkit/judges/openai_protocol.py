"""Read responses of OpenAI-compatible servers: limit the body's size, and return the answer or raise the error."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterable, Mapping
from typing import Any

from evalkit.errors import CallError
from evalkit.judges.error_mapping import call_error
from evalkit.judges.responses import Answer, answer_of, bad_response, writable

ENCODINGS = "gzip, deflate"
"""The content encodings that `read_body` can decompress."""
_PLAIN, _ZLIB = ("", "identity"), ("gzip", "x-gzip", "deflate")


class RefusedError(Exception):
    """An error response: its message, status, and headers in the attributes that `error_mapping` reads."""

    def __init__(self, message: str, status: int, headers: Mapping[str, str], code: str | None = None) -> None:
        self.status_code, self.code = status, code
        self.litellm_response_headers = headers
        super().__init__(message)


async def read_body(chunks: AsyncIterable[bytes], encoding: str, limit: int) -> bytes:
    """Return a decompressed body.

    Args:
        chunks: The body as it arrives.
        encoding: The value of the `content-encoding` header.
        limit: The largest decompressed size, in bytes; a longer body is refused while it is read.

    Raises:
        CallError: Of kind `bad_response`, if the body is too long, or its encoding is not one of `ENCODINGS`.
    """
    encoding = encoding.strip().lower()
    if encoding not in (*_PLAIN, *_ZLIB):
        raise bad_response(f"the answer is compressed with '{writable(encoding)[:40]}', which was not requested")
    inflating = None if encoding in _PLAIN else zlib.decompressobj(wbits=47)
    body = bytearray()
    try:
        async for chunk in chunks:
            # Allow one byte above the limit, to distinguish a body that is too long from one that just fits.
            body += chunk if inflating is None else inflating.decompress(chunk, limit + 1 - len(body))
            if len(body) > limit:
                message = f"the answer is longer than judge.max_answer_bytes={limit:,}"
                raise bad_response(message, retryable=False)
    except zlib.error as error:
        raise bad_response("the answer's compressed data is corrupt") from error
    return bytes(body)


def unless_redirected(status: int, headers: Mapping[str, str]) -> None:
    """Refuse a redirect: following it would send the prompt, and perhaps the key, to another server.

    Raises:
        CallError: Of kind `bad_response`, if the status is a redirect.
    """
    if 300 <= status < 400:
        target = writable(headers.get("location", "")).partition("?")[0][:200] or "an unnamed address"
        message = f"status {status} redirects to {target}, and redirects are not followed; check judge.api_base"
        raise bad_response(message, retryable=False)


def answer_in(status: int, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Return the answer in a response.

    Raises:
        CallError: If the response is an error or not an answer.
    """
    return _answer_from(status, _parsed(body), body, headers)


def answer_in_line(row: Mapping[str, Any]) -> Answer:
    """Return the answer in a parsed line of a batch's output or error file.

    Raises:
        CallError: If the line holds an error or no answer.
    """
    response, error = row.get("response"), row.get("error")
    response = response if isinstance(response, Mapping) else {}
    status = response.get("status_code")
    status = status if type(status) is int else 200
    if error:
        error = error if isinstance(error, Mapping) else {"message": error}
        raise _call_error(status if status >= 400 else 422, {"error": error}, b"", {})
    body = response.get("body", response)
    if isinstance(body, Mapping) and isinstance(body.get("choices"), Mapping):
        body = {**body, "choices": [body["choices"]]}  # SGLang writes its only choice without a list
    return _answer_from(status, body, b"", {})


def _answer_from(status: int, parsed: Any, body: bytes, headers: Mapping[str, str]) -> Answer:
    if status >= 400:
        raise _call_error(status, parsed, body, headers)
    if not isinstance(parsed, Mapping):
        raise bad_response(f"the answer is not a JSON object: {_start(body)}")
    if error := _error_of(parsed):
        raise _call_error(_status_in(parsed), parsed, body, headers) from RefusedError(error[0], status, headers)
    return answer_of(parsed, split_thoughts=True)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _call_error(status: int, parsed: Any, body: bytes, headers: Mapping[str, str]) -> CallError:
    message, code = _error_of(parsed) or (_start(body), None)
    return call_error(RefusedError(message, status, headers, code))


def _error_of(parsed: Any) -> tuple[str, str | None] | None:
    """Return the message and code of an error in the format of OpenAI, vLLM, llama.cpp or FastAPI; `None` if absent."""
    if not isinstance(parsed, Mapping):
        return None
    error = parsed.get("error") or (parsed if "choices" not in parsed else None)
    if not isinstance(error, Mapping):
        return None if error is None else (_message(error), None)
    message, code = error.get("message") or error.get("detail"), error.get("code")
    if not message and code is None:
        return None
    return _message(message or code), None if code is None else _message(code)


def _message(value: object) -> str:
    try:
        return writable(str(value))
    except (RecursionError, ValueError):  # nested too deeply, or an integer with too many digits
        return "an error without a message"


def _status_in(parsed: Mapping[str, Any]) -> int:
    """Return the status in the body of a 200 response; such a response does not prove that the key is wrong."""
    error = parsed.get("error")
    code = error.get("code") if isinstance(error, Mapping) else parsed.get("code")
    return code if type(code) is int and code not in (401, 403, 404) else 422


def _start(body: bytes) -> str:
    return body[:200].decode("utf-8", "replace") or "it is empty"
