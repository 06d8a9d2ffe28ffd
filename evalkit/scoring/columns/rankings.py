"""Rankings of several responses, decomposed into pairs and into scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from evalkit.errors import ConfigError
from evalkit.types import Judgment, Ranking


def is_list(judgment: Judgment) -> bool:
    """Return whether a judgment is of more than two responses or is a ranking."""
    return judgment.ranking is not None or len(judgment.unit) > 2


def list_pairs(judgment: Judgment) -> list[Judgment]:
    """Return a ranking as one judgment per pair of its unit, with the pair in the order shown.

    The margin of a pair is the difference of its scores. Pairs with an omitted response are missing, and so are all
    pairs of a ranking that could not be read.

    Raises:
        ConfigError: if the responses shown or ranked are not those of the unit.
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
            criteria=_without_missing({name: _margin(scores, i, j) for name, scores in by_criterion.items()}),
            ranking=None,
            rankings={},
            weighted=None,
        )
        for i, j in combinations(judgment.unit, 2)
    ]


def list_scores(judgment: Judgment, sample: int) -> list[Judgment]:
    """Return a ranking as one judgment per response of its unit, with its score, as sample `sample`.

    Raises:
        ConfigError: as `list_pairs`.
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
            criteria=_without_missing({name: scores.get(index) for name, scores in by_criterion.items()}),
            ranking=None,
            rankings={},
            weighted=None,
        )
        for index in judgment.unit
    ]


def scores_of(ranking: Ranking | None) -> dict[int, float]:
    """Return the score in [0, 1] of each ranked response: the share of the others that it beats.

    A tie counts as half. This is Borda's count (Borda 1781, Mém. Acad. R. Sci. 657-665) divided by its maximum, where
    tied responses share their mean rank. A ranking of fewer than two responses has no scores.
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


def _without_missing(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}
