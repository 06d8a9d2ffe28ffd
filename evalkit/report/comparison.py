"""The tables and sentences of a comparison of runs, for the terminal and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.core.display import number, p_value, with_interval
from evalkit.core.translation import in_every_language
from evalkit.report.findings.decisions import USES
from evalkit.scoring.catalog import COLUMNS
from evalkit.scoring.compare import Comparison, Difference
from evalkit.scoring.decision import Decision

STOP = "runner.stop"
"""Marks the metric that may stop a run, on all of its cases."""


def values_table(
    comparison: Comparison, decisions: Sequence[Decision] = ()
) -> list[list[str]]:
    """Return the head and the rows of the table of each run's metrics, after the
    decisions if there are any.
    """
    rows = [["metric", *comparison.runs]]
    # Metrics of the pairs that all runs have differ from decisions on all cases.
    whole = " (all cases)" if any(comparison.left_out.values()) else ""
    if decisions:
        rows.append(
            [
                f"decision{whole}",
                *(in_every_language(USES[decision.use])[0] for decision in decisions),
            ]
        )
    by_name: dict[str, dict[str, str]] = {}
    for entry in comparison.entries:
        # The metrics of the catalog's comparison, and those that are tested.
        if entry.metric.value is not None and entry.metric.name in (
            *COLUMNS["compared"],
            *comparison.family,
        ):
            mark = f" {entry.letters}" if entry.letters else ""
            by_name.setdefault(entry.metric.name, {})[entry.run] = (
                with_interval(entry.metric) + mark
            )
    # The metric that may stop a run is of all of its cases, not of the common ones.
    for entry in comparison.stops:
        by_name.setdefault(f"{entry.metric.name} ({STOP})", {})[entry.run] = (
            with_interval(entry.metric)
        )
    return [
        *rows,
        *(
            # A dash where a run has no such metric.
            [name, *(values.get(run, "–") for run in comparison.runs)]
            for name, values in by_name.items()
        ),
    ]


def differences_table(comparison: Comparison) -> list[list[str]]:
    """Return the head and the rows of the table of differences between runs, and of
    their agreement.
    """
    # Tested differences come first, then agreement between runs, which has no sign.
    tested = [d for d in comparison.differences if d.metric.name in comparison.family]
    return [
        [
            "first − second",
            "metric",
            "difference",
            "n",
            "test",
            "p",
            "Holm",
            "detectable",
        ],
        *(
            [
                # A sign only for differences: agreement has no direction.
                f"{d.first} − {d.second}" if d in tested else f"{d.first}, {d.second}",
                d.metric.name,
                with_interval(d.metric, signed=d in tested),
                str(d.metric.n),
                d.test or "",
                p_value(d.p),
                p_value(d.p_holm),
                number(d.detectable) if d.detectable is not None else "",
            ]
            for d in [*tested, *comparison.between]
        ),
    ]


def sentences(comparison: Comparison) -> list[str]:
    """Return what each test found, as a sentence."""
    alpha = 1 - comparison.confidence
    if not comparison.family:
        return [
            "Nothing could be tested: no metric of agreement or of scores has a value in every run."
        ]
    return [
        _sentence(d, alpha)
        for d in comparison.differences
        if d.metric.name in comparison.family
    ]


def _sentence(d: Difference, alpha: float) -> str:
    """Return a sentence on a difference of two runs: its size, and if it is significant."""
    subject = f"{d.first} and {d.second} in {d.metric.name}"
    p = p_value(d.p_holm, "= ")
    value = f"{with_interval(d.metric, signed=True)} (n = {d.metric.n:,})"
    # Without a p-value there was nothing to test.
    if d.p_holm is None:
        return f"No difference found between {subject}: {value}; {d.test}."
    if d.p_holm <= alpha:
        return f"A difference between {subject}: {value}, p {p}."
    power_note = ""
    if d.detectable is not None:
        power_note = (
            f"; with these cases one of {number(d.detectable)} would probably have been"
        )
    # No difference of two accuracies is above 1.
    if (
        d.detectable is not None
        and d.detectable > 1
        and d.metric.name.startswith("agreement/accuracy")
    ):
        power_note = "; these cases are too few to show any"
    return f"No difference found between {subject}: {value}, p {p}{power_note}."
