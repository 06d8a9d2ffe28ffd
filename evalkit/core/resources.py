"""What ships with evalkit: its version, and its files, inside the package when installed, beside it in a checkout."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

DISTRIBUTION = "evalkit-judge"
"""The name to install: `evalkit` is another project's on the registry."""


def own_version() -> str | None:
    """Return the installed version of evalkit, or none if it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def shipped(name: str) -> Path:
    """Return the absolute path of a shipped folder: `conf`, `prompts` or `experiments`.

    Raises:
        FileNotFoundError: if this installation does not have it.
    """
    package = Path(str(files("evalkit"))).resolve()
    inside, beside = package / name, package.parent / name
    if inside.is_dir():
        return inside
    if beside.is_dir() and (package.parent / "pyproject.toml").is_file():
        return beside
    raise FileNotFoundError(f"evalkit's own '{name}' folder is missing from {package}: install evalkit again")


PROJECT_VARIABLE = "EVALKIT_PROJECT"


def project() -> Path:
    """Return the user's project folder: $EVALKIT_PROJECT, else the nearest folder upwards with conf/ and experiments/.

    Where there is none it is the current folder.
    """
    if named := os.environ.get(PROJECT_VARIABLE):
        return Path(named)
    here = Path.cwd()
    return next((p for p in (here, *here.parents) if all((p / d).is_dir() for d in ("conf", "experiments"))), here)
