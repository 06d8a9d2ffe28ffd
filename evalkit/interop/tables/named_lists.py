"""Cells with lists of objects, such as the verdicts of several raters: as objects by
name, or as rows by item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from evalkit.datasets.text import is_conversation
from evalkit.interop.tables.words import (
    known_words,
    matches,
    names_rater,
    tokens,
    word_group,
)

_MOST_NAMES: Final = 20
_LONGEST_NAME: Final = 60
_RATED: Final = ("judge", "human", "label", "verdict")
"""The groups of words by which a name says whose verdict it is."""

_NAMED_VALUE: Final = ("name", "value")
"""What a list of two has that names its value."""
_FAILED: Final = word_group("failed_call")
"""Keys of an object that says that a call failed."""
_ABOUT_FAILURE: Final = word_group("about_failure")

Item = Mapping[str, Any]
Lists: TypeAlias = Sequence[list[Any] | None]
"""The cells of a column of lists."""


def by_name(
    name: str, column: Sequence[Any], lists: Sequence[list[Any] | None]
) -> Sequence[Any]:
    """Return lists of named objects, such as `{name: judge, value: 1}`, as objects by name.

    Objects of raters that have no names are named by their position. Lists that cannot be
    named stay as they are.

    Args:
        name: The column's name.
        column: Its cells.
        lists: Its cells as lists.
    """
    if _are_named_values(lists):
        # [["llm", 4], ["human", 5]] is {"llm": 4, "human": 5}.
        return _of_filled(lists, dict)
    lists = [_with_plain_names(_without_failures(cell)) for cell in lists]
    filled = [cell for cell in lists if cell]
    items = [item for cell in filled for item in cell]
    are_objects = all(isinstance(item, dict) for item in items)
    if not items or not are_objects or is_conversation(filled[0]):
        return column
    longest = max(map(len, filled))
    if (key := _only_name(items)) is not None:
        # [{"name": "bug"}] says no more than ["bug"].
        words = _of_filled(lists, lambda cell: [item.get(key) for item in cell])
        if longest == 1:
            return _of_filled(words, _first_of)
        return words
    for keys in _naming_keys(items):
        if _tell_apart(keys, filled):
            return _of_filled(lists, partial(_named, keys))
    # Lists of one object are that object.
    if longest == 1:
        return _of_filled(lists, _first_of)
    # Lists of raters without names: each position counts as a name.
    rated = matches(name, "human") or matches(name, "judge")
    if rated and longest <= _MOST_NAMES:
        return _of_filled(lists, _by_position)
    return column


def _of_filled(lists: Lists, read: Callable[[list[Any]], Any]) -> list[Any]:
    """Return what is read of each list; `None` if a cell is empty."""
    return [read(cell) if cell else None for cell in lists]


def _first_of(cell: list[Any]) -> Any:
    return cell[0]


def _only_name(items: Sequence[Item]) -> str | None:
    """Return the key of the name of objects that have nothing else; `None` if they have."""
    keys = {key for item in items for key in item}
    if len(keys) != 1:
        return None
    [key] = keys
    is_name = key in _keys_of_names()
    if is_name and all(isinstance(item[key], str) for item in items if item):
        return key
    return None


def _are_named_values(lists: Lists) -> bool:
    """Return whether lists have pairs of a rater's name and a value, each name once."""
    filled = [cell for cell in lists if cell]
    names = set()
    for cell in filled:
        for pair in cell:
            if not isinstance(pair, list):
                return False
            if len(pair) != len(_NAMED_VALUE):
                return False
            name, value = pair
            if not isinstance(name, str):
                return False
            if isinstance(value, dict | list):
                return False
            names.add(name)
        if len({name for name, _ in cell}) < len(cell):
            return False
    if not names or len(names) > _MOST_NAMES:
        return False
    return all(map(names_rater, names))


def _without_failures(cell: list[Any] | None) -> list[Any] | None:
    """Return a list without calls that failed and were repeated."""
    answered = []
    for item in cell or ():
        failed = isinstance(item, dict) and _is_failure(item)
        if not failed:
            answered.append(item)
    return answered or cell


def _with_plain_names(cell: list[Any] | None) -> list[Any] | None:
    """Return a list whose objects have a name instead of an object with one, as in
    `{evaluator: {name: tone, version: 2}, value: 1}`.
    """
    if not cell or not all(isinstance(item, dict) for item in cell):
        return cell
    keys = _keys_of_names()
    named = [key for key in keys if all(map(_name_within(key), cell))]
    plain = []
    for item in cell:
        names = {key: item[key]["name"] for key in named}
        plain.append({**item, **names})
    # A sum of values, as HELM writes statistics, is one value: their mean.
    if named and all(map(_is_sum, plain)):
        return [_summed(item, named) for item in plain]
    return plain


