"""Scores of systems without labels, corrected by labels of other systems, and the test of whether that works.

The correction is a linear regression of grades on scores over the labeled systems. Each labeled
system tests it: the mean of its grades is compared with the correction fitted on the other labeled
systems. It passes if the interval of the difference lies within the margin (equivalence; Westlake
1976, Biometrics 32, 741-744), and fails if it lies outside. A system whose scores go beyond those
with labels has no correction, because nothing shows how it continues there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Case
from evalkit.core.values import Json, JsonObject
from evalkit.scoring.columns import ScoreColumns, system_codes
from evalkit.scoring.decision import Metrics
from evalkit.scoring.stats.arrays import Bools, Floats, divide, round_metric
from evalkit.scoring.stats.statistic import Statistic, Table, Tabled, undefined

FEW: Final = 10
"""Systems with fewer labels count as unlabeled."""
OUTSIDE: Final = 0.05
"""Above this share of scores outside the range of labeled ones, a system has no correction."""
GAP: Final = "transport/gap/"
MEAN: Final = "transport/mean/"
REFUSED: Final = "its scores go beyond those with labels"


def transport_statistics(
    config: RunConfig,
    cases: Sequence[Case],
    responses: ScoreColumns,
    weights: Floats | None = None,
) -> Tabled:
    """Return the gap of each labeled system and the corrected mean of each other one, and their table.

    They need two labeled systems, and one that is not labeled.

    Args:
        config: the run's config.
        cases: the cases.
        responses: the scores.
        weights: (cases,) the weights of labeled cases; `None` without weights.
    """
    scored = responses
    names, system = system_codes(cases)
    has_score = np.isfinite(scored.raw)
    read = has_score & np.isfinite(scored.grade)
    labels = np.bincount(system[read & (system >= 0)], minlength=len(names))
    labeled = np.flatnonzero(labels >= FEW)
    unlabeled = [
        code
        for code in range(len(names))
        if labels[code] < FEW and (has_score & (system == code)).any()
    ]
    if len(labeled) < 2 or not unlabeled:
        return [], {}
    usable = read & np.isin(system, labeled)
    x = scored.raw[usable]
    y = scored.grade[usable]
    span = Scale.of(config.rubric).span
    margin = config.scoring.margin * (float(np.ptp(y)) if np.isinf(span) else span)
    weight = np.ones(len(cases)) if weights is None else weights
    moments = [_sums(scored, usable & (system == code), weight) for code in labeled]
    table = Table.of([column for system_sums in moments for column in system_sums])
    rows = []
    statistics = []
    for index, code in enumerate(labeled.tolist()):
        note = "difference of grades from scores corrected by the other labeled systems"
        value = partial(_gap, index)
        n = int(labels[code])
        statistics.append(
            Statistic(
                GAP + names[code],
                table,
                value,
                n=n,
                covered=scored.tally(usable) > 0,
                note=note,
            )
        )
        rows.append({"system": names[code], "labels": n, "outside": None})
    for code in unlabeled:
        in_system = has_score & (system == code)
        outside = float(
            np.mean(
                (scored.raw[in_system] < x.min()) | (scored.raw[in_system] > x.max())
            )
        )
        mean = scored.tally.columns(in_system, np.where(in_system, scored.raw, 0.0))
        refused = outside > OUTSIDE
        columns = [*table.columns, *mean]
        statistic = Statistic(
            MEAN + names[code],
            columns,
            _mean,
            n=int(in_system.sum()),
            note=f"corrected by {len(x)} labels",
        )
        if refused:
            statistic = Statistic(
                MEAN + names[code],
                columns,
                undefined,
                n=int(in_system.sum()),
                why=REFUSED,
            )
        statistics.append(statistic)
        rows.append(
            {
                "system": names[code],
                "labels": int(labels[code]),
                "outside": round_metric(outside),
            }
        )
    return statistics, {"transport": {"margin": round_metric(margin), "systems": rows}}


def _sums(scored: ScoreColumns, rows: Bools, weights: Floats) -> list[Floats]:
    x = np.where(rows, scored.raw, 0.0)
    y = np.where(rows, scored.grade, 0.0)
    return [
        column * weights for column in scored.tally.columns(rows, x, y, x * x, x * y)
    ]


def _line(moments: Floats) -> tuple[Floats, Floats]:
    """Return the intercept and the slope of the regression of y on x, from moments (rows, systems, 5)."""
    n, x, y, xx, xy = moments.sum(axis=1).T
    spread = n * xx - x * x
    slope = divide(n * xy - x * y, np.where(spread > 1e-9 * n * n, spread, 0.0))
    return divide(y - slope * x, n), slope


def _gap(index: int, totals: Floats) -> Floats:
    # shape (rows, labeled systems, sums)
    moments = totals.reshape(len(totals), -1, 5)
    start, slope = _line(np.delete(moments, index, axis=1))
    n, x, y, _, _ = moments[:, index].T
    return divide(y, n) - start - slope * divide(x, n)


def _mean(totals: Floats) -> Floats:
    start, slope = _line(totals[:, :-2].reshape(len(totals), -1, 5))
    return start + slope * divide(totals[:, -1], totals[:, -2])


def with_results(table: Json, metrics: Metrics) -> JsonObject:
    """Return the table with the result of each system: `pass`, `fail`, `undecided`, `untested` or `refused`."""
    rows = [
        {**row, "result": _result(row, metrics, table["margin"])}
        for row in table["systems"]
    ]
    return {**table, "systems": rows}


def _result(row: Json, metrics: Metrics, margin: float) -> str:
    if row["outside"] is not None:
        if row["outside"] > OUTSIDE:
            return "refused"
        return "untested"
    gap = metrics[GAP + row["system"]]
    if (
        gap.low is None
        or gap.high is None
        or (gap.low < -margin <= gap.high)
        or (gap.low <= margin < gap.high)
    ):
        return "undecided"
    if -margin <= gap.low <= gap.high <= margin:
        return "pass"
    return "fail"
