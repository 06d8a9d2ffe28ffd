"""Which judges and labels are dropped, because their verdicts have another form than
those of the other side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from evalkit.interop.tables.associations import FEWEST_ROWS
from evalkit.interop.tables.column_types import MOSTLY, TypedColumn
from evalkit.interop.tables.likely_raters import is_score
from evalkit.interop.tables.rater_roles import Raters
from evalkit.interop.tables.words import (
    fold,
    is_model,
    is_word_for_people,
    matches,
    tokens,
    word_group,
)

_OUTCOMES: Final = word_group("outcome")
_TWO: Final = 2
_ROUNDED: Final = 1e-6
"""How far a difference may be from the stated one, by rounding."""


def keep_one_form(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Keep, of labels in words and in numbers, those that have the form of the judges' verdicts."""
    # Forms, True for scores: a mixed set of labels is narrowed only by judges of one form.
    judges = raters.criteria or raters.judges
    judged = {is_score(typed[name]) for name in judges}
    labeled = {is_score(typed[name]) for name in raters.labels}
    if len(labeled) < 2:
        return
    if len(judged) != 1:
        return
    for name in list(raters.labels):
        if is_score(typed[name]) not in judged:
            del raters.labels[name]
            raters.unused[name] = "of another form than the judges' verdicts"


