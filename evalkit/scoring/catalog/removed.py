"""The metrics that evalkit no longer has, from removed.toml, and the remedy for an
unknown metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from evalkit.core.errors import did_you_mean
from evalkit.core.prepared_files import read_table


def metric_remedy(name: str, known: Iterable[str]) -> str:
    """Return the remedy for a metric that is none of the `known` ones.

    It is the last version that had the metric, if it was removed, otherwise the closest name.
    """
    for plain in _plain_names(name):
        for removed, version in _removed().items():
            if plain == removed or (
                removed.endswith("/") and plain.startswith(removed)
            ):
                return f"removed: evalkit {version} was the last version with it"
    return did_you_mean(name, known)


@cache
def _removed() -> dict[str, str]:
    return read_table(Path(__file__).parent / "removed.toml")


def _plain_names(name: str) -> Iterator[str]:
    """Yield a name, and what it may be of: the metric of a judge or slice, whose names
    may have slashes.
    """
    yield name
    if name.startswith(("judge/", "slice/")):
        for slash in re.finditer("/", name):
            yield name[slash.end() :]
