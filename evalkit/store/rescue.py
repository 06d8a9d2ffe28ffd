"""Answers that a store could not take: paid for, so they are kept in a file that a store can take later."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Final

from evalkit.core.errors import StoreError
from evalkit.core.types import Completion, StoredCompletion
from evalkit.store.maintenance import line_of

FILE: Final = "unstored-answers.jsonl"
"""Its name, in the folder of the run."""


class Rescue:
    """The file of the answers that a store did not take.

    Args:
        folder: Where the file is made, once there is such an answer.
        url: The store, if it is not the user's own; it must hold no user or password.
    """

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self._file = folder / FILE
        self._url = url
        self._has_answers = False

    def add(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Write answers to the file; nothing if that fails, too."""
        now = time.time()
        # An answer that no store can hold, or a full disk: the error of the store says enough.
        with suppress(OSError, StoreError):
            lines = [
                line_of(StoredCompletion(key, model, now, completion))
                for key, model, completion in answers
            ]
            _append(self._file, "".join(lines).encode())
            self._has_answers = True

    def explained(self, error: Exception) -> Exception:
        """Return an error of the store with what to do about the answers in the file, any other as it is."""
        if not (self._has_answers and isinstance(error, StoreError)):
            return error
        command = f"evalkit store import {quote(str(self._file))}"
        if self._url is not None:
            command += f" {quote(f'store.url={self._url}')}"
        return StoreError(
            f"{error}; answers that it did not take are kept: when it works again, add them with"
            f" `{command}`"
        )


def _append(path: Path, content: bytes) -> None:
    """Add lines to a private file, all or none: half a line would make the file unreadable.

    Raises:
        OSError: If they cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        size = file.seek(0, os.SEEK_END)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise
