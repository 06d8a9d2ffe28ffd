"""Names of run folders."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path

from evalkit.runs.layout import MANIFEST


def unused(folder: Path) -> Path:
    """Return `folder`, or `folder-2`, `folder-3` and so on: the first in which no finished run stands."""
    numbered = (folder.with_name(f"{folder.name}-{n}") for n in count(2))
    return next(place for place in chain((folder,), numbered) if not (place / MANIFEST).exists())
