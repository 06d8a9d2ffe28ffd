"""Columns that say together who won, joined to one column of winners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import (
    Choices,
    is_rank,
    sided_pairs,
    sided_raters,
    strength,
)
from evalkit.interop.tables.parts import Parts, compares
from evalkit.interop.tables.questions import Answer, OpenTableError
from evalkit.interop.tables.words import fold, matches, polarity, tokens, word_group

_FIRST_SIDE: Final = ("a", "1", "left", "first", "chosen")

_ONE_HOT: Final = ("a", "b", "tie")
_NOT_IN_BASE: Final = (*_ONE_HOT, "model", "response", "draw")
_COUNTS: Final = "counts of votes: the word with most is the verdict"
_CLASSES: Final = "read as one column of classes"
_FEWEST_CLASSES: Final = 3
_OPPOSITES: Final = {"pass", "fail"}
_MARKS: Final = word_group("mark")
_VOTES: Final = word_group("votes")
_TOTAL: Final = word_group("all_votes")
_TIES: Final = word_group("tied_votes")
_MARKED: Final = ("1", "true", "True", "1.0")


def join_one_hot(parts: Parts) -> None:
    """Join columns of 0 and 1 for each winner, of which each row has one 1, to a column
    of winners.
    """
    # {name without the side: {side: column}}.
    sides_by_base: dict[str, dict[str, str]] = {}
    for name, column in parts.typed.items():
        words = tokens(name)
        # The last word that is a side counts.
        side = next((word for word in reversed(words) if word in _ONE_HOT), None)
        if side is None and _TIES.intersection(words[-1:]):
            side = "tie"
        is_marked = column.is_binary or column.kind == "flag"
        if side is None:
            continue
        if not is_marked:
            continue
        base_words = [word for word in words if word not in _NOT_IN_BASE]
        base_name = " ".join(base_words)
        if base_words:
            sides_by_base.setdefault(base_name, {}).setdefault(side, name)
    for base_name, sides in sides_by_base.items():
        # A tie needs no column of its own.
        has_both = {"a", "b"} <= sides.keys()
        # A name that says nothing about winners needs all three columns.
        is_known = matches(base_name, "value") or "tie" in sides
        if not has_both:
            continue
        if not is_known:
            continue
        rows = range(len(parts.columns))
        winners = [_one_hot(parts.typed, sides, row) for row in rows]
        # A row with several marks is no single winner, so that nothing is joined.
        if any(winner == "" for winner in winners):
            continue
        name = f"{base_name}_*".replace(" ", "_")
        _replace(parts, [*sides.values()], name, winners)


def join_classes(parts: Parts) -> None:
    """Join columns of a rater for each class, of which each row has one mark, to a column
    of classes.
    """
    columns_by_base: dict[tuple[str, ...], dict[str, str]] = {}
    for name, column in parts.typed.items():
        *base_words, word = tokens(name) or ("",)
        base = tuple(base_words)
        if base and _has_marks(column):
            columns_by_base.setdefault(base, {}).setdefault(word, name)
    meanings, _ = polarity()
    named = [
        columns.keys()
        for base, columns in columns_by_base.items()
        if strength(" ".join(base))[1] > 1
    ]
    for base, columns in columns_by_base.items():
        # Another rater's columns have the same classes.
        if columns.keys() not in named:
            continue
        are_opposite = {meanings.get(fold(word)) for word in columns} == _OPPOSITES
        if len(columns) < _FEWEST_CLASSES and not are_opposite:
            continue
        by_row = [
            [word for word, name in columns.items() if _is_marked(parts, name, row)]
            for row in range(len(parts.columns))
        ]
        # A row with several marks has no single class, so that nothing is joined.
        if all(len(words) == 1 for words in by_row):
            classes: list[str | None] = [word for [word] in by_row]
            name = f"{'_'.join(base)}_*"
            _replace(parts, [*columns.values()], name, classes, _CLASSES)


def _has_marks(column: TypedColumn) -> bool:
    words = {fold(word) for word in column.words}
    return column.is_binary or column.kind == "flag" or words <= _MARKS


def _is_marked(parts: Parts, name: str, row: int) -> bool:
    text = parts.typed[name].texts[row] or ""
    return text.strip() in _MARKED or fold(text) in _MARKS


def join_votes(parts: Parts) -> None:
    """Join counts of votes for each verdict, such as `votes.pass`, to a column of the
    words with most votes.
    """
    words_by_base: dict[tuple[str, ...], dict[str, str]] = {}
    meanings, _ = polarity()
    verdict_words = set(meanings)
    for column in parts.typed.values():
        # Words of columns of verdicts: a class that a column of counts may be named after.
        if column.may_be_verdict and not column.is_numeric:
            verdict_words.update(map(fold, column.words))
    for name, column in parts.typed.items():
        words = tokens(name)
        # `n` is a number here, and no answer.
        words = words[1:] if words[:1] == ("n",) else words
        counted = [word for word in words if word in verdict_words]
        if len(counted) != 1:
            continue
        if not _has_counts(column):
            continue
        [verdict_word] = counted
        base = tuple(word for word in words if word != verdict_word)
        if not _VOTES.isdisjoint(base):
            columns = words_by_base.setdefault(base, {})
            columns.setdefault(verdict_word, name)
    for base, columns in words_by_base.items():
        if len(columns) == 1:
            _join_share(parts, base, columns)
        if len(columns) > 1:
            rows = range(len(parts.columns))
            most = [_most(parts, columns, row) for row in rows]
            base_name = "_".join(base)
            name = f"{base_name}_*"
            _replace(parts, [*columns.values()], name, most, _COUNTS)


def _join_share(
    parts: Parts, base: tuple[str, ...], columns: Mapping[str, str]
) -> None:
    """Join votes for one word and all votes, such as `votes_yes` and `votes_total`, to
    the word or its opposite.
    """
    meanings, _ = polarity()
    [(word, name)] = columns.items()
    totals = [
        total
        for total, column in parts.typed.items()
        if _TOTAL.intersection(tokens(total))
        and tuple(part for part in tokens(total) if part not in _TOTAL) == base
        and _has_counts(column)
    ]
    if word not in meanings:
        return
    if len(totals) != 1:
        return
    opposite = {"pass": "fail", "fail": "pass"}
    [total] = totals
    most: list[str | None] = []
    counts = _numbers(parts.typed[name])
    counts_of_all = _numbers(parts.typed[total])
    for count, count_of_all in zip(counts, counts_of_all, strict=True):
        twice = 2 * count
        if twice == count_of_all:
            most.append(None)
        elif twice > count_of_all:
            most.append(meanings[word])
        else:
            most.append(opposite[meanings[word]])
    _replace(parts, [name, total], f"{'_'.join(base)}_*", most, _COUNTS)


def _numbers(column: TypedColumn) -> list[float]:
    return [column.numbers.get(text or "", 0.0) for text in column.texts]


def _has_counts(column: TypedColumn) -> bool:
    """Return whether a column has numbers of votes, of which one is more than 1."""
    numbers = column.distinct_numbers
    whole = all(value >= 0 and value.is_integer() for value in numbers)
    return _is_full_of_numbers(column) and whole and max(numbers) > 1


def _is_full_of_numbers(column: TypedColumn) -> bool:
    return column.is_numeric and column.share(column.numbers) == 1


def _most(parts: Parts, columns: Mapping[str, str], row: int) -> str | None:
    """Return the word with most votes in a row; `None` if there are no votes, or
    several have most.
    """
    votes = {}
    for word, name in columns.items():
        column = parts.typed[name]
        text = column.texts[row] or ""
        votes[word] = column.numbers.get(text, 0.0)
    most = max(votes.values())
    words = [word for word, count in votes.items() if count == most]
    if not most:
        return None
    if len(words) > 1:
        return None
    return words[0]


def join_sided_scores(parts: Parts, choices: Choices, where: str) -> None:
    """Join a rater's scores of the two responses of a row to a column of winners.

    Raises:
        OpenTableError: If columns such as `judge_a` and `judge_b` may be scores or raters.
    """
    if not compares(parts.by_role()):
        return
    taken = {role.column for role in parts.roles}
    pairs = sided_pairs(parts.typed, taken)
    open_pairs = {
        _joined_name(pair[0]): pair
        for pair in sided_raters(parts.typed, taken)
        if pair not in pairs and _are_scores(pair, parts.typed)
    }
    named = {*choices.judges, *choices.labels}
    pairs += [pair for name, pair in open_pairs.items() if name in named]
    if not named and not choices.keys and not choices.unlabeled:
        _ask_for_sides(open_pairs, where)
    for first, second in pairs:
        columns = (parts.typed[first], parts.typed[second])
        if not _are_scores((first, second), parts.typed):
            continue
        # The lower rank is the better one.
        above, below = reversed(columns) if is_rank(first) else columns
        winners = [
            _higher(
                above.numbers.get(first_text or ""),
                below.numbers.get(second_text or ""),
            )
            for first_text, second_text in zip(above.texts, below.texts, strict=True)
        ]
        _replace(parts, [first, second], _joined_name(first), winners)


def _joined_name(first: str) -> str:
    """Return the name of the column of winners by the name of the first response's scores."""
    words = [word for word in tokens(first) if word not in _FIRST_SIDE]
    return f"{'_'.join(words)}_*"


