"""A judge over HTTP: the checks of each request, and the application behind them."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, TypeAlias

import uvicorn
from fastapi import FastAPI, Query
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evalkit.core.admission import (
    CONNECTIONS,
    SECURITY,
    Admission,
    Refusal,
    quiet_config,
    reply,
)
from evalkit.core.resources import own_version
from evalkit.core.scale import PASSES
from evalkit.core.values import JsonObject, frozen
from evalkit.engine.event_loop import freeze_imports, on_interrupt
from evalkit.report.page import render
from evalkit.serving.judge import JudgeVerdict
from evalkit.serving.service import (
    NO_JSON,
    CaseInput,
    OutputInput,
    Rate,
    Service,
    problem,
)
from evalkit.serving.tools import Tool

OPEN: Final = "/health"
"""The path that needs no key."""
REFUSALS: Final = (401, 403, 404, 408, 413, 415, 422, 429, 500, 503)
_OTHER: Final = "other"
_BROKEN: Final = Refusal(500, "internal error; see the server's log")
_STOPPED: Final = Refusal(503, "the server is stopping")
_LOG: Final = logging.getLogger(__name__)
Answer: TypeAlias = Callable[[Any], Awaitable[Response]]
"""Answers a question that its model has read."""


class Problem(BaseModel):
    """Why there is no answer."""

    error: str = Field(description="One line.")


@frozen
class Limits:
    """The limits of a server.

    Attributes:
        admission: The checks of a request.
        keys: The keys of clients; with none, every client may ask.
        rate: The most requests of one key in a minute.
        concurrent: The most requests at once.
    """

    admission: Admission
    keys: Sequence[str] = ()
    rate: int | None = None
    concurrent: int = 64


class RequestGate:
    """Answers a request only if it passes the limits; the application then gets its complete body.

    Args:
        app: The application.
        service: The judge.
        limits: The limits.
        paths: The paths that are counted by name.
    """

    def __init__(
        self, app: ASGIApp, service: Service, limits: Limits, paths: Sequence[str]
    ) -> None:
        self._app = app
        self._service = service
        self._limits = limits
        self._paths = frozenset(paths)
        self._keys = [key.encode() for key in limits.keys]
        # _rates[i] is the rate of _keys[i].
        self._rates = [Rate(limits.rate) for _ in self._keys]
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing about an error reaches the client or the log but one line."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        started = time.perf_counter()
        status = 0

        # Remembers the status, which decides whether an error can still be answered.
        # Every response passes here, so that none is without the security headers.
        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in SECURITY.items()),
                ]
            await send(message)

        # counted before its body is read, which may take long
        self._open += 1
        try:
            # Before the body: a client without a key must not make the server read anything.
            self._check_request(request)
            body = await self._limits.admission.body(request)
            await self._app(scope, _replay_body(body, receive), noted)
        except Refusal as refusal:
            await self._refuse(refusal, receive, noted)
        # Nobody is there to answer.
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # the time that a stop allows is over
            # an answer that has begun cannot be replaced
            if status or not self._service.stopping:
                raise
            await _STOPPED.response()(scope, receive, noted)
        except Exception as error:
            _LOG.warning("a request failed: %s: %s", type(error).__name__, error)
            if not status:
                await self._refuse(_BROKEN, receive, noted)
        finally:
            self._open -= 1
            # paths that clients make up would be labels without end
            path = scope["path"] if scope["path"] in self._paths else _OTHER
            self._service.counts[
                "requests_total", f'path="{path}",status="{status}"'
            ] += 1
            self._service.counts["request_seconds_total", f'path="{path}"'] += (
                time.perf_counter() - started
            )

    def _check_request(self, request: Request) -> None:
        """Check a request's size, key and rate, and whether the server has room for it.

        Raises:
            Refusal: with the status and the sentence for the client.
        """
        self._limits.admission.check(request)
        # Load balancers and containers ask it, without a key.
        if request.url.path == OPEN:
            return
        if self._keys:
            scheme, _, credential = request.headers.get("authorization", "").partition(
                " "
            )
            key = credential.strip().encode("latin-1", "replace")
            # all keys are compared, each in constant time
            matches = [hmac.compare_digest(key, accepted) for accepted in self._keys]
            if scheme.lower() != "bearer" or not any(matches):
                raise Refusal(
                    401,
                    "send the header Authorization: Bearer KEY",
                    {"WWW-Authenticate": "Bearer"},
                )
            self._rates[matches.index(True)].take()
        # without this request
        if max(self._open - 1, self._service.active) >= self._limits.concurrent:
            raise Refusal(
                503, "the server is busy; try again later", {"Retry-After": "1"}
            )

    async def _refuse(self, refusal: Refusal, receive: Receive, send: Send) -> None:
        """Send a refusal, then read what the client still sends, which would else never see it."""
        response = refusal.response()
        response.headers["Connection"] = "close"
        await send(
            {
                "type": "http.response.start",
                "status": response.status_code,
                "headers": response.raw_headers,
            }
        )
        await send(
            {"type": "http.response.body", "body": response.body, "more_body": True}
        )
        try:
            # A limit, or a client that never ends would keep this open forever.
            async with asyncio.timeout(self._limits.admission.seconds):
                while (await receive()).get("more_body"):
                    pass
        except TimeoutError:
            pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that gives the body once, and then waits for the end of the connection."""
    # the body was read to check its size, so the application gets it from memory
    messages: list[Message] = [
        {"type": "http.request", "body": body, "more_body": False}
    ]

    async def replayed() -> Message:
        if messages:
            # Later calls wait for the end of the connection, as an application expects.
            return messages.pop()
        return await receive()

    return replayed


