"""Crosses what a provider may send: a meaning, its status, a header, the form of the body, and the moment.

One server on loopback plays all of them at a time, each below a path of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from evalkit.config import RunConfig
from evalkit.core.errors import EvalkitError
from evalkit.core.types import Case, Response
from evalkit.engine.event_loop import Clock
from evalkit.engine.judging import judge_cases
from evalkit.engine.progress import JudgingResult
from evalkit.evaluators.factory import make_evaluator
from evalkit.judges import make_judges
from evalkit.report.findings.causes import REMEDIES
from tests.support.engine_fakes import Memory
from tests.support.provider_play import TRANSPORTS, verdict

CASES = 6
RETRIES = 3
SECRET = "sk-very-secret-key-1234"
FASTER = 500
"""How much faster waits between attempts pass than on a clock."""


@dataclass(frozen=True)
class Meaning:
    """What a provider says, and what it is about.

    `effect` is `passes` (a later attempt succeeds), `request` (this one never succeeds), `feature`
    (the endpoint lacks something) or `ends` (no call can succeed).
    """

    name: str
    effect: str
    statuses: Sequence[int]
    text: str
    code: str | None = None
    sends: Callable[[dict[str, Any]], bool] = lambda body: True
    """Whether a request has what the endpoint lacks."""


def _format_is(*kinds: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: (body.get("response_format") or {}).get("type") in kinds


def _has_system(body: dict[str, Any]) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


BUSY = (408, 409, 425, 429, 498, 499, 500, 502, 503, 504, 520, 522, 524, 529)
MEANINGS = [
    Meaning("busy", "passes", BUSY, "Please slow down and try again"),
    Meaning("empty words", "passes", (429, 500, 502, 503, 529), ""),
    Meaning("overloaded", "passes", (500, 503, 529), "Overloaded", "overloaded_error"),
    Meaning("limit", "passes", (400, 403, 429), "Too many requests", "rate_limit_exceeded"),
    Meaning("billing link", "passes", (429,), "Slow down, see https://x.com/account/billing"),
    Meaning(
        "quota of a minute", "passes", (429,), "You exceeded your current quota. Retry in 0.2s."
    ),
    Meaning("flagged", "request", (400, 403, 422, 451), "Your input was flagged"),
    Meaning("filter", "request", (400, 403, 422), "Not this", "content_filter"),
    Meaning("too long", "request", (400, 413, 422), "prompt is too long: 9 tokens > 5 maximum"),
    Meaning("context", "request", (400, 422, 500), "No", "context_length_exceeded"),
    Meaning("not built", "request", (501,), "Not implemented"),
    Meaning("wrong key", "ends", (400, 401, 403), "API key not valid. Pass a valid API key."),
    Meaning("unauthorized", "ends", (401,), "Unauthorized"),
    Meaning("no credit", "ends", (400, 402, 403, 429), "Insufficient balance"),
    Meaning("spent quota", "ends", (403, 429), "Check your plan", "insufficient_quota"),
    Meaning("spent budget", "ends", (400, 422, 429), "Budget has been exceeded!"),
    Meaning("no model", "ends", (404,), "The model 'm' does not exist", "model_not_found"),
    Meaning(
        "temperature",
        "feature",
        (400, 422),
        "Unsupported value: 'temperature' does not support 0 with this model",
        sends=lambda body: "temperature" in body,
    ),
    Meaning(
        "max_tokens",
        "feature",
        (400, 422),
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        sends=lambda body: "max_tokens" in body,
    ),
    Meaning(
        "system", "feature", (400, 403, 422, 500), "System role not supported", None, _has_system
    ),
    Meaning(
        "schema",
        "feature",
        (400, 403, 404, 422, 500),
        "response_format of type json_schema is not supported",
        None,
        _format_is("json_schema"),
    ),
    Meaning(
        "schema without a word",
        "feature",
        (400, 422, 500),
        "Request contains an invalid argument.",
        None,
        _format_is("json_schema"),
    ),
    Meaning(
        "any format",
        "feature",
        (400, 422, 500),
        "This model does not support response_format or tools",
        None,
        lambda body: "response_format" in body or "tools" in body,
    ),
    Meaning(
        "logprobs",
        "feature",
        (400, 403, 422),
        "You are not allowed to request logprobs from this model",
        None,
        lambda body: "logprobs" in body,
    ),
]
HEADERS: dict[str, Callable[[], dict[str, str]]] = {
    "none": dict,
    "seconds": lambda: {"retry-after": "1"},
    "milliseconds": lambda: {"retry-after-ms": "20"},
    "date": lambda: {"retry-after": format_datetime(_soon(), usegmt=True)},
    "negative": lambda: {"retry-after": "-1"},
    "garbage": lambda: {"retry-after": "soon", "x-ratelimit-reset": "later"},
    "may retry": lambda: {"x-should-retry": "true"},
}


def _soon() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=2)


def _openai(meaning: Meaning, status: int) -> Any:
    return {"error": {"message": meaning.text, "type": "some_error", "code": meaning.code}}


FORMS: dict[str, Callable[[Meaning, int], Any]] = {
    "openai": _openai,
    "google": lambda meaning, status: [
        {"error": {"code": status, "message": meaning.text, "status": meaning.code or "ERROR"}}
    ],
    "flat": lambda meaning, _: {"message": meaning.text, "code": meaning.code},
    "error as text": lambda meaning, _: {"error": f"{meaning.text} {meaning.code or ''}"},
    "anthropic": lambda meaning, _: {
        "type": "error",
        "error": {"type": meaning.code or "api_error", "message": meaning.text},
    },
    "detail": lambda meaning, _: {"detail": meaning.text, "code": meaning.code},
    "details": lambda meaning, _: {"detail": [{"msg": meaning.text, "type": meaning.code}]},
    "plain": lambda meaning, _: f"{meaning.text} {meaning.code or ''}".encode(),
    "html": lambda *_: b"<html><body><h1>Error</h1></body></html>",
    "nothing": lambda *_: b"",
    "cut": lambda meaning, status: json.dumps(_openai(meaning, status)).encode()[:-2],
    "null": lambda *_: b"null",
}
WORDLESS = ("html", "nothing", "null")
"""Forms that lose the text, so that only the status speaks."""
MOMENTS: dict[str, Callable[[int, int], bool]] = {
    "first call": lambda number, _: number == 1,
    "later call": lambda number, _: number == 4,
    "every third": lambda number, _: number % 3 == 0,
    "one case": lambda _, case: case == 2,
    "from the fourth": lambda number, _: number >= 4,
    "always": lambda *_: True,
}
LASTING = ("from the fourth", "always")
"""The moments of what does not come and go: an account's end, and what an endpoint lacks."""


