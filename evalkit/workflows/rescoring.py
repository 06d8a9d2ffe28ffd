"""Score a finished run again under other settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evalkit.config import RunConfig
from evalkit.engine.run_design import Reviews
from evalkit.runs import claim_run
from evalkit.runs.manifest import describe_scoring
from evalkit.runs.results import RunResult
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.verdicts.cascade import check_labels
from evalkit.workflows.design_registry import design_of
from evalkit.workflows.finishing import scoring_facts, write_scored
from evalkit.workflows.gating import (
    check_leads,
    check_rules,
)
from evalkit.workflows.holdout import read_split
from evalkit.workflows.stopping import check_clusters


def rescore(
    config: RunConfig,
    result: RunResult,
    folder: Path,
    *,
    replace_run: bool = False,
    reviews: Reviews | None = None,
) -> RunResult:
    """Score a finished run again under other scoring settings and rewrite its folder,
    without judge and store.

    Args:
        config: the config with the new settings.
        result: the finished run.
        folder: the run folder to write.
        replace_run: whether to remove the files of another run in the folder.
        reviews: annotators' new reviews of paraphrases.

    Raises:
        ConfigError: if the settings do not fit the run, such as a cascade with too few labels.
    """
    # Thresholds are chosen by labels, so a scoring without enough of them would fail later.
    check_labels(config, result.cases)
    check_clusters(config, result.config)
    scores = score_run(config, result.cases, result.judgments)
    design = design_of(config)
    before = result.config.notes()
    now = config.notes()
    # Notes of the old settings go, unless the new ones have them too; all other notes stay.
    kept = [
        note
        for note in result.manifest.get("notes") or ()
        if note in now or note not in before
    ]
    manifest = {
        **result.manifest,
        "notes": [*kept, *(note for note in now if note not in before)],
    }
    facts = scoring_facts(config, manifest, result.cases, scores, read_split(folder))
    metrics = {**scores.metrics, **design.rescore(result, reviews)}
    again = replace(
        result,
        folder=str(folder.resolve()),
        config=config,
        manifest=describe_scoring(manifest, **facts, rescored=config),
        verdicts=scores.verdicts,
        metrics=metrics,
    )
    # Before the folder is changed.
    check_rules(config, again)
    # A run that an earlier gate names may be gone.
    if config.gate != result.config.gate:
        check_leads(config, again.cases)
    files = design.files(again)
    # The scoring is done by now; the folder is claimed only to write.
    with claim_run(folder):
        return write_scored(
            config, folder, again, scores, files, replace_run=replace_run
        )
