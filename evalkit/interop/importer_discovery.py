"""Which formats `evalkit import` knows, and which one a file has: each module of
`importers` is one.

The `IMPORTER` of a module detects a file and reads its records. Adding a module adds a format;
`importers` is a feature that an installation may lack, and any table can be read without it. The
formats of benchmarks are in their modules (`evalkit.benchmarks`). `format_signs` says which keys
the files of a format have.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import Final

from evalkit.core.benchmark_discovery import (
    benchmark_named,
    benchmarks_in,
    iter_benchmarks,
    own_benchmark_names,
)
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.optional_features import modules_of
from evalkit.core.plugins import BENCHMARKS, entry_points_in
from evalkit.datasets.named_benchmarks import recognize_benchmark
from evalkit.interop import generic_importer
from evalkit.interop.format_signs import BENCHMARK_SIGNS, TOOL_SIGNS, Signs
from evalkit.interop.layouts.judgment_files import Peek, peek
from evalkit.interop.layouts.records import Importer

GENERIC = "generic"
_TOOLS: Final = "evalkit.interop.importers"
DAMAGE = (
    TypeError,
    AttributeError,
    ValueError,
    KeyError,
    IndexError,
    OverflowError,
    RecursionError,
)
"""What readers raise if any value of a nested log has another type than its tool writes."""
EXPORTED = ("judge", "sample", "status", "verdict", "verdict_reason")
"""Columns by which a table is known as one that `evalkit export` wrote."""
UNKNOWN = "use another file"
"""The remedy for an unknown file."""


def importers() -> dict[str, Importer]:
    """Return the importer of each format by name: the generic one, then benchmarks, then tools."""
    published = (
        benchmark.importer
        for benchmark in iter_benchmarks()
        if benchmark.importer is not None
    )
    return {
        GENERIC: generic_importer.IMPORTER,
        **{
            benchmark_importer.name: benchmark_importer
            for benchmark_importer in published
        },
        **tools(),
    }


def tools() -> dict[str, Importer]:
    """Return the importers that are modules of `importers`, by name."""
    importers = map(_tool, modules_of(_TOOLS))
    return {tool.name: tool for tool in importers}


def formats() -> dict[str, str]:
    """Return each import format with a description of its files."""
    return {name: entry.about for name, entry in importers().items()}


def importer(name: str) -> Importer:
    """Return the importer of a format.

    Raises:
        ConfigError: If there is no such format.
    """
    if name in TOOL_SIGNS:
        return _tool(name)
    by_name = importers()
    if name not in by_name:
        raise ConfigError(
            "no such format",
            where=f"evalkit import {name}",
            remedy=did_you_mean(name, by_name),
        )
    return by_name[name]


def recognize_format(path: Path) -> str | None:
    """Detect the format of a file or folder; `None` if it is unknown."""
    return _detected(peek(path))


def _detected(start: Peek) -> str | None:
    return next(
        (
            candidate.name
            for candidate in candidates(start)
            if candidate.name != GENERIC and is_format(candidate, start)
        ),
        None,
    )


def candidates(start: Peek) -> Iterator[Importer]:
    """Yield the importers in the order of `importers`, without those whose signs a file lacks."""
    benchmarks = [
        benchmark
        for name in modules_of(BENCHMARKS)
        if _is_possible(BENCHMARK_SIGNS.get(name), start)
        for benchmark in benchmarks_in(name)
    ]
    # Those of other packages have no signs.
    names = dict.fromkeys(point.name for point in entry_points_in(BENCHMARKS))
    plugged_in = [
        benchmark_named(name) for name in names if name not in own_benchmark_names()
    ]
    for benchmark in (*benchmarks, *plugged_in):
        if benchmark is not None and benchmark.importer is not None:
            yield benchmark.importer
    for name in modules_of(_TOOLS):
        if _is_possible(TOOL_SIGNS.get(name), start):
            yield _tool(name)


def _is_possible(signs: Signs | None, start: Peek) -> bool:
    return signs is None or signs.on(start)


def _tool(name: str) -> Importer:
    importer: Importer = import_module(f"{_TOOLS}.{name}").IMPORTER
    return importer


def is_format(candidate: Importer, start: Peek) -> bool:
    """Return whether a file looks like a format; a damaged one does not."""
    try:
        return bool(candidate.sniff(start))
    except DAMAGE:
        return False


def format_names(start: Peek) -> str | None:
    """Return the remedy for a file of a known format; `None` if the format is unknown."""
    if name := _detected(start):
        return f"it looks like {_command(name, start.path)}"
    if benchmark := recognize_benchmark(start.path):
        return f"it has no judge's verdicts and {benchmark.hint} in evalkit run"
    return None


def describe_formats(start: Peek) -> str:
    """Return the remedy for a file that is not in the named format."""
    if remedy := format_names(start):
        return remedy
    if not start.row and not start.top:
        return UNKNOWN
    keys = ", ".join(map(str, list(start.row or start.top)[:8]))
    return f"its columns are {keys}; map them with evalkit import generic … --fields"


def describe_file(path: Path) -> str | None:
    """Return the remedy for a file used as cases that has judgments; `None` if it has
    no known ones.
    """
    name = recognize_format(path)
    if name is None:
        return None
    return f"it has judgments and looks like {_command(name, path)}"


def _command(name: str, path: Path) -> str:
    return f"{name}: evalkit import {name} {quote(str(path))}"
