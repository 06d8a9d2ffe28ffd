"""Divide rows into `dev` and `test`, so that rows of one group, such as one prompt, are on the same side."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from evalkit.config import SplitConfig
from evalkit.datasets.expressions import RowFault, missing_column_error
from evalkit.datasets.field_mapping import ABSENT, Columns, Getter, getter
from evalkit.datasets.formats import Row
from evalkit.datasets.labels import normalize_label
from evalkit.errors import DatasetError

SIDES = ("dev", "test")
_WHERE = "dataset.split"


class Division:
    """Decide whether a row is on the side that `config.use` names.

    With `fractions`, the side is a hash of the group and the seed: it depends on no other row. With `column`, the side
    of each group is kept, at about 100 bytes a group, to find a group with both sides.

    Args:
        config: The settings, with `column` or `fractions`.
        columns: The mapping that finds the prompt of a row.
    """

    def __init__(self, config: SplitConfig, columns: Columns) -> None:
        self._config, self._columns = config, columns
        self._side: Getter | None = None if config.column is None else getter(config.column, f"{_WHERE}.column")
        self._group: Getter | None = None if config.by == "prompt" else getter(config.by, f"{_WHERE}.by")
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

    def holds(self, row: Row, place: str) -> bool:
        """Return whether a row is used.

        Raises:
            DatasetError: If the row has no such column, or its group has rows on both sides.
        """
        group = self._group_of(row, place)
        if self._side is None:
            used = self._config.use in ("all", self._drawn(group))
        else:
            used = self._listed(row, group, place)
        self.omitted += not used
        return used

    def notes(self) -> tuple[str, ...]:
        """Return notes on the rows that are omitted."""
        use = self._config.use
        named = ", ".join(f"{count} '{value}'" for value, count in self._others.most_common(5))
        neither = (f"rows on neither side of dataset.split, omitted: {named}",) if named else ()
        rest = self.omitted - sum(self._others.values())
        return (*neither, *([f"rows on the other side, omitted by dataset.split.use={use}: {rest}"] if rest else []))

    def _drawn(self, group: bytes) -> str:
        assert self._config.fractions is not None
        drawn = hashlib.sha256(f"{self._config.seed}:".encode() + group).digest()[:8]
        return SIDES[int.from_bytes(drawn) >= self._config.fractions["dev"] * 2**64]

    def _listed(self, row: Row, group: bytes, place: str) -> bool:
        assert self._side is not None
        side = normalize_label(_value(self._side, row, str(self._config.column), "column", place)).lower()
        if self._config.use == "all":
            return True
        if side not in SIDES:
            self._others[side] += 1
            return False
        before, first = self._seen.setdefault(group, (side, place))
        if before != side:
            remedy = "put rows of one group on one side, or set dataset.split.by to another column"
            what = f"the same {self._config.by} is on the side '{before}' in {first} and on '{side}' here"
            raise DatasetError(what, where=place, remedy=remedy)
        return side == self._config.use

    def _group_of(self, row: Row, place: str) -> bytes:
        if self._group is None:
            value: Any = self._columns.need(row, "prompt", place)
        else:
            value = _value(self._group, row, self._config.by, "by", place)
        text = value.strip() if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _value(get: Getter, row: Row, column: str, key: str, place: str) -> Any:
    try:
        value = get(row)
    except RowFault as fault:
        raise fault.at(place) from None
    if value is ABSENT:
        what, remedy = missing_column_error(column, row, f" for {_WHERE}.{key}")
        raise DatasetError(what, where=place, remedy=remedy)
    return value
