"""Answers that a store could not take: paid for, so they are kept in a file that a
store can take later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Final

from evalkit.core.atomic_files import APPENDING, append_lines
from evalkit.core.errors import StoreError
from evalkit.core.types import Completion, StoredCompletion
from evalkit.store.maintenance import line_of

FILE: Final = "unstored-answers.jsonl"
"""Its name, in the folder of the run."""


class Rescue:
    """The file of the answers that a store did not take.

    Args:
        folder: Where the file is made, once there is such an answer.
        url: `store.url` of the run, if it has one.
        shown: Whether the message may repeat it: it has no user or password.
    """

    def __init__(
        self, folder: Path, url: str | None = None, *, shown: bool = True
    ) -> None:
        self._file = folder / FILE
        self._url = url
        self._shown = shown
        self._has_answers = False

    def add(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Append answers to the file; nothing if that fails, too.

        Args:
            answers: The content key, the model and the completion of each answer.
        """
        now = time.time()
        # An answer that no store can hold, or a full disk: the error of the store says enough.
        with suppress(OSError, StoreError):
            lines = [
                line_of(StoredCompletion(key, model, now, completion))
                for key, model, completion in answers
            ]
            descriptor = os.open(self._file, APPENDING, 0o600)
            try:
                append_lines(descriptor, "".join(lines).encode())
            finally:
                os.close(descriptor)
            self._has_answers = True

    def explained(self, error: Exception) -> Exception:
        """Return an error of the store with what to do about the answers in the file,
        any other as it is.
        """
        if not (self._has_answers and isinstance(error, StoreError)):
            return error
        command = f"evalkit store import {quote(str(self._file))}"
        rest = ""
        if self._url is not None and self._shown:
            command += f" {quote(f'store.url={self._url}')}"
        elif self._url is not None:
            # Without it, the answers would go to the user's own store.
            rest = " and the store.url of this run"
        return StoreError(
            f"{error}; answers that it did not take are kept: when it works again, add them with"
            f" `{command}`{rest}"
        )
