"""Benchmarks that compare models with a baseline: AlpacaEval and Arena-Hard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evalkit.scoring.bootstrap import Statistic, Tally
from evalkit.scoring.columns import FUZZ, NONE, Bools, Floats
from evalkit.scoring.logistic import expit, regression
from evalkit.scoring.passes import over_orders
from evalkit.scoring.published.parts import mean
from evalkit.scoring.published.view import View, slug
from evalkit.scoring.resolve import combine_samples, pair_margins
from evalkit.types import Case, Metric

NO_MODEL = "no case names a model and its baseline"
STRONG = 2 / 3
"""A margin of at least so much is a verdict of much better, where verdicts have strengths."""
STRONG_WEIGHT = 3.0
USUAL = (
    "baseline",
    "gpt4_1106_preview",
    "gpt4_turbo",
    "text_davinci_003",
    "gpt-4-0314",
    "o3-mini-2025-01-31",
    "gemini-2.0-flash-001",
)
"""Models that AlpacaEval and Arena-Hard compare others with."""


@dataclass(frozen=True, slots=True)
class _Contest:
    """The first pair of each case: `margin` by order, in favour of the model, NaN where missing; (cases, 1 or 2)."""

    margin: Floats
    model: list[str]

    @classmethod
    def of(cls, view: View) -> _Contest:
        sides = [_sides(case, view.config.dataset.baseline) for case in view.cases]
        margin = np.full((len(sides), 2 if view.both else 1), np.nan)
        first = (view.pairs.i == 0) & (view.pairs.j == 1)
        margin[view.pairs.case[first]] = _margins(view)[first]
        turn = np.array([side[1] for side in sides], dtype=np.float64)
        return cls(margin * turn[:, None], [side[0] for side in sides])

    def models(self) -> dict[str, Bools]:
        """Return the cases of all models, by the end of the metric's name: none where there is one model."""
        names = np.array(self.model, dtype=object)
        known = sorted(set(self.model) - {""})
        if len(known) < 2:
            return {"": np.asarray(names != "")}
        return {f"/{slug(name)}": np.asarray(names == name) for name in known}


def _margins(view: View) -> Floats:
    """Return each pass's margin, the mean of its samples: (pairs, 1 or 2)."""
    if view.outcome.shown is None:
        return np.where(view.passes == NONE, np.nan, view.passes)
    columns = view.outcome.columns
    margin = combine_samples(columns, pair_margins(view.config, columns), view.pairs, "mean").margin
    return margin if view.both else over_orders(margin)[:, None]


def _sides(case: Case, named: str | None) -> tuple[str, int]:
    """Return the model of a case, and 1 where it is the first response, -1 where the baseline is.

    The baseline is what the case says, or else `named`, a usual one, or the second response's model.
    """
    first, second = (case.responses[k].model if len(case.responses) > k else None for k in (0, 1))
    if not first or not second:
        return "", 0
    usual = next((name for name in (first, second) if name in USUAL), second)
    baseline = case.metadata.get("baseline") or named or usual
    if baseline not in (first, second):
        return "", 0
    return (second, -1) if baseline == first else (first, 1)


def alpaca_eval(view: View) -> list[Statistic | Metric]:
    """Return `alpaca_eval/win_rate` and `alpaca_eval/length_controlled_win_rate`, by model if there are several.

    The win rate is the mean preference for the model's output over the baseline's, a tie being a half; with
    log-probabilities the preference is the probability of the model's token (Li et al. 2023; Dubois et al. 2024, arXiv
    2404.04475, section 2). Both orders count the same, where AlpacaEval draws one for each instruction.
    """
    contest = _Contest.of(view)
    credit = (1 + over_orders(contest.margin) if contest.margin.shape[1] == 2 else 1 + contest.margin[:, 0]) / 2
    there, tally = np.isfinite(credit), Tally(np.arange(len(view.cases)), len(view.cases))
    found: list[Statistic | Metric] = []
    for end, rows in contest.models().items():
        used, lost = rows & there, rows & ~there
        found.append(mean(f"alpaca_eval/win_rate{end}", tally, np.nan_to_num(credit), used, lost, why=NO_MODEL))
        found.append(_length_controlled(view, f"alpaca_eval/length_controlled_win_rate{end}", credit, used, lost))
    return found


