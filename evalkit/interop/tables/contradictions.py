"""Questions about data that contradict their reading: opposite verdicts, positions,
scales of criteria, labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, Final

from evalkit.interop.layouts.judgment_files import Peek, number
from evalkit.interop.layouts.records import ImportedJudgments
from evalkit.interop.tables.associations import (
    SURE,
    Pairs,
    kappa,
    rank_correlation,
)
from evalkit.interop.tables.column_types import LONGEST_WORD, TypedColumn
from evalkit.interop.tables.keys import groups
from evalkit.interop.tables.pair_verdicts import POSITIONS
from evalkit.interop.tables.questions import Answer, OpenTableError, named_options
from evalkit.interop.tables.rater_columns import is_rater_name
from evalkit.interop.tables.rater_levels import Space
from evalkit.interop.tables.words import fold, matches, tokens

EACH_ROW: Final = "ROW"
"""The word for rows that are units of their own in `--key ROW`."""
_BY_POSITION: Final = {
    # Words for what was shown first or second, in several languages.
    **dict.fromkeys(
        ("first", "1st", "left", "1", "第一", "左", "links", "gauche"), "A"
    ),
    **dict.fromkeys(
        ("second", "2nd", "right", "2", "第二", "右", "rechts", "droite"), "B"
    ),
}
_FEWEST: Final = 20
_FEWEST_CHANGED: Final = 5
# A clear opposite: weaker agreement than this is just a bad judge.
_OPPOSITE: Final = -0.3
_MOST_LEVELS: Final = 12
# Conflicts in at least this share of repeated units are no slips.
_OFTEN: Final = 0.2
_PER_CRITERION: Final = 10
_MOST_PEOPLE: Final = 6


def check_opposite(
    raters: tuple[Sequence[str], Sequence[str]],
    verdicts: Mapping[str, Sequence[Any]],
    space: Space,
    mapped: Iterable[str],
    where: str,
) -> None:
    """Ask which way a label points if a judge is nearly always on the other side.

    Args:
        raters: The judges and the labels.
        verdicts: The verdict of each rater in each row.
        space: What the verdicts are.
        mapped: The words that the user mapped.
        where: The table's name.

    Raises:
        OpenTableError: If a judge disagrees with a label far more often than by chance.
    """
    judges, labels = raters
    # `--map JUDGE:word=value` settles the direction of that column.
    settled = [word.partition(":")[0] for word in mapped if ":" in word]
    for label in labels:
        for judge in judges:
            if judge in settled or label in settled:
                continue
            pairs = [
                pair
                for pair in zip(verdicts[judge], verdicts[label], strict=True)
                if None not in pair
            ]
            options = named_options("--judge", judges)
            options += named_options("--label", labels)
            # Only labels that differ: agreement would be 0 by design.
            if _are_corrections(pairs, verdicts[judge], verdicts[label]):
                _ask_about_corrections(judge, label, len(pairs), options, where)
            direction = _how_opposite(pairs, space)
            if direction:
                _ask_for_direction(judge, label, direction, space, options, where)


def _are_corrections(
    pairs: Pairs, judged: Sequence[Any], labeled: Sequence[Any]
) -> bool:
    """Return whether labels are only where a judge is wrong, in a small part of the rows."""
    # Labels in less than half of the judged rows.
    few = 2 * len(pairs) < sum(verdict is not None for verdict in judged)
    some = len(pairs) >= _FEWEST_CHANGED
    # A correction is another verdict of the same kind: thumbs correct no score.
    labels = {label for label in labeled if label is not None}
    same_kind = 2 * len(labels.intersection(judged)) > len(labels)
    return (
        few
        and some
        and same_kind
        and all(verdict != label for verdict, label in pairs)
        and None in labeled
    )


def _ask_about_corrections(
    judge: str, label: str, count: int, options: Sequence[str], where: str
) -> None:
    answers = [
        Answer("these rows are all that was labeled", tuple(options)),
        Answer("there are no labels", ("--judge", judge, "--label", "NONE")),
    ]
    problem = (
        f"'{label}' has {count} labels, each of which differs from '{judge}': are they corrections?"
        f" If so, an empty cell means that '{judge}' is right: fill it with that verdict"
    )
    raise OpenTableError(problem, where, answers)


def _how_opposite(pairs: Pairs, space: Space) -> str:
    """Return by which figure verdicts are opposite; empty if they are not."""
    if space.unit == "response":
        return _falls(pairs)
    if space.unit == "pair":
        # Ties have no direction.
        pairs = [pair for pair in pairs if "TIE" not in pair]
    classes = {value for pair in pairs for value in pair}
    if len(pairs) < _FEWEST or len(classes) != 2:
        return ""
    value, score = kappa(pairs)
    if score > -SURE or value > _OPPOSITE:
        return ""
    return f"kappa {value:.2f} in {len(pairs)} rows"


def _falls(pairs: Pairs) -> str:
    if len(pairs) < _FEWEST:
        return ""
    correlation = rank_correlation(pairs)
    if correlation is None:
        return ""
    # Under no association, Spearman's coefficient has the standard error 1 / sqrt(n - 1).
    is_sure = correlation * sqrt(len(pairs) - 1) < -SURE
    if not is_sure or correlation > _OPPOSITE:
        return ""
    return f"Spearman {correlation:.2f} in {len(pairs)} rows"


def _ask_for_direction(
    judge: str,
    label: str,
    direction: str,
    space: Space,
    options: Sequence[str],
    where: str,
) -> None:
    answers = []
    for name in (label, judge):
        opposite = judge if name == label else label
        turned = _turned_to_words(space.values[name], space.values[opposite])
        turned = turned or _turned(space.values[name])
        if turned:
            # The options of one command: each level with its opposite value.
            words = [
                o
                for text, value in turned.items()
                for o in ("--map", f"{name}:{text}={value}")
            ]
            answers.append(Answer(f"'{name}' is the other way around", tuple(words)))
    answers.append(Answer("they are as they should be", tuple(options)))
    problem = (
        f"'{judge}' and '{label}' point in opposite directions ({direction}):"
        " does one of them mean the opposite, such as 1 for the best?"
    )
    raise OpenTableError(problem, where, answers)


def _turned_to_words(
    values: Mapping[str, Any], words: Mapping[str, Any]
) -> dict[str, str]:
    """Return two words as the meanings of two numbers in opposite order; nothing if
    there are others.
    """
    if not len(values) == len(words) == 2 or not all(map(_is_number, values)):
        return {}
    if any(map(_is_number, words)):
        return {}
    numbers = sorted(values, key=values.__getitem__)
    # The lower number is the better word.
    best_first = sorted(words, key=words.__getitem__, reverse=True)
    return dict(zip(numbers, best_first, strict=True))


def _is_number(text: str) -> bool:
    return number(text) is not None


def _turned(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the opposite of each level; nothing if there are too many levels or classes."""
    present = {value for value in values.values() if value != "TIE"}
    if not 2 <= len(values) <= _MOST_LEVELS:
        return {}
    # A scale is turned around its ends: 1 to 5 maps 2 to 4.
    if all(isinstance(value, float) for value in present):
        ends = min(present) + max(present)
        return {text: f"{ends - value:g}" for text, value in values.items()}
    # Three classes have no opposite, and names of systems have no direction.
    if len(present) != 2 or "SYSTEM" in present:
        return {}
    first, second = present
    opposite = {first: second, second: first, "TIE": "TIE"}
    return {text: str(opposite[value]) for text, value in values.items()}


