"""Benchmarks that compare models with a baseline: AlpacaEval and Arena-Hard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalkit.scoring.columns.codes import NONE
from evalkit.scoring.published.length_controlled import length_controlled
from evalkit.scoring.published.parts import mean
from evalkit.scoring.published.view import View, slug
from evalkit.scoring.stats.arrays import FUZZ, Bools, Floats
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.aggregate import pair_margins
from evalkit.scoring.verdicts.pairs import combine_samples, over_orders
from evalkit.types import Case, Metric

NO_MODEL = "no case names a model and its baseline"
RAW = (
    "AlpacaEval's length-controlled win rate needs all its instructions and its df_gamed.csv beside the outputs;"
    " length/controlled_win_rate is another number, which its leaderboard does not have"
)
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
    2404.04475, section 2). Both orders count the same, where AlpacaEval draws one for each instruction. The
    length-controlled one is there only if df_gamed.csv is, and every instruction.
    """
    contest = _Contest.of(view)
    credit = (1 + over_orders(contest.margin) if contest.margin.shape[1] == 2 else 1 + contest.margin[:, 0]) / 2
    there, tally = np.isfinite(credit), Tally(np.arange(len(view.cases)), len(view.cases))
    turns = [_sides(case, view.config.dataset.baseline)[1] for case in view.cases]
    longer = np.array([-_longer(case, turn) for case, turn in zip(view.cases, turns, strict=True)], dtype=np.float64)
    found: list[Statistic | Metric] = []
    for end, rows in contest.models().items():
        used, lost = rows & there, rows & ~there
        controlled = length_controlled(
            f"alpaca_eval/length_controlled_win_rate{end}", view.cases, rows, longer, credit, missing=int(lost.sum())
        )
        note = RAW if controlled is None else None
        raw = mean(f"alpaca_eval/win_rate{end}", tally, np.nan_to_num(credit), used, lost, note=note, why=NO_MODEL)
        found += [raw] if controlled is None else [raw, controlled]
    return found


def _longer(case: Case, turn: int) -> int:
    """Return by how many characters the model's output is longer than the baseline's."""
    return turn * (len(case.responses[0].text) - len(case.responses[1].text)) if turn else 0


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
