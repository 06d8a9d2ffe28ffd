"""Figures of single models, as MT-bench ranks them: mean scores, and win rates of which a tie is half."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from evalkit.core.scale import Scale
from evalkit.scoring.columns.codes import NONE, TIE, A
from evalkit.scoring.published.parts import mean
from evalkit.scoring.published.view import View, slug
from evalkit.scoring.stats.arrays import Bools, Codes, divide
from evalkit.scoring.stats.bootstrap import Bounds, Statistic, Tally

NO_SCORE = "no response of it could be read"
NO_VERDICT = "no pair of it has a verdict"


def mean_scores(view: View, name: str, parts: Mapping[str, Bools]) -> list[Statistic]:
    """Return each model's mean score in scale units, over all its responses that could be read.

    Args:
        view: the run.
        name: what the metrics are called, before the model's name and the part's.
        parts: which cases are of each part, by the end of its metrics' names.
    """
    scored = view.outcome.scored
    if scored is None:
        return []
    models = np.array([one.model or "" for case in view.cases for one in case.responses], dtype=object)
    there, scale = np.isfinite(scored.raw), Scale.of(view.config.rubric)
    found = []
    for model, own in _by_model(models).items():
        for end, cases in parts.items():
            rows = own & cases[scored.case]
            used, lost = rows & there, int((rows & ~there).sum())
            tally = Tally(scored.case[used], len(view.cases))
            total, n = float(scored.raw[used].sum()), int(used.sum())
            found.append(
                Statistic(
                    f"{name}{model}{end}",
                    np.stack([tally(scored.raw[used]), tally(np.ones(n))], axis=1),
                    lambda totals: divide(totals[:, 0], totals[:, 1]),
                    n=n,
                    missing=lost,
                    worst=_bounds(total, n, lost, scale),
                    why=NO_SCORE,
                )
            )
    return found


def _bounds(total: float, n: int, lost: int, scale: Scale) -> Bounds:
    every = n + lost
    return ((total + lost * scale.min) / every, (total + lost * scale.max) / every) if every else (None, None)


def win_rates(view: View, name: str, verdict: Codes) -> list[Statistic]:
    """Return each model's share of the pairs it stands in that it won, a tie being half of one.

    Args:
        view: the run.
        name: what the metrics are called, before the model's name.
        verdict: each pair's winner, in the order of `view.pairs`.
    """
    pairs = view.pairs
    sides = [
        np.array([view.cases[case].responses[k].model or "" for case, k in zip(pairs.case, side, strict=True)], object)
        for side in (pairs.i, pairs.j)
    ]
    models, other = np.concatenate(sides), np.concatenate(sides[::-1])
    won = np.where(verdict == TIE, 0.5, verdict == A)
    credit, there = np.concatenate([won, 1 - won]), np.tile(verdict != NONE, 2)
    tally = Tally(np.tile(pairs.case, 2), len(view.cases))
    found = []
    for model, own in _by_model(models).items():
        rows = own & (models != other)
        found.append(mean(f"{name}{model}", tally, credit, rows & there, rows & ~there, why=NO_VERDICT))
    return found


def _by_model(models: NDArray[np.object_]) -> dict[str, Bools]:
    return {f"/{slug(name)}": np.asarray(models == name) for name in sorted(set(models.tolist()) - {""})}
