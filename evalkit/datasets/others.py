"""Dataset formats of someone else's: found by name or by the path of a class, and told apart from bad data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from inspect import isclass
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError, PluginError
from evalkit.plugins import DATASETS, find, is_offered, make, offered

WHERE = "dataset.format"
Rows = Iterable[tuple[str, dict[str, Any]]]


def other_formats() -> list[str]:
    """Return the names of the formats that other packages offer."""
    return [point.name for point in offered(DATASETS)]


def other_reader(name: str) -> Callable[[Path], Rows] | None:
    """Return the reader of a format that is someone else's, none if it is not.

    Raises:
        PluginError: if it cannot be imported, or cannot be called.
    """
    if not name or not is_offered(DATASETS, name):
        return None
    found = find(DATASETS, name, {}, where=WHERE, methods=("__call__",))
    reader = make(found, name=name, where=WHERE) if isclass(found) else found
    if not callable(reader):
        raise PluginError(f"'{name}' is not a reader", where=WHERE, remedy="give what yields (place, row) for a path")
    return partial(_rows, name, reader)


def _rows(name: str, reader: Callable[[Path], Rows], path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        for place, row in reader(path):
            if not isinstance(row, Mapping):
                raise TypeError(f"{place}: the row is not a mapping")
            yield str(place), dict(row)
    except (EvalkitError, OSError, GeneratorExit):
        raise
    except Exception as error:  # a plug-in's own code runs here, and may fail in any way
        what = f"'{name}' fails on {path}: {type(error).__name__}: {error}"
        raise PluginError(what, where=WHERE, remedy="mend the file or the plug-in") from error
