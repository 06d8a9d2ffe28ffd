"""The options that apply to judgments made elsewhere, and their values without Hydra."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import yaml

from evalkit.config.run_config import defaults
from evalkit.core.resources import shipped
from evalkit.core.values import Json, JsonObject

SETTLED_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "swap": "both",
        "tie": "allow",
        "scoring": "default",
        "store": "default",
        "runner": "default",
        "tracking": "mlflow",
    }
)
"""The option of each group that has one; all other groups have only their defaults."""


def settled_values(settings: Json, chosen: Mapping[str, str]) -> JsonObject:
    """Return the values that Hydra would compose from plain settings and shipped options.

    Args:
        settings: The settings; they replace the values of options.
        chosen: Options of some groups, whose settings they replace.
    """
    values: JsonObject = dict(defaults())
    for group, option in {**SETTLED_OPTIONS, **chosen}.items():
        path = shipped("conf") / group / f"{option}.yaml"
        option_values = yaml.safe_load(path.read_text(encoding="utf-8"))
        values[group] = _merged(values.get(group), option_values)
    remaining = {
        group: value for group, value in settings.items() if group not in chosen
    }
    merged: JsonObject = _merged(values, remaining)
    return merged


def _merged(before: Any, after: Any) -> Any:
    """Return values with others in their place; mappings are merged."""
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return after
    values = dict(before)
    for key, value in after.items():
        values[key] = _merged(values[key], value) if key in values else value
    return values
