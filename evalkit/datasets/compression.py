"""Open files for their uncompressed bytes and lines, as UTF-8 whatever their encoding."""

from __future__ import annotations

import io
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

from evalkit.core.errors import DatasetError
from evalkit.core.regular_files import open_file
from evalkit.core.resources import optional
from evalkit.datasets.file_parts import (
    OpenFileError,
    file_of,
    likely_encodings,
    named_encoding,
    recoded,
    unmarked_utf16,
)

SUFFIXES: Final = {
    ".gz": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bz2",
    ".xz": "xz",
}
"""Compression by last suffix; the suffix before it is the format."""
_MARKS: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
}
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_UTF32 = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
_LONGEST_MARK = 6
_PIECE = 2**17
_AS_UTF8 = "save the file as UTF-8"
_LONGEST_START = 2**18
"""The number of bytes from which the encoding of a text is guessed."""
LONGEST_ROW = 40_000_000
"""The most bytes of a row in a compressed file, or of one in a JSON array: reading one takes three
times as much."""


def compression_of(path: Path) -> str | None:
    """Return the compression of a file (`gzip`, `zstd`, `bz2`, `xz`) by its first
    bytes; `None` if it has none.

    Raises:
        DatasetError: If its suffix indicates a compression that it does not have, or if it is a
            pipe.
    """
    refuse_stream(path)
    path = file_of(path)
    with open_file(path) as file:
        begins = file.read(_LONGEST_MARK)
    compression = next(
        (name for mark, name in _MARKS.items() if begins.startswith(mark)), None
    )
    named = SUFFIXES.get(path.suffix.lower())
    if named and compression is None:
        raise DatasetError(
            f"is not {named} data, despite its suffix",
            where=str(path),
            remedy="rename or compress it",
        )
    return compression


