"""Select the rows that become cases: filter, side of a split, seeded sample, shuffle and limit."""

from __future__ import annotations

import hashlib
import json
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from evalkit.config import DatasetConfig, SampleConfig, SplitConfig
from evalkit.core.errors import DatasetError
from evalkit.datasets.field_mapping import Columns, RowFault, condition, needed
from evalkit.datasets.labels import normalize_label
from evalkit.datasets.located_rows import Placed, Row

SIDES = ("dev", "test")
_WHERE = "dataset.split"
_MOST_NAMED = 5
"""The most values of the column of sides that a note quotes."""


class Division:
    """Decide whether a row is on the side that `config.use` names.

    With `fractions`, the side is a hash of the group and the seed: it depends on no other row. With
    `column`, the side of each group is kept, at about 100 bytes a group, to find a group with both
    sides.

    Args:
        config: The settings, with `column` or `fractions`.
        columns: The mapping that finds the prompt of a row.
    """

    def __init__(self, config: SplitConfig, columns: Columns) -> None:
        self._config, self._columns = config, columns
        self._side = (
            None if config.column is None else needed(config.column, f"{_WHERE}.column")
        )
        self._group = (
            None if config.by == "prompt" else needed(config.by, f"{_WHERE}.by")
        )
        self._seen: dict[bytes, tuple[str, str]] = {}
        self._others: Counter[str] = Counter()
        self.omitted = 0

    @property
    def use(self) -> str:
        """The side that is used."""
        return self._config.use

    def start(self) -> None:
        """Start again with the first row."""
        self._others.clear()
        self.omitted = 0

    def holds(self, row: Row, location: str) -> bool:
        """Return whether a row is used.

        Raises:
            DatasetError: If the row has no such column, or its group has rows on both sides.
        """
        group = self._group_of(row, location)
        if self._side is None:
            used = self._config.use in ("all", self._drawn(group))
        else:
            used = self._is_on_side(row, group, location)
        self.omitted += not used
        return used

    def notes(self) -> tuple[str, ...]:
        """Return notes on the rows that are omitted; empty if none is.

        Values of the column that name neither side are quoted, at most `_MOST_NAMED` of them.
        """
        use = self._config.use
        named = ", ".join(
            f"{count} '{value}'"
            for value, count in self._others.most_common(_MOST_NAMED)
        )
        notes: list[str] = []
        if named:
            notes.append(f"rows on neither side of dataset.split, omitted: {named}")
        other_side = self.omitted - sum(self._others.values())
        if other_side:
            notes.append(
                f"rows on the other side, omitted by dataset.split.use={use}: {other_side}"
            )
        return tuple(notes)

    def _drawn(self, group: bytes) -> str:
        assert self._config.fractions is not None
        drawn = hashlib.sha256(f"{self._config.seed}:".encode() + group).digest()[:8]
        return SIDES[int.from_bytes(drawn) >= self._config.fractions["dev"] * 2**64]

    def _is_on_side(self, row: Row, group: bytes, location: str) -> bool:
        """Return whether the column of sides puts a row on the side to use.

        Raises:
            DatasetError: If an earlier row of its group is on the other side.
        """
        assert self._side is not None
        side = normalize_label(self._side(row, location)).lower()
        if self._config.use == "all":
            return True
        if side not in SIDES:
            self._others[side] += 1
            return False
        before, first = self._seen.setdefault(group, (side, location))
        if before != side:
            remedy = "put rows of one group on one side, or set dataset.split.by to another column"
            problem = (
                f"the same {self._config.by} is on the side '{before}' in {first} and on '{side}'"
                " here"
            )
            raise DatasetError(problem, where=location, remedy=remedy)
        return side == self._config.use

    def _group_of(self, row: Row, location: str) -> bytes:
        if self._group is None:
            value = self._columns.need(row, "prompt", location)
        else:
            value = self._group(row, location)
        if isinstance(value, str):
            text = value.strip()
        else:
            text = json.dumps(value, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


Rows = Iterator[Placed]
Numbered = Iterator[tuple[int, str, Row]]


class Choice:
    """Select rows by `filter` and `division`, then `sample`, `shuffle_seed` and `limit`.

    Sampling, and shuffling with a limit, read the rows twice and use eight bytes per row. After the
    last row, `order` has the indices of the selected rows in shuffled order; `None` if they are not
    shuffled.
    """

    def __init__(self, config: DatasetConfig, division: Division | None = None) -> None:
        self._division = division
        self._sample = config.sample
        self._seed = config.shuffle_seed
        self._limit = config.limit
        self._holds = (
            None
            if config.filter is None
            else condition(config.filter, "dataset.filter")
        )
        stratify = None if config.sample is None else config.sample.stratify
        self._stratum = (
            None if stratify is None else needed(stratify, "dataset.sample.stratify")
        )
        self.order: Sequence[int] | None = None
        self._notes: list[str] = []
        self._read = self._left_out = 0
        self._any = False

    def choose(self, rows: Callable[[], Rows]) -> Numbered:
        """Yield the selected rows in the order of the file, each with its number (from
        1) and location.

        Raises:
            DatasetError: If no row passes the filter, or it cannot be evaluated for a row.
        """
        self._notes = []
        self._read = 0
        self._left_out = 0
        self._any = False
        if self._division is not None:
            self._division.start()
        plain = self._holds is None and self._division is None
        if (
            plain
            and self._sample is None
            and self._seed is None
            and self._limit is None
        ):
            for number, (location, row) in enumerate(rows(), 1):
                yield number, location, row
        elif self._sample is None and (self._seed is None or self._limit is None):
            chosen = 0
            for chosen, numbered_row in enumerate(  # noqa: B007
                islice(self._filtered(rows()), self._limit), 1
            ):
                yield numbered_row
            if self._seed is not None:
                self.order = _shuffled(range(chosen), self._seed)
        else:
            yield from self._sampled_rows(rows)
        if self._read and self._read == self._left_out:
            problem = f"none of {self._read} rows passes dataset.filter"
            raise DatasetError(
                problem, where="dataset.filter", remedy="fix or remove it"
            )
        if self._division is not None and not self._any:
            problem = f"no row is on the side '{self._division.use}'"
            raise DatasetError(
                problem,
                where="dataset.split",
                remedy="check its column, or use another side",
            )

    def notes(self) -> tuple[str, ...]:
        """Return the notes on dropped rows, after the last row."""
        filtered = f"rows dropped by dataset.filter: {self._left_out} of {self._read}"
        sides = () if self._division is None else self._division.notes()
        return (*([filtered] if self._left_out else []), *sides, *self._notes)

    def _filtered(self, rows: Rows) -> Numbered:
        """Yield the rows that pass the filter and are on the side to use, with numbers from 1.

        Raises:
            DatasetError: If the filter fails on a row.
        """
        if self._holds is None and self._division is None:
            yield from (
                (number, location, row)
                for number, (location, row) in enumerate(rows, 1)
            )
            return
        for number, (location, row) in enumerate(rows, 1):
            self._read = number
            try:
                if self._holds is not None and not self._holds(row):
                    self._left_out += 1
                    continue
            except RowFault as fault:
                raise fault.at(location) from None
            if self._division is not None and not self._division.holds(row, location):
                continue
            self._any = True
            yield number, location, row

    def _sampled_rows(self, rows: Callable[[], Rows]) -> Numbered:
        """Yield the rows of the sample; all rows are read twice: to choose, and to return them."""
        # stratum -> the numbers of its rows, from 1
        strata: dict[str, array[int]] = {}
        for number, location, row in self._filtered(rows()):
            if self._stratum is None:
                stratum = ""
            else:
                stratum = normalize_label(self._stratum(row, location))
            strata.setdefault(stratum, array("q")).append(number)
        passing = sum(len(numbers) for numbers in strata.values())
        if self._sample is not None:
            chosen = self._sample_strata(strata, passing)
        else:
            chosen = next(iter(strata.values()), array("q"))
        if self._seed is not None:
            chosen = self._shuffle(chosen, self._seed)
        row_numbers = iter(chosen[: self._limit])
        next_number = next(row_numbers, None)
        for number, (location, row) in enumerate(rows(), 1):
            if next_number is None:
                return
            if number == next_number:
                next_number = next(row_numbers, None)
                yield number, location, row

    def _shuffle(self, chosen: array[int], seed: int) -> array[int]:
        """Shuffle rows into `order`, and return those before the limit, in the file's order."""
        shuffled = _shuffled(range(len(chosen)), seed)[: self._limit]
        kept = sorted(shuffled)
        self.order = shuffled
        if len(kept) < len(chosen):
            # index in `chosen` -> position among the kept rows, which are read in file order
            position_of = {index: position for position, index in enumerate(kept)}
            self.order = array("q", (position_of[index] for index in shuffled))
        return array("q", (chosen[index] for index in kept))

    def _sample_strata(self, strata: dict[str, array[int]], passing: int) -> array[int]:
        """Return the sorted numbers of a random sample of rows, in proportion to the strata.

        Args:
            strata: The numbers of the rows of each stratum.
            passing: The number of rows of all strata.
        """
        sample = self._sample or SampleConfig(n=1)
        if sample.n is not None:
            sample_size = sample.n
        else:
            sample_size = max(1, round(float(sample.fraction or 0) * passing))
        if sample_size > passing:
            self._notes.append(
                f"dataset.sample requests {sample_size} rows but there are only {passing}:"
                " all are used"
            )
            sample_size = passing
        sizes = [len(numbers) for numbers in strata.values()]
        sampled = array("q")
        for (name, numbers), size in zip(
            strata.items(), stratum_sizes(sizes, sample_size), strict=True
        ):
            # A seed for each stratum, so that its sample does not depend on the others.
            generator = random.Random(f"{sample.seed}:{name}")
            indices = generator.sample(range(len(numbers)), size)
            sampled.extend(array("q", (numbers[index] for index in indices)))
        return array("q", sorted(sampled))


def stratum_sizes(sizes: Sequence[int], sample_size: int) -> list[int]:
    """Return the size of each stratum in a sample of `sample_size`: proportional,
    rounded by largest remainder.

    Among equal remainders, the first stratum is rounded up (Hamilton's method, in integers).
    """
    total = sum(sizes) or 1
    counts = [size * sample_size // total for size in sizes]
    # strata, the largest remainder first
    by_remainder = sorted(
        range(len(sizes)), key=lambda at: -(sizes[at] * sample_size % total)
    )
    for at in by_remainder[: sample_size - sum(counts)]:
        counts[at] += 1
    return counts


def _shuffled(indices: range, seed: int) -> array[int]:
    order = array("q", indices)
    random.Random(seed).shuffle(order)
    return order