def check_positions(
    judges: Mapping[str, TypedColumn],
    order: TypedColumn | None,
    mapped: Iterable[str],
    where: str,
) -> None:
    """Ask whether `first` and `second` name responses or what was shown first, if both
    orders were shown.

    Raises:
        OpenTableError: If a judge has such words, unless the user mapped them.
    """
    # With one order in all rows, the first response is always the same one.
    if order is None or len(order.words) < 2:
        return
    # Words that the user mapped, with or without the name of a column.
    mapped_words = {fold(word.rpartition(":")[2]) for word in mapped}
    for name, column in judges.items():
        words = {
            word: side
            for word in column.words
            if (side := _BY_POSITION.get(fold(word)))
        }
        # Only if both words occur: one alone may be a name.
        if set(words.values()) != {"A", "B"} or any(
            fold(word) in mapped_words for word in words
        ):
            continue
        # A is what was shown first, B what was shown second.
        shown = dict(zip("AB", POSITIONS, strict=True))
        by_name = [
            o
            for word, side in words.items()
            for o in ("--map", f"{name}:{word}={side}")
        ]
        by_place = [
            o
            for word, side in words.items()
            for o in ("--map", f"{name}:{word}={shown[side]}")
        ]
        answers = [
            Answer("the responses A and B", tuple(by_name)),
            Answer("the responses that were shown first and second", tuple(by_place)),
        ]
        listed = ", ".join(f"'{word}'" for word in words)
        problem = f"'{name}' has {listed}, and '{order.name}' has both orders: what do they name?"
        raise OpenTableError(problem, where, answers)


