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
    # Without this metric no slices were asked for.
    count = metrics.get("slices/differ")
    if count is None:
        return
    if rows:
        yield _tested_finding(count.name, rows, confidence)
        if any(map(_is_tested, rows)):
            yield from _lowest_finding(rows)
    # Without a table, only the number of tests is reported.
    elif known(metrics, count.name) is not None:
        text = gettext(
            "{differ:,} of {n:,} tests show a slice that differs from the rest (Holm).",
            differ=int(count.value or 0),
            n=count.n,
        )
        yield finding(count.name, "warn" if count.value else "info", text)


def _is_tested(row: Json) -> bool:
    # The p-value after Holm's adjustment.
    return row["p_holm"] is not None


def _tested_finding(name: str, rows: Sequence[Json], confidence: float) -> Finding:
    """Return which slices differ from the rest, and how many were looked at."""
    tested = [row for row in rows if _is_tested(row)]
    # A slice has a row for each metric, so that slices are counted by column and value.
    tested_slices = set(map(_key, tested))
    untested_slices = set(map(_key, rows)) - tested_slices
    untested = ngettext(
        "{n:,} slice is not tested: it has fewer than {few} units, or the rest has none.",
        "{n:,} slices are not tested: they have fewer than {few} units, or the rest has none.",
        len(untested_slices),
        few=FEW,
    )
    if not tested:
        return finding(name, "info", untested)
    looked = ngettext(
        "{n:,} slice in {tests:,} tests",
        "{n:,} slices in {tests:,} tests",
        len(tested_slices),
        tests=len(tested),
    )
    significant = [row for row in tested if row["p_holm"] <= 1 - confidence]
    # The most prominent row of each slice: one sentence for each.
    differ: dict[tuple[str, str], Json] = {}
    for row in sorted(significant, key=_prominence):
        differ.setdefault(_key(row), row)
    if differ:
        text = _differing([*differ.values()], looked)
    else:
        text = gettext(
            "No slice is shown to differ from the rest ({looked}, Holm).", looked=looked
        )
    if untested_slices:
        text = gettext("{first} {second}", first=text, second=untested)
    return finding(name, "warn" if differ else "info", text)


def _key(row: Json) -> tuple[str, str]:
    """Return the column and the value of a slice."""
    return row["column"], row["value"]


def _differing(differ: Sequence[Json], looked: Text) -> Text:
    """Return the sentences on the slices that differ from the rest, the most prominent first."""
    named = differ[:MOST_SLICES]
    text = _different(named, looked)
    # As many as fit into a sentence that people read.
    while len(named) > 1 and len(in_every_language(text)[0].split()) > LONGEST:
        named = named[:-1]
        text = _different(named, looked)
    more = len(differ) - len(named)
    if more:
        text = gettext("{text} {more:,} more differ.", text=text, more=more)
    directions = {_is_worse(row) for row in differ} - {None}
    # Slices better and worse than the rest at once: the rest of each holds the others.
    if len(directions) > 1:
        why = gettext(
            "The better ones may differ only because the rest holds the worse ones."
        )
        text = gettext("{first} {second}", first=text, second=why)
    return text


def _lowest_finding(rows: Sequence[Json]) -> Iterator[Finding]:
    """Yield the slice with the lowest shrunk estimate of one metric, if there are any."""
    # Only metrics of which more is better, so that the lowest is the worst.
    by_metric: dict[str, list[Json]] = {}
    for row in rows:
        if row["shrunk"] and CATALOG.better(row["metric"]) == "higher":
            by_metric.setdefault(row["metric"], []).append(row)
    # The first metric in the catalog's order that has shrunk estimates.
    metric = next((name for name in COLUMNS["sliced"] if name in by_metric), None)
    if metric is None:
        return
    shrunk = by_metric[metric]
    row = min(shrunk, key=lambda row: row["shrunk"]["value"])
    column, value = _key(row)
    estimate = row["shrunk"]
    bounds = Metric(metric, estimate["value"], estimate["low"], estimate["high"])
    text = gettext(
        "Lowest of {n:,} slices: {column} {slice}, {metric} {value}. The estimate is moved"
        " toward the mean of its column, because the lowest of many looks worse than it is. The"
        " interval holds for all slices at once.",
        n=len(shrunk),
        column=column,
        slice=quoted(value),
        metric=metric_measure(metric),
        value=interval(bounds),
    )
    yield finding(slice_name(column, value, metric), "info", text)


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