def application(service: Service, limits: Limits, mcp: Any = None) -> ASGIApp:
    """Return the application of a judge.

    Args:
        service: The judge.
        limits: The limits.
        mcp: The ASGI application of `/mcp`, with its `lifespan`.
    """
    problems: dict[int | str, JsonObject] = {
        status: {"model": Problem} for status in REFUSALS
    }
    # FastAPI's own pages load scripts from other servers; `/docs` below is evalkit's.
    settings: JsonObject = {"docs_url": None, "redoc_url": None, "responses": problems}
    app = FastAPI(
        title="evalkit judge",
        version=own_version() or "",
        lifespan=None if mcp is None else mcp.lifespan,
        **settings,
    )
    questions = _Questions(app)
    app.add_exception_handler(Refusal, lambda _, refusal: refusal.response())
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_served)
    # Errors never reach the client as a traceback, which could hold a prompt or a path.
    app.add_exception_handler(500, lambda *_: _BROKEN.response())

    async def judge(case: CaseInput) -> Response:
        """Judge a case: the verdict, its reason, its cost, and what is known about the judge."""
        return reply(await service.judge(case))

    app.post("/judge", response_model=JudgeVerdict)(judge)
    questions.add("/judge", CaseInput, judge)

    @app.post("/webhook")
    async def webhook(
        question: OutputInput,
        threshold: float = PASSES,
        passing: Annotated[list[str] | None, Query()] = None,
    ) -> Response:
        """Judge an output as an assertion of promptfoo: whether it passes, its score
        from 0 to 1, and the reason.
        """
        return reply(await service.assess(question, threshold, passing or ()))

    for tool in service.tools.values():
        _add_tool(app, questions, service, tool)

    @app.get("/trust")
    async def trust() -> JsonObject:
        """Return what the validation of the judge showed: its `trust.json`."""
        return dict(service.trust())

    @app.get(OPEN)
    async def health() -> Response:
        """Say whether the server takes questions; this needs no key."""
        return reply(
            {"status": "stopping" if service.stopping else "ok"},
            503 if service.stopping else 200,
        )

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return counts of requests, verdicts, calls and cost in Prometheus' text format."""
        return PlainTextResponse(
            service.metrics(), media_type="text/plain; version=0.0.4"
        )

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(render("openapi.html.j2", app.openapi(), data={}))

    if mcp is not None:
        app.router.routes.append(Route("/mcp", endpoint=mcp, methods=["POST"]))
    return RequestGate(
        questions,
        service,
        limits,
        [path for route in app.routes if (path := getattr(route, "path", None))],
    )


