"""Rates of ties, wins and missing answers, score means, cost and latency, and the
effect of each tie threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Metric
from evalkit.scoring.columns import (
    CANCELED,
    DISAGREEMENT,
    EQUAL,
    FORCED,
    JUDGED,
    NONE,
    SPLIT,
    THRESHOLD,
    TIE,
    A,
    B,
    PassColumns,
    ScoreColumns,
    VerdictColumns,
    sign,
)
from evalkit.scoring.decision import PROMPTS_SEEN
from evalkit.scoring.judgments import KINDS, READABLE, JudgmentColumns
from evalkit.scoring.metrics.preference_graphs import groups, matrices
from evalkit.scoring.metrics.transitivity import weak_violation
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, round_metric
from evalkit.scoring.stats.statistic import Measures, Statistic, Tally
from evalkit.scoring.verdicts.pairs import (
    OVERALL,
    WEIGHED,
    at_threshold,
    given_by,
    pair_margins,
    useful_thresholds,
    weigh,
)

NO_VERDICT = "no pair has a verdict"
REASONS = {
    "tie_rate/judged": JUDGED,
    "tie_rate/swap_disagreement": DISAGREEMENT,
    "tie_rate/threshold": THRESHOLD,
    "tie_rate/equal_scores": EQUAL,
    "tie_rate/split": SPLIT,
    "tie_rate/criteria_cancel": CANCELED,
    "forced_rate": FORCED,
}
"""The reason of the verdicts that each of these shares counts: ties without a majority among the
votes of judges or the samples of one judge (`split`), ties because the weighted winners by
criterion cancel out, and winners that were settled only because ties are forbidden."""


def tie_statistics(verdicts: VerdictColumns) -> list[Statistic]:
    """Return `tie_rate`, its parts by reason, and the win rates: shares of pairs with a verdict."""
    names = ["judged", "swap_disagreement", "threshold"]
    # Scores are compared by threshold: a tie is either equal or too close.
    if (
        verdicts.passes is None
    ):  # no pair was shown, so no judge called a tie and no orders disagree
        names = ["threshold", "equal_scores"]
    return [
        _share(verdicts, "tie_rate", verdicts.winner == TIE),
        *(reason_rate(verdicts, f"tie_rate/{name}") for name in names),
        _share(verdicts, "win_rate/a", verdicts.winner == A),
        _share(verdicts, "win_rate/b", verdicts.winner == B),
    ]


def _share(verdicts: VerdictColumns, name: str, hit: Bools) -> Statistic:
    return verdicts.tally.rate(
        name, hit, verdicts.present, verdicts.missing, why=NO_VERDICT
    )


def reason_rate(verdicts: VerdictColumns, name: str) -> Statistic:
    """Return the share of verdicts with the reason in `REASONS`."""
    # A forced verdict has a winner; all other reasons here are those of ties.
    if name == "forced_rate":
        decided = verdicts.winner != TIE
    else:
        decided = verdicts.winner == TIE
    return _share(verdicts, name, decided & (verdicts.reason == REASONS[name]))


def score_statistics(responses: ScoreColumns, scale: Scale) -> Measures:
    """Return `score/mean`, the mean score of the responses in scale units before
    normalization, and `score/distinct`.

    Args:
        responses: the scores.
        scale: the scale of the rubric.
    """
    has_score = np.isfinite(responses.raw)
    span = scale.ends
    why = "no response has a score"
    # Rewards have no ends, so that a missing one could be anything.
    note = UNBOUNDED if span is None and not has_score.all() else None
    tally = responses.tally
    mean = tally.mean(
        "score/mean",
        responses.raw,
        has_score,
        ~has_score,
        span=span,
        limits=span,
        note=note,
        why=why,
    )
    return [replace(mean, unread=tally(~has_score)), _score_distinct(responses, scale)]


UNBOUNDED = "missing scores are not bounded: a score can be any number"


def _score_distinct(scored: ScoreColumns, scale: Scale) -> Metric:
    """Return `score/distinct`: the number of distinct scores that the judge gave,
    before normalization.
    """
    scored_rows = scored.raw[np.isfinite(scored.raw)]
    missing = len(scored.raw) - len(scored_rows)
    if not len(scored_rows):
        return Metric(
            "score/distinct", None, missing=missing, note="no response has a score"
        )
    # Rounded, so that means of samples do not count as distinct by rounding.
    distinct = len(np.unique(np.round(scored_rows, 9)))
    among = "" if scale.real else f"of the {len(scale):,} on the scale; "
    return Metric(
        "score/distinct",
        round_metric(distinct),
        n=len(scored_rows),
        missing=missing,
        # Missing scores could all equal known ones, or all be new.
        worst_low=round_metric(distinct),
        worst_high=round_metric(distinct + missing),
        note=f"{among}a count grows with the number of cases: no interval",
    )


def missing_statistics(judgments: JudgmentColumns) -> list[Statistic]:
    """Return `missing/unparseable`, `missing/refused`, `missing/failed` and `missing/budget`.

    They are shares of the requested judgments. `failed` counts calls that failed, `budget` calls
    that were not made.
    """
    requested = judgments.asked
    every = np.ones(len(requested), dtype=bool)
    return [
        requested.tally.rate(
            f"missing/{kind}", requested.kind == code, every, why="no judgment was made"
        )
        # The unreadable kinds come first, so that code and index are the same.
        for code, kind in enumerate(KINDS[:READABLE])
    ]


def prompt_statistics(judgments: JudgmentColumns) -> list[Statistic]:
    """Return `prompts/cut` and `prompts/seen`; nothing if no prompt was cut."""
    requested = judgments.asked
    # `seen` is finite only where the server cut the prompt.
    cut = np.isfinite(requested.seen)
    if not cut.any():
        return []
    every = np.ones(len(requested), dtype=bool)
    share_seen = requested.tally.mean(
        PROMPTS_SEEN, requested.seen, cut, span=(0.0, 1.0)
    )
    return [requested.tally.rate("prompts/cut", cut, every), share_seen]


def rule_statistics(config: RunConfig, verdicts: VerdictColumns) -> list[Statistic]:
    """Return the shares of verdicts that optional settings cause; those of orders and
    samples are for single judges.
    """
    names = [] if config.tie.allow else ["forced_rate"]
    passes = verdicts.passes
    if passes is not None and len(config.criteria) > 1:
        names.append("tie_rate/criteria_cancel")
    if passes is not None and verdicts.panel is None and config.mode.samples > 1:
        names.append("tie_rate/split")
    statistics = [reason_rate(verdicts, name) for name in names]
    if passes is None or verdicts.panel is not None or not passes.both:
        return statistics
    if config.swap.resolve == "third_pass":
        statistics.append(_settled_rate(verdicts, passes))
    if config.swap.resolve == "net_vote":
        # Pairs decided by one order alone.
        statistics.append(
            _share(verdicts, "missing/one_pass", passes.read.sum(axis=1) == 1)
        )
    return statistics


def _settled_rate(verdicts: VerdictColumns, passes: PassColumns) -> Statistic:
    """Return `third_pass/settled_rate`: how often a third judgment agrees with one of
    two disagreeing orders.
    """
    third = passes.third
    return verdicts.tally.rate(
        "third_pass/settled_rate",
        # Either order equals the third judgment.
        (passes.winner == third[:, None]).any(axis=1),
        passes.differ & (third != NONE),
        passes.differ & (third == NONE),
        why="no pair whose orders disagree has a third judgment",
    )


def overall_statistics(config: RunConfig, compared: VerdictColumns) -> list[Statistic]:
    """Return `criteria/overall_disagreement`: how often a judgment's overall winner is
    not its weighted winner.

    A judgment that lacks either is missing. Formats without winners by criterion do not have the
    metric.

    Args:
        config: the run's config.
        compared: the verdicts of a judge that compares.
    """
    judgments = compared.judgments
    if not config.output.structured and not np.isfinite(judgments.criteria).any():
        return []
    follows = config.aggregate() == "overall"
    # The other way of deciding than the one that the verdicts follow.
    if follows:
        margins = weigh(judgments, config.weights())
    else:
        margins = pair_margins(config, judgments)
    overall = sign(judgments.value)
    weighted = sign(margins)
    has_both = (overall != NONE) & (weighted != NONE)
    why = "no judgment has an overall winner and winners by criterion"
    note = OVERALL if follows else WEIGHED
    name = "criteria/overall_disagreement"
    return [
        judgments.tally.rate(
            name, overall != weighted, has_both, ~has_both, note=note, why=why
        )
    ]


UNLIKELY = 0.5
"""Below this mean probability on the scale, `weighted/mass` has a note."""


def weight_statistics(config: RunConfig, judgments: JudgmentColumns) -> list[Statistic]:
    """Return `weighted/rate`, `weighted/mass` and `weighted/open` if log-probabilities
    were requested.

    They are the share of readable judgments with probabilities, and the means of `mass` and `open`
    over these judgments (see `WeightedJudgment`).

    Args:
        config: the run's config.
        judgments: the judgments.
    """
    judges = {judge.label for judge in config.judges if judge.probabilities}
    if not judges or (len(judgments) and not given_by(judgments, judges).any()):
        return []
    judgments = judgments.asked
    # Judgments that could have probabilities and were read.
    rows = judgments.where(judgments.readable & given_by(judgments, judges))
    tally = rows.tally
    has = rows.weighted
    every = np.ones(len(rows), dtype=bool)
    none = np.full(len(rows), np.nan)
    mass, open_ = (
        none if column is None else column for column in (rows.mass, rows.open)
    )
    if has.any() and not has.all():
        mixed = "judges with answers without probabilities are scored as stated"
    else:
        mixed = None
    unlikely = has.any() and float(np.mean(mass[has])) < UNLIKELY
    if unlikely:
        note = "most of the probability was on tokens that are not values of the scale"
    else:
        note = None
    why = "no judgment has probabilities"
    return [
        tally.rate(
            "weighted/rate", has, every, note=mixed, why="no judgment could be read"
        ),
        tally.mean("weighted/mass", mass, has, note=note, why=why),
        tally.mean("weighted/open", open_, has, why=why),
    ]


ODD = 0x5851F42D4C957F2D
"""An odd multiplier: answer × ODD + case identifies the answer of a case."""


def cost_statistics(judgments: JudgmentColumns) -> list[Statistic]:
    """Return `cost/per_case` in dollars and `latency/per_case` in seconds: means over
    cases of their answers' totals.

    An answer counts with its cost and latency at the time of the request, even if it is now stored,
    and once if several judgments share it. A case's answers add up, as if requested one after
    another. Preparatory answers and failed attempts are not counted. Cases with an answer that
    failed or has no price are omitted.
    """
    judgments = judgments.asked
    unread = "there are no answers"
    untimed = "no answer has a latency" if np.isfinite(judgments.cost).any() else unread
    if np.isfinite(judgments.latency).any():
        unpriced = "no answer has a price"
    else:
        unpriced = unread
    statistics = []
    for name, why in (("cost", unpriced), ("latency", untimed)):
        sums, complete = case_totals(judgments, name)
        # There is no largest cost. Where all are equal, one case is assumed to cost at most as much
        # as all together.
        limits = (0.0, float(sums[complete].sum()))
        missing = int((~complete).sum())
        statistics.append(
            Tally.each(judgments.cases).mean(
                f"{name}/per_case",
                sums,
                complete,
                missing=missing,
                limits=limits,
                why=why,
            )
        )
    return statistics


def case_totals(judgments: JudgmentColumns, name: str) -> tuple[Floats, Bools]:
    """Return the total of a column over each case's answers, and whether it is
    complete: some answers, all known.

    Args:
        judgments: the judgments; an answer that several share counts once.
        name: `cost` or `latency`.
    """
    # An answer that several judgments share counts once.
    # The first judgment of each answer of a case.
    _, once = np.unique(judgments.answer * ODD + judgments.case, return_index=True)
    tally = judgments.tally.of(judgments.case[once])
    column = getattr(judgments, name)[once]
    has_value = np.isfinite(column)
    return tally(np.where(has_value, column, 0.0)), np.asarray(
        # Some answers, each with a number.
        (tally(has_value) > 0) & (tally(~has_value) == 0)
    )


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """The results of one tie threshold, with all other settings unchanged.

    Attributes:
        threshold: the threshold, in the units of `tie.threshold`.
        tie_rate: the share of ties among pairs with a margin.
        accuracy: the accuracy, a tie counting as wrong unless the label is a tie.
        decided_accuracy: the accuracy without ties.
        weak_rate: the share of cases with intransitive ties, as `conflict/weak_rate`.
    """

    threshold: float
    tie_rate: float
    accuracy: float | None
    decided_accuracy: float | None
    weak_rate: float | None


def frontier(
    verdicts: VerdictColumns,
    min_confidence: float,
    winners_at: Callable[[float], Codes] | None = None,
    margins: Floats | None = None,
) -> tuple[FrontierPoint, ...]:
    """Return the results of each threshold at which a verdict changes.

    Ties are allowed, and all other settings are unchanged.

    Args:
        verdicts: the verdicts.
        min_confidence: `tie.min_confidence`.
        winners_at: returns the winners under a threshold, if it applies before a panel's vote; by
            default it applies to the margins of the verdicts.
        margins: the margins that the threshold applies to, if not those of the verdicts.
    """

    def of_margins(threshold: float) -> Codes:
        return at_threshold(verdicts, threshold, min_confidence)[0]

    winners = winners_at or of_margins
    thresholds = useful_thresholds(verdicts.margin if margins is None else margins)
    return tuple(
        _point(verdicts, threshold, winners(threshold)) for threshold in thresholds
    )


def _point(verdicts: VerdictColumns, threshold: float, winner: Codes) -> FrontierPoint:
    present = winner != NONE
    decided = (winner != NONE) & (winner != TIE)
    right = winner == verdicts.pairs.label
    return FrontierPoint(
        threshold=threshold,
        tie_rate=_mean(winner == TIE, present) or 0.0,
        accuracy=_mean(right, verdicts.labeled & present),
        decided_accuracy=_mean(right, verdicts.labeled & decided),
        weak_rate=_weak_rate(verdicts, winner),
    )


def _mean(hit: Bools, among: Bools) -> float | None:
    if among.any():
        return round_metric(hit[among].mean())
    return None


def _weak_rate(verdicts: VerdictColumns, winner: Codes) -> float | None:
    parts = []
    for _, winners in groups(verdicts.pairs, winner):
        # Only cases in which every pair has a winner.
        complete = winners[(winners != NONE).all(axis=1)]
        parts.append(weak_violation(*matrices(complete)))
    violations = np.concatenate([np.zeros(0, dtype=bool), *parts])
    if len(violations):
        return round_metric(violations.mean())
    return None
