"""Correlation of scores with people's grades within cases: whether the judge ranks the responses to one prompt."""

from __future__ import annotations

import numpy as np

from evalkit.scoring.bootstrap import Statistic, Tally, divide
from evalkit.scoring.columns import FUZZ, Bools, Floats, Ints
from evalkit.scoring.correlation import of_moments
from evalkit.scoring.pointwise import Scored, rank
from evalkit.scoring.ties import Resolved

NAMES = ("pearson", "spearman", "kendall")


def within_statistics(scored: Scored, resolved: Resolved, cases: int) -> list[Statistic]:
    """Return `agreement/pearson_within`, `spearman_within` and `kendall_within`: means of the cases' own correlations.

    Each case with two or more graded scores that are not all equal counts once; Kendall's is tau-b (Kendall 1945,
    Biometrika 33, 239-251). The overall correlations mix this with how well the judge tells prompts apart
    (Deutsch et al. 2021, arXiv 2104.00054, section 2). Intervals are those of means between -1 and 1
    (`biased.bounded_mean`): most cases' correlations are high, and few resamples would hold the low ones.
    """
    used = np.isfinite(scored.score) & np.isfinite(scored.grade)
    x, y, case = np.round(scored.score[used], 9), scored.grade[used], scored.case[used]
    missing = int((np.isfinite(scored.grade) & ~np.isfinite(scored.score)).sum())
    found = [
        by_case(x, y, case, cases),
        by_case(rank(x, case), rank(y, case), case, cases),
        _kendall(scored, resolved, used, cases),
    ]
    some = np.bincount(case, minlength=cases) > 1
    return [_mean(f"agreement/{name}_within", r, some, missing) for name, r in zip(NAMES, found, strict=True)]


def by_case(x: Floats, y: Floats, case: Ints, cases: int) -> Floats:
    """Return Pearson's r of each case, NaN where it has fewer than two rows or all are equal."""
    tally = Tally(case, cases)
    size = np.maximum(tally(np.ones(len(x))), 1.0)
    x, y = x - (tally(x) / size)[case], y - (tally(y) / size)[case]
    moments = [tally(values) for values in (np.ones(len(x)), np.zeros(len(x)), np.zeros(len(x)), x * x, y * y, x * y)]
    return of_moments(np.stack(moments, axis=1))


def _kendall(scored: Scored, resolved: Resolved, used: Bools, cases: int) -> Floats:
    pairs = resolved.pairs
    i, j = scored.offset[pairs.case] + pairs.i, scored.offset[pairs.case] + pairs.j
    both = used[i] & used[j]
    dx, dy = _signs(scored.score[i] - scored.score[j], both), _signs(scored.grade[i] - scored.grade[j], both)
    tally = Tally(pairs.case, cases)
    return divide(tally(dx * dy), np.sqrt(tally(np.abs(dx)) * tally(np.abs(dy))))


def _signs(difference: Floats, both: Bools) -> Floats:
    return np.where(both & (np.abs(difference) > FUZZ), np.sign(np.where(both, difference, 0.0)), 0.0)


def _mean(name: str, r: Floats, some: Bools, missing: int) -> Statistic:
    defined = np.isfinite(r)
    left_out = int((some & ~defined).sum())
    notes = [f"{left_out} cases of equal scores or equal grades left out"] if left_out else []
    notes += ["missing scores are left out and not bounded"] if missing else []
    n = int(defined.sum())
    return Statistic(
        name,
        np.stack([np.where(defined, r, 0.0), defined.astype(np.float64)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=n,
        missing=missing,
        note="; ".join(notes) or None,
        ends=(-1.0, 1.0),
        why="no case has two graded scores that differ",
    )
