"""Describe, write and record a scored run: the last stages, of new runs and of those
that are scored again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from evalkit.config import RunConfig
from evalkit.core.claims import Claim
from evalkit.core.image_files import is_image_file
from evalkit.core.images import lacking_images
from evalkit.core.protocols import Evaluator
from evalkit.core.splits import Split
from evalkit.core.types import Case
from evalkit.datasets import Dataset
from evalkit.judges import describe_judges
from evalkit.report.page import run_files
from evalkit.runs import (
    claim_run,
    claim_unused_run,
    remove_files,
    write_run,
    written_files,
)
from evalkit.runs.folders import NOTE as OPENED
from evalkit.runs.folders import count_opening, opening_note
from evalkit.runs.layout import DETAILS, EARLIER_DETAILS, files_of
from evalkit.runs.manifest import describe_run
from evalkit.runs.results import RunResult
from evalkit.scoring.metrics.biases import family_notes
from evalkit.scoring.pipeline import Scores
from evalkit.scoring.stats.clusters import NOTE
from evalkit.scoring.stopping import OTHERS
from evalkit.scoring.verdicts.pairs import AGGREGATE
from evalkit.scoring.verdicts.panel import UNASKED
from evalkit.scoring.verdicts.rewards import REWARDS
from evalkit.workflows.gating import (
    JSON,
    JUNIT,
    MARKDOWN,
    apply_gate,
)

_MOST_NAMED = 1_000
"""The most cases that a manifest names."""


def claim_default_folder(config: RunConfig) -> tuple[Path, Claim]:
    """Claim `outputs/<date>/<time>-<mode>-<judge>` under the current folder, numbered
    if it is in use.

    Raises:
        ConfigError: if it cannot be written.
    """
    name = re.sub(r"[^\w.-]+", "_", f"{config.mode.name}-{config.judge.label}")
    now = datetime.now()
    folder = Path("outputs") / f"{now:%Y-%m-%d}" / f"{now:%H-%M-%S}-{name}"
    return claim_unused_run(folder)


def claim_run_folder(config: RunConfig, folder: Path | None) -> tuple[Path, Claim]:
    """Claim the folder of a run, or a new one if none is named.

    Raises:
        ConfigError: if another process has it, or it cannot be written.
    """
    if folder is None:
        return claim_default_folder(config)
    return folder, claim_run(folder)


def write_scored(
    config: RunConfig,
    folder: Path,
    result: RunResult,
    scores: Scores,
    files: Mapping[str, str] | None = None,
    *,
    evaluator: Evaluator | None = None,
    replace_run: bool,
) -> RunResult:
    """Decide the gate and write the run folder; return the run as it is written, with its gate.

    Args:
        config: The config of the run.
        folder: The run folder.
        result: The scored run.
        scores: Its scores, for the report.
        files: More files by name.
        evaluator: Shows prompts in the report; `None` for a report without them.
        replace_run: Whether to remove all other files of the run that was in the folder.
    """
    result, gate = apply_gate(config, result)
    # The gate is decided first, because the report shows it.
    written = {**run_files(config, result, scores, evaluator), **(files or {})}
    return _write_with_gate(folder, result, written, gate, replace_run=replace_run)


def _write_with_gate(
    folder: Path,
    result: RunResult,
    files: Mapping[str, str],
    gate: Mapping[str, str],
    *,
    replace_run: bool = False,
) -> RunResult:
    """Write a run with its files and its gate's files, remove tables and the gate's files of an
    earlier scoring, and return the run as it is written.

    Args:
        folder: The run folder.
        result: The run.
        files: Additional files by name.
        gate: The gate's files by name; empty without a gate.
        replace_run: Whether to also remove all other files of the run that was in the folder.

    Raises:
        ConfigError: If the folder cannot be written.
    """
    # A new run replaces all files of the earlier one; a new scoring only its own.
    names = {*files, *gate}
    if replace_run:
        stale = written_files(folder)
    else:
        stale = {JSON, JUNIT, MARKDOWN, *DETAILS, *EARLIER_DETAILS}
        earlier = result.manifest.get("files") or ()
        names |= {*earlier} - stale
    listed = sorted(name for name in names if "/" not in name)
    described = replace(result, manifest={**result.manifest, "files": listed})
    written = write_run(folder, described, {**files, **gate})
    # Written first and removed after that: a crash in between leaves too many files, never too
    # few.
    kept = {*files_of(result.config), *files, *gate, *filter(is_image_file, stale)}
    remove_files(folder, stale - kept)
    return written


def scoring_facts(
    config: RunConfig,
    manifest: Mapping[str, Any],
    cases: Sequence[Case],
    scores: Scores,
    split: Split | None,
) -> dict[str, Any]:
    """Return the arguments of `describe_scoring` on a scoring; a scoring on test labels is
    counted.

    Args:
        config: The config of the run.
        manifest: The manifest so far, with the fingerprint of the data.
        cases: All cases.
        scores: The scores.
        split: The labels that are held out; `None` if none are.
    """
    opened = count_opening(
        config, str(manifest["dataset"].get("fingerprint") or ""), cases
    )
    # Two counts: openings by runs on this data, and by `evalkit align` in this folder.
    aligned = 0 if split is None else len(split.opened)
    clusters = scores.clusters
    run_notes = []
    if note := clusters.note():
        run_notes.append(note)
    if opened:
        run_notes.append(opening_note(opened))
    if aligned:
        run_notes.append(opening_note(aligned, "by evalkit align"))
    return {
        "notes": [*scores.notes, *run_notes],
        "stale": (AGGREGATE, NOTE, OPENED, OTHERS, REWARDS, UNASKED),
        "opened": max(opened or 0, aligned) or None,
        "clusters": {
            "by": clusters.by,
            "count": clusters.count,
            "cases": clusters.cases,
        },
    }


def track(config: RunConfig, result: RunResult) -> RunResult:
    """Record a run that is complete on disk; return it with its tracking id in the manifest.

    Raises:
        TrackingError: if it could not be recorded.
    """
    from evalkit.tracking.recording import begin_recording

    return begin_recording(config.tracking, result)()


def run_manifest(
    config: RunConfig,
    dataset: Dataset,
    evaluator: Evaluator,
    started: datetime,
    *,
    name: str | None = None,
    judges: Sequence[Mapping[str, Any]] | None = None,
    sweep: Mapping[str, Any] | None = None,
    judging: Mapping[str, Any] | None = None,
    imported: Mapping[str, Any] | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """Return the manifest of a run before scoring.

    Args:
        config: the config of the run.
        dataset: the cases and where they come from.
        evaluator: what plans and reads the requests.
        started: when the run started.
        name: the dataset's name, instead of its own.
        judges: descriptions of the judges, instead of those in the config.
        sweep: the sweep that the run belongs to.
        judging: facts about judging: why it stopped, and timing.
        imported: where an imported run comes from.
        run_id: the identity of the run; by default a new one.
    """
    dataset_facts: dict[str, Any] = {
        "name": name or dataset.name,
        "source": dataset.source,
        "fingerprint": dataset.fingerprint,
        "rows": len(dataset.cases),
    }
    if dataset.benchmark:
        dataset_facts["benchmark"] = {**dataset.benchmark}
    described = describe_run(
        config,
        started=started,
        dataset=dataset_facts,
        prompt_hashes=getattr(evaluator, "prompt_hashes", {}),
        judges=describe_judges(config) if judges is None else judges,
        notes=[
            *config.notes(judged=imported is None),
            *dataset.notes,
            *family_notes(config, dataset.cases),
        ],
        sweep=sweep,
        judging=judging,
        imported=imported,
        run_id=run_id,
    )
    omitted = [case.id for case in lacking_images(dataset.cases)]
    if omitted:
        # Names of many cases would be most of the manifest.
        listed = omitted[:_MOST_NAMED]
        described["images_omitted"] = {"count": len(omitted), "cases": listed}
    return described
