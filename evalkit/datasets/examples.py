"""Read graded calibration examples from a file into the rubric."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from math import isfinite
from pathlib import Path

from evalkit.config import Example, RunConfig
from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.scale import Classes, Scale
from evalkit.core.types import Winner
from evalkit.core.values import Json
from evalkit.datasets.compression import reading
from evalkit.datasets.formats import reader_for

KEY = "rubric.examples_path"
_WINNERS: tuple[Winner, ...] = ("A", "B", "TIE")


def with_examples(config: RunConfig, *, base: Path | None = None) -> RunConfig:
    """Return `config` with the examples of `rubric.examples_path` appended to its own,
    and without the path.

    The examples are then part of the config, its hash and the run folder. `base` is searched after
    the current folder. A config without a path is unchanged.

    Raises:
        ConfigError: If the file does not exist or has no reader.
        DatasetError: If a row is not an example on the rubric's scale; the message names file and
            line.
    """
    named = config.rubric.examples_path
    if named is None:
        return config
    path = _locate(named, base)
    with reading(path):
        read = tuple(
            _read_example(row, location, config)
            for location, row in reader_for(None, path)(path)
        )
    if not read:
        raise DatasetError(
            "the file has no examples",
            where=str(path),
            remedy=f"add examples, or remove {KEY}",
        )
    return config.with_(
        {
            "rubric.examples": (*config.rubric.examples, *read),
            "rubric.examples_path": None,
        }
    )


def _locate(named: str, base: Path | None) -> Path:
    path = Path(named).expanduser()
    for candidate in (path, *([base / path] if base else [])):
        if candidate.is_file():
            return candidate
    raise ConfigError(
        f"there is no file '{named}'",
        where=KEY,
        remedy="set it to a file of examples, one JSON object per line",
    )


def _read_example(row: Json, location: str, config: RunConfig) -> Example:
    """Return the example of a row: a winner, a class, a score for each criterion, or one score.

    Raises:
        DatasetError: If the row has unknown columns, or its grade does not fit the rubric.
    """
    if unknown := [column for column in row if column not in Example.model_fields]:
        remedy = did_you_mean(unknown[0], Example.model_fields)
        raise DatasetError(
            f"an example has no '{unknown[0]}'", where=location, remedy=remedy
        )
    example = partial(
        Example,
        response=_text(row, "response", location),
        justification=_text(row, "justification", location),
        prompt=None if row.get("prompt") is None else _text(row, "prompt", location),
    )
    if row.get("winner") is not None:
        winner = _read_winner(row["winner"], location)
        response_b = _text(row, "response_b", location)
        return example(response_b=response_b, winner=winner)
    if (classes := config.rubric.named_classes) is not None:
        class_name = _read_class(row.get("class_name"), classes, location)
        return example(class_name=class_name)
    scores = _parse_scores(row.get("scores"), location)
    if not scores:
        score = _read_score(row.get("score"), "score", location, config.rubric.scale)
        return example(score=score)
    if row.get("score") is not None:
        raise DatasetError(
            "it has both 'scores' and 'score'", where=location, remedy="remove 'score'"
        )
    return example(scores=_read_scores(scores, config, location))


def _read_winner(value: object, location: str) -> Winner:
    """Return the winner of a pair.

    Raises:
        DatasetError: If it is not one of A, B and TIE.
    """
    for winner in _WINNERS:
        if value == winner:
            return winner
    raise DatasetError(
        f"'{str(value)[:60]}' is not a winner",
        where=location,
        remedy="write A, B or TIE",
    )


def _read_class(value: object, classes: Classes, location: str) -> str:
    """Return the name of a class of the rubric.

    Raises:
        DatasetError: If the rubric has no such class.
    """
    name = str(value)
    if name in classes.names:
        return name
    raise DatasetError(
        f"the class '{name[:60]}' is not in the rubric",
        where=location,
        remedy=f"set 'class_name' to one of {', '.join(classes.names)}",
    )


def _read_scores(
    scores: Mapping[str, object], config: RunConfig, location: str
) -> dict[str, float]:
    """Return the score of each criterion that the row has one for.

    Raises:
        DatasetError: If a name is not a criterion, or a score is not on the scale.
    """
    criteria = list(config.criteria)
    if unknown := [name for name in scores if name not in criteria]:
        raise DatasetError(
            f"'scores' has '{unknown[0]}', which is not one of the criteria",
            where=location,
            remedy=did_you_mean(unknown[0], criteria),
        )
    scale = config.rubric.scale
    return {
        name: _read_score(value, f"score of {name}", location, scale)
        for name, value in scores.items()
    }


def _text(row: Json, column: str, location: str) -> str:
    """Return the text in a column of a row.

    Raises:
        DatasetError: If it is missing, or not a text.
    """
    value = row.get(column)
    if not isinstance(value, str):
        problem = "is missing" if value is None else f"is {value!r:.40} and not a text"
        raise DatasetError(
            f"'{column}' {problem}",
            where=location,
            remedy="give prompt, response, scores and justification",
        )
    return value


def _parse_scores(value: object, location: str) -> Json:
    """Return scores by criterion; a table has them as a JSON object in a cell, and an empty cell
    has none.

    Raises:
        DatasetError: If it is anything but a mapping.
    """
    if isinstance(value, str) and value.strip():
        # Anything but a mapping is rejected below.
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping) or not value:
        remedy = 'write a score for each criterion, such as {"accuracy": 4}'
        raise DatasetError(
            f"'scores' is {value!r:.40} and not a mapping",
            where=location,
            remedy=remedy,
        )
    return value


def _read_score(value: object, name: str, location: str, scale: Scale) -> float:
    """Return a score on the scale.

    Raises:
        DatasetError: If it is missing, not a number, or not on the scale.
    """
    try:
        # True is not the score 1.
        score = float("nan") if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = float("nan")
    if not isfinite(score):
        if value is None:
            problem = "is missing"
        else:
            problem = f"is {value!r:.40} and not a number"
        raise DatasetError(
            f"'{name}' {problem}",
            where=location,
            remedy=f"write a number on the scale {scale.name()}",
        )
    if not scale.contains(score):
        raise DatasetError(
            f"{name} {score:g} is not on the scale {scale.name()}",
            where=location,
            remedy="fix the score",
        )
    return score
