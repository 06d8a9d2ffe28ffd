"""The cells of a table by column, with objects opened to paths, and the rows that
spreadsheets add removed.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import contains
from typing import Any, Final, TypeAlias

from evalkit.core.display import one_line, visible_names
from evalkit.core.errors import DatasetError
from evalkit.core.ids import id_text
from evalkit.datasets.located_rows import MOST_COLUMNS, Placed, RepeatedColumn, too_wide
from evalkit.datasets.table_rows import TableRows
from evalkit.datasets.text import written_value
from evalkit.interop.tables.named_lists import (
    by_name,
    by_parallel_names,
    list_of_units,
    rows_by_item,
)
from evalkit.interop.tables.turned_tables import TURNED, turned
from evalkit.interop.tables.words import fold, known_words, polarity, word_group
from evalkit.interop.tables.written_objects import (
    may_be_object,
    may_have_objects,
    object_in,
)
from evalkit.interop.tables.written_votes import listed_votes

Rows: TypeAlias = Sequence[Placed]
_MOSTLY: Final = 0.8
"""A column is opened if at least this share of its cells are objects."""
_DEPTH: Final = 8
_LONGEST_CELL: Final = 1_000_000
_MOST_ANNOTATORS: Final = 20
_LONGEST_LIST: Final = 500
_MOST_POINTS: Final = word_group("most_points")
"""Words of a row with the most points that each column has."""
_UNIT: Final = re.compile(r"(?<=\d)\s*%?\s*(?:[µμnm]?s|[✓✔✅]\ufe0f?)?$")
"""What is after the number of a mean: a unit of time, or the mark of what it counts."""
_AROUND_WORDS: Final = string.punctuation + string.whitespace
_FIRST_COLUMNS: Final = 3
_FEW_SUMS: Final = 4
"""There is at most one sum for so many rows."""
_MOST_WORDS: Final = 20
"""The most different words of a column that has objects too."""
_LAST_ROWS: Final = 5
"""The number of rows at the end that may be totals."""


@dataclass(slots=True)
class Columns:
    """The cells of a table by column, and where each row is from; a cell without a
    value is `None`.
    """

    cells: dict[str, list[Any]]
    places: Sequence[str]
    notes: list[str] = field(default_factory=list)
    repeated: dict[str, list[str]] = field(default_factory=dict)
    """The columns of each header that several columns have."""

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: Sequence[int]) -> Columns:
        """Return these rows."""
        cells = {
            name: [column[row] for row in rows] for name, column in self.cells.items()
        }
        locations = [self.places[row] for row in rows]
        return Columns(cells, locations, self.notes, self.repeated)


def columns_of_table(rows: Rows, where: str) -> Columns:
    """Return the columns of a whole table.

    Raises:
        DatasetError: If it has too few rows, no column, or too long cells.
    """
    if len(rows) < 2:
        problem = (
            "has no rows"
            if not rows
            else "has only one row, which shows nothing about a judge"
        )
        remedy = "use a table with one row for each verdict"
        raise DatasetError(problem, where=where, remedy=remedy)
    if not any(row for _, row in rows):
        problem = "has rows without any column"
        raise DatasetError(problem, where=where, remedy="check the file")
    return columns_of(rows)


def columns_of(rows: Rows) -> Columns:
    """Return a table's columns, each with a name on one line.

    Raises:
        DatasetError: If a cell is too long.
    """
    by_case = turned(rows)
    table = TableRows.of(by_case or rows)
    cells = {name: _values(column) for name, column in table.columns.items()}
    locations = table.locations
    where = next(iter(locations), "").rpartition(":")[0]
    _check_lengths(cells, locations)
    columns = Columns(cells, locations)
    if by_case is not None:
        columns.notes.append(TURNED)
    _drop_headers(columns)
    # Totals are dropped first: they are not objects like the cells above them.
    _drop_totals(columns)
    _drop_sums_between(columns)
    _unmix(columns)
    _keep_first_lines(columns)
    opened = _all_opened(columns.cells, where)
    units = list_of_units(opened)
    if units is not None:
        opened, sources = rows_by_item(opened, units)
        opened = _all_opened(opened, where)
        columns.places = [columns.places[row] for row in sources]
        columns.notes.append(f"read as a row for each object in '{units}'")
    # A header may have a line break, which would begin a line of its own in what is printed.
    names_on_a_line = visible_names(opened, one_line)
    columns.cells = {names_on_a_line[name]: column for name, column in opened.items()}
    for name in table.columns:
        if isinstance(name, RepeatedColumn) and name in names_on_a_line:
            same = columns.repeated.setdefault(one_line(name.header), [])
            same.append(names_on_a_line[name])
    return columns


def cell_text(cell: Any) -> str:
    """Return a cell as a text: a list or an object as JSON, a number without a trailing `.0`."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, list | dict):
        return json.dumps(cell, ensure_ascii=False, default=str)
    if isinstance(cell, bool):
        return str(cell).lower()
    return id_text(cell)


