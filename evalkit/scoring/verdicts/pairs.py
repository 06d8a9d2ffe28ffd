"""Pairs: from un-swapped margins over orders and samples to one winner.

Criteria make a judgment's margin (`aggregate`), samples a pass's, the two orders' passes the pair's;
tie rules come last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from evalkit.config import RunConfig, TieConfig
from evalkit.core.hashing import digest
from evalkit.errors import ConfigError
from evalkit.scoring.columns.cases import Pairs
from evalkit.scoring.columns.codes import DISAGREEMENT, FORCED, JUDGED, MISSING, NONE, SPLIT, THRESHOLD, TIE, A, B, sign
from evalkit.scoring.columns.judgments import Columns
from evalkit.scoring.stats.arrays import FUZZ, Bools, Codes, Floats, Ints, combine, group_mean
from evalkit.scoring.verdicts.aggregate import confidence_in, pair_margins
from evalkit.types import Case


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Single answers: the `question` each is to (one order of a pair, or one response), its `value`, NaN if unread.

    `case` holds the case of each question, `said` what an answer comes to: its value, or for a pair its winner as a
    number; `span` is the largest difference two values can have.
    """

    question: Ints
    value: Floats
    said: Floats
    case: Ints
    span: float


@dataclass(frozen=True, slots=True)
class Resolution:
    """Pairs resolved over orders and samples, as columns beside `pairs`.

    `lean` is who won before the tie rules, `winner` after them; NaN stands for a margin or confidence that is missing.
    `settle` is the margin that decides where ties are forbidden; `surer` who won the more confident pass.
    """

    pairs: Pairs
    lean: Codes
    winner: Codes
    reason: Codes
    margin: Floats
    confidence: Floats
    settle: Floats
    surer: Codes

    @property
    def present(self) -> Bools:
        """Which pairs have a verdict."""
        return np.asarray(self.winner != NONE)

    @property
    def labelled(self) -> Bools:
        """Which pairs people have judged."""
        return np.asarray(self.pairs.label != NONE)


@dataclass(frozen=True, slots=True)
class OrderOutcomes:
    """Pairs as the judge saw them: who won each order (own, swapped), which were asked, whether both were to be.

    `third` is who won the third judgment of a pair whose orders disagree, NONE where there is none.
    """

    winner: Codes
    asked: Bools
    both: bool
    third: Codes | None = None

    @property
    def read(self) -> Bools:
        """Which passes have a winner or a tie."""
        return np.asarray(self.winner != NONE)


def at_threshold(resolved: Resolution, threshold: float, min_confidence: float) -> tuple[Codes, Bools]:
    """Return the winners under a threshold and a least confidence, and which winners these made into ties.

    A margin exactly at the threshold is a tie. A winner whose confidence was not stated is kept.
    """
    won = (resolved.lean != TIE) & (resolved.lean != NONE)
    close = np.abs(resolved.margin) <= threshold + FUZZ
    unsure = resolved.confidence < min_confidence - FUZZ
    tied = won & (close | unsure)
    return np.where(tied, TIE, resolved.lean).astype(np.int8), tied


def apply_ties(resolved: Resolution, tie: TieConfig, cases: Sequence[Case]) -> Resolution:
    """Apply `tie.threshold`, `tie.min_confidence` and `tie.allow` to resolved pairs."""
    winner, tied = at_threshold(resolved, tie.threshold, tie.min_confidence)
    reason = np.where(tied, THRESHOLD, resolved.reason).astype(np.int8)
    ruled = replace(resolved, winner=winner, reason=reason)
    return ruled if tie.allow else _forbid(ruled, cases)


def _forbid(resolved: Resolution, cases: Sequence[Case]) -> Resolution:
    """Settle every tie by margin, then by the surer pass, then by a coin that depends on case and texts only."""
    tied = resolved.winner == TIE
    winner = np.where(tied, sign(resolved.settle), resolved.winner)
    winner = np.where(winner == TIE, resolved.surer, winner).astype(np.int8)
    for place in np.flatnonzero(winner == TIE):
        case = cases[resolved.pairs.case[place]]
        winner[place] = coin(case, int(resolved.pairs.i[place]), int(resolved.pairs.j[place]))
    return replace(resolved, winner=winner, reason=np.where(tied, FORCED, resolved.reason).astype(np.int8))


def coin(case: Case, i: int, j: int) -> int:
    """Toss a coin (1 or -1) that always falls for the same text of a case, whichever of the two stands first."""
    one, two = (digest([case.id, case.prompt, case.responses[index].text]) for index in (i, j))
    if one == two:  # the same text twice: nothing but the position tells them apart
        return 1 if int(digest([case.id, i, j])[:8], 16) % 2 else -1
    return 1 if one < two else -1


