"""Pairs: from un-swapped margins over orders and samples to one winner.

Criteria make a judgment's margin (`aggregate`), samples a pass's, the two orders' passes the pair's;
tie rules come last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from evalkit.config import RunConfig, TieConfig
from evalkit.core.hashing import digest
from evalkit.errors import ConfigError
from evalkit.scoring.columns.cases import PairColumns
from evalkit.scoring.columns.codes import DISAGREEMENT, FORCED, JUDGED, MISSING, NONE, SPLIT, THRESHOLD, TIE, A, B, sign
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.columns.verdicts import PassColumns, VerdictColumns
from evalkit.scoring.stats.arrays import FUZZ, Bools, Codes, Floats, Ints, combine, group_mean
from evalkit.scoring.verdicts.aggregate import confidence_in, pair_margins
from evalkit.types import Case


def at_threshold(verdicts: VerdictColumns, threshold: float, min_confidence: float) -> tuple[Codes, Bools]:
    """Return the winners under a threshold and a least confidence, and which winners these made into ties.

    A margin exactly at the threshold is a tie. A winner whose confidence was not stated is kept.
    """
    won = (verdicts.lean != TIE) & (verdicts.lean != NONE)
    close = np.abs(verdicts.margin) <= threshold + FUZZ
    unsure = verdicts.confidence < min_confidence - FUZZ
    tied = won & (close | unsure)
    return np.where(tied, TIE, verdicts.lean).astype(np.int8), tied


MOST = 101


def useful_thresholds(margins: Floats) -> list[float]:
    """Return 0 and each distinct absolute margin, at most 101 of them, spread evenly over the list of distinct ones."""
    sizes = np.unique(np.round(np.abs(margins[np.isfinite(margins)]), 9))
    if not len(sizes):
        return []
    sizes = np.concatenate([[0.0], sizes[sizes > FUZZ]])
    chosen = np.unique(np.linspace(0, len(sizes) - 1, min(MOST, len(sizes))).round().astype(int))
    return [float(size) for size in sizes[chosen]]


def apply_ties(verdicts: VerdictColumns, tie: TieConfig, cases: Sequence[Case]) -> VerdictColumns:
    """Apply `tie.threshold`, `tie.min_confidence` and `tie.allow` to verdicts."""
    winner, tied = at_threshold(verdicts, tie.threshold, tie.min_confidence)
    reason = np.where(tied, THRESHOLD, verdicts.reason).astype(np.int8)
    ruled = replace(verdicts, winner=winner, reason=reason)
    return ruled if tie.allow else _forbid(ruled, cases)


def _forbid(verdicts: VerdictColumns, cases: Sequence[Case]) -> VerdictColumns:
    """Settle every tie by margin, then by the surer pass, then by a coin that depends on case and texts only."""
    tied = verdicts.winner == TIE
    winner = np.where(tied, sign(verdicts.settle), verdicts.winner)
    winner = np.where(winner == TIE, verdicts.surer, winner).astype(np.int8)
    for place in np.flatnonzero(winner == TIE):
        case = cases[verdicts.pairs.case[place]]
        winner[place] = coin(case, int(verdicts.pairs.i[place]), int(verdicts.pairs.j[place]))
    return replace(verdicts, winner=winner, reason=np.where(tied, FORCED, verdicts.reason).astype(np.int8))


def coin(case: Case, i: int, j: int) -> int:
    """Toss a coin (1 or -1) that always falls for the same text of a case, whichever of the two stands first."""
    one, two = (digest([case.id, case.prompt, case.responses[index].text]) for index in (i, j))
    if one == two:  # the same text twice: nothing but the position tells them apart
        return 1 if int(digest([case.id, i, j])[:8], 16) % 2 else -1
    return 1 if one < two else -1


def over_orders(values: Floats) -> Floats:
    """Return the mean of each pair's two numbers, (pairs, 2), of the one that is there, or NaN."""
    return combine("mean", np.repeat(np.arange(len(values)), 2), values.ravel(), len(values))


def over_all(passes: PassColumns) -> Floats:
    """Return the mean margin of each pair over its two passes and the third judgment, of those that are there."""
    mean, third = over_orders(passes.margin), passes.third_margin
    return mean if third is None else np.where(np.isfinite(third), (2 * mean + third) / 3, mean)


Decision: TypeAlias = tuple[Codes, Floats, Floats]
"""Winner, margin and confidence of pairs whose two passes disagree, or of which one is missing."""


def _as_tie(passes: PassColumns) -> Decision:
    """Disagreement is a tie of confidence 0.5 (note 002)."""
    size = len(passes.margin)
    return np.zeros(size, np.int8), over_orders(passes.margin), np.full(size, 0.5)


def _as_surer(passes: PassColumns) -> Decision:
    """The more confident pass wins, with its own margin, less surely.

    With confidences h > l the result's is min(h, 0.5 + (h - l) / 2): the mean of the two passes' probabilities that the
    winner is right, never above what the winning pass said. Equal or unstated confidences make it a tie at 0.5.
    """
    one, two = passes.confidence.T
    apart = _apart(passes)
    lowered = np.fmin(np.fmax(one, two), 0.5 + np.abs(one - two) / 2)
    own = np.where(one > two, passes.margin[:, 0], passes.margin[:, 1])
    return surer(passes), np.where(apart, own, over_orders(passes.margin)), np.where(apart, lowered, 0.5)


