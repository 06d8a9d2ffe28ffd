"""Import a room of the package by name: a feature that an installation may lack."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

from evalkit.core.errors import ConfigError


def has_room(module: str) -> bool:
    """Return whether this installation has a module of a room."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it is missing
        return False


def load_room(module: str, where: str) -> Any:
    """Return a module of a room; `where` is the setting that needs it.

    Raises:
        ConfigError: If this installation does not have it.
    """
    if not has_room(module):
        raise no_room(module.rpartition(".")[0], where)
    return import_module(module)


def no_room(name: str, where: str) -> ConfigError:
    """Return the error of a setting or command that needs a package of evalkit which is missing."""
    return ConfigError(
        f"this installation has no {name}",
        where=where,
        remedy="reinstall evalkit",
    )


def modules_of(package: str) -> Sequence[str]:
    """Return the names of a room's modules, sorted; nothing if this installation does
    not have it.
    """
    if not has_room(package):
        return ()
    return [module.name for module in iter_modules(import_module(package).__path__)]
