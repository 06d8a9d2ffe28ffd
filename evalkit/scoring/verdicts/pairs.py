"""Verdicts on pairs: from judgments over orders and samples to one winner.

Criteria are combined into a judgment's margin (`aggregate`), samples into a pass, the two orders'
passes into the pair. Tie rules come last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from evalkit.config import CHECKLIST, RunConfig, TieConfig
from evalkit.core.errors import ConfigError
from evalkit.core.hashing import digest
from evalkit.core.types import Case
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
    PairColumns,
    PassColumns,
    VerdictColumns,
    sign,
)
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import (
    FUZZ,
    Bools,
    Codes,
    Floats,
    Ints,
    combine,
    group_mean,
)

AGGREGATE: Final = "scoring.aggregate="
"""Prefix of notes about the setting."""
WEIGHED: Final = "verdicts are the weighted mean of the winners by criterion"
OVERALL: Final = "verdicts are the judge's overall winner"
DECIDING: Final = 0.001
"""The margin of an overall winner that decides because the weighted criteria cancel out: less than
any of these."""


def settled(config: RunConfig, judgments: JudgmentColumns) -> RunConfig:
    """Return the config with `scoring.aggregate` resolved for the whole run, by the
    content of all its answers.
    """
    aggregate = config.aggregate(
        by_criterion=bool(np.isfinite(judgments.criteria).any())
    )
    return config.with_({"scoring.aggregate": aggregate})


def aggregate_notes(config: RunConfig, judgments: JudgmentColumns) -> tuple[str, ...]:
    """Return a note on which aggregate a run of pairs or lists uses, if the two could
    differ and it has answers.
    """
    has_criteria = bool(np.isfinite(judgments.criteria).any())
    weights = config.raw_weights()
    alone = all(len(unit) == 1 for unit in judgments.units)
    if alone or not (has_criteria or judgments.readable.any()):
        return ()
    name = f"{AGGREGATE}{config.scoring.aggregate}"
    unequal = len({*weights.values()}) > 1
    if not has_criteria:
        if unequal:
            return (
                (
                    f"{name}: {OVERALL}; weights have no effect: the output names no winners by"
                    " criterion"
                ),
            )
        return ()
    if (aggregate := config.aggregate()) != "overall":
        shares = ", ".join(
            f"{criterion} {share:.3g}" for criterion, share in config.weights().items()
        )
        if aggregate == "criteria_first":
            tiebreak = "; where they cancel out, the judge's overall winner"
        else:
            tiebreak = ""
        return (f"{name}: {WEIGHED} ({shares}){tiebreak}",)
    why = "; weights have no effect" if unequal else ", since all weights are equal"
    if len(weights) > 1:
        return (f"{name}: {OVERALL}{why}",)
    return ()


def pair_margins(config: RunConfig, judgments: JudgmentColumns) -> Floats:
    """Return each judgment's margin: the judge's overall margin, or the weighted mean
    of its margins by criterion.

    With `criteria_first`, a weighted mean of 0 becomes a margin of `DECIDING` for the judge's
    overall winner: smaller than any that the criteria give, so that it only breaks ties. A judgment
    that lacks a criterion with a weight above 0 has no weighted margin. For a whole run, `auto` is
    resolved first.

    Raises:
        ConfigError: if criteria are to be weighted and no judgment has any.
    """
    has_criteria = bool(np.isfinite(judgments.criteria).any())
    if (aggregate := config.aggregate(by_criterion=has_criteria)) == "overall":
        return judgments.value
    if np.isfinite(judgments.value).any() and not has_criteria:
        raise ConfigError(
            f"scoring.aggregate={aggregate} needs winners by criterion, and the judge gave none",
            where="scoring.aggregate",
            remedy="use output=json, or set scoring.aggregate=auto",
        )
    margins = weigh(judgments, config.weights())
    overall = sign(judgments.value)
    breaks = (
        (margins == 0)
        & (overall != NONE)
        & (judgments.i != judgments.j)
        & (aggregate == "criteria_first")
    )
    return np.where(breaks, DECIDING * overall, margins)


def cancels(config: RunConfig, judgments: JudgmentColumns, margins: Floats) -> Bools:
    """Return which margins are ties that the judge did not call: criteria with weights
    cancel out, (n,).
    """
    weights = config.weights()
    counted = judgments.criteria[:, [weights[name] > 0 for name in judgments.names]]
    named = (np.abs(counted) > FUZZ).any(axis=1)
    return np.asarray((sign(margins) == TIE) & (sign(judgments.value) != TIE) & named)


def confidence_in(margins: Floats, judgments: JudgmentColumns) -> Floats:
    """Return the confidence in each judgment's margin, if it was stated for an overall
    winner that may differ.

    As for judges of a panel: with confidence c, the opposite winner has 1 - c, and 0.5 if either is
    a tie.
    """
    stated = sign(judgments.value)
    weighted_winner = sign(margins)
    converted = np.where(
        (stated == TIE) | (weighted_winner == TIE), 0.5, 1 - judgments.confidence
    )
    comparable = (
        np.isfinite(judgments.confidence) & (stated != NONE) & (weighted_winner != NONE)
    )
    return np.where(
        comparable & (stated != weighted_winner), converted, judgments.confidence
    )


def weigh(judgments: JudgmentColumns, weights: dict[str, float]) -> Floats:
    """Return the weighted mean of each judgment's criteria, NaN if one with a weight
    above 0 is missing.

    Criteria that cancel out give exactly 0, whatever the rounding of their weights and their order.
    """
    total = np.zeros(len(judgments))
    for column, name in enumerate(judgments.names):
        if weights[name] > 0:
            # criteria: shape (judgments, criteria)
            total = total + weights[name] * judgments.criteria[:, column]
    return np.where(np.abs(total) <= FUZZ, 0.0, total)


def judgment_values(config: RunConfig, verdicts: VerdictColumns) -> Floats:
    """Return the value of each judgment behind the verdicts: the margin of a pair, or a
    score in scale units.
    """
    if verdicts.passes is None:
        return judgment_scores(config, verdicts.judgments)
    return pair_margins(config, verdicts.judgments)


def judgment_scores(config: RunConfig, judgments: JudgmentColumns) -> Floats:
    """Return the score of each judgment in scale units: the weighted mean of its
    criteria, or its overall value.
    """
    alone = np.isnan(judgments.criteria).all(axis=1)
    return np.where(alone, judgments.value, weigh(judgments, config.weights()))


def use_expectations(config: RunConfig, judgments: JudgmentColumns) -> JudgmentColumns:
    """Return judgments with expectations instead of stated values, if `judge.logprobs`
    requested them.

    If any readable judgment of a judge has no probabilities (`fallback`), all its stated values are
    used, so the two kinds are never averaged.

    Raises:
        ConfigError: if log-probabilities are required and a judgment has none.
    """
    # Answers to the items of a checklist are no numbers, so there is nothing to weigh.
    if not config.scoring.weighted or config.mode.name == CHECKLIST:
        return judgments
    requested = {
        judge.label: judge.probabilities
        for judge in config.judges
        if judge.probabilities
    }
    unweighted = {
        judgments.judges[judge]
        for judge in np.unique(
            judgments.giver[judgments.readable & ~judgments.weighted]
        )
    }
    for name in sorted(unweighted & set(requested)):
        if requested[name] is True:
            raise ConfigError(
                f"some judgments by {name} have no probabilities",
                where="judge.logprobs",
                remedy="rerun the judge, or set scoring.weighted=false",
            )
    expected = judgments.expected
    replaced = given_by(judgments, set(requested) - unweighted) & judgments.weighted
    if expected is None or not replaced.any():
        return judgments
    # expected: column 0 is the overall value, the others are the criteria
    value = np.where(replaced, expected[:, 0], judgments.value)
    return replace(
        judgments,
        value=value,
        criteria=np.where(replaced[:, None], expected[:, 1:], judgments.criteria),
    )


def given_by(judgments: JudgmentColumns, names: Set[str]) -> Bools:
    """Return which judgments were made by one of these judges, (n,)."""
    return np.isin(
        judgments.giver,
        [judge for judge, name in enumerate(judgments.judges) if name in names],
    )


def at_threshold(
    verdicts: VerdictColumns, threshold: float, min_confidence: float
) -> tuple[Codes, Bools]:
    """Return the winners under a threshold and a minimum confidence, and which winners became ties.

    A margin equal to the threshold is a tie. A winner without a stated confidence is kept.
    """
    won = (verdicts.lean != TIE) & (verdicts.lean != NONE)
    close = np.abs(verdicts.margin) <= threshold + FUZZ
    unsure = verdicts.confidence < min_confidence - FUZZ
    tied = won & (close | unsure)
    return np.where(tied, TIE, verdicts.lean).astype(np.int8), tied


MAX_THRESHOLDS = 101


def useful_thresholds(margins: Floats) -> list[float]:
    """Return 0 and the distinct absolute margins, or 101 of them spread evenly over the
    sorted list.
    """
    sizes = np.unique(np.round(np.abs(margins[np.isfinite(margins)]), 9))
    if not len(sizes):
        return []
    sizes = np.concatenate([[0.0], sizes[sizes > FUZZ]])
    chosen = np.unique(
        np.linspace(0, len(sizes) - 1, min(MAX_THRESHOLDS, len(sizes)))
        .round()
        .astype(int)
    )
    return [float(size) for size in sizes[chosen]]


def apply_ties(
    verdicts: VerdictColumns, tie: TieConfig, cases: Sequence[Case]
) -> VerdictColumns:
    """Apply `tie.threshold`, `tie.min_confidence` and `tie.allow` to verdicts."""
    winner, tied = at_threshold(verdicts, tie.threshold, tie.min_confidence)
    reason = np.where(tied, THRESHOLD, verdicts.reason).astype(np.int8)
    ruled = replace(verdicts, winner=winner, reason=reason)
    if tie.allow:
        return ruled
    return _forbid(ruled, cases)


def _forbid(verdicts: VerdictColumns, cases: Sequence[Case]) -> VerdictColumns:
    """Settle every tie by margin, then by the surer pass, then by a coin toss that
    depends on case and texts only.
    """
    tied = verdicts.winner == TIE
    winner = np.where(tied, sign(verdicts.settle), verdicts.winner)
    winner = np.where(winner == TIE, verdicts.surer, winner).astype(np.int8)
    for pair in np.flatnonzero(winner == TIE):
        case = cases[verdicts.pairs.case[pair]]
        winner[pair] = coin(
            case, int(verdicts.pairs.i[pair]), int(verdicts.pairs.j[pair])
        )
    return replace(
        verdicts,
        winner=winner,
        reason=np.where(tied, FORCED, verdicts.reason).astype(np.int8),
    )


def coin(case: Case, i: int, j: int) -> int:
    """Toss a coin (1 or -1) that always favors the same text of a case, in either order."""
    first, second = (
        digest([case.id, case.prompt, case.responses[index].text]) for index in (i, j)
    )
    if first == second:  # identical texts differ only in position
        if int(digest([case.id, i, j])[:8], 16) % 2:
            return 1
        return -1
    if first < second:
        return 1
    return -1


def over_orders(values: Floats) -> Floats:
    """Return the mean of each pair's two numbers, (pairs, 2), ignoring NaN."""
    return combine(
        "mean", np.repeat(np.arange(len(values)), 2), values.ravel(), len(values)
    )


