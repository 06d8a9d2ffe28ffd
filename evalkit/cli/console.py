"""Output of commands: messages on standard error as text or JSON lines, tables on
standard output.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

from evalkit.core.errors import EvalkitError, TrackingError
from evalkit.core.plugins import allowing_code, code_allowed
from evalkit.core.values import frozen
from evalkit.guard.known_hosts import trusted_words, trusting

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_PREFIXES = {"note": "evalkit: note: ", "progress": ""}
LogStyle = Literal["", "json", "quiet"]
_style: ContextVar[LogStyle] = ContextVar("evalkit_log_style", default="")
_verbose: ContextVar[bool] = ContextVar("evalkit_verbose", default=False)


def log_style() -> LogStyle:
    """Return `json` for JSON lines, `quiet` for errors only, or nothing for text."""
    return _style.get()


def is_verbose() -> bool:
    """Return whether to print all findings and metrics, as with `-v`."""
    return _verbose.get()


@frozen
class CommandSettings:
    """Settings of a command line apart from its config; they can be pickled for a
    launcher's processes.
    """

    log_style: LogStyle = ""
    allow_code: bool = False
    trust: tuple[str, ...] = ()
    verbose: bool = False

    @staticmethod
    def current() -> CommandSettings:
        """Return the current settings."""
        trust = tuple(trusted_words())
        return CommandSettings(_style.get(), code_allowed(), trust, _verbose.get())

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply these settings inside the block."""
        style = _style.set(self.log_style)
        verbose = _verbose.set(self.verbose)
        try:
            with (
                allowing_code(self.allow_code),
                trusting(self.trust, keeps=True),
                _warnings_of_hydra_as_notes(),
            ):
                yield
        finally:
            _verbose.reset(verbose)
            _style.reset(style)


@contextmanager
def _warnings_of_hydra_as_notes() -> Iterator[None]:
    """Print what Hydra warns of as a note inside the block, instead of with a line of its code."""
    shown = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """Log a warning of Hydra as a note; show any other one as before."""
        if "hydra" in Path(filename).parts:
            log("note", str(message))
        else:
            shown(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


def log(event: str, text: str, **facts: Any) -> None:
    """Write one message to standard error, without secrets and control characters.

    Args:
        event: its kind: `error`, `failure`, `note`, `progress`, `finished` or `leaderboard`.
        text: the message.
        facts: JSON values that are added in JSON logs.
    """
    from evalkit.core.redaction import redact

    clean = "".join(
        # Messages may quote data: control characters could change what the terminal shows.
        character if character.isprintable() else "\ufffd"
        for character in redact(" ".join(text.split()))
    )
    style = _style.get()
    if style == "json":
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        print(
            json.dumps(
                {"time": now, "event": event, "text": clean, **facts},
                ensure_ascii=False,
            ),
            file=sys.stderr,
        )
    elif style != "quiet" or event in ("error", "failure"):
        if clean.startswith("evalkit "):
            prefix = ""
        else:
            prefix = _PREFIXES.get(event, "evalkit: ")
        print(f"{prefix}{clean}", file=sys.stderr, flush=True)


class _LogHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._settings = CommandSettings.current()  # another thread may log

    def emit(self, record: logging.LogRecord) -> None:
        with self._settings.applied():
            log("note", record.getMessage())


_WAITING: Final = 1000
"""The most warnings that wait to be printed; additional ones are dropped."""
_LAST_SECONDS: Final = 1.0
"""How long the end of a command waits for the last of them."""


class _ThreadedHandler(logging.Handler):
    """Hands warnings to another handler in a thread.

    Clients of a server cause warnings. If nobody reads standard error, printing waits, and the
    event loop must not. `logging.handlers.QueueListener` would wait without limit at the end.
    """

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__(handler.level)
        self._handler = handler
        self._records = Queue[logging.LogRecord | None](_WAITING)
        self._thread = Thread(target=self._print, daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Full):
            self._records.put_nowait(record)

    def close(self) -> None:
        with suppress(Full):
            self._records.put_nowait(None)
        self._thread.join(_LAST_SECONDS)
        super().close()

    def _print(self) -> None:
        while (record := self._records.get()) is not None:
            self._handler.emit(record)


@contextmanager
def log_handler(*, threaded: bool = False) -> Iterator[None]:
    """Print the warnings that evalkit's modules log inside the block.

    They are printed in a thread if the caller must not wait.
    """
    logger = logging.getLogger("evalkit")
    handler: logging.Handler = _LogHandler()
    if threaded:
        handler = _ThreadedHandler(handler)
    logger.addHandler(handler)
    level = logger.level
    propagates = logger.propagate
    # The root logger may have a handler of the program that runs evalkit: each warning would be
    # printed twice.
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
        logger.propagate = propagates
        logger.setLevel(level)


WIDE = 1000
"""Wide enough for any table, so that numbers are neither cut nor wrapped."""


def plain_console() -> Console:
    """Return standard output without markup, highlighting or line wrapping."""
    from evalkit.cli.printable_console import PrintableConsole

    return PrintableConsole(
        highlight=False, markup=False, emoji=False, soft_wrap=True, width=WIDE
    )


@contextmanager
def reported(
    statuses: list[int], kind: type[EvalkitError] = TrackingError, where: str = ""
) -> Iterator[None]:
    """Print an error of this kind inside the block, after where it happened, and add
    its exit status to `statuses`.
    """
    try:
        yield
    except kind as error:
        log("error", f"{where}{error}")
        statuses.append(error.status)


def text_table(
    left_headings: Iterable[str] = (),
    right_headings: Iterable[str] = (),
    rows: Iterable[Iterable[str]] = (),
) -> Table:
    """Return a table without lines, whose columns are aligned to the left or the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in left_headings:
        table.add_column(heading)
    for heading in right_headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def terminal_width() -> int:
    """Return the width of the terminal in characters, 0 if output is not a terminal."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size((0, 0)).columns
    return 0


def print_heading(heading: str, suffix: str = "") -> Text:
    """Return a line that begins with a heading, after an empty one."""
    from rich.text import Text

    return Text.assemble("\n", (heading, "bold"), suffix)
