"""Correlations of scores and grades within each case, and of the means of systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evalkit.scoring.stats.arrays import Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.pointwise import ScoreColumns

Coefficient = Callable[[Floats, Floats], Floats]


def pearson(x: Floats, y: Floats) -> Floats:
    """Return Pearson's r of each row of `x` and `y`, NaN where either does not vary."""
    dx, dy = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    under = np.sqrt((dx * dx).sum(axis=-1) * (dy * dy).sum(axis=-1))
    return divide((dx * dy).sum(axis=-1), np.where(under > 1e-12, under, 0.0))


def spearman(x: Floats, y: Floats) -> Floats:
    """Return Spearman's rho of each row: Pearson's r of mid-ranks."""
    return pearson(_ranks(x), _ranks(y))


def _ranks(values: Floats) -> Floats:
    signs = np.sign(np.round(values[..., :, None] - values[..., None, :], 9))
    return np.asarray(signs.sum(axis=-1) / 2)


def kendall(x: Floats, y: Floats) -> Floats:
    """Return Kendall's tau-b of each row (Kendall 1945, Biometrika 33, 239-251)."""
    dx = np.sign(np.round(x[..., :, None] - x[..., None, :], 9))
    dy = np.sign(np.round(y[..., :, None] - y[..., None, :], 9))
    under = np.sqrt(np.abs(dx).sum(axis=(-2, -1)) * np.abs(dy).sum(axis=(-2, -1)))
    return divide((dx * dy).sum(axis=(-2, -1)), under)


COEFFICIENTS: dict[str, Coefficient] = {"pearson": pearson, "spearman": spearman, "kendall": kendall}


def summary_level(name: str, scored: ScoreColumns, cases: int) -> list[Statistic]:
    """Return the mean over cases of the correlation within each; cases without variation are left out."""
    used = np.isfinite(scored.score) & np.isfinite(scored.grade)
    lost = int((np.isfinite(scored.grade) & ~used).sum())
    own = [np.flatnonzero(used & (scored.case == case)) for case in range(cases)]
    found = []
    for end, compute in COEFFICIENTS.items():
        values = np.array([_one(compute, scored.score[rows], scored.grade[rows]) for rows in own], dtype=np.float64)
        there = np.isfinite(values)
        found.append(
            Statistic(
                f"{name}/{end}",
                np.stack([np.where(there, values, 0.0), there.astype(np.float64)], axis=1),
                lambda totals: divide(totals[:, 0], totals[:, 1]),
                n=int(there.sum()),
                missing=lost,
                note="missing scores are left out and not bounded" if lost else None,
                why="no case has scores and grades that vary",
                ends=(-1.0, 1.0),
            )
        )
    return found


def _one(compute: Coefficient, x: Floats, y: Floats) -> float:
    return float(compute(x, y)) if len(x) > 1 else float("nan")


def system_level(name: str, scored: ScoreColumns, systems: Sequence[str], cases: int) -> list[Statistic]:
    """Return the correlation of the systems' mean scores with their mean grades."""
    names = sorted(set(systems) - {""})
    used = np.isfinite(scored.score) & np.isfinite(scored.grade)
    lost = int((np.isfinite(scored.grade) & ~used).sum())
    system = np.array(systems, dtype=object)
    columns = []
    for one in names:
        rows = used & (system == one)
        tally = Tally(scored.case[rows], cases)
        columns += [tally(scored.score[rows]), tally(scored.grade[rows]), tally(np.ones(int(rows.sum())))]
    table = np.stack(columns, axis=1) if columns else np.zeros((cases, 0))

    def of(compute: Coefficient) -> Callable[[Floats], Floats]:
        def value(totals: Floats) -> Floats:
            if len(names) < 2:
                return np.full(len(totals), np.nan)
            sums, grades, counts = (totals[:, k::3] for k in range(3))
            return compute(divide(sums, counts), divide(grades, counts))

        return value

    note = "missing scores are left out and not bounded" if lost else None
    return [
        Statistic(
            f"{name}/{end}", table, of(compute), n=len(names), missing=lost, note=note,
            why="fewer than two systems, or their means are all equal",
        )
        for end, compute in COEFFICIENTS.items()
    ]  # fmt: skip
