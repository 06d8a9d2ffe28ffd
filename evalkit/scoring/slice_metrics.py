"""Metrics by slice: of the cases with one value of a column, next to those of the rest.

The verdicts are those of the run; only the cases that count change. Whether a slice differs from
the rest is a permutation test: values change places between cases of one cluster, and between
clusters of equal size (Good 2005, Permutation, Parametric and Bootstrap Tests of Hypotheses, ch.
3). All tests are one family (Holm 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.types import Case, Metric
from evalkit.core.values import JsonObject
from evalkit.scoring.catalog import COLUMNS
from evalkit.scoring.slices import FEW, Slices, slice_name, slices_of
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, round_metric
from evalkit.scoring.stats.bootstrap import MANY, measure
from evalkit.scoring.stats.clusters import CHUNK, Clusters
from evalkit.scoring.stats.paired import holm
from evalkit.scoring.stats.shrinkage import Basis, shrink
from evalkit.scoring.stats.statistic import Statistic, mean_of

ENOUGH: Final = 100
"""So many permuted differences as large as the observed one are enough for a p-value."""
TOGETHER: Final = 256
"""So many slices are measured together: their resamples are 4 MiB at 2,000 each."""
COUNTED: Final = "fewer than 10 units: counted, not estimated"
DIFFER: Final = "slices/differ"


def slice_results(
    config: RunConfig,
    cases: Sequence[Case],
    measures: Sequence[Statistic | Metric],
    clusters: Clusters,
) -> tuple[dict[str, Metric], JsonObject]:
    """Return the metrics by slice of `scoring.slices`, and their table.

    Args:
        config: the run's config.
        cases: the cases.
        measures: the run's statistics.
        clusters: the clusters of the cases.

    Raises:
        ConfigError: as `slices_of`.
    """
    # Only metrics that are sliced, and have units to slice.
    chosen = [
        statistic
        for statistic in measures
        if isinstance(statistic, Statistic)
        and statistic.name in COLUMNS["sliced"]
        and statistic.n
    ]
    columns = [slices_of(column, cases) for column in config.scoring.slices]
    # For each column and metric, one statistic for each slice.
    parts = [
        (slices, whole, [part_of(whole, members) for members in slices.members.T])
        for slices in columns
        for whole in chosen
    ]
    measured = _measure_slices(config, parts, clusters)
    # Holm's family: all slices of all columns and metrics that are estimated.
    family = len(measured)
    metrics: dict[str, Metric] = {}
    rows: list[JsonObject] = []
    # One for each row.
    bases: list[Basis] = []
    for slices, whole, slice_statistics in parts:
        p_values = _p_values(config, whole, slices, slice_statistics, clusters, family)
        for index, statistic in enumerate(slice_statistics):
            value = slices.values[index]
            name = slice_name(slices.column, value, whole.name)
            counted = Metric(name, None, n=statistic.n, note=COUNTED)
            metric = measured.get(name, counted)
            metrics[name] = metric
            # The same statistic of all other cases.
            complement = part_of(whole, ~slices.members[:, index]).observed()
            is_shown = index in p_values and np.isfinite(complement)
            rows.append(
                {
                    "column": slices.column,
                    "value": value,
                    "metric": whole.name,
                    "n": metric.n,
                    "estimate": metric.value,
                    "low": metric.low,
                    "high": metric.high,
                    "rest": round_metric(complement) if is_shown else None,
                    "p": p_values.get(index),
                    "shrunk": None,
                }
            )
            bases.append((statistic.clusters(clusters), statistic.possible))
    shrink(rows, bases, config.scoring.confidence)
    # Adjusted once all rows exist, because the family is the whole table.
    adjusted = holm([row["p"] for row in rows])
    for row, p in zip(rows, adjusted, strict=True):
        row["p_holm"] = p
    if config.scoring.slices:
        metrics[DIFFER] = _number_of_differences(rows, config.scoring.confidence)
    return metrics, {"slices": rows} if rows else {}


def _p_values(
    config: RunConfig,
    whole: Statistic,
    slices: Slices,
    slice_statistics: Sequence[Statistic],
    clusters: Clusters,
    family: int,
) -> dict[int, float | None]:
    """Return the p-values of the slices that are large enough to test, by the index of
    the slice.
    """
    large = [
        index for index, statistic in enumerate(slice_statistics) if statistic.n >= FEW
    ]
    members = slices.members[:, large]
    p_values = _permutation_p_values(config, whole, members, clusters, family)
    return dict(zip(large, p_values, strict=True))


def _number_of_differences(rows: Sequence[JsonObject], confidence: float) -> Metric:
    """Return how many slices differ significantly from the rest; without any test it
    has no value.
    """
    tests = sum(row["p"] is not None for row in rows)
    alpha = 1 - confidence
    adjusted = [row["p_holm"] for row in rows if row["p_holm"] is not None]
    differ = sum(p <= alpha for p in adjusted)
    return Metric(
        DIFFER,
        float(differ) if tests else None,
        n=tests,
        note="a count of tests, adjusted together (Holm)",
    )


def _measure_slices(
    config: RunConfig,
    parts: Sequence[tuple[Slices, Statistic, Sequence[Statistic]]],
    clusters: Clusters,
) -> dict[str, Metric]:
    """Return the metrics of the slices that are estimated, by name, from the same resamples.

    Many clusters of a few kinds are resampled by kind, and several statistics have more kinds, so
    each is by itself.
    """
    large = [
        replace(statistic, name=slice_name(slices.column, value, whole.name))
        for slices, whole, slice_statistics in parts
        for value, statistic in zip(slices.values, slice_statistics, strict=True)
        if statistic.n >= FEW
    ]
    # Many clusters of few kinds are resampled by kind, which needs one statistic at a time.
    step = 1 if clusters.count >= MANY else TOGETHER
    metrics = dict[str, Metric]()
    for start in range(0, len(large), step):
        metrics |= measure(large[start : start + step], config.scoring, clusters)
    return metrics


def part_of(whole: Statistic, members: Bools) -> Statistic:
    """Return a statistic of the cases in `members` only.

    Its `n` counts cases where units cannot be counted.
    """
    # Cases outside become 0, so that resamples and clusters stay those of the run.
    columns = [np.where(members, column, 0) for column in whole.table.columns]
    covered = members if whole.covered is None else whole.covered & members
    if whole.weighted:
        value = whole.value
        n = int(covered.sum())
        # Weights of cases outside become 0 in every resample.
        keep = members.astype(np.float64)
        part = replace(
            whole, value=lambda weights: value(weights * keep), covered=covered, n=n
        )
    else:
        # The first column of a mean is its sum, the others count units.
        counts = sum(
            columns[1:] if whole.value is mean_of else columns, np.zeros(len(members))
        )
        # Columns include the weights: divided by them, units are counted.
        if whole.weights is not None:
            counts = np.divide(
                counts,
                whole.weights,
                out=np.zeros(len(members)),
                where=whole.weights > 0,
            )
        part = replace(whole, columns=columns, n=round(float(counts.sum())))
    unread = None if whole.unread is None else np.where(members, whole.unread, 0.0)
    missing = 0 if unread is None else int(unread.sum())
    # What belongs to the whole, such as its bounds and its own interval, does not hold for a
    # part.
    return replace(
        part,
        worst=(None, None),
        unread=unread,
        missing=missing,
        note=None,
        reach=None,
        own=None,
        weights=whole.weights,
    )


def _permutation_p_values(
    config: RunConfig, whole: Statistic, members: Bools, clusters: Clusters, family: int
) -> list[float | None]:
    """Return the p-value of each slice's difference from the rest; `None` if there is none.

    There are at least `scoring.bootstrap` permutations, and enough for Holm's first step: with
    fewer, no p-value could be small enough. Those of a slice end after `ENOUGH` differences as
    large (Besag and Clifford 1991, Biometrika 78, 301-304).

    Args:
        config: the run's config.
        whole: the statistic of all cases.
        members: (cases, slices) the slices that are tested.
        clusters: the clusters of the cases.
        family: the number of tests of all metrics and columns.
    """
    used = whole.covered
    if used is None:
        # A case without units cannot change the statistic, so it does not move.
        used = np.any([column != 0 for column in whole.table.columns], axis=0)
    cases = np.flatnonzero(used)
    # Clusters of equal size are exchanged with each other, so there is a block for each size.
    blocks = _blocks(clusters.of_rows(cases))
    # Twice as many as Holm's first step needs, which compares with level / family.
    count = config.scoring.bootstrap and max(
        config.scoring.bootstrap, round(2 * family / (1 - config.scoring.confidence))
    )
    generator = np.random.default_rng(config.scoring.seed)
    # (slices,) observed differences, from a single row of members.
    observed = _differences_from_rest(whole, members[None])[0]
    # shape (slices,): extreme permutations, and all; the observed order counts in both
    extreme = np.ones(members.shape[1])
    drawn = np.ones(members.shape[1])
    # Without a finite difference nothing can be tested.
    testable = np.isfinite(observed) & (count > 0)
    step = max(1, min(ENOUGH, CHUNK // max(1, members.size)))
    start = 0
    while (
        # Slices whose p-value is still open: not enough extreme permutations yet.
        start < count and (open_ := np.flatnonzero(testable & (extreme <= ENOUGH))).size
    ):
        width = min(step, count - start)
        # (permutations, cases): whose membership each case takes.
        moved = np.repeat(np.arange(len(members))[None], width, axis=0)
        for block in blocks:
            cases_of_block = cases[block]
            permuted = _permuted_clusters(cases_of_block, width, generator)
            moved[:, cases_of_block.ravel()] = permuted.reshape(width, -1)
        # shape (permutations, open slices)
        # Members by permutation: (permutations, cases, open slices).
        differences = np.abs(_differences_from_rest(whole, members[:, open_][moved]))
        # 1e-12 absorbs rounding; an undefined difference counts as extreme, which is on the safe
        # side.
        threshold = np.abs(observed[open_]) - 1e-12
        as_large = (differences >= threshold) | np.isnan(differences)
        extreme[open_] += as_large.sum(axis=0)
        drawn[open_] += len(moved)
        start += len(moved)
    # Extreme permutations divided by all, each with the observed order.
    p_values = (extreme / drawn).tolist()
    return [
        p if is_testable else None
        for p, is_testable in zip(p_values, testable, strict=True)
    ]


def _permuted_clusters(
    cases: Ints, permutations: int, generator: np.random.Generator
) -> Ints:
    """Return the cases of clusters of one size in random orders, (permutations,
    clusters, cases of one).

    Whole clusters change places, and then the cases in each.

    Args:
        cases: (clusters, cases of one) the cases by cluster.
        permutations: the number of orders.
        generator: the source of randomness.
    """
    clusters = len(cases)
    repeated = np.broadcast_to(cases, (permutations, *cases.shape))
    unpermuted = np.broadcast_to(np.arange(clusters), (permutations, clusters))
    # (permutations, clusters)
    order = generator.permuted(unpermuted, axis=1)
    in_order = np.take_along_axis(repeated, order[:, :, None], axis=1)
    return np.asarray(generator.permuted(in_order, axis=2))


def _blocks(cluster: Ints) -> list[Ints]:
    """Return the rows of clusters of equal size, one array (clusters, size) for each size."""
    _, number, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    # Rows by size of their cluster, then by cluster.
    order = np.lexsort((number, sizes[number]))
    return [
        # (clusters, size): rows of one cluster are together.
        order[sizes[number][order] == size].reshape(-1, size)
        for size in np.unique(sizes)
    ]


def _differences_from_rest(whole: Statistic, members: Bools) -> Floats:
    """Return the value of each slice less that of the rest, (rows, slices).

    Args:
        whole: the statistic of all cases.
        members: (rows, cases, slices) the members of the slices in each permutation.
    """

    def value_of(weights: Floats) -> Floats:
        if whole.weighted:
            return whole.value(weights)
        return whole.value(whole.table.totals(weights))

    values = []
    for index in range(members.shape[2]):
        # (rows, cases): members as weights of cases, and their complement
        inside = members[:, :, index].astype(np.float64)
        of_slice = value_of(inside)
        of_others = value_of(1 - inside)
        values.append(of_slice - of_others)
    if values:
        return np.stack(values, axis=1)
    return np.zeros((len(members), 0))
