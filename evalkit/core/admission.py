"""Which HTTP requests a server answers: checks of origin, type, size and time that all
servers share.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from evalkit.core.errors import ConfigError
from evalkit.core.values import JsonObject, frozen

SILENT_SECONDS: Final = 30.0
"""How long the head of a request may take."""
CONNECTIONS: Final = 1_000
"""The most connections, also of clients that send nothing."""
OF_ADDRESS: Final = 250
"""The most connections of one address."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
SECURITY: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every response."""


class Refusal(Exception):  # noqa: N818
    """A request that is not answered.

    Args:
        status: The HTTP status.
        text: One line for the client.
        headers: Headers of the response.
    """

    def __init__(
        self, status: int, text: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.text = " ".join(text.split())
        self.headers = dict(headers or {})
        super().__init__(self.text)

    def response(self) -> Response:
        """Return the response."""
        return reply({"error": self.text}, self.status, self.headers)


def reply(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response in ASCII, because texts may have lone surrogates."""
    return Response(json.dumps(value), status, headers, media_type="application/json")


@frozen
class Admission:
    """The checks of a request before it is answered.

    Attributes:
        hosts: The accepted `Host` headers, so that no other website's name can lead here; `None`
            for all.
        largest: The most bytes of a body.
        seconds: The most seconds until a body is complete.
    """

    hosts: frozenset[str] | None
    largest: int
    seconds: float

    @staticmethod
    def of(host: str, port: int, *, largest: int, seconds: float) -> Admission:
        """Return the checks of a server; one that listens elsewhere than on this
        machine accepts every `Host`.
        """
        names = {f"[{name}]" if ":" in name else name for name in LOOPBACK}
        if host in LOOPBACK:
            hosts = frozenset(f"{name}:{port}" for name in names)
        else:
            hosts = None
        return Admission(hosts, largest, seconds)

    def check(self, request: Request) -> None:
        """Check where a request comes from, and the type of its body.

        Raises:
            Refusal: With status 403 if another website sends it, and 415 if it sends something
                else than JSON.
        """
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        # A page of any website can send requests to this machine, and its name can lead here.
        if (self.hosts is not None and host not in self.hosts) or origin not in (
            None,
            f"http://{host}",
            f"https://{host}",
        ):
            raise Refusal(403, "forbidden: the request is from another website")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        # Browsers send other types across sites without asking first.
        if request.method == "POST" and kind != "application/json":
            raise Refusal(
                415, "send JSON with the header Content-Type: application/json"
            )

    async def body(self, request: Request) -> bytes:
        """Return the body of a request.

        Raises:
            Refusal: With status 413 if it is too large, and 408 if it is not complete in time.
        """
        body = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                async for chunk in request.stream():
                    # Counted while it arrives: the header with the length may lie.
                    body += chunk
                    if len(body) > self.largest:
                        raise Refusal(
                            413, f"the request has more than {self.largest:,} bytes"
                        )
        except TimeoutError:
            raise Refusal(
                408, f"the request was not complete after {self.seconds:g} s"
            ) from None
        return bytes(body)


class _Protocol(H11Protocol):
    """Ends a connection on which no request is complete in time, and bounds those of an address.

    An address that opens more closes its own oldest connection without a request, so that it never
    keeps others, or its next request, from an answer.
    """

    _waits: asyncio.TimerHandle | None = None
    opened = 0.0

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, and close the oldest one if an address, or all, have too many."""
        super().connection_made(transport)
        self.opened = self.loop.time()
        self._await_head()
        connections: list[Any] = [*self.connections]
        # `client` is (address, port), or `None` for a connection without one.
        address = self.client and self.client[0]
        of_address = [
            connection
            for connection in connections
            if (connection.client and connection.client[0]) == address
        ]
        if len(of_address) > OF_ADDRESS:
            _close_oldest(of_address)
        elif len(connections) > CONNECTIONS:
            _close_oldest(connections)

    def data_received(self, data: bytes) -> None:
        if self.idle:
            self._await_head()
        # The timer covers the head of a request; an answer may take longer.
        super().data_received(data)
        if not self.idle:
            self._cancel_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_wait()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        """Start the timer of a request, unless it runs; more bytes do not prolong it."""
        if self._waits is None:
            self._waits = self.loop.call_later(SILENT_SECONDS, self.transport.close)

    def _cancel_wait(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None


def _close_oldest(connections: Sequence[Any]) -> None:
    """Close the oldest connection without a request; the newest one if all have one."""
    idle = [connection for connection in connections if connection.idle]
    newest = max(connections, key=lambda connection: connection.opened)
    oldest = min(idle, key=lambda connection: connection.opened, default=newest)
    # Removed at once: `abort` ends the connection later, and a second one would choose it again.
    oldest.connections.discard(oldest)
    oldest.transport.abort()


def quiet_config(app: Any, **settings: Any) -> uvicorn.Config:
    """Return the settings of a server that writes nothing itself: no access log, no
    traceback and no version.
    """
    silence: JsonObject = {
        "log_config": None,
        "log_level": "critical",
        "access_log": False,
        "server_header": False,
    }
    return uvicorn.Config(app, http=_Protocol, ws="none", **silence, **settings)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port, or on a free one if it is 0.

    Raises:
        ConfigError: If the port or the host cannot be used.
    """
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as bad:
        if bad.errno == errno.EADDRINUSE:
            why = "is in use"
        else:
            why = f"cannot be used on {host} ({bad.strerror})"
        raise ConfigError(
            why, where=f"port {port}", remedy="choose another, or omit --port"
        ) from None
    # asyncio sets it only for sockets with an explicit protocol; without it, a response waits 40
    # ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