def over_all(passes: PassColumns) -> Floats:
    """Return the mean margin of each pair over its passes and the third judgment,
    ignoring missing ones.
    """
    mean = over_orders(passes.margin)
    third = passes.third_margin
    return np.where(np.isfinite(third), (2 * mean + third) / 3, mean)


ResolvedPairs: TypeAlias = tuple[Codes, Floats, Floats]
"""Winner, margin and confidence of pairs whose two passes disagree or one of whose passes is
missing."""


def _as_tie(passes: PassColumns) -> ResolvedPairs:
    """Return a tie with confidence 0.5 for a disagreement."""
    size = len(passes.margin)
    return np.zeros(size, np.int8), over_orders(passes.margin), np.full(size, 0.5)


def _resolve_as_surer(passes: PassColumns) -> ResolvedPairs:
    """Return the winner of the more confident pass, with its own margin and a lower confidence.

    With confidences h > l the result's confidence is min(h, 0.5 + (h - l) / 2): the mean of the two
    passes' probabilities that the winner is correct, at most that of the winning pass. Equal or
    unstated confidences make a tie at 0.5.
    """
    # shape (pairs, 2): the two orders
    first, second = passes.confidence.T
    distinct = _confidences_differ(passes)
    lowered = np.fmin(np.fmax(first, second), 0.5 + np.abs(first - second) / 2)
    margin = np.where(first > second, passes.margin[:, 0], passes.margin[:, 1])
    return (
        surer(passes),
        np.where(distinct, margin, over_orders(passes.margin)),
        np.where(distinct, lowered, 0.5),
    )


