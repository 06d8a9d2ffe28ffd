"""Rates of ties by reason, of wins, of missing answers by kind, and score means."""

from __future__ import annotations

from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.scoring.columns.cases import (
    CANCELED,
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
    PairColumns,
    sign,
)
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.columns.verdicts import PassColumns, ScoreColumns, VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Bounds, Codes, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Statistic, Tally, share
from evalkit.scoring.verdicts.weighting import OVERALL, WEIGHED, given_by, judges_asked, pair_margins, weigh
from evalkit.types import Metric, Unit


def tie_statistics(verdicts: VerdictColumns, *, scored: bool) -> list[Statistic]:
    """Return `tie_rate`, its parts by reason, and the win rates: shares of pairs with a verdict."""
    tally, present = verdicts.tally, verdicts.present
    tied = verdicts.winner == TIE
    hits = {
        "tie_rate": tied,
        "tie_rate/judged": tied & (verdicts.reason == JUDGED),
        "tie_rate/swap_disagreement": tied & (verdicts.reason == DISAGREEMENT),
        "tie_rate/threshold": tied & (verdicts.reason == THRESHOLD),
        "win_rate/a": verdicts.winner == A,
        "win_rate/b": verdicts.winner == B,
    }
    if scored:  # no pair was shown, so no judge called a tie and no orders disagree
        del hits["tie_rate/judged"], hits["tie_rate/swap_disagreement"]
        hits["tie_rate/equal_scores"] = tied & (verdicts.reason == EQUAL)
    why = "no pair has a verdict"
    return [tally.rate(name, hit, present, ~present, why=why) for name, hit in hits.items()]


def split_rate(verdicts: VerdictColumns) -> Statistic:
    """Return `tie_rate/split`: ties without a majority among the votes of judges or the samples of one judge."""
    tied, present = (verdicts.winner == TIE) & (verdicts.reason == SPLIT), verdicts.present
    why = "no pair has a verdict"
    return verdicts.tally.rate("tie_rate/split", tied, present, ~present, why=why)


def canceled_rate(verdicts: VerdictColumns) -> Statistic:
    """Return `tie_rate/criteria_cancel`: ties because the weighted winners by criterion cancel out."""
    tied, present = (verdicts.winner == TIE) & (verdicts.reason == CANCELED), verdicts.present
    why = "no pair has a verdict"
    return verdicts.tally.rate("tie_rate/criteria_cancel", tied, present, ~present, why=why)


