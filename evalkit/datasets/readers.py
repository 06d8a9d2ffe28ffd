"""Files to rows: each row a mapping from column to value, with the place it stands in."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from evalkit.datasets.others import other_formats, other_reader
from evalkit.errors import ConfigError, DatasetError, did_you_mean

Row = dict[str, Any]
Reader = Callable[[Path], Iterable[tuple[str, Row]]]

_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_CELL = 2**31 - 1


def reader_for(format: str | None, path: Path) -> Reader:  # noqa: A002 - the config's own word
    """Return the reader of a format, by name or else by the file's suffix.

    Raises:
        ConfigError: if there is no such format.
    """
    name = (format or path.suffix.lstrip(".")).lower()
    if name == "hf":
        raise ConfigError(
            "format hf cannot be read yet", where="dataset.format", remedy="save the dataset as parquet or jsonl"
        )
    if name not in _READERS:
        if other := other_reader(format or name):
            return other
        what = f"no reader for format '{name}'" if name else f"'{path}' has no suffix to tell its format by"
        raise ConfigError(what, where="dataset.format", remedy=did_you_mean(name, [*_READERS, *other_formats()]))
    return _READERS[name]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            yield number, _decode(raw, path, number, offset)
            offset += len(raw)


def _decode(raw: bytes, path: Path, number: int, offset: int) -> str:
    skipped = len(_BOM) if number == 1 and raw.startswith(_BOM) else 0
    try:
        return raw[skipped:].decode("utf-8")
    except UnicodeDecodeError as bad:
        at = offset + skipped + bad.start
        raise DatasetError(
            f"the byte at offset {at} is not UTF-8", where=f"{path}:{number}", remedy="save the file as UTF-8"
        ) from None


def _constant(name: str) -> str | None:
    # Some writers spell a missing value NaN; JSON has no such value, and neither has a case.
    return None if name == "NaN" else name


_JSON = json.JSONDecoder(parse_constant=_constant)


def _record(value: Any, place: str, remedy: str = "write each row as {column: value}") -> Row:
    if not isinstance(value, dict):
        kind = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
        raise DatasetError(f"the row is {kind}, not an object", where=place, remedy=remedy)
    return value


def _read_jsonl(path: Path) -> Iterator[tuple[str, Row]]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        place, remedy = f"{path}:{number}", "write one JSON object a line"
        if number == 1 and line.lstrip().startswith("["):
            remedy = "if the whole file is one array, set dataset.format=json"
        try:
            value = _JSON.decode(line)
        except (ValueError, RecursionError) as bad:
            raise DatasetError(f"the row is not JSON ({_reason(bad)})", where=place, remedy=remedy) from None
        yield place, _record(value, place, remedy)


def _reason(bad: Exception) -> str:
    if isinstance(bad, json.JSONDecodeError):
        return f"column {bad.colno}: {bad.msg.rstrip(':').lower()}"
    return "nested too deeply" if isinstance(bad, RecursionError) else str(bad)


def _read_json(path: Path) -> Iterator[tuple[str, Row]]:
    text = "".join(line for _, line in _lines(path))
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        raise DatasetError(
            "the file is not one JSON array of rows",
            where=str(path),
            remedy="if each line is a row, set dataset.format=jsonl",
        )
    at, line, counted = _skip(text, at + 1), 1, 0
    more = text[at : at + 1] != "]"
    at += not more
    while more:
        line, counted = line + text.count("\n", counted, at), at
        place = f"{path}:{line}"
        value, at = _element(text, at, path, place)
        yield place, _record(value, place)
        more, at = text[at : at + 1] == ",", _skip(text, at + 1)
    if text[at:].strip():
        raise DatasetError(
            "the file goes on after its array of rows", where=str(path), remedy="write all rows in one array"
        )


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _element(text: str, at: int, path: Path, place: str) -> tuple[Any, int]:
    remedy = "mend the JSON"
    try:
        value, end = _JSON.raw_decode(text, at)
    except json.JSONDecodeError as bad:
        raise DatasetError(f"not JSON ({_reason(bad)})", where=f"{path}:{bad.lineno}", remedy=remedy) from None
    except (ValueError, RecursionError) as bad:
        raise DatasetError(f"not JSON ({_reason(bad)})", where=place, remedy=remedy) from None
    end = _skip(text, end)
    if text[end : end + 1] not in (",", "]"):
        line = text.count("\n", 0, end) + 1
        raise DatasetError("not JSON (expected ',' or ']' after a row)", where=f"{path}:{line}", remedy=remedy)
    return value, end


def _read_delimited(path: Path, delimiter: str) -> Iterator[tuple[str, Row]]:
    csv.field_size_limit(_LONGEST_CELL)
    rows = csv.reader((line for _, line in _lines(path)), delimiter=delimiter, strict=True)
    try:
        header = _header(next(rows, []), path)
        line = rows.line_num + 1
        for cells in rows:
            place, line = f"{path}:{line}", rows.line_num + 1
            if cells:
                yield place, _row(header, cells, place)
    except csv.Error as bad:
        where = f"{path}:{rows.line_num}"
        raise DatasetError(f"not {path.suffix.lstrip('.') or 'csv'} ({bad})", where=where, remedy="mend it") from None


def _header(header: list[str], path: Path) -> list[str]:
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        raise DatasetError(
            f"two columns are named '{repeated[0]}'", where=f"{path}:1", remedy="give each column its own name"
        )
    return header


def _row(header: list[str], cells: list[str], place: str) -> Row:
    if len(cells) != len(header):
        raise DatasetError(
            f"the row has {len(cells)} cells and the header {len(header)}",
            where=place,
            remedy="quote cells that hold the delimiter, a quote or a line break",
        )
    return dict(zip(header, cells, strict=True))


def _read_parquet(path: Path) -> Iterator[tuple[str, Row]]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise ConfigError("parquet needs pyarrow", where=str(path), remedy="install it: pip install pyarrow") from None
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}:row {number}", row
    except import_module("pyarrow").ArrowException as bad:
        remedy = "check the file, or set dataset.format"
        raise DatasetError(f"not a parquet file ({bad})", where=str(path), remedy=remedy) from None


_READERS: dict[str, Reader] = {
    "jsonl": _read_jsonl,
    "ndjson": _read_jsonl,
    "json": _read_json,
    "csv": partial(_read_delimited, delimiter=","),
    "tsv": partial(_read_delimited, delimiter="\t"),
    "parquet": _read_parquet,
}
