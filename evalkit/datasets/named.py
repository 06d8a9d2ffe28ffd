"""Named benchmarks, read as their authors publish them: `dataset=llmbar dataset.path=…`.

The benchmarks are in `evalkit.benchmarks` and in other packages; `evalkit.plugins` finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final, TypeAlias

from evalkit.datasets.formats import Row, is_readable, reader_for
from evalkit.errors import ConfigError, DatasetError, EvalkitError, PluginError
from evalkit.plugins import find_benchmark, iter_benchmarks
from evalkit.protocols import Benchmark

Placed: TypeAlias = tuple[str, Row]

_QUESTIONS: Final = "question.jsonl"
_PARTS: Final = ("answer", "model_answer", "review")
_MOST_LOOKED_AT: Final = 40


class ForeignError(DatasetError):
    """A file is not one of the benchmark that was named; `row` is the row of it that shows, if any."""

    def __init__(self, benchmark: Benchmark, why: str, row: Row | None, where: str) -> None:
        self.row = row
        super().__init__(f"not {benchmark.title}: {why}", where=where, remedy=f"name {benchmark.expects}")


@dataclass(frozen=True, slots=True)
class RecognizedBenchmark:
    """What a file looks like: the benchmark's name, its kind in words, and the folder to name instead of it, if any."""

    name: str
    kind: str
    folder: Path | None = None

    @property
    def hint(self) -> str:
        """Return what to tell someone who took it for something else."""
        where = "" if self.folder is None else f" dataset.path={quote(str(self.folder))}"
        return f"looks like {self.kind}; use dataset={self.name}{where}"


def recognize_benchmark_row(row: Row) -> RecognizedBenchmark | None:
    """Return the benchmark that a row looks like, by its columns alone; `None` if it is none's."""
    found = next((benchmark for benchmark in iter_benchmarks() if benchmark.looks_like(row)), None)
    return None if found is None else RecognizedBenchmark(found.name, found.kind)


def recognize_benchmark(path: Path) -> RecognizedBenchmark | None:
    """Return the benchmark that a file, or a folder of files, looks like; `None` if it is none's or cannot be read."""
    if path.is_dir() and (benchmark := _held_in(path)):
        return RecognizedBenchmark(benchmark.name, benchmark.kind)
    for _, row in first_rows(path):
        if known := recognize_benchmark_row(row):
            return known
    folder = path.parent.parent if path.parent.name in _PARTS else path.parent
    if (path.name == _QUESTIONS or path.parent.name in _PARTS) and (benchmark := _held_in(folder)):
        return RecognizedBenchmark(benchmark.name, benchmark.kind, folder)
    return None


def _held_in(folder: Path) -> Benchmark | None:
    return next((benchmark for benchmark in iter_benchmarks() if benchmark.is_folder(folder)), None)


def named_rows(
    name: str, path: Path, baseline: str | None = None, left_out: Counter[str] | None = None
) -> Iterator[Placed]:
    """Yield the canonical rows of a benchmark, each with its place, from the file or folder that `path` names.

    What is left out is counted in `left_out`, by what it is.

    Raises:
        ConfigError: if there is no such benchmark, or no such `baseline` among its models.
        DatasetError: if the file is not one of the benchmark's; the message says what it looks like instead.
        PluginError: if the benchmark's reader fails.
    """
    benchmark = find_benchmark(name)
    try:
        yield from benchmark.rows(path, baseline, Counter() if left_out is None else left_out)
    except ForeignError as foreign:
        known = (None if foreign.row is None else recognize_benchmark_row(foreign.row)) or recognize_benchmark(path)
        if known is None or known.name == name:
            raise DatasetError(foreign.what, where=foreign.where, remedy=foreign.remedy) from None
        raise DatasetError(f"not {benchmark.title}", where=foreign.where, remedy=f"it {known.hint}") from None
    except EvalkitError:
        raise
    except Exception as error:  # a plug-in's own code runs here, and may fail in any way
        what = f"'{name}' fails on {path}: {type(error).__name__}: {error}"
        raise PluginError(what, where="dataset.benchmark", remedy="fix the row or the benchmark's reader") from error


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
    """Return the first row of a file; `None` if it holds none or is no file of rows."""
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
