"""The columns of the data that are searched for slices by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any, Final

import numpy as np

from evalkit.core.display import visible
from evalkit.core.types import Case
from evalkit.core.values import frozen
from evalkit.scoring.decision.weak_slices import LONGER
from evalkit.scoring.search.cells import (
    BOTH,
    COMPUTED,
    CROSS,
    LENGTH_RATIO,
    PLACE,
    PROMPT_LENGTH,
    SYSTEM_PAIR,
    SYSTEMS,
    computed_cell,
)
from evalkit.scoring.search.variation import Groups
from evalkit.scoring.slices import (
    BINS,
    NO_VALUE,
    Slices,
    TooManySlicesError,
    slices_of,
    slices_of_times,
    slices_of_values,
)

LIMIT: Final = 1000
"""The most slices of all columns together; columns with few slices come first."""
OTHERS: Final = "others"
PROMPTS: Final = "prompt"
"""The name of the prompts in sentences."""
CROSSED_COLUMNS: Final = 5
CROSSED_VALUES: Final = 6
"""Pairs of at most so many columns, each with at most so many values, are searched too."""
NARROW_BINS: Final = 20
PER_BIN: Final = 10
"""Cases of a narrow bin, at least."""
_TOKENS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_RATER_WORDS: Final = frozenset(
    ("grader", "graders", "annotator", "annotators", "rater", "raters")
)
"""Any of these in a name: the column is about a judge or its labels, not about the case."""
_SAMPLING_WORDS: Final = frozenset(("inclusion", "propensity", "weight", "weights"))
"""Any of these in a name: the labels were sampled or are weighted by the column."""
_JUDGE_FACTS: Final = frozenset(
    (
        *("model", "models", "version", "name", "provider", "prompt", "template"),
        *("temperature", "seed", "batch", "type", "config", "deployment"),
    )
)
"""The last word of a name of what a judge is, which is not what it says."""
_VERDICT_WORDS: Final = frozenset(
    (
        *("score", "scores", "rating", "ratings", "vote", "votes"),
        *("verdict", "verdicts", "prediction", "predicted"),
        *("explanation", "rationale", "reasoning", "critique", "justification"),
        *("confidence", "certainty", "logprob", "logprobs", "logit", "logits"),
    )
)
"""The last word of a name of a verdict, or of what a judge or an annotator says with it."""
_FEATURE_WORDS: Final = frozenset(
    (
        *(
            "retrieval",
            "retriever",
            "retrieved",
            "rerank",
            "reranker",
            "bm",
            "similarity",
            "cosine",
        ),
        *(
            "embedding",
            "search",
            "rouge",
            "bleu",
            "readability",
            "difficulty",
            "complexity",
        ),
        *("perplexity", "overlap", "ocr", "asr", "risk", "popularity"),
    )
)
"""Any of these in a name: a score is a feature of the case."""
_LABEL_NAMES: Final = frozenset(
    ("label", "labels", "grade", "grades", "gold", "truth", "correct", "winner")
)
"""Whole names of columns of verdicts or labels."""
_ID_WORDS: Final = frozenset(
    ("id", "ids", "uuid", "guid", "uid", "index", "idx", "row")
)


@frozen
class SearchedColumns:
    """What a search looks at.

    Attributes:
        slices: the slices of each column, those with the fewest first.
        omitted: the columns that are not searched because they have too many values.
        strata: what is no slice, but what verdicts may follow alone: the systems whose responses
            are judged, and numbers in narrower bins.
        crossed: pairs of columns, whose pairs of values are slices, too.
        prompts: prompts with several responses, which verdicts may follow alone.
        placed: whether places in the data are slices, too: no column has the name of theirs.
        groups: columns that have too many values for slices, but several cases of most values.
        without: of columns that some cases have no value in, the slice of these cases.
        derived: what is a slice and no stratum: months, weekdays and hours of time stamps, which
            systems a pair compares, and how far the lengths of its responses differ.
    """

    slices: tuple[Slices, ...]
    omitted: tuple[str, ...] = ()
    strata: tuple[Slices, ...] = ()
    crossed: tuple[Slices, ...] = ()
    prompts: tuple[Slices, ...] = ()
    without: tuple[Slices, ...] = ()
    derived: tuple[Slices, ...] = ()
    placed: bool = False
    groups: tuple[Groups, ...] = ()

    @property
    def count(self) -> int:
        """The number of slices."""
        columns = (*self.slices, *self.without, *self.derived, *self.crossed)
        return sum(len(column.values) for column in columns)


def searched_columns(
    cases: Sequence[Case], listed: Sequence[str] = (), *, only_listed: bool = False
) -> SearchedColumns:
    """Return the columns with few values, those with numbers or dates in bins, and the
    length of responses.

    The columns of `scoring.slices` are always among them. No others are ids, values by which labels
    were sampled, or what a judge or an annotator says.

    Args:
        cases: the cases.
        listed: the columns of `scoring.slices`.
        only_listed: whether to search no other columns.

    Raises:
        ConfigError: as `slices_of`.
    """
    chosen = [slices_of(column, cases) for column in listed]
    cells = _read_cells(() if only_listed else cases, listed)
    names = {*cells.values, *listed}
    computed = {
        name: column
        for name, column in cells.computed.items()
        if name not in names and any(column)
    }
    values = cells.values | computed
    columns = _slice_columns(values, computed.keys())
    omitted = [visible(column) for column in columns.crowded]
    room = _Room(LIMIT - sum(map(_size, chosen)))
    kept = list(chosen)
    # Columns with the fewest slices come first, so that as many as possible fit.
    for slices in sorted(columns.slices.values(), key=_size):
        if room.take(slices):
            kept.append(slices)
        else:
            omitted.append(slices.column)
    # Then, while there is room, what is made of columns.
    derived = room.fitting(_derived(cells, names))
    without = room.fitting(filter(None, map(_absent, kept)))
    crossed = room.fitting(_crossed(kept))
    narrow = [
        _narrower(slices.column, values[name])
        for name, slices in columns.slices.items()
        if slices.ends
    ]
    strata = (*_strata(cells.systems), *_strata(cells.longer, LONGER), *narrow)
    return SearchedColumns(
        slices=tuple(kept),
        omitted=tuple(omitted),
        strata=strata,
        crossed=crossed,
        without=without,
        derived=derived,
        prompts=_repeated_prompts(cells),
        placed=not only_listed and PLACE not in values,
        groups=columns.groups,
    )


def _size(slices: Slices) -> int:
    return len(slices.values)


class _Room:
    """How many more slices fit."""

    def __init__(self, size: int) -> None:
        self.size = size

    def take(self, slices: Slices) -> bool:
        """Take the room for the slices of a column; return whether there was enough."""
        if _size(slices) > self.size:
            return False
        self.size -= _size(slices)
        return True

    def fitting(self, columns: Iterable[Slices]) -> tuple[Slices, ...]:
        """Take the room for all columns that fit, and return them."""
        return tuple(slices for slices in columns if self.take(slices))


@frozen
class _Cells:
    """What is read of cases, (cases,) each.

    Attributes:
        values: the cells of the columns that are searched.
        skipped: the cells of listed columns and those of ratings, of which only times are searched.
        computed: what is computed of every case.
        of_pairs: what is computed of pairs; `None` for other cases.
        systems: both systems of a pair.
        longer: which response of a pair is longer.
        prompts: the prompts of single responses by number, in the order of the cases.
    """

    values: dict[str, list[Any]]
    skipped: dict[str, list[Any]]
    computed: dict[str, list[Any]]
    of_pairs: dict[str, list[Any]]
    systems: list[str | None]
    longer: list[str | None]
    prompts: list[str]


def _read_cells(cases: Iterable[Case], listed: Sequence[str]) -> _Cells:
    """Return the cells of cases, which are read once: they may come from a file."""
    values: dict[str, list[Any]] = {}
    skipped: dict[str, list[Any]] = {}
    computed: dict[str, list[Any]] = {name: [] for name in (*COMPUTED, SYSTEMS)}
    of_pairs: dict[str, list[Any]] = {SYSTEM_PAIR: [], LENGTH_RATIO: []}
    systems: list[str | None] = []
    longer: list[str | None] = []
    prompts: list[str] = []
    numbers: dict[str, str] = {}
    for index, case in enumerate(cases):
        for name, cells in computed.items():
            cells.append(computed_cell(case, name))
        # Only a pair has two systems, and a longer response.
        is_pair = len(case.responses) == 2
        systems.append(_systems(case) if is_pair else None)
        longer.append(_longer(case) if is_pair else None)
        for name, cells in of_pairs.items():
            cells.append(computed_cell(case, name) if is_pair else None)
        if len(case.responses) == 1:
            prompts.append(numbers.setdefault(case.prompt, f"prompt {len(numbers)}"))
        for column, value in case.metadata.items():
            is_skipped = column in listed or _is_of_rating(column)
            cells = (skipped if is_skipped else values).setdefault(column, [])
            # Cases before this one have no value in the column.
            cells.extend([None] * (index - len(cells)))
            cells.append(value)
    count = len(systems)
    for cells in (*values.values(), *skipped.values()):
        # Nor have those after the last one.
        cells.extend([None] * (count - len(cells)))
    return _Cells(
        values=values,
        skipped=skipped,
        computed=computed,
        of_pairs=of_pairs,
        systems=systems,
        longer=longer,
        prompts=prompts,
    )


def _derived(cells: _Cells, names: Set[str]) -> Iterator[Slices]:
    """Yield the months, weekdays and hours of columns of times, and what pairs have.

    Args:
        cells: what is read of cases.
        names: the columns of the data, which are not computed.
    """
    for name, column in (cells.values | cells.skipped).items():
        for slices in slices_of_times(name, column).values():
            if slices.column not in names:
                yield slices
    for name, column in cells.of_pairs.items():
        if name not in names:
            for slices in _strata(column, name):
                yield replace(slices, computed=True)


@frozen
class _SliceColumns:
    """What columns are as slices.

    Attributes:
        slices: the slices of each column that has several.
        crowded: the columns that have too many values.
        groups: the groups of cases of these columns and of those of ids.
    """

    slices: Mapping[str, Slices]
    crowded: Sequence[str]
    groups: tuple[Groups, ...]


def _slice_columns(
    values: Mapping[str, list[Any]], computed: Set[str]
) -> _SliceColumns:
    """Return the slices of columns, or their groups if they have too many values.

    Args:
        values: the cells of each column, (cases,).
        computed: the columns that are not in the data.
    """
    several: dict[str, Slices] = {}
    crowded: list[str] = []
    groups: list[Groups | None] = []
    for column, cells in values.items():
        try:
            slices = slices_of_values(column, cells)
        except TooManySlicesError:
            crowded.append(column)
            groups.append(Groups.of_values(column, cells))
            continue
        if slices.ends and _is_of_ids(column):
            named = _named_by_number(column, cells)
            if named is None:
                groups.append(Groups.of_values(column, cells))
                continue
            slices = named
        # A word and no word, such as `urgent` in some rows, are two values.
        if len(slices.values) == 1 and column not in computed:
            slices = _with_absent(slices)
        if len(slices.values) > 1 and not _names_units(slices):
            is_known = column in computed and column in COMPUTED
            several[column] = replace(slices, computed=is_known)
    known_groups = [column for column in groups if column is not None]
    return _SliceColumns(several, crowded, tuple(known_groups))


def _repeated_prompts(cells: _Cells) -> tuple[Slices, ...]:
    """Return the prompts that have several responses, two on average or more."""
    count = len(cells.systems)
    prompts = len({*cells.prompts})
    if len(cells.prompts) == count and 1 < 2 * prompts <= count:
        return tuple(_strata(cells.prompts, PROMPTS))
    return ()


def _absent(slices: Slices) -> Slices | None:
    """Return the slice of the cases that have no value in a column of the data; `None`
    if all have one.
    """
    # shape (cases, 1)
    present = np.asarray(slices.members.any(axis=1))
    absent = ~present[:, None]
    if slices.computed or NO_VALUE in slices.values or not absent.any():
        return None
    return Slices(slices.column, (NO_VALUE,), absent)


def _with_absent(slices: Slices) -> Slices:
    """Return a column with the cases that have no value as one more slice; unchanged if
    all have one.
    """
    absent = _absent(slices)
    if absent is None:
        return slices
    members = np.concatenate([slices.members, absent.members], axis=1)
    return Slices(slices.column, (*slices.values, NO_VALUE), members)


def _crossed(columns: Sequence[Slices]) -> Iterator[Slices]:
    """Yield pairs of columns with few values as one column, with a value for each pair of values.

    Columns of names come before those in bins. The length of prompts is in none.
    """
    few = [
        slices
        for slices in sorted(columns, key=lambda slices: bool(slices.ends))
        if slices.column != PROMPT_LENGTH
        and 1 < len(slices.values) <= CROSSED_VALUES
        and (slices.members.sum(axis=1) <= 1).all()
    ]
    for first, second in combinations(few[:CROSSED_COLUMNS], 2):
        # (cases, values of the first, values of the second)
        both = first.members[:, :, None] & second.members[:, None, :]
        members = both.reshape(len(both), -1)
        values = [
            f"{one}{BOTH}{other}" for one in first.values for other in second.values
        ]
        occurs = np.flatnonzero(members.any(axis=0))
        yield Slices(
            f"{first.column}{CROSS}{second.column}",
            tuple(values[index] for index in occurs),
            members[:, occurs],
        )


def _narrower(column: str, cells: Sequence[Any]) -> Slices:
    """Return numbers or dates in bins so narrow that most verdicts by a threshold are
    alike in each.
    """
    bins = min(NARROW_BINS, max(BINS, len(cells) // PER_BIN))
    return slices_of_values(column, cells, bins)


def _systems(case: Case) -> str | None:
    """Return both systems of a pair in their order; `None` if one is unknown."""
    names = [response.model for response in case.responses if response.model]
    if len(names) != 2:
        return None
    return BOTH.join(names)


def _longer(case: Case) -> str | None:
    """Return which response of a pair is the longer one; `None` if they are equally long."""
    first, second = (len(response.text) for response in case.responses)
    if first == second:
        return None
    if first > second:
        return "A"
    return "B"


def _strata(names: Sequence[Any], column: str = SYSTEMS) -> Iterator[Slices]:
    """Yield the systems, the prompts, or what else each case has as a column, if there
    are several.
    """
    if not any(names):
        return
    try:
        slices = slices_of_values(column, names)
    except TooManySlicesError:
        return
    if len(slices.values) > 1:
        yield slices


def _words(name: str) -> list[str]:
    return [word.casefold() for word in _TOKENS.findall(name)]


@lru_cache(maxsize=1024)
def _is_of_rating(name: str) -> bool:
    """Return whether a name is that of a verdict, a label, or what labels were sampled by."""
    words = _words(name)
    if not words:
        return False
    if any(word.startswith("judg") for word in words):
        return words[-1] not in _JUDGE_FACTS
    if not (_RATER_WORDS | _SAMPLING_WORDS).isdisjoint(words):
        return True
    if not _FEATURE_WORDS.isdisjoint(words):
        return False
    return words[-1] in _VERDICT_WORDS or (len(words) == 1 and words[0] in _LABEL_NAMES)


def _names_units(slices: Slices) -> bool:
    """Return whether a column has an id of each case, or of few, instead of a group of cases."""
    return _is_of_ids(slices.column) and 2 * len(slices.values) > len(slices.members)


def _is_of_ids(name: str) -> bool:
    return not _ID_WORDS.isdisjoint(_words(name)[-1:])


def _named_by_number(column: str, cells: Sequence[Any]) -> Slices | None:
    """Return the slices of ids that are numbers, which measure nothing; `None` if they
    are of each case, or many.
    """
    # Numbers in lists are names.
    listed = [cell if isinstance(cell, list | tuple) else [cell] for cell in cells]
    try:
        return slices_of_values(column, listed)
    except TooManySlicesError:
        return None


def says_who_is_right(slices: Slices, units: np.ndarray, wrong: np.ndarray) -> bool:
    """Return whether a column tells right verdicts from wrong ones, as a column "correct" does.

    Args:
        slices: the slices of the column.
        units: (cases,) the labeled units of each case.
        wrong: (cases,) how many of them have a wrong verdict.
    """
    total = units @ slices.members
    errors = (wrong @ slices.members)[total > 0]
    pure = (errors == 0) | (errors == total[total > 0])
    return bool(pure.all() and 0 < errors.sum() < total.sum())
