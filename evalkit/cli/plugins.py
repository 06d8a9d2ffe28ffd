"""`evalkit plugins`: what other packages add, and from where."""

from __future__ import annotations

import os
from collections.abc import Sequence

from evalkit.errors import ConfigError
from evalkit.plugins import GROUPS, VARIABLE, Offer, iter_offers


def main(words: Sequence[str]) -> int:
    """Print each thing that another package offers; return 1 if one of them cannot be used.

    Raises:
        ConfigError: if it is given words.
    """
    if words:
        raise ConfigError("takes no words", where="evalkit plugins", remedy="leave them out")
    found = list(iter_offers())
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        print(f"{VARIABLE}={chosen}: only what is listed there is used")
    if not found:
        print(f"no other package offers any of: {', '.join(GROUPS.values())}")
        return 0
    rows = [("what", "name", "package", "from"), *map(_row, found)]
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]]))
    return 1 if any(one.problem for one in found) else 0


def _row(one: Offer) -> tuple[str, str, str, str]:
    place = f"wrong: {one.problem}" if one.problem else f"{one.value} ({one.place})" if one.place else one.value
    return GROUPS[one.group], one.name, one.package, place
