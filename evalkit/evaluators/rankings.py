"""What a judge's JSON on several responses must hold, and the rankings in it: read strictly, nothing is filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from evalkit.evaluators.answers import Confidence, Part, Texts
from evalkit.parsing import UnreadableError
from evalkit.parsing.thinking import half_width
from evalkit.types import Ranking

_LABEL = re.compile(
    r"\A(?:(?:(?:THE )?(?:RESPONSE|ASSISTANT|ANSWER|OUTPUT)|响应|回答|回复|答案)[ _]?)?\(?(?P<letter>[A-Z])\)?\Z"
)


class Viewed(Part):
    """What is good and what is bad in one of several responses."""

    response: str
    strengths: Texts = ()
    weaknesses: Texts = ()


class RankedOn(Part):
    """All responses on one criterion."""

    criterion: str
    reasoning: str
    ranking: Any


class RankedResult(Part):
    """The decision."""

    reasoning: str
    ranking: Any
    confidence: Confidence


class ListwiseAnswer(Part):
    """A ranking of several responses."""

    analysis: tuple[Viewed, ...] = ()
    comparison: tuple[RankedOn, ...]
    result: RankedResult


def read_ranking(value: object, labels: Sequence[str], field: str, *, tie_allowed: bool) -> Ranking:
    """Return a ranking as groups of places in `labels`, the best first, whichever of three ways it is written in.

    Entries `{"response": "A", "rank": 1}`, of which equal ranks are ties; labels from best to worst; or groups of
    labels from best to worst. Labels may be left out, but at least two must be there.

    Raises:
        UnreadableError: if it is none of these, names a label twice or an unknown one, or has a tie where none may be.
    """
    try:
        groups = _groups(value, labels)
    except UnreadableError as fault:
        raise UnreadableError(fault.kind, f"{field}: {fault.reason}") from None
    ranked = [place for group in groups for place in group]
    if repeated := sorted({place for place in ranked if ranked.count(place) > 1}):
        raise UnreadableError("invalid", f"{field}: response {labels[repeated[0]]} is ranked twice")
    if len(ranked) < 2:
        raise UnreadableError("invalid", f"{field}: it ranks {len(ranked)} of the responses {', '.join(labels)}")
    if not tie_allowed and len(groups) < len(ranked):
        raise UnreadableError("invalid", f"{field}: ties are not allowed: give each response a rank of its own")
    return groups


def write_ranking(ranking: Ranking, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a ranking as entries of a name and a rank, 1 the best, tied responses sharing one."""
    entries, rank = [], 1
    for group in ranking:
        entries += [{"response": names[index], "rank": rank} for index in group]
        rank += len(group)
    return entries


def _groups(value: object, labels: Sequence[str]) -> Ranking:
    if not isinstance(value, list) or not value:
        raise UnreadableError("invalid", "it is not a list of responses")
    if all(isinstance(one, Mapping) for one in value):
        ranked = sorted((_rank(one), _place(one.get("response"), labels)) for one in value)
        return tuple(tuple(place for _, place in group) for _, group in groupby(ranked, key=lambda one: one[0]))
    groups = [one if isinstance(one, list) else [one] for one in value]
    return tuple(tuple(sorted(_place(label, labels) for label in group)) for group in groups if group)


def _rank(entry: Mapping[str, Any]) -> int:
    rank = entry.get("rank")
    if isinstance(rank, str) and len(rank) <= 9 and rank.strip().isdecimal():
        rank = int(rank)
    if isinstance(rank, bool) or not isinstance(rank, int | float) or rank != rank // 1 or rank < 1:
        raise UnreadableError("invalid", f"'{str(rank)[:60]}' is not a rank: write whole numbers from 1, the best")
    return int(rank)


def _place(label: object, labels: Sequence[str]) -> int:
    spelt = half_width(str(label)).strip().strip("\"'`*.。").strip().upper()
    found = _LABEL.match(spelt)
    if not isinstance(label, str) or found is None or found["letter"] not in labels:
        raise UnreadableError("invalid", f"'{str(label)[:60]}' is not one of the responses {', '.join(labels)}")
    return labels.index(found["letter"])
