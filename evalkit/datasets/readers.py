"""Files to rows: each row a mapping from column to value, with the place it stands in."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from evalkit.datasets.others import other_formats, other_reader
from evalkit.datasets.packed import decoded, inner_suffix, open_lines
from evalkit.datasets.tables import read_arrow, read_parquet
from evalkit.errors import ConfigError, DatasetError, did_you_mean

Row = dict[str, Any]
Reader = Callable[[Path], Iterable[tuple[str, Row]]]

_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_CELL = 2**31 - 1


def reader_for(format: str | None, path: Path) -> Reader:  # noqa: A002 - the config's own word
    """Return the reader of a format, by name or else by the file's suffix.

    Raises:
        ConfigError: if there is no such format.
    """
    name = (format or inner_suffix(path)).lower()
    if name not in _READERS:
        if other := other_reader(format or name):
            return other
        what = f"no reader for format '{name}'" if name else f"'{path}' has no suffix to tell its format by"
        raise ConfigError(what, where="dataset.format", remedy=did_you_mean(name, [*_READERS, *other_formats()]))
    return _READERS[name]


def is_readable(path: Path) -> bool:
    """Say whether a file's name tells a format that can be read."""
    return inner_suffix(path) in _READERS


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
    name = str(path)
    with open_lines(path) as lines:
        for number, line in lines:
            try:
                value = from_json(line, allow_inf_nan=False, cache_strings="keys")
            except ValueError:  # the other is slower, says more, and reads what this one does not: half surrogates, NaN
                text = decoded(line, number, path)
                if not text.strip():
                    continue
                value = _slowly(text, f"{path}:{number}", number)
            place = f"{name}:{number}"
            yield place, value if type(value) is dict else _record(value, place, _remedy(line, number))


def _slowly(text: str, place: str, number: int) -> Any:
    try:
        return _JSON.decode(text)
    except (ValueError, RecursionError) as bad:
        what = f"the row is not JSON ({_reason(bad)})"
        raise DatasetError(what, where=place, remedy=_remedy(text.encode("utf-8"), number)) from None


def _remedy(line: bytes, number: int) -> str:
    if number == 1 and line.lstrip().startswith(b"["):
        return "if the whole file is one array, set dataset.format=json"
    return "write one JSON object a line"


def _reason(bad: Exception) -> str:
    if isinstance(bad, json.JSONDecodeError):
        return f"column {bad.colno}: {bad.msg.rstrip(':').lower()}"
    return "nested too deeply" if isinstance(bad, RecursionError) else str(bad)


def _texts(path: Path) -> Iterator[str]:
    with open_lines(path) as lines:
        for number, line in lines:
            yield decoded(line, number, path)


def _read_json(path: Path) -> Iterator[tuple[str, Row]]:
    text = "".join(_texts(path))
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
    rows = csv.reader(_texts(path), delimiter=delimiter, strict=True)
    try:
        header = _header(next(rows, []), path)
        line = rows.line_num + 1
        for cells in rows:
            place, line = f"{path}:{line}", rows.line_num + 1
            if cells:
                yield place, _row(header, cells, place)
    except csv.Error as bad:
        where = f"{path}:{rows.line_num}"
        raise DatasetError(f"not {inner_suffix(path) or 'csv'} ({bad})", where=where, remedy="mend it") from None


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


_READERS: dict[str, Reader] = {
    "jsonl": _read_jsonl,
    "ndjson": _read_jsonl,
    "json": _read_json,
    "csv": partial(_read_delimited, delimiter=","),
    "tsv": partial(_read_delimited, delimiter="\t"),
    "parquet": read_parquet,
    "arrow": read_arrow,
    "feather": read_arrow,
}
