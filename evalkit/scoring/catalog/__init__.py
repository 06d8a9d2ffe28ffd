"""The metric catalog: the one place that knows every metric, its name, title, meaning, direction and order.

Tables, report titles, gates, summaries, leaderboards and docs/reference/metrics.md derive from it. A metric is added by
the function that computes it and by one row here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from evalkit.plugins import find_benchmark
from evalkit.scoring.catalog.benchmarks import BENCHMARK_ROWS, BENCHMARK_TITLES
from evalkit.scoring.catalog.diagnostics import DIAGNOSTIC_ROWS
from evalkit.scoring.catalog.spec import Catalog, Match, MetricSpec
from evalkit.scoring.catalog.verdicts import VERDICT_ROWS

__all__ = [
    "BENCHMARK_TITLES",
    "CATALOG",
    "JUDGE_COLUMNS",
    "LEADERBOARD_COLUMNS",
    "RANKED_BY",
    "TESTED",
    "Catalog",
    "Match",
    "MetricSpec",
    "catalog_of",
]

CATALOG: Final = Catalog(
    (*(replace(row, benchmark=BENCHMARK_TITLES[row.group]) for row in BENCHMARK_ROWS), *VERDICT_ROWS, *DIAGNOSTIC_ROWS)
)
"""Every metric of evalkit."""


def catalog_of(benchmark: str | None) -> Catalog:
    """Return the catalog of runs on a benchmark: evalkit's, with the rows that a third party's benchmark brings first.

    Raises:
        ConfigError: if there is no such benchmark.
    """
    if benchmark is None or benchmark in CATALOG.benchmarks:
        return CATALOG
    found = find_benchmark(benchmark)
    return Catalog((*(replace(row, benchmark=found.title) for row in found.metrics), *CATALOG.rows))


RANKED_BY: Final = ("agreement/accuracy", "agreement/spearman", "position/consistency")
"""What the jobs of a sweep are ranked by: the first that every job has, else the first that any has."""
TESTED: Final = (
    "agreement/accuracy",
    "agreement/error",
    "agreement/spearman",
    "position/consistency",
    "score/mean",
    "tie_rate",
)
"""What compared runs are tested in unless metrics are named: the first that the runs have."""
LEADERBOARD_COLUMNS: Final = (
    "agreement/accuracy",
    "agreement/accuracy_per_order",
    "agreement/accuracy_decided",
    "agreement/accuracy_both_orders",
    "agreement/kappa",
    "agreement/spearman",
    "position/consistency",
    "position/first_rate",
    "length/longer_rate",
    "length/slope_at_label",
    "tie_rate",
    "conflict/ratio",
    "between/contradiction",
    "cost/per_case",
    "latency/per_case",
)
"""The metrics of a leaderboard, in order; those that no job has are left out of it."""
MAIN_COLUMNS: Final = (
    "agreement/accuracy",
    "agreement/spearman",
    "position/first_rate",
    "tie_rate",
    "length/longer_rate",
    "cost/per_case",
    "agreement/accuracy_decided",
)
"""The metrics of a leaderboard that come first where there is no room for all."""
JUDGE_COLUMNS: Final = (
    "agreement/accuracy",
    "agreement/kappa",
    "agreement/spearman",
    "tie_rate",
    "position/consistency",
)
"""The metrics of the table of a panel's judges, in order."""
