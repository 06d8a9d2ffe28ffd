"""What the rules of published benchmarks look at: cases with their metadata, passes, scores and labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.columns.cases import Pairs
from evalkit.scoring.columns.codes import sign
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints, group_mean
from evalkit.scoring.stats.bootstrap import Tally
from evalkit.scoring.verdicts.aggregate import pair_margins
from evalkit.scoring.verdicts.outcome import Outcome
from evalkit.scoring.verdicts.pairs import combine_samples, over_orders
from evalkit.types import Case

SUBSET = "subset"


@dataclass(frozen=True, slots=True)
class View:
    """One run's outcome on a benchmark's cases. Rows are pairs, in the order of `pairs`, unless said otherwise."""

    config: RunConfig
    cases: Sequence[Case]
    outcome: Outcome

    @property
    def pairs(self) -> Pairs:
        """Every pair of every case."""
        return self.outcome.resolved.pairs

    @property
    def tally(self) -> Tally:
        """Sums of pairs by case."""
        return Tally(self.pairs.case, len(self.cases))

    @property
    def cases_tally(self) -> Tally:
        """Sums of values that there is one of for each case."""
        return Tally(np.arange(len(self.cases)), len(self.cases))

    @property
    def labelled(self) -> Bools:
        """Which pairs have a label."""
        return self.outcome.resolved.labelled

    @property
    def passes(self) -> Codes:
        """Who won each pass: (pairs, 2) where both orders are judged, else (pairs, 1). Thresholds of ties do not count.

        Scores have one: the sign of their difference.
        """
        shown = self.outcome.shown
        if shown is None:
            return self.outcome.resolved.lean[:, None]
        if shown.both:
            return shown.winner
        return np.where(shown.read[:, :1], shown.winner[:, :1], shown.winner[:, 1:]).astype(np.int8)

    @property
    def both(self) -> bool:
        """Whether each pair was judged in both orders."""
        return self.outcome.shown is not None and self.outcome.shown.both

    def mean_margin(self) -> Floats:
        """Return each pair's mean margin over orders, each the mean of its samples; NaN where none could be read."""
        if self.outcome.shown is None:
            return self.outcome.resolved.margin
        columns = self.outcome.columns
        passes = combine_samples(columns, pair_margins(self.config, columns), self.pairs, "mean")
        return over_orders(passes.margin)

    def of_cases(self, key: str) -> list[Any]:
        """Return what the metadata of each case holds under a key, none where it holds nothing."""
        return [case.metadata.get(key) for case in self.cases]

    def subsets(self, *keys: str) -> dict[str, Bools]:
        """Return which cases are of each subset, by its name in metrics, in alphabetical order.

        The name stands under the first of `keys` that a case's metadata have, by default under `subset`.
        """
        found = [
            next((case.metadata[key] for key in keys or (SUBSET,) if case.metadata.get(key)), "") for case in self.cases
        ]
        return by_name([slug(str(name)) for name in found])

    def scores(self) -> Floats | None:
        """Return each response's score before any normalisation, NaN where missing; none if nothing has scores."""
        return None if self.outcome.scored is None else self.outcome.scored.raw

    def criterion_scores(self, name: str) -> Floats | None:
        """Return each response's score by one criterion, the mean of its samples; none if it was not judged by it."""
        scored, columns = self.outcome.scored, self.outcome.ranks or self.outcome.columns
        if scored is None or name not in columns.names:
            return None
        values = columns.criteria[:, columns.names.index(name)]
        return group_mean(scored.offset[columns.case] + columns.i, values, len(scored.case))

    def comparisons(self, case: Ints, i: Ints, j: Ints) -> Codes:
        """Return who won each comparison of two responses, `i` < `j`: by score if there are scores, else as judged."""
        scored = self.outcome.scored
        if scored is None:
            return self.outcome.resolved.lean[self.pairs.find(case, i, j)]
        place = scored.offset[case]
        return sign(scored.raw[place + i] - scored.raw[place + j])


def by_name(names: Sequence[str]) -> dict[str, Bools]:
    """Return which places hold each name, in alphabetical order; an empty one is none."""
    column = np.array(names, dtype=object)
    return {name: np.asarray(column == name) for name in sorted(set(names) - {""})}


def slug(text: str) -> str:
    """Return a name as it stands in metrics: lower case, anything but letters, digits, dots and dashes as `_`."""
    return re.sub(r"[^\w.-]+", "_", text.strip()).strip("_").lower()
