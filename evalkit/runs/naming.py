"""Names of run folders, and of the simulated judges of a run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

from evalkit.config import SIMULATED
from evalkit.runs.layout import MANIFEST


def unused(folder: Path) -> Path:
    """Return `folder`, or `folder-2`, `folder-3` and so on: the first in which no finished run stands."""
    numbered = (folder.with_name(f"{folder.name}-{n}") for n in count(2))
    return next(place for place in chain((folder,), numbered) if not (place / MANIFEST).exists())


def simulated_judges(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of a run's judges that are simulated, by its manifest."""
    judges = [one for one in manifest.get("judges") or () if str(one.get("model") or "").startswith(SIMULATED)]
    return [str(one.get("name")) for one in judges]