def score_mean(scored: ScoreColumns, scale: Scale, cases: int) -> Statistic:
    """Return `score/mean`: the mean score of the responses in scale units, before normalization.

    Args:
        scored: the scores.
        scale: the scale of the rubric.
        cases: the number of cases.
    """
    tally, scored_rows = Tally(scored.case, cases), np.isfinite(scored.raw)
    sums = tally(np.where(scored_rows, scored.raw, 0.0))
    n, missing, total = int(scored_rows.sum()), int((~scored_rows).sum()), float(sums.sum())
    count = n + missing
    return Statistic(
        "score/mean",
        np.stack([sums, tally(scored_rows)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=n,
        missing=missing,
        worst=((total + missing * scale.min) / count, (total + missing * scale.max) / count) if count else (None, None),
        limits=(scale.min, scale.max),
        why="no response has a score",
    )


def score_distinct(scored: ScoreColumns, scale: Scale) -> Metric:
    """Return `score/distinct`: the number of distinct scores that the judge gave, before normalization."""
    scored_rows = scored.raw[np.isfinite(scored.raw)]
    missing = len(scored.raw) - len(scored_rows)
    if not len(scored_rows):
        return Metric("score/distinct", None, missing=missing, note="no response has a score")
    distinct = len(np.unique(np.round(scored_rows, 9)))
    return Metric(
        "score/distinct",
        round_metric(distinct),
        n=len(scored_rows),
        missing=missing,
        worst_low=round_metric(distinct),
        worst_high=round_metric(distinct + missing),
        note=f"of the {len(scale):,} on the scale; a count grows with the number of cases: no interval",
    )


def missing_statistics(judgments: JudgmentColumns, cases: int) -> list[Statistic]:
    """Return `missing/unparseable`, `missing/refused`, `missing/failed` and `missing/budget`.

    They are shares of the requested judgments. `failed` counts calls that failed, `budget` calls that were not made.
    """
    requested = judgments.asked
    tally, all_rows = Tally(requested.case, cases), np.ones(len(requested), dtype=bool)
    why = "no judgment was made"
    return [
        tally.rate(f"missing/{kind}", requested.kind == KINDS.index(kind), all_rows, ~all_rows, why=why)
        for kind in KINDS[:READABLE]
    ]


MISSING_KINDS = (*KINDS[:READABLE], "unasked")


def missing_table(
    verdicts: VerdictColumns, passes: PassColumns | None, judgments: JudgmentColumns
) -> list[dict[str, Any]]:
    """Return the bounds of each rate over labels if only the missing answers of one kind had been made.

    A pair counts under the kind of its first missing answer, in the order of `MISSING_KINDS`, and as `unasked` if it
    was never requested. `worst_low` and `worst_high` are the rate if every missing answer of that kind had counted
    against it, or for it.

    Args:
        verdicts: the verdicts.
        passes: the result of each order, if there are passes.
        judgments: all judgments.

    Returns:
        A row for each rate and kind, as JSON values.
    """
    kinds = _missing_kinds(verdicts.pairs, judgments.asked)
    right, labeled = verdicts.winner == verdicts.pairs.label, verdicts.labeled
    rates: dict[str, tuple[Bools, Bools]] = {"agreement/accuracy": (right, verdicts.present)}
    if passes is not None and passes.both:
        both = np.asarray((passes.winner == verdicts.pairs.label[:, None]).all(axis=1))
        rates["agreement/accuracy_both_orders"] = (both, np.asarray(passes.read.all(axis=1)))
    rows = [
        _row(name, kind, hit & labeled & read, labeled & read, labeled & ~read & (kinds == place))
        for name, (hit, read) in rates.items()
        for place, kind in enumerate(MISSING_KINDS)
    ]
    return rows if passes is None or not passes.both else rows + _per_order_rows(verdicts, passes, judgments)


def _per_order_rows(verdicts: VerdictColumns, passes: PassColumns, judgments: JudgmentColumns) -> list[dict[str, Any]]:
    """Return the rows of `agreement/accuracy_per_order`, the mean of two rates, with missing answers by pass."""
    requested = judgments.asked.select(third=False)
    kinds = [_missing_kinds(verdicts.pairs, requested, order) for order in (0, 1)]
    rows = []
    for place, kind in enumerate(MISSING_KINDS):
        one, two = (
            _row(
                "agreement/accuracy_per_order",
                kind,
                right & read,
                read,
                verdicts.labeled & ~read & (kinds[k] == place),
            )
            for k in (0, 1)
            for read in (verdicts.labeled & passes.read[:, k],)
            for right in (np.asarray(passes.winner[:, k] == verdicts.pairs.label),)
        )
        means = {name: _mean(one[name], two[name]) for name in ("value", "worst_low", "worst_high")}
        rows.append(one | means | {name: one[name] + two[name] for name in ("n", "missing")})
    return rows


def _mean(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else round_metric((one + two) / 2)


def _row(name: str, kind: str, hit: Bools, among: Bools, unread: Bools) -> dict[str, Any]:
    n, missing, hits = int(among.sum()), int(unread.sum()), int(hit.sum())
    low, high = _rounded(share(hits, n + missing, missing))
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


def _rounded(bounds: Bounds) -> Bounds:
    low, high = bounds
    return (None if low is None else round_metric(low)), (None if high is None else round_metric(high))


def _missing_kinds(pairs: PairColumns, judgments: JudgmentColumns, order: int | None = None) -> Codes:
    """Return the index in `MISSING_KINDS` of each pair's first missing answer, of one order if `order` is given."""
    found = np.full(len(pairs), MISSING_KINDS.index("unasked"), dtype=np.int8)
    for row in np.flatnonzero(~judgments.readable):
        unit, shown = judgments.shapes[judgments.shape[row]]
        if order is not None and len(unit) == 2 and (shown != unit) != order:
            continue
        affected = _pairs_of_unit(unit, int(judgments.case[row]), pairs)
        if order is not None:
            swapped = [
                shown.index(i) > shown.index(j) for i, j in zip(pairs.i[affected], pairs.j[affected], strict=True)
            ]
            affected = affected[np.array(swapped, dtype=np.int64) == order]
        found[affected] = np.minimum(found[affected], judgments.kind[row])
    return found


def _pairs_of_unit(unit: Unit, case: int, pairs: PairColumns) -> Ints:
    """Return the indices of the pairs of a case that a judgment of a unit affects."""
    start, n = int(pairs.start[case]), int(pairs.sizes[case])
    place = np.arange(start, start + n * (n - 1) // 2)
    i, j = np.isin(pairs.i[place], unit), np.isin(pairs.j[place], unit)
    return place[(i | j) if len(unit) == 1 else (i & j)]


def forced_rate(verdicts: VerdictColumns) -> Statistic:
    """Return `forced_rate`: the share of verdicts that were settled only because ties are forbidden."""
    present = verdicts.present
    forced = verdicts.reason == FORCED
    why = "no pair has a verdict"
    return verdicts.tally.rate("forced_rate", forced, present, ~present, why=why)


def settled_rate(verdicts: VerdictColumns, passes: PassColumns) -> Statistic:
    """Return `third_pass/settled_rate`: how often a third judgment agrees with one of two disagreeing orders."""
    third = np.full(len(verdicts.pairs), NONE) if passes.third is None else passes.third
    differ = passes.differ
    agrees = (passes.winner == third[:, None]).any(axis=1)
    read = third != NONE
    return verdicts.tally.rate(
        "third_pass/settled_rate",
        agrees,
        differ & read,
        differ & ~read,
        why="no pair whose orders disagree has a third judgment",
    )


def one_pass_rate(verdicts: VerdictColumns, passes: PassColumns) -> Statistic:
    """Return `missing/one_pass`: the share of verdicts for which one order is missing."""
    present = verdicts.present
    single = passes.read.sum(axis=1) == 1
    why = "no pair has a verdict"
    return verdicts.tally.rate("missing/one_pass", single, present, ~present, why=why)


def overall_statistics(config: RunConfig, judgments: JudgmentColumns, cases: int) -> list[Statistic]:
    """Return `criteria/overall_disagreement`: how often a judgment's overall winner is not its weighted winner.

    A judgment that lacks either is missing. Formats without winners by criterion do not have the metric.

    Args:
        config: the run's config.
        judgments: the judgments.
        cases: the number of cases.
    """
    if config.output.format != "json" and not np.isfinite(judgments.criteria).any():
        return []
    follows = config.aggregate() == "overall"
    margins = weigh(judgments, config.weights()) if follows else pair_margins(config, judgments)
    overall, weighted = sign(judgments.value), sign(margins)
    known = (overall != NONE) & (weighted != NONE)
    note = OVERALL if follows else WEIGHED
    why = "no judgment has an overall winner and winners by criterion"
    rate = Tally(judgments.case, cases).rate(
        "criteria/overall_disagreement", overall != weighted, known, ~known, note=note, why=why
    )
    return [rate]


UNLIKELY = 0.5
"""Below this mean probability on the scale, `weighted/mass` has a note."""


def weight_statistics(config: RunConfig, judgments: JudgmentColumns, cases: int) -> list[Statistic]:
    """Return `weighted/rate`, `weighted/mass` and `weighted/open` if log-probabilities were requested.

    They are the share of readable judgments with probabilities, and the means of `mass` and `open` over these judgments
    (see `WeightedJudgment`).

    Args:
        config: the run's config.
        judgments: the judgments.
        cases: the number of cases.
    """
    judges = {judge.label for judge in judges_asked(config) if judge.logprobs}
    if not judges or (len(judgments) and not given_by(judgments, judges).any()):
        return []
    judgments = judgments.asked
    rows = judgments.where(judgments.readable & given_by(judgments, judges))
    tally = Tally(rows.case, cases)
    has, all_rows = rows.weighted, np.ones(len(rows), dtype=bool)
    none = np.full(len(rows), np.nan)
    mass, open_ = (none if column is None else column for column in (rows.mass, rows.open))
    why = "no judgment could be read"
    mixed = "judges with answers without probabilities are scored as stated" if has.any() and not has.all() else None
    return [
        tally.rate("weighted/rate", has, all_rows, ~all_rows, note=mixed, why=why),
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
        note="most of the probability was on tokens that are not values of the scale" if unlikely else None,
        why="no judgment has probabilities",
    )
