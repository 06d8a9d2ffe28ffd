"""Verdicts of a panel: each judge's verdicts come first, then the judges with a verdict vote."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from typing import Final

import numpy as np

from evalkit.config import RunConfig, TieConfig
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case
from evalkit.core.values import frozen
from evalkit.scoring.columns import (
    CANCELED,
    DISAGREEMENT,
    FORCED,
    JUDGED,
    MISSING,
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
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import FUZZ, Bools, Codes, Floats, Ints, divide
from evalkit.scoring.stats.dawid_skene import true_codes
from evalkit.scoring.verdicts.pairs import apply_ties, at_threshold
from evalkit.scoring.verdicts.pointwise import compare_scores

DAWID_SKENE: Final = "dawid_skene"
UNASKED: Final = "not every judge was asked about everything: "
CLASSES: Final = (A, TIE, B)


@frozen
class Panel:
    """Judges that vote on arrays of votes (judges, units).

    Attributes:
        names: the names of the judges.
        weights: (judges, 1) their weights relative to the largest; all equal unless `vote` is
            weighted.
        vote: `majority`, `dawid_skene`, `mean`, `median` or `weighted`.
        quorum: the number of votes that a verdict requires.
    """

    names: tuple[str, ...]
    weights: Floats
    vote: str
    quorum: int

    @classmethod
    def of(
        cls, config: RunConfig, members: Sequence[str], judged: Sequence[str]
    ) -> Panel:
        """Return the panel of the judges in `judged`, out of all the `members` that
        were to judge.
        """
        judge = config.judge
        weights = [
            judge.weights.get(name, 1.0) if judge.vote == "weighted" else 1.0
            for name in judged
        ]
        shares = np.array(weights)[:, None] / (
            max(weights, default=0.0) or 1.0
        )  # sums near 1e308 would overflow
        return cls(
            tuple(judged), shares, judge.vote, judge.quorum or ceil(len(members) / 2)
        )

    def has_quorum(self, voted: Bools) -> Bools:
        """Return which units meet the quorum, (units,); a judge with weight 0 has no vote."""
        return np.asarray((voted & (self.weights > 0)).sum(axis=0) >= self.quorum)

    def average(self, values: Floats) -> Floats:
        """Return the weighted mean of each unit's votes or their median, NaN without a quorum.

        For scores, the median represents the majority: more than half of the judges give at least,
        and at most, this score.
        """
        # values: shape (judges, units)
        voted = np.isfinite(values) & (self.weights > 0)
        sufficient = voted.any(axis=0) & self.has_quorum(voted)
        if self.vote in ("mean", "weighted"):
            weights = np.where(voted, self.weights, 0.0)
            total = weights.sum(axis=0)
            sums = (weights * np.where(voted, values, 0.0)).sum(axis=0)
            return np.asarray(
                np.divide(
                    sums, total, out=np.full(len(total), np.nan), where=sufficient
                )
            )
        medians = np.full(values.shape[1], np.nan)
        medians[sufficient] = np.nanmedian(
            np.where(voted, values, np.nan)[:, sufficient], axis=0
        )
        return medians

    @property
    def elects(self) -> bool:
        """Whether it elects a winner, and does not average margins."""
        return self.vote in ("majority", DAWID_SKENE)

    def counts(self, votes: Codes | Ints, codes: Sequence[int]) -> Floats:
        """Return the votes for each code, (codes, units), or by the model of Dawid and
        Skene its probability.
        """
        if self.vote == DAWID_SKENE:
            return true_codes(np.stack([votes == code for code in codes]))
        return np.stack([self.weights[:, 0] @ (votes == code) for code in codes])

    def elect(self, winners: Codes) -> Codes:
        """Return the outcome with the most votes, or a tie; below the quorum, return
        the code NONE.
        """
        return winners_of(
            self.counts(winners, CLASSES), self.has_quorum(winners != NONE)
        )

    def decide(self, winners: Codes) -> Codes:
        """Return the result of the votes on winners under the panel's rule."""
        if self.elects:
            return self.elect(winners)
        return sign(
            self.average(np.where(winners == NONE, np.nan, winners.astype(np.float64)))
        )


def winners_of(counts: Floats, quorum: Bools) -> Codes:
    """Return the outcome with the highest count, or a tie; below the quorum, return the code NONE.

    Args:
        counts: (3, units) the votes for A, TIE and B, or their probabilities.
        quorum: (units,) which units have a quorum.
    """
    a, tie, b = counts
    winner = np.where(
        (a > b + FUZZ) & (a > tie + FUZZ),
        A,
        np.where((b > a + FUZZ) & (b > tie + FUZZ), B, TIE),
    )
    return np.where(quorum, winner, NONE).astype(np.int8)


