"""Published benchmarks: each module holds one family's reader, scoring rule, metrics, license and importer.

`evalkit.plugins` finds every module here that has `BENCHMARKS`, and those that packages offer in the entry-point group
`evalkit.benchmarks`. What a benchmark needs is exported here.
"""

from evalkit.benchmarks.benchmark import (
    Benchmark,
    Importer,
    RowLocation,
    Source,
    benchmark_files,
    checked_rows,
    choice,
    listed,
    row_by_row,
    shape,
)
from evalkit.benchmarks.scoring_rules import View, blend, mean, nothing, rates
from evalkit.scoring.catalog import MetricSpec
from evalkit.scoring.columns import NONE

__all__ = [
    "NONE",
    "Benchmark",
    "Importer",
    "MetricSpec",
    "RowLocation",
    "Source",
    "View",
    "benchmark_files",
    "blend",
    "checked_rows",
    "choice",
    "listed",
    "mean",
    "nothing",
    "rates",
    "row_by_row",
    "shape",
]