def _keys_of_names() -> Sequence[str]:
    """Return the keys that may name an object, the likeliest first."""
    keys: Sequence[str] = known_words()["names"]["key_of_names"]
    return keys


def _is_sum(item: Item) -> bool:
    values = [item.get("count"), item.get("sum")]
    return all(type(value) in (int, float) for value in values)


def _summed(item: Item, names: Sequence[str]) -> dict[str, Any]:
    summed = {key: item[key] for key in names}
    summed["mean"] = item["sum"] / item["count"] if item["count"] else None
    return summed


def _name_within(key: str) -> Callable[[Item], bool]:
    def has_name(item: Item) -> bool:
        inner = item.get(key)
        return isinstance(inner, dict) and isinstance(inner.get("name"), str)

    return has_name


def _is_failure(item: Item) -> bool:
    keys = set(item)
    if keys.isdisjoint(_FAILED):
        return False
    return keys <= _FAILED | _ABOUT_FAILURE


def _naming_keys(items: Sequence[Item]) -> Iterator[tuple[str, ...]]:
    """Yield the keys that may name the objects of a list, each or two together."""
    listed = _keys_of_names()
    every_key = _keys_of(items)
    for key in listed:
        if _has_names(key, items):
            yield (key,)
    # A label next to a value names it; next to a score it is a class.
    valued = all("value" in item for item in items)
    if valued and _has_names("label", items):
        yield ("label",)
    # Other keys name the objects if all of their values are raters.
    raters = [
        key
        for key in every_key
        if _has_names(key, items) and (key in listed or _names_raters(key, items))
    ]
    for key in raters:
        yield (key,)
    # Runs of one rater have numbers.
    for key in every_key:
        if matches(key, "repeat") and _has_names(key, items):
            yield (key,)
    # A criterion and who judged it, as `{name: tone, by: human}`.
    for criterion in listed:
        for rater in raters:
            if criterion != rater and _has_names(criterion, items):
                yield (criterion, rater)


def _keys_of(items: Sequence[Item]) -> list[str]:
    """Return the keys of all objects, in the order in which they first occur."""
    keys: dict[str, None] = {}
    for item in items:
        keys |= dict.fromkeys(item)
    return list(keys)


def _has_names(key: str, items: Sequence[Item]) -> bool:
    """Return whether a key has a few short texts, one in each object."""
    names = set()
    for item in items:
        value = item.get(key)
        if not isinstance(value, str | int):
            return False
        if isinstance(value, bool):
            return False
        names.add(str(value)[:_LONGEST_NAME])
    return "" not in names and len(names) <= _MOST_NAMES


def _names_raters(key: str, items: Sequence[Item]) -> bool:
    if matches(key, "rater") and not matches(key, "kind"):
        return True
    return all(names_rater(str(item[key])) for item in items)


def _is_rater(key: str, items: Sequence[Item]) -> bool:
    """Return whether a key has the rater of each object, and no other key has another
    rater's verdict.
    """
    if not (_has_names(key, items) and _names_raters(key, items)):
        return False
    if all(names_rater(str(item[key])) for item in items):
        return True
    other_keys = [other for other in _keys_of(items) if other != key]
    return not any(map(_is_rated, other_keys))


def _tell_apart(keys: Sequence[str], lists: Sequence[Sequence[Item]]) -> bool:
    """Return whether no list has two objects with the same names."""
    for items in lists:
        names = {tuple(str(item[key]) for key in keys) for item in items}
        if len(names) < len(items):
            return False
    return True


def _named(keys: Sequence[str], items: Sequence[Item]) -> dict[str, Any]:
    """Return the objects of a list by the values of keys, one level for each key."""
    objects: dict[str, Any] = {}
    *outer_keys, inner_key = keys
    for item in items:
        level = objects
        for key in outer_keys:
            level = level.setdefault(str(item[key]), {})
        name = str(item[inner_key])
        # A number alone would not say that it is of a run.
        if matches(inner_key, "repeat"):
            name = f"{inner_key} {name}"
        level[name] = {key: part for key, part in item.items() if key not in keys}
    return objects


def _by_position(items: Sequence[Item]) -> dict[str, Item]:
    # Positions are counted from 1.
    return {str(position): item for position, item in enumerate(items, 1)}