@dataclass(frozen=True)
class Play:
    """One cell of the cross."""

    meaning: Meaning
    status: int
    header: str
    form: str
    moment: str
    concurrency: int
    transport: str

    @property
    def name(self) -> str:
        return (
            f"{self.meaning.name}, {self.status}, header {self.header}, body {self.form},"
            f" {self.moment}, {self.concurrency} at a time, {self.transport}"
        )

    def spoils(self, number: int, body: dict[str, Any]) -> bool:
        if not self.meaning.sends(body):
            return False
        return MOMENTS[self.moment](number, _case_of(body))


def plays() -> list[Play]:
    """The cells that say something: a text that a form loses says nothing.

    Headers are crossed with one form, and forms with no header. Concurrency alternates.
    """
    cells = []
    for meaning in MEANINGS:
        shapes = [(header, "openai") for header in HEADERS]
        shapes += [("none", form) for form in FORMS if form != "openai"]
        moments = LASTING if meaning.effect in ("feature", "ends") else MOMENTS
        for status, (header, form), moment, transport in itertools.product(
            meaning.statuses, shapes, moments, TRANSPORTS
        ):
            if form in WORDLESS and not _speaks(meaning, status):
                continue
            if meaning.name == "schema without a word" and moment != "always":
                continue  # once a schema was accepted, it is not what is refused
            if meaning.effect != "passes" and header not in ("none", "garbage", "negative"):
                continue  # a stated wait contradicts what never passes
            concurrency = 1 if len(cells) // 2 % 2 else 4
            cells.append(Play(meaning, status, header, form, moment, concurrency, transport))
    return cells


