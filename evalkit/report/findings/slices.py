"""Findings on slices: which differ from the rest, and the lowest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalkit.core.display import fixed, interval, quoted
from evalkit.core.translation import Text, gettext, in_every_language, joined, ngettext
from evalkit.core.types import Metric
from evalkit.core.values import Json
from evalkit.report.findings.finding import LONGEST, Finding, finding
from evalkit.report.texts import metric_measure
from evalkit.scoring.catalog import CATALOG, COLUMNS
from evalkit.scoring.decision import Metrics, known
from evalkit.scoring.slices import FEW, slice_name

MOST_SLICES = 3


def slice_findings(
    metrics: Metrics, rows: Sequence[Json], confidence: float
) -> Iterator[Finding]:
    """Yield which slices differ from the rest, how many were looked at, and the lowest
    by its shrunk estimate.

    Args:
        metrics: the metrics of the run.
        rows: the table of slices.
        confidence: the confidence of the tests.
    """
    # Rows of the table of slices, each with the p-value after Holm's adjustment.
    tested = [row for row in rows if row["p_holm"] is not None]
    # Without this metric no slices were asked for.
    count = metrics.get("slices/differ")
    if count is None:
        return
    # Without a table, only the number of tests is reported.
    if not rows:
        if known(metrics, count.name) is not None:
            text = gettext(
                "{differ:,} of {n:,} tests show a slice that differs from the rest (Holm).",
                differ=int(count.value or 0),
                n=count.n,
            )
            yield finding(count.name, "warn" if count.value else "info", text)
        return
    # A slice has a row for each metric, so that slices are counted by column and value.
    tested_slices, every = (
        {(row["column"], row["value"]) for row in some} for some in (tested, rows)
    )
    untested = ngettext(
        "{n:,} slice is not tested: it has fewer than {few} units, or the rest has none.",
        "{n:,} slices are not tested: they have fewer than {few} units, or the rest has none.",
        len(every - tested_slices),
        few=FEW,
    )
    if not tested:
        yield finding(count.name, "info", untested)
        return
    significant = sorted(
        (row for row in tested if row["p_holm"] <= 1 - confidence), key=_prominence
    )
    # The most prominent row of each slice: one sentence for each.
    first_of: dict[tuple[str, str], Json] = {}
    for row in significant:
        first_of.setdefault((row["column"], row["value"]), row)
    differ = [*first_of.values()]
    looked = ngettext(
        "{n:,} slice in {tests:,} tests",
        "{n:,} slices in {tests:,} tests",
        len(tested_slices),
        tests=len(tested),
    )
    if not differ:
        text = gettext(
            "No slice is shown to differ from the rest ({looked}, Holm).", looked=looked
        )
    else:
        named = differ[:MOST_SLICES]
        text = _different(named, looked)
        # As many as fit into a sentence that people read.
        while len(named) > 1 and len(in_every_language(text)[0].split()) > LONGEST:
            named = named[:-1]
            text = _different(named, looked)
        if len(differ) > len(named):
            text = gettext(
                "{text} {more:,} more differ.",
                text=text,
                more=len(differ) - len(named),
            )
        # Slices better and worse than the rest at once: the rest of each holds the others.
        if len({_is_worse(row) for row in differ} - {None}) > 1:
            why = gettext(
                "The better ones may differ only because the rest holds the worse ones."
            )
            text = gettext("{first} {second}", first=text, second=why)
    if every - tested_slices:
        text = gettext("{first} {second}", first=text, second=untested)
    yield finding(count.name, "warn" if differ else "info", text)
    # Only metrics of which more is better, so that the lowest is the worst.
    shrunk = [
        row
        for row in rows
        if row["shrunk"] and CATALOG.better(row["metric"]) == "higher"
    ]
    first = next(
        (
            name
            # The first metric in the catalog's order that has shrunk estimates.
            for name in COLUMNS["sliced"]
            if any(row["metric"] == name for row in shrunk)
        ),
        None,
    )
    if first is not None:
        shrunk = [row for row in shrunk if row["metric"] == first]
        row = min(shrunk, key=lambda row: row["shrunk"]["value"])
        value = interval(
            Metric(
                first,
                row["shrunk"]["value"],
                row["shrunk"]["low"],
                row["shrunk"]["high"],
            )
        )
        text = gettext(
            "Lowest of {n:,} slices: {column} {slice}, {metric} {value}. The estimate is moved"
            " toward the mean of its column, because the lowest of many looks worse than it is. The"
            " interval holds for all slices at once.",
            n=len(shrunk),
            column=row["column"],
            slice=quoted(row["value"]),
            metric=metric_measure(first),
            value=value,
        )
        yield finding(slice_name(row["column"], row["value"], first), "info", text)


def _different(rows: Sequence[Json], looked: Text) -> Text:
    """Return the sentence that names these slices."""
    names = joined([_slice(row) for row in rows], gettext("; "))
    return gettext(
        "Different from the rest ({looked}, Holm): {names}.", looked=looked, names=names
    )


def _is_worse(row: Json) -> bool | None:
    """Return whether a slice is worse than the rest; `None` if neither direction is better."""
    better = CATALOG.better(row["metric"])
    return (
        None
        if better is None
        # True if a low estimate is bad, or a high one is where less is better.
        else (row["estimate"] < row["rest"]) == (better == "higher")
    )


def _prominence(row: Json) -> tuple[bool, float, float]:
    """Return a sort key of slices that differ: worse ones first, then by significance."""
    # False sorts first: worse slices, then smaller p-values, then larger differences.
    return not _is_worse(row), row["p_holm"], -abs(row["estimate"] - row["rest"])


def _slice(row: Json) -> Text:
    value = interval(Metric(row["metric"], row["estimate"], row["low"], row["high"]))
    return gettext(
        "{column} {slice}, {metric} {value} against {rest}",
        column=row["column"],
        slice=quoted(row["value"]),
        metric=metric_measure(row["metric"]),
        value=value,
        rest=fixed(row["rest"], 2),
    )
