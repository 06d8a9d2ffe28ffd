"""Read the elements of a JSON array one by one, with the place of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from evalkit.core.errors import DatasetError
from evalkit.datasets.compression import LONGEST_ROW, open_texts, too_long
from evalkit.datasets.json_tables import SHAPES

_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_TOKEN = 16
"""Longer than any literal, escape or end of a number: an error this close to the end may come from
truncation."""
REMEDY = "fix the JSON"


def read_array(path: Path, decoder: json.JSONDecoder) -> Iterator[tuple[str, Any]]:
    """Yield the location and the value of each element of a file with one JSON array.

    Raises:
        DatasetError: If the file is anything else, after the elements before the error.
    """
    with open_texts(path) as pieces:
        text = Text(path, pieces)
        if text.next() != "[":
            raise DatasetError(
                "the file is not one JSON array of rows", where=str(path), remedy=SHAPES
            )
        text.at += 1
        has_more = text.next() != "]"
        # an empty array: move past its bracket
        text.at += not has_more
        while has_more:
            location = text.place()
            yield location, text.element(decoder, location)
            has_more = text.next() == ","
            text.at += 1
            text.next()
        if text.has_more():
            remedy = "put all rows in one array"
            raise DatasetError(
                "the file continues after its array of rows",
                where=str(path),
                remedy=remedy,
            )


_PLACE_FOLLOWS: Final = re.compile(r"( starting)? at$|:$")


def reason(bad: Exception, column: int | None = None) -> str:
    """Return the reason why a text is not JSON."""
    if isinstance(bad, json.JSONDecodeError):
        # Python's messages go on with a place, which is said first here.
        fault = _PLACE_FOLLOWS.sub("", bad.msg).lower()
        return f"column {column or bad.colno}: {fault}"
    if isinstance(bad, RecursionError):
        return "nested too deeply"
    return str(bad)


class Text:
    """A sliding window over a file's text: `at` is the position in the buffered part.

    ijson could read such a file too, but does not report lines, and replaces half a surrogate pair
    by a question mark.
    """

    def __init__(self, path: Path, pieces: Iterator[str]) -> None:
        self.at = 0
        self._path, self._pieces, self._held, self._ended = path, pieces, "", False
        self._line, self._counted = 1, 0  # the line at `_counted`
        self._before = 0  # dropped characters of the first buffered line

    def next(self) -> str:
        """Move to the next character that is not white space, and return it; empty at the end."""
        while True:
            match = _SPACE.match(self._held, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self._held) or not self._read_more():
                return self._held[self.at : self.at + 1]

    def has_more(self) -> bool:
        """Return whether anything but white space follows."""
        while not self._held[self.at :].strip():
            self.at = len(self._held)
            if not self._read_more():
                return False
        return True

    def place(self) -> str:
        """Return the current location, as `path:line`."""
        self._line += self._held.count("\n", self._counted, self.at)
        self._counted = self.at
        return f"{self._path}:{self._line}"

    def element(self, decoder: json.JSONDecoder, location: str) -> Any:
        """Return the value that begins here, and move to the separator after it.

        Raises:
            DatasetError: If there is no value or no separator.
        """
        while True:
            try:
                value, end = decoder.raw_decode(self._held, self.at)
            except json.JSONDecodeError as bad:
                cut = bad.msg.startswith(
                    "Unterminated"
                ) or bad.pos + _LONGEST_TOKEN > len(self._held)
                if cut and not self._ended:
                    if len(self._held) - self.at > LONGEST_ROW:
                        raise too_long(location) from None
                    self._read_more()
                    continue
                where, column = self._position(bad)
                raise DatasetError(
                    f"not JSON ({reason(bad, column)})", where=where, remedy=REMEDY
                ) from None
            except (ValueError, RecursionError) as bad:
                raise DatasetError(
                    f"not JSON ({reason(bad)})", where=location, remedy=REMEDY
                ) from None
            if end + _LONGEST_TOKEN <= len(self._held) or self._ended:
                break
            self._read_more()  # a number may continue
        self.at = end
        if self.next() not in (",", "]"):
            raise DatasetError(
                "not JSON (expected ',' or ']' after a row)",
                where=self.place(),
                remedy=REMEDY,
            )
        return value

    def _read_more(self) -> bool:
        """Read more text and drop the text before `at`; for a long row, double the buffer."""
        self.place()
        last = self._held.rfind("\n", 0, self.at)
        self._before = self.at - last - 1 if last >= 0 else self._before + self.at
        kept = [self._held[self.at :]]
        # read at least as much as is buffered, so that long rows take linear time
        missing = len(kept[0])
        self.at = self._counted = 0
        while not self._ended:
            piece = next(self._pieces, "")
            self._ended = not piece
            kept.append(piece)
            missing -= len(piece)
            if piece and missing <= 0:
                break
        self._held = "".join(kept)
        return len(kept) > 1 and bool(kept[1])

    def _position(self, bad: json.JSONDecodeError) -> tuple[str, int]:
        line = self._line + self._held.count("\n", self._counted, bad.pos)
        column = bad.colno + (self._before if "\n" not in self._held[: bad.pos] else 0)
        return f"{self._path}:{line}", column