def _length_controlled(view: View, name: str, credit: Floats, used: Bools, lost: Bools) -> Statistic:
    """Return the win rate that a regression predicts for outputs of one length.

    Of the preference on tanh of the difference in characters (in sample standard deviations), on the instruction's
    difficulty where the file of difficulties is there, and on the model itself: E[y] = expit(theta + phi tanh(dl/s) +
    psi gamma); the mean over instructions with the first of these terms at 0 (Dubois et al. 2024, arXiv 2404.04475,
    section 3, equation 2). Their weak penalty, tuned by cross-validation with two gamed baselines, is left out.
    """
    cases = [view.cases[k] for k in np.flatnonzero(used).tolist()]
    baseline = view.config.dataset.baseline
    difference = np.array([_longer(case, _sides(case, baseline)[1]) for case in cases], dtype=np.float64)
    spread = float(difference.std(ddof=1)) if len(cases) > 1 else 0.0
    difficulty = _difficulty(cases)
    terms = [np.ones(len(cases)), np.tanh(difference / spread) if spread > FUZZ else np.zeros(len(cases))]
    terms += [] if difficulty is None else [difficulty]
    note = "without a term for the difficulty of instructions" if difficulty is None else None
    return regression(
        name,
        np.stack(terms, axis=1),
        credit[used],
        Tally(np.flatnonzero(used), len(view.cases)),
        _at_one_length(difficulty),
        missing=int(lost.sum()),
        proportion=True,
        note=note,
        why="" if spread > FUZZ else "the difference in length is the same in every pair" if cases else NO_MODEL,
    )


def _longer(case: Case, turn: int) -> int:
    """Return by how many characters the model's output is longer than the baseline's."""
    return turn * (len(case.responses[0].text) - len(case.responses[1].text))


def _difficulty(cases: list[Case]) -> Floats | None:
    values = [case.metadata.get("instruction_difficulty") for case in cases]
    known = [float(value) for value in values if isinstance(value, int | float)]
    if len(known) < len(values) or len(set(known)) < 2:
        return None
    return np.array(known, dtype=np.float64)


def _at_one_length(difficulty: Floats | None) -> Callable[[Floats], Floats]:
    if difficulty is None:
        return lambda b: expit(b[:, 0])
    return lambda b: np.asarray(expit(b[:, :1] + b[:, 2:] * difficulty).mean(axis=1))


def arena_hard(view: View) -> list[Statistic | Metric]:
    """Return `arena_hard/score`, by model if there are several, and by category if there are several.

    The mean over both orders of the model's verdicts against the baseline: a win 1, a tie 1/2, a loss 0, a verdict of
    much better (`A>>B`) counting three times (Li et al. 2024, arXiv 2406.11939, section 4, and `show_result.py`). Of
    one model and one baseline the Bradley-Terry score of version 0.1 is the same number. Strengths are there where a
    judge's margins have different sizes: much better is 1, better a third.
    """
    contest = _Contest.of(view)
    orders = contest.margin.shape[1]
    margin = contest.margin.ravel()
    case = np.repeat(np.arange(len(view.cases)), orders)
    won = np.isfinite(margin) & (np.abs(margin) > FUZZ)
    graded = bool(won.any()) and float(np.ptp(np.abs(margin[won]))) > FUZZ
    weights = np.where(graded & won & (np.abs(margin) >= STRONG - FUZZ), STRONG_WEIGHT, 1.0)
    credit = np.where(won, margin > 0, 0.5)
    note = None if graded else "verdicts have no strengths: each counts once"
    found: list[Statistic | Metric] = []
    for end, rows in _by_category(view, contest.models()).items():
        used = rows[case] & np.isfinite(margin)
        lost = rows[case] & ~np.isfinite(margin)
        tally = Tally(case, len(view.cases))
        found.append(
            mean(f"arena_hard/score{end}", tally, credit, used, lost, weights=weights, note=note, why=NO_MODEL)
        )
    return found


def _by_category(view: View, models: dict[str, Bools]) -> dict[str, Bools]:
    categories = view.subsets("subset", "category")
    if len(categories) < 2:
        return models
    apart = {f"{end}/{name}": rows & own for end, rows in models.items() for name, own in categories.items()}
    return models | apart