def _as_vote(passes: PassColumns) -> ResolvedPairs:
    """Return the sign of the sum of votes +1, 0 and -1, where a missing pass counts 0."""
    margin = np.where(
        passes.read.any(axis=1), _votes(passes.winner).sum(axis=1) / 2, np.nan
    )
    return (
        sign(margin),
        margin,
        _confidence_in(sign(margin), passes.winner, passes.confidence),
    )


def _as_mean(passes: PassColumns) -> ResolvedPairs:
    """Return the winner of the mean margin."""
    margin = over_orders(passes.margin)
    return (
        sign(margin),
        margin,
        _confidence_in(sign(margin), passes.winner, passes.confidence),
    )


def _as_median(passes: PassColumns) -> ResolvedPairs:
    """Return the median of the two passes and the third judgment; A, TIE and B make a tie.

    The confidence is the mean over the three of the probability that this winner is correct, as for
    votes.
    """
    margins = np.column_stack([passes.margin, passes.third_margin])
    confidence = np.column_stack([passes.confidence, passes.third_confidence])
    margin = np.median(margins, axis=1)
    return sign(margin), margin, _confidence_in(sign(margin), sign(margins), confidence)


def two_say_tie(passes: PassColumns) -> Bools:
    """Return which ties are the result of two of three judgments, and so not a
    disagreement, (pairs,).
    """
    return np.asarray(
        (passes.winner == TIE).any(axis=1) & (sign(passes.third_margin) == TIE)
    )


