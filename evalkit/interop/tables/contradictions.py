"""Questions about data that contradict their reading: opposite verdicts, positions, scales of criteria, labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, Final, TypeAlias

from evalkit.core.errors import DatasetError
from evalkit.interop.layouts.judgment_files import Peek
from evalkit.interop.layouts.records import ImportedJudgments
from evalkit.interop.tables.column_types import LONGEST_WORD, TypedColumn
from evalkit.interop.tables.keys import groups
from evalkit.interop.tables.pair_verdicts import POSITIONS
from evalkit.interop.tables.questions import Answer, OpenTableError
from evalkit.interop.tables.rater_columns import is_rater_name
from evalkit.interop.tables.rater_levels import Space
from evalkit.interop.tables.words import fold, matches, tokens

EACH_ROW: Final = "ROW"
"""The word for rows that are units of their own in `--key ROW`."""
_BY_POSITION: Final = {
    **dict.fromkeys(
        ("first", "1st", "left", "1", "第一", "左", "links", "gauche"), "A"
    ),
    **dict.fromkeys(
        ("second", "2nd", "right", "2", "第二", "右", "rechts", "droite"), "B"
    ),
}
_FEWEST: Final = 20
_FEWEST_CHANGED: Final = 5
_OPPOSITE: Final = -0.3
_SURE: Final = -3.5
"""The standard score of an association below which chance does not explain it."""
_MOST_LEVELS: Final = 12
_OFTEN: Final = 0.2
_PER_CRITERION: Final = 10
_MOST_PEOPLE: Final = 6

Pairs: TypeAlias = Sequence[tuple[Any, Any]]


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
            options = [word for name in judges for word in ("--judge", name)]
            options += [word for name in labels for word in ("--label", name)]
            if _are_corrections(pairs, verdicts[judge], verdicts[label]):
                _ask_about_corrections(judge, label, len(pairs), options, where)
            shown = _how_opposite(pairs, space)
            if shown:
                _ask_for_direction(judge, label, shown, space, options, where)


def _are_corrections(
    pairs: Pairs, judged: Sequence[Any], labeled: Sequence[Any]
) -> bool:
    """Return whether labels are only where a judge is wrong, in a small part of the rows."""
    few = 2 * len(pairs) < sum(verdict is not None for verdict in judged)
    some = len(pairs) >= _FEWEST_CHANGED
    return (
        few
        and some
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
        pairs = [pair for pair in pairs if "TIE" not in pair]
    classes = {value for pair in pairs for value in pair}
    if len(pairs) < _FEWEST or len(classes) != 2:
        return ""
    judged = Counter(verdict for verdict, _ in pairs)
    labeled = Counter(label for _, label in pairs)
    count = len(pairs)
    chance = sum(judged[name] * labeled[name] for name in judged) / count**2
    equal = sum(verdict == label for verdict, label in pairs) / count
    spread = sqrt(chance * (1 - chance) / count)
    if not spread or (equal - chance) / spread > _SURE:
        return ""
    kappa = (equal - chance) / (1 - chance)
    return f"kappa {kappa:.2f} in {count} rows" if kappa <= _OPPOSITE else ""


def _falls(pairs: Pairs) -> str:
    if len(pairs) < _FEWEST:
        return ""
    first, second = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
    mean = (len(pairs) + 1) / 2
    covariance = sum(
        (x - mean) * (y - mean) for x, y in zip(first, second, strict=True)
    )
    spread = sqrt(
        sum((rank - mean) ** 2 for rank in first)
        * sum((rank - mean) ** 2 for rank in second)
    )
    if not spread:
        return ""
    correlation = covariance / spread
    sure = correlation * sqrt(len(pairs) - 1) < _SURE
    return (
        f"Spearman {correlation:.2f} in {len(pairs)} rows"
        if sure and correlation <= _OPPOSITE
        else ""
    )


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values have the mean of their ranks."""
    counts = Counter(values)
    rank_of = {}
    before = 0
    for value in sorted(counts):
        rank_of[value] = before + (counts[value] + 1) / 2
        before += counts[value]
    return [rank_of[value] for value in values]