def _value(cell: Any) -> Any:
    # Blank cells are empty, as spreadsheets fill them with spaces.
    if isinstance(cell, str) and (not cell or cell.isspace()):
        return None
    return cell


def _values(column: list[Any]) -> list[Any]:
    """Return the cells of a column, `None` for blank ones."""
    if _are_texts(column) and not any(map(str.isspace, column)) and "" not in column:
        return column
    return [_value(cell) for cell in column]


def _are_texts(column: Sequence[Any]) -> bool:
    """Return whether all cells are texts: their types are compared without a look at each
    in Python.
    """
    return {*map(type, column)} == {str}


def _texts_in(column: Sequence[Any]) -> Sequence[str]:
    if _are_texts(column):
        return column
    return [cell for cell in column if isinstance(cell, str)]


def _check_lengths(cells: Mapping[str, list[Any]], locations: Sequence[str]) -> None:
    for name, column in cells.items():
        if max(map(len, _texts_in(column)), default=0) <= _LONGEST_CELL:
            continue
        for location, cell in zip(locations, column, strict=True):
            if isinstance(cell, str) and len(cell) > _LONGEST_CELL:
                problem = (
                    f"column '{name[:60]}' has a cell with {len(cell):,} characters"
                )
                remedy = f"shorten it to {_LONGEST_CELL:,}"
                raise DatasetError(problem, where=location, remedy=remedy)


def _drop_headers(columns: Columns) -> None:
    """Drop rows that repeat the header, as files that were put together have them."""
    if len(columns.cells) < 2:
        return
    first = next(iter(columns.cells))
    repeated = {
        row
        for row, cell in enumerate(columns.cells[first])
        if cell == first
        and all(column[row] == name for name, column in columns.cells.items())
    }
    if repeated:
        columns.notes.append(f"rows that repeat the header, not read: {len(repeated)}")
        _drop_rows(columns, repeated)
    # Gradebooks have the most points below the header.
    row = [column[0] for column in columns.cells.values() if column]
    filled = [cell for cell in row if cell is not None]
    if not filled:
        return
    if len(columns) < 2:
        return
    first_text = cell_text(filled[0])
    name, *further = columns.cells
    # pandas writes the name of the index below names of columns in two rows.
    if len(filled) == 1 and row[0] is not None and _are_full(columns):
        columns.notes.append(f"a row with '{first_text.strip()}', not read")
        _drop_rows(columns, {0})
        if first_text not in columns.cells:
            columns.cells = {
                first_text: columns.cells[name],
                **{other: columns.cells[other] for other in further},
            }
        return
    is_above = fold(first_text) in _MOST_POINTS
    if is_above and all(map(_is_figure, filled[1:])):
        columns.notes.append(f"a row with '{first_text.strip()}', not read")
        _drop_rows(columns, {0})


def _are_full(columns: Columns) -> bool:
    """Return whether each row but the first one has all cells of several columns."""
    rows = zip(*(column[1:] for column in columns.cells.values()), strict=True)
    return len(columns.cells) > 2 and all(None not in row for row in rows)


def _drop_rows(columns: Columns, rows: Collection[int]) -> None:
    for name, column in columns.cells.items():
        columns.cells[name] = [
            cell for row, cell in enumerate(column) if row not in rows
        ]
    columns.places = [
        location for row, location in enumerate(columns.places) if row not in rows
    ]


