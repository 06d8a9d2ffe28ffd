"""The base of every config group: frozen, and without unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from evalkit.core.errors import ConfigError


def without_addresses(error: ValidationError) -> ValidationError:
    """Return a copy of an error without the addresses of pydantic's documentation."""
    return ValidationError.from_exception_data(
        error.title,
        [
            InitErrorDetails(
                # A custom error has no address.
                type=PydanticCustomError(details["type"], details["msg"]),
                loc=details["loc"],
                input=details["input"],
            )
            for details in error.errors(include_url=False)
        ],
    )


class Section(BaseModel):
    """Base of every config group: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    def __init__(self, /, **values: Any) -> None:
        """Validate the values; errors have no addresses of pydantic's documentation."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise without_addresses(error) from None

    # Pydantic then validates a section inside another one without calling `__init__`: its errors
    # keep their types, by which the most telling one of a union is chosen.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

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
        """Return a copy with other values of some keys, such as `scoring.bootstrap`;
        they are not validated.
        """
        copy = self
        for key, value in values.items():
            name, _, remaining_key = key.partition(".")
            if remaining_key:
                value = getattr(copy, name).with_({remaining_key: value})
            copy = copy.model_copy(update={name: value})
        return copy
