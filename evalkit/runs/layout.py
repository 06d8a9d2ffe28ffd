"""The names of a run folder's files."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from evalkit.config import SIMULATED

CONFIG: Final = "config.yaml"
MANIFEST: Final = "manifest.json"
CASES: Final = "cases.jsonl"
JUDGMENTS: Final = "judgments.jsonl"
VERDICTS: Final = "verdicts.jsonl"
METRICS: Final = "metrics.json"

FINDINGS: Final = "findings.md"
"""What the run found, in the words of its page."""
PROMPTS: Final = "prompts.json"
"""The text of each template in use, by the name that it has in the manifest's `prompt_hashes`."""
FIGURES: Final = "figures"
"""The folder of the page's figures, each a file of its own."""

DERIVED: Final = (
    FINDINGS,
    PROMPTS,
    "report.html",
    "frontier.json",
    "ranking.json",
    "jnd.json",
    "corrected.json",
    "variance.json",
    "gate.json",
    "gate.xml",
    "gate.md",
    "differences.jsonl",
    "reproduction.json",
    "judgments.csv",
    "judgments.parquet",
    "alpaca_eval.json",
    "mt_bench.jsonl",
    "argilla.json",
    "label_studio.json",
)
"""Other files that commands write to a run folder; the manifest's `files` names those that a run wrote."""
SWEEP: Final = "sweep.json"
"""The definition of a sweep, in its own folder."""

FILES: Final = (CONFIG, MANIFEST, CASES, JUDGMENTS, VERDICTS, METRICS)


def unused_folder(folder: Path) -> Path:
    """Return `folder`, or `folder-2`, `folder-3` and so on: the first in which no finished run stands."""
    numbered = (folder.with_name(f"{folder.name}-{n}") for n in count(2))
    return next(place for place in chain((folder,), numbered) if not (place / MANIFEST).exists())


def simulated_judges(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of a run's judges that are simulated, by its manifest."""
    judges = [one for one in manifest.get("judges") or () if str(one.get("model") or "").startswith(SIMULATED)]
    return [str(one.get("name")) for one in judges]
