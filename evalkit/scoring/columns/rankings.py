"""Rankings of several responses at once, taken apart: into pairs, which everything else knows, and into scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from evalkit.errors import ConfigError
from evalkit.types import Judgment, Ranking


def is_list(judgment: Judgment) -> bool:
    """Say whether a judgment is of several responses at once."""
    return judgment.ranking is not None or len(judgment.unit) > 2


def list_pairs(judgment: Judgment) -> list[Judgment]:
    """Return a ranking as one judgment for each pair of its unit, in the order shown.

    The margin of a pair is the difference of its scores. A response that was left out is missing for its pairs, and so
    is every pair of a list that could not be read.

    Raises:
        ConfigError: if a list was shown, or ranked, as others than its own responses.
    """
    _check(judgment)
    place = {index: at for at, index in enumerate(judgment.shown)}
    overall, by_criterion = _scores(judgment)
    return [
        replace(
            judgment,
            unit=(i, j),
            shown=(i, j) if place[i] < place[j] else (j, i),
            value=_margin(overall, i, j),
            criteria=_stated({name: _margin(scores, i, j) for name, scores in by_criterion.items()}),
            ranking=None,
            rankings={},
            weighted=None,
        )
        for i, j in combinations(judgment.unit, 2)
    ]


def list_scores(judgment: Judgment, sample: int) -> list[Judgment]:
    """Return a ranking as one judgment for each response of its unit, with its score, of the sample named.

    Raises:
        ConfigError: as `list_pairs` does.
    """
    _check(judgment)
    overall, by_criterion = _scores(judgment)
    return [
        replace(
            judgment,
            unit=(index,),
            shown=(index,),
            sample=sample,
            value=overall.get(index),
            criteria=_stated({name: scores.get(index) for name, scores in by_criterion.items()}),
            ranking=None,
            rankings={},
            weighted=None,
        )
        for index in judgment.unit
    ]


def scores_of(ranking: Ranking | None) -> dict[int, float]:
    """Return the score in [0, 1] of each response in a ranking: the share of the others that it beats, a tie as half.

    This is Borda's count (Borda 1781, Mém. Acad. R. Sci. 657-665) divided by its most, with tied responses sharing the
    mean of their places. A ranking of fewer than two responses says nothing.
    """
    ranked = sum(len(group) for group in ranking or ())
    if ranking is None or ranked < 2:
        return {}
    scores: dict[int, float] = {}
    below = ranked
    for group in ranking:
        below -= len(group)
        scores |= dict.fromkeys(group, (below + (len(group) - 1) / 2) / (ranked - 1))
    return scores


def _check(judgment: Judgment) -> None:
    unit, where = judgment.unit, f"case '{judgment.case_id}'"
    if tuple(sorted(judgment.shown)) != unit:
        raise ConfigError(f"unit {list(unit)} was shown as {list(judgment.shown)}", where=where)
    for ranking in (judgment.ranking or (), *judgment.rankings.values()):
        ranked = [index for group in ranking for index in group]
        if len(set(ranked)) < len(ranked) or not set(ranked) <= set(unit):
            raise ConfigError(f"unit {list(unit)} was ranked as {[list(group) for group in ranking]}", where=where)


def _scores(judgment: Judgment) -> tuple[dict[int, float], dict[str, dict[int, float]]]:
    return scores_of(judgment.ranking), {name: scores_of(one) for name, one in judgment.rankings.items()}


def _margin(scores: Mapping[int, float], i: int, j: int) -> float | None:
    return scores[i] - scores[j] if i in scores and j in scores else None


def _stated(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}