@dataclass(frozen=True, slots=True)
class Third:
    """What the third judgment of each pair says, samples combined; NaN is missing."""

    margin: Floats
    confidence: Floats
    asked: Bools


@dataclass(frozen=True, slots=True)
class Passes:
    """What each order of each pair says: arrays of (pair, order), order 0 being the unit's own; NaN is missing."""

    margin: Floats
    confidence: Floats
    asked: Bools
    third: Third | None = None

    @property
    def winner(self) -> Codes:
        """Who won each pass, whatever `tie.threshold` is: thresholds are for the pair."""
        return sign(self.margin)

    @property
    def votes(self) -> Codes:
        """The winners as +1, 0 and -1, a missing pass being 0."""
        return np.where(self.winner == NONE, 0, self.winner).astype(np.int8)

    @property
    def complete(self) -> Bools:
        """Which pairs have both passes."""
        return np.asarray(np.isfinite(self.margin).all(axis=1))

    @property
    def differ(self) -> Bools:
        """Which pairs have two passes with different winners."""
        return np.asarray(self.complete & (self.winner[:, 0] != self.winner[:, 1]))


def over_orders(values: Floats) -> Floats:
    """Return the mean of each pair's two numbers, of the one that is there, or NaN."""
    return combine("mean", np.repeat(np.arange(len(values)), 2), values.ravel(), len(values))


def over_all(passes: Passes) -> Floats:
    """Return the mean margin of each pair over its two passes and the third judgment, of those that are there."""
    mean = over_orders(passes.margin)
    if passes.third is None:
        return mean
    return np.where(np.isfinite(passes.third.margin), (2 * mean + passes.third.margin) / 3, mean)


Outcome: TypeAlias = tuple[Codes, Floats, Floats]
"""Winner, margin and confidence of pairs whose two passes disagree, or of which one is missing."""


def _as_tie(passes: Passes) -> Outcome:
    """Disagreement is a tie of confidence 0.5 (note 002)."""
    size = len(passes.margin)
    return np.zeros(size, np.int8), over_orders(passes.margin), np.full(size, 0.5)


def _as_surer(passes: Passes) -> Outcome:
    """The more confident pass wins, with its own margin, less surely.

    With confidences h > l the result's is min(h, 0.5 + (h - l) / 2): the mean of the two passes' probabilities that the
    winner is right, never above what the winning pass said. Equal or unstated confidences make it a tie at 0.5.
    """
    one, two = passes.confidence.T
    apart = _apart(passes)
    lowered = np.fmin(np.fmax(one, two), 0.5 + np.abs(one - two) / 2)
    own = np.where(one > two, passes.margin[:, 0], passes.margin[:, 1])
    return surer(passes), np.where(apart, own, over_orders(passes.margin)), np.where(apart, lowered, 0.5)


def _as_vote(passes: Passes) -> Outcome:
    """Each pass is a vote of +1, 0 or -1, a missing one 0: a win and a tie win, a win and a loss tie."""
    missing = (passes.winner == NONE).all(axis=1)
    margin = np.where(missing, np.nan, passes.votes.sum(axis=1) / 2)
    return sign(margin), margin, _confidence_in(sign(margin), passes)


def _as_mean(passes: Passes) -> Outcome:
    """The mean of the two margins decides."""
    margin = over_orders(passes.margin)
    return sign(margin), margin, _confidence_in(sign(margin), passes)


def _as_median(passes: Passes) -> Outcome:
    """A third judgment decides: what two of the three say wins, which is their median; A, TIE and B make a tie.

    The confidence is the mean over the three of the probability that this is right, as for votes.
    """
    assert passes.third is not None
    third = replace(
        passes,
        margin=np.column_stack([passes.margin, passes.third.margin]),
        confidence=np.column_stack([passes.confidence, passes.third.confidence]),
    )
    margin = np.median(third.margin, axis=1)
    return sign(margin), margin, _confidence_in(sign(margin), third)


def two_say_tie(passes: Passes) -> Bools:
    """Return where a tie is what two of three judgments say, and no disagreement."""
    if passes.third is None:
        return np.zeros(len(passes.margin), dtype=bool)
    return np.asarray((passes.winner == TIE).any(axis=1) & (sign(passes.third.margin) == TIE))


def _confidence_in(winner: Codes, passes: Passes) -> Floats:
    """Return the mean over the passes of the probability that the winner is right, NaN where a vote's is unstated.

    A pass of confidence c speaks for its winner with c and for the other side with 1 - c; a tied pass with 0.5.
    """
    votes = passes.votes * winner[:, None]
    parts = np.where(votes == 0, 0.0, votes * (passes.confidence - 0.5))
    return np.asarray(0.5 + parts.mean(axis=1))