def list_of_units(cells: Mapping[str, Sequence[Any]]) -> str | None:
    """Return the column whose lists have what is judged, such as the turns of a
    conversation; `None` without one.

    Its objects have verdicts by their names, and no other column has.
    """
    columns = [name for name, column in cells.items() if _has_objects(column)]
    if len(columns) != 1:
        return None
    [units] = columns
    other_columns = [name for name in cells if name != units]
    if any(map(_is_rated, other_columns)):
        return None
    items = [item for cell in cells[units] if cell for item in cell]
    names = [units, *_keys_of(items)]
    if any(map(_is_rated, names)):
        return units
    return None


def _has_objects(column: Sequence[Any]) -> bool:
    # The first cell shows of most columns that they have no lists.
    first = next(filter(None, column), None)
    if not isinstance(first, list):
        return False
    filled = [cell for cell in column if cell]
    if not all(isinstance(cell, list) for cell in filled):
        return False
    items = [item for cell in filled for item in cell]
    are_objects = all(isinstance(item, dict) for item in items)
    return are_objects and not is_conversation(filled[0])


def _is_rated(name: str) -> bool:
    words = (name, name.removesuffix("s"))
    return any(matches(word, group) for word in words for group in _RATED)


def rows_by_item(
    cells: Mapping[str, Sequence[Any]], units: str
) -> tuple[dict[str, list[Any]], list[int]]:
    """Return columns with a row for each object of a column's lists, and the row from
    which each is.

    Args:
        cells: The columns.
        units: The name of the column.
    """
    sources = []
    items: list[tuple[int, Item]] = []
    for row, cell in enumerate(cells[units]):
        for position, item in enumerate(cell or [], 1):
            sources.append(row)
            items.append((position, item))
    spread = {
        name: [column[row] for row in sources]
        for name, column in cells.items()
        if name != units
    }
    # Verdicts of raters are about one unit; other objects are units.
    every = [item for _, item in items]
    keys = _keys_of(every)
    if not any(_is_rater(key, every) for key in keys):
        spread[f"{units}.turn"] = [position for position, _ in items]
    for key in keys:
        spread[f"{units}.{key}"] = [item.get(key) for _, item in items]
    return spread, sources


def by_parallel_names(
    cells: Mapping[str, list[Any]], lists_of: Callable[[list[Any]], Lists | None]
) -> Mapping[str, list[Any]]:
    """Return columns with lists next to a list of names, as objects by name.

    Args:
        cells: The columns.
        lists_of: Returns the cells of a column as lists; `None` if it has others.
    """
    lists = {
        name: column
        for name, cell_column in cells.items()
        if (column := lists_of(cell_column)) is not None
    }
    naming = [name for name, column in lists.items() if _are_names(name, column)]
    if len(naming) != 1:
        return cells
    [names] = naming
    parallel = [
        name
        for name, column in lists.items()
        if name != names and _are_parallel(column, lists[names])
    ]
    if not parallel:
        return cells
    named = {name: column for name, column in cells.items() if name != names}
    for name in parallel:
        named[name] = _by_names(lists[names], lists[name])
    return named


def _by_names(names: Lists, values: Lists) -> list[Any]:
    """Return the values of each row by the row's names; `None` if the row has none."""
    objects: list[Any] = []
    for keys, cell in zip(names, values, strict=True):
        if cell is None:
            objects.append(None)
            continue
        objects.append(dict(zip(keys or (), cell, strict=True)))
    return objects


def _are_names(name: str, column: Lists) -> bool:
    """Return whether lists have the names of raters or criteria, each once."""
    filled = [cell for cell in column if cell]
    items = [item for cell in filled for item in cell]
    if not all(isinstance(item, str) for item in items):
        return False
    if any(len({*cell}) < len(cell) for cell in filled):
        return False
    words = set(items)
    if not 1 < len(words) <= _MOST_NAMES:
        return False
    if max(map(len, words)) > _LONGEST_NAME:
        return False
    *_, last_word = tokens(name) or ("",)
    singular = last_word.removesuffix("s")
    if matches(singular, "criterion"):
        return True
    return all(map(names_rater, words))


def _are_parallel(column: Lists, names: Lists) -> bool:
    """Return whether lists have a single value for each name, in each row."""
    for cell, keys in zip(column, names, strict=True):
        if len(cell or ()) != len(keys or ()):
            return False
        if any(isinstance(item, dict | list) for item in cell or ()):
            return False
    return True