def _drop_sums_between(columns: Columns) -> None:
    """Drop the rows of sums between others: a word for a sum among the numbers of the
    first columns.
    """
    totals = {fold(word) for word in known_words()["names"]["total"]}
    rows = set()
    for column in [*columns.cells.values()][:_FIRST_COLUMNS]:
        texts = {*_texts_in(column)}
        words = {cell for cell in texts if cell.strip()[:1].isalpha()}
        # Only where each other cell is a number may such a word be no id.
        if not words or not all(fold(word).rstrip(":") in totals for word in words):
            words = _sums_of_groups(texts, totals)
        if not words:
            continue
        found = {
            row
            for row, cell in enumerate(column)
            if isinstance(cell, str) and cell in words
        }
        if len(found) <= len(columns) / _FEW_SUMS:
            rows |= found
    if rows:
        columns.notes.append(f"rows with sums between others, not read: {len(rows)}")
        _drop_rows(columns, rows)


def _sums_of_groups(texts: Collection[str], totals: Collection[str]) -> set[str]:
    """Return the texts that name the sum of a group of rows, as `Berlin Total` below `Berlin`."""
    edges = tuple(totals)
    # One word is no sum of a group.
    candidates = [
        text
        for text in texts
        if not (text.isalnum() and text.isascii()) and _may_name_sum(text, edges)
    ]
    # The names of groups are needed only where a text may be that of a sum.
    groups = {fold(text) for text in texts} if candidates else set()
    sums = set()
    for text in candidates:
        words = fold(text).rstrip(":").split()
        at_the_end = (words[-1:], words[:-1])
        at_the_start = (words[:1], words[1:])
        for word, group in (at_the_end, at_the_start):
            if word and word[0] in totals and " ".join(group) in groups:
                sums.add(text)
    return sums


def _may_name_sum(text: str, totals: tuple[str, ...]) -> bool:
    """Return whether a text may begin or end with a word for a sum: hardly any text has to be
    folded to see that it does not.
    """
    if not text.isascii():
        return True
    bare = text.casefold().strip(_AROUND_WORDS)
    return bare.startswith(totals) or bare.endswith(totals)


def _drop_totals(columns: Columns) -> None:
    """Drop the last rows that sum up a spreadsheet: their first cell says so, and most
    others are empty or numbers.
    """
    totals = {fold(word) for word in known_words()["names"]["total"]}
    # `n` and `sd` are read so only next to a sum or a mean.
    statistics = {fold(word) for word in known_words()["names"]["statistic"]}
    firsts = [_first_words(columns, row) for row in range(len(columns))[-_LAST_ROWS:]]
    if not totals.isdisjoint(firsts):
        totals |= statistics
    last = len(columns)
    # From the end, and never the first row.
    while last > max(1, len(columns) - _LAST_ROWS):
        row = [column[last - 1] for column in columns.cells.values()]
        filled = [cell for cell in row if cell is not None]
        first = _first_words(columns, last - 1)
        # Texts other than figures: a row with one is data, such as a last case named Total.
        words = [cell for cell in filled[1:] if not _is_figure(cell)]
        is_total = first in totals and not words
        is_total = is_total or _is_unnamed_total(columns, last - 1)
        # A blank row is dropped with the totals around it.
        if filled and not is_total:
            break
        last -= 1
    if last < len(columns):
        dropped = len(columns) - last
        columns.notes.append(f"rows with totals at the end, not read: {dropped}")
        for name, column in columns.cells.items():
            columns.cells[name] = column[:last]
        columns.places = columns.places[:last]


def _first_words(columns: Columns, row: int) -> str:
    """Return the first cell of a row that has a value, as a word to compare."""
    for column in columns.cells.values():
        if column[row] is not None:
            return fold(cell_text(column[row])).rstrip(":")
    return ""


