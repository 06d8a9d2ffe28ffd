"""The labeling page of a command in this process, and requests to it as a browser sends them, or worse."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from threading import Thread
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from evalkit.cli import main
from evalkit.labels.page import LabelPage
from tests.support.servers import PATIENCE


@dataclass
class OpenPage:
    """A page that a command serves, and the status of the command when it has ended."""

    page: LabelPage
    thread: Thread
    statuses: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.page.url

    def ended(self) -> int:
        """Wait for the command's end, and return its status."""
        self.thread.join(PATIENCE)
        (status,) = self.statuses
        return status

    def request(
        self,
        body: bytes | None = None,
        headers: Mapping[str, str] = {},
        method: str = "POST",
        path: str = "",
    ) -> tuple[int, Mapping[str, str], str]:
        """Send a request as the page does, but for what is given; a header of "" is not sent."""
        parts = urlsplit(self.url)
        known = {
            "Host": parts.netloc,
            "Origin": f"http://{parts.netloc}",
            "Content-Type": "application/json",
        } | headers
        connection = HTTPConnection(parts.netloc, timeout=PATIENCE)
        try:
            connection.putrequest(method, path or parts.path, skip_host=True)
            for name, value in known.items():
                if value:
                    connection.putheader(name, value)
            if body is not None and "Content-Length" not in known:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            reply = connection.getresponse()
            return (
                reply.status,
                {name.lower(): value for name, value in reply.getheaders()},
                reply.read().decode(),
            )
        finally:
            connection.close()

    def act(self, do: str, **more: Any) -> dict[str, Any]:
        """Do what a click does, and return what the page then shows."""
        status, _, text = self.request(json.dumps({"do": do, "note": "", **more}).encode())
        shown: dict[str, Any] = json.loads(text)
        assert status == 200, shown
        return shown

    def label(self, choose: Callable[[dict[str, Any]], Any], count: int) -> dict[str, Any]:
        """Answer so many tasks, and return what the page then shows."""
        shown = self.act("open")
        for _ in range(count):
            shown = self.act("label", at=shown["at"], answer={"": choose(shown)})
        return shown


@contextmanager
def label_page(run: object, *words: str) -> Iterator[OpenPage]:
    """Run `evalkit label RUN --page` in a thread; its page ends with the block."""
    pages: queue.Queue[LabelPage] = queue.Queue()
    serve = LabelPage.serve

    def noted(page: LabelPage) -> None:
        pages.put(page)
        serve(page)

    statuses: list[int] = []
    with patch.object(LabelPage, "serve", noted):
        thread = Thread(target=lambda: statuses.append(main(["label", str(run), "--page", *words])))
        thread.start()
        while thread.is_alive() or not pages.empty():
            try:
                page = pages.get(timeout=0.1)
                break
            except queue.Empty:
                continue
        else:
            raise AssertionError(f"the command ended with status {statuses}")
    try:
        yield OpenPage(page, thread, statuses)
    finally:
        page._server.should_exit = True
        thread.join(PATIENCE)
