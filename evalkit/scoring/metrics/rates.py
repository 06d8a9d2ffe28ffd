"""How often: ties by their reason, wins by side, scores, and answers that are missing by kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from evalkit.core.scale import Scale
from evalkit.scoring.bootstrap import Bounds, Statistic, Tally, divide, share
from evalkit.scoring.columns import KINDS, READABLE, TIE, A, Answers, B, Bools, Codes, Ints, Pairs
from evalkit.scoring.pairs import DISAGREEMENT, EQUAL, JUDGED, SPLIT, THRESHOLD, OrderOutcomes, Resolution
from evalkit.scoring.pointwise import ScoreColumns
from evalkit.scoring.values import round_metric
from evalkit.types import Metric, Unit


def tie_statistics(resolved: Resolution, cases: int, *, scored: bool) -> list[Statistic]:
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


def split_rate(resolved: Resolution, cases: int) -> Statistic:
    """Return `tie_rate/split`: ties that nobody said, since votes of judges, or samples of one, cancel out."""
    tied, present = (resolved.winner == TIE) & (resolved.reason == SPLIT), resolved.present
    why = "no pair has a verdict"
    return Tally(resolved.pairs.case, cases).rate("tie_rate/split", tied, present, ~present, why=why)


def score_mean(scored: ScoreColumns, scale: Scale, cases: int) -> Statistic:
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


def score_distinct(scored: ScoreColumns, scale: Scale) -> Metric:
    """Return `score/distinct`: how many different scores the judge gave, before any normalisation."""
    there = scored.raw[np.isfinite(scored.raw)]
    missing = len(scored.raw) - len(there)
    if not len(there):
        return Metric("score/distinct", None, missing=missing, note="no response has a score")
    distinct = len(np.unique(np.round(there, 9)))
    return Metric(
        "score/distinct",
        round_metric(distinct),
        n=len(there),
        missing=missing,
        worst_low=round_metric(distinct),
        worst_high=round_metric(distinct + missing),
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


MISSING_KINDS = (*KINDS[:READABLE], "unasked")


def missing_table(resolved: Resolution, shown: OrderOutcomes | None, answers: Answers) -> list[dict[str, Any]]:
    """Return, for each rate over labels and each kind of missing answer, the rate's bounds if only those had come.

    A pair counts under the kind of its first missing answer, in the order of `MISSING_KINDS`; `unasked` if it
    was never asked for. `worst_low` and `worst_high` are the rate had every missing answer of that kind gone against,
    or for, it.
    """
    kinds = _kinds(resolved.pairs, answers)
    right, labelled = resolved.winner == resolved.pairs.label, resolved.labelled
    rates: dict[str, tuple[Bools, Bools]] = {"agreement/accuracy": (right, resolved.present)}
    if shown is not None and shown.both:
        both = np.asarray((shown.winner == resolved.pairs.label[:, None]).all(axis=1))
        rates["agreement/accuracy_both_orders"] = (both, np.asarray(shown.read.all(axis=1)))
    rows = [
        _row(name, kind, hit & labelled & read, labelled & read, labelled & ~read & (kinds == place))
        for name, (hit, read) in rates.items()
        for place, kind in enumerate(MISSING_KINDS)
    ]
    return rows if shown is None or not shown.both else rows + _of_orders(resolved, shown, answers)


def _of_orders(resolved: Resolution, shown: OrderOutcomes, answers: Answers) -> list[dict[str, Any]]:
    """Return the rows of `agreement/accuracy_per_order`, the mean of two rates; a pass has a kind of its own."""
    asked = answers.select(third=False)
    kinds = [_kinds(resolved.pairs, asked, order) for order in (0, 1)]
    rows = []
    for place, kind in enumerate(MISSING_KINDS):
        one, two = (
            _row(
                "agreement/accuracy_per_order",
                kind,
                right & read,
                read,
                resolved.labelled & ~read & (kinds[k] == place),
            )
            for k in (0, 1)
            for read in (resolved.labelled & shown.read[:, k],)
            for right in (np.asarray(shown.winner[:, k] == resolved.pairs.label),)
        )
        means = {name: _mean(one[name], two[name]) for name in ("value", "worst_low", "worst_high")}
        rows.append(one | means | {name: one[name] + two[name] for name in ("n", "missing")})
    return rows


def _mean(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else round_metric((one + two) / 2)


def _row(name: str, kind: str, hit: Bools, among: Bools, lost: Bools) -> dict[str, Any]:
    n, missing, hits = int(among.sum()), int(lost.sum()), int(hit.sum())
    low, high = _tidy(share(hits, n + missing, missing))
    value = round_metric(hits / n) if n else None
    return {
        "metric": name,
        "kind": kind,
        "value": value,
        "n": n,
        "missing": missing,
        "worst_low": low,
        "worst_high": high,
    }


def _tidy(bounds: Bounds) -> Bounds:
    low, high = bounds
    return (None if low is None else round_metric(low)), (None if high is None else round_metric(high))


def _kinds(pairs: Pairs, answers: Answers, order: int | None = None) -> Codes:
    """Return by pair the place in `MISSING_KINDS` of its first missing answer, of those in one order if it is named."""
    found = np.full(len(pairs), MISSING_KINDS.index("unasked"), dtype=np.int8)
    for row in np.flatnonzero(~answers.readable):
        unit, shown = answers.shapes[answers.shape[row]]
        if order is not None and len(unit) == 2 and (shown != unit) != order:
            continue
        touched = _pairs_of(unit, int(answers.case[row]), pairs)
        if order is not None:
            turned = [shown.index(i) > shown.index(j) for i, j in zip(pairs.i[touched], pairs.j[touched], strict=True)]
            touched = touched[np.array(turned, dtype=np.int64) == order]
        found[touched] = np.minimum(found[touched], answers.kind[row])
    return found


def _pairs_of(unit: Unit, case: int, pairs: Pairs) -> Ints:
    """Return the places of the pairs of a case that a judgment bears on, by all of its responses or its only one."""
    start, n = int(pairs.start[case]), int(pairs.sizes[case])
    place = np.arange(start, start + n * (n - 1) // 2)
    i, j = np.isin(pairs.i[place], unit), np.isin(pairs.j[place], unit)
    return place[(i | j) if len(unit) == 1 else (i & j)]