def _as_vote(passes: PassColumns) -> Decision:
    """Each pass is a vote of +1, 0 or -1, a missing one 0: a win and a tie win, a win and a loss tie."""
    margin = np.where(passes.read.any(axis=1), _votes(passes.winner).sum(axis=1) / 2, np.nan)
    return sign(margin), margin, _confidence_in(sign(margin), passes.winner, passes.confidence)


def _as_mean(passes: PassColumns) -> Decision:
    """The mean of the two margins decides."""
    margin = over_orders(passes.margin)
    return sign(margin), margin, _confidence_in(sign(margin), passes.winner, passes.confidence)


def _as_median(passes: PassColumns) -> Decision:
    """A third judgment decides: what two of the three say wins, which is their median; A, TIE and B make a tie.

    The confidence is the mean over the three of the probability that this is right, as for votes.
    """
    assert passes.third_margin is not None
    assert passes.third_confidence is not None
    margins = np.column_stack([passes.margin, passes.third_margin])
    confidence = np.column_stack([passes.confidence, passes.third_confidence])
    margin = np.median(margins, axis=1)
    return sign(margin), margin, _confidence_in(sign(margin), sign(margins), confidence)


def two_say_tie(passes: PassColumns) -> Bools:
    """Return where a tie is what two of three judgments say, and no disagreement."""
    if passes.third_margin is None:
        return np.zeros(len(passes.margin), dtype=bool)
    return np.asarray((passes.winner == TIE).any(axis=1) & (sign(passes.third_margin) == TIE))


def _votes(winner: Codes) -> Codes:
    """Return winners as +1, 0 and -1, a missing pass being 0."""
    return np.where(winner == NONE, 0, winner).astype(np.int8)


def _confidence_in(winner: Codes, passes: Codes, confidence: Floats) -> Floats:
    """Return the mean over the passes of the probability that the winner is right, NaN where a vote's is unstated.

    A pass of confidence c speaks for its winner with c and for the other side with 1 - c; a tied pass with 0.5.

    Args:
        winner: (pairs,) who won.
        passes: (pairs, passes) who won each pass.
        confidence: (pairs, passes) the confidence of each.
    """
    votes = _votes(passes) * winner[:, None]
    parts = np.where(votes == 0, 0.0, votes * (confidence - 0.5))
    return np.asarray(0.5 + parts.mean(axis=1))


def _apart(passes: PassColumns) -> Bools:
    """Return where both passes state a confidence, and not the same one."""
    return np.abs(passes.confidence[:, 0] - passes.confidence[:, 1]) > 1e-9


def surer(passes: PassColumns) -> Codes:
    """Return who won the more confident pass, a tie where neither is."""
    one, two = passes.confidence[:, 0], passes.confidence[:, 1]
    chosen = np.where(one > two, passes.winner[:, 0], passes.winner[:, 1])
    return np.where(_apart(passes), chosen, TIE).astype(np.int8)


DISAGREEMENTS: dict[str, Callable[[PassColumns], Decision]] = {
    "tie": _as_tie,
    "lower_confidence": _as_surer,
    "net_vote": _as_vote,
    "mean": _as_mean,
    "third_pass": _as_median,
}


def resolve_pairs(
    config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns, pairs: PairColumns, thirds: JudgmentColumns
) -> VerdictColumns:
    """Resolve every pair of every case under `scoring.aggregate`, `swap` and `tie`; `thirds` are third judgments.

    Raises:
        ConfigError: if the judgments do not hold what the settings ask for.
    """
    margins = pair_margins(config, judgments)
    weighed = replace(judgments, confidence=confidence_in(margins, judgments))
    passes = combine_samples(weighed, margins, pairs, config.scoring.combine)
    if config.swap.policy == "both":
        if len(judgments) and not passes.asked[:, 1].any():
            raise ConfigError(
                "both orders are asked for, and every pair was judged in one",
                where="swap.policy",
                remedy="set swap=none, or judge again with swap=both",
            )
        passes = replace(passes, both=True)
        if config.swap.resolve == "third_pass":
            passes = _with_thirds(config, passes, judgments, thirds, pairs)
        found = _resolve_both(config.swap.resolve, judgments, pairs, passes)
        settled = two_say_tie(passes)
    else:
        if config.swap.policy != "random":
            passes = _one_order(passes)
        found = _resolve_one(judgments, pairs, passes)
        settled = np.zeros(len(pairs), dtype=bool)
    # Ties that the judge did not say, since its samples cancel out.
    split = (found.lean == TIE) & (found.reason == JUDGED)
    split &= ~(_most_say_tie(judgments, margins, pairs, passes.asked) | settled)
    reason = np.where(split, SPLIT, found.reason).astype(np.int8)
    return apply_ties(replace(found, reason=reason), config.tie, cases)


