"""Read the status of a run folder from its manifest."""

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
    """The status of a run folder.

    Attributes:
        config_hash: The hash of its config.
        fingerprint: The fingerprint of its data.
        prompts: The hash of each template.
        evalkit: The version of evalkit that wrote it.
        complete: Whether all files exist, and every call was made and succeeded.
        recorded: Its id at the tracker; `None` if it was not recorded.
        gate: The state of its gate; `None` without a gate.
    """

    config_hash: str
    fingerprint: str
    prompts: Mapping[str, str]
    evalkit: str
    complete: bool
    recorded: str | None
    gate: str | None = None


def read_status(folder: Path) -> RunStatus:
    """Return the status of a run folder; empty if there is no run."""
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
        value = json.loads(path.read_bytes())
        return value if isinstance(value, dict) else {}
    return {}
