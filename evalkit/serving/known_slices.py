"""In which slices of the data a judge is not to be trusted, and whether a case is in
one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from evalkit.core.translation import Message, gettext
from evalkit.core.types import Case
from evalkit.core.values import JsonObject, frozen
from evalkit.report.findings.weak_slices import slice_text
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import USES, Use
from evalkit.scoring.search import (
    PLACE,
    cell_of,
    computed_cell,
    searched_columns,
)
from evalkit.scoring.slices import is_member
from evalkit.scoring.times import split_part

SLICE: Final = "slice"
UNKNOWN: Final = "slice_unknown"


@frozen
class _KnownSlice:
    """A slice as `trust.json` has it.

    Attributes:
        column: the column.
        value: its value, or the name of a bin.
        allows: what the judge can be used for in it.
        ends: from where to below where a bin reaches; `None` for a value.
        computed: whether the value comes from the responses.
        values: the values of the column in the validation; empty for bins.
    """

    column: str
    value: str
    allows: Use
    ends: tuple[float | str | None, float | str | None] | None
    computed: bool
    values: frozenset[str]

    def holds(self, case: Case) -> bool | None:
        """Return whether a case is in the slice; `None` if that is not known."""
        # Such as the length: known from the case itself, whatever its metadata are.
        if self.computed:
            cell = computed_cell(case, self.column)
        else:
            cell = cell_of(case, self.column)
        inside = is_member(cell, self.value, self.ends)
        # Only for values by name: a number is in one of the bins, or outside all of them.
        if inside is False and self.ends is None:
            # A value that the validation did not have is like none.
            new = not any(is_member(cell, value) for value in self.values)
            if new:
                return None
            return False
        return inside


class KnownSlices:
    """The slices of a `trust.json` in which the judge allows less.

    Args:
        content: the parsed file.

    Raises:
        KeyError, TypeError, ValueError: if it is not as evalkit writes it.
    """

    def __init__(self, content: Any) -> None:
        self.use: Use = content["decision"]["use"]
        searched = content.get("searched")
        self.searched = searched is not None
        searched_values = {} if searched is None else searched["values"]
        self.slices = [
            _read_slice(entry, searched_values)
            for entry in content["decision"].get("where", ())
        ]

    def warnings(
        self, case: Case, required: Use | None = None
    ) -> Iterator[tuple[str, Message]]:
        """Yield the code and the text of each warning: the case is in a slice in which the judge
        is not to be trusted, or may be.

        A slice is the cases with one value in one column.

        Args:
            case: the case.
            required: what the judge must be good for; by default what it can be used for
                elsewhere.
        """
        # Uses are in ascending order of what they allow.
        least = USES.index(required or self.use)
        unknown: set[str] = set()
        for known_slice in self.slices:
            # the judge is good enough there
            if USES.index(known_slice.allows) >= least:
                continue
            inside = known_slice.holds(case)
            name = slice_text(known_slice.column, known_slice.value)
            if inside:
                yield (
                    SLICE,
                    gettext(
                        "The judge is not to be trusted where {slice}.", slice=name
                    ),
                )
            # One warning for each column, however many of its slices are weak.
            elif inside is None and known_slice.column not in unknown:
                unknown.add(known_slice.column)
                if known_slice.column == PLACE:
                    yield UNKNOWN, _after(name)
                    continue
                yield (
                    UNKNOWN,
                    gettext(
                        "The judge is not to be trusted where {slice}; the case has no known"
                        " value of {column}, so pass it in metadata.",
                        slice=name,
                        column=_passed_as(known_slice.column),
                    ),
                )


def _passed_as(column: str) -> str:
    """Return the column that a case has, of which another may be a part."""
    derived = split_part(column)
    if derived is None:
        return column
    return derived[0]


def _after(name: Message) -> Message:
    """Return that nothing shows whether new cases are like those of a place in the data."""
    return gettext(
        "The judge is not to be trusted where {slice}; new cases may be like these, so validate"
        " it again.",
        slice=name,
    )


def _read_slice(
    entry: Mapping[str, Any], searched_values: Mapping[str, Sequence[str]]
) -> _KnownSlice:
    """Return a slice of the validation where the judge is known to be good for less.

    Raises:
        KeyError: if a part is missing.
        ValueError: if what it allows is not a use.
    """
    column = str(entry["column"])
    allows = entry["allows"]
    if allows not in USES:
        raise ValueError(f"unknown use '{allows}'")
    ends = None
    # A bin of numbers has two ends, and a named value has none.
    if "from" in entry:
        ends = (_end(entry["from"]), _end(entry["below"]))
    return _KnownSlice(
        column,
        str(entry["slice"]),
        allows,
        ends,
        entry.get("computed") is True,
        frozenset(map(str, searched_values.get(column, ()))),
    )


def _end(end: Any) -> float | str | None:
    if end is not None and (
        isinstance(end, bool) or not isinstance(end, int | float | str)
    ):
        raise ValueError(f"'{end}' is no end of a bin")
    return end


def searched_slices(result: RunResult) -> JsonObject | None:
    """Return which columns of a run were searched, with the values of those that the
    decision names; `None` for none.

    The columns are those that the run's settings search.
    """
    scoring = result.config.scoring
    if scoring.search == "none" or not scoring.bootstrap:
        return None
    columns = searched_columns(
        result.cases, scoring.slices, only_listed=scoring.search == "listed"
    )
    named = {where.column for where in result.decision.where}
    return {
        "columns": [slices.column for slices in (*columns.slices, *columns.derived)],
        "slices": columns.count,
        "values": {
            slices.column: [*slices.values]
            for slices in (*columns.slices, *columns.derived, *columns.crossed)
            if slices.column in named and not slices.ends
        },
        "omitted": [*columns.omitted],
    }
