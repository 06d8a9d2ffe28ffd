"""Judgments as Parquet: a column for each field, compressed, written and read a few thousand at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, Final

from evalkit.core.optional import optional
from evalkit.runs.records import encode_line
from evalkit.types import Judgment

_WHERE: Final = "runner.judgments=parquet"

ROWS: Final = 4096
LINE: Final = "line"
"""The column of the rows that columns cannot hold, such as texts with unpaired surrogates: each as a line of JSON."""
_TYPES: Final = {
    **dict.fromkeys(("case_id", "judge", "status", "read_by", "error", "error_kind", "arbiter"), "string"),
    **dict.fromkeys(("value", "confidence"), "float64"),
    "sample": "int64",
    "stored": "bool_",
}
_FIELDS: Final = tuple(field.name for field in fields(Judgment))


def encode_judgments(judgments: Iterable[Judgment]) -> Iterator[bytes]:
    """Yield the content of a Parquet file in chunks.

    Raises:
        ConfigError: If pyarrow is not installed.
    """
    arrow, parquet = (optional(name, _WHERE) for name in ("pyarrow", "pyarrow.parquet"))
    kinds = [(name, getattr(arrow, _TYPES.get(name, "string"))()) for name in _FIELDS]
    schema = arrow.schema([*kinds, (LINE, arrow.string())])
    sink, rest = _Sink(), iter(judgments)
    with parquet.ParquetWriter(arrow.PythonFile(sink, "w"), schema, compression="zstd") as writer:
        while some := [_row(one) for one in islice(rest, ROWS)]:
            writer.write_table(arrow.Table.from_pylist(some, schema))
            yield from sink.taken()
    yield from sink.taken()


def read_rows(path: Path) -> Iterator[Any]:
    """Yield each row of a file of `encode_judgments` as `json` would read its line.

    Raises:
        ConfigError: If pyarrow is not installed.
        OSError: If the file cannot be read.
        ValueError: If it is damaged.
    """
    with optional("pyarrow.parquet", _WHERE).ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS):
            for row in batch.to_pylist():
                line = row.pop(LINE, None)
                yield json.loads(line) if line else {name: _value(name, one) for name, one in row.items()}


def _row(judgment: Judgment) -> dict[str, Any]:
    row = {name: getattr(judgment, name) for name in _FIELDS}
    try:
        if not all(isfinite(one or 0.0) for one in (judgment.value, judgment.confidence)):
            raise ValueError
        for name in _TYPES:
            if isinstance(row[name], str):
                row[name].encode()
    except ValueError:
        return {LINE: _json(judgment)}
    return {name: one if name in _TYPES else _json(one) for name, one in row.items()}


def _json(value: Any) -> str:
    return encode_line(value).decode().rstrip("\n")


def _value(name: str, cell: Any) -> Any:
    return cell if name in _TYPES else json.loads(cell)


class _Sink:
    """A file that is only written, whose content is taken as it comes."""

    closed = False

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._written = 0

    def write(self, chunk: Any) -> int:
        """Take a chunk."""
        self._chunks.append(bytes(chunk))
        self._written += len(self._chunks[-1])
        return len(self._chunks[-1])

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Do nothing: what is written is taken by `taken`."""

    def taken(self) -> Sequence[bytes]:
        """Return the chunks since the last time."""
        chunks, self._chunks = self._chunks, []
        return chunks
