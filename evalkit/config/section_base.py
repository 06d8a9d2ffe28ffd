"""The base of every config group: frozen, and without unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from evalkit.core.errors import ConfigError


class Section(BaseModel):
    """Base of every config group: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse to change a setting.

        Raises:
            ConfigError: always, for a setting.
        """
        if name in type(self).model_fields:
            raise ConfigError(
                "cannot be changed in place",
                where=name,
                remedy=f"write with_({{{name!r}: {value!r}}}), which returns a copy",
            )
        super().__setattr__(name, value)

    def with_(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with other values of some keys, such as `scoring.bootstrap`; they are not validated."""
        copy = self
        for key, value in values.items():
            name, _, remaining_key = key.partition(".")
            copy = copy.model_copy(
                update={
                    name: getattr(copy, name).with_({remaining_key: value})
                    if remaining_key
                    else value
                }
            )
        return copy
