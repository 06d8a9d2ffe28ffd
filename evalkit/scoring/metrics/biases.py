"""What a judge leans to: position, length, its own model family, and sides, classes and
systems beyond the labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations

import numpy as np

from evalkit.config import JudgeConfig, RunConfig
from evalkit.core.display import visible
from evalkit.core.scale import Scale
from evalkit.core.types import Case
from evalkit.core.values import frozen
from evalkit.scoring.columns import (
    NONE,
    TIE,
    A,
    B,
    PassColumns,
    ScoreColumns,
    VerdictColumns,
    flat,
)
from evalkit.scoring.decision import ONE_ORDER
from evalkit.scoring.stats.arrays import Bools, Floats
from evalkit.scoring.stats.logistic import rate_at_zero, slope
from evalkit.scoring.stats.statistic import Statistic, Tally, weighted_sum
from evalkit.scoring.verdicts.pointwise import log_length, score_slopes

NO_VERDICT = "no pair has a verdict"


def identical_statistics(
    verdicts: VerdictColumns, passes: PassColumns, cases: Sequence[Case]
) -> list[Statistic]:
    """Return `position/identical_preference`: the share of passes over identical texts
    in which one is preferred.
    """
    identical = np.zeros(len(verdicts.pairs), dtype=bool)
    # `start` is the row of the case's first pair; combinations are in the order of its pairs.
    for start, case in zip(verdicts.pairs.start.tolist(), cases, strict=True):
        texts = [response.text for response in case.responses]
        if len(set(texts)) < len(texts):
            same = [
                first == second != "" for first, second in combinations(texts, 2)
            ]  # a missing text equals no other
            identical[start : start + len(same)] = same
    # Both orders of each pair: rows are 2 * pair + order.
    relevant = np.repeat(identical, 2)
    statistic = _pass_tally(verdicts).rate(
        "position/identical_preference",
        passes.winner.ravel() != TIE,
        passes.read.ravel() & relevant,
        _unread(verdicts, passes) & relevant,
        why=(
            "no pair of identical responses was read"
            if identical.any()
            else "no case has two identical responses"
        ),
    )
    return [statistic]


def _pass_tally(verdicts: VerdictColumns) -> Tally:
    return verdicts.tally.of(np.repeat(verdicts.pairs.case, 2))


def _unread(verdicts: VerdictColumns, passes: PassColumns) -> Bools:
    """Return which passes were to be judged and could not be read, (2 × pairs,)."""
    # Orders that were asked, or that should have been; cascades that abstain are not missing.
    expected = (passes.asked | passes.both) & ~verdicts.withheld[:, None]
    return np.asarray((~passes.read & expected).ravel())


def position_statistics(
    verdicts: VerdictColumns, passes: PassColumns
) -> list[Statistic]:
    """Return `position/consistency` and `position/first_rate`.

    Consistency is the share of pairs read in both orders whose passes have the same winner. The
    first rate is the share of passes with a winner that the response shown first won; it is 0.5 for
    an unbiased judge asked in both orders.
    """
    winner = passes.winner
    complete = passes.complete & passes.both
    equal = winner[:, 0] == winner[:, 1]
    # The second order was never asked: the position always goes with the unit's own order.
    alone = not passes.both and not passes.asked[:, 1].any()
    note = None
    if alone:
        note = f"{ONE_ORDER}: position and quality cannot be separated"
    # The same winner in both orders is first once and second once.
    elif complete.any() and equal[complete].all():
        note = "0.5 by construction: no verdict changes with the order"
    return [
        verdicts.tally.rate(
            "position/consistency",
            equal,
            complete,
            ~complete & ~verdicts.withheld & passes.both,
            why=(
                "no pair was read in both orders"
                if passes.both
                else "each pair was judged in one order"
            ),
        ),
        _pass_tally(verdicts).rate(
            "position/first_rate",
            # (pairs, 2): in order 0 the first response is A, in order 1 it is B.
            (winner == np.array([A, B], dtype=np.int8)).ravel(),
            (passes.read & (winner != TIE)).ravel(),
            _unread(verdicts, passes),
            note=note,
            why="no pass has a winner",
        ),
    ]


def length_statistics(verdicts: VerdictColumns) -> list[Statistic]:
    """Return `length/longer_rate`: the share of decided pairs of different lengths that
    the longer wins.
    """
    longer = verdicts.pairs.longer
    winner = verdicts.winner
    unequal = (longer != TIE) & (longer != NONE)
    why = "no pair of unequal length has a winner"
    decided = verdicts.present & (winner != TIE) & unequal
    return [
        verdicts.tally.rate(
            "length/longer_rate",
            winner == longer,
            decided,
            verdicts.missing & unequal,
            why=why,
        )
    ]


MIN_SHARE = 0.05
"""Minimum share of pairs in which each response is at least as long, for a win rate at equal
length."""
MIN_CONTRARY = 10
"""Minimum number of verdicts that differ from the label, for a slope at equal label.

