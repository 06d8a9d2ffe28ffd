"""Clusters of cases, the unit that is resampled: cases of one cluster, such as those on one prompt, are dependent.

The bootstrap of clusters draws whole clusters with replacement (Davison and Hinkley 1997, Bootstrap Methods and their
Application, section 3.8; Cameron, Gelbach and Miller 2008, Rev. Econ. Stat. 90, 414-427).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.config import RunConfig
from evalkit.errors import ConfigError, did_you_mean
from evalkit.plugins import find_benchmark
from evalkit.scoring.stats.arrays import Bools, Floats, Ints
from evalkit.types import Case

CHUNK = 2**22
"""Weights held at once: 32 MiB of them, whatever the number of cases and resamples."""
PROMPT, ID = "prompt", "id"
NOTE = "clusters: "


@dataclass(frozen=True, slots=True)
class Clusters:
    """The cluster of each of `cases`, as numbers in order of first appearance; no `number` where each is its own.

    `by` is the column that makes the clusters.
    """

    cases: int
    count: int
    number: Ints | None = None
    by: str = ID

    @classmethod
    def each(cls, cases: int) -> Clusters:
        """Return every case as its own cluster."""
        return cls(cases, cases)

    @classmethod
    def of(cls, config: RunConfig, cases: Sequence[Case], column: str | None = None) -> Clusters:
        """Return the clusters of cases that `column`, or else `scoring.cluster`, makes.

        Without either, cases with the same prompt and context form a cluster, or those with the same question of the
        benchmark. A prompt that all cases have says nothing, and neither does an empty one: each case is its own then.

        Raises:
            ConfigError: if no case has the column.
        """
        named = column or config.scoring.cluster
        usual = None if config.dataset.benchmark is None else find_benchmark(config.dataset.benchmark).cluster
        if named is None and usual is not None and any(usual in case.metadata for case in cases):
            named = usual
        if named == ID or not len(cases):
            return cls.each(len(cases))
        if named is None or named == PROMPT:
            keys = [_prompt(case) for case in cases]
        else:
            keys = [_value(case.metadata.get(named)) for case in cases]
            if not any(keys):
                raise _unknown(named, cases)
        return cls.by_key(keys, named or PROMPT, told=named is not None)

    @classmethod
    def by_key(cls, keys: Sequence[int], by: str, *, told: bool = True) -> Clusters:
        """Return the clusters of equal keys; 0 is none. If it was not `told`, one key for all is no cluster either."""
        hashes = np.array(keys, dtype=np.int64)
        alone = hashes == 0
        _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
        if alone.any() or len(first) == len(hashes):
            own = np.where(alone, np.arange(len(hashes)), first[number])
        else:
            own = first[number]
        places = np.unique(own)
        if len(places) == len(hashes) or (len(places) == 1 and not told):
            return cls(len(hashes), len(hashes), None, ID)
        return cls(len(hashes), len(places), np.searchsorted(places, own), by)

    def themselves(self) -> Clusters:
        """Return the clusters of what has one row for each cluster."""
        return self if self.number is None else Clusters(self.count, self.count, np.arange(self.count), self.by)

    def of_rows(self, case: Ints) -> Ints:
        """Return the cluster of each row, whose case is given."""
        return case if self.number is None else np.asarray(self.number[case])

    def by_id(self, cases: Sequence[Case]) -> dict[str, int]:
        """Return the cluster of each case by its id; nothing where each case is its own."""
        return {} if self.number is None else {c.id: int(n) for c, n in zip(cases, self.number, strict=True)}

    def sums(self, values: NDArray[Any]) -> Floats:
        """Return the sum over each cluster of a number for each case."""
        if self.number is None:
            return np.asarray(values, dtype=np.float64)
        return np.asarray(np.bincount(self.number, weights=values, minlength=self.count), dtype=np.float64)

    def covered(self, cases: Bools) -> int:
        """Return how many clusters have one of the `cases`, given as a mask."""
        if self.number is None:
            return int(np.count_nonzero(cases))
        return len(np.unique(self.number[cases]))

    def spread(self, weights: Floats) -> Floats:
        """Return weights of clusters (columns) as weights of cases."""
        return weights if self.number is None else np.asarray(weights[:, self.number])

    def draw(self, resamples: int, seed: int) -> Iterator[tuple[slice, Floats]]:
        """Yield, in chunks of bounded size, how often each cluster stands in each resample: (rows, rows × clusters)."""
        generator = np.random.default_rng(seed)
        count = self.count
        step, few = max(1, CHUNK // max(self.cases, count)), max(1, CHUNK // (16 * count))
        for start in range(0, resamples, step):
            counts = np.empty((min(step, resamples - start), count))
            for first in range(0, len(counts), few):
                part = counts[first : first + few]
                drawn = generator.integers(0, count, size=part.shape)
                drawn += count * np.arange(len(part))[:, None]
                part[:] = np.bincount(drawn.ravel(), minlength=part.size).reshape(part.shape)
            yield slice(start, start + len(counts)), counts

    def note(self) -> str | None:
        """Return what a run says of its clusters, nothing where each case is its own."""
        if self.number is None:
            return None
        return f"{NOTE}{self.cases} cases in {self.count} clusters by {self.by}; intervals and tests resample clusters"


def _prompt(case: Case) -> int:
    text = case.prompt.strip()
    return _value((text, case.context)) if text else 0


def _value(value: Any) -> int:
    """Return a hash of a value, 0 for none; the numbers of clusters do not depend on it."""
    if value is None or value == "":
        return 0
    return hash((value if isinstance(value, str | int | tuple) else repr(value),)) or 1


def _unknown(column: str, cases: Sequence[Case]) -> ConfigError:
    known = {name: None for case in cases for name in case.metadata}
    remedy = did_you_mean(column, [ID, PROMPT, *known])
    return ConfigError("no case has this column", where=f"scoring.cluster={column}", remedy=remedy)
