"""How often: ties by their reason, wins by side, scores, and answers that are missing by kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.scoring.columns.cases import Pairs
from evalkit.scoring.columns.codes import (
    DISAGREEMENT,
    EQUAL,
    FORCED,
    JUDGED,
    KINDS,
    NONE,
    READABLE,
    SPLIT,
    THRESHOLD,
    TIE,
    A,
    B,
    sign,
)
from evalkit.scoring.columns.judgments import Answers, Columns
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Bounds, Statistic, Tally, share
from evalkit.scoring.verdicts.aggregate import OVERALL, WEIGHED, weigh
from evalkit.scoring.verdicts.logprob_weighting import _by, _has, _judges
from evalkit.scoring.verdicts.pairs import OrderOutcomes, Resolution
from evalkit.scoring.verdicts.pointwise import ScoreColumns
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


def forced_rate(resolved: Resolution, cases: int) -> Statistic:
    """Return `forced_rate`: the share of verdicts that would be ties, and were settled because ties are forbidden."""
    present = resolved.present
    forced = resolved.reason == FORCED
    why = "no pair has a verdict"
    return Tally(resolved.pairs.case, cases).rate("forced_rate", forced, present, ~present, why=why)


def settled_rate(resolved: Resolution, shown: OrderOutcomes, cases: int) -> Statistic:
    """Return `third_pass/settled_rate`: of pairs whose orders disagree, where a third judgment agrees with one."""
    third = np.full(len(resolved.pairs), NONE) if shown.third is None else shown.third
    differ = shown.read.all(axis=1) & (shown.winner[:, 0] != shown.winner[:, 1])
    agrees = (shown.winner == third[:, None]).any(axis=1)
    read = third != NONE
    return Tally(resolved.pairs.case, cases).rate(
        "third_pass/settled_rate",
        agrees,
        differ & read,
        differ & ~read,
        why="no pair whose orders disagree has a third judgment",
    )


def one_pass_rate(resolved: Resolution, shown: OrderOutcomes, cases: int) -> Statistic:
    """Return `missing/one_pass`: the share of verdicts that rest on one order, the other being missing."""
    present = resolved.present
    alone = shown.read.sum(axis=1) == 1
    why = "no pair has a verdict"
    return Tally(resolved.pairs.case, cases).rate("missing/one_pass", alone, present, ~present, why=why)


def overall_statistics(config: RunConfig, columns: Columns, cases: int) -> list[Statistic]:
    """Return `criteria/overall_disagreement`: how often a judgment's overall winner is not its weighted one.

    A judgment that lacks either is missing. Formats without winners by criterion do not have it.
    """
    if config.output.format != "json" and not np.isfinite(columns.criteria).any():
        return []
    overall, weighed = sign(columns.value), sign(weigh(columns, config.weights()))
    known = (overall != NONE) & (weighed != NONE)
    note = WEIGHED if config.aggregate() == "criteria" else OVERALL
    why = "no judgment has an overall winner and winners by criterion"
    rate = Tally(columns.case, cases).rate(
        "criteria/overall_disagreement", overall != weighed, known, ~known, note=note, why=why
    )
    return [rate]


UNLIKELY = 0.5


def weight_statistics(config: RunConfig, answers: Answers, cases: int) -> list[Statistic]:
    """Return `weighted/rate`, `weighted/mass` and `weighted/open` where log-probabilities were asked for.

    They are the share of readable judgments that have probabilities, and the means of these judgments' `mass` and
    `open` (see `Weighted`).
    """
    wanted = {judge.label for judge in _judges(config) if judge.logprobs}
    if not wanted or (len(answers) and not _by(answers, wanted).any()):
        return []
    asked = answers.where(answers.readable & _by(answers, wanted))
    tally = Tally(asked.case, cases)
    has, every = _has(asked), np.ones(len(asked), dtype=bool)
    none = np.full(len(asked), np.nan)
    mass, open_ = (none, none) if asked.expected is None else (asked.expected.mass, asked.expected.open)
    why = "no judgment could be read"
    taken = "the others are why all of their judge's are scored as stated" if has.any() and not has.all() else None
    return [
        tally.rate("weighted/rate", has, every, ~every, note=taken, why=why),
        _weight_mean("weighted/mass", mass[has], has, tally),
        _weight_mean("weighted/open", open_[has], has, tally),
    ]


def _weight_mean(name: str, values: Floats, has: Bools, tally: Tally) -> Statistic:
    numbers = np.zeros(len(has))
    numbers[has] = values
    unlikely = name == "weighted/mass" and len(values) > 0 and float(np.mean(values)) < UNLIKELY
    return Statistic(
        name,
        np.stack([tally(numbers), tally(has)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=len(values),
        note="most of the probability was on what is no value of the scale" if unlikely else None,
        why="no judgment has probabilities",
    )