def drop_other_words(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Drop words that nobody on the other side uses, as `pro` in `user_tier`, next to
    words that some use.
    """
    _drop_single_words(typed, raters)
    for group, opposite in (
        (raters.labels, raters.judges),
        (raters.judges, raters.labels),
    ):
        compared = [typed[name] for name in opposite if not typed[name].is_numeric]
        worded = [name for name in group if not typed[name].is_numeric]
        meeting = [name for name in worded if _meets(typed[name], compared)]
        if not compared:
            continue
        if not meeting:
            continue
        first = next(iter(opposite))
        for name in worded:
            if name in meeting:
                continue
            del group[name]
            raters.unused[name] = f"has no words like those of '{first}'"


def drop_ids_of_raters(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Drop integers in `user` next to the scores in `user_score`: they are ids of users."""
    for name in list(raters.labels):
        column = typed[name]
        twins = [
            twin
            for twin in raters.labels
            if twin != name and tokens(twin)[: len(tokens(name))] == tokens(name)
        ]
        scores = {value for twin in twins for value in typed[twin].distinct_numbers}
        numbers = column.distinct_numbers
        whole = column.is_numeric and all(value.is_integer() for value in numbers)
        if scores and whole and scores.isdisjoint(numbers):
            del raters.labels[name]
            raters.unused[name] = f"numbers of those whose scores '{twins[0]}' has"
            continue
        others = [twin for twin in (*raters.labels, *raters.judges) if twin != name]
        given = {value for twin in others for value in typed[twin].distinct_numbers}
        # Ids or a number of people: no other rater gives some of them.
        is_apart = bool(given) and not given.issuperset(numbers)
        has_others = len(raters.labels) > 1
        if whole and is_apart and has_others and is_word_for_people(name):
            del raters.labels[name]
            raters.unused[name] = "numbers that no other rater gives"


def _drop_single_words(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Drop columns with one word in all rows that is no verdict, as `Kim` in `grader`,
    next to others.
    """
    for group in (raters.labels, raters.judges):
        several = [name for name in group if len(typed[name].words) > 1]
        if not several:
            continue
        for name in list(group):
            column = typed[name]
            is_word = not column.is_numeric and not column.flags
            if is_word and name not in several:
                del group[name]
                raters.unused[name] = "has one word in all rows"


def _meets(column: TypedColumn, opposite: Collection[TypedColumn]) -> bool:
    """Return whether a column has words of one of the other columns, or words of the same kind."""
    return any(_is_like(column, twin) for twin in opposite)


def _is_like(column: TypedColumn, twin: TypedColumn) -> bool:
    if column.stated:
        return True
    words = {fold(word) for word in column.words}
    words_of_twin = {fold(word) for word in twin.words}
    if words & words_of_twin:
        return True
    if _has_flags(column) and _has_flags(twin):
        return True
    if column.pairs and twin.pairs:
        return True
    return column.order is not None and twin.order is not None


def _has_flags(column: TypedColumn) -> bool:
    return column.share(column.flags) >= MOSTLY


def drop_scores_of_judges(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Drop the scores of a judge who also gives words, if all labels are words."""
    _read_cuts(typed, raters)
    labels = [typed[name] for name in raters.labels]
    if not labels:
        return
    if any(map(is_score, labels)):
        return
    worded = [name for name in raters.judges if not is_score(typed[name])]
    for name in list(raters.judges):
        rater = _rater(name)
        if name in worded:
            continue
        if not rater:
            continue
        twins = [twin for twin in worded if _rater(twin) == rater]
        if twins:
            del raters.judges[name]
            raters.unused[name] = f"of the same rater as '{twins[0]}'"


def _read_cuts(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Read a flag such as `success`, which says whether a judge's score is high enough, as the
    verdict of that judge: next to labels in flags it replaces the score.
    """
    labels = [typed[name] for name in raters.labels]
    flagged = bool(labels) and all(map(_has_flags, labels))
    for judge in [name for name in raters.judges if is_score(typed[name])]:
        for name, column in typed.items():
            is_outcome = not _OUTCOMES.isdisjoint(tokens(name))
            if not is_outcome or name in raters.names:
                continue
            if not _is_cut(column, typed[judge]):
                continue
            if flagged and judge in raters.judges:
                del raters.judges[judge]
                raters.judges[name] = f"whether '{judge}' is high enough"
                raters.unused.pop(name, None)
                raters.unused[judge] = f"of the same rater as '{name}'"
            else:
                raters.unused[name] = f"tells whether '{judge}' is high enough"


def _is_cut(column: TypedColumn, scores: TypedColumn) -> bool:
    """Return whether a flag is true exactly where a score is above a cut."""
    if len(column.flags) < 2 or column.share(column.flags) < 1:
        return False
    passed: list[float] = []
    failed: list[float] = []
    for text, score in zip(column.texts, scores.texts, strict=True):
        value = None if score is None else scores.numbers.get(score)
        if text is None or value is None:
            continue
        (passed if column.flags[text] == "pass" else failed).append(value)
    if min(len(passed), len(failed)) < FEWEST_ROWS // 2:
        return False
    return max(failed) < min(passed)


def _rater(name: str) -> frozenset[str]:
    """Return the words of a name that say which judge it is."""
    words = set()
    for part in tokens(name):
        if matches(part, "judge") or is_model(part):
            words.add(part)
    return frozenset(words)


def drop_copies(
    typed: Mapping[str, TypedColumn], raters: Raters, used: Iterable[str]
) -> None:
    """Drop the columns that are the verdicts of a rater again, as `class-name` next to
    `label`: they would tell what the verdict is.

    Args:
        typed: The columns.
        raters: The raters, of which the others are listed as unused.
        used: The columns that have other roles.
    """
    kept = {*used, *raters.judges, *raters.labels, *raters.criteria}
    for name, column in typed.items():
        if name in kept:
            continue
        # A judge that gives a topic's usual verdict is one to one with the topic, so that a
        # column of another name stays: it shows what the judge knows.
        # A comment or a score says what the judge's own verdict is, whatever its name.
        is_of_judge = matches(name, "text") or matches(name, "value")
        named_alike = [
            judge
            for judge in raters.judges
            if is_of_judge or set(tokens(judge)) & set(tokens(name))
        ]
        for rater in (*raters.labels, *named_alike):
            if _is_copy(column, typed[rater]):
                raters.unused[name] = f"tells the verdict of '{rater}'"
                break
        else:
            if _compares(column, typed, raters):
                raters.unused[name] = "compares verdicts"


def _compares(
    column: TypedColumn, typed: Mapping[str, TypedColumn], raters: Raters
) -> bool:
    """Return whether a column says in each row whether the verdicts of a judge and a label are
    equal, or how far they are apart.
    """
    for judge in raters.judges:
        for label in raters.labels:
            pair = (typed[judge], typed[label])
            if all(map(is_score, pair)) and column.is_numeric:
                if _is_difference(column, *pair):
                    return True
            elif len(column.counts) == _TWO and _is_equality(column, *pair):
                return True
    return False


def _is_difference(column: TypedColumn, judge: TypedColumn, label: TypedColumn) -> bool:
    rows = 0
    texts = zip(column.texts, judge.texts, label.texts, strict=True)
    for text, judged, labeled in texts:
        if text is None or judged is None or labeled is None:
            continue
        verdict = judge.numbers.get(judged)
        truth = label.numbers.get(labeled)
        if verdict is None or truth is None:
            continue
        apart = abs(verdict - truth)
        if abs(abs(column.numbers[text]) - apart) > _ROUNDED:
            return False
        rows += 1
    return rows >= FEWEST_ROWS and len(column.counts) > 1


def _is_equality(column: TypedColumn, judge: TypedColumn, label: TypedColumn) -> bool:
    pairs = set()
    rows = 0
    texts = zip(column.texts, judge.texts, label.texts, strict=True)
    for text, judged, labeled in texts:
        if text is None or judged is None or labeled is None:
            continue
        pairs.add((text, fold(judged) == fold(labeled)))
        if len(pairs) > _TWO:
            return False
        rows += 1
    values = {value for value, _ in pairs}
    return rows >= FEWEST_ROWS and len(pairs) == len(values) == _TWO


def _is_copy(column: TypedColumn, verdicts: TypedColumn) -> bool:
    """Return whether the values of a column and verdicts are one to one."""
    levels = len(verdicts.counts)
    if levels < 2 or len(column.counts) != levels:
        return False
    rows = [
        row for row in zip(column.texts, verdicts.texts, strict=True) if None not in row
    ]
    # Values that do not recur go together with any others.
    recur = len(rows) >= FEWEST_ROWS and 2 * levels <= len(rows)
    return recur and len({*rows}) == levels
