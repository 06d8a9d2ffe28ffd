"""What `#` names after the path of a file: the sheet of a workbook, or the encoding of a text."""

from __future__ import annotations

import codecs
import io
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from evalkit.core.errors import DatasetError, did_you_mean

ENCODINGS: Final = (
    *("cp1252", "gb18030", "cp932", "big5", "cp949", "euc-jp", "cp1251", "cp1250"),
    *("mac-roman", "utf-16-le", "utf-16-be", "cp1253", "cp1254", "cp1255", "cp1256"),
    *("latin-1", "iso-8859-2", "iso-8859-15", "koi8-r", "shift-jis", "gbk", "euc-kr"),
    "utf-8",
)
"""The encodings that can be named after a path."""
_OFFERED: Final = ENCODINGS[:9]
"""The encodings that are offered for a text, which is tried in each."""
_MOST_OFFERED: Final = 4
_CHUNK: Final = 2**16
_MARKED: Final = 16
"""The number of first bytes that show UTF-16 without a mark."""
_SAMPLE: Final = 20
"""The number of characters of a text that are shown for an encoding."""
_EAST_ASIAN: Final = ("gb18030", "big5", "cp932", "euc-jp", "cp949")
_PLAUSIBLE: Final = 0.9
"""The share of characters outside of ASCII that are letters in a plausible encoding."""
_COMMON_SIGNS: Final = frozenset("“”‘’„«»–—…€£°№、。，：；！？（）《》「」・ー％×·")


WHICH_SHEET: Final = "which sheet is to be read?"
"""The question about a workbook with several tables."""


class OpenFileError(DatasetError):
    """A file that is read with a name after its path; `parts` are the names that fit,
    with what they are.
    """

    def __init__(
        self,
        what: str,
        path: Path,
        where: str,
        parts: Sequence[tuple[str, str]],
        question: str,
        remedy: str = "",
    ) -> None:
        first, _ = parts[0]
        named = f"name one after the path, as in '{path.name}#{first}'"
        remedies = f"{remedy}, or {named}" if remedy else named
        super().__init__(what, where=where, remedy=remedies)
        self.path = path
        self.parts = tuple(parts)
        self.question = question


def part_of(path: Path) -> tuple[Path, str]:
    """Return the file of a path, and what `#` names after it; a real file with `#` in
    its name wins.
    """
    if "#" not in path.name or path.exists():
        return path, ""
    name, _, part = path.name.rpartition("#")
    if not name:
        return path, ""
    return path.with_name(name), part


def file_of(path: Path) -> Path:
    """Return the file of a path, without what `#` names after it."""
    file, _ = part_of(path)
    return file


def named_encoding(path: Path) -> str:
    """Return the encoding that is named after a path; empty if none is.

    Raises:
        DatasetError: If it is none of `ENCODINGS`.
    """
    _, part = part_of(path)
    if not part:
        return ""
    if part.casefold() not in ENCODINGS:
        remedy = did_you_mean(part, ENCODINGS)
        raise DatasetError(f"no encoding '{part}'", where=str(path), remedy=remedy)
    return part.casefold()


def recoded(file: IO[bytes], encoding: str, path: Path) -> IO[bytes]:
    """Return the bytes of a text in UTF-8.

    Raises:
        DatasetError: When reading, if the text is not in this encoding.
    """
    return io.BufferedReader(_Recoded(file, encoding, path), _CHUNK)


class _Recoded(io.RawIOBase):
    """The bytes of a text in another encoding, as UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str, path: Path) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._path = path
        self._encoding = encoding
        self._rest = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer with the text in UTF-8, and return the number of bytes; 0 at the end."""
        while not self._rest and not self._ended:
            piece = self._file.read(_CHUNK)
            self._ended = not piece
            try:
                text = self._decoder.decode(piece, final=self._ended)
            except UnicodeError as bad:
                problem = f"is not {self._encoding} ({bad})"
                remedy = "name another encoding after the path"
                where = str(self._path)
                raise DatasetError(problem, where=where, remedy=remedy) from None
            self._rest = text.encode("utf-8")
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def unmarked_utf16(start: bytes) -> str:
    """Return the encoding of a text in UTF-16 without a mark: every other of its first
    bytes is zero; else empty.
    """
    sample = start[:_MARKED]
    for encoding, zeros in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[::2])):
        # Plain letters have one zero byte each, and never two.
        if len(zeros) > 2 and not any(zeros) and sample.count(0) == len(zeros):
            return encoding
    return ""


