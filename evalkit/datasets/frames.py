"""Rows from Python: pandas and polars frames, Arrow tables, or mappings; none of these libraries is imported here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evalkit.datasets.tables import placed
from evalkit.errors import DatasetError

Row = dict[str, Any]
NAME = "frame"
_BATCH = 4096


def frame_rows(frame: Any) -> Iterator[tuple[str, Row]]:
    """Yield each row of a frame with its place, as `frame:row 3`.

    What is missing (NaN, NaT, NA, null) is none. A generator can be read only once: give a list.

    Raises:
        DatasetError: if it is no frame, or a row of it no mapping.
    """
    if callable(getattr(frame, "to_batches", None)):  # an Arrow table
        yield from placed(frame.to_batches(), NAME)
    elif callable(getattr(frame, "iter_rows", None)):  # polars
        for number, row in enumerate(frame.iter_rows(named=True), 1):
            yield f"{NAME}:row {number}", row
    elif hasattr(frame, "iloc") and hasattr(frame, "columns"):  # pandas
        yield from _pandas(frame)
    elif isinstance(frame, Iterable) and not isinstance(frame, str | bytes | Mapping | Iterator):
        for number, row in enumerate(frame, 1):
            if not isinstance(row, Mapping):
                what = f"the row is of type {type(row).__name__}, not a mapping"
                raise DatasetError(what, where=f"{NAME}:row {number}", remedy="write each row as {column: value}")
            yield f"{NAME}:row {number}", {str(column): value for column, value in row.items()}
    else:
        what, remedy = f"cases of type {type(frame).__name__}", "give a frame, an Arrow table, or a list of mappings"
        raise DatasetError(f"{what} cannot be read", where=NAME, remedy=remedy)


def _pandas(frame: Any) -> Iterator[tuple[str, Row]]:
    names = [str(column) for column in frame.columns]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        what = f"two columns are named '{repeated}'"
        raise DatasetError(what, where=NAME, remedy="give each column its own name")
    for start in range(0, len(frame), _BATCH):
        part = frame.iloc[start : start + _BATCH]
        known = part.notna()
        columns = [
            [value if there else None for value, there in zip(part.iloc[:, i].tolist(), known.iloc[:, i], strict=True)]
            for i in range(len(names))
        ]
        for number, values in enumerate(zip(*columns, strict=True), start + 1):
            yield f"{NAME}:row {number}", dict(zip(names, values, strict=True))
