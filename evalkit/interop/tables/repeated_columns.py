"""Columns with repeated verdicts of one judge: of several runs, or of a pair that was
shown in both orders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from evalkit.core.errors import DatasetError
from evalkit.interop.tables.aggregates import find_sums
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import Choices, strength
from evalkit.interop.tables.questions import Answer, OpenTableError, named_options
from evalkit.interop.tables.stacked import ALL_ORDERS, ALL_RUNS, ORDER, RUN, Stack
from evalkit.interop.tables.words import (
    fold,
    is_model,
    known_words,
    matches,
    tokens,
    word_group,
)

_SPELLED: Final = ("ab", "ba")
"""How the rows of a pair in both orders are named: B was shown first in the second."""
_QUESTIONS: Final = word_group("question")
"""Words before the number of what a verdict is about."""
_NUMBERED_MODEL: Final = re.compile(r"(.+)[_ .#](\d{1,2})")
_NUMBERED: Final = {"1": "A", "2": "B"}
_POSITIONAL: Final = word_group("positional")
"""Words that may be about what was shown, of which the reading of the rows asks."""


def stack_of_repeats(
    typed: Mapping[str, TypedColumn], choices: Choices, where: str, *, compares: bool
) -> Stack | None:
    """Return how to stack the columns of runs, or of both orders; `None` if there are none.

    Args:
        typed: The columns.
        choices: The user's choices.
        where: The table's name.
        compares: Whether a row has two responses.

    Raises:
        OpenTableError: If the names of winners may be those of what was shown.
        DatasetError: If the user asks for them, and there are none.
    """
    if choices.reading is not None:
        return None
    if ALL_RUNS in choices.keys and ALL_RUNS not in typed:
        runs = _of_one_length(runs_of(typed))
        if runs and RUN not in typed:
            length = len(next(iter(runs.values())))
            names = tuple(str(number) for number in range(1, length + 1))
            return Stack(names, runs, {}, RUN)
        problem = "has no columns of several runs, as judge_run1 and judge_run2"
        remedy = f"leave out --key {ALL_RUNS}"
        raise DatasetError(problem, where=where, remedy=remedy)
    is_chosen = ALL_ORDERS in choices.keys and ALL_ORDERS not in typed
    orders = {} if ORDER in typed else orders_of(typed, compares=compares)
    if is_chosen and not orders:
        problem = (
            "has no columns of a pair in both orders, as verdict_ab and verdict_ba"
        )
        remedy = f"leave out --key {ALL_ORDERS}"
        raise DatasetError(problem, where=where, remedy=remedy)
    # A user who names judges says what each column is.
    are_orders = not choices.judges and _are_pairs(orders, typed)
    if not orders:
        return None
    if not (is_chosen or are_orders):
        return None
    if not is_chosen or not choices.words:
        _ask_for_winners(orders, typed, where, compares=compares)
    return Stack(_SPELLED, orders, {}, ORDER)


def runs_of(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each judge's runs, such as `judge_run1` and `judge_run2`,
    by what they have in common.
    """
    by_judge: dict[tuple[str, ...], list[str]] = {}
    listed = list(names)
    numbered = _numbered_models(listed)
    for name in listed:
        if name in numbered:
            by_judge.setdefault((numbered[name],), []).append(name)
            continue
        words = [part for part in tokens(name) if not part.isdigit()]
        rest = tuple(part for part in words if not matches(part, "repeat"))
        if len(rest) < len(words) and strength(name)[0] == "judge":
            by_judge.setdefault(rest, []).append(name)
    return {
        "_".join(words) or RUN: tuple(columns)
        for words, columns in by_judge.items()
        if len(columns) > 1
    }


def _numbered_models(names: Iterable[str]) -> dict[str, str]:
    """Return the model of columns such as `gpt-4o_1` and `gpt-4o_2`, numbered from 0 or 1."""
    numbers: dict[str, list[int]] = {}
    models = {}
    for name in names:
        match = _NUMBERED_MODEL.fullmatch(name.strip())
        # `gpt-4o question 1` is about a question, and `gpt-4o 1` is a run.
        about_question = match is not None and not _QUESTIONS.isdisjoint(
            tokens(match[1])
        )
        if match is not None and is_model(match[1]) and not about_question:
            numbers.setdefault(match[1], []).append(int(match[2]))
            models[name] = match[1]
    whole = {model for model, counted in numbers.items() if _are_counted(counted)}
    return {name: model for name, model in models.items() if model in whole}


def _are_counted(numbers: Iterable[int]) -> bool:
    """Return whether two or more numbers count from 0 or 1, without a gap."""
    ordered = sorted(numbers)
    count = len(ordered)
    from_zero = list(range(count))
    from_one = list(range(1, count + 1))
    return count > 1 and ordered in (from_zero, from_one)


def _of_one_length(
    runs: Mapping[str, tuple[str, ...]],
) -> Mapping[str, tuple[str, ...]]:
    lengths = {len(columns) for columns in runs.values()}
    if len(lengths) == 1:
        return runs
    return {}


def sums_of(stack: Stack, typed: Mapping[str, TypedColumn]) -> list[str]:
    """Return the columns that sum up a judge's runs, such as `judge_mean`."""
    runs = {name for names in stack.raters.values() for name in names}
    others = [
        name
        for name, column in typed.items()
        if column.may_be_verdict and name not in runs and strength(name)[0] != "label"
    ]
    return [
        name
        for names in stack.raters.values()
        for name in find_sums(others, names, typed)
    ]


