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

from rich.console import Console
from rich.text import Text

MANNER = "EVALKIT_OUTPUT"  # in the environment, so that a launcher's processes speak in the same way
FLAGS = {"--quiet": "quiet", "-q": "quiet", "--json-logs": "json"}
_BEFORE = {"note": "evalkit: note: ", "progress": ""}


def log_style() -> str:
    """Return `json`, `quiet`, or nothing where people read."""
    return os.environ.get(MANNER, "")


@contextmanager
def with_log_style(words: Sequence[str]) -> Iterator[list[str]]:
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


def log(event: str, text: str, **facts: Any) -> None:
    """Say one thing: an `error`, a `failure`, a `note`, `progress` or that a run has `finished`; without secrets.

    Args:
        event: what kind of thing it is.
        text: it in words, as people are told it; in JSON it stands beside `facts`.
        facts: what programs want to know, as JSON values.
    """
    from evalkit.core.redaction import redact

    text = redact(" ".join(text.split()))
    if log_style() == "json":
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        print(json.dumps({"time": now, "event": event, "text": text, **facts}, ensure_ascii=False), file=sys.stderr)
    elif log_style() != "quiet" or event in ("error", "failure"):
        print(f"{_BEFORE.get(event, 'evalkit: ')}{text}", file=sys.stderr, flush=True)


class _Saying(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log("note", record.getMessage())


@contextmanager
def log_handler() -> Iterator[None]:
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


WIDE = 1000
"""Wide enough for any table: cut or folded numbers cannot be read."""


def plain_console() -> Console:
    """Return standard output, on which brackets are brackets and lines are as long as they are."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=WIDE)


def print_heading(heading: str, rest: str = "") -> Text:
    """Return a line that begins with a heading, after an empty one."""
    return Text.assemble("\n", (heading, "bold"), rest)
