"""Benchmarks of graded responses: Topical-Chat and SummEval (UniEval), Prometheus and HelpSteer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from evalkit.scoring.columns.codes import NONE, TIE
from evalkit.scoring.metrics.correlation import correlation_statistics, of_moments
from evalkit.scoring.published.levels import summary_level, system_level
from evalkit.scoring.published.parts import nothing
from evalkit.scoring.published.view import View
from evalkit.scoring.stats.arrays import Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.pointwise import ScoreColumns
from evalkit.types import Metric

TOPICAL_CHAT = ("naturalness", "coherence", "engagingness", "groundedness", "understandability", "overall")
SUMMEVAL = ("coherence", "consistency", "fluency", "relevance", "overall")
HELPSTEER = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")
COEFFICIENTS = ("pearson", "spearman", "kendall")
NEEDS_SCORES = "responses have no scores: set mode=pointwise"


def topical_chat(view: View) -> list[Statistic | Metric]:
    """Return `topical_chat/DIMENSION/pearson`, `spearman` and `kendall` for five dimensions and `overall`.

    Turn-level: over all responses at once (Zhong et al. 2022, arXiv 2210.07197, section 4.3, and their
    `correlation.py`). A dimension is judged by the criterion of its name, `overall` by the weighted mean
    of all where no criterion has that name.
    """
    return _by_dimension(view, "topical_chat", TOPICAL_CHAT, _pooled)


def summeval(view: View) -> list[Statistic | Metric]:
    """Return, for four dimensions and `overall`, correlations at sample, summary and system level.

    `summeval/DIMENSION/sample/pearson` (also `spearman`, `kendall`) is over all summaries at once; `…/summary/…` the
    mean over documents of the correlation within each, those left out whose scores or grades are all equal;
    `…/system/…` is over the systems' means (Fabbri et al. 2021, TACL 9, section 5; Zhong et al. 2022, arXiv
    2210.07197, section 4.2, and their `correlation.py`).
    """
    return _by_dimension(view, "summeval", SUMMEVAL, _three_levels)


def prometheus(view: View) -> list[Statistic | Metric]:
    """Return `prometheus/pearson`, `prometheus/kendall` and `prometheus/spearman` of scores and reference scores.

    Over all responses at once (Kim et al. 2024, arXiv 2310.08491, section 5.3); a judge's samples count by their mean.
    """
    scored = view.outcome.scored
    names = ("pearson", "kendall", "spearman")
    if scored is None:
        return [nothing(f"prometheus/{name}", NEEDS_SCORES) for name in names]
    found = dict(zip(COEFFICIENTS, _pooled(view, "prometheus", replace(scored, score=scored.raw)), strict=True))
    return [found[name] for name in names]


def helpsteer(view: View) -> list[Statistic | Metric]:
    """Return, by attribute, `helpsteer/ATTRIBUTE/weighted_kappa` and `…/pearson`, and `helpsteer/preference_accuracy`.

    Cohen's kappa with quadratic weights is how people's agreement was measured (Wang et al. 2024, arXiv 2406.08673,
    section 2); an attribute is judged by the criterion of its name, on the scale of the grades (rubric=helpsteer). The
    accuracy is over preferences that are no ties, a verdict of tie being wrong (Wang et al. 2025, arXiv 2410.01257).
    """
    return [*_by_dimension(view, "helpsteer", HELPSTEER, _kappa_and_pearson), _preferences(view)]


Build = Callable[[View, str, ScoreColumns], Sequence[Statistic | Metric]]


def _by_dimension(view: View, benchmark: str, names: Sequence[str], build: Build) -> list[Statistic | Metric]:
    """Return what `build` makes of scores and grades by each dimension, or why there are none."""
    found: list[Statistic | Metric] = []
    for name in names:
        where, grades = f"{benchmark}/{name}", _grades(view, name)
        scored, own = view.outcome.scored, view.criterion_scores(name)
        if own is None and name == "overall":
            own = view.scores()
        if scored is None:
            found.append(nothing(where, NEEDS_SCORES))
        elif own is None:
            found.append(nothing(where, f"no criterion '{name}' was judged: set criteria={benchmark}"))
        else:
            found += build(view, where, replace(scored, score=own, raw=own, grade=grades))
    return found


def _grades(view: View, name: str) -> Floats:
    """Return people's grade of each response by one criterion, NaN where there is none."""
    grades: list[float] = []
    for case in view.cases:
        own = (case.metadata.get("grades") or {}).get(name) or []
        own = own if len(own) == len(case.responses) else [None] * len(case.responses)
        grades += [float("nan") if grade is None else float(grade) for grade in own]
    return np.array(grades, dtype=np.float64)


def _pooled(view: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    found = correlation_statistics(scored, len(view.cases))
    return [replace(one, name=f"{name}/{one.name.rpartition('/')[2]}") for one in found]


def _three_levels(view: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    systems = [response.model or "" for case in view.cases for response in case.responses]
    return [
        *_pooled(view, f"{name}/sample", scored),
        *summary_level(f"{name}/summary", scored, len(view.cases)),
        *system_level(f"{name}/system", scored, systems, len(view.cases)),
    ]


def _kappa_and_pearson(view: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    graded, there = np.isfinite(scored.grade), np.isfinite(scored.score)
    used = graded & there
    x, y = scored.score[used], scored.grade[used]
    tally = Tally(scored.case[used], len(view.cases))
    columns = np.stack([tally(values) for values in (np.ones(len(x)), x, y, x * x, y * y, x * y)], axis=1)
    lost = int((graded & ~there).sum())
    note = "missing scores are left out and not bounded" if lost else None
    why = "scores or grades are all equal"

    def of(end: str, value: Callable[[Floats], Floats]) -> Statistic:
        said = why if len(x) else f"no scored response has a grade of {name.rpartition('/')[2]}"
        return Statistic(f"{name}/{end}", columns, value, len(x), lost, note=note, why=said)

    return [of("weighted_kappa", quadratic_kappa), of("pearson", of_moments)]


def quadratic_kappa(totals: Floats) -> Floats:
    """Return Cohen's kappa with quadratic weights of rows of n and the sums of x, y, xx, yy, xy.

    With weights (x - y)^2 it is 1 - sum (x - y)^2 / (sum of (x_i - y_j)^2 over all i, j / n) (Cohen 1968, Psychol.
    Bull. 70, 213-220), so that no table is needed.
    """
    n, x, y, xx, yy, xy = totals.T
    observed = xx + yy - 2 * xy
    expected = xx + yy - 2 * divide(x * y, n)
    small = np.abs(expected) <= 1e-9 * np.maximum(n, 1)
    return np.where(small, np.nan, 1 - divide(observed, np.where(small, 1.0, expected)))


def _preferences(view: View) -> Statistic:
    label, winner = view.pairs.label, view.outcome.resolved.winner
    wanted = (label != NONE) & (label != TIE)
    return view.tally.rate(
        "helpsteer/preference_accuracy",
        winner == label,
        wanted & (winner != NONE),
        wanted & (winner == NONE),
        why="no pair with a preference has a verdict",
    )
