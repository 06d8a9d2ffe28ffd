"""Findings on biases other than position, on annotators, on rankings and on corrected rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalkit.core.display import fixed, interval, percent
from evalkit.core.translation import Text, gettext, joined, ngettext, pgettext
from evalkit.plugins import benchmark_named
from evalkit.protocols import Benchmark
from evalkit.report.counts import Finding, Metrics, Tone, finding, known, side
from evalkit.report.texts import metric_measure
from evalkit.scoring.catalog import CATALOG, COLUMNS, benchmark_title
from evalkit.scoring.metrics.corrections import RANDOM
from evalkit.scoring.slices import FEW, slice_name
from evalkit.types import Metric
from evalkit.values import Json


def bias_findings(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield the findings on length at equal label, order beyond noise, repeats, the own family, and annotators."""
    for find in (_length_at_label, _order, _repeats, _identical, _own_family, _people, _alt_test):
        yield from find(metrics)


def length_at_label(metrics: Metrics) -> Metric | None:
    """Return the slope of verdicts on length at equal label, `None` where the labels do not determine it."""
    slope = known(metrics, "length/slope_at_label")
    return None if slope is None or side(slope, 0.0) == "unknown" else slope


def _length_at_label(metrics: Metrics) -> Iterator[Finding]:
    slope = length_at_label(metrics)
    if slope is None:
        return
    where = side(slope, 0.0)
    if where == "unclear":
        lean = gettext("No clear preference for longer or shorter answers at equal label")
    elif where == "above":
        lean = gettext("Prefers longer answers beyond what the labels explain")
    else:
        lean = gettext("Prefers shorter answers beyond what the labels explain")
    text = gettext("{lean}: {value} log odds per standard deviation of length.", lean=lean)
    yield finding(slope, "info" if where == "unclear" else "warn", text)


def _order(metrics: Metrics) -> Iterator[Finding]:
    effect, repeat = known(metrics, "position/order_effect"), known(metrics, "position/repeat_consistency")
    if effect is None or repeat is None or side(effect, 0.0) == "unknown":
        return
    swayed = side(effect, 0.0) == "above"
    text = (
        gettext(
            "Asked twice in the same order, it repeats its verdict in {rate} of pairs; swapping the order lowers this "
            "by {points} points."
        )
        if swayed
        else gettext(
            "Asked twice in the same order, it repeats its verdict in {rate} of pairs; swapping the order has no clear "
            "effect beyond that ({points} points)."
        )
    )
    yield finding(effect, "warn" if swayed else "info", text.fill(rate=percent(repeat)))


def _identical(metrics: Metrics) -> Iterator[Finding]:
    if (rate := known(metrics, "position/identical_preference")) is not None and rate.value:
        yield finding(rate, "bad", gettext("Prefers one of two identical answers in {rate} of {n:,} comparisons."))


def _repeats(metrics: Metrics) -> Iterator[Finding]:
    if (rate := known(metrics, "samples/flip_rate")) is not None:
        text = ngettext(
            "Two answers to one question differ in {rate} of cases ({n:,} repeated question).",
            "Two answers to one question differ in {rate} of cases ({n:,} repeated questions).",
            rate.n,
        )
        yield finding(rate, "info", text)


def _own_family(metrics: Metrics) -> Iterator[Finding]:
    preference = known(metrics, "self/preference")
    if preference is None or (where := side(preference, 0.0)) == "unknown":
        return
    tone: Tone = "info" if where == "unclear" else "warn"
    text = {
        "above": gettext("Favors answers of its own model family at equal label: {points} points."),
        "below": gettext("Disfavors answers of its own model family at equal label: {points} points."),
        "unclear": gettext("No clear preference for answers of its own model family at equal label: {points} points."),
    }[where]
    yield finding(preference, tone, text)


def _people(metrics: Metrics) -> Iterator[Finding]:
    gap, ceiling, judge = (known(metrics, f"human/{name}") for name in ("gap", "ceiling", "judge"))
    if gap is None or ceiling is None or judge is None or (where := side(gap, 0.0)) == "unknown":
        return
    tone: Tone = "good" if where == "above" else "bad" if where == "below" else "info"
    if where == "unclear":
        what = gettext(
            "On {n:,} labels of items with several annotators, it is open whether the judge agrees with the other "
            "annotators as well as an annotator does"
        )
    elif where == "above":
        what = gettext(
            "On {n:,} labels of items with several annotators, the judge agrees with the other annotators better than "
            "an annotator does"
        )
    else:
        what = gettext(
            "On {n:,} labels of items with several annotators, the judge agrees with the other annotators less well "
            "than an annotator does"
        )
    text = gettext(
        "{finding}: {judge} versus {ceiling}, a difference of {gap}.",
        finding=what.fill(n=gap.n),
        judge=interval(judge),
        ceiling=interval(ceiling),
        gap=interval(gap),
    )
    yield finding(gap, tone, text)


