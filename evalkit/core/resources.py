"""Find evalkit's version, its shipped files, and libraries that are optional."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from evalkit.core.errors import ConfigError

DISTRIBUTION = "evalkit-judge"
"""The name to install; `evalkit` on the registry is another project."""


def own_version() -> str | None:
    """Return the installed version of evalkit; `None` if it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None


@cache
def shipped(name: str) -> Path:
    """Return the absolute path of a shipped folder: `conf`, `prompts`, `experiments` or `docs`.

    Raises:
        FileNotFoundError: If this installation does not have it.
    """
    package = Path(str(files("evalkit"))).resolve()
    inside = package / name
    sibling = package.parent / name
    if inside.is_dir():
        return inside
    if sibling.is_dir() and (package.parent / "pyproject.toml").is_file():
        return sibling
    raise FileNotFoundError(
        f"evalkit's '{name}' folder is missing from {package}; reinstall evalkit"
    )


PROJECT_VARIABLE = "EVALKIT_PROJECT"


def project() -> Path:
    """Return the project folder: $EVALKIT_PROJECT, or else the nearest folder upward
    with conf/ and experiments/.

    Without one it is the current folder.
    """
    if chosen := os.environ.get(PROJECT_VARIABLE):
        return Path(chosen)
    here = Path.cwd()
    return next(
        (
            p
            for p in (here, *here.parents)
            if all((p / d).is_dir() for d in ("conf", "experiments"))
        ),
        here,
    )


def optional(
    module: str, where: str, feature: str = "", *, library: str = "", install: str = ""
) -> Any:
    """Return a module of an optional library.

    Args:
        module: The module, such as `pyarrow.parquet`.
        where: The file, option or config key that needs it.
        feature: The feature that needs it, for the message.
        library: The name of the library in the message; by default the module's first part.
        install: The argument of `pip install`; by default the library.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        library = library or module.partition(".")[0]
        needs = f"{feature} needs {library}".strip()
        remedy = f"install it: pip install {install or library}"
        raise ConfigError(needs, where=where, remedy=remedy) from None
