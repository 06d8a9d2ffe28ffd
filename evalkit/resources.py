"""Where the files that ship with evalkit are: inside the package when installed, beside it in a checkout."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path


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
