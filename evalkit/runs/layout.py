"""The names of a run folder's files."""

from __future__ import annotations

from typing import Final

CONFIG: Final = "config.yaml"
MANIFEST: Final = "manifest.json"
CASES: Final = "cases.jsonl"
JUDGMENTS: Final = "judgments.jsonl"
VERDICTS: Final = "verdicts.jsonl"
METRICS: Final = "metrics.json"

FILES: Final = (CONFIG, MANIFEST, CASES, JUDGMENTS, VERDICTS, METRICS)
