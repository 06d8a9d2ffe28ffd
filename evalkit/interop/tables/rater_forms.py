"""Which judges and labels are dropped, because their verdicts have another form than those of the other side."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from evalkit.interop.tables.column_types import MOSTLY, TypedColumn
from evalkit.interop.tables.likely_raters import is_score
from evalkit.interop.tables.rater_roles import Raters
from evalkit.interop.tables.words import fold, is_model, matches, tokens


def keep_one_form(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Keep, of labels in words and in numbers, those that have the form of the judges' verdicts."""
    # Forms, True for scores: a mixed set of labels is narrowed only by judges of one form.
    judged = {is_score(typed[name]) for name in (raters.criteria or raters.judges)}
    labeled = {is_score(typed[name]) for name in raters.labels}
    if len(labeled) < 2 or len(judged) != 1:
        return
    for name in list(raters.labels):
        if is_score(typed[name]) not in judged:
            del raters.labels[name]
            raters.unused[name] = "of another form than the judges' verdicts"


def drop_other_words(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Drop words that nobody on the other side uses, as `pro` in `user_tier`, next to words that some use."""
    _drop_single_words(typed, raters)
    for group, opposite in (
        (raters.labels, raters.judges),
        (raters.judges, raters.labels),
    ):
        others = [typed[name] for name in opposite if not typed[name].is_numeric]
        worded = [name for name in group if not typed[name].is_numeric]
        meeting = [name for name in worded if _meets(typed[name], others)]
        if not others or not meeting:
            continue
        for name in worded:
            if name not in meeting:
                del group[name]
                raters.unused[name] = (
                    f"has no words like those of '{next(iter(opposite))}'"
                )


def _drop_single_words(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Drop columns with one word in all rows that is no verdict, as `Kim` in `grader`, next to others."""
    for group in (raters.labels, raters.judges):
        several = [name for name in group if len(typed[name].words) > 1]
        for name in [name for name in group if name not in several]:
            column = typed[name]
            if several and not column.is_numeric and not column.flags:
                del group[name]
                raters.unused[name] = "has one word in all rows"


def _meets(column: TypedColumn, others: Collection[TypedColumn]) -> bool:
    words = {fold(word) for word in column.words}
    return any(
        not words.isdisjoint(map(fold, other.words))
        or (_has_flags(column) and _has_flags(other))
        or (bool(column.pairs) and bool(other.pairs))
        or (column.order is not None and other.order is not None)
        or bool(column.stated)
        for other in others
    )


def _has_flags(column: TypedColumn) -> bool:
    return column.share(column.flags) >= MOSTLY


def drop_scores_of_judges(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Drop the scores of a judge who also gives words, if all labels are words."""
    if not raters.labels or any(is_score(typed[name]) for name in raters.labels):
        return
    worded = [name for name in raters.judges if not is_score(typed[name])]
    for name in [name for name in raters.judges if name not in worded]:
        twins = [word for word in worded if _rater(word) == _rater(name)]
        if twins and _rater(name):
            del raters.judges[name]
            raters.unused[name] = f"of the same rater as '{twins[0]}'"


def _rater(name: str) -> frozenset[str]:
    """Return the words of a name that say which judge it is."""
    return frozenset(
        part for part in tokens(name) if matches(part, "judge") or is_model(part)
    )
