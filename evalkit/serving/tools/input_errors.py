"""Turn an invalid input of a tool into one line: which field, what is wrong, and what to write."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ValidationError

from evalkit.config.kinds import models_in
from evalkit.config.problems import config_error
from evalkit.core.errors import ConfigError, did_you_mean

_CRITERION = (
    "write the criterion's name, or {'name': NAME, 'description': TEXT, 'weight': 0.5}"
)


def input_error(error: ValidationError, model: type[BaseModel]) -> ConfigError:
    """Return the first problem that pydantic found in a tool's input.

    Args:
        error: What pydantic raised.
        model: The model of the input.
    """
    problems = error.errors(include_url=False)
    # A misspelled field is also a missing one; its name says more.
    problem = next(
        (entry for entry in problems if entry["type"] == "extra_forbidden"), problems[0]
    )
    path = problem["loc"]
    where = ".".join(str(part) for part in path)
    if problem["type"] == "extra_forbidden":
        fields = _fields_below(model, path[:-1])
        return ConfigError(
            "no such field", where=where, remedy=did_you_mean(str(path[-1]), fields)
        )
    if problem["type"] == "missing":
        return ConfigError("is missing", where=where, remedy=f"give {path[-1]}=…")
    if len(path) == 2 and path[0] == "criteria" and problem["type"].endswith("_type"):
        names_only = problem["type"] == "string_type"
        remedy = "write the criterion's name" if names_only else _CRITERION
        return ConfigError(
            f"is not a criterion (got {_shown(problem['input'])})",
            where=where,
            remedy=remedy,
        )
    return config_error(error, ())


def _fields_below(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the names of the fields at a path; list positions have the fields of their list."""
    for part in path:
        field = model.model_fields.get(str(part))
        if field is not None:
            model = next(models_in(field.annotation), model)
    return list(model.model_fields)


def _shown(value: object) -> str:
    text = repr(value)
    if len(text) <= 80:
        return text
    return f"{text[:79]}…"