def check_labels_of_units(
    typed: Mapping[str, TypedColumn],
    names: Sequence[str],
    labels: Iterable[str],
    where: str,
) -> None:
    """Ask whether rows are units of their own if those of one unit have different labels.

    Args:
        typed: The columns.
        names: The columns that tell units apart.
        labels: The columns of labels.
        where: The table's name.

    Raises:
        OpenTableError: If many units have different labels of one annotator.
    """
    # (rows,) the number of each row's unit.
    units = groups(typed, names)
    if len(set(units)) == len(units):
        return
    rows = Counter(units)
    # Units with more than one row.
    repeated = sum(count > 1 for count in rows.values())
    for label in labels:
        by_unit: dict[int, set[str]] = {}
        for unit, text in zip(units, typed[label].texts, strict=True):
            if text is not None:
                by_unit.setdefault(unit, set()).add(fold(text))
        # Units in which an annotator gave different labels.
        conflicts = sum(len(texts) > 1 for texts in by_unit.values())
        if conflicts < 2 or conflicts < _OFTEN * repeated:
            continue
        answers = [
            Answer("each row is a response of its own", ("--key", EACH_ROW)),
            Answer(
                "rows are verdicts on one response; the first label counts",
                ("--key", "NONE"),
            ),
        ]
        listed = ", ".join(f"'{name}'" for name in names)
        problem = (
            f"rows that are equal in {listed} have different labels in '{label}' ({conflicts} of"
            f" {repeated}): what is a row?"
        )
        raise OpenTableError(problem, where, answers)


def check_criteria(
    criterion: TypedColumn | None,
    verdicts: Mapping[str, Sequence[Any]],
    space: Space,
    where: str,
) -> None:
    """Check that criteria have one scale, or classes in common.

    Raises:
        OpenTableError: If they do not, because figures of all rows would mean nothing.
    """
    if criterion is None or space.unit == "pair":
        return
    # {criterion: all verdicts of all raters}.
    values: dict[str, list[Any]] = {}
    for column in verdicts.values():
        for name, value in zip(criterion.texts, column, strict=True):
            if name is not None and value is not None:
                values.setdefault(name, []).append(value)
    # A criterion with few verdicts may have used a part of its scale.
    levels = {
        name: set(verdicts_of)
        for name, verdicts_of in values.items()
        if len(verdicts_of) >= _PER_CRITERION
    }
    # Every ordered pair: the test is not symmetric.
    for first in levels:
        for second in levels:
            if not _differ(levels[first], levels[second], space):
                continue
            problem = (
                f"the criteria '{first}' ({_range(levels[first])}) and '{second}'"
                f" ({_range(levels[second])}) have different scales, so that figures of all rows"
                " mean nothing: which one is to be checked?"
            )
            answers = [
                Answer(f"'{name}'", ("--key", f"{criterion.name}={name}"))
                for name in values
            ]
            raise OpenTableError(problem, where, answers)


def _differ(low: set[Any], high: set[Any], space: Space) -> bool:
    """Return whether the first levels are of a scale that ends far below the second ones."""
    # Different classes altogether; a common one may be the same scale.
    if space.unit == "class":
        return low.isdisjoint(high)
    top = float(max(low))
    higher = float(max(high))
    # 0 to 1 next to 1 to 5, or 1 to 10 next to percentages.
    return (top <= 1 and higher >= 3) or (
        top <= 10 and higher >= 20 and higher >= 5 * top
    )


def _range(levels: set[Any]) -> str:
    if all(isinstance(level, float) for level in levels):
        return f"{min(levels):g} to {max(levels):g}"
    return ", ".join(sorted(map(str, levels))[:3])


def check_people(
    brought: ImportedJudgments, start: Peek, name: str, where: str, *, is_log: bool
) -> ImportedJudgments:
    """Ask about columns named after people that a known format does not have, if it
    brought no labels.

    Args:
        brought: What was read from the file.
        start: Its first row.
        name: The format.
        where: The file.
        is_log: Whether the format is that of a log, which is not read as a table: a note names the
            columns.

    Raises:
        OpenTableError: If there are such columns.
    """
    labeled = any(case.label is not None or case.labels for case in brought.cases)
    graded = any(
        response.grade is not None or response.class_name is not None
        for case in brought.cases
        for response in case.responses
    )
    if labeled or graded:
        return brought
    # Short cells only: a column with a long text is a comment of a person.
    columns = [
        str(column)
        for column, cell in start.row.items()
        if _is_of_people(str(column))
        and isinstance(cell, str | int | float)
        and len(str(cell)) <= LONGEST_WORD
    ]
    if not columns:
        return brought
    # A log cannot be read as a table, so there is no answer to offer.
    if is_log:
        note = f"columns named after people, not read as labels: {', '.join(columns)}"
        return replace(brought, notes=(*brought.notes, note))
    answers = [
        Answer(f"read the table with '{column}' as the label", ("--label", column))
        for column in columns[:_MOST_PEOPLE]
    ]
    answers.append(Answer("read the table without labels", ("--label", "NONE")))
    listed = ", ".join(f"'{column}'" for column in columns)
    raise OpenTableError(
        f"has columns that files of {name} do not have: {listed}; are they labels?",
        where,
        answers,
    )


def _is_of_people(name: str) -> bool:
    """Return whether a name is that of a column with people's verdicts rather than of a
    text or of who they are.
    """
    if not matches(name, "human") or not is_rater_name(name):
        return False
    texts = ("prompt", "response", "context", "reference", "id", "text")
    # `annotator` alone names who judged, not what they said.
    names = len(tokens(name)) == 1 and matches(name, "rater")
    return not names and not any(matches(name, group) for group in texts)
