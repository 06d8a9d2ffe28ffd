"""Find benchmarks: each module of `evalkit.benchmarks` with `BENCHMARKS`, and the entry
points of other packages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from evalkit.core.errors import ConfigError, PluginError, did_you_mean
from evalkit.core.optional_features import modules_of
from evalkit.core.plugins import BENCHMARKS, entry_points_in, load_only
from evalkit.core.prepared_files import read_table
from evalkit.core.protocols import Benchmark
from evalkit.core.values import Json

_FOLDER = Path(__file__).parents[1] / "benchmarks"


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark that `dataset.benchmark` names: one of evalkit's, or one of a plug-in.

    Raises:
        ConfigError: If there is no such benchmark.
        PluginError: If two packages register it, it cannot be imported, or it is not a benchmark
            with that name.
    """
    if (benchmark := _load_benchmark(name)) is not None:
        return benchmark
    raise ConfigError(
        "no such benchmark",
        where=f"dataset.benchmark={name}",
        remedy=did_you_mean(name, _names()),
    )


def benchmark_named(name: str) -> Benchmark | None:
    """Return the benchmark with a name; `None` if there is none, or it cannot be used."""
    try:
        return _load_benchmark(name)
    except PluginError:  # `evalkit plugins` shows why
        return None


def iter_benchmarks() -> Iterator[Benchmark]:
    """Yield evalkit's benchmarks, then those of plug-ins, without those that cannot be used."""
    yield from (
        benchmark
        for name in _names()
        if (benchmark := benchmark_named(name)) is not None
    )


def _names() -> Iterable[str]:
    return dict.fromkeys(
        [*own_benchmarks(), *(point.name for point in entry_points_in(BENCHMARKS))]
    )


@cache
def own_benchmarks() -> Mapping[str, Benchmark]:
    """Return the benchmarks of all modules of `evalkit.benchmarks` by name; adding a
    benchmark is adding a module.
    """
    benchmarks = (
        benchmark
        for name in modules_of(BENCHMARKS)
        for benchmark in benchmarks_in(name)
    )
    return MappingProxyType({benchmark.name: benchmark for benchmark in benchmarks})


def benchmarks_in(module: str) -> Sequence[Benchmark]:
    """Return the benchmarks of a module of `evalkit.benchmarks`; none of a helper."""
    named: Sequence[Benchmark] = getattr(
        import_module(f"{BENCHMARKS}.{module}"), "BENCHMARKS", ()
    )
    return named


@cache
def own_benchmark_names() -> frozenset[str]:
    """Return the names of evalkit's benchmarks without importing their modules, which
    takes half a second.

    They are the tables of the `.toml` next to a module; a module without one has the name of its
    benchmark.
    """
    alone = {
        file.stem
        for file in _FOLDER.glob("[!_]*.py")
        if not file.with_suffix(".toml").exists()
    }
    return frozenset({*benchmark_facts(), *alone})


@cache
def benchmark_facts() -> Json:
    """Return the facts of evalkit's benchmarks by name, from the file next to each module.

    They are descriptions, licenses, citations, words, and the rows of metrics; `tables` are those
    that only a module reads. A metric without a source has that of its benchmark; otherwise what is
    left out has the defaults of `evalkit/scoring/catalog/metrics.toml`. Words are translated.
    """
    files = sorted(_FOLDER.glob("*.toml"))
    return {name: facts for file in files for name, facts in read_table(file).items()}


def _load_benchmark(name: str) -> Benchmark | None:
    """Return a benchmark by its name, of evalkit or a plug-in; `None` if there is none.

    Raises:
        PluginError: If the entry point is something else.
    """
    # The names first: metrics ask about words that name no benchmark.
    if name in own_benchmark_names():
        return own_benchmarks()[name]
    where = f"dataset.benchmark={name}"
    if (benchmark := load_only(BENCHMARKS, name, where)) is None:
        return None
    if not isinstance(benchmark, Benchmark) or benchmark.name != name:
        problem = f"the entry point '{name}' is not a benchmark with that name"
        raise PluginError(
            problem,
            where=where,
            remedy=f"point it to an evalkit.benchmarks.Benchmark('{name}', …)",
        )
    return benchmark
