"""A dataset format: TOML with a table `[[case]]` for each row."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path


def read_toml(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each table with the place it stands in."""
    rows = tomllib.loads(path.read_text("utf-8"))["case"]
    for number, row in enumerate(rows, 1):
        yield f"{path}:case {number}", row


class TomlReader:
    """The same as a class, for configs that name it by its dotted path."""

    def __call__(self, path: Path) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield each table with the place it stands in."""
        return read_toml(path)
