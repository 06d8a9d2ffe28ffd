"""What shipped options, and those of installed packages, set: they are not from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from evalkit.core.plugins import CONF, folders
from evalkit.core.resources import shipped


def is_installed(key: str, value: Any) -> bool:
    """Return whether an installed option sets the last part of a key to this value."""
    # By the last key only: a file may nest the same option elsewhere.
    installed = _settings_below(shipped("conf"), *folders(CONF))
    return any(part == value for part in installed.get(key, ()))


@cache
def _settings_below(*conf: Path) -> Mapping[str, list[Any]]:
    settings: dict[str, list[Any]] = {}
    for folder in conf:
        for file in sorted(folder.rglob("*.yaml")):
            for key, value in _settings(yaml.safe_load(file.read_text("utf-8"))):
                settings.setdefault(key, []).append(value)
    return settings


def _settings(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key), part
            yield from _settings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _settings(part)
