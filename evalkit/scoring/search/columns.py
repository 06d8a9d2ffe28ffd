"""The columns of the data that are searched for slices by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    values: dict[str, list[Any]] = {}
    computed: dict[str, list[Any]] = {name: [] for name in (*COMPUTED, SYSTEMS)}
    systems: list[str | None] = []
    longer: list[str | None] = []
    prompts: list[str] = []
    of_pairs: dict[str, list[Any]] = {SYSTEM_PAIR: [], LENGTH_RATIO: []}
    skipped: dict[str, list[Any]] = {}
    numbers: dict[str, str] = {}
    number = -1
    # Cases may be read from a file each time, so this reads them once.
    for number, case in enumerate(() if only_listed else cases):
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
            # Cases before this one, and after the last one, have no value in the column.
            cells.extend([None] * (number - len(cells)))
            cells.append(value)
    count = number + 1
    for cells in (*values.values(), *skipped.values()):
        cells.extend([None] * (count - len(cells)))
    derived = [
        slices
        for name, cells in (values | skipped).items()
        for slices in slices_of_times(name, cells).values()
        if slices.column not in (*values, *listed)
    ]
    for name, cells in of_pairs.items():
        if name not in (*values, *listed):
            parts = _strata(cells, name)
            derived += [replace(slices, computed=True) for slices in parts]
    computed = {
        name: cells
        for name, cells in computed.items()
        if name not in (*values, *listed) and any(cells)
    }
    values |= computed
    omitted: list[str] = []
    candidates: list[Slices] = []
    searchable: list[str] = []
    groups: list[Groups | None] = []
    for column, cells in values.items():
        try:
            slices = slices_of_values(column, cells)
        except TooManySlicesError:
            omitted.append(visible(column))
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
            searchable.append(column)
            is_known = column in computed and column in COMPUTED
            candidates.append(
                Slices(
                    slices.column,
                    slices.values,
                    slices.members,
                    slices.ends,
                    is_known,
                )
            )
    kept = list(chosen)
    room = LIMIT - sum(len(slices.values) for slices in chosen)
    # Columns with the fewest slices come first, so that as many as possible fit.
    for slices in sorted(candidates, key=lambda slices: len(slices.values)):
        if len(slices.values) > room:
            omitted.append(slices.column)
            continue
        room -= len(slices.values)
        kept.append(slices)
    fitting = []
    for slices in derived:
        if len(slices.values) <= room:
            room -= len(slices.values)
            fitting.append(slices)
    without = []
    for slices in kept:
        absent = _absent(slices)
        if absent is not None and room > 0:
            room -= 1
            without.append(absent)
    narrow = [
        _narrower(slices.column, values[name])
        for name, slices in zip(searchable, candidates, strict=True)
        if slices.ends
    ]
    crossed = []
    for pair in _crossed(kept):
        if len(pair.values) <= room:
            room -= len(pair.values)
            crossed.append(pair)
    repeated: list[Slices] = []
    if len(prompts) == count and 1 < 2 * len(numbers) <= len(prompts):
        repeated = [*_strata(prompts, PROMPTS)]
    return SearchedColumns(
        tuple(kept),
        tuple(omitted),
        (*_strata(systems), *_strata(longer, LONGER), *narrow),
        tuple(crossed),
        tuple(repeated),
        tuple(without),
        tuple(fitting),
        not only_listed and PLACE not in values,
        tuple(column for column in groups if column is not None),
    )


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
