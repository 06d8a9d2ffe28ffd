"""The rows of a table in one JSON object: under a key, as columns, by id, or as pandas
writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from evalkit.core.errors import DatasetError
from evalkit.core.values import Json, JsonObject

SHAPES: Final = (
    "write an array of rows, {'data': [rows]}, {column: [cells]} or {id: row}"
)
"""The remedy for an object that is no table."""
_KEYS: Final = (
    "rows",
    "data",
    "records",
    "results",
    "items",
    "examples",
    "samples",
    "instances",
    "content",
    "test_results",
    "item_results",
    "itemResults",
)
"""Keys of rows, in order, for an object with several lists of objects."""
_ONLY_KEYS: Final = (
    *("cases", "entries", "judgments", "evaluations", "annotations"),
    *("columns", "ratings", "pairs", "tests", "test_cases"),
    *("conversations", "questions", "list", "docs", "tasks"),
    *("value", "nodes", "edges", "hits", "datasetRunItems", "events"),
    *("request_states", "run_data", "predictions", "details"),
    *("individual_results", "detailed_results", "eval_results"),
    *("evaluation_results", "judgements", "per_instance"),
)
"""Keys of rows in an object without other lists."""
_INNER_KEYS: Final = (
    "rows",
    "data",
    "records",
    "items",
    "examples",
    "samples",
    "edges",
    "hits",
    "cases",
    "docs",
    "tasks",
)
"""Keys of rows within an object that has other keys, which logs do not have."""
_DEPTH: Final = 3
"""How many objects may be around a list of rows."""
_MISSING: Final = object()
_ID: Final = re.compile(r"(^|_|[a-z](?=I))(id|index|ID|Id)$")


def rows_in(value: Json, path: str) -> Iterator[JsonObject]:
    """Yield the rows of a JSON object.

    Raises:
        DatasetError: If it is no table, or could be two.
    """
    for read in (
        _rows_of_split,
        _rows_with_scores,
        _rows_within,
        _rows_of_columns,
        _within,
        _rows_of_nested,
        _of_one_key,
    ):
        rows = read(value, path)
        if rows is not None:
            yield from rows
            return
    keys = ", ".join(map(str, list(value)[:8])) or "nothing"
    raise DatasetError(
        f"is one JSON object and no table of rows (its keys: {keys})",
        where=path,
        remedy=SHAPES,
    )


def _rows_of_split(value: Json, path: str) -> list[JsonObject] | None:
    """Return the rows of `orient="split"`, with which MLflow writes tables too; `None` for
    another object.

    Raises:
        DatasetError: If two columns have one name, or a row has another number of cells.
    """
    columns = value.get("columns")
    data = value.get("data")
    if not isinstance(columns, list) or not isinstance(data, list) or not data:
        return None
    if not all(isinstance(cells, list) for cells in data):
        return None
    names = [str(column) for column in columns]
    if len(set(names)) < len(names):
        raise DatasetError(
            "two columns have the same name",
            where=path,
            remedy="give each column its own name",
        )
    for number, cells in enumerate(data, 1):
        if len(cells) != len(names):
            problem = (
                f"the row has {len(cells)} cells and there are {len(names)} columns"
            )
            raise DatasetError(
                problem, where=f"{path}:row {number}", remedy="fix the row"
            )
    return [dict(zip(names, cells, strict=True)) for cells in data]


def _rows_with_scores(value: Json, path: str) -> list[JsonObject] | None:
    """Return the rows of a list of objects, each with the fields of the score at its position.

    Returns `None` unless there is one such list, as long as `scores`. A field of both with other
    values in `scores` is `scores.FIELD`.

    Raises:
        DatasetError: If the two lists have ids that differ.
    """
    scores = value.get("scores")
    listed = [
        rows for name, rows in value.items() if name != "scores" and _is_rows(rows)
    ]
    if not isinstance(scores, list) or not _is_rows(scores) or len(listed) != 1:
        return None
    if len(listed[0]) != len(scores):
        return None
    pairs = [*zip(listed[0], scores, strict=True)]
    differing = {
        name
        for row, of_row in pairs
        for name in row.keys() & of_row
        if row[name] != of_row[name]
    }
    # An id of both would be that of another row.
    for name in sorted(differing):
        cells = [row.get(name) for row in (*listed[0], *scores)]
        texts = {cell for cell in cells if isinstance(cell, str)}
        if _ID.search(name) or len(texts) >= len(pairs):
            problem = f"'scores' and the rows next to it differ in '{name}'"
            remedy = "write one array, each row with its scores"
            raise DatasetError(problem, where=path, remedy=remedy)
    renamed = {name: f"scores.{name}" for name in differing}
    return [
        {**row, **{renamed.get(name, name): cell for name, cell in of_row.items()}}
        for row, of_row in pairs
    ]


def _rows_within(value: Json, path: str) -> list[JsonObject] | None:
    """Return the rows under a usual key, or under the only key; `None` if no list is certainly
    the table.
    """
    keys = [key for key in _KEYS if _is_rows(value.get(key))]
    if "schema" in value and "data" in keys:  # orient="table"
        keys = ["data"]
    if not keys and len(value) == 1:
        keys = [key for key in value if _is_rows(value[key])]
        [inner] = value.values()
        if not keys and isinstance(inner, dict):
            if {*_KEYS} & inner.keys():
                return _rows_within(inner, path)
            return None
    if not keys:
        # One list of objects, next to objects and single values about them.
        keys = [key for key in value if _is_rows(value[key])]
        # An empty list has no rows, and one object next to many describes them all.
        lists = [key for key, part in value.items() if isinstance(part, list) and part]
        if len(lists) > 1:
            lists = [key for key in lists if len(value[key]) > 1]
        if len(lists) != 1 or lists[0] not in keys or lists[0] not in _ONLY_KEYS:
            return None
        keys = lists
    rows = value[keys[0]]
    if all({"row", "row_idx"} <= row.keys() for row in rows):  # a page of a hub
        return [row["row"] for row in rows if isinstance(row["row"], dict)]
    return [*rows]


def _is_rows(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(row, dict) for row in value)
    )


def _rows_of_columns(value: Json, path: str) -> list[JsonObject] | None:
    """Return the rows of lists of cells by column; `None` for another object.

    Raises:
        DatasetError: If the columns have different lengths.
    """
    columns = [*value.values()]
    if len(columns) < 2 or not all(isinstance(cells, list) for cells in columns):
        return None
    if all(map(_is_rows, columns)):
        return None  # several tables
    lengths = {len(cells) for cells in columns}
    if len(lengths) > 1:
        listed = ", ".join(f"{name} ({len(value[name])})" for name in list(value)[:8])
        raise DatasetError(
            f"the columns have different lengths: {listed}",
            where=path,
            remedy="give each column one cell for each row",
        )
    return [
        dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)
    ]


def _within(value: Json, _: str) -> list[JsonObject] | None:
    """Return the rows under a usual key of an object within the object, if there is one
    such list.
    """
    found = [*_lists_within(value, _DEPTH)]
    return found[0] if len(found) == 1 and len(found[0]) > 1 else None


def _lists_within(value: Json, depth: int) -> Iterator[list[JsonObject]]:
    for key, part in value.items():
        if key in _INNER_KEYS and _is_rows(part):
            yield part
        elif isinstance(part, dict) and depth:
            yield from _lists_within(part, depth - 1)


def _rows_of_nested(value: Json, path: str) -> list[JsonObject] | None:
    """Return the rows of cells by column and row number, or of cells by id and column.

    Returns `None` if the parts are not objects with about the same keys.

    Raises:
        DatasetError: If it could be either.
    """
    if len(value) < 2 or not all(isinstance(part, dict) for part in value.values()):
        return None
    inner = dict.fromkeys(key for part in value.values() for key in part)
    if not inner or any(
        not isinstance(part, dict) or len(part) * 2 < len(inner)
        for part in value.values()
    ):
        return None
    if _are_numbers(inner) and not _are_numbers(value):
        return _by_column(value, inner)
    if _are_numbers(value) or len(value) > len(inner):
        return _by_id(value)
    if len(inner) > len(value):
        return _by_column(value, inner)
    raise DatasetError(
        "could be columns of rows or rows by id: it has as many keys as its parts",
        where=path,
        remedy="write it as an array of rows",
    )


def _of_one_key(value: Json, path: str) -> list[JsonObject] | None:
    """Return the columns or the rows by id under a usual key, next to single values such
    as a version, and to objects about the table.
    """
    if any(isinstance(part, list) for part in value.values()):
        return None
    objects = [
        key
        for key, part in value.items()
        if isinstance(part, dict) and key in (*_KEYS, *_ONLY_KEYS)
    ]
    if len(objects) != 1:
        return None
    inner = value[objects[0]]
    return _rows_of_columns(inner, path) or _rows_of_nested(inner, path)


def _are_numbers(keys: Any) -> bool:
    return all(str(key).isdecimal() for key in keys)


def _by_column(value: Json, inner: Mapping[str, None]) -> list[JsonObject]:
    rows = []
    for index in inner:
        row = {
            name: cell
            for name, cells in value.items()
            if (cell := cells.get(index, _MISSING)) is not _MISSING
        }
        rows.append(row if _are_numbers(inner) or "id" in row else {"id": index, **row})
    return rows


def _by_id(value: Json) -> list[JsonObject]:
    return [row if "id" in row else {"id": key, **row} for key, row in value.items()]
