"""Tables with raters in rows and cases in columns, turned so that each row is a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from evalkit.datasets.located_rows import Placed
from evalkit.interop.tables.words import is_first_name, matches, names_rater, tokens

Rows: TypeAlias = Sequence[Placed]
TURNED: Final = "read with a row for each case, as the file has one for each rater"
_CASE: Final = "case"
_FEWEST_CASES: Final = 10
"""The fewest columns of cases: fewer may be criteria."""
_MOST_WORDS: Final = 12
"""The most different cells of verdicts in words or on a scale."""


def turned(rows: Rows) -> Rows | None:
    """Return a table with raters in rows as one with cases in rows; `None` if it is another one.

    Args:
        rows: The rows with their locations.
    """
    location, first_row = rows[0]
    names = [name for name in first_row if name]
    if len(names) <= _FEWEST_CASES:
        return None
    if len(names) <= 2 * len(rows):
        return None
    # The first column names the raters.
    head, *columns = names
    cases = [name for name in columns if not _is_about_raters(name, rows, columns)]
    raters = [row.get(head) for _, row in rows]
    if not _are_raters(head, raters, cases):
        return None
    if any(len(row) > len(first_row) for _, row in rows):
        return None
    # What is measured of judges differs in nearly every cell, and verdicts recur.
    cells = [row.get(name) for _, row in rows for name in cases]
    words = set(map(str, cells))
    if len(words) > _MOST_WORDS and not _are_numbered(cases):
        return None
    cases_as_rows = []
    for name in cases:
        case: dict[str, Any] = {_CASE: name}
        for _, row in rows:
            case[row[head]] = row.get(name)
        cases_as_rows.append((f"{location} column {name}", case))
    return cases_as_rows


def _is_about_raters(name: str, rows: Rows, cases: Sequence[str]) -> bool:
    """Return whether a column such as `type` has words about raters that are no verdicts."""
    if not (matches(name, "kind") or matches(name, "rater")):
        return False
    words = {row.get(name) for _, row in rows}
    verdicts = {row.get(case) for _, row in rows for case in cases if case != name}
    return words.isdisjoint(verdicts)


def _are_raters(head: str, raters: Sequence[Any], cases: Sequence[str]) -> bool:
    """Return whether the first cells name who judged, each once."""
    are_texts = all(isinstance(rater, str) and rater.strip() for rater in raters)
    if not are_texts:
        return False
    if len({*raters}) < len(raters):
        return False
    if _CASE in raters:
        return False
    if matches(head, "rater"):
        return all(map(names_rater, raters)) or _are_numbered(cases)
    # Models in rows may be those that answered, unless people are among them.
    people = [rater for rater in raters if _is_person(rater)]
    has_both = 0 < len(people) < len(raters)
    if not has_both:
        return False
    return all(map(names_rater, raters))


def _is_person(rater: str) -> bool:
    return matches(rater, "human") or is_first_name(rater)


def _are_numbered(cases: Sequence[str]) -> bool:
    """Return whether the names of columns differ only in their number, as `case 1` does."""
    bases = set()
    for name in cases:
        words = tokens(name)
        base = tuple(word for word in words if not word.isdigit())
        if len(base) == len(words):
            return False
        bases.add(base)
    return len(bases) == 1
