"""What commands print: one filter keeps control characters of data, models and servers
out of the terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from evalkit.core.display import printable


class _PrintableStream:
    """A stream that shows control characters as `\ufffd`; other attributes are those of
    the stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.rich_proxied_file = stream
        """Where rich writes: its own codes of styles pass, and `PrintableConsole` filters its
        texts."""

    def write(self, text: str) -> int:
        """Write a text."""
        return self.stream.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the stream, as a text stream can."""
        return iter(self.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """Print only printable characters, line breaks and tabs inside the block."""
    before = sys.stdout
    if before is None or isinstance(before, _PrintableStream):
        yield
        return
    sys.stdout = cast("TextIO", _PrintableStream(before))
    try:
        yield
    finally:
        sys.stdout = before