def _speaks(meaning: Meaning, status: int) -> bool:
    """Whether a status says what is meant without words."""
    if meaning.effect == "passes":
        return meaning.name in ("busy", "empty words")
    return status in (401, 402, 413, 501)


def _case_of(body: dict[str, Any]) -> int:
    found = re.search(r"question (\d+)", json.dumps(body["messages"]))
    assert found is not None
    return int(found[1])


@dataclass
class Seen:
    """What a play came to."""

    play: Play
    judged: JudgingResult | None = None
    error: EvalkitError | None = None
    calls: list[tuple[int, bool]] = field(default_factory=list)
    """The case of each call, and whether it was answered."""
    notes: list[str] = field(default_factory=list)

    @property
    def statuses(self) -> Counter[str]:
        judgments = self.judged.judgments if self.judged else ()
        return Counter(judgment.status for judgment in judgments)


class Server:
    """Plays many cells at a time; the path names the cell."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                if head.startswith(b"GET"):
                    writer.write(_response(404, b"{}", {}))
                else:
                    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                    body = json.loads(await reader.readexactly(length))
                    writer.write(self.reply(path, body))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the server ends
        finally:
            writer.close()

    def reply(self, path: str, body: dict[str, Any]) -> bytes:
        if not path.endswith("/chat/completions"):
            return _response(404, b'{"detail": "Not Found"}', {})
        seen = self.seen[path.split("/")[1]]
        play = seen.play
        spoilt = play.spoils(len(seen.calls) + 1, body)
        seen.calls.append((_case_of(body), not spoilt))
        if not spoilt:
            return _response(200, json.dumps(verdict().body).encode(), {})
        content = FORMS[play.form](play.meaning, play.status)
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        return _response(play.status, raw, HEADERS[play.header]())


def _response(status: int, body: bytes, headers: dict[str, str]) -> bytes:
    fields = {
        "content-type": "application/json" if body[:1] in b"[{n" else "text/html",
        "content-length": str(len(body)),
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body


@asynccontextmanager
async def serving() -> Any:
    server = Server()
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


async def perform(server: Server, name: str, play: Play) -> Seen:
    """Judge six pairs with one cell."""
    seen = Seen(play)
    server.seen[name] = seen
    options: dict[str, Any] = {}
    if play.meaning.name == "logprobs":
        options["logprobs"] = "fallback"
    if play.meaning.name == "max_tokens":
        options["max_tokens"] = 500
    config = RunConfig.model_validate(
        {
            "judge": {
                "model": "openai/m",
                "api_base": f"http://127.0.0.1:{server.port}/{name}/v1",
                "transport": play.transport,
                **options,
            },
            "criteria": {"overall quality": {}},
            "swap": {"policy": "none"},
            "runner": {
                "concurrency": play.concurrency,
                "retries": RETRIES,
                "timeout": 20,
                "outage": 0,
                "max_failure_rate": 1,
            },
        }
    )
    cases = [
        Case(f"c{number}", f"question {number}?", (Response("good"), Response("bad")))
        for number in range(CASES)
    ]
    clock = Clock(
        lambda: time.monotonic() * FASTER, lambda seconds: asyncio.sleep(seconds / FASTER)
    )
    judges = make_judges(config.judge, config.runner)
    try:
        seen.judged = await judge_cases(
            cases, make_evaluator(config), judges, Memory(), config.runner, clock=clock
        )
    except EvalkitError as error:
        seen.error = error
    return seen


async def perform_all(selected: Sequence[Play]) -> list[Seen]:
    """Play cells, some at a time."""
    slots = asyncio.Semaphore(6)

    async def one(number: int, play: Play) -> Seen:
        async with slots:
            return await perform(server, str(number), play)

    async with serving() as server:
        return await asyncio.gather(*(one(*numbered) for numbered in enumerate(selected)))


@dataclass
class Faults:
    """What went wrong in plays, by kind."""

    lost: list[str] = field(default_factory=list)
    """Answers that arrived and are not in the run, and cases that a later attempt answers."""
    paid_twice: list[str] = field(default_factory=list)
    """Answered requests that were sent again, and refused ones that were repeated in vain."""
    ended: list[str] = field(default_factory=list)
    """Runs that ended although calls could succeed, or went on although none could."""
    unhelpful: list[str] = field(default_factory=list)
    """Sentences without the provider's word or a remedy."""

    def count(self) -> dict[str, int]:
        return {name: len(plays) for name, plays in vars(self).items()}

    def add(self, seen: Seen) -> None:
        """Hold one play against what it means."""
        if seen.error is not None:
            self._ended(seen)
            return
        assert seen.judged is not None
        answered = Counter(case for case, fine in seen.calls if fine)
        self._answers(seen, answered)
        self._payments(seen, answered)
        self._sentences(seen)

    def _ended(self, seen: Seen) -> None:
        play, error = seen.play, seen.error
        line = f"{play.name}: {error}"
        if play.meaning.effect != "ends":
            self.ended.append(line)
        if any(fine for _, fine in seen.calls):
            self.lost.append(line)
        if not getattr(error, "remedy", "") or not _is_plain(str(error)):
            self.unhelpful.append(line)

    def _answers(self, seen: Seen, answered: Counter[int]) -> None:
        play = seen.play
        assert seen.judged is not None
        line = f"{play.name}: {dict(seen.statuses)}"
        for number, judgment in enumerate(seen.judged.judgments):
            if answered[number] and judgment.status != "ok":
                self.lost.append(f"{line} {judgment.error}")
        passing = play.moment in ("first call", "later call", "every third")
        spared = 6 if passing else {"one case": 5, "from the fourth": 3, "always": 0}[play.moment]
        if play.meaning.effect == "feature":
            spared = 6
        elif play.meaning.effect != "passes" and passing:
            spared = 4 if play.moment == "every third" else 5
        if seen.statuses["ok"] < spared:
            self.lost.append(line)
        if play.meaning.effect == "ends" and play.moment == "always":
            self.ended.append(line)
        stopped = seen.judged.stopped
        if stopped and play.meaning.effect not in ("ends", "passes"):
            self.ended.append(f"{line} {stopped}")

    def _payments(self, seen: Seen, answered: Counter[int]) -> None:
        play = seen.play
        line = f"{play.name}: {len(seen.calls)} calls, {dict(seen.statuses)}"
        if max(answered.values(), default=0) > 1:
            self.paid_twice.append(line)
        most = {
            "passes": CASES * (RETRIES + 1),
            "request": CASES,
            "feature": CASES + 4 * play.concurrency,
            "ends": CASES,
        }[play.meaning.effect]
        if play.meaning.effect == "passes" and play.status == 500:
            most += 4  # an error without a reason: each format once
        if len(seen.calls) > most:
            self.paid_twice.append(line)

    def _sentences(self, seen: Seen) -> None:
        play = seen.play
        assert seen.judged is not None
        for judgment in seen.judged.judgments:
            error = judgment.error or ""
            if judgment.status == "ok" or judgment.error_kind == "stopped":
                continue
            word = play.meaning.text if play.form not in WORDLESS else ""
            kind = judgment.error_kind or judgment.status
            if kind not in REMEDIES or word not in error or not _is_plain(error):
                self.unhelpful.append(f"{play.name}: {error!r}")
                break
        if seen.judged.stopped and ";" not in seen.judged.stopped:
            self.unhelpful.append(f"{play.name}: stopped: {seen.judged.stopped}")


def _is_plain(text: str) -> bool:
    """Whether a sentence is one line of a bounded length without what no user can read."""
    ugly = ("\n", "Traceback", "litellm.", "<html", "Exception", SECRET)
    return len(text) < 600 and not any(word in text for word in ugly)