def _most_say_tie(judgments: JudgmentColumns, margins: Floats, pairs: PairColumns, asked: Bools) -> Bools:
    """Return for which pairs more of the single answers in the orders `asked` say TIE than A, and than B."""
    place, winner = passes_of(judgments, pairs), sign(margins)
    counts = (np.bincount(place[winner == code], minlength=2 * len(pairs)).reshape(-1, 2) for code in (A, TIE, B))
    a, tie, b = (np.where(asked, count, 0).sum(axis=1) for count in counts)
    return np.asarray((tie > a) & (tie > b))


def combine_samples(judgments: JudgmentColumns, margins: Floats, pairs: PairColumns, how: str) -> PassColumns:
    """Combine the samples of each order: their margins as `how` says, their stated confidences by their mean.

    A majority is one of winners. Samples that could not be read are left out; a pass is missing when none could be.
    """
    size, place = 2 * len(pairs), passes_of(judgments, pairs)
    stated = np.where(np.isfinite(margins), judgments.confidence, np.nan)
    margin = combine(how, place, said(margins) if how == "majority" else margins, size).reshape(-1, 2)
    confidence = group_mean(place, stated, size).reshape(-1, 2)
    return PassColumns(sign(margin), margin, confidence, (np.bincount(place, minlength=size) > 0).reshape(-1, 2))


def by_criterion(judgments: JudgmentColumns, place: Ints, size: int, how: str) -> list[Floats]:
    """Return each unit's value by each criterion: samples of one order combined as `how` says, then the mean of orders.

    A majority of judgments of pairs is one of winners, as it is for their margins. `place` is that of each judgment's
    unit, of `size`.
    """
    passes = 2 * place + judgments.swapped
    voted = how == "majority" and bool((judgments.i != judgments.j).any())
    found = [combine(how, passes, said(v) if voted else v, 2 * size) for v in judgments.criteria.T]
    return [over_orders(values.reshape(-1, 2)) for values in found]


def passes_of(judgments: JudgmentColumns, pairs: PairColumns) -> Ints:
    """Return the place of each judgment's pass: the pair's times two, and one more if it was shown swapped."""
    return np.asarray(2 * pairs.find(judgments.case, judgments.i, judgments.j) + judgments.swapped)


def said(margins: Floats) -> Floats:
    """Return each margin's winner as 1, 0 or -1, NaN where there is none."""
    return np.where(np.isnan(margins), np.nan, sign(margins).astype(np.float64))


def _with_thirds(
    config: RunConfig, passes: PassColumns, judgments: JudgmentColumns, thirds: JudgmentColumns, pairs: PairColumns
) -> PassColumns:
    """Add what third judgments say; nobody being asked although the judge's own winners differ is a mistake."""
    if not len(thirds) and combine_samples(judgments, judgments.value, pairs, "mean").differ.any():
        raise ConfigError(
            "orders disagree, and no third judgment was asked for",
            where="swap.resolve",
            remedy="judge again with swap=third_pass, or choose another",
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
    """Leave one order of each pair: the unit's own where it was asked, else the swapped one."""
    used = np.column_stack([passes.asked[:, 0], ~passes.asked[:, 0]])
    margin = np.where(used, passes.margin, np.nan)
    return PassColumns(sign(margin), margin, np.where(used, passes.confidence, np.nan), used & passes.asked)


def _resolve_one(judgments: JudgmentColumns, pairs: PairColumns, passes: PassColumns) -> VerdictColumns:
    """Take the one order of each pair; where its samples were drawn for both, the mean of the two."""
    margin, confidence = over_orders(passes.margin), over_orders(passes.confidence)
    lean = sign(margin)
    reason = np.where(lean == NONE, MISSING, JUDGED).astype(np.int8)
    return VerdictColumns(pairs, lean, lean, reason, margin, confidence, margin, surer(passes), judgments, passes)


def _resolve_both(how: str, judgments: JudgmentColumns, pairs: PairColumns, passes: PassColumns) -> VerdictColumns:
    """Take the common winner where both passes agree, else what `how` makes of them; missing if a pass is."""
    complete, differ = passes.complete, passes.differ
    agree = complete & ~differ
    winner, margin, confidence = DISAGREEMENTS[how](passes)
    mean, stated = over_orders(passes.margin), over_orders(passes.confidence)
    # Only a net vote says anything of a pair with a missing pass.
    known = complete | (how == "net_vote")
    lean = np.where(known, np.where(agree, passes.winner[:, 0], winner), NONE).astype(np.int8)
    unsettled = differ & (lean == TIE) & ~two_say_tie(passes)
    reason = np.where(unsettled, DISAGREEMENT, np.where(lean == NONE, MISSING, JUDGED))
    there = lean != NONE
    return VerdictColumns(
        pairs,
        lean,
        lean,
        reason.astype(np.int8),
        margin=np.where(there, np.where(agree, mean, margin), np.nan),
        confidence=np.where(there, np.where(differ, confidence, stated), np.nan),
        settle=np.where(there, np.where(agree, mean, over_all(passes)), np.nan),
        surer=surer(passes),
        judgments=judgments,
        passes=passes,
    )