class _Questions:
    """Answers questions, which are a body that a model reads; the application answers the rest.

    The application describes the paths of questions. It would answer them alike, but FastAPI takes
    a tenth of a question's processor time for it.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._answers: dict[str, tuple[type[BaseModel], Answer]] = {}

    def add(self, path: str, model: type[BaseModel], answer: Answer) -> None:
        """Answer what is sent to a path; the model reads the body."""
        self._answers[path] = (model, answer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        asked = scope["type"] == "http" and scope["method"] == "POST"
        if not asked or scope["path"] not in self._answers:
            await self._app(scope, receive, send)
            return
        model, answer = self._answers[scope["path"]]
        message = await receive()  # the guard has read the whole body
        try:
            response = await answer(_read_question(model, message["body"]))
        except Refusal as refusal:
            response = refusal.response()
        await response(scope, receive, send)


def _read_question(model: type[BaseModel], body: bytes) -> BaseModel:
    """Return what a model reads in the body of a request.

    Raises:
        Refusal: If the body is no JSON, or not what the model describes.
    """
    try:
        # Not `model_validate_json`, which takes no lone surrogates.
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(422, NO_JSON) from None
    try:
        return model.model_validate(content, from_attributes=True)
    except ValidationError as error:
        raise Refusal(422, problem(error.errors())) from None


def _add_tool(
    app: FastAPI, questions: _Questions, service: Service, tool: Tool
) -> None:
    """Answer the questions to a tool, described by its models."""

    async def use(arguments: Any) -> Response:
        return reply(
            (await service.use(tool, arguments)).model_dump(mode="json", by_alias=True)
        )

    # FastAPI reads the models of a tool's input and result from here
    use.__annotations__ = {"arguments": tool.arguments, "return": Response}
    path = f"/{tool.name}"
    app.post(
        path,
        response_model=tool.result,
        name=tool.name,
        description=tool.description,
    )(use)
    questions.add(path, tool.arguments, use)


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return Refusal(422, problem(error.errors())).response()


def _not_served(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = (
        422 if error.status_code == 400 else error.status_code
    )  # a body that is no JSON
    return Refusal(
        status,
        f"{error.detail}; /openapi.json lists what this judge answers",
        error.headers,
    ).response()


class Server(uvicorn.Server):
    """Serves a judge until a signal; calls in flight then finish, and their answers are stored.

    Args:
        service: The judge.
        app: Its application.
        listener: The socket.
    """

    def __init__(self, service: Service, app: ASGIApp, listener: socket.socket) -> None:
        super().__init__(
            quiet_config(
                app,
                limit_concurrency=CONNECTIONS + 1,
                timeout_graceful_shutdown=service.grace,
            )
        )
        self._service, self._listener = service, listener
        self._stopping: asyncio.Task[None] | None = None

    async def run_until_signal(self) -> None:
        """Answer requests until a signal; after a second one, no call is waited for."""
        with freeze_imports():
            await self.serve(sockets=[self._listener])
        await (self._stopping or self._service.stop())

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals in the block as a run does."""
        with on_interrupt(self._stop):
            yield

    def _stop(self, _: int) -> None:
        # The second signal.
        if self._stopping is not None:
            self.force_exit = True
            self._service.hurry()
            return
        # First no new requests, then the wait for those in flight.
        self.should_exit = True
        self._stopping = asyncio.get_running_loop().create_task(self._service.stop())
