"""Which columns without a rater's name may be raters, by values like those of a judge or a label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalkit.interop.tables.column_types import MOST_CLASSES, MOSTLY, TypedColumn
from evalkit.interop.tables.fixed_roles import says_agreement, strength
from evalkit.interop.tables.rater_columns import is_rater_name
from evalkit.interop.tables.rater_roles import MAY_BE_VERDICT, Raters
from evalkit.interop.tables.words import begins, fold, is_model, matches, tokens

_VARIES: Final = 0.05
"""The share of the rarer value from which a flag varies."""


def is_alike(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether an unnamed verdict has the form of the judges' verdicts, so that it may be a label."""
    # Only open columns with a weak name: clear names are raters already.
    if raters.unused[name] != MAY_BE_VERDICT or strength(name)[1] != 1:
        return False
    column = typed[name]
    # Numbers of a criterion are measures, unless the name says that they are values.
    if column.is_numeric and begins(name, "criteria") and not matches(name, "value"):
        return False
    for judge in raters.judges:
        if is_score(column) and is_score(typed[judge]):
            return True
        words = {fold(word) for word in column.words}
        if words and words <= {fold(word) for word in typed[judge].words}:
            return True
    return False


def answers_the_same(
    name: str, typed: Mapping[str, TypedColumn], raters: Raters
) -> bool:
    """Return whether a flag is named after a word of a judge, as `is_safe` next to `safe` and `unsafe`."""
    if typed[name].share(typed[name].flags) < 1:
        return False
    words = {fold(word) for judge in raters.judges for word in typed[judge].words}
    return not words.isdisjoint(tokens(name))


def has_the_words(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a column that is no rater by its name has all words of a judge, so that it may be a label."""
    column = typed[name]
    why = raters.unused.get(name, MAY_BE_VERDICT)
    if name in raters.judges or says_agreement(name) or why != MAY_BE_VERDICT:
        return False
    if len(column.words) < 2:
        return False
    # The same words as a judge, on both sides.
    judges = [judge for judge in raters.judges if same_words(column, typed[judge])]
    twin = any(
        # The name of the column is that of the judge without the judge.
        tuple(
            part
            for part in tokens(judge)
            if not matches(part, "judge") and not is_model(part)
        )
        == tokens(name)
        for judge in judges
    )
    if twin or (judges and column.judges):
        return True
    return bool(judges) and column.share(column.flags) == 1 and is_rater_name(name)


def same_words(column: TypedColumn, twin: TypedColumn) -> bool:
    """Return whether two columns, not of scores, have the same words."""
    words = {fold(word) for word in column.words}
    return words == {fold(word) for word in twin.words} and not is_score(column)


def tells_a_fault(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a flag such as `has_error`, which varies, may be the label of judges that give flags."""
    column = typed[name]
    first, *further_parts = tokens(name) or ("",)
    named = matches(first, "feature") and begins(" ".join(further_parts), "adverse")
    if not named or name in raters.judges or column.share(column.flags) < 1:
        return False
    # A flag that hardly ever occurs is a rare event and no label.
    rarest = min(column.words.values())
    varies = len(column.words) > 1 and rarest >= _VARIES * column.total
    return varies and all(
        typed[judge].share(typed[judge].flags) == 1 for judge in raters.judges
    )


def has_the_scores(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether an unknown column has the integers of a judge's scale, so that it may be a label."""
    column = typed[name]
    if not is_score(column) or matches(name, "process"):
        return False
    values = set(column.distinct_numbers)
    # Most values of the column are levels of the judge.
    return 2 < len(values) <= MOST_CLASSES and any(
        len(values & set(typed[judge].distinct_numbers)) >= MOSTLY * len(values)
        for judge in raters.judges
    )


def is_comparable(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a column may be the judge of the labels: it has numbers, or words like theirs."""
    column = typed[name]
    labels = [typed[label] for label in raters.labels]
    if column.is_numeric:
        return True
    return any(
        not {fold(word) for word in column.words}.isdisjoint(
            fold(word) for word in label.words
        )
        or (column.share(column.flags) >= 1 and label.share(label.flags) >= 1)
        for label in labels
    )


def judges_like(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a column's words judge, and are those of a named rater if there is one."""
    column = typed[name]
    if matches(name, "process") or column.is_numeric:
        return False
    if column.judges or column.kind == "ordered":
        return True
    named = [typed[rater] for rater in raters.names]
    shared = [
        named_rater
        for named_rater in named
        if {fold(word) for word in column.words}
        <= {fold(word) for word in named_rater.words}
    ]
    if column.kind in ("pair", "comparison"):
        return bool(shared) or not named
    # Yes and no answer any question, and do not make a column a rater.
    answers = column.share(column.flags) >= 1
    return bool(shared) and not answers


def is_score(column: TypedColumn) -> bool:
    """Return whether a column has numbers other than 0 and 1."""
    return column.is_numeric and not column.is_binary