def refuse_stream(path: Path) -> None:
    """Refuse a pipe or a device: it is read twice, and can be endless.

    Raises:
        DatasetError: If it is one.
    """
    path = file_of(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DatasetError(
            "is a pipe or a device and not a file",
            where=str(path),
            remedy="write a file, or pipe it into standard input with the path -",
        )


def inner_suffix(path: Path) -> str:
    """Return the suffix of a file's format, without that of its compression, in lower
    case and without the dot.
    """
    path = file_of(path)
    inner = path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
    return inner.suffix.lstrip(".").lower()


def bare_name(path: Path) -> str:
    """Return a file's name without the suffixes of its compression and format."""
    path = file_of(path)
    return (path.with_suffix("") if path.suffix.lower() in SUFFIXES else path).stem


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading its uncompressed bytes, as UTF-8 if `#` names its
    encoding after the path.
    """
    encoding = named_encoding(path)
    if encoding:
        return recoded(_open_bytes(file_of(path)), encoding, path)
    return _open_bytes(path)


def _open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed if its name says that it is compressed."""
    compression = compression_of(path)
    if compression is None:
        return open_file(path)
    if compression == "zstd":
        stream: Any = optional("pyarrow", str(path), "zstd").input_stream(
            str(path), compression="zstd"
        )
        return io.BufferedReader(stream, 2**20)
    # The module of a compression has its name, except for xz.
    library: Any = import_module({"xz": "lzma"}.get(compression, compression))
    opened: IO[bytes] = library.open(path, "rb")
    return opened


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Report in one line why a file cannot be read or decompressed.

    Raises:
        DatasetError: Instead of errors of the system or the decompressor.
    """
    try:
        yield
    except (EOFError, zlib.error) as bad:
        raise _damaged(path, bad) from None
    except OSError as bad:
        if bad.errno is None:
            raise _damaged(path, bad) from None
        problem = f"cannot be read ({bad.strerror or bad})"
        remedy = "check the file and its permissions"
        raise DatasetError(problem, where=str(path), remedy=remedy) from None
    except Exception as bad:
        if type(bad).__name__ != "LZMAError":  # its module is imported only when needed
            raise
        raise _damaged(path, bad) from None


def _damaged(path: Path, bad: Exception) -> DatasetError:
    return DatasetError(
        f"cannot be decompressed ({bad})",
        where=str(path),
        remedy="it is truncated or damaged; download it again",
    )


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[tuple[int, bytes]]]:
    """Open a text file for its lines: pairs of the line's number, from 1, and its bytes; only LF
    ends a line.

    A byte-order mark is removed, and UTF-16 with one is converted to UTF-8. Other bytes are
    unchanged.

    Raises:
        DatasetError: If it is UTF-32, or invalid UTF-16, a line of a compressed file is too long,
            or it is damaged.
    """
    with reading(path), open_bytes(path) as opened:
        file = opened if compression_of(path) is None else _bounded(opened, path)
        first = next(file, b"")
        if first.startswith(_UTF32):
            raise _utf32(path)
        if first.startswith(_UTF16):
            yield _utf16_lines(path)
        elif encoding := unmarked_utf16(first):
            raise _without_mark(path, encoding)
        else:
            yield enumerate(chain([first.removeprefix(_BOM)] if first else [], file), 1)


def _bounded(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield lines, of which one could fill the memory: a small compressed file can hold
    gigabytes.
    """
    while line := file.readline(LONGEST_ROW + 1):
        if len(line) > LONGEST_ROW:
            raise too_long(str(path))
        yield line


def too_long(where: str) -> DatasetError:
    """Return the error for a row that is longer than `LONGEST_ROW`."""
    problem = f"has a row of more than {LONGEST_ROW // 10**6} MB"
    return DatasetError(
        problem, where=where, remedy="split the row, or remove what is not judged"
    )


def _utf16_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number, from 1, and the text of each line of a UTF-16 file, encoded as UTF-8.

    Raises:
        DatasetError: If the file is not UTF-16.
    """
    number = 0
    with io.TextIOWrapper(open_bytes(path), encoding="utf-16", newline="\n") as file:
        try:
            for number, line in enumerate(file, 1):
                yield number, line.encode("utf-8")
        except UnicodeError as bad:
            where = f"{path}:{number + 1}"
            remedy = "save the file as UTF-8"
            raise DatasetError(
                f"is not UTF-16, despite its byte-order mark ({bad})",
                where=where,
                remedy=remedy,
            ) from None


@contextmanager
def open_texts(path: Path) -> Iterator[Iterator[str]]:
    """Open a text file for its text in chunks of a fixed size; encodings as in `open_lines`.

    Raises:
        DatasetError: If it is UTF-32.
    """
    with open_bytes(path) as file:
        first = file.read(_PIECE)
        # first, because the mark of UTF-16 begins that of UTF-32 too
        if first.startswith(_UTF32):
            raise _utf32(path)
        if first.startswith(_UTF16):
            yield (line.decode("utf-8") for _, line in _utf16_lines(path))
        elif encoding := unmarked_utf16(first):
            raise _without_mark(path, encoding)
        else:
            yield _utf8_pieces(path, first, file)


def _utf8_pieces(path: Path, piece: bytes, file: IO[bytes]) -> Iterator[str]:
    """Yield the text of a file in pieces; a byte-order mark is removed.

    Args:
        path: The file, for errors.
        piece: The first bytes, which were read from `file` before.
        file: The open file, after the first piece.

    Raises:
        DatasetError: If the file is not UTF-8; with the byte and the line.
    """
    decoder = getincrementaldecoder("utf-8")()
    # Where `piece` begins: the byte in the file, and the line.
    offset = 0
    line = 1
    if piece.startswith(_BOM):
        piece = piece.removeprefix(_BOM)
        offset = len(_BOM)
    while True:
        # The bytes of a character that began in the piece before: the decoder keeps them.
        kept_bytes, _ = decoder.getstate()
        pending = len(kept_bytes)
        try:
            text = decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as bad:
            line += bad.object[: bad.start].count(b"\n")
            raise _not_utf8(path, offset - pending + bad.start, line) from None
        if text or not piece:
            yield text
        if not piece:
            return
        offset = offset + len(piece)
        line = line + piece.count(b"\n")
        piece = file.read(_PIECE)


def _utf32(path: Path) -> DatasetError:
    return DatasetError("is UTF-32", where=str(path), remedy="save the file as UTF-8")


def _without_mark(path: Path, encoding: str) -> OpenFileError:
    problem = "every other byte is zero, as in UTF-16 without a byte-order mark"
    parts = [(encoding, encoding.upper())]
    question = "is it this encoding?"
    return OpenFileError(problem, path, str(path), parts, question, _AS_UTF8)


def _not_utf8(path: Path, offset: int, line: int) -> DatasetError:
    problem = f"the byte at offset {offset} is not UTF-8"
    where = f"{path}:{line}"
    with open_bytes(path) as file:
        encodings = likely_encodings(file.read(_LONGEST_START))
    if encodings:
        parts = [(name, f"{name}, which reads '{text}'") for name, text in encodings]
        question = "in which encoding is it?"
        return OpenFileError(problem, path, where, parts, question, _AS_UTF8)
    return DatasetError(problem, where=where, remedy=_AS_UTF8)


def decoded(line: bytes, number: int, path: Path) -> str:
    """Decode a line.

    Raises:
        DatasetError: If it is not UTF-8; names the offset of the first invalid byte in the file.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as bad:
        raise _not_utf8(path, _offset(path, number) + bad.start, number) from None


def _offset(path: Path, number: int) -> int:
    with open_bytes(path) as file:
        before = [next(file) for _ in range(number)]
    return sum(map(len, before[:-1])) + (
        len(_BOM) if number == 1 and before[0].startswith(_BOM) else 0
    )
