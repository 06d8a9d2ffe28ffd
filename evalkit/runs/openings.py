"""Count how often the labels of a test set were used: each look makes the best configuration look better than it is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from platformdirs import user_state_path

from evalkit.config import RunConfig
from evalkit.types import Case

NOTE = "test labels opened"
"""The beginning of the note."""


def count_opening(config: RunConfig, fingerprint: str, cases: Iterable[Case]) -> int | None:
    """Count that a run on `dataset.split.use=test` was scored, and return the count for its data so far.

    The counts of a user are in one file of the user's state folder.

    Args:
        config: The run's config.
        fingerprint: The fingerprint of its cases.
        cases: Its cases.

    Returns:
        The count with this one; `None` if the run is not on the test side or has no labels, or the file cannot be
        written.
    """
    division = config.dataset.division
    if division is None or division.use != "test" or not any(map(_has_label, cases)):
        return None
    path = user_state_path("evalkit") / "test-labels.jsonl"
    opened = {"data": fingerprint, "config": config.hash(), "at": datetime.now(UTC).isoformat()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as file:
            file.write(json.dumps(opened).encode() + b"\n")  # one write: runs at the same time do not mix
            file.seek(0)
            return file.read().count(f'"data": "{fingerprint}"'.encode())
    except OSError:
        return None


def opening_note(opened: int) -> str:
    """Return the note for a count."""
    return f"{NOTE} {'once' if opened == 1 else f'{opened:,} times'} for this data on this machine"


def _has_label(case: Case) -> bool:
    graded = any(one.grade is not None or one.class_name is not None for one in case.responses)
    return graded or case.label is not None or bool(case.labels) or any(item.labels for item in case.checklist)
