"""How a command speaks on standard error: in lines for people, in JSON for programs, or only of what went wrong."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

MANNER = "EVALKIT_OUTPUT"  # in the environment, so that a launcher's processes speak in the same way
FLAGS = {"--quiet": "quiet", "-q": "quiet", "--json-logs": "json"}
_BEFORE = {"note": "evalkit: note: ", "progress": ""}


def manner() -> str:
    """Return `json`, `quiet`, or nothing where people read."""
    return os.environ.get(MANNER, "")


@contextmanager
def spoken(words: Sequence[str]) -> Iterator[list[str]]:
    """Take the flags that say how to speak off a command's words, and speak so as long as the block lasts."""
    before = os.environ.get(MANNER)
    for word in words:
        if word in FLAGS:
            os.environ[MANNER] = FLAGS[word]
    try:
        yield [word for word in words if word not in FLAGS]
    finally:
        if before is None:
            os.environ.pop(MANNER, None)
        else:
            os.environ[MANNER] = before


def say(event: str, text: str, **facts: Any) -> None:
    """Say one thing: an `error`, a `failure`, a `note`, `progress` or that a run has `finished`; without secrets.

    Args:
        event: what kind of thing it is.
        text: it in words, as people are told it; in JSON it stands beside `facts`.
        facts: what programs want to know, as JSON values.
    """
    from evalkit.redaction import redact

    text = redact(" ".join(text.split()))
    if manner() == "json":
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        print(json.dumps({"time": now, "event": event, "text": text, **facts}, ensure_ascii=False), file=sys.stderr)
    elif manner() != "quiet" or event in ("error", "failure"):
        print(f"{_BEFORE.get(event, 'evalkit: ')}{text}", file=sys.stderr, flush=True)


class _Saying(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say("note", record.getMessage())


@contextmanager
def log_spoken() -> Iterator[None]:
    """Say what evalkit's modules log, as long as the block lasts."""
    logger, handler = logging.getLogger("evalkit"), _Saying(logging.WARNING)
    logger.addHandler(handler)
    level, propagates, logger.propagate = logger.level, logger.propagate, False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
        logger.setLevel(level)