def are_all_runs(judges: Iterable[str]) -> bool:
    """Return whether all judges have columns of runs, each the same number of them."""
    judged = list(judges)
    runs = _of_one_length(runs_of(judged))
    return {name for columns in runs.values() for name in columns} == {*judged}


def orders_of(
    typed: Mapping[str, TypedColumn], *, compares: bool
) -> dict[str, tuple[str, str]]:
    """Return the columns of each judge in both orders, such as `verdict_ab` and `verdict_ba`.

    Args:
        typed: The columns.
        compares: Whether a row has two responses, so that `verdict_1` and `verdict_2`
            may be orders.
    """
    by_words = {tokens(name): name for name in typed}
    orders: dict[str, tuple[str, str]] = {}
    for parts, name in by_words.items():
        candidates = [*_swapped(parts)]
        if compares and not typed[name].is_numeric:
            candidates += _numbered(parts, by_words)
        for swapped, rest in candidates:
            twin = by_words.get(swapped)
            if twin is None:
                continue
            if strength(name)[0] == "label":
                continue
            if not rest:
                continue
            columns = typed[name], typed[twin]
            if all(column.may_be_verdict and column.words for column in columns):
                orders.setdefault("_".join(rest), (name, twin))
    return orders


def _numbered(
    parts: tuple[str, ...], names: Iterable[tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the words of the second of two numbered verdicts, and those of both.

    Verdicts of numbered models are runs, and other numbered verdicts may be of both orders.
    """
    *words, number = parts
    name = " ".join(words)
    last_word = " ".join(words[-1:])
    is_judge = strength(name)[0] == "judge" and not is_model(name)
    is_verdict = matches(last_word, "value") or is_judge
    if number == "1" and is_verdict and (*words, "3") not in names:
        yield (*words, "2"), tuple(words)


def _swapped(
    parts: tuple[str, ...],
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the words of a name with the other order, and those without the order."""
    for first_words, second_words in known_words()["names"]["both_orders"]:
        first = tuple(first_words.split())
        second = tuple(second_words.split())
        if not first:
            # `winner` next to `winner_swapped`.
            yield (*parts, *second), parts
            continue
        size = len(first)
        for start in range(len(parts) - size + 1):
            before = parts[:start]
            after = parts[start + size :]
            if parts[start : start + size] == first:
                yield (*before, *second, *after), (*before, *after)


def _are_pairs(
    orders: Mapping[str, tuple[str, str]], typed: Mapping[str, TypedColumn]
) -> bool:
    """Return whether columns in both orders have the same few words, and no scores."""
    for first, second in orders.values():
        columns = typed[first], typed[second]
        words = [{fold(word) for word in column.words} for column in columns]
        numbered = words[0] | words[1] <= {"0", "1", "2", "3"}
        if any(column.is_numeric for column in columns) and not numbered:
            return False
        # A tie may be in one order only.
        if len(words[0] & words[1]) < 2:
            return False
        if len(words[0] ^ words[1]) > 2:
            return False
    return True


def _ask_for_winners(
    orders: Mapping[str, tuple[str, str]],
    typed: Mapping[str, TypedColumn],
    where: str,
    *,
    compares: bool,
) -> None:
    """Ask whether winners are named by the response or by what was shown first, and
    whether it is one judge.

    Raises:
        OpenTableError: If words such as A and B leave it open.
    """
    by_place: list[str] = []
    columns: list[str] = []
    for rater, names in orders.items():
        columns += names
        words = dict.fromkeys(word for name in names for word in typed[name].words)
        sides = {
            word: side
            for word in words
            if (side := _side(word, typed[names[0]])) in ("A", "B")
        }
        if {*map(fold, sides)} <= _POSITIONAL:
            continue
        shown = {"A": "FIRST", "B": "SECOND"}
        for word, side in sides.items():
            by_place += ("--map", f"{rater}:{word}={shown[side]}")
    if not by_place:
        return
    if not compares:
        return
    key = ("--key", ALL_ORDERS)
    listed = ", ".join(f"'{name}'" for name in columns)
    first, second = columns[:2]
    share = _share_of_equal(typed[first], typed[second])
    as_judges = named_options("--judge", columns)
    # One word that names its response says the same of the others.
    first_word = by_place[1].replace("=FIRST", "=A").replace("=SECOND", "=B")
    by_response = ("--map", first_word)
    answers = [
        Answer(
            "one judge, and a word names the same response in both",
            (*key, *by_response),
        ),
        Answer("one judge, and a word names what was shown there", (*key, *by_place)),
        Answer("two judges", tuple(as_judges)),
    ]
    problem = (
        f"{listed} seem to be a judge's verdicts in both orders, equal in {share:.0%} of the"
        " rows: do their words name the responses, or what was shown first and second?"
    )
    raise OpenTableError(problem, where, answers)


def _side(word: str, column: TypedColumn) -> str:
    return column.pairs.get(word, _NUMBERED.get(word.strip(), ""))


def _share_of_equal(first: TypedColumn, second: TypedColumn) -> float:
    """Return in how many rows two columns have the same word."""
    pairs = [
        (fold(text), fold(twin))
        for text, twin in zip(first.texts, second.texts, strict=True)
        if text is not None and twin is not None
    ]
    equal = sum(text == twin for text, twin in pairs)
    return equal / len(pairs) if pairs else 0.0
