"""Where a decision does not hold, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from evalkit.core.display import interval, points, quoted
from evalkit.core.translation import (
    Message,
    Text,
    gettext,
    joined,
    ngettext,
    pgettext,
)
from evalkit.core.types import Metric
from evalkit.report.findings.finding import Finding, finding
from evalkit.scoring.decision import (
    LABELED_SHARE,
    Decision,
    Metrics,
    Where,
    known,
    searched,
    stratum,
)
from evalkit.scoring.search import BOTH, CROSS, PLACE
from evalkit.scoring.slices import NO_VALUE

MOST: Final = 2
"""At most this many slices are named in a sentence."""
_COEFFICIENTS: Final[Mapping[str, Text]] = {
    "kappa": gettext("kappa"),
    "spearman": Text("Spearman"),
    "kendall": Text("Kendall"),
    "pearson": Text("Pearson"),
    "kappa_quadratic": gettext("concordance"),
    "slope": gettext("slope"),
    "spread": gettext("spread"),
}


def slice_text(column: str, value: str) -> Text:
    """Return a slice in words: the column and its value, or the ends of a bin; or two
    columns with their values.
    """
    columns = column.split(CROSS)
    values = value.split(BOTH)
    # A value that has the separator in it, too, cannot be read as two.
    if len(columns) == len(values) == 2:
        return gettext(
            "{first} and {second}",
            first=slice_text(columns[0], values[0]),
            second=slice_text(columns[1], values[1]),
        )
    first, dots, last = value.partition("..")
    if column == PLACE and dots:
        return gettext(
            "the case is number {first} to {last} in the data", first=first, last=last
        )
    # A bin may hold a single number.
    if dots and first == last:
        value = first
    if value == NO_VALUE:
        return gettext("{column} has no value", column=quoted(column))
    return gettext("{column} is {slice}", column=quoted(column), slice=quoted(value))


def places_text(decision: Decision) -> Text:
    """Return the slices in which a decision does not hold, with what shows it."""
    named = [_place(where) for where in decision.where[:MOST]]
    text = gettext("not where {slices}", slices=joined(named, gettext(", or ")))
    # The number of slices that the sentence does not name.
    unnamed = len(decision.where) - MOST
    if unnamed > 0:
        text = gettext(
            "{places}, nor in {more:,} more slices", places=text, more=unnamed
        )
    return text


def _place(where: Where) -> Text:
    if where.shown_by == LABELED_SHARE:
        share = where.metric.value or 0.0
        return gettext(
            "{slice}: {labeled:,} of {n:,} have a label",
            slice=slice_text(where.column, where.value),
            labeled=round(share * where.metric.n),
            n=where.metric.n,
        )
    return gettext(
        "{slice}: {evidence} of {n:,}",
        slice=slice_text(where.column, where.value),
        evidence=_evidence(where),
        n=where.metric.n,
    )


def _evidence(where: Where) -> Message:
    # `decision/...` shows it by rates, all others by a coefficient.
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


def search_findings(metrics: Metrics) -> Iterator[Finding]:
    """Yield how many slices were tested, how bad one must be to be found, and those
    with too few labels.
    """
    tested = known(metrics, TESTED)
    if tested is None:
        return
    count = int(tested.value or 0)
    text = ngettext(
        "Searched for slices in which the judge is worse: {count:,} of {n:,} slice has enough"
        " labels (30 units, 10 of each of two classes).",
        "Searched for slices in which the judge is worse: {count:,} of {n:,} slices have enough"
        " labels (30 units, 10 of each of two classes).",
        tested.n,
        count=count,
    )
    yield finding(TESTED, "info", text)
    yield from _power(metrics)
    # Slices that look worse and have too few labels, and columns with too many values.
    small, omitted = searched(tested)
    if small:
        names = [
            gettext("{slice} ({n:,} units)", slice=slice_text(column, value), n=n)
            for column, value, n in small
        ]
        text = gettext(
            "Not enough labels to decide whether the judge is worse where {slices}, as it seems.",
            slices=joined(names, gettext(", or ")),
        )
        yield finding(TESTED, "warn", text)
    if omitted:
        text = gettext(
            "Not searched, because they have too many values: {names}.",
            names=joined(omitted, pgettext("names", ", ")),
        )
        yield finding(TESTED, "info", text)


def _power(metrics: Metrics) -> Iterator[Finding]:
    """Yield how bad slices of some sizes must be to be found."""
    # Verdicts are found by their share, scores by their error: the first that the run has.
    for prefix, part, whole in _POWER:
        detectable = [
            metric
            for name, metric in metrics.items()
            if name.startswith(prefix) and metric.value is not None
        ]
        if detectable:
            parts = [
                part.fill(n=metric.n, value=metric.value or 0.0)
                for metric in detectable
            ]
            text = whole.fill(sizes=joined(parts, pgettext("names", ", ")))
            yield finding(detectable[0].name, "info", text)
            return


_POWER: Final = (
    (
        "slices/found_below/",
        gettext("{n:,} units at {value:.0%}"),
        gettext(
            "A slice is found with 80% probability if the share of right verdicts in it is no"
            " higher than this: {sizes}."
        ),
    ),
    (
        "slices/found_error/",
        gettext("{n:,} units at {value:.1f} times"),
        gettext(
            "A slice is found with 80% probability if its scores are off by this much more than"
            " usual: {sizes}."
        ),
    ),
)
TESTED: Final = "slices/tested"
