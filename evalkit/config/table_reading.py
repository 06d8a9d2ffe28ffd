"""The reading of a table as a file: the type and role of each column, and what its words mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalkit.core.bounded_files import read_yaml
from evalkit.core.regular_files import read_text
from evalkit.errors import ConfigError

LARGEST: Final = 4_000_000
FIELD_ROLES: Final = (
    "id", "prompt", "context", "reference", "response", "response_a", "response_b",
    "model", "model_a", "model_b",
)  # fmt: skip
"""Roles of columns that are fields of cases."""
READ_ROLES: Final = (*FIELD_ROLES, "order", "sample", "text")
JUDGE: Final = "judge"
LABEL: Final = "label"
KEY: Final = "key"


class ColumnReading(BaseModel):
    """How a column is read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str
    """The type of its values, such as `flag`, `number` or `text`."""
    role: str
    """What it is for: `judge`, `label`, `id`, `prompt`, …, or `not used`."""
    values: dict[str, str | float] = {}
    """The meaning of each word of a judge or a label."""


class TableReading(BaseModel):
    """How a table is read, so that another table of the same shape is read the same way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    unit: Literal["pair", "class", "response"]
    """What is judged: two responses, or one by class or by score."""
    columns: Annotated[dict[str, ColumnReading], Field(min_length=1)]
    map: dict[str, str] = {}
    """What the user said that words mean."""

    def of_role(self, role: str) -> list[str]:
        """Return the columns with a role."""
        return [name for name, column in self.columns.items() if column.role == role]

    def yaml(self) -> str:
        """Return the content of the file."""
        return yaml.safe_dump(
            self.model_dump(exclude_defaults=True) | {"version": self.version},
            allow_unicode=True,
            sort_keys=False,
        )


def load_reading(path: Path) -> TableReading:
    """Return the reading in a file.

    Raises:
        ConfigError: If it cannot be read, or is not a reading.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError("it is too large")
        content = read_yaml(read_text(path))
        return TableReading.model_validate(content)
    except OSError as bad:
        what = f"cannot be read ({bad.strerror or bad})"
    except ValidationError as bad:
        first = bad.errors()[0]
        key = ".".join(map(str, first["loc"]))
        what = f"is not the reading of a table ({key}: {first['msg']})"
    except (ValueError, yaml.YAMLError, RecursionError) as bad:
        what = f"is not the reading of a table ({' '.join(str(bad).split())[:100]})"
    raise ConfigError(
        what, where=str(path), remedy="write it with `evalkit check TABLE --save FILE`"
    )
