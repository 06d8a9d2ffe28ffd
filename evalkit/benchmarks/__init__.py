"""Published benchmarks: each module holds one family's reader, scoring rule, metrics,
license and importer.

`evalkit.core.benchmark_discovery` finds every module here that has `BENCHMARKS`, and those that
packages offer in the entry-point group `evalkit.benchmarks`. What a benchmark needs is exported
here.
"""

from evalkit.benchmarks.shared.benchmark import (
    Benchmark,
    RowLocation,
    Source,
    benchmark_files,
    checked_rows,
    choice,
    listed,
    one_of,
    published_rows,
    row_by_row,
    shape,
)
from evalkit.benchmarks.shared.scoring_rules import (
    View,
    blend,
    labeled_rates,
    mean,
    nothing,
    orders_agree,
    rates,
)
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    grouped,
    located_rows,
    with_columns,
)
from evalkit.interop.layouts.layouts import decided, records_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile
from evalkit.scoring.catalog import MetricSpec
from evalkit.scoring.columns import NONE

__all__ = [
    "NONE",
    "Benchmark",
    "Importer",
    "LocatedRow",
    "MetricSpec",
    "Options",
    "ParsedFile",
    "RowLocation",
    "Source",
    "View",
    "benchmark_files",
    "blend",
    "checked_rows",
    "choice",
    "decided",
    "grouped",
    "labeled_rates",
    "listed",
    "located_rows",
    "mean",
    "nothing",
    "one_of",
    "orders_agree",
    "published_rows",
    "rates",
    "records_of",
    "row_by_row",
    "shape",
    "with_columns",
]