def _unmix(columns: Columns) -> None:
    """Read an object among words as the word under the one key that has the words of the column."""
    for name, column in [*columns.cells.items()]:
        # The types of cells, without a look at each in Python.
        kinds = {*map(type, column)} - {type(None)}
        if dict not in kinds:
            continue
        if len(kinds) < 2:
            continue
        if list in kinds:
            continue
        words = {cell for cell in column if cell is not None and type(cell) is not dict}
        objects = [cell for cell in column if type(cell) is dict]
        keys = [
            key
            for key in dict.fromkeys(key for cell in objects for key in cell)
            if _has_words(key, objects, words)
        ]
        if len(keys) != 1:
            continue
        if len(words) > _MOST_WORDS:
            continue
        [key] = keys
        columns.cells[name] = [
            cell.get(key) if type(cell) is dict else cell for cell in column
        ]
        columns.notes.append(
            f"objects in '{name}' that are read by their '{key}': {len(objects)}"
        )


def _keep_first_lines(columns: Columns) -> None:
    """Read cells by their first line if all begin with a line that is a verdict, as `unsafe`
    above `S1`.
    """
    meanings, _ = polarity()
    for name, column in columns.cells.items():
        texts = _texts_in(column)
        has_breaks = any(map(contains, texts, repeat("\n")))
        if not has_breaks or not any("\n" in text.strip() for text in texts):
            continue
        filled = [cell for cell in column if cell is not None]
        first_lines = [
            cell.strip().partition("\n")[0] if isinstance(cell, str) else ""
            for cell in filled
        ]
        if not all(fold(line) in meanings for line in first_lines):
            continue
        columns.cells[name] = [
            None if cell is None else cell.strip().partition("\n")[0] for cell in column
        ]
        columns.notes.append(f"cells of '{name}' are read by their first line")


def _has_words(
    key: str, objects: Sequence[Mapping[str, Any]], words: Collection[Any]
) -> bool:
    """Return whether objects have words of a column under a key, and no others."""
    values = [value for cell in objects if (value := cell.get(key)) is not None]
    scalars = all(isinstance(value, str | int | float) for value in values)
    return bool(values) and scalars and {*values} <= {*words}


def _is_unnamed_total(columns: Columns, row: int) -> bool:
    """Return whether a row has only figures and not what each row before it has: its first cell."""
    first, *further = columns.cells.values()
    if len(further) < 2:
        return False
    if first[row] is not None:
        return False
    if row <= _LAST_ROWS:
        return False
    figures = [cell for column in further if (cell := column[row]) is not None]
    # Every row before has a first cell, and this one lacks it.
    named = all(cell is not None for cell in first[:row])
    return named and bool(figures) and all(map(_is_figure, figures))


def _is_figure(cell: Any) -> bool:
    # Percentages, thousands and decimals; a sign at the beginning, and a unit or a mark
    # at the end, as `57.1% ✔` and `17.6ms`.
    text = _UNIT.sub("", cell_text(cell).strip())
    digits = text.replace(",", "").replace(".", "")
    return digits.lstrip("-").isdigit()


def _all_opened(cells: Mapping[str, list[Any]], where: str) -> dict[str, list[Any]]:
    """Return columns without objects and lists in them.

    Raises:
        DatasetError: If there are more columns than a table may have.
    """
    opened: dict[str, list[Any]] = {}
    for name, column in _opened(cells, 0, where):
        opened[name] = column
        if len(opened) > MOST_COLUMNS:
            raise too_wide(where, len(opened))
    return opened


def _opened(
    cells: Mapping[str, list[Any]], depth: int, where: str
) -> Iterator[tuple[str, list[Any]]]:
    """Yield columns; one of objects as a column for each path, one of lists of words as
    a column for each position.
    """
    for name, column in by_parallel_names(cells, _all_lists).items():
        if depth < _DEPTH:
            lists = _all_lists(column)
            named = column if lists is None else by_name(name, column, lists)
            objects = _objects_in(named)
            # Cells with a value; empty ones say nothing about the type.
            filled = len(column) - column.count(None)
            object_count = sum(value is not None for value in objects)
            # Most cells are objects: each key becomes a column, as deep as they go.
            if object_count and object_count >= _MOSTLY * filled:
                paths = _paths(name, named, objects, where)
                yield from _opened(paths, depth + 1, where)
                continue
            if lists is not None and named is not column:
                # Lists of objects that were no more than words.
                column = [*named]
                lists = _all_lists(named)
            if lists is not None and (positions := _positions(name, lists)):
                yield from positions.items()
                continue
        yield name, column