def _alt_test(metrics: Metrics) -> Iterator[Finding]:
    if (test := known(metrics, "human/alt_test")) is not None:
        text = gettext("By the alternative annotator test, the judge could replace {passed} of {n:,} annotators.")
        yield finding(test, "info", text.fill(passed=round((test.value or 0.0) * test.n)))


RATES = {
    "win_rate/a": gettext("Response A wins"),
    "win_rate/b": gettext("Response B wins"),
    "tie_rate": pgettext("finding", "Ties"),
}
NAMED = 5
"""The most systems to name where several may be the best."""


def simulated(judges: Sequence[str]) -> Iterator[Finding]:
    """Yield that judges are simulated, with their names."""
    if judges:
        text = ngettext(
            "Simulated judge: {names}. No model judged; its behavior is planted.",
            "Simulated judges: {names}. No model judged; their behavior is planted.",
            len(judges),
            names=joined(judges, pgettext("names", ", ")),
        )
        yield finding("judge", "warn", text)


def ranking_findings(metrics: Metrics, ranking: Json) -> Iterator[Finding]:
    """Yield which system ranks first, if that is certain, and how many pairs of systems differ significantly."""
    systems: Sequence[Json] = ranking.get("systems") or ()
    separated = known(metrics, "ranking/separated")
    if separated is None:
        return
    apart = f"{round((separated.value or 0) * separated.n):,}"
    text = ngettext(
        "{apart} of {n:,} pair of systems differs significantly.",
        "{apart} of {n:,} pairs of systems differ significantly.",
        separated.n,
        apart=apart,
    )
    if first := _first(systems, 1 - float(ranking.get("confidence") or 0.95)):
        text = gettext("{first}; {rest}", first=first, rest=text)
    yield finding(separated, "info" if separated.value else "warn", text)


def _like_first(system: Json, alpha: float) -> bool:
    """Return whether a system does not differ significantly from the first, by Holm's test over all pairs."""
    p = system.get("p_holm_of_first")
    return p is not None and p > alpha


def _first(systems: Sequence[Json], alpha: float) -> Text | None:
    ranked = [one for one in systems if one["rank"]["value"] is not None and one["rank"].get("low") is not None]
    if len(ranked) < 2:
        return None
    best = [str(one["system"]) for one in ranked if one["rank"]["low"] <= 1 or _like_first(one, alpha)]
    if len(best) == 1:
        return gettext("By its verdicts, {system} ranks first", system=best[0])
    names = joined(best[:NAMED], pgettext("names", ", "))
    if len(best) <= NAMED:
        return gettext("First place is open between {names}", names=names)
    return gettext(
        "First place is open between {names} and {more} more", names=names, more=len(best) - NAMED, all=len(best)
    )


MOST_SLICES = 3


def slice_findings(metrics: Metrics, rows: Sequence[Json], confidence: float) -> Iterator[Finding]:
    """Yield which slices differ from the rest, how many were looked at, and the lowest by its shrunk estimate.

    Args:
        metrics: the metrics of the run.
        rows: the table of slices.
        confidence: the confidence of the tests.
    """
    tested = [row for row in rows if row["p_holm"] is not None]
    count = metrics.get("slices/differ")
    if count is None:
        return
    if not rows:
        if known(metrics, count.name) is not None:
            text = gettext(
                "{differ:,} of {n:,} tests show a slice that differs from the rest (Holm).",
                differ=int(count.value or 0),
                n=count.n,
            )
            yield finding(count.name, "warn" if count.value else "info", text)
        return
    seen, every = ({(row["column"], row["value"]) for row in some} for some in (tested, rows))
    untested = ngettext(
        "{n:,} slice is not tested: it has fewer than {few} units, or the rest has none.",
        "{n:,} slices are not tested: they have fewer than {few} units, or the rest has none.",
        len(every - seen),
        few=FEW,
    )
    if not tested:
        yield finding(count.name, "info", untested)
        return
    found = sorted((row for row in tested if row["p_holm"] <= 1 - confidence), key=_prominence)
    first_of: dict[tuple[str, str], Json] = {}
    for row in found:
        first_of.setdefault((row["column"], row["value"]), row)
    differ = [*first_of.values()]
    looked = ngettext("{n:,} slice in {tests:,} tests", "{n:,} slices in {tests:,} tests", len(seen), tests=len(tested))
    if not differ:
        text = gettext("No slice is shown to differ from the rest ({looked}, Holm).", looked=looked)
    else:
        names = joined([_slice(row) for row in differ[:MOST_SLICES]], gettext("; "))
        text = gettext("Different from the rest ({looked}, Holm): {names}.", looked=looked, names=names)
        if len(differ) > MOST_SLICES:
            text = gettext("{text} {more:,} more differ.", text=text, more=len(differ) - MOST_SLICES)
        if len({_is_worse(row) for row in differ} - {None}) > 1:
            why = gettext("The better ones may differ only because the rest holds the worse ones.")
            text = gettext("{first} {second}", first=text, second=why)
    if every - seen:
        text = gettext("{first} {second}", first=text, second=untested)
    yield finding(count.name, "warn" if differ else "info", text)
    shrunk = [row for row in rows if row["shrunk"] and CATALOG.better(row["metric"]) == "higher"]
    first = next((name for name in COLUMNS["sliced"] if any(row["metric"] == name for row in shrunk)), None)
    if first is not None:
        shrunk = [row for row in shrunk if row["metric"] == first]
        row = min(shrunk, key=lambda row: row["shrunk"]["value"])
        value = interval(Metric(first, row["shrunk"]["value"], row["shrunk"]["low"], row["shrunk"]["high"]))
        text = gettext(
            "Lowest of {n:,} slices: {column} {slice}, {metric} {value}. The estimate is moved toward the mean of its "
            "column, because the lowest of many looks worse than it is. The interval holds for all slices at once.",
            n=len(shrunk),
            column=row["column"],
            slice=row["value"],
            metric=metric_measure(first),
            value=value,
        )
        yield finding(slice_name(row["column"], row["value"], first), "info", text)


