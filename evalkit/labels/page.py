"""The page of `evalkit label --page`: one annotator labels a run in a browser on this machine.

Every request needs the token in the address, a `Host` of this machine and, if it changes anything,
this page as its `Origin`. The page's HTML has no text from the data; its script shows them as text.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from typing import Any, Final

import uvicorn
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from evalkit.config import RunConfig
from evalkit.core.admission import SECURITY, Admission, Refusal, quiet_config, reply
from evalkit.core.errors import EvalkitError
from evalkit.core.values import JsonObject
from evalkit.labels.session import LONGEST_NOTE, LabelSession
from evalkit.report.page import asset, language_of, render, script_json
from evalkit.report.texts import LABELING

HOST: Final = "127.0.0.1"
_SECONDS: Final = 60.0
_LARGEST: Final = 200_000
"""The most bytes of a request: an answer to 5,000 checklist items with a note."""
_HEADERS: Final = {
    "Content-Security-Policy": "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    **SECURITY,
}


class LabelPage:
    """The page as an ASGI application on a socket that listens on this machine.

    Args:
        session: The annotator's tasks and labels.
        html: The page.
        listener: The socket.
    """

    def __init__(
        self, session: LabelSession, html: str, listener: socket.socket
    ) -> None:
        # A new secret for each start: other users of the machine can reach the port, but not
        # guess this.
        self.path = f"/{secrets.token_urlsafe(32)}/"
        self._session, self._html, self._listener = session, html, listener
        # From the socket: port 0 lets the system choose one.
        port = listener.getsockname()[1]
        self.url = f"http://{HOST}:{port}{self.path}"
        self._admission = Admission.of(HOST, port, largest=_LARGEST, seconds=_SECONDS)
        self._server = uvicorn.Server(
            quiet_config(self, lifespan="off", timeout_graceful_shutdown=1)
        )

    def serve(self) -> None:
        """Answer requests until the annotator has finished.

        Raises:
            KeyboardInterrupt: On Ctrl-C, after requests in progress have been answered.
        """
        serving = self._server.serve(sockets=[self._listener])
        try:
            asyncio.run(serving)
        finally:
            serving.close()  # after Ctrl-C before it has begun

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            response = await self._respond(Request(scope, receive))
        except Refusal as refusal:
            response = refusal.response()
        response.headers.update(_HEADERS)
        if response.status_code != 200:
            response.headers["Connection"] = (
                "close"  # without reading the rest of a large body
            )
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        """Return the page, or the reply to an action of the annotator.

        Raises:
            Refusal: With status 403 if the request does not come from the page, and 400 if it is
                invalid.
        """
        self._admission.check(request)
        # the address has the secret, so it is compared in constant time
        authentic = secrets.compare_digest(
            request.url.path.encode(), self.path.encode()
        )
        if authentic and request.method == "GET":
            return HTMLResponse(self._html)
        # A page of another site can send a POST from the annotator's browser, which then names
        # its origin.
        if not authentic or request.method != "POST" or "origin" not in request.headers:
            raise Refusal(403, "forbidden")
        body = await self._admission.body(request)
        try:
            return reply(self._do_action(json.loads(body)))
        except EvalkitError as error:
            raise Refusal(400, str(error)) from None
        except (ValueError, RecursionError, KeyError, TypeError):
            raise Refusal(400, "the request is invalid: reload the page") from None

    def _do_action(self, request: Any) -> JsonObject:
        """Return what the page shows after `open`, `label`, `next`, `back`, `again` or `finish`.

        Raises:
            EvalkitError: If the label is invalid or cannot be written.
            ValueError: If the request is invalid; also KeyError and TypeError.
        """
        session = self._session
        action = request["do"]
        last = len(session.tasks)
        at = -1
        if action != "open":
            at = request["at"]
            note = request["note"]
            # The page after the last task has nothing to label.
            end = last - (action == "label")
            if (
                # `type`, because a bool is an int
                type(at) is not int
                or not 0 <= at <= end
                or type(note) is not str
                or len(note) > LONGEST_NOTE
            ):
                raise ValueError
            # Whatever the button, the note of the task that is left is saved.
            if at < last:
                session.store(
                    at, request["answer"] if action == "label" else None, note
                )
        if action == "finish" or (action == "label" and session.complete):
            # The reply to this request is still sent.
            self._server.should_exit = True
            return {"ended": True, **session.counts()}
        if action == "next":
            session.skip(at)
        elif action == "again":
            session.skipped.clear()
        elif action not in ("open", "label", "back"):
            raise ValueError
        steps = {"next": min(at + 1, last), "back": max(at - 1, 0)}
        return session.view(steps[action] if action in steps else session.next_open(at))


def page_of(session: LabelSession, config: RunConfig) -> str:
    """Return the HTML of the page: the question, and what to judge by."""
    question = session.question
    rubric = config.rubric
    guide = {name: criterion.description for name, criterion in config.criteria.items()}
    if question["kind"] in ("class", "grade"):
        guide |= rubric.classes or {
            f"{score:g}": level for score, level in rubric.levels.items()
        }
    values = {
        "title": "evalkit label",
        "start": language_of(config),
        "words": LABELING,
        "question": question["kind"],
        "guide": [(name, meaning) for name, meaning in guide.items() if meaning],
        "longest": LONGEST_NOTE,
        "rules": asset("label.css"),
    }
    data = {"words": script_json(LABELING), "question": script_json(question)}
    return render("label.html.j2", values, script="label.js", data=data)