def _apart(passes: Passes) -> Bools:
    """Return where both passes state a confidence, and not the same one."""
    return np.abs(passes.confidence[:, 0] - passes.confidence[:, 1]) > 1e-9


def surer(passes: Passes) -> Codes:
    """Return who won the more confident pass, a tie where neither is."""
    one, two = passes.confidence[:, 0], passes.confidence[:, 1]
    chosen = np.where(one > two, passes.winner[:, 0], passes.winner[:, 1])
    return np.where(_apart(passes), chosen, TIE).astype(np.int8)


DISAGREEMENTS: dict[str, Callable[[Passes], Outcome]] = {
    "tie": _as_tie,
    "lower_confidence": _as_surer,
    "net_vote": _as_vote,
    "mean": _as_mean,
    "third_pass": _as_median,
}


def resolve_pairs(
    config: RunConfig, cases: Sequence[Case], columns: Columns, pairs: Pairs, thirds: Columns
) -> tuple[Resolution, OrderOutcomes]:
    """Resolve every pair of every case under `scoring.aggregate`, `swap` and `tie`; `thirds` are third judgments.

    Raises:
        ConfigError: if the judgments do not hold what the settings ask for.
    """
    how, margins = config.scoring.combine, pair_margins(config, columns)
    columns = replace(columns, confidence=confidence_in(margins, columns))
    passes = combine_samples(columns, margins, pairs, how)
    both = config.swap.policy == "both"
    if both and len(columns) and not passes.asked[:, 1].any():
        raise ConfigError(
            "both orders are asked for, and every pair was judged in one",
            where="swap.policy",
            remedy="set swap=none, or judge again with swap=both",
        )
    if both and config.swap.resolve == "third_pass":
        passes = replace(passes, third=_third(config, columns, thirds, pairs))
    if both:
        third = np.full(len(pairs), NONE, dtype=np.int8) if passes.third is None else sign(passes.third.margin)
        shown = OrderOutcomes(
            passes.winner, passes.asked, both=True, third=np.where(passes.differ, third, NONE).astype(np.int8)
        )
        resolved = _resolve_both(config.swap.resolve, pairs, passes)
    else:
        resolved, shown = (_resolve_drawn if config.swap.policy == "random" else _resolve_single)(pairs, passes)
    settled = two_say_tie(passes) if both else np.zeros(len(pairs), dtype=bool)
    resolved = _tell_split(resolved, _most_say_tie(columns, margins, pairs, shown) | settled)
    return apply_ties(resolved, config.tie, cases), shown


def _tell_split(resolved: Resolution, said_so: Bools) -> Resolution:
    """Give ties that the judge did not say, since its samples cancel out, the reason `split`."""
    split = (resolved.lean == TIE) & (resolved.reason == JUDGED) & ~said_so
    return replace(resolved, reason=np.where(split, SPLIT, resolved.reason).astype(np.int8))


def _most_say_tie(columns: Columns, margins: Floats, pairs: Pairs, shown: OrderOutcomes) -> Bools:
    """Return for which pairs more of the single answers in the orders that count say TIE than A, and than B."""
    place, winner = passes_of(columns, pairs), sign(margins)
    counts = (np.bincount(place[winner == code], minlength=2 * len(pairs)).reshape(-1, 2) for code in (A, TIE, B))
    a, tie, b = (np.where(shown.asked, count, 0).sum(axis=1) for count in counts)
    return np.asarray((tie > a) & (tie > b))


def combine_samples(columns: Columns, margins: Floats, pairs: Pairs, how: str) -> Passes:
    """Combine the samples of each order: their margins as `how` says, their stated confidences by their mean.

    A majority is one of winners. Samples that could not be read are left out; a pass is missing when none could be.
    """
    size = 2 * len(pairs)
    place = passes_of(columns, pairs)
    confidence = np.where(np.isfinite(margins), columns.confidence, np.nan)
    return Passes(
        combine(how, place, said(margins) if how == "majority" else margins, size).reshape(-1, 2),
        group_mean(place, confidence, size).reshape(-1, 2),
        (np.bincount(place, minlength=size) > 0).reshape(-1, 2),
    )


def by_criterion(columns: Columns, place: Ints, size: int, how: str) -> list[Floats]:
    """Return each unit's value by each criterion: samples of one order combined as `how` says, then the mean of orders.

    A majority of judgments of pairs is one of winners, as it is for their margins. `place` is that of each judgment's
    unit, of `size`.
    """
    passes = 2 * place + columns.swapped
    voted = how == "majority" and bool((columns.i != columns.j).any())
    found = [combine(how, passes, said(v) if voted else v, 2 * size) for v in columns.criteria.T]
    return [over_orders(values.reshape(-1, 2)) for values in found]


