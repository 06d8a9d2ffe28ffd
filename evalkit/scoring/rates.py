"""How often: ties by their reason, wins by side, scores, and answers that are missing by kind."""

from __future__ import annotations

import numpy as np

from evalkit.scales import Scale
from evalkit.scoring.answers import KINDS, READABLE, Answers
from evalkit.scoring.bootstrap import Statistic, Tally, divide
from evalkit.scoring.columns import TIE, A, B
from evalkit.scoring.pointwise import Scored
from evalkit.scoring.ties import DISAGREEMENT, EQUAL, JUDGED, SPLIT, THRESHOLD, Resolved
from evalkit.scoring.values import tidy
from evalkit.types import Metric


def tie_statistics(resolved: Resolved, cases: int, *, scored: bool) -> list[Statistic]:
    """Return `tie_rate`, its parts by reason, and the win rates: shares of the pairs that have a verdict."""
    tally, present = Tally(resolved.pairs.case, cases), resolved.present
    tied = resolved.winner == TIE
    hits = {
        "tie_rate": tied,
        "tie_rate/judged": tied & (resolved.reason == JUDGED),
        "tie_rate/swap_disagreement": tied & (resolved.reason == DISAGREEMENT),
        "tie_rate/threshold": tied & (resolved.reason == THRESHOLD),
        "win_rate/a": resolved.winner == A,
        "win_rate/b": resolved.winner == B,
    }
    if scored:  # No pair was shown: no judge could call it a tie, and no order could disagree with the other.
        del hits["tie_rate/judged"], hits["tie_rate/swap_disagreement"]
        hits["tie_rate/equal_scores"] = tied & (resolved.reason == EQUAL)
    why = "no pair has a verdict"
    return [tally.rate(name, hit, present, ~present, why=why) for name, hit in hits.items()]


def split_rate(resolved: Resolved, cases: int) -> Statistic:
    """Return `tie_rate/split`: ties that nobody said, since votes of judges, or samples of one, cancel out."""
    tied, present = (resolved.winner == TIE) & (resolved.reason == SPLIT), resolved.present
    why = "no pair has a verdict"
    return Tally(resolved.pairs.case, cases).rate("tie_rate/split", tied, present, ~present, why=why)


def score_mean(scored: Scored, scale: Scale, cases: int) -> Statistic:
    """Return `score/mean`: the mean score of the responses in scale units, before any normalisation."""
    tally, there = Tally(scored.case, cases), np.isfinite(scored.raw)
    sums = tally(np.where(there, scored.raw, 0.0))
    n, missing, total = int(there.sum()), int((~there).sum()), float(sums.sum())
    every = n + missing
    return Statistic(
        "score/mean",
        np.stack([sums, tally(there)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=n,
        missing=missing,
        worst=((total + missing * scale.min) / every, (total + missing * scale.max) / every) if every else (None, None),
        why="no response has a score",
    )


def score_distinct(scored: Scored, scale: Scale) -> Metric:
    """Return `score/distinct`: how many different scores the judge gave, before any normalisation."""
    there = scored.raw[np.isfinite(scored.raw)]
    missing = len(scored.raw) - len(there)
    if not len(there):
        return Metric("score/distinct", None, missing=missing, note="no response has a score")
    distinct = len(np.unique(np.round(there, 9)))
    return Metric(
        "score/distinct",
        tidy(distinct),
        n=len(there),
        missing=missing,
        worst_low=tidy(distinct),
        worst_high=tidy(distinct + missing),
        note=f"of the {len(scale):,} on the scale; a count grows with the number of cases: no interval",
    )


def missing_statistics(answers: Answers, cases: int) -> list[Statistic]:
    """Return `missing/unparseable`, `missing/refused`, `missing/failed` and `missing/budget`.

    Shares of the judgments asked for; `failed` are calls that went wrong, `budget` those never made.
    """
    tally, every = Tally(answers.case, cases), np.ones(len(answers), dtype=bool)
    why = "no judgment was made"
    return [
        tally.rate(f"missing/{kind}", answers.kind == KINDS.index(kind), every, ~every, why=why)
        for kind in KINDS[:READABLE]
    ]
