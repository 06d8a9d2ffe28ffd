"""The files of a benchmark: one that is named, or those in a folder, and the rows in them as they stand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evalkit.datasets.formats import Row, is_readable, reader_for
from evalkit.errors import ConfigError

Placed = tuple[str, Row]

_MOST_LOOKED_AT = 40


def files_in(path: Path) -> list[Path]:
    """Return the file itself, or the data files in a folder and the folders in it, by name; hidden ones left out."""
    if not path.is_dir():
        return [path]
    found = (file for file in path.rglob("*") if file.is_file() and is_readable(file))
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts))


def rows_of(file: Path) -> Iterator[Placed]:
    """Yield each row of a file with its place.

    Raises:
        ConfigError: if the file's suffix has no reader.
        DatasetError: if it cannot be read.
    """
    yield from reader_for(None, file)(file)


def first_row(file: Path) -> Row | None:
    """Return the first row of a file, none if it holds none or is no file of rows."""
    try:
        return next((row for _, row in rows_of(file)), None)
    except (ConfigError, OSError):
        return None


def first_rows(path: Path) -> Iterator[tuple[Path, Row]]:
    """Yield the first row of each of the first files at a path, those that have one."""
    for file in files_in(path)[:_MOST_LOOKED_AT]:
        row = first_row(file)
        if row is not None:
            yield file, row