def _objects_in(column: Sequence[Any]) -> list[dict[str, Any] | None]:
    """Return the object in each cell of a column."""
    if _are_texts(column) and not may_have_objects(column):
        return [None] * len(column)
    return [object_in(cell) if may_be_object(cell) else None for cell in column]


def _paths(
    name: str,
    column: Sequence[Any],
    objects: Sequence[dict[str, Any] | None],
    where: str,
) -> dict[str, list[Any]]:
    keys = dict.fromkeys(key for value in objects for key in value or {})
    if len(keys) > MOST_COLUMNS:
        raise too_wide(where, len(keys))
    paths: dict[str, list[Any]] = {}
    for key in keys:
        paths[f"{name}.{key}"] = [
            # A cell that is no object stays in each of its columns.
            cell if value is None else _value(value.get(key))
            for cell, value in zip(column, objects, strict=True)
        ]
    return paths


def _all_lists(column: Sequence[Any]) -> list[list[Any] | None] | None:
    """Return the cells of a column of lists; `None` if a cell is no list, which the
    first cells usually show.
    """
    lists: list[list[Any] | None] = []
    column = listed_votes(column)
    # A list may be the text of one.
    for cell in column:
        value = None if cell is None else _listed(cell)
        if not isinstance(value, list | None):
            return None
        lists.append(value)
    if not any(value is not None for value in lists):
        return None
    return _unwrapped(lists)


def _unwrapped(lists: list[list[Any] | None]) -> list[list[Any] | None]:
    """Return lists without a list around each, as in `[["4"]]` of Scale."""
    filled = [cell for cell in lists if cell is not None]
    is_wrapped = all(len(cell) == 1 and isinstance(cell[0], list) for cell in filled)
    if not is_wrapped:
        return lists
    return [None if cell is None else cell[0] for cell in lists]


def _positions(name: str, column: Sequence[list[Any] | None]) -> dict[str, list[Any]]:
    """Return a column for each position of lists of few short words or numbers; nothing
    if a column has others.
    """
    # Only lists of numbers and short words: texts stay in their list.
    filled = [cell for cell in column if cell is not None]
    longest = max(len(cell) for cell in filled)
    scalars = all(
        isinstance(part, bool | int | float)
        or (isinstance(part, str) and len(part) < 40)
        for cell in filled
        for part in cell
        if part is not None
    )
    if not scalars or not 1 <= longest <= _MOST_ANNOTATORS:
        return {}
    # Lists of one item are that item, without a position in the name.
    if longest == 1:
        return {name: [cell[0] if cell else None for cell in _lists(column)]}
    # (rows,) the item at this position; empty for shorter lists.
    return {
        f"{name}.{position + 1}": [
            cell[position] if position < len(cell) else None for cell in _lists(column)
        ]
        for position in range(longest)
    }


def _listed(cell: Any) -> Any:
    """Return a text of a list, or of several verdict words with a separator, as a list."""
    if not isinstance(cell, str) or len(cell) > _LONGEST_LIST:
        return cell
    text = cell.strip()
    if text.startswith("[") and text.endswith("]"):
        try:
            value = written_value(text)
        except ValueError:
            return cell
        # Several lists after each other are no list.
        if isinstance(value, list):
            return value
        return cell
    meanings, _ = polarity()
    for separator in (";", "|", ",", "/"):
        parts = [part.strip() for part in text.split(separator)]
        # Every part must be a verdict word: `yes, partly` is one answer.
        if len(parts) > 1 and all(fold(part) in meanings for part in parts):
            digits = all(part.isdigit() for part in parts)
            # 1/2 and 1,5 are numbers, not two verdicts.
            return cell if digits and separator in ",/" else parts
    return cell


def _lists(column: Sequence[Any]) -> list[list[Any]]:
    return [cell or [] for cell in column]
