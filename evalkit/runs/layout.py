"""The names of a run folder's files."""

from __future__ import annotations

from typing import Final

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
