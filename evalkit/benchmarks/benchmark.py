"""What a benchmark is: its reader, its scoring rule, its license and citation, and the importer of its judgments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeAlias

from evalkit.benchmarks.judgment_files import Peek
from evalkit.benchmarks.records import Options, ParsedFile
from evalkit.benchmarks.scoring_rules import View
from evalkit.config import RunConfig
from evalkit.datasets.formats import Row
from evalkit.datasets.named import ForeignError, Placed, files_in, first_row, rows_of
from evalkit.errors import DatasetError
from evalkit.scoring.catalog import MetricSpec
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.types import Case, Metric

Shape: TypeAlias = frozenset[str]
Rule: TypeAlias = Callable[[View], Sequence[Statistic | Metric]]


def shape(*columns: str) -> Shape:
    """Return the columns that distinguish rows of one kind from all others."""
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
class Importer:
    """What reads judgments in one published layout: `evalkit import NAME FILE`.

    Attributes:
        name: the name of the format.
        about: which files it reads, for the help.
        sniff: says whether a file that begins so may be in this layout.
        read: returns the records that a file holds.
    """

    name: str
    about: str
    sniff: Callable[[Peek], bool]
    read: Callable[[Path, Options], ParsedFile]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A published benchmark.

    Attributes:
        name: the value of `dataset.benchmark`, and the first part of its metrics' names.
        title: what it is called.
        kind: what its rows are, as in "looks like {kind}".
        license: its license, or that none is stated.
        citation: whom to cite.
        homepage: where it is published.
        expects: what `dataset.path` must name.
        shapes: a row with all columns of one of them is one of its rows, whatever other columns it has.
        read: yields canonical rows, each with its place.
        rule: returns its metrics, by the rule of its authors; it reads cases, their metadata and verdicts, and no file.
        holds: says whether a folder is this benchmark, where single rows cannot.
        files: a glob: of a folder's files only those named so are read.
        cluster: the metadata key that cases are resampled by, unless `scoring.cluster` is set.
        importer: what reads judgments as its authors publish them.
        metrics: the rows of its metrics in the catalog. Those of evalkit's own are in `evalkit/scoring/catalog`.
    """

    name: str
    title: str
    kind: str
    license: str
    citation: str
    homepage: str
    expects: str
    shapes: tuple[Shape, ...]
    read: Callable[[Benchmark, Source], Iterator[Placed]]
    rule: Rule
    holds: Callable[[Path], bool] | None = None
    files: str = "*"
    cluster: str | None = None
    importer: Importer | None = None
    metrics: tuple[MetricSpec, ...] = ()

    def looks_like(self, row: Row) -> bool:
        """Say whether a row is one of this benchmark's, by its columns."""
        return any(columns <= row.keys() for columns in self.shapes)

    def is_folder(self, folder: Path) -> bool:
        """Say whether a folder is this benchmark's by the files in it."""
        return self.holds is not None and self.holds(folder)

    def rows(self, path: Path, baseline: str | None, left_out: Counter[str]) -> Iterator[Placed]:
        """Yield the canonical rows of a file or folder, each with its place, and count what is left out.

        Raises:
            ForeignError: if it is not one of the benchmark's.
        """
        return self.read(self, Source(path, baseline, left_out))

    def statistics(
        self, config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns
    ) -> list[Statistic | Metric]:
        """Return its metrics of a run, by the rule of its authors."""
        return [*self.rule(View(config, cases, verdicts))]

    @property
    def note(self) -> str:
        """The line that tells a user whose data this is."""
        return f"{self.title}: license {self.license}; cite {self.citation} ({self.homepage})"

    def described(self) -> dict[str, str]:
        """Return what the manifest says of it."""
        return {
            "name": self.name,
            "title": self.title,
            "licence": self.license,
            "citation": self.citation,
            "homepage": self.homepage,
        }


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


def checked_rows(benchmark: Benchmark, file: Path, *shapes: Shape) -> Iterator[Placed]:
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
            for number, (place, row) in enumerate(checked_rows(benchmark, file), 1):
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