Only these verdicts, and those on labels TIE, show what the judge prefers beyond the labels. Ten
outcomes of the rarer kind for each coefficient are the usual minimum (Peduzzi et al. 1996, J. Clin.
Epidemiol. 49, 1373-1379).
"""


def length_models(verdicts: VerdictColumns, cases: Sequence[Case]) -> list[Statistic]:
    """Return the slopes of verdicts on length, raw and at equal label, and the win
    rates with and without length.

    `length/slope` is the increase in the log odds of winning for one standard deviation of log
    length ratio: the slope of a penalized logistic regression of the verdict (a tie is 1/2) on
    log(first length / second length) in standard deviations, with intercept. It is 0 if length has
    no effect. `length/slope_at_label` is the same slope with the label held constant. Longer
    responses may be better; this is the effect of length on the judge beyond its effect on the
    labels.

    `length/win_rate` is the first response's win rate, a tie counting as half, and
    `length/controlled_win_rate` that if both responses had the same length. It is the regression of
    Dubois et al. (2024, arXiv 2404.04475, section 3) on tanh of the difference in characters in
    standard deviations, evaluated at 0. Their term for an instruction's difficulty needs the
    results of other systems and is omitted, as is their regularization. The rate is not
    identifiable if one side is nearly always longer, because equal length would be an
    extrapolation.
    """
    lengths = flat(
        cases, lambda case: [len(response.text) for response in case.responses]
    )
    # (pairs,) the length of the first and of the second response.
    first, second = verdicts.pairs.sides(lengths)
    has_length = (first > 0) & (second > 0)
    with_length = _LengthPairs.of(verdicts, first, second, has_length)
    labeled = _LengthPairs.of(verdicts, first, second, has_length & verdicts.labeled)
    win_rate = verdicts.tally.mean(
        "length/win_rate",
        _credit(verdicts),
        verdicts.present,
        verdicts.missing,
        span=(0.0, 1.0),
        proportion=True,
        why=NO_VERDICT,
    )
    return [
        _length_slope(with_length),
        _slope_at_label(labeled, verdicts),
        win_rate,
        _controlled_rate(with_length),
    ]


def _credit(verdicts: VerdictColumns) -> Floats:
    """Return how far the first response of each pair wins, (pairs,)."""
    # A is 1, a tie 0.5, B 0; NONE is not used.
    return np.asarray((1.0 + verdicts.winner) / 2)


@frozen
class _LengthPairs:
    """Pairs with a verdict and both lengths.

    Attributes:
        rows: (pairs of the run,) which pairs these are.
        tally: sums by case.
        missing: the number of such pairs without a verdict.
        credit: (pairs,) how far the first response wins.
        log_ratio: (pairs,) the log of the ratio of lengths, in standard deviations.
        difference: (pairs,) the difference in characters.
    """

    rows: Bools
    tally: Tally
    missing: int
    credit: Floats
    log_ratio: Floats
    difference: Floats

    @classmethod
    def of(
        cls, verdicts: VerdictColumns, first: Floats, second: Floats, relevant: Bools
    ) -> _LengthPairs:
        """Return the relevant pairs (pairs,) by the lengths of both responses (pairs,)."""
        rows = verdicts.present & relevant
        log_ratio = log_length(first) - log_length(second)
        missing = verdicts.missing & relevant
        return cls(
            rows,
            verdicts.tally.where(rows),
            int(missing.sum()),
            _credit(verdicts)[rows],
            # Not centered: 0 stays equal length.
            _scaled(log_ratio[rows]),
            (first - second)[rows],
        )


def _length_slope(pairs: _LengthPairs) -> Statistic:
    x = pairs.log_ratio
    # (pairs, 2): intercept and log ratio.
    design = np.stack([np.ones(len(x)), x], axis=1)
    return slope(
        "length/slope",
        design,
        pairs.credit,
        pairs.tally,
        1,
        missing=pairs.missing,
        why=_why_constant(x, NO_VERDICT),
    )


def _controlled_rate(pairs: _LengthPairs) -> Statistic:
    # The design of Dubois et al.: at a difference of 0 the intercept is the win rate.
    x = np.tanh(_scaled(pairs.difference))
    # (pairs, 2): intercept and difference.
    design = np.stack([np.ones(len(x)), x], axis=1)
    return rate_at_zero(
        "length/controlled_win_rate",
        design,
        pairs.credit,
        pairs.tally,
        missing=pairs.missing,
        why=_why_one_sided(pairs.difference),
    )


def _slope_at_label(pairs: _LengthPairs, verdicts: VerdictColumns) -> Statistic:
    x = pairs.log_ratio
    label = verdicts.pairs.label[pairs.rows]
    # (pairs, 3): intercept, log ratio, label as 1, 0 or -1.
    design = np.stack([np.ones(len(x)), x, label], axis=1)
    # Verdicts equal to their label are explained by it.
    contrary = np.asarray(verdicts.winner[pairs.rows] != label)
    count = int(contrary.sum())
    why = _why_constant(x, "no labeled pair has a verdict")
    if not why and count < MIN_CONTRARY:
        why = (
            f"{count} verdicts differ from the label, and {MIN_CONTRARY} are needed to see what"
            " else they depend on"
        )
    return slope(
        "length/slope_at_label",
        design,
        pairs.credit,
        pairs.tally,
        1,
        rare=contrary,
        missing=pairs.missing,
        why=why,
    )


def length_slopes(
    responses: ScoreColumns, cases: Sequence[Case], scale: Scale
) -> list[Statistic]:
    """Return the slopes of scores on length (see `score_slopes`)."""
    return score_slopes(responses, cases, scale.span)


def _why_constant(x: Floats, empty: str) -> str:
    if not len(x):
        return empty
    if np.ptp(x) > 1e-9:
        return ""
    return "the ratio of lengths is the same in every pair"


def _scaled(values: Floats) -> Floats:
    """Return values divided by their standard deviation, not centered, so that 0
    remains equal length.
    """
    spread = float(values.std()) if len(values) else 0.0
    if spread > 1e-9:
        return np.asarray(values / spread)
    return np.zeros(len(values))


def _why_one_sided(difference: Floats) -> str:
    """Return why the effect of length is not identifiable, empty if it is.

    Args:
        difference: (pairs,) how much longer the first response is.
    """
    if not len(difference):
        return NO_VERDICT
    if not np.ptp(difference):
        return "the difference in length is the same in every pair"
    shares = {
        "first": float((difference >= 0).mean()),
        "second": float((difference <= 0).mean()),
    }
    # The side that is at least as long in fewer pairs.
    side, share = min(shares.items(), key=lambda item: item[1])
    if share >= MIN_SHARE:
        return ""
    return f"the {side} response is at least as long as the other in only {share:.0%} of pairs"


FAMILIES: dict[str, tuple[str, ...]] = {
    "claude": ("claude",),
    "command": ("command-", "c4ai", "aya"),
    "deepseek": ("deepseek",),
    "ernie": ("ernie",),
    "gemini": ("gemini", "gemma", "palm", "bard"),
    "glm": ("glm",),
    "gpt": ("gpt", "davinci", "o1-", "o3-", "o4-"),
    "grok": ("grok",),
    "llama": ("llama", "vicuna", "alpaca", "guanaco"),
    "mistral": ("mistral", "mixtral", "ministral", "codestral"),
    "phi": ("phi-", "phi3", "phi4"),
    "qwen": ("qwen", "qwq"),
    "smollm": ("smollm",),
    "yi": ("yi-",),
}
"""Parts of model names by family; fine-tuned models belong to the family of their base model."""
_EXACT = {"o1": "gpt", "o3": "gpt", "o4": "gpt", "yi": "yi", "phi": "phi"}


@cache
def family(model: str | None) -> str | None:
    """Return the family of a model by its name without provider, or the name's first
    word if it is unknown.
    """
    # Without the provider, as in `openai/gpt-4o`.
    name = (model or "").rsplit("/", 1)[-1].lower()
    listed = _EXACT.get(name) or next(
        (f for f, words in FAMILIES.items() if any(word in name for word in words)),
        None,
    )
    # An unknown model's family is the first word of at least three letters.
    first = re.match(r"[^\W\d_]{3,}", name)
    return listed or (first[0] if first else None)


def judge_families(config: RunConfig) -> dict[str, str]:
    """Return the model family of each judge of a run, by the judge's name."""
    families = {judge.label: family(judge.model) for judge in _judges(config.judge)}
    return {
        name: family_name
        for name, family_name in families.items()
        if family_name is not None
    }


