"""Rows of the metric catalog, and lookup of metrics by name, including names with placeholders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

from evalkit.core.translation import Text

Better: TypeAlias = Literal["higher", "lower"]
Scope: TypeAlias = Literal["run", "comparison", "sweep"]

BOTH: Final = ("pairwise", "pointwise", "listwise", "checklist")
PAIRS: Final = ("pairwise", "listwise")
SCORES: Final = ("pointwise", "listwise", "checklist")
POINTWISE: Final = ("pointwise", "checklist")
CHECKLISTS: Final = ("checklist",)

CLASSES: Final = ("classes",)
"""Mode pointwise with `rubric.classes`: a class for each response instead of a score."""
EVERY: Final = (*BOTH, *CLASSES)

BOOTSTRAP: Final = "cluster bootstrap percentiles"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row of the catalog.

    Attributes:
        name: the metric's name; `{placeholders}` depend on a run's config or data.
        title: the title in reports, in English; translations are in `evalkit/locale`.
        definition: the definition in one sentence.
        formula: the computation, if a sentence is not precise enough.
        unit: `share`, `coefficient`, or the unit of its values.
        low: the lowest possible value; `None` if there is none.
        high: the highest possible value; `None` if there is none.
        better: whether higher or lower values are better; `None` if neither is.
        chance: the value for a judge that ignores the responses: a number, a description if it
            depends on the run, or `None`.
        headline: whether the summary of a run shows it.
        hidden_at_zero: whether the summary omits it at 0.
        stops: whether a run can stop once it is known (`runner.stop`): a mean of at most one value
            for each pair or response, which depends on no other cluster.
        labels: for metrics that compare the judge with labels, outside the groups of which all do:
            `weighted` if they have the weights of labels, otherwise `unweighted`.
        source: paper and section.
        modes: the modes that can have it; `classes` is mode pointwise with a rubric of classes.
        needs: the setting or data that it requires.
        interval: the kind of interval.
        scope: where it is computed: in a run, between two compared runs, or between the jobs of a
            sweep.
        benchmark: the title of its benchmark, if `dataset.benchmark` selects it; the catalog sets
            this and the rest.
        values: the values of placeholders that have the same ones in every run.
        extra_values: values of placeholders in addition to those in the cases, such as models and
            subsets.
        words: what values of placeholders are called in reports, if not by themselves.
    """

    name: str
    title: str
    definition: str
    formula: str = ""
    unit: str = "share"
    low: float | None = 0.0
    high: float | None = 1.0
    better: Better | None = None
    chance: float | str | None = None
    headline: bool = False
    hidden_at_zero: bool = False
    stops: bool = False
    labels: str = ""
    source: str = ""
    modes: tuple[str, ...] = BOTH
    needs: str = ""
    interval: str = BOOTSTRAP
    scope: Scope = "run"
    benchmark: str = ""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    extra_values: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    words: Mapping[str, Text | str] = field(default_factory=dict, hash=False)

    @property
    def group(self) -> str:
        """The first part of the name."""
        return self.name.partition("/")[0]

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names in braces in the metric's name."""
        return tuple(_PLACEHOLDER.findall(self.name))

    @property
    def is_coefficient(self) -> bool:
        """Whether it is a coefficient of agreement or correlation."""
        return self.unit == "coefficient"


_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_ANY = ("class", "criterion", "system", "metric")
"""Placeholders whose values may contain slashes."""


@dataclass(frozen=True, slots=True)
class Match:
    """The row of a metric's name, the value of each placeholder, and the judge of a panel."""

    spec: MetricSpec
    values: Mapping[str, str]
    judge: str | None = None