def _are_scores(names: Iterable[str], typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether columns have a score in each row, and not flags or measures."""
    columns = {name: typed[name] for name in names}
    if any(matches(name, "measured") or matches(name, "computed") for name in columns):
        return False
    # Two flags may be two verdicts, which one-hot columns are not.
    if all(column.is_binary for column in columns.values()):
        return False
    return all(map(_is_full_of_numbers, columns.values()))


def _ask_for_sides(pairs: Mapping[str, tuple[str, str]], where: str) -> None:
    """Ask whether `judge_a` and `judge_b` score both responses, or are two raters.

    Raises:
        OpenTableError: If a judge has such columns.
    """
    options = {"judge": "--judge", "label": "--label"}
    joined: list[str] = []
    apart: list[str] = []
    for name, columns in pairs.items():
        option = options[strength(columns[0])[0]]
        joined += (option, name)
        for column in columns:
            apart += (option, column)
    if "--judge" not in joined:
        return
    answers = [
        Answer("of both responses: the higher score wins", tuple(joined)),
        Answer("of two raters", tuple(apart)),
    ]
    listed = ", ".join(f"'{name}'" for columns in pairs.values() for name in columns)
    raise OpenTableError(f"{listed} have scores: whose are they?", where, answers)


def _replace(
    parts: Parts,
    columns: Sequence[str],
    name: str,
    winners: list[str | None],
    what: str = "read as one column of winners",
) -> None:
    """Replace columns by one of winners, and say so in a note."""
    for column in columns:
        del parts.columns.cells[column]
        del parts.typed[column]
    parts.columns.cells[name] = winners
    parts.typed[name] = TypedColumn(name, winners)
    parts.notes.append(f"columns {', '.join(columns)} are {what}")


def _higher(first: float | None, second: float | None) -> str | None:
    if first is None:
        return None
    if second is None:
        return None
    if first == second:
        return "tie"
    if first > second:
        return "A"
    return "B"


def _one_hot(
    typed: Mapping[str, TypedColumn], sides: Mapping[str, str], row: int
) -> str | None:
    """Return the winner of a row; `None` if it has no values, and empty if not exactly
    one is set.
    """
    texts = {}
    for side, name in sides.items():
        text = typed[name].texts[row] or ""
        texts[side] = text.strip()
    # No mark at all: the row has no verdict.
    if not any(texts.values()):
        return None
    chosen = [side for side, value in texts.items() if value in _MARKED]
    if len(chosen) != 1:
        # No winner is a tie, unless ties have a column of their own.
        return "tie" if not chosen and "tie" not in sides else ""
    return chosen[0]