def passes_of(columns: Columns, pairs: Pairs) -> Ints:
    """Return the place of each judgment's pass: the pair's times two, and one more if it was shown swapped."""
    return np.asarray(2 * pairs.find(columns.case, columns.i, columns.j) + columns.swapped)


def said(margins: Floats) -> Floats:
    """Return each margin's winner as 1, 0 or -1, NaN where there is none."""
    return np.where(np.isnan(margins), np.nan, sign(margins).astype(np.float64))


def pair_draws(config: RunConfig, columns: Columns, pairs: Pairs) -> SampleColumns:
    """Return the single answers to each order of each pair: margins, and the winners they come to."""
    margins = pair_margins(config, columns)
    return SampleColumns(passes_of(columns, pairs), margins, said(margins), np.repeat(pairs.case, 2), span=2.0)


def _third(config: RunConfig, columns: Columns, thirds: Columns, pairs: Pairs) -> Third:
    """Return what third judgments say; nobody being asked although the judge's own winners differ is a mistake."""
    if not len(thirds) and combine_samples(columns, columns.value, pairs, "mean").differ.any():
        raise ConfigError(
            "orders disagree, and no third judgment was asked for",
            where="swap.resolve",
            remedy="judge again with swap=third_pass, or choose another",
        )
    margins = pair_margins(config, thirds)
    thirds = replace(thirds, confidence=confidence_in(margins, thirds))
    passes = combine_samples(thirds, margins, pairs, config.scoring.combine)
    return Third(over_orders(passes.margin), over_orders(passes.confidence), np.asarray(passes.asked.any(axis=1)))


def _resolve_single(pairs: Pairs, passes: Passes) -> tuple[Resolution, OrderOutcomes]:
    """Take one order for each pair: the unit's own where it was asked, else the swapped one."""
    column = (~passes.asked[:, 0]).astype(int)
    row = np.arange(len(pairs))
    used = np.zeros_like(passes.asked)
    used[row, column] = True
    margin, lean = passes.margin[row, column], passes.winner[row, column]
    reason = np.where(lean == NONE, MISSING, JUDGED).astype(np.int8)
    confidence = passes.confidence[row, column]
    resolved = Resolution(pairs, lean, lean, reason, margin, confidence, settle=margin, surer=lean)
    return resolved, OrderOutcomes(np.where(used, passes.winner, NONE).astype(np.int8), used & passes.asked, both=False)


def _resolve_drawn(pairs: Pairs, passes: Passes) -> tuple[Resolution, OrderOutcomes]:
    """Take the mean of the orders that the samples of each pair were drawn for: one, or both if there are several."""
    margin, confidence = over_orders(passes.margin), over_orders(passes.confidence)
    lean = sign(margin)
    reason = np.where(lean == NONE, MISSING, JUDGED).astype(np.int8)
    resolved = Resolution(pairs, lean, lean, reason, margin, confidence, settle=margin, surer=surer(passes))
    return resolved, OrderOutcomes(passes.winner, passes.asked, both=False)


def _resolve_both(how: str, pairs: Pairs, passes: Passes) -> Resolution:
    """Take the common winner where both passes agree, else what `how` makes of them; missing if a pass is."""
    complete = passes.complete
    agree = complete & (passes.winner[:, 0] == passes.winner[:, 1])
    winner, margin, confidence = DISAGREEMENTS[how](passes)
    mean, stated = over_orders(passes.margin), over_orders(passes.confidence)
    # Only a net vote says anything of a pair with a missing pass.
    known = complete | (how == "net_vote")
    lean = np.where(known, np.where(agree, passes.winner[:, 0], winner), NONE).astype(np.int8)
    unsettled = complete & ~agree & (lean == TIE) & ~two_say_tie(passes)
    reason = np.where(unsettled, DISAGREEMENT, np.where(lean == NONE, MISSING, JUDGED))
    there = lean != NONE
    return Resolution(
        pairs,
        lean,
        lean,
        reason.astype(np.int8),
        margin=np.where(there, np.where(agree, mean, margin), np.nan),
        confidence=np.where(there, np.where(complete & ~agree, confidence, stated), np.nan),
        settle=np.where(there, np.where(agree, mean, over_all(passes)), np.nan),
        surer=surer(passes),
    )


MOST = 101


def useful_thresholds(margins: Floats) -> list[float]:
    """Return 0 and each distinct absolute margin, at most 101 of them, spread evenly over the list of distinct ones."""
    sizes = np.unique(np.round(np.abs(margins[np.isfinite(margins)]), 9))
    if not len(sizes):
        return []
    sizes = np.concatenate([[0.0], sizes[sizes > FUZZ]])
    chosen = np.unique(np.linspace(0, len(sizes) - 1, min(MOST, len(sizes))).round().astype(int))
    return [float(size) for size in sizes[chosen]]
