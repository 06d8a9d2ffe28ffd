"""Import optional features by name: packages of evalkit that an installation may lack."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

from evalkit.core.errors import ConfigError


def has_feature(module: str) -> bool:
    """Return whether this installation has a module of a feature."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it is missing
        return False


def load_feature(module: str, where: str) -> Any:
    """Return a module of a feature; `where` is the setting that needs it.

    Raises:
        ConfigError: If this installation does not have it.
    """
    if not has_feature(module):
        raise missing_feature(module.rpartition(".")[0], where)
    return import_module(module)


def missing_feature(name: str, where: str) -> ConfigError:
    """Return the error of a setting or command that needs a package of evalkit which is missing."""
    return ConfigError(
        f"this installation has no {name}",
        where=where,
        remedy="reinstall evalkit",
    )


def modules_of(package: str) -> Sequence[str]:
    """Return the names of a feature's modules, sorted, without importing it; nothing if this
    installation does not have it.
    """
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:  # the package above it is missing
        return ()
    if spec is None or spec.submodule_search_locations is None:
        return ()
    folders: Sequence[str] = spec.submodule_search_locations
    # An imported package may have more folders by now.
    if package in sys.modules:
        folders = sys.modules[package].__path__
    return [module.name for module in iter_modules(folders)]