def _judges(judge: JudgeConfig) -> Iterator[JudgeConfig]:
    # Members may be panels themselves.
    for member in judge.judges or ():
        yield from _judges(member)
    # A panel has no model of its own.
    if judge.judges is None:
        yield judge


def family_notes(config: RunConfig, cases: Sequence[Case]) -> list[str]:
    """Return a warning for each judge that judges responses from its own model family."""
    responses = (response for case in cases for response in case.responses)
    models = sorted({response.model for response in responses if response.model})
    notes = []
    for judge, family_name in judge_families(config).items():
        relatives = [model for model in models if family(model) == family_name]
        if relatives:
            # Of many models the first three are named.
            named = ", ".join(map(visible, relatives[:3]))
            more = f" and {len(relatives) - 3} more" if len(relatives) > 3 else ""
            notes.append(
                f"judge {judge} and {named}{more} are of the same family ({family_name}):"
                " see self/preference"
            )
    return notes


def self_statistics(
    config: RunConfig, verdicts: VerdictColumns, cases: Sequence[Case]
) -> list[Statistic]:
    """Return `self/own_rate` and `self/preference`; empty if no response names its model.

    The first is the share of decided pairs with one own and one other response that the own one
    wins. The second holds the label constant: how often the own response wins if it is the label,
    minus how often the other wins if it is the label (Wataoka et al. 2024, arXiv 2410.21819, eq.
    1). It is 0 for an unbiased judge.
    """
    if not any(response.model for case in cases for response in case.responses):
        return []
    families = set(judge_families(config).values())
    label = verdicts.pairs.label
    models = [
        family(response.model) in families
        for case in cases
        for response in case.responses
    ]
    # (pairs,) 1 if the side is of a judge's family, 0 if not.
    first, second = verdicts.pairs.sides(np.array(models, dtype=np.int8))
    own_side = (
        first - second
    )  # A or B for the single response of the judge's family, TIE if neither or both are
    mixed = own_side != TIE
    present = verdicts.present
    tally = verdicts.tally
    nothing = "no pair has one response of the judge's own family"
    if mixed.any():
        why = "too few labels prefer an own response, or another one"
    else:
        why = nothing
    rates = [
        tally.rate(
            "self/preference",
            verdicts.winner == label,
            side & present,
            side & verdicts.missing,
        )
        # The own response is the label; then the other one is.
        for side in (mixed & (label == own_side), mixed & (label == -own_side))
    ]
    # extreme totals: the columns are sum and count of both rates, a row one more hit or miss
    rows = np.array(
        [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]], dtype=np.float64
    )
    return [
        tally.rate(
            "self/own_rate",
            verdicts.winner == own_side,
            mixed & present & (verdicts.winner != TIE),
            mixed & verdicts.missing,
            why="no such pair has a winner" if mixed.any() else nothing,
        ),
        weighted_sum("self/preference", rates, (1.0, -1.0), reach=rows, why=why),
    ]
