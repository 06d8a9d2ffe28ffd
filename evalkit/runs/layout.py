"""Name the files of a run folder."""

from __future__ import annotations

from typing import Final

from evalkit.config import SIMULATED, RunConfig
from evalkit.core.values import Json

CONFIG: Final = "config.yaml"
MANIFEST: Final = "manifest.json"
CASES: Final = "cases.jsonl"
JUDGMENTS: Final = "judgments.jsonl"
PARQUET: Final = "judgments.parquet"
"""The judgments of a run with `runner.judgments=parquet`; in another run's folder, what
`evalkit export` wrote."""
VERDICTS: Final = "verdicts.jsonl"
METRICS: Final = "metrics.json"

FINDINGS: Final = "findings.md"
"""The run's findings, as in its report."""
REPORT: Final = "report.html"
PROMPTS: Final = "prompts.json"
"""The texts of the templates, by their names in the manifest's `prompt_hashes`."""
PROBE_CASES: Final = "probe_cases.jsonl"
"""The edited cases of an audit."""
PROBE_JUDGMENTS: Final = "probe_judgments.jsonl"
"""The judgments of the edited cases."""
EFFECTS: Final = "effects.jsonl"
"""The effect of each probe on each case of an audit."""
DATASHEET: Final = "datasheet"
"""The audit's result on one page: as HTML, Markdown and JSON."""
LABEL_SAMPLE: Final = "label-sample.json"
"""The cases that were sampled for labeling, with their probabilities."""
SPLIT: Final = "split.json"
"""The sides of the cases, train, dev and test, and when the labels of test were opened."""
HOLDOUT: Final = "holdout.jsonl"
"""The cases of test with their labels, which `dataset.holdout` keeps out of the other files."""
ALIGNMENTS: Final = "alignments.json"
"""The results of `evalkit align`."""
FIGURES: Final = "figures"
"""The folder of the report's figures, one file per figure."""

CAUSES: Final = "causes"
"""The table of why answers could not be used."""

DETAILS: Final = (
    "confusion.json",
    "frontier.json",
    "conflicts.json",
    "reliability.json",
    "ranking.json",
    "jnd.json",
    "corrected.json",
    "cascade.json",
    "slices.json",
    "sequence.json",
    "panel.json",
    "annotators.json",
    f"{CAUSES}.json",
)
"""Tables behind the metrics. Each scoring writes those that it has, and removes the others."""
EARLIER_DETAILS: Final = ("missing.json", "transport.json", "variance.json")
"""Tables that only earlier versions wrote; a new scoring removes them."""
DERIVED: Final = (
    FINDINGS,
    PROMPTS,
    REPORT,
    PROBE_CASES,
    PROBE_JUDGMENTS,
    EFFECTS,
    *(f"{DATASHEET}.{suffix}" for suffix in ("html", "md", "json")),
    *DETAILS,
    "gate.json",
    "gate.xml",
    "gate.md",
    "reproduction.json",
    "judgments.csv",
    PARQUET,
    "judgments-table.parquet",
    "alpaca_eval.json",
    "mt_bench.jsonl",
    "argilla.json",
    "label_studio.json",
    LABEL_SAMPLE,
    SPLIT,
    HOLDOUT,
    ALIGNMENTS,
)
"""Other files that commands write to a run folder; the manifest's `files` lists those of the run
itself."""
SWEEP: Final = "sweep.json"
"""The definition of a sweep, in the sweep's folder."""

FILES: Final = (CONFIG, MANIFEST, CASES, JUDGMENTS, VERDICTS, METRICS)


def files_of(config: RunConfig) -> tuple[str, ...]:
    """Return the files of a run of this config: `FILES`, with its file of judgments."""
    return tuple(judgments_of(config) if name == JUDGMENTS else name for name in FILES)


def judgments_of(config: RunConfig) -> str:
    """Return the name of the file of judgments of a run of this config."""
    if config.runner.judgments == "parquet":
        return PARQUET
    return JUDGMENTS


def simulated_judges(manifest: Json) -> list[str]:
    """Return the names of the simulated judges in a run's manifest."""
    judges = [
        judge
        for judge in manifest.get("judges") or ()
        if str(judge.get("model") or "").startswith(SIMULATED)
    ]
    return [str(judge.get("name")) for judge in judges]
