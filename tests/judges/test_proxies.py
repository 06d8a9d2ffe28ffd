"""A proxy that the environment names: both transports ask through it, and it gets no key of a judge over TLS."""

import base64
import socket
import threading
from contextlib import contextmanager

import pytest

from tests.judges.test_both_transports import TEXT, TRANSPORTS, tell
from tests.support.fake_provider import Provider, said, serving

KEY = "sk-very-secret-key-1234"
PASSWORD = "pa55-w0rd-of-the-proxy"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@contextmanager
def refusing():
    """A proxy that opens no tunnel; yields what it was sent."""
    received: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                received.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1], received
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_server_is_asked_through_the_proxy(transport, monkeypatch):
    with serving() as proxy:
        proxy.rule = lambda _: said("yes")
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        [answer], bodies, _ = await tell(
            proxy, transport, [TEXT], api_base="http://judge.example/v1"
        )
    assert answer.text == "yes"
    assert proxy.paths == ["http://judge.example/v1/chat/completions"]
    assert len(bodies) == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_server_that_is_exempt_is_asked_itself(transport, monkeypatch):
    with serving() as provider, refusing() as (port, received):
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "127.0.0.1")
        [answer], _, _ = await tell(provider, transport, [TEXT])
    assert answer.text == said().body["choices"][0]["message"]["content"]
    assert received == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_proxy_gets_no_key_and_no_message_its_password(transport, monkeypatch):
    with refusing() as (port, received):
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://me:{PASSWORD}@127.0.0.1:{port}")
        [failure], _, _ = await tell(
            Provider(), transport, [TEXT], api_base="https://judge.example/v1"
        )
    assert received
    assert all(request.startswith(b"CONNECT judge.example:443 ") for request in received)
    credentials = base64.b64encode(f"me:{PASSWORD}".encode())
    assert all(credentials in request and KEY.encode() not in request for request in received)
    assert PASSWORD not in str(failure)
    assert KEY not in str(failure)
