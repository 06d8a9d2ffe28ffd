"""What benchmarks of graded responses share: grades by dimension, and what is made of them and of scores.

Grades by dimension are in the metadata `grades`: a list for each dimension, one grade for each response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from evalkit.benchmarks.rules import NEEDS_SCORES, View, nothing
from evalkit.scoring.columns.verdicts import ScoreColumns
from evalkit.scoring.metrics.correlation import correlation_statistics
from evalkit.scoring.stats.arrays import Floats
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.types import Metric

Build = Callable[[View, str, ScoreColumns], Sequence[Statistic | Metric]]


def by_dimension(view: View, benchmark: str, names: Sequence[str], build: Build) -> list[Statistic | Metric]:
    """Return what `build` makes of scores and grades by each dimension, or why there are none."""
    found: list[Statistic | Metric] = []
    for name in names:
        where, grades = f"{benchmark}/{name}", grades_of(view, name)
        scored, own = view.outcome.scores, view.criterion_scores(name)
        if own is None and name == "overall":
            own = view.scores()
        if scored is None:
            found.append(nothing(where, NEEDS_SCORES))
        elif own is None:
            found.append(nothing(where, f"no criterion '{name}' was judged: set criteria={benchmark}"))
        else:
            found += build(view, where, replace(scored, score=own, raw=own, grade=grades))
    return found


def grades_of(view: View, name: str) -> Floats:
    """Return people's grade of each response by one criterion, NaN where there is none."""
    grades: list[float] = []
    for case in view.cases:
        own = (case.metadata.get("grades") or {}).get(name) or []
        own = own if len(own) == len(case.responses) else [None] * len(case.responses)
        grades += [float("nan") if grade is None else float(grade) for grade in own]
    return np.array(grades, dtype=np.float64)


def pooled(view: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    """Return the correlations of scores and grades over all responses at once."""
    found = correlation_statistics(scored, len(view.cases))
    return [replace(one, name=f"{name}/{one.name.rpartition('/')[2]}") for one in found]
