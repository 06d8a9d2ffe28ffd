"""Rankings of several responses as judgments of the pairs and responses that they imply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from evalkit.core.errors import ConfigError
from evalkit.core.types import Judgment, Ranking, Unit


def is_list(judgment: Judgment) -> bool:
    """Return whether a judgment is of more than two responses or is a ranking."""
    return judgment.ranking is not None or len(judgment.unit) > 2


def implied(judgment: Judgment, size: int, sample: int) -> list[Judgment]:
    """Return a ranking as one judgment per pair or per response of its unit, with
    responses in the order shown.

    The margin of a pair is the difference of its scores. Pairs with an omitted response are
    missing, and so are all pairs of a ranking that could not be read.

    Args:
        judgment: the ranking.
        size: 2 for pairs, 1 for responses.
        sample: the sample that the judgments count as.

    Raises:
        ConfigError: if the responses shown or ranked are not those of the unit.
    """
    _check_unit(judgment)
    # response -> its position as shown
    # All pairs or responses of a ranking keep the order in which the judge saw them.
    position = {index: at for at, index in enumerate(judgment.shown)}
    overall = scores_of(judgment.ranking)
    by_criterion = {n: scores_of(ranking) for n, ranking in judgment.rankings.items()}
    return [
        replace(
            judgment,
            unit=unit,
            # Responses of the new unit in the order shown: [i, j] or [j, i].
            shown=tuple(sorted(unit, key=position.__getitem__)),
            sample=sample,
            value=_margin(overall, unit),
            criteria={
                n: v
                for n, scores in by_criterion.items()
                if (v := _margin(scores, unit)) is not None
            },
            ranking=None,
            rankings={},
            weighted=None,
        )
        for unit in combinations(judgment.unit, size)
    ]


def scores_of(ranking: Ranking | None) -> dict[int, float]:
    """Return the score in [0, 1] of each ranked response: the share of the others that it beats.

    A tie counts as half. This is Borda's count (Borda 1781, Mém. Acad. R. Sci. 657-665) divided by
    its maximum, where tied responses share their mean rank. A ranking of fewer than two responses
    has no scores.
    """
    ranked = sum(len(group) for group in ranking or ())
    if ranking is None or ranked < 2:
        return {}
    scores: dict[int, float] = {}
    # The number of responses ranked below the current group.
    below = ranked
    for group in ranking:
        below -= len(group)
        # Each member beats all below it, and half of the others in its group.
        scores |= dict.fromkeys(group, (below + (len(group) - 1) / 2) / (ranked - 1))
    return scores


def _check_unit(judgment: Judgment) -> None:
    """Check that a judgment shows and ranks the responses of its unit.

    Raises:
        ConfigError: if it does not.
    """
    unit = judgment.unit
    where = f"case '{judgment.case_id}'"
    if tuple(sorted(judgment.shown)) != unit:
        raise ConfigError(
            f"unit {list(unit)} was shown as {list(judgment.shown)}", where=where
        )
    for ranking in (judgment.ranking or (), *judgment.rankings.values()):
        # A response may be ranked once only, but some may be omitted.
        ranked = [index for group in ranking for index in group]
        if len(set(ranked)) < len(ranked) or not set(ranked) <= set(unit):
            raise ConfigError(
                f"unit {list(unit)} was ranked as {[list(group) for group in ranking]}",
                where=where,
            )


def _margin(scores: Mapping[int, float], unit: Unit) -> float | None:
    """Return the difference of a pair's scores or the score of a single response,
    `None` if one is missing.
    """
    values = [scores[index] for index in unit if index in scores]
    if len(values) == len(unit):
        # A pair: first minus second. A single response: its score minus nothing.
        return values[0] - sum(values[1:])
    return None
