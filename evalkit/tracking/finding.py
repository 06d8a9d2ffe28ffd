"""A finished run by the word that people name it with: a run folder, or an MLflow run id."""

from __future__ import annotations

from pathlib import Path

from evalkit.config import TrackingConfig
from evalkit.runs import read_run
from evalkit.tracking.fetch import fetch_run, is_run_id
from evalkit.tracking.location import tracking_uri
from evalkit.types import RunResult


def find_run(word: str, tracking: TrackingConfig, *, folder: Path, scratch: Path) -> RunResult:
    """Return the run that `word` names.

    Args:
        word: a run folder, or the id of a run at MLflow.
        tracking: which store holds recorded runs.
        folder: where one stands.
        scratch: what is fetched goes there, and is needed as long as the run is.

    Raises:
        ConfigError: if there is no such run, or it is damaged.
        TrackingError: if it has to be fetched and the store cannot be reached.
    """
    if (folder / word).exists() or not is_run_id(word):
        return read_run(folder / word)
    return read_run(fetch_run(tracking_uri(tracking, folder), word, scratch / word))