def _votes(winner: Codes) -> Codes:
    """Return winners as +1, 0 and -1, a missing pass as 0."""
    return np.where(winner == NONE, 0, winner).astype(np.int8)


def _confidence_in(winner: Codes, passes: Codes, confidence: Floats) -> Floats:
    """Return the mean over the passes of the probability that the winner is correct,
    NaN if any is unstated.

    A pass with confidence c gives its winner c and the other side 1 - c; a tied pass gives 0.5.

    Args:
        winner: (pairs,) the winner.
        passes: (pairs, passes) the winner of each pass.
        confidence: (pairs, passes) the confidence of each pass.
    """
    votes = _votes(passes) * winner[:, None]
    parts = np.where(votes == 0, 0.0, votes * (confidence - 0.5))
    return np.asarray(0.5 + parts.mean(axis=1))


def _confidences_differ(passes: PassColumns) -> Bools:
    """Return for which pairs both passes state a confidence and these differ, (pairs,)."""
    return np.abs(passes.confidence[:, 0] - passes.confidence[:, 1]) > 1e-9


def surer(passes: PassColumns) -> Codes:
    """Return the winner of the more confident pass, a tie if neither is more confident."""
    first = passes.confidence[:, 0]
    second = passes.confidence[:, 1]
    chosen = np.where(first > second, passes.winner[:, 0], passes.winner[:, 1])
    return np.where(_confidences_differ(passes), chosen, TIE).astype(np.int8)


DISAGREEMENTS: dict[str, Callable[[PassColumns], ResolvedPairs]] = {
    "tie": _as_tie,
    "lower_confidence": _resolve_as_surer,
    "net_vote": _as_vote,
    "mean": _as_mean,
    "third_pass": _as_median,
}