def likely_encodings(start: bytes) -> list[tuple[str, str]]:
    """Return the encodings in which the beginning of a text makes sense, likeliest first, each
    with the first word that the text has in it.

    At most `_MOST_OFFERED` are returned; an empty list if none is plausible.
    """
    # The last line may end within a character.
    text, _, _ = start.rpartition(b"\n")
    ranked = []
    for encoding in _OFFERED:
        decoded = _decoded(text or start, encoding)
        likeness = 0.0 if decoded is None else _letter_share(decoded, encoding)
        if decoded is not None and likeness >= _PLAUSIBLE:
            ranked.append((likeness, encoding, _shown(decoded)))
    # Sorted by likeness only: equal ones stay in the order of the table above.
    ranked.sort(key=lambda entry: -entry[0])
    return [(encoding, sample) for _, encoding, sample in ranked[:_MOST_OFFERED]]


def _decoded(text: bytes, encoding: str) -> str | None:
    try:
        return text.decode(encoding)
    except UnicodeDecodeError:
        return None


def _letter_share(text: str, encoding: str) -> float:
    """Return the share of letters among characters outside of ASCII.

    Usual words add up to 1 more.
    """
    foreign = [character for character in text if not character.isascii()]
    if not foreign:
        return 0.0
    usual = [
        character
        for character in foreign
        if character.isalpha() or character in _COMMON_SIGNS
    ]
    private = any("\ue000" <= character <= "\uf8ff" for character in foreign)
    share = 0.0 if private else len(usual) / len(foreign)
    # Latin letters with marks are within words of plain ones, Cyrillic ones are among themselves.
    within = sum(
        (before.isascii() and before.isalpha()) or (after.isascii() and after.isalpha())
        for before, letter, after in zip(" " + text, text, text[1:] + " ", strict=False)
        if letter.isalpha() and not letter.isascii()
    )
    mixed = within / len(foreign)
    if encoding in _EAST_ASIAN:
        return share + _east_asian(foreign, encoding) - mixed
    # A capital within a word is no usual Cyrillic or Latin.
    odd = sum(
        before.islower() and letter.isupper() and not letter.isascii()
        for before, letter in zip(" " + text, text, strict=False)
    )
    usual_words = 1 - mixed if encoding == "cp1251" else mixed
    return share + usual_words - odd / len(foreign)


def _east_asian(foreign: Sequence[str], encoding: str) -> float:
    """Return how likely characters are a text in an encoding of an East Asian language: at most
    1.

    It is the share of frequent characters of the language, less the share of those that only a
    wrong encoding makes: half-width kana in Japanese, and kana in Chinese. A Japanese text
    without kana counts half.

    Args:
        foreign: The characters that are not ASCII, at least one.
        encoding: The encoding that the text was decoded with.
    """
    kana = sum("\u3040" <= character <= "\u30ff" for character in foreign)
    hangul = sum("\uac00" <= character <= "\ud7a3" for character in foreign)
    half_width = sum("\uff61" <= character <= "\uff9f" for character in foreign)
    count = len(foreign)
    if encoding == "cp949":
        return hangul / count
    # The frequent characters of a standard come first: in its first half.
    first, last = _FREQUENT[encoding]
    frequent = 0
    for character in foreign:
        lead = character.encode(encoding, "replace")[0]
        frequent += first <= lead <= last
    if encoding in ("cp932", "euc-jp"):
        return (
            (frequent + kana - half_width) / count if kana else 0.5 * frequent / count
        )
    return (frequent - kana) / count


_FREQUENT: Final = {
    "gb18030": (0xB0, 0xD7),
    "big5": (0xA4, 0xC6),
    "cp932": (0x88, 0x97),
    "euc-jp": (0xB0, 0xCF),
}
"""The first bytes of the frequent characters of an encoding."""


def _shown(text: str) -> str:
    """Return the first word outside of ASCII of a text."""
    words = text.replace(",", " ").replace(";", " ").split()
    word = next((word for word in words if not word.isascii()), "")
    return word[:_SAMPLE]
