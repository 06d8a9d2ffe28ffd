"""Readers of third-party formats, which plug-ins offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from inspect import isclass
from pathlib import Path

from evalkit.core.errors import EvalkitError, PluginError
from evalkit.core.plugins import DATASETS, construct, entry_points_in, find, is_offered
from evalkit.core.values import JsonObject

WHERE = "dataset.format"
Rows = Iterable[tuple[str, JsonObject]]


def other_formats() -> list[str]:
    """Return the names of third-party formats."""
    return [point.name for point in entry_points_in(DATASETS)]


def other_reader(name: str) -> Callable[[Path], Rows] | None:
    """Return the reader of a third-party format; `None` if the format is built in.

    Raises:
        PluginError: If it cannot be imported or called.
    """
    # A name of a plug-in that is not installed falls through to the error about formats.
    if not name or not is_offered(DATASETS, name):
        return None
    offered = find(DATASETS, name, {}, where=WHERE, methods=("__call__",))
    # A class is constructed first; its instance must be callable.
    reader = construct(offered, name=name, where=WHERE) if isclass(offered) else offered
    if not callable(reader):
        raise PluginError(
            f"'{name}' is not a reader",
            where=WHERE,
            remedy="use a function that yields (place, row) for a path",
        )
    return partial(_plugin_rows, name, reader)


def _plugin_rows(
    name: str, reader: Callable[[Path], Rows], path: Path
) -> Iterator[tuple[str, JsonObject]]:
    """Yield the location and the content of each row that a plug-in's reader reads.

    Args:
        name: The name of the plug-in, for errors.
        reader: Its reader.
        path: The file.

    Raises:
        PluginError: If the reader fails, or a row is not a mapping.
    """
    try:
        for location, row in reader(path):
            # A row of a wrong type would fail much later, without its location.
            if not isinstance(row, Mapping):
                raise TypeError(f"{location}: the row is not a mapping")
            yield str(location), dict(row)
    # Errors of this package have a location; the end of a generator is not an error.
    except (EvalkitError, OSError, GeneratorExit):
        raise
    except Exception as error:  # third-party code can raise anything
        problem = f"'{name}' fails on {path}: {type(error).__name__}: {error}"
        raise PluginError(
            problem, where=WHERE, remedy="fix the file or the plug-in"
        ) from error
