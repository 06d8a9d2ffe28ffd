"""What a run folder tells of itself, at a glance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.runs import layout


@dataclass(frozen=True, slots=True)
class RunStatus:
    """What a run folder's manifest tells of it; `complete` if its files are there, and no call failed or was left out.

    `recorded` is its id at the tracker, `gate` what became of its gate, if it had one.
    """

    config_hash: str
    fingerprint: str
    prompts: Mapping[str, str]
    evalkit: str
    complete: bool
    recorded: str | None
    gate: str | None = None


def read_status(folder: Path) -> RunStatus:
    """Return what a run folder tells of itself; empty where there is none."""
    manifest, calls = _read(folder / layout.MANIFEST), _read(folder / layout.METRICS).get("calls") or {}
    whole = all((folder / name).is_file() for name in layout.FILES)
    return RunStatus(
        str(manifest.get("config_hash") or ""),
        str((manifest.get("dataset") or {}).get("fingerprint") or ""),
        manifest.get("prompt_hashes") or {},
        str(manifest.get("evalkit") or ""),
        whole and not manifest.get("stopped") and calls.get("failed") == 0,
        manifest.get("mlflow_run_id") or (manifest.get("tracked") or {}).get("id"),
        (manifest.get("gate") or {}).get("state"),
    )


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        return found if isinstance(found, dict) else {}
    return {}