def resolve_pairs(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: JudgmentColumns,
    pairs: PairColumns,
    thirds: JudgmentColumns,
) -> VerdictColumns:
    """Return the verdicts on all pairs under `scoring.aggregate`, `swap` and `tie`.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: the judgments of pairs.
        pairs: the pairs.
        thirds: the third judgments of pairs whose orders disagree.

    Raises:
        ConfigError: if the judgments lack what the settings require.
    """
    margins = pair_margins(config, judgments)
    adjusted = replace(judgments, confidence=confidence_in(margins, judgments))
    passes = combine_samples(adjusted, margins, pairs, config.scoring.combine)
    if config.swap.policy == "both":
        if len(judgments) and not passes.asked[:, 1].any():
            raise ConfigError(
                "both orders are required, but every pair was judged in one order",
                where="swap.policy",
                remedy="set swap=none, or rerun the judge with swap=both",
            )
        passes = replace(passes, both=True)
        if config.swap.resolve == "third_pass":
            passes = _with_thirds(config, passes, judgments, thirds, pairs)
    elif config.swap.policy != "random":
        passes = _one_order(passes)
    verdicts = _resolve_orders(
        config.swap.resolve if passes.both else "mean", judgments, pairs, passes
    )
    tied = (verdicts.lean == TIE) & (verdicts.reason == JUDGED)
    canceled = cancels(config, judgments, margins)
    why = _why_tied(judgments, margins, pairs, passes, canceled)
    return apply_ties(
        replace(verdicts, reason=np.where(tied, why, verdicts.reason).astype(np.int8)),
        config.tie,
        cases,
    )


def _why_tied(
    judgments: JudgmentColumns,
    margins: Floats,
    pairs: PairColumns,
    passes: PassColumns,
    canceled: Bools,
) -> Codes:
    """Return the reason of each pair if it is a tie: the judge's own, or because its
    samples or criteria cancel out.

    It is a split unless more samples in the requested orders say TIE than A, and than B.

    Args:
        judgments: the judgments of pairs.
        margins: (n,) their margins.
        pairs: the pairs.
        passes: the result of each order.
        canceled: (n,) which margins are 0 because criteria cancel out.
    """
    # judgment -> 2 * its pair + its order
    pass_index = passes_of(judgments, pairs)
    winner = sign(margins)
    rows = (winner == A, winner == TIE, winner == B, canceled)
    # shape (pairs, 2): judgments of each order
    counts = (
        np.bincount(pass_index[mask], minlength=2 * len(pairs)).reshape(-1, 2)
        for mask in rows
    )
    a, tie, b, arithmetic = (
        np.where(passes.asked, count, 0).sum(axis=1) for count in counts
    )
    most = ((tie > a) & (tie > b)) | two_say_tie(passes)
    return np.select([~most, 2 * arithmetic > tie], [SPLIT, CANCELED], JUDGED).astype(
        np.int8
    )


def combine_samples(
    judgments: JudgmentColumns, margins: Floats, pairs: PairColumns, rule: str
) -> PassColumns:
    """Combine the samples of each order: margins by `rule`, confidences by their mean.

    The majority is a majority of winners. Unreadable samples are ignored; a pass without readable
    samples is missing.

    Args:
        judgments: the judgments of pairs.
        margins: (n,) their margins.
        pairs: the pairs.
        rule: `mean`, `median` or `majority`.
    """
    size = 2 * len(pairs)
    # judgment -> 2 * its pair + its order
    pass_index = passes_of(judgments, pairs)
    stated = np.where(np.isfinite(margins), judgments.confidence, np.nan)
    margin = combine(
        rule,
        pass_index,
        winner_values(margins) if rule == "majority" else margins,
        size,
    ).reshape(-1, 2)
    confidence = group_mean(pass_index, stated, size).reshape(-1, 2)
    return PassColumns.of(
        margin, confidence, (np.bincount(pass_index, minlength=size) > 0).reshape(-1, 2)
    )


