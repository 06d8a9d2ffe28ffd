"""Find evalkit's version and shipped files, which are inside an installed package and next to it in a checkout."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

DISTRIBUTION = "evalkit-judge"
"""The name to install; `evalkit` on the registry is another project."""


def own_version() -> str | None:
    """Return the installed version of evalkit; `None` if it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def shipped(name: str) -> Path:
    """Return the absolute path of a shipped folder: `conf`, `prompts` or `experiments`.

    Raises:
        FileNotFoundError: If this installation does not have it.
    """
    package = Path(str(files("evalkit"))).resolve()
    inside, sibling = package / name, package.parent / name
    if inside.is_dir():
        return inside
    if sibling.is_dir() and (package.parent / "pyproject.toml").is_file():
        return sibling
    raise FileNotFoundError(f"evalkit's '{name}' folder is missing from {package}; reinstall evalkit")


PROJECT_VARIABLE = "EVALKIT_PROJECT"


def project() -> Path:
    """Return the project folder: $EVALKIT_PROJECT, or else the nearest folder upward with conf/ and experiments/.

    Without one it is the current folder.
    """
    if chosen := os.environ.get(PROJECT_VARIABLE):
        return Path(chosen)
    here = Path.cwd()
    return next((p for p in (here, *here.parents) if all((p / d).is_dir() for d in ("conf", "experiments"))), here)
