"""Readers of Parquet and Arrow files, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any

from evalkit.core.errors import (
    DatasetError,
)
from evalkit.core.regular_files import open_file
from evalkit.core.resources import optional
from evalkit.datasets.compression import (
    compression_of,
    refuse_stream,
)
from evalkit.datasets.located_rows import (
    Placed,
    Row,
    numbered,
    unique_columns,
)

# Rows that are converted to Python at a time.
_BATCH = 1024


_BUFFER = 2**20


# The first bytes of an Arrow file; a stream has none.
_FILE_MARK = b"ARROW1"


def read_parquet(path: Path) -> Iterator[Placed]:
    """Yield the rows of a Parquet file, row group by row group."""
    refuse_stream(path)
    parquet = optional("pyarrow.parquet", str(path), "parquet")
    with (
        _clear_arrow_errors(path, "a parquet"),
        parquet.ParquetFile(path, buffer_size=_BUFFER) as file,
    ):
        unique_columns(file.schema_arrow.names, str(path))
        yield from placed(_batches(file), str(path))


def _batches(file: Any) -> Iterator[Any]:
    # One row group at a time in one thread; otherwise memory grows with the file.
    for group in range(file.num_row_groups):
        yield from file.iter_batches(
            batch_size=_BATCH, row_groups=[group], use_threads=False
        )
        # The pool keeps freed memory for later batches, which would add up.
        import_module("pyarrow").default_memory_pool().release_unused()


def _released(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield batches, and release the memory of the previous ones."""
    pool = import_module("pyarrow").default_memory_pool()
    for batch in batches:
        yield batch
        pool.release_unused()


def read_arrow(path: Path) -> Iterator[Placed]:
    """Yield the rows of an Arrow file (Feather 2 is one) or stream."""
    ipc = optional("pyarrow.ipc", str(path), "arrow")
    with _clear_arrow_errors(path, "an arrow"), open_file(path) as begin:
        is_file = begin.read(len(_FILE_MARK)) == _FILE_MARK
        # The mark is part of the file.
        begin.seek(0)
        if is_file:
            with ipc.open_file(begin) as file:
                yield from placed(
                    _released(
                        file.get_batch(i) for i in range(file.num_record_batches)
                    ),
                    str(path),
                )
        else:
            with ipc.open_stream(begin) as stream:
                yield from placed(_released(stream), str(path))


def placed(batches: Any, name: str) -> Iterator[Placed]:
    """Yield each row of Arrow record batches with its location, such as `name:row 3`.

    Raises:
        DatasetError: If column names are duplicated.
    """
    return numbered(name, _arrow_rows(batches, name))


def _arrow_rows(batches: Any, name: str) -> Iterator[Row]:
    """Yield the rows of Arrow batches as dictionaries, a part of a batch at a time."""
    names = None
    for batch in batches:
        # The names are checked once: all batches have one schema.
        names = names or unique_columns(batch.schema.names, name)
        # A file may be one batch of all rows, which would be converted at once.
        for start in range(0, batch.num_rows, _BATCH):
            part = batch.slice(start, _BATCH)
            # Columns to rows: (columns, rows) lists are zipped into tuples by row.
            values = zip(*(column.to_pylist() for column in part.columns), strict=True)
            yield from map(dict, map(zip, repeat(names), values))


@contextmanager
def _clear_arrow_errors(path: Path, kind: str) -> Iterator[None]:
    """Turn errors of the library into one line, and refuse a file that is compressed again.

    Args:
        path: The file.
        kind: What it should be, with an article.

    Raises:
        DatasetError: If it is compressed again, or within the block, if it cannot be read.
    """
    if packed := compression_of(path):
        problem = f"{kind} file compressed with {packed}"
        raise DatasetError(
            problem,
            where=str(path),
            remedy="decompress it; such files have internal compression",
        )
    try:
        yield
    except import_module("pyarrow").ArrowException as bad:
        remedy = "check the file, or set dataset.format"
        raise DatasetError(
            f"not {kind} file ({bad})", where=str(path), remedy=remedy
        ) from None
