"""Where a decision does not hold, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalkit.core.display import interval, points, quoted
from evalkit.core.translation import Message, Text, gettext, joined
from evalkit.decision import Decision, Where, stratum
from evalkit.types import Metric

MOST: Final = 2
"""At most this many slices are named in a sentence."""
_COEFFICIENTS: Final[Mapping[str, Text]] = {
    "kappa": gettext("kappa"),
    "spearman": Text("Spearman"),
    "kendall": Text("Kendall"),
    "pearson": Text("Pearson"),
    "kappa_quadratic": gettext("concordance"),
}


def slice_text(column: str, value: str) -> Text:
    """Return a slice in words: the column and its value, or the ends of a bin."""
    return gettext("{column} is {slice}", column=quoted(column), slice=quoted(value))


def places_text(decision: Decision) -> Text:
    """Return the slices in which a decision does not hold, with what shows it."""
    named = [_place(where) for where in decision.where[:MOST]]
    text = gettext("not where {slices}", slices=joined(named, gettext(", or ")))
    more = len(decision.where) - MOST
    if more > 0:
        text = gettext("{places}, nor in {more:,} more slices", places=text, more=more)
    return text


def _place(where: Where) -> Text:
    return gettext(
        "{slice}: {evidence} of {n:,}",
        slice=slice_text(where.column, where.value),
        evidence=_evidence(where),
        n=where.metric.n,
    )


def _evidence(where: Where) -> Message:
    group, _, name = where.shown_by.partition("/")
    if group == "decision":
        return gettext(
            "its rates differ from the labels' by {points} points",
            points=points(where.metric, absolute=True),
        )
    coefficient = _COEFFICIENTS.get(name, Text(name))
    return gettext(
        "{coefficient} {value}", coefficient=coefficient, value=interval(where.metric)
    )


def stratum_text(metric: Metric) -> Message:
    """Return the agreement within the values of a column, in words."""
    return gettext(
        "among cases with the same value, its agreement beyond chance is {value}",
        value=interval(metric),
    )


def stratum_values(metric: Metric) -> dict[str, object]:
    """Return what sentences on strata say."""
    return {"column": quoted(stratum(metric)), "within": stratum_text(metric)}
