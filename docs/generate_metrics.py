"""Write docs/reference/metrics.md from the metric catalog: `python docs/generate_metrics.py`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from evalkit.scoring.catalog import CATALOG, MetricSpec, full_catalog
from evalkit.scoring.catalog.spec import BOOTSTRAP, BOTH, EVERY

PAGE = Path(__file__).parent / "reference" / "metrics.md"
INTRODUCTION = """# Metrics

<!-- Written by docs/generate_metrics.py. Edit the rows in evalkit/scoring/catalog and evalkit/benchmarks. -->

`n` counts the units behind a metric, and `missing` those that are not there.
`worst_low` and `worst_high` are its value if every missing answer had gone against it, or for it.
A metric without a value has a `note` that gives the reason.

An entry names what differs from its group, and from this:
a metric is a share from 0 to 1, of all modes that give such verdicts.
Its interval, `low` to `high`, is the percentiles of a bootstrap that resamples clusters of cases.
A share of exactly 0 or 1 has an exact binomial interval.
A coefficient is from -1 to 1, and 0 by chance.

Each judge of a panel also has its own metrics, named `judge/NAME/METRIC`.
An arrow says whether higher (↑) or lower (↓) values are better.
Names in braces are placeholders, such as `{criterion}` or `{model}`.
The chance level is the value for a judge that ignores the responses.
"""
BENCHMARKS = """## Benchmarks

A run has the metrics of the benchmark that `dataset.benchmark` names.
"""
SCOPES = {"comparison": "a comparison of runs", "sweep": "a sweep"}
ARROWS = {"higher": "↑", "lower": "↓"}
USUAL = {
    "scope": "",
    "range": "Range: 0 to 1 (share).",
    "modes": "Modes: all.",
    "needs": "Needs nothing else.",
    "interval": "Interval: bootstrap.",
    "source": "Source: none",
}
"""The facts that an entry leaves out, unless most of its group differ from them."""


def page() -> str:
    """Return the page: evalkit's own metrics by group, then those of benchmarks."""
    published = [row for row in full_catalog().rows if row.benchmark]
    cited: set[str] = set()
    return "\n".join(
        [
            INTRODUCTION,
            *_groups(CATALOG.rows, "##", cited),
            BENCHMARKS,
            *_groups(published, "###", cited),
        ]
    )


def _groups(rows: Sequence[MetricSpec], level: str, cited: set[str]) -> Iterator[str]:
    for group, members in groupby(rows, key=lambda row: row.group):
        entries = list(members)
        shared = _shared(entries)
        yield f"{level} {group}\n"
        if shared:
            yield f"{' '.join(shared.values())}\n"
        for row in entries:
            yield _entry(row, entries, shared, cited)


def _shared(rows: Sequence[MetricSpec]) -> dict[str, str]:
    """Return the facts that most entries of a group have, which its first line says once."""
    shared = {}
    for name, usual in USUAL.items():
        facts = [_details(row)[name] for row in rows]
        most, count = Counter(facts).most_common(1)[0]
        if most != usual and count > 1 and 2 * count > len(rows):
            shared[name] = most
    return shared


def _details(row: MetricSpec) -> dict[str, str]:
    """Return the facts of a metric that a group can share, each as a sentence."""
    modes = f"Modes: {', '.join(row.modes)}."
    return {
        "scope": f"Measured in {SCOPES[row.scope]}." if row.scope != "run" else "",
        "range": "Coefficient." if _is_coefficient(row) else f"Range: {_range(row)}.",
        "modes": USUAL["modes"] if row.modes in (BOTH, EVERY) else modes,
        "needs": f"Needs {row.needs}." if row.needs else USUAL["needs"],
        "interval": USUAL["interval"]
        if row.interval == BOOTSTRAP
        else f"Interval: {row.interval}.",
        "source": f"Source: {row.source}" if row.source else USUAL["source"],
    }


def _entry(
    row: MetricSpec,
    group: Sequence[MetricSpec],
    shared: dict[str, str],
    cited: set[str],
) -> str:
    usual = USUAL | shared
    differing = {
        name: fact for name, fact in _details(row).items() if fact != usual[name]
    }
    source = differing.pop("source", None)
    arrow = f" {ARROWS[row.better]}" if row.better else ""
    by_chance = row.chance is not None and not _is_coefficient(row)
    facts = [f"Chance level: {_number(row.chance)}."] if by_chance else []
    facts += differing.values()
    lines = [f"Formula: {row.formula}"] if row.formula else []
    lines += [" ".join(facts)] if facts else []
    if source:
        # The first mention has the place of publication, later ones the authors and the year.
        lines.append(
            re.split(r"(?<=\d{4}), ", source)[0] if source in cited else source
        )
        cited.add(source)
    return "\n".join(
        [
            f"`{row.name}`{arrow}",
            f":   {_definition(row, group)}",
            "",
            *(part for line in lines for part in (f"    {line}", "")),
        ]
    )


def _definition(row: MetricSpec, group: Sequence[MetricSpec]) -> str:
    """Return the definition, which names the metric of the group that it repeats for a part."""
    for other in group:
        same, _, part = row.definition.partition("; for ")
        if part and f"{same}." == other.definition:
            return f"`{other.name}` for {part}"
    return row.definition


def _is_coefficient(row: MetricSpec) -> bool:
    return (row.unit, row.low, row.high, row.chance) == ("coefficient", -1, 1, 0)


def _range(row: MetricSpec) -> str:
    ends = {(True, True): "any number", (False, True): f"{_number(row.low)} or more"}
    return (
        f"{ends.get((row.low is None, row.high is None), f'{_number(row.low)} to {_number(row.high)}')}"
        f" ({row.unit})"
    )


def _number(value: float | str | None) -> str:
    return f"{value:g}" if isinstance(value, float | int) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