class Catalog:
    """Rows by name, in order.

    Args:
        rows: The rows.
        elsewhere: Returns the catalog of a group of metrics that comes before these rows, `None` if
            there is none.
    """

    def __init__(
        self,
        rows: Iterable[MetricSpec],
        elsewhere: Callable[[str], Catalog | None] = lambda _: None,
    ) -> None:
        self.rows = tuple(rows)
        self._elsewhere = elsewhere
        names = [row.name for row in self.rows]
        if duplicates := {name for name in names if names.count(name) > 1}:
            raise ValueError(
                f"the metric catalog has {', '.join(sorted(duplicates))} twice"
            )

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The groups, in the order of every table."""
        return tuple(dict.fromkeys(row.group for row in self.rows))

    def find(self, name: str) -> Match | None:
        """Return the row of a metric, `None` if it is not in the catalog.

        For a judge of a panel it is the row of the metric without `judge/NAME/`; the judge's name
        may contain slashes.
        """
        if name.startswith("judge/"):
            for slash in re.finditer("/", name.removeprefix("judge/")):
                end = len("judge/") + slash.end()
                if (match := self._find_here(name[end:])) is not None:
                    return replace(match, judge=name[len("judge/") : end - 1])
            return None
        return self._find_here(name)

    def spec(self, name: str) -> MetricSpec | None:
        """Return the row of a metric, `None` if it is not in the catalog."""
        match = self.find(name)
        if match is None:
            return None
        return match.spec

    def __getitem__(self, name: str) -> MetricSpec:
        return self._home(name)._exact[name]

    def _home(self, name: str) -> Catalog:
        """Return the catalog with a metric's group: this one, unless another has it."""
        group = name.partition("/")[0]
        if group in self.groups:
            return self
        return self._elsewhere(group) or self

    def _find_here(self, name: str) -> Match | None:
        """Return the entry of this catalog for a name, `None` if it has none."""
        home = self._home(name)
        if (row := home._exact.get(name)) is not None:
            return Match(row, {})
        for pattern, row in home._patterns.get(name.partition("/")[0], ()):
            if (match := pattern.fullmatch(name)) is not None:
                if "metric" in row.placeholders:
                    inner = self.spec(match["metric"])
                else:
                    inner = None
                if inner is not None:  # of a slice: on the scale of the metric
                    scale = {
                        key: getattr(inner, key)
                        for key in ("unit", "low", "high", "better", "chance")
                    }
                    row = replace(row, **scale)
                return Match(row, match.groupdict())
        return None

    @cached_property
    def _exact(self) -> dict[str, MetricSpec]:
        return {row.name: row for row in self.rows}

    @cached_property
    def _patterns(self) -> dict[str, list[tuple[re.Pattern[str], MetricSpec]]]:
        """Patterns by group, the most specific first."""
        patterns: dict[str, list[tuple[re.Pattern[str], MetricSpec]]] = {}
        for row in sorted(self.rows, key=_looseness):
            if row.placeholders:
                patterns.setdefault(row.group, []).append((_pattern(row), row))
        return patterns

    def order(self, name: str) -> tuple[int, int]:
        """Return a sort key for tables: benchmarks, then by row, then the judges of a
        panel, then unknown metrics.

        Consecutive rows with placeholders are one block: their metrics keep the given order.
        """
        if name.startswith("judge/"):
            return 1, 0
        match = self.find(name)
        if match is None:
            return 2, 0
        home = self._home(match.spec.name)
        return 0 if home is self else -1, home._position_of[match.spec.name]

    @cached_property
    def _position_of(self) -> dict[str, int]:
        """The position of each name; neighbors with placeholders in one group share a position."""
        indices: dict[str, int] = {}
        previous: MetricSpec | None = None
        for index, row in enumerate(self.rows):
            same = (
                previous is not None
                and previous.placeholders
                and previous.group == row.group
            )
            indices[row.name] = (
                indices[previous.name]
                if previous and same and row.placeholders
                else index
            )
            previous = row
        return indices

    def better(self, name: str) -> Better | None:
        """Return whether higher or lower values of a metric are better; `None` if
        neither is, or it is unknown.
        """
        spec = self.spec(name)
        return None if spec is None else spec.better

    def chance(self, name: str) -> float | None:
        """Return a metric's value for a judge that ignores the responses, if it is the
        same number in all runs.
        """
        spec = self.spec(name)
        if spec is not None and isinstance(spec.chance, float | int):
            return spec.chance
        return None

    def is_headline(self, name: str) -> bool:
        """Return whether the summary of a run shows a metric; never those of single
        judges of a panel.
        """
        match = self.find(name)
        return match is not None and match.judge is None and match.spec.headline

    def main(self, names: Iterable[str], limit: int) -> list[str]:
        """Return at most `limit` of the headline metrics among `names`, in the order of `names`.

        If there are more, metrics that every run of a kind has come before those with a
        placeholder, such as the score of each subset; otherwise earlier rows come first.
        """
        headlines = [name for name in names if self.is_headline(name)]
        specs = {name: self.spec(name) for name in headlines}
        with_placeholder = {
            name
            for name, spec in specs.items()
            if spec is not None and spec.placeholders
        }
        first = sorted(
            headlines, key=lambda name: (name in with_placeholder, self.order(name))
        )
        kept = set(first[:limit])
        return [name for name in headlines if name in kept]


def _looseness(row: MetricSpec) -> tuple[int, int]:
    """Return a sort key that puts specific patterns before general ones."""
    free = [name for name in row.placeholders if name not in row.values]
    return len(free), len(row.placeholders)


def _pattern(row: MetricSpec) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(row.name)
    return re.compile(
        "".join(
            _group(part, row) if index % 2 else re.escape(part)
            for index, part in enumerate(parts)
        )
    )


def _group(placeholder: str, row: MetricSpec) -> str:
    if placeholder in _ANY:
        return f"(?P<{placeholder}>.+)"
    if placeholder in row.values:
        return f"(?P<{placeholder}>{'|'.join(map(re.escape, row.values[placeholder]))})"
    return f"(?P<{placeholder}>[^/]+)"
