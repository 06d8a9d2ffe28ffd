"""Columnar files to rows: Parquet and Arrow, a few thousand rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any

from evalkit.datasets.packed import packing
from evalkit.errors import ConfigError, DatasetError

Row = dict[str, Any]
_BATCH = 1024
_BUFFER = 2**20
_FILE_MARK = b"ARROW1"


def arrow(module: str, path: Path | str, what: str) -> Any:
    """Return pyarrow, or a module of it.

    Raises:
        ConfigError: if it is not installed, naming what needs it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(f"{what} needs pyarrow", where=str(path), remedy="install it: pip install pyarrow") from None


def read_parquet(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a Parquet file, row group by row group."""
    parquet = arrow("pyarrow.parquet", path, "parquet")
    with _said_in_one_line(path, "a parquet"), parquet.ParquetFile(path, buffer_size=_BUFFER) as file:
        yield from placed(_batches(file), str(path))


def _batches(file: Any) -> Iterator[Any]:
    # One row group after the other, and by one thread: else memory grows with the file.
    for group in range(file.num_row_groups):
        yield from file.iter_batches(batch_size=_BATCH, row_groups=[group], use_threads=False)
        import_module("pyarrow").default_memory_pool().release_unused()


def _released(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield batches, and have pyarrow give back to the system what it would else keep of those before."""
    pool = import_module("pyarrow").default_memory_pool()
    for batch in batches:
        yield batch
        pool.release_unused()


def read_arrow(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of an Arrow file (Feather 2 is one) or stream."""
    ipc = arrow("pyarrow.ipc", path, "arrow")
    with _said_in_one_line(path, "an arrow"), path.open("rb") as begin:
        is_file = begin.read(len(_FILE_MARK)) == _FILE_MARK
        begin.seek(0)
        if is_file:
            with ipc.open_file(begin) as file:
                yield from placed(_released(file.get_batch(i) for i in range(file.num_record_batches)), str(path))
        else:
            with ipc.open_stream(begin) as stream:
                yield from placed(_released(stream), str(path))


def placed(batches: Any, name: str) -> Iterator[tuple[str, Row]]:
    """Yield each row of Arrow record batches with its place, as `name:row 3`.

    Raises:
        DatasetError: if two columns have one name.
    """
    number, names = 0, None
    for batch in batches:
        if names is None:
            names = list(batch.schema.names)
            if repeated := sorted({one for one in names if names.count(one) > 1}):
                what = f"two columns are named '{repeated[0]}'"
                raise DatasetError(what, where=name, remedy="give each column its own name")
        for start in range(0, batch.num_rows, _BATCH):
            part = batch.slice(start, _BATCH)
            values = zip(*(column.to_pylist() for column in part.columns), strict=True)
            for row in map(dict, map(zip, repeat(names), values)):
                number += 1
                yield f"{name}:row {number}", row


@contextmanager
def _said_in_one_line(path: Path, kind: str) -> Iterator[None]:
    if packed := packing(path):
        what = f"{kind} file packed with {packed}"
        raise DatasetError(what, where=str(path), remedy="unpack it: such files are packed within themselves")
    try:
        yield
    except import_module("pyarrow").ArrowException as bad:
        remedy = "check the file, or set dataset.format"
        raise DatasetError(f"not {kind} file ({bad})", where=str(path), remedy=remedy) from None