def vote(
    config: RunConfig,
    cases: Sequence[Case],
    panel: Panel,
    judgments: JudgmentColumns,
    judge_verdicts: Sequence[VerdictColumns],
) -> VerdictColumns:
    """Return the panel's verdicts.

    Args:
        config: the run's config.
        cases: the cases.
        panel: the panel.
        judgments: all judgments of the judges.
        judge_verdicts: the verdicts of each judge.
    """
    name = config.judge.label
    regular = judgments.select(third=False)
    scored = _vote_scores(
        panel,
        [verdicts.scores for verdicts in judge_verdicts if verdicts.scores is not None],
    )
    passes = [
        verdicts.passes for verdicts in judge_verdicts if verdicts.passes is not None
    ]
    if scored is not None and not passes:
        implied = compare_scores(
            config, cases, regular.of_units(1), scored, judge_verdicts[0].pairs
        )
        return replace(implied, panel=name)
    decided = _vote_pairs(panel, config.tie, cases, regular.of_units(2), judge_verdicts)
    voted = _vote_passes(panel, passes)
    # Each judge's orders may differ while the votes on each order agree: then the vote made the
    # tie.
    by_vote = (decided.reason == DISAGREEMENT) & ~voted.differ
    reason = np.where(by_vote, SPLIT, decided.reason).astype(np.int8)
    listed = any(verdicts.listed for verdicts in judge_verdicts)
    ranks = judgments.of_units(1) if listed else None
    return replace(
        decided, reason=reason, passes=voted, scores=scored, ranks=ranks, panel=name
    )


def winners_at(
    panel: Panel, config: RunConfig, judge_verdicts: Sequence[VerdictColumns]
) -> Callable[[float], Codes] | None:
    """Return the winners as a function of the threshold if it applies before the vote,
    otherwise `None`.
    """
    if not panel.elects or judge_verdicts[0].passes is None:
        return None
    min_confidence = config.tie.min_confidence
    return lambda threshold: panel.elect(
        np.stack(
            [at_threshold(o, threshold, min_confidence)[0] for o in judge_verdicts]
        )
    )


def _vote_scores(
    panel: Panel, judge_scores: Sequence[ScoreColumns]
) -> ScoreColumns | None:
    """Return the mean scores of the judges, `None` for verdicts without scores."""
    if not judge_scores:
        return None
    # stacks: shape (judges, responses)
    raw, score, confidence = (
        panel.average(np.stack([getattr(scores, name) for scores in judge_scores]))
        for name in ("raw", "score", "confidence")
    )
    return replace(
        judge_scores[0],
        raw=raw,
        score=score,
        confidence=np.where(np.isnan(score), np.nan, confidence),
    )


def _vote_passes(panel: Panel, judge_passes: Sequence[PassColumns]) -> PassColumns:
    """Return the result of the votes on each order: winners without margin and confidence."""
    # shape (judges, pairs, orders)
    winners = np.stack([columns.winner for columns in judge_passes])
    elected = np.stack([panel.decide(winners[:, :, order]) for order in (0, 1)], axis=1)
    unknown = np.full(elected.shape, np.nan)
    passes = PassColumns.of(
        unknown, unknown, np.any([columns.asked for columns in judge_passes], axis=0)
    )
    return replace(
        passes, winner=elected, both=any(columns.both for columns in judge_passes)
    )


def _vote_pairs(
    panel: Panel,
    tie: TieConfig,
    cases: Sequence[Case],
    judgments: JudgmentColumns,
    judge_verdicts: Sequence[VerdictColumns],
) -> VerdictColumns:
    """Return the vote of the judges' winners after their tie rules, or the mean of
    their margins before the rules.
    """
    elected = panel.elects
    # shape (judges, pairs)
    winners = np.stack(
        [verdicts.winner if elected else verdicts.lean for verdicts in judge_verdicts]
    )
    reasons = np.stack([verdicts.reason for verdicts in judge_verdicts])
    # The rules of ties come after the mean.
    if not elected:
        reasons = np.where(reasons == FORCED, JUDGED, reasons)
    margins = np.stack([_margin_votes(verdicts) for verdicts in judge_verdicts])
    mean = panel.average(margins)
    lean = sign(mean)
    margin = mean
    if elected:
        # (A, tie and B; pairs) the votes, or the probability.
        counts = panel.counts(winners, CLASSES)
        for_a, _, for_b = counts
        lean = winners_of(counts, panel.has_quorum(winners != NONE))
        # The share by which A leads B.
        margin = divide(for_a - for_b, counts.sum(axis=0))
    present = lean != NONE
    surer = np.where(np.isfinite(mean), sign(mean), TIE)
    confidences = np.stack([verdicts.confidence for verdicts in judge_verdicts])
    decided = VerdictColumns(
        judge_verdicts[0].pairs,
        lean,
        lean,
        _reasons(lean, winners, reasons),
        margin=np.where(present, margin, np.nan),
        confidence=_confidence(lean, winners, confidences),
        settle=np.where(present, margin, np.nan),
        surer=np.where(present, surer, NONE).astype(np.int8),
        judgments=judgments,
    )
    # Each judge's verdict has already met the thresholds, so they do not apply to the share of
    # votes.
    if elected:
        tie = tie.model_copy(update={"threshold": 0.0, "min_confidence": 0.0})
    return apply_ties(decided, tie, cases)