def _is_worse(row: Json) -> bool | None:
    """Return whether a slice is worse than the rest; `None` if neither direction is better."""
    better = CATALOG.better(row["metric"])
    return None if better is None else (row["estimate"] < row["rest"]) == (better == "higher")


def _prominence(row: Json) -> tuple[bool, float, float]:
    """Return a sort key of slices that differ: worse ones first, then by significance."""
    return not _is_worse(row), row["p_holm"], -abs(row["estimate"] - row["rest"])


def _slice(row: Json) -> Text:
    value = interval(Metric(row["metric"], row["estimate"], row["low"], row["high"]))
    return gettext(
        "{column} {slice}, {metric} {value} against {rest}",
        column=row["column"],
        slice=row["value"],
        metric=metric_measure(row["metric"]),
        value=value,
        rest=fixed(row["rest"], 2),
    )


def correction_findings(metrics: Metrics) -> Iterator[Finding]:
    """Yield the judge's rates corrected by the labeled cases, if other cases have no label."""
    for name, what in RATES.items():
        judged, right = known(metrics, name), known(metrics, f"corrected/{name}")
        if judged is None or right is None or right.low is None or RANDOM not in (right.note or ""):
            continue
        off = _beyond(judged, right)
        text = {
            "above": gettext(
                "{what}: {judged} as judged, {corrected} corrected by {n:,} labels; the judge gives this verdict too "
                "often."
            ),
            "below": gettext(
                "{what}: {judged} as judged, {corrected} corrected by {n:,} labels; the judge gives this verdict too "
                "rarely."
            ),
            None: gettext("{what}: {judged} as judged, {corrected} corrected by {n:,} labels."),
        }[off]
        text = text.fill(what=what, judged=percent(judged), corrected=percent(right))
        yield finding(right, "warn" if off else "info", text)


def _beyond(judged: Metric, right: Metric) -> str | None:
    """Return on which side of the corrected interval the judge's rate is; `None` if it is inside."""
    if judged.value is None or right.low is None or right.high is None or right.low <= judged.value <= right.high:
        return None
    return "above" if judged.value > right.high else "below"


def _benchmarks(metrics: Metrics) -> list[Benchmark]:
    """Return the benchmarks whose metrics a run has: at most one, unless metrics were collected from several runs."""
    groups = dict.fromkeys(name.partition("/")[0] for name in metrics)
    found = [benchmark_named(group) for group in groups if group not in CATALOG.groups]
    return [benchmark for benchmark in found if benchmark is not None]


def benchmark_finding(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield the main metric of the run's benchmark, with its interval."""
    for benchmark in _benchmarks(metrics):
        caveat: Text | str = ""
        metric = known(metrics, getattr(benchmark, "main_metric", ""))
        if metric is None and (substitute := getattr(benchmark, "substitute", None)) is not None:
            name, caveat = substitute
            metric = known(metrics, name)
        if metric is not None:
            text = gettext(
                "By {benchmark}'s own rule: {measure} {value} (n = {n:,}).{caveat}",
                benchmark=benchmark_title(benchmark),
                measure=metric_measure(metric.name),
                caveat=caveat,
            )
            yield finding(metric, "info", text)


def label_words(metrics: Metrics) -> Text:
    """Return how to name the labels: annotators' only if annotators are named or the benchmark has such labels."""
    found = _benchmarks(metrics)
    named = not found and any(name.startswith("human/") for name in metrics)
    if named or any(getattr(benchmark, "human_labels", False) for benchmark in found):
        return gettext("the annotators' labels")
    return gettext("the labels")
