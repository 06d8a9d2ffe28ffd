"""Graded examples for calibration, read from a file into the rubric."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from evalkit.config import Example, RunConfig
from evalkit.datasets.packed import reading
from evalkit.datasets.readers import reader_for
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.scales import Scale

KEY = "rubric.examples_path"


def with_examples(config: RunConfig, *, base: Path | None = None) -> RunConfig:
    """Return `config` with the examples of `rubric.examples_path` after its own, and the path gone.

    What the judge is shown is then in the config itself, in its hash and in the run folder. `base` is searched after
    the current folder; a config without a path is returned as it is.

    Raises:
        ConfigError: if the file is not there or has no reader.
        DatasetError: if a row is not an example on the rubric's scale; the message names file and line.
    """
    named = config.rubric.examples_path
    if named is None:
        return config
    path = _locate(named, base)
    with reading(path):
        read = tuple(_example(row, place, config.rubric.scale) for place, row in reader_for(None, path)(path))
    if not read:
        raise DatasetError("the file holds no examples", where=str(path), remedy=f"write some, or leave {KEY} out")
    rubric = config.rubric.model_copy(update={"examples": (*config.rubric.examples, *read), "examples_path": None})
    return config.model_copy(update={"rubric": rubric})


def _locate(named: str, base: Path | None) -> Path:
    path = Path(named).expanduser()
    for candidate in (path, *([base / path] if base else [])):
        if candidate.is_file():
            return candidate
    raise ConfigError(
        f"there is no file '{named}'", where=KEY, remedy="name a file of examples, one JSON object a line"
    )


def _example(row: Mapping[str, Any], place: str, scale: Scale) -> Example:
    if unknown := [column for column in row if column not in Example.model_fields]:
        remedy = did_you_mean(unknown[0], Example.model_fields)
        raise DatasetError(f"an example has no '{unknown[0]}'", where=place, remedy=remedy)
    response, justification = (_text(row, column, place) for column in ("response", "justification"))
    return Example(response=response, score=_score(row.get("score"), place, scale), justification=justification)


def _text(row: Mapping[str, Any], column: str, place: str) -> str:
    value = row.get(column)
    if not isinstance(value, str):
        what = "is missing" if value is None else f"is {value!r:.40} and not a text"
        raise DatasetError(f"'{column}' {what}", where=place, remedy="give response, score and justification")
    return value


def _score(value: object, place: str, scale: Scale) -> float:
    try:
        score = float("nan") if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = float("nan")
    if not isfinite(score):
        what = "is missing" if value is None else f"is {value!r:.40} and not a number"
        raise DatasetError(f"'score' {what}", where=place, remedy=f"write a number on the scale {scale.name()}")
    if not scale.contains(score):
        raise DatasetError(f"score {score:g} is not on the scale {scale.name()}", where=place, remedy="mend the score")
    return score