def by_criterion(
    judgments: JudgmentColumns, unit: Ints, size: int, rule: str
) -> list[Floats]:
    """Return each unit's value by criterion: samples of one order combined by `rule`,
    then the mean of the orders.

    For pairs, the majority is a majority of winners, as for margins.

    Args:
        judgments: the judgments.
        unit: (n,) the index of each judgment's unit.
        size: the number of units.
        rule: `mean`, `median` or `majority`.
    """
    # judgment -> 2 * its unit + its order
    passes = 2 * unit + judgments.swapped
    voted = rule == "majority" and bool((judgments.i != judgments.j).any())
    combined = [
        combine(rule, passes, winner_values(v) if voted else v, 2 * size)
        for v in judgments.criteria.T
    ]
    # shape (units, 2) -> (units,)
    return [over_orders(values.reshape(-1, 2)) for values in combined]


def passes_of(judgments: JudgmentColumns, pairs: PairColumns) -> Ints:
    """Return the index of each judgment's pass: twice the index of its pair, plus one
    if it was swapped.
    """
    return np.asarray(2 * pairs.rows(judgments) + judgments.swapped)


def winner_values(margins: Floats) -> Floats:
    """Return each margin's winner as 1, 0 or -1, NaN if missing."""
    return np.where(np.isnan(margins), np.nan, sign(margins).astype(np.float64))


def _with_thirds(
    config: RunConfig,
    passes: PassColumns,
    judgments: JudgmentColumns,
    thirds: JudgmentColumns,
    pairs: PairColumns,
) -> PassColumns:
    """Add the third judgments to the passes.

    Raises:
        ConfigError: if the judge's own winners differ and no third judgment was requested.
    """
    if (
        not len(thirds)
        and combine_samples(judgments, judgments.value, pairs, "mean").differ.any()
    ):
        raise ConfigError(
            "orders disagree, but there are no third judgments",
            where="swap.resolve",
            remedy="rerun the judge with swap=third_pass, or choose another value",
        )
    margins = pair_margins(config, thirds)
    thirds = replace(thirds, confidence=confidence_in(margins, thirds))
    third = combine_samples(thirds, margins, pairs, config.scoring.combine)
    margin = over_orders(third.margin)
    return replace(
        passes,
        third=np.where(passes.differ, sign(margin), NONE).astype(np.int8),
        third_margin=margin,
        third_confidence=over_orders(third.confidence),
    )


def _one_order(passes: PassColumns) -> PassColumns:
    """Keep one order of each pair: the unit's own if it was requested, otherwise the
    swapped one.
    """
    used = np.column_stack([passes.asked[:, 0], ~passes.asked[:, 0]])
    margin = np.where(used, passes.margin, np.nan)
    return PassColumns.of(
        margin, np.where(used, passes.confidence, np.nan), used & passes.asked
    )


def _resolve_orders(
    rule: str, judgments: JudgmentColumns, pairs: PairColumns, passes: PassColumns
) -> VerdictColumns:
    """Return the common winner if both passes agree, otherwise the result of rule `rule`.

    A pair needs both passes, unless only one order was to be judged. Samples may have used both
    orders even then, and their mean is no disagreement.
    """
    complete = passes.complete
    differ = passes.differ & passes.both
    agree = complete & ~passes.differ
    winner, margin, confidence = DISAGREEMENTS[rule](passes)
    mean = over_orders(passes.margin)
    stated = over_orders(passes.confidence)
    # Where both orders were to be judged, only a net vote decides a pair with a missing pass.
    decidable = complete | (rule == "net_vote") | (not passes.both)
    lean = np.where(
        decidable, np.where(agree, passes.winner[:, 0], winner), NONE
    ).astype(np.int8)
    unsettled = differ & (lean == TIE) & ~two_say_tie(passes)
    reason = np.where(unsettled, DISAGREEMENT, np.where(lean == NONE, MISSING, JUDGED))
    present = lean != NONE
    return VerdictColumns(
        pairs,
        lean,
        lean,
        reason.astype(np.int8),
        margin=np.where(present, np.where(agree, mean, margin), np.nan),
        confidence=np.where(present, np.where(differ, confidence, stated), np.nan),
        settle=np.where(present, np.where(agree, mean, over_all(passes)), np.nan),
        surer=surer(passes),
        judgments=judgments,
        passes=passes,
    )
