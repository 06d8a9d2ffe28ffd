"""The reading of a table as a file: the type and role of each column, and what its words mean.

The file is a config: `evalkit run reading.yaml dataset.path=TABLE` composes it, and
`dataset.reading` names it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import Field, ValidationError

from evalkit.config.kinds import Settings, Text
from evalkit.config.section_base import Section
from evalkit.core.bounded_files import read_yaml
from evalkit.core.errors import ConfigError
from evalkit.core.regular_files import read_text
from evalkit.core.values import Json

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
NO_VERDICT: Final = "NONE"
"""The meaning of a word that is no verdict."""


class ColumnReading(Section):
    """How a column of a table is read."""

    type: Text
    """Type of its values, such as `flag`, `number` or `text`."""
    role: Text
    """What it is for: `judge`, `label`, `id`, `prompt`, …, or `not used`."""
    values: dict[Text, Text | float] = {}  # noqa: RUF012 - pydantic copies it
    """Meaning of each word of a judge or a label; `NONE` is no verdict."""

    def folded(self, fold: Callable[[str], str]) -> dict[str, str | float]:
        """Return the meaning of each word as `fold` has it, if all words that are then equal
        mean the same.
        """
        meanings: dict[str, set[str | float]] = {}
        for text, value in self.values.items():
            meanings.setdefault(fold(text), set()).add(value)
        return {text: said.pop() for text, said in meanings.items() if len(said) == 1}


class TableReading(Section):
    """How a table is read, so that another table of the same shape is read the same way."""

    version: Literal[1] = 1
    """Version of this layout."""
    unit: Literal["pair", "class", "response"]
    """What is judged: two responses (`pair`), or one by `class` or by score (`response`)."""
    columns: Annotated[dict[Text, ColumnReading], Field(min_length=1)]
    """The columns of the table by name or path."""
    map: dict[Text, Text] = {}  # noqa: RUF012
    """Meanings of words that the user set with `--map`."""
    scale: tuple[float, float, float] | None = None
    """Ends and step of scores, if all raters use one scale."""
    criteria: tuple[Text, ...] = ()
    """Criteria of columns by rater and criterion, which are read as rows by criterion,
    or runs or orders.
    """
    stacked: dict[Text, tuple[Text, ...]] = {}  # noqa: RUF012
    """The columns of each rater in the order of `criteria`."""
    stacked_by: Literal["criterion", "run", "order"] = "criterion"
    """What `criteria` are."""
    rubric: Settings = {}  # noqa: RUF012
    """Settings of the rubric that follow from the words, such as their order."""

    def of_role(self, role: str) -> list[str]:
        """Return the columns with a role."""
        return [name for name, column in self.columns.items() if column.role == role]

    def yaml(self, rubric: Json) -> str:
        """Return the content of the file, a config that reads other tables in the same way.

        Args:
            rubric: The settings of the rubric of a run of the table.
        """
        mode = "pairwise" if self.unit == "pair" else "pointwise"
        # The version is a default, so it is added below: a reader must recognize a later layout.
        reading = self.model_dump(mode="json", exclude_defaults=True)
        content = {
            "defaults": [
                "config",
                {"override /mode": mode},
                # Starting from an empty rubric: settings of the default one would mix with these.
                *([{"override /rubric": "own"}] if rubric else []),
                {"override /dataset": "file"},
                "_self_",
            ],
            **({"rubric": _escaped(dict(rubric))} if rubric else {}),
            "dataset": {"reading": {"version": self.version, **_escaped(reading)}},
        }
        listed = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
        return f"{_ABOUT}{listed}"


_ABOUT: Final = """\
# How a table was read. Another table of the same shape is read in the same way, or it is an error:
#
#   evalkit check TABLE --reading THIS_FILE
#   evalkit run THIS_FILE dataset.path=TABLE judge=NAME
"""


def _escaped(value: Any) -> Any:
    """Return values in which `${` is text and no interpolation."""
    if isinstance(value, dict):
        return {key: _escaped(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_escaped(part) for part in value]
    if isinstance(value, str):
        return value.replace("${", "\\${")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, str):
        return value.replace("\\${", "${")
    return value


def load_reading(path: Path) -> TableReading:
    """Return the reading in a file: `dataset.reading` of a config, or a reading by itself.

    Raises:
        ConfigError: If it cannot be read, or is not a reading.
    """
    try:
        # Before it is parsed: a path may name anything.
        if path.stat().st_size > LARGEST:
            raise ValueError("it is too large")
        content = read_yaml(read_text(path))
        if isinstance(content, dict) and isinstance(content.get("dataset"), dict):
            # A config with a reading; else the file is one by itself.
            content = content["dataset"].get("reading")
        return TableReading.model_validate(_plain(content))
    except OSError as bad:
        problem = f"cannot be read ({bad.strerror or bad})"
    except ValidationError as bad:
        # One fault is enough for one line.
        first = bad.errors()[0]
        key = ".".join(map(str, first["loc"]))
        problem = f"is not the reading of a table ({key}: {first['msg']})"
    except (ValueError, yaml.YAMLError, RecursionError) as bad:
        problem = f"is not the reading of a table ({' '.join(str(bad).split())[:100]})"
    raise ConfigError(
        problem,
        where=str(path),
        remedy="write it with `evalkit check TABLE --save FILE`",
    )
