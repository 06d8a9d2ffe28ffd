"""Read the body of a response: decompressed, of a bounded size, and never from a redirect."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, Mapping

from evalkit.core.errors import CallError
from evalkit.judges.error_mapping import writable
from evalkit.judges.responses import bad_response

ENCODINGS = "gzip, deflate"
"""The content encodings that `read_body` can decompress."""
LONGEST_HEADER = 65_536
"""The longest header that is read: gateways add policies and the like."""
_REDIRECTS = range(300, 400)
_LONGEST_ADDRESS = 200
_LONGEST_NAME = 40
"""The most characters of an address, and of a name of an encoding, that a message shows."""
_ANY_ZLIB = 47
"""The `wbits` of zlib that reads gzip and deflate, whatever their window: 32 + 15."""
_PLAIN = ("", "identity")
_ZLIB = ("gzip", "x-gzip", "deflate")


async def read_body(chunks: AsyncIterable[bytes], encoding: str, limit: int) -> bytes:
    """Return a body, decompressed.

    Args:
        chunks: The body as it arrives.
        encoding: The value of the `content-encoding` header; empty for none.
        limit: The largest decompressed size, in bytes; a longer body is refused while it is read.

    Raises:
        CallError: Of kind `bad_response`, if the body is too long or damaged, or its encoding is
            not one of `ENCODINGS`.
    """
    name = encoding.strip().lower()
    if name not in (*_PLAIN, *_ZLIB):
        shown = writable(name)[:_LONGEST_NAME]
        raise bad_response(
            f"the answer is compressed with '{shown}', which was not requested"
        )
    inflating = None if name in _PLAIN else zlib.decompressobj(wbits=_ANY_ZLIB)
    body = bytearray()
    try:
        async for chunk in chunks:
            # Allow one byte above the limit, to distinguish a body that is too long from one that
            # just fits.
            body += (
                chunk
                if inflating is None
                else inflating.decompress(chunk, limit + 1 - len(body))
            )
            if len(body) > limit:
                message = f"the answer is longer than judge.max_answer_bytes={limit:,}"
                raise bad_response(message, retryable=False)
    except zlib.error as error:
        raise bad_response("the answer's compressed data is corrupt") from error
    return bytes(body)


def unless_redirected(status: int, headers: Mapping[str, str]) -> None:
    """Refuse a redirect: following it would send the prompt, and perhaps the key, to
    another server.

    Raises:
        CallError: Of kind `bad_response` and about the address, if the status is a redirect.
    """
    if status in _REDIRECTS:
        # What follows a question mark may be a secret.
        address, _, _ = writable(headers.get("location", "")).partition("?")
        target = address[:_LONGEST_ADDRESS] or "an unnamed address"
        message = (
            f"status {status} redirects to {target}, and redirects are not followed"
        )
        raise CallError("bad_response", message, retryable=False, scope="address")


async def body_of(
    status: int, chunks: AsyncIterable[bytes], encoding: str, limit: int
) -> bytes:
    """Return a response's body as `read_body` does; empty if an error's body cannot be
    read: its status says enough.

    Raises:
        CallError: Of kind `bad_response`, if the body of an answer cannot be read.
    """
    try:
        return await read_body(chunks, encoding, limit)
    except CallError:
        if status < 400:
            raise
        return b""
