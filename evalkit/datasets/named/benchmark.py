"""What is known of a named benchmark: who made it, under which licence, and how its files become rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from evalkit.datasets.formats import Row
from evalkit.datasets.named.files import Placed, files_in, first_row, rows_of
from evalkit.errors import DatasetError

Shape = frozenset[str]


def shape(*columns: str) -> Shape:
    """Return the columns that tell rows of one kind from all others."""
    return frozenset(columns)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a benchmark is read from: `path` is a file or a folder; `baseline` names the model to compare with.

    `left_out` counts what its reader leaves out, by what it is, before it yields the first row.
    """

    path: Path
    baseline: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A published benchmark.

    `kind` says what its rows are, as in "looks like {kind}"; `expects` what `dataset.path` must name. A row of any of
    `shapes` is one of its rows, whatever further columns it has. `read` yields canonical rows with their places;
    `holds` says of a folder that it is one, where single rows cannot;
    of a folder's files only those named as `files` (a pattern) are read.
    """

    name: str
    title: str
    kind: str
    licence: str
    citation: str
    homepage: str
    expects: str
    shapes: tuple[Shape, ...]
    read: Callable[[Benchmark, Source], Iterator[Placed]]
    holds: Callable[[Path], bool] | None = None
    files: str = "*"

    def looks_like(self, row: Row) -> bool:
        """Say whether a row is one of this benchmark's, by its columns."""
        return any(columns <= row.keys() for columns in self.shapes)

    @property
    def note(self) -> str:
        """The line that tells a user whose data this is."""
        return f"{self.title}: licence {self.licence}; cite {self.citation} ({self.homepage})"

    def described(self) -> dict[str, str]:
        """Return what the manifest says of it."""
        return {
            "name": self.name,
            "title": self.title,
            "licence": self.licence,
            "citation": self.citation,
            "homepage": self.homepage,
        }


class ForeignError(DatasetError):
    """A file is not one of the benchmark that was named; `row` is the row of it that shows, if any."""

    def __init__(self, benchmark: Benchmark, why: str, row: Row | None, where: str) -> None:
        self.row = row
        super().__init__(f"not {benchmark.title}: {why}", where=where, remedy=f"name {benchmark.expects}")


def foreign_row(benchmark: Benchmark, row: Row, place: str) -> ForeignError:
    """Return the error for a row that is not the benchmark's: it names a column that is missing."""
    nearest = min(benchmark.shapes, key=lambda columns: (len(columns - row.keys()), sorted(columns)))
    missing = sorted(nearest - row.keys())
    return ForeignError(benchmark, f"the row has no '{missing[0] if missing else '?'}'", row, place)


def benchmark_files(benchmark: Benchmark, source: Source, *shapes: Shape) -> list[Path]:
    """Return the file that is named, or those of a folder whose first row is of one of `shapes`, by default its own.

    Raises:
        DatasetError: if a folder holds none.
    """
    if not source.path.is_dir():
        return [source.path]
    wanted = shapes or benchmark.shapes
    seen = [(file, first_row(file)) for file in files_in(source.path)]
    named = [(file, row) for file, row in seen if row is not None and fnmatch(file.name, benchmark.files)]
    files = [file for file, row in named if any(columns <= row.keys() for columns in wanted)]
    if not files:
        row = next((row for _, row in seen if row is not None), None)
        raise ForeignError(benchmark, "the folder holds no such file", row, str(source.path))
    return files


def checked(benchmark: Benchmark, file: Path, *shapes: Shape) -> Iterator[Placed]:
    """Yield a file's rows, each one being of one of `shapes`, by default the benchmark's.

    Raises:
        DatasetError: at the first that is not.
    """
    wanted = shapes or benchmark.shapes
    for place, row in rows_of(file):
        if not any(columns <= row.keys() for columns in wanted):
            raise foreign_row(benchmark, row, place)
        yield place, row


@dataclass(frozen=True, slots=True)
class RowLocation:
    """Where a row stands: its place in words, its file, and its number there, from 1."""

    place: str
    file: Path
    number: int


def row_by_row(convert: Callable[[Row, RowLocation], Row]) -> Callable[[Benchmark, Source], Iterator[Placed]]:
    """Return the reader of a benchmark of which each row is a case, which `convert` makes of it."""

    def read(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
        for file in benchmark_files(benchmark, source):
            for number, (place, row) in enumerate(checked(benchmark, file), 1):
                yield place, convert(row, RowLocation(place, file, number))

    return read


def choice(value: Any, meanings: dict[str, str], place: str) -> str | None:
    """Return the label that a published value stands for, none for null.

    Raises:
        DatasetError: if the benchmark has no such value.
    """
    if value is None:
        return None
    text = str(value).strip()
    text = text.removesuffix(".0")
    if text not in meanings:
        known = ", ".join(meanings)
        raise DatasetError(f"label '{text:.40}' is none of {known}", where=place, remedy="mend the row")
    return meanings[text]


def listed(value: Any, column: str, place: str) -> list[Any]:
    """Return a column that must hold a list.

    Raises:
        DatasetError: if it does not.
    """
    if not isinstance(value, list) or not value:
        raise DatasetError(f"'{column}' is not a list of texts", where=place, remedy="mend the row")
    return value
