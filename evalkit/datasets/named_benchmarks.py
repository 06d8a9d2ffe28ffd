"""Read named benchmarks in their published format: `dataset=llmbar dataset.path=…`.

Benchmarks are in `evalkit.benchmarks` and in other packages; `evalkit.core.benchmark_discovery`
finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from evalkit.core.benchmark_discovery import find_benchmark, iter_benchmarks
from evalkit.core.errors import ConfigError, DatasetError, PluginError
from evalkit.core.plugins import third_party_errors
from evalkit.core.protocols import Benchmark
from evalkit.core.values import frozen
from evalkit.datasets.compression import inner_suffix, open_bytes, reading
from evalkit.datasets.formats import is_readable, reader_for
from evalkit.datasets.located_rows import Placed, Row

_QUESTIONS: Final = "question.jsonl"
_PARTS: Final = ("answer", "model_answer", "review")
_MOST_LOOKED_AT: Final = 40
_START: Final = 2**20


class ForeignError(DatasetError):
    """A file does not belong to the named benchmark; `row` is the row that shows this, if any."""

    def __init__(
        self, benchmark: Benchmark, why: str, row: Row | None, where: str
    ) -> None:
        self.row = row
        super().__init__(
            f"not {benchmark.title}: {why}",
            where=where,
            remedy=f"name {benchmark.expects}",
        )


@frozen
class RecognizedBenchmark:
    """A detected benchmark: its name, a description, the folder to use instead of the file, if
    any, and the settings of a run that it needs.
    """

    name: str
    kind: str
    folder: Path | None = None
    settings: str = ""

    @property
    def hint(self) -> str:
        """Return the hint for a user who used it as something else."""
        if self.folder is None:
            where = ""
        else:
            where = f" dataset.path={quote(str(self.folder))}"
        words = " ".join(filter(None, (f"dataset={self.name}{where}", self.settings)))
        return f"looks like {self.kind}; use {words}"


def recognize_benchmark_row(row: Row) -> RecognizedBenchmark | None:
    """Detect the benchmark of a row by its columns; `None` if there is none."""
    recognized = next(
        (benchmark for benchmark in iter_benchmarks() if benchmark.looks_like(row)),
        None,
    )
    if recognized is None:
        return None
    return _recognized(recognized)


def _recognized(
    benchmark: Benchmark, folder: Path | None = None
) -> RecognizedBenchmark:
    # Benchmarks of other packages need not have the attribute.
    settings = getattr(benchmark, "settings", "")
    return RecognizedBenchmark(benchmark.name, benchmark.kind, folder, settings)


def recognize_benchmark(path: Path) -> RecognizedBenchmark | None:
    """Detect the benchmark of a file or folder; `None` if there is none or it cannot be read."""
    if path.is_dir() and (benchmark := _in_folder(path)):
        return _recognized(benchmark)
    for _, row in first_rows(path):
        if recognized := recognize_benchmark_row(row):
            return recognized
    folder = path.parent.parent if path.parent.name in _PARTS else path.parent
    if (path.name == _QUESTIONS or path.parent.name in _PARTS) and (
        benchmark := _in_folder(folder)
    ):
        return _recognized(benchmark, folder)
    return None


def _in_folder(folder: Path) -> Benchmark | None:
    return next(
        (benchmark for benchmark in iter_benchmarks() if benchmark.is_folder(folder)),
        None,
    )


def named_rows(
    name: str,
    path: Path,
    baseline: str | None = None,
    left_out: Counter[str] | None = None,
) -> Iterator[Placed]:
    """Yield the canonical rows of a benchmark, each with its location.

    Args:
        name: The benchmark.
        path: Its file or folder.
        baseline: The baseline model, if the benchmark has one.
        left_out: Counts omitted rows by kind.

    Raises:
        ConfigError: If there is no such benchmark, or no such `baseline` among its models.
        DatasetError: If the file does not belong to the benchmark; the message names what it looks
            like.
        PluginError: If the benchmark's reader fails.
    """
    benchmark = find_benchmark(name)
    remedy = "fix the row or the benchmark's reader"
    try:
        with third_party_errors(
            PluginError,
            f"'{name}' fails on {path}",
            where="dataset.benchmark",
            remedy=remedy,
        ):
            yield from benchmark.rows(
                path, baseline, Counter() if left_out is None else left_out
            )
    except ForeignError as foreign:
        recognized = (
            None if foreign.row is None else recognize_benchmark_row(foreign.row)
        ) or recognize_benchmark(path)
        if recognized is None or recognized.name == name:
            raise DatasetError(
                foreign.what, where=foreign.where, remedy=foreign.remedy
            ) from None
        raise DatasetError(
            f"not {benchmark.title}",
            where=foreign.where,
            remedy=f"it {recognized.hint}",
        ) from None


def files_in(path: Path) -> list[Path]:
    """Return the file itself, or all data files below a folder, sorted by name, without
    hidden ones.
    """
    if not path.is_dir():
        return [path]
    readable = (
        file for file in path.rglob("*") if file.is_file() and is_readable(file)
    )
    return sorted(
        file
        for file in readable
        if not any(part.startswith(".") for part in file.relative_to(path).parts)
    )


def rows_of(file: Path) -> Iterator[Placed]:
    """Yield each row of a file with its location.

    Raises:
        ConfigError: If the file's suffix has no reader.
        DatasetError: If it cannot be read.
    """
    yield from reader_for("jsonl" if _has_lines(file) else None, file)(file)


def _has_lines(file: Path) -> bool:
    """Return whether a .json file has a row in each line, as some are published."""
    if inner_suffix(file) != "json":
        return False
    with reading(file), open_bytes(file) as text:
        first, _, following = text.read(_START).strip().partition(b"\n")
    return (
        first.startswith(b"{")
        and first.rstrip().endswith(b"}")
        and following.lstrip().startswith(b"{")
    )


def first_row(file: Path) -> Row | None:
    """Return the first row of a file; `None` if it has no rows."""
    try:
        return next((row for _, row in rows_of(file)), None)
    except (ConfigError, OSError):
        return None


def first_rows(path: Path) -> Iterator[tuple[Path, Row]]:
    """Yield the first row of each of the first files at a path."""
    for file in files_in(path)[:_MOST_LOOKED_AT]:
        row = first_row(file)
        if row is not None:
            yield file, row
