"""Names of studies, and what to say of a word that is none."""

from __future__ import annotations

import shlex
from pathlib import Path

from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.plugins import user_folders
from evalkit.core.resources import project, shipped
from evalkit.datasets.formats import is_readable
from evalkit.runs.layout import CONFIG as RUN_CONFIG


def study_names() -> list[str]:
    """Return the names of the studies in ./experiments and of the shipped ones."""
    folders = [project() / "experiments", shipped("experiments")]
    return sorted(
        {f.stem for folder in folders if folder.is_dir() for f in folder.glob("*.yaml")}
    )


def unknown_study_error(name: str) -> ConfigError:
    """Return the error for an unknown study."""
    # What the user probably means, most specific first.
    if (Path(name) / RUN_CONFIG).is_file():
        return ConfigError(
            "is a run's folder",
            where=name,
            remedy=f"evalkit run {shlex.quote(str(Path(name) / RUN_CONFIG))} runs it again",
        )
    if Path(name).is_file() and is_readable(Path(name)):
        remedy = f"write dataset=file dataset.path={shlex.quote(name)}"
        return ConfigError("is a data file, not a study", where=name, remedy=remedy)
    return ConfigError("no such study file", where=name, remedy=_remedy(name))


def _remedy(name: str) -> str:
    """Return how to run a file of this name in another folder, or the nearest name of a study."""
    file_name = f"{Path(name).stem}.yaml"
    for folder in user_folders():
        if (folder / "experiment" / file_name).is_file():
            return f"evalkit run experiment={shlex.quote(Path(name).stem)} runs it"
    # Where people keep their studies who know Hydra.
    for folder in user_folders():
        file = folder / file_name
        if file.is_file():
            shown = str(file)
            if file.is_absolute() and file.is_relative_to(Path.cwd()):
                shown = str(file.relative_to(Path.cwd()))
            return f"evalkit run {shlex.quote(shown)} runs it"
    return did_you_mean(Path(name).stem, study_names())
