"""Clusters of cases, the unit of resampling: cases of one cluster, such as those with
the same prompt, are dependent.

The cluster bootstrap samples whole clusters with replacement (Davison and Hinkley 1997, Bootstrap
Methods and their Application, section 3.8; Cameron, Gelbach and Miller 2008, Rev. Econ. Stat. 90,
414-427).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.config import RunConfig
from evalkit.core.benchmark_discovery import find_benchmark
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.hashing import pair_digest
from evalkit.core.turns import CONVERSATION, UNIT_KEYS
from evalkit.core.types import Case
from evalkit.core.values import frozen
from evalkit.scoring.stats.arrays import Bools, Floats, Ints

CHUNK = 2**22
"""Weights held at a time: 32 MiB, for any number of cases and resamples."""
PROMPT, ID = "prompt", "id"
NOTE = "clusters: "
"""Prefix of the note on clusters."""


FOLDS = 5


@frozen
class Clusters:
    """The cluster of each case.

    Attributes:
        cases: the number of cases.
        count: the number of clusters.
        number: (cases,) the cluster of each case, in order of first appearance; `None` if each case
            is its own cluster.
        by: the column that defines the clusters.
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
    def of(
        cls, config: RunConfig, cases: Sequence[Case], column: str | None = None
    ) -> Clusters:
        """Return the clusters of cases defined by `column`, or else by `scoring.cluster`.

        By default, the turns or steps of a conversation form a cluster, and else cases with the
        same prompt and context, or in a benchmark those with the same question. Each case is its
        own cluster if all cases have the same prompt or the prompt is empty.

        Args:
            config: the run's config.
            cases: its cases.
            column: the column that defines the clusters.

        Raises:
            ConfigError: if no case has the column.
        """
        named = column or config.scoring.cluster
        if config.dataset.benchmark is None:
            default = None
        else:
            default = find_benchmark(config.dataset.benchmark).cluster
        if named is None and len(cases) and cases[0].metadata.keys() >= {*UNIT_KEYS}:
            named = CONVERSATION
        if (
            named is None
            and default is not None
            and any(default in case.metadata for case in cases)
        ):
            named = default
        if named == ID or not len(cases):
            return cls.each(len(cases))
        if named is None or named == PROMPT:
            keys = [
                _key((text, case.context)) if (text := case.prompt.strip()) else 0
                for case in cases
            ]
        else:
            keys = [_key(case.metadata.get(named)) for case in cases]
            if not any(keys):
                raise _unknown_column(named, cases)
        return cls.by_key(keys, named or PROMPT, explicit=named is not None)

    @classmethod
    def by_key(cls, keys: Sequence[int], by: str, *, explicit: bool = True) -> Clusters:
        """Return the clusters of equal keys; a case with key 0 is its own cluster.

        Args:
            keys: the key of each case.
            by: the name of the column that the keys are from.
            explicit: whether the user chose the column; if not, one key for all cases makes each
                case its own cluster.
        """
        hashes = np.array(keys, dtype=np.int64)
        # first: (keys,) the first case with each key; number: (cases,) the position of its key
        _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
        # Each case by the first one of its cluster.
        cases = np.arange(len(hashes))
        of = np.where(hashes == 0, cases, first[number])
        # Clusters are numbered by first case, because hashes of strings differ between processes.
        first_cases = np.unique(of)
        if len(first_cases) == len(hashes) or (len(first_cases) == 1 and not explicit):
            return cls.each(len(hashes))
        number_of_case = np.searchsorted(first_cases, of)
        return cls(len(hashes), len(first_cases), number_of_case, by)

    def of_clusters(self) -> Clusters:
        """Return the clusters of an array with one row for each cluster."""
        if self.number is None:
            return self
        return Clusters(self.count, self.count, np.arange(self.count), self.by)

    def of_rows(self, case: Ints) -> Ints:
        """Return the cluster of each row, given its case."""
        if self.number is None:
            return case
        return np.asarray(self.number[case])

    def by_id(self, cases: Sequence[Case]) -> dict[str, int]:
        """Return the cluster of each case by its id; empty if each case is its own cluster."""
        if self.number is None:
            return {}
        return {c.id: int(n) for c, n in zip(cases, self.number, strict=True)}

    def sums(self, values: NDArray[Any]) -> Floats:
        """Return the sum over each cluster of a per-case number."""
        if self.number is None:
            return np.asarray(values, dtype=np.float64)
        return np.asarray(
            np.bincount(self.number, weights=values, minlength=self.count),
            dtype=np.float64,
        )

    def folds(self, cases: Sequence[Case], needed: Bools | None = None) -> Ints:
        """Return the fold of each case, 0 to 4, by the id of the first case of its cluster.

        Args:
            cases: The cases.
            needed: (cases,) whose folds are needed; by default all. A cluster of one case has
                fold 0 if it is not needed.
        """
        if self.number is not None or needed is None:
            needed = np.ones(len(cases), dtype=bool)
        rows = zip(cases, needed.tolist(), strict=True)
        case_folds = np.array(
            [
                int(pair_digest("fold", case.id)[:8], 16) % FOLDS if is_needed else 0
                for case, is_needed in rows
            ],
            dtype=np.int64,
        )
        if self.number is None:
            return case_folds
        # All cases of a cluster are in the fold of its first case.
        first = np.unique(self.number, return_index=True)[1]
        return np.asarray(case_folds[first][self.number])

    def covered(self, cases: Bools) -> int:
        """Return the number of clusters with at least one of the `cases`, given as a mask."""
        if self.number is None:
            return int(np.count_nonzero(cases))
        return len(np.unique(self.number[cases]))

    def to_cases(self, weights: Floats) -> Floats:
        """Return weights of clusters (rows, clusters) as weights of cases (rows, cases)."""
        if self.number is None:
            return weights
        return np.asarray(weights[:, self.number])

    def draw(self, resamples: int, seed: int) -> Iterator[tuple[slice, Floats]]:
        """Yield (rows, weights): how often each cluster is sampled in each resample, in
        bounded chunks.
        """
        generator = np.random.default_rng(seed)
        count = self.count
        # Resamples in a chunk. `to_cases` widens rows to cases, so the larger number counts.
        step = max(1, CHUNK // max(self.cases, count))
        # Resamples sampled at a time: the sampled numbers take a sixteenth of a chunk.
        few = max(1, CHUNK // (16 * count))
        for start in range(0, resamples, step):
            # shape (resamples of this chunk, clusters)
            counts = np.empty((min(step, resamples - start), count))
            for first in range(0, len(counts), few):
                part = counts[first : first + few]
                sampled = generator.integers(0, count, size=part.shape)
                # Each resample has its own range of `count` bins: one `bincount` counts all.
                sampled += count * np.arange(len(part))[:, None]
                part[:] = np.bincount(sampled.ravel(), minlength=part.size).reshape(
                    part.shape
                )
            yield slice(start, start + len(counts)), counts

    def note(self) -> str | None:
        """Return a note on the clusters, or `None` if each case is its own cluster."""
        if self.number is None:
            return None
        return (
            f"{NOTE}{self.cases} cases in {self.count} clusters by {self.by}; intervals and tests"
            " resample clusters"
        )


def _key(value: Any) -> int:
    """Return a hash of a value, 0 for no value; cluster numbers do not depend on it."""
    if value is None or value == "":
        return 0
    if not isinstance(value, str | int | tuple):
        value = repr(value)
    return hash((value,)) or 1


def check_column(column: str | None, cases: Iterable[Case]) -> None:
    """Check the value of `scoring.cluster`, reading no more cases than it takes.

    Raises:
        ConfigError: if it is a column that no case has.
    """
    if (
        column is not None
        and column not in (ID, PROMPT)
        and not any(_key(case.metadata.get(column)) for case in cases)
    ):
        raise _unknown_column(column, cases)


def _unknown_column(column: str, cases: Iterable[Case]) -> ConfigError:
    names = {name: None for case in cases for name in case.metadata}
    remedy = did_you_mean(column, [ID, PROMPT, *names])
    return ConfigError(
        "no case has this column", where=f"scoring.cluster={column}", remedy=remedy
    )
