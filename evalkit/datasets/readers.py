"""Files to rows: each row a mapping from column to value, with the place it stands in."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from evalkit.datasets.arrays import read_array, reason
from evalkit.datasets.others import other_formats, other_reader
from evalkit.datasets.packed import decoded, inner_suffix, open_lines
from evalkit.datasets.tables import read_arrow, read_parquet
from evalkit.errors import ConfigError, DatasetError, did_you_mean

Row = dict[str, Any]
Reader = Callable[[Path], Iterable[tuple[str, Row]]]

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
        what = f"the row is not JSON ({reason(bad)})"
        raise DatasetError(what, where=place, remedy=_remedy(text.encode("utf-8"), number)) from None


def _remedy(line: bytes, number: int) -> str:
    if number == 1 and line.lstrip().startswith(b"["):
        return "if the whole file is one array, set dataset.format=json"
    return "write one JSON object a line"


def _texts(path: Path) -> Iterator[str]:
    with open_lines(path) as lines:
        for number, line in lines:
            yield decoded(line, number, path)


def _read_json(path: Path) -> Iterator[tuple[str, Row]]:
    for place, value in read_array(path, _JSON):
        yield place, _record(value, place)


def _read_delimited(path: Path, delimiter: str) -> Iterator[tuple[str, Row]]:
    csv.field_size_limit(_LONGEST_CELL)
    texts = _texts(path)
    first = next(texts, "")
    rows = csv.reader(chain([first], texts), delimiter=_told_apart_by(first, delimiter), strict=True)
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


def _told_apart_by(first: str, delimiter: str) -> str:
    """Return what stands between the cells: spreadsheets write `.csv` with semicolons or tabs, too."""
    return next((other for other in (delimiter, ",", ";", "\t") if other in first), delimiter)


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
