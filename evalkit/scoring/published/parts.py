"""Numbers made of others: rates by subset, means over subsets, orders and criteria, and the want of a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evalkit.scoring.stats.arrays import Bools, Floats, divide
from evalkit.scoring.stats.bootstrap import Bounds, Statistic, Table, Tally
from evalkit.types import Metric


def nothing(name: str, why: str) -> Metric:
    """Return a metric without a value, and why it has none."""
    return Metric(name, None, note=why)


def mean(
    name: str,
    tally: Tally,
    values: Floats,
    among: Bools,
    lost: Bools,
    *,
    note: str | None = None,
    why: str = "nothing to count",
    weights: Floats | None = None,
) -> Statistic:
    """Return the (weighted) mean of values in [0, 1] `among` rows; each `lost` row could have been anything in it."""
    weight = np.ones(len(values)) if weights is None else weights
    total, n, missing = float((values * weight)[among].sum()), int(among.sum()), int(lost.sum())
    every = float(weight[among].sum() + weight[lost].sum())
    open_ = float(weight[lost].sum())
    return Statistic(
        name,
        np.stack([tally(np.where(among, values * weight, 0.0)), tally(np.where(among, weight, 0.0))], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n,
        missing,
        worst=(total / every, (total + open_) / every) if every else (None, None),
        proportion=True,
        note=note,
        why=why,
    )


def blend(
    name: str,
    parts: Sequence[Statistic],
    weights: Sequence[float] | None = None,
    *,
    proportion: bool = True,
    note: str | None = None,
    why: str = "nothing to count",
) -> Statistic | Metric:
    """Return the weighted mean of statistics, the plain one by default; undefined where one of them is."""
    if not parts:
        return nothing(name, why)
    shares = [1 / len(parts)] * len(parts) if weights is None else [weight / sum(weights) for weight in weights]
    ends = np.cumsum([0, *(len(part.table.columns) for part in parts)])
    table = Table(tuple(column for part in parts for column in part.table.columns), parts[0].table.cases)

    def value(totals: Floats) -> Floats:
        found = [part.value(totals[:, ends[k] : ends[k + 1]]) for k, part in enumerate(parts)]
        return np.asarray(sum(share * one for share, one in zip(shares, found, strict=True)))

    return Statistic(
        name,
        table,
        value,
        n=sum(part.n for part in parts),
        missing=sum(part.missing for part in parts),
        worst=_blended([part.worst for part in parts], shares),
        proportion=proportion,
        note=note,
        why=next((part.why for part in parts if np.isnan(part.observed())), why),
    )


def _blended(bounds: Sequence[Bounds], shares: Sequence[float]) -> Bounds:
    low, high = 0.0, 0.0
    for (least, most), share in zip(bounds, shares, strict=True):
        if least is None or most is None:
            return None, None
        low, high = low + share * least, high + share * most
    return low, high


def rates(
    name: str, tally: Tally, hit: Bools, among: Bools, lost: Bools, subsets: Mapping[str, Bools], *, why: str = ""
) -> list[Statistic]:
    """Return the share of hits of all rows, and of those of each subset, whose cases are given."""
    said = why or "nothing to count"
    found = [tally.rate(name, hit, among, lost, why=said)]
    for subset, cases in subsets.items():
        rows = cases[tally.case]
        found.append(tally.rate(f"{name}/{subset}", hit, among & rows, lost & rows, why=said))
    return found
