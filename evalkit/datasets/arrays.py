"""One JSON array of rows, read row by row: what is held of the file is one row and a piece of what follows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalkit.datasets.packed import open_texts
from evalkit.errors import DatasetError

_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_TOKEN = 16
"""More characters than a number's end, a literal or an escape has: an error so near the end may be that of a cut."""
_MEND = "mend the JSON"


def read_array(path: Path, decoder: json.JSONDecoder) -> Iterator[tuple[str, Any]]:
    """Yield each element of a file that holds one JSON array, with the place where it begins.

    Raises:
        DatasetError: if the file holds something else; the elements before the mistake have been yielded then.
    """
    with open_texts(path) as pieces:
        text = _Text(path, pieces)
        if text.next() != "[":
            remedy = "if each line is a row, set dataset.format=jsonl"
            raise DatasetError("the file is not one JSON array of rows", where=str(path), remedy=remedy)
        text.at += 1
        more = text.next() != "]"
        text.at += not more
        while more:
            place = text.place()
            yield place, text.element(decoder, place)
            more = text.next() == ","
            text.at += 1
            text.next()
        if text.goes_on():
            remedy = "write all rows in one array"
            raise DatasetError("the file goes on after its array of rows", where=str(path), remedy=remedy)


def reason(bad: Exception, column: int | None = None) -> str:
    """Return in words why a text is not JSON."""
    if isinstance(bad, json.JSONDecodeError):
        return f"column {column or bad.colno}: {bad.msg.rstrip(':').lower()}"
    return "nested too deeply" if isinstance(bad, RecursionError) else str(bad)


class _Text:
    """A file's text from a place on: `at` is where to read on in what is held of it."""

    def __init__(self, path: Path, pieces: Iterator[str]) -> None:
        self.at = 0
        self._path, self._pieces, self._held, self._ended = path, pieces, "", False
        self._line, self._counted = 1, 0  # the line of the character that lines are counted to
        self._before = 0  # characters of the first line held that are held no more

    def next(self) -> str:
        """Go to the next character that is no space, and return it; none at the end."""
        while True:
            found = _SPACE.match(self._held, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self._held) or not self._more():
                return self._held[self.at : self.at + 1]

    def goes_on(self) -> bool:
        """Say whether anything but space follows."""
        while not self._held[self.at :].strip():
            self.at = len(self._held)
            if not self._more():
                return False
        return True

    def place(self) -> str:
        """Return the place that is read next, as `path:line`."""
        self._line += self._held.count("\n", self._counted, self.at)
        self._counted = self.at
        return f"{self._path}:{self._line}"

    def element(self, decoder: json.JSONDecoder, place: str) -> Any:
        """Return the value that begins here, and go to the character after it, which must be one that may follow.

        Raises:
            DatasetError: if there is none.
        """
        while True:
            try:
                value, end = decoder.raw_decode(self._held, self.at)
            except json.JSONDecodeError as bad:
                cut = bad.msg.startswith("Unterminated") or bad.pos + _LONGEST_TOKEN > len(self._held)
                if cut and not self._ended:
                    self._more()
                    continue
                where, column = self._position(bad)
                raise DatasetError(f"not JSON ({reason(bad, column)})", where=where, remedy=_MEND) from None
            except (ValueError, RecursionError) as bad:
                raise DatasetError(f"not JSON ({reason(bad)})", where=place, remedy=_MEND) from None
            if end + _LONGEST_TOKEN <= len(self._held) or self._ended:
                break
            self._more()  # a number may go on
        self.at = end
        if self.next() not in (",", "]"):
            raise DatasetError("not JSON (expected ',' or ']' after a row)", where=self.place(), remedy=_MEND)
        return value

    def _more(self) -> bool:
        """Hold more, and no longer what stands before `at`; of a long row as much again as is held."""
        self.place()
        last = self._held.rfind("\n", 0, self.at)
        self._before = self.at - last - 1 if last >= 0 else self._before + self.at
        kept = [self._held[self.at :]]
        wanted = len(kept[0])
        self.at = self._counted = 0
        while not self._ended:
            piece = next(self._pieces, "")
            self._ended = not piece
            kept.append(piece)
            wanted -= len(piece)
            if piece and wanted <= 0:
                break
        self._held = "".join(kept)
        return len(kept) > 1 and bool(kept[1])

    def _position(self, bad: json.JSONDecodeError) -> tuple[str, int]:
        line = self._line + self._held.count("\n", self._counted, bad.pos)
        column = bad.colno + (self._before if "\n" not in self._held[: bad.pos] else 0)
        return f"{self._path}:{line}", column