def _ask_for_direction(
    judge: str, label: str, shown: str, space: Space, options: Sequence[str], where: str
) -> None:
    answers = []
    for name in (label, judge):
        turned = _turned(space.values[name])
        if turned:
            words = [
                o
                for text, value in turned.items()
                for o in ("--map", f"{name}:{text}={value}")
            ]
            answers.append(Answer(f"'{name}' is the other way around", tuple(words)))
    answers.append(Answer("they are as they should be", tuple(options)))
    problem = (
        f"'{judge}' and '{label}' point in opposite directions ({shown}):"
        " does one of them mean the opposite, such as 1 for the best?"
    )
    raise OpenTableError(problem, where, answers)


def _turned(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the opposite of each level; nothing if there are too many levels or classes."""
    present = {value for value in values.values() if value != "TIE"}
    if not 2 <= len(values) <= _MOST_LEVELS:
        return {}
    if all(isinstance(value, float) for value in present):
        ends = min(present) + max(present)
        return {text: f"{ends - value:g}" for text, value in values.items()}
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
    """Ask whether `first` and `second` name responses or what was shown first, if both orders were shown.

    Raises:
        OpenTableError: If a judge has such words, unless the user mapped them.
    """
    if order is None or len(order.words) < 2:
        return
    known = {fold(word.rpartition(":")[2]) for word in mapped}
    for name, column in judges.items():
        words = {
            word: side
            for word in column.words
            if (side := _BY_POSITION.get(fold(word)))
        }
        if set(words.values()) != {"A", "B"} or any(
            fold(word) in known for word in words
        ):
            continue
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
    units = groups(typed, names)
    if len(set(units)) == len(units):
        return
    rows = Counter(units)
    repeated = sum(count > 1 for count in rows.values())
    for label in labels:
        by_unit: dict[int, set[str]] = {}
        for unit, text in zip(units, typed[label].texts, strict=True):
            if text is not None:
                by_unit.setdefault(unit, set()).add(fold(text))
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
        DatasetError: If they do not, because figures of all rows would mean nothing.
    """
    if criterion is None or space.unit == "pair":
        return
    values: dict[str, list[Any]] = {}
    for column in verdicts.values():
        for name, value in zip(criterion.texts, column, strict=True):
            if name is not None and value is not None:
                values.setdefault(name, []).append(value)
    levels = {
        name: set(found)
        for name, found in values.items()
        if len(found) >= _PER_CRITERION
    }
    for first in levels:
        for second in levels:
            if not _differ(levels[first], levels[second], space):
                continue
            problem = (
                f"the criteria '{first}' ({_range(levels[first])}) and '{second}'"
                f" ({_range(levels[second])}) have different scales, so that figures of all rows"
                " mean nothing"
            )
            remedy = "write a table for each criterion, and check them one at a time"
            raise DatasetError(problem, where=where, remedy=remedy)


def _differ(low: set[Any], high: set[Any], space: Space) -> bool:
    """Return whether the first levels are of a scale that ends far below the second ones."""
    if space.unit == "class":
        return low.isdisjoint(high)
    top, higher = float(max(low)), float(max(high))
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
    """Ask about columns named after people that a known format does not have, if it brought no labels.

    Args:
        brought: What was read from the file.
        start: Its first row.
        name: The format.
        where: The file.
        is_log: Whether the format is that of a log, which is not read as a table: a note names the columns.

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
    columns = [
        str(column)
        for column, cell in start.row.items()
        if _is_of_people(str(column))
        and isinstance(cell, str | int | float)
        and len(str(cell)) <= LONGEST_WORD
    ]
    if not columns:
        return brought
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
    """Return whether a name is that of a column with people's verdicts rather than of a text or of who they are."""
    if not matches(name, "human") or not is_rater_name(name):
        return False
    texts = ("prompt", "response", "context", "reference", "id", "text")
    names = len(tokens(name)) == 1 and matches(name, "rater")
    return not names and not any(matches(name, group) for group in texts)
