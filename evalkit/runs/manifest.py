"""The manifest of a run: every key of it is set here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from evalkit.config import RunConfig
from evalkit.core.hashing import digest
from evalkit.runs.versions import environment_versions


def describe_run(
    config: RunConfig,
    *,
    started: datetime,
    dataset: Mapping[str, Any],
    prompt_hashes: Mapping[str, str],
    judges: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
    sweep: Mapping[str, Any] | None = None,
    judging: Mapping[str, Any] | None = None,
    imported: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what the manifest says before scoring.

    Args:
        config: the run's config.
        started: when the run began.
        dataset: name, source, fingerprint, rows and benchmark of the cases.
        prompt_hashes: a hash for each template.
        judges: what is known of each judge.
        notes: what the user should know.
        sweep: the sweep that the run is a job of.
        judging: `stopped` and `timing`, if the run judged its cases itself.
        imported: where the judgments come from, if they were made elsewhere; no template was used then.
    """
    return {
        "run_id": uuid4().hex,
        **environment_versions(),
        "config_hash": config.hash(),
        "prompt_hashes": {} if imported else {**prompt_hashes},
        "prompt_hash": digest({**prompt_hashes}),
        "dataset": {**dataset},
        "judges": [{**judge} for judge in judges],
        "mode": config.mode.name,
        "judge": config.judge.label,
        "started": started.isoformat(),
        "ended": _now() if imported else None,
        "sweep": {**sweep} if sweep else None,
        "mlflow_run_id": None,
        "notes": [*notes],
        **(judging or {}),
        **({"imported": {**imported}} if imported else {}),
    }


def describe_scoring(
    manifest: Mapping[str, Any],
    *,
    notes: Sequence[str],
    stale: tuple[str, ...],
    clusters: Mapping[str, Any],
    seconds: float | None = None,
    rescored: RunConfig | None = None,
) -> dict[str, Any]:
    """Return a manifest with what scoring found, in place of what it says of an earlier scoring.

    Args:
        manifest: the manifest so far.
        notes: how scoring understood its settings.
        stale: how notes of an earlier scoring begin.
        clusters: what intervals resample.
        seconds: how long scoring took, if the run ends with it.
        rescored: the config, if the run was scored before.
    """
    kept = [note for note in manifest.get("notes") or () if not note.startswith(stale)]
    found = {**manifest, "notes": [*kept, *notes], "clusters": {**clusters}}
    if rescored is not None:
        return {**found, "config_hash": rescored.hash(), "rescored": _now()}
    return {**found, "timing": {**found["timing"], "scoring": seconds}, "ended": _now()}


def _now() -> str:
    return datetime.now(UTC).isoformat()