def _margin_votes(verdicts: VerdictColumns) -> Floats:
    """Return a judge's margins as votes: 0 if its orders made a tie, NaN without a verdict."""
    margin = np.where(
        np.isfinite(verdicts.margin), verdicts.margin, verdicts.lean.astype(np.float64)
    )
    return np.where(
        verdicts.lean == NONE, np.nan, np.where(verdicts.lean == TIE, 0.0, margin)
    )


def _reasons(lean: Codes, winners: Codes, reasons: Codes) -> Codes:
    """Return the reasons: a majority tie has the judges' own reason, the least forced
    one, any other tie is a split.

    A winner is forced if every vote for it is a tie that was decided by rule.
    """
    # (units,): votes for each outcome; `winners` and `reasons` have shape (judges, units).
    a, tie, b = ((winners == code).sum(axis=0) for code in (A, TIE, B))
    # From the least forced to the most; a threshold is what is left.
    by_force = (JUDGED, DISAGREEMENT, SPLIT, CANCELED)
    is_tie = winners == TIE
    has_reason = [(is_tie & (reasons == reason)).any(axis=0) for reason in by_force]
    tie_reason = np.select(has_reason, by_force, THRESHOLD)
    has_majority = (tie > a) & (tie > b)
    tied = np.where(has_majority, tie_reason, SPLIT)
    is_winner = winners == lean
    forced = (is_winner & (reasons == FORCED)).any(axis=0)
    judged = (is_winner & (reasons != FORCED)).any(axis=0)
    won = np.where(forced & ~judged, FORCED, JUDGED)
    missing_or_tied = [lean == NONE, lean == TIE]
    return np.select(missing_or_tied, [MISSING, tied], won).astype(np.int8)


def _confidence(lean: Codes, winners: Codes, stated: Floats) -> Floats:
    """Return the mean probability of the outcome over the judges that state a confidence.

    A judge with confidence c gives its own verdict c, the opposite verdict 1 - c, and 0.5 if either
    is a tie.
    """
    against = (winners != lean) & (winners != TIE) & (lean != TIE)
    probability = np.where(winners == lean, stated, np.where(against, 1 - stated, 0.5))
    # shape (judges, units)
    usable = np.isfinite(stated) & (winners != NONE) & (lean != NONE)
    count = usable.sum(axis=0)
    total = np.where(usable, probability, 0.0).sum(axis=0)
    return np.asarray(
        np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    )


_NOT_IN_A_NAME = re.compile(r"[^\w.-]+")


def metric_part(judge: str) -> str:
    """Return a judge's name as used in names of metrics."""
    return _NOT_IN_A_NAME.sub("_", judge)


def check_names(judges: Sequence[str]) -> None:
    """Reject judges whose metrics would have the same name.

    Raises:
        ConfigError: if two judges do.
    """
    parts = [metric_part(judge) for judge in judges]
    if duplicates := [
        judge
        for judge, part in zip(judges, parts, strict=True)
        if parts.count(part) > 1
    ]:
        raise ConfigError(
            f"the metrics of judges {' and '.join(duplicates[:2])} would have the same names",
            where="judge.judges",
            remedy="set a different 'name' for one of them",
        )


def unasked_notes(names: Sequence[str], judgments: JudgmentColumns) -> tuple[str, ...]:
    """Return a note on the judges of a panel that judged fewer units than another, as
    those of a cascade's run do.
    """
    counts = dict[str, int]()
    span = 2 + int(judgments.j.max(initial=0))
    for name in names:
        rows = judgments.select(name)
        counts[name] = len(
            np.unique((rows.case.astype(np.int64) * span + rows.i) * span + rows.j)
        )
    most = max(counts.values(), default=0)
    few = [
        f"{name} {count:,} of {most:,} pairs or responses"
        for name, count in counts.items()
        if count < most
    ]
    if few:
        return (
            f"{UNASKED}{', '.join(few)}; a judge's numbers and votes are about what it was asked",
        )
    return ()
