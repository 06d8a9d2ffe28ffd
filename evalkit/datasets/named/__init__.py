"""Named benchmarks, read as their authors publish them: `dataset=llmbar dataset.path=…`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final

from evalkit.datasets.formats import Row
from evalkit.datasets.named.arena import ALPACA_EVAL, ARENA_HARD
from evalkit.datasets.named.benchmark import Benchmark, ForeignError, Source
from evalkit.datasets.named.best_of import REWARDBENCH, REWARDBENCH2, RM_BENCH
from evalkit.datasets.named.files import Placed, first_rows
from evalkit.datasets.named.graded import HELPSTEER, PROMETHEUS, SUMMEVAL, TOPICAL_CHAT
from evalkit.datasets.named.pairs import AUTO_J, JUDGEBENCH, LLMBAR, PANDALM
from evalkit.datasets.named.people import FAIREVAL, MT_BENCH
from evalkit.datasets.named.truth import HALLUQA
from evalkit.errors import ConfigError, DatasetError, did_you_mean

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "RecognizedBenchmark",
    "find_benchmark",
    "named_rows",
    "recognize_benchmark",
    "recognize_benchmark_row",
]

_ALL: Final = (
    LLMBAR,
    JUDGEBENCH,
    REWARDBENCH,
    REWARDBENCH2,
    RM_BENCH,
    MT_BENCH,
    PANDALM,
    ALPACA_EVAL,
    ARENA_HARD,
    AUTO_J,
    FAIREVAL,
    HALLUQA,
    PROMETHEUS,
    SUMMEVAL,
    TOPICAL_CHAT,
    HELPSTEER,
)
BENCHMARKS: Final = {benchmark.name: benchmark for benchmark in _ALL}
"""Every named benchmark, by the name of its `dataset` option."""
_QUESTIONS: Final = "question.jsonl"
_PARTS: Final = ("answer", "model_answer", "review")


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
    """Return the benchmark that a row looks like, by its columns alone; none if it is none's."""
    found = next((benchmark for benchmark in _ALL if benchmark.looks_like(row)), None)
    return None if found is None else RecognizedBenchmark(found.name, found.kind)


def recognize_benchmark(path: Path) -> RecognizedBenchmark | None:
    """Return the benchmark that a file, or a folder of files, looks like; none if it is none's or cannot be read."""
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
    return next((one for one in _ALL if one.holds is not None and one.holds(folder)), None)


def find_benchmark(name: str) -> Benchmark:
    """Return a benchmark by name.

    Raises:
        ConfigError: if there is none of that name.
    """
    if name not in BENCHMARKS:
        raise ConfigError("no such benchmark", where=f"dataset.benchmark={name}", remedy=did_you_mean(name, BENCHMARKS))
    return BENCHMARKS[name]


def named_rows(
    name: str, path: Path, baseline: str | None = None, left_out: Counter[str] | None = None
) -> Iterator[Placed]:
    """Yield the canonical rows of a benchmark, each with its place, from the file or folder that `path` names.

    What is left out is counted in `left_out`, by what it is.

    Raises:
        ConfigError: if there is no such benchmark, or no such `baseline` among its models.
        DatasetError: if the file is not one of the benchmark's; the message says what it looks like instead.
    """
    benchmark = find_benchmark(name)
    try:
        yield from benchmark.read(benchmark, Source(path, baseline, Counter() if left_out is None else left_out))
    except ForeignError as foreign:
        known = (None if foreign.row is None else recognize_benchmark_row(foreign.row)) or recognize_benchmark(path)
        if known is None or known.name == name:
            raise DatasetError(foreign.what, where=foreign.where, remedy=foreign.remedy) from None
        raise DatasetError(f"not {benchmark.title}", where=foreign.where, remedy=f"it {known.hint}") from None
