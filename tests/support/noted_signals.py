"""The command line, which notes each signal on a pipe once it has been handled.

    python -m tests.support.noted_signals FD WORDS…

Signals of one kind that arrive before the first of them is handled are one; who sends several waits
for the note.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from evalkit.cli import entry_point

DESCRIPTOR = int(sys.argv.pop(1))
SET = signal.signal


def set_noted(number: int, handler: Any) -> Any:
    return SET(number, noted(handler) if callable(handler) else handler)


def noted(handler: Callable[..., Any]) -> Callable[..., None]:
    def handle(number: int, frame: Any) -> None:
        handler(number, frame)
        os.write(DESCRIPTOR, b".")

    return handle


signal.signal = set_noted
entry_point()
