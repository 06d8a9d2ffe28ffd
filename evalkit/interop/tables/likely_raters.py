"""Which columns without a rater's name may be raters, by values like those of a judge
or a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from evalkit.interop.tables.column_types import MOST_CLASSES, MOSTLY, TypedColumn
from evalkit.interop.tables.fixed_roles import PATH, says_agreement, strength
from evalkit.interop.tables.rater_columns import (
    is_rater_name,
    judges_what,
    without_explanation,
)
from evalkit.interop.tables.rater_roles import MAY_BE_VERDICT, Raters
from evalkit.interop.tables.words import (
    begins,
    fold,
    is_model,
    is_word_for_people,
    matches,
    tokens,
    word_group,
)

_PAIR: Final = 2
_WORDS_OF_SENTENCE: Final = 4
_SUBMITTED: Final = word_group("submitted")
"""Names of the column of a form with the time of each answer."""
_TRUE: Final = word_group("true_class")
_TRUE_ALONE: Final = ("true", "actual")
_PREDICTED: Final = word_group("predicted_class")
_MANY_ROWS: Final = 20
"""The fewest rows in which one name is no chance."""
_VARIES: Final = 0.05
"""The share of the rarer value from which a flag varies."""
_SAME: Final = ("flag", "pair", "comparison", "ordered", "class", "stated")


def is_alike(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether an unnamed verdict has the form of the judges' verdicts, so that
    it may be a label.
    """
    # Only open columns with a weak name: clear names are raters already.
    if raters.unused[name] != MAY_BE_VERDICT or strength(name)[1] != 1:
        return False
    column = typed[name]
    # Numbers of a criterion are measures, unless the name says that they are values.
    if column.is_numeric and begins(name, "criteria") and not matches(name, "value"):
        return False
    words = {fold(word) for word in column.words}
    for name_of_judge in raters.judges:
        judge = typed[name_of_judge]
        if is_score(column) and is_score(judge):
            return True
        if is_score(column) and stated_numbers(judge) >= {*column.distinct_numbers}:
            return True
        # Flags named as verdicts may be labels of scores.
        if (
            is_score(judge)
            and len(column.words) > 1
            and column.share(column.flags) == 1
        ):
            return True
        words_of_judge = {fold(word) for word in judge.words}
        if words and words <= words_of_judge:
            return True
        # Flags that a tool spells in another way, as true and false next to 1 and 0.
        both_flags = column.share(column.flags) == judge.share(judge.flags) == 1
        if both_flags and len(words) > 1 and matches(name, "value"):
            return True
    return False


def answers_the_same(
    name: str, typed: Mapping[str, TypedColumn], raters: Raters
) -> bool:
    """Return whether a flag is named after a word of a judge, as `is_safe` next to
    `safe` and `unsafe`.
    """
    column = typed[name]
    if column.share(column.flags) < 1:
        return False
    words = {fold(word) for judge in raters.judges for word in typed[judge].words}
    return not words.isdisjoint(tokens(name))


def has_the_words(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a column that is no rater by its name has all words of a judge, so
    that it may be a label.
    """
    column = typed[name]
    why = raters.unused.get(name, MAY_BE_VERDICT)
    if name in raters.judges or why != MAY_BE_VERDICT:
        return False
    if says_agreement(name):
        return False
    if len(column.words) < 2:
        return False
    # The same words as a judge, on both sides.
    judges = [judge for judge in raters.judges if same_words(column, typed[judge])]
    # The name of the column is that of the judge without the judge.
    named_as_judge = any(_topic(judge) == tokens(name) for judge in judges)
    if named_as_judge:
        return True
    if judges and column.judges:
        return True
    # Three classes of a judge are hardly those of another column by chance.
    if judges and len(column.words) > _PAIR and column.kind == "class":
        return True
    has_flags = column.share(column.flags) == 1
    return bool(judges) and has_flags and is_rater_name(name)


def _topic(judge: str) -> tuple[str, ...]:
    """Return the words of a judge's column that name neither the judge nor a model."""
    words = []
    for part in tokens(judge):
        names_judge = matches(part, "judge") or is_model(part)
        if not names_judge:
            words.append(part)
    return tuple(words)


def same_words(column: TypedColumn, twin: TypedColumn) -> bool:
    """Return whether two columns, not of scores, have the same words."""
    if is_score(column):
        return False
    words = {fold(word) for word in column.words}
    return words == {fold(word) for word in twin.words}


def tells_a_fault(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a flag such as `has_error`, which varies, may be the label of
    judges that give flags.
    """
    column = typed[name]
    first, *next_words = tokens(name) or ("",)
    quality = " ".join(next_words)
    if not matches(first, "feature"):
        return False
    if not begins(quality, "adverse"):
        return False
    if name in raters.judges:
        return False
    if column.share(column.flags) < 1:
        return False
    # A flag that hardly ever occurs is a rare event and no label.
    rarest = min(column.words.values())
    varies = len(column.words) > 1 and rarest >= _VARIES * column.total
    if not varies:
        return False
    judges = [typed[judge] for judge in raters.judges]
    return all(judge.share(judge.flags) == 1 for judge in judges)


def approves(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a column of feedback has flags and no texts, next to judges that
    give flags.
    """
    column = typed[name]
    if not matches(name, "text") or name in raters.judges:
        return False
    if column.share(column.flags) < 1 or len(column.words) < 2:
        return False
    judges = [typed[judge] for judge in raters.judges]
    return all(judge.share(judge.flags) == 1 for judge in judges)


def has_the_scores(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether an unknown column has the integers of a judge's scale, so that it
    may be a label.
    """
    column = typed[name]
    if not is_score(column) or matches(name, "process"):
        return False
    values = set(column.distinct_numbers)
    # Most values of the column are levels of the judge.
    if not 2 < len(values) <= MOST_CLASSES:
        return False
    for judge in raters.judges:
        levels = set(typed[judge].distinct_numbers)
        shared = values & levels
        if len(shared) >= MOSTLY * len(values):
            return True
    return False


def answers_a_form(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a column is named as a question, such as `How helpful is it?`, and
    has scores as those of a judge.
    """
    return is_question(name) and has_the_scores(name, typed, raters)


def is_question(name: str) -> bool:
    """Return whether a column is named with a question or a sentence, as forms name columns."""
    question = without_explanation(name)
    if len(tokens(question)) < _WORDS_OF_SENTENCE:
        return False
    return strength(name)[1] < 2


def is_form(typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a table is the export of a form: its first column is when people answered."""
    first = next(iter(typed), "")
    return fold(first) in _SUBMITTED and typed[first].kind == "time"


def is_true_class(name: str, names: Iterable[str]) -> bool:
    """Return whether a column is named as what another one predicts: `true_intent` next to
    `predicted_intent`.
    """
    first, *what = tokens(name) or ("",)
    # `correct_answer` is a reference, which a judge of answers has seen.
    if first not in _TRUE or matches(name, "response"):
        return False
    # `correct` alone is a verdict, and `actual` next to `predicted` is none.
    if not what and first not in _TRUE_ALONE:
        return False
    for twin in names:
        if not tokens(twin):
            continue
        first_of_twin, *what_of_twin = tokens(twin)
        if first_of_twin in _PREDICTED and what_of_twin == what:
            return True
        if what and judges_what(twin, what):
            return True
    return False


def names_one_person(column: TypedColumn) -> bool:
    """Return whether a column such as `user` has one name in all of many rows."""
    if len(column.words) != 1 or column.total < _MANY_ROWS:
        return False
    # A mark in some rows may mean the opposite in the others.
    has_gaps = column.total < len(column.texts)
    if column.kind != "class" or column.judges or has_gaps:
        return False
    last_part = PATH.split(column.name)[-1]
    return len(tokens(last_part)) == 1 and is_word_for_people(tokens(last_part)[0])


def is_comparable(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a column may be the judge of the labels: it has numbers, or words
    like theirs.
    """
    column = typed[name]
    labels = [typed[label] for label in raters.labels]
    if column.is_numeric:
        return True
    words = {fold(word) for word in column.words}
    has_flags = column.share(column.flags) >= 1
    for label in labels:
        words_of_label = {fold(word) for word in label.words}
        if words & words_of_label:
            return True
        if has_flags and label.share(label.flags) >= 1:
            return True
    return False


def judges_like(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a column's words judge, and are those of a named rater if there is one."""
    column = typed[name]
    if matches(name, "process") or column.is_numeric:
        return False
    # One word in all rows judges nothing.
    if len(column.words) < 2:
        return False
    if column.judges or column.kind == "ordered":
        return True
    named = [typed[rater] for rater in raters.names]
    words = {fold(word) for word in column.words}
    has_words_of_rater = any(words <= {*map(fold, rater.words)} for rater in named)
    if column.kind in ("pair", "comparison"):
        return has_words_of_rater or not named
    # Yes and no answer any question, and do not make a column a rater.
    answers = column.share(column.flags) >= 1
    return has_words_of_rater and not answers


def is_score(column: TypedColumn) -> bool:
    """Return whether a column has numbers other than 0 and 1."""
    return column.is_numeric and not column.is_binary


def stated_numbers(column: TypedColumn) -> set[float]:
    """Return the numbers that the texts of a judge state."""
    if column.kind != "stated":
        return set()
    return {
        float(value)
        for value in column.stated.values()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def verdict_like(unknown: Sequence[str], typed: Mapping[str, TypedColumn]) -> list[str]:
    """Return the columns whose values can be verdicts; one value in all rows is none, next
    to columns that differ.
    """
    names = [
        name for name in unknown if typed[name].kind in _SAME or typed[name].is_numeric
    ]
    return [name for name in names if len(typed[name].words) > 1] or names


def comparable(names: Sequence[str], typed: Mapping[str, TypedColumn]) -> Sequence[str]:
    """Return the columns that have scores as another one has, or words of another one;
    all if there are none.
    """
    alike = [
        name
        for name in names
        if any(_are_alike(typed[name], typed[twin]) for twin in names if twin != name)
    ]
    return alike or names


def _are_alike(column: TypedColumn, twin: TypedColumn) -> bool:
    if is_score(column) and is_score(twin):
        return True
    return not {*map(fold, column.words)}.isdisjoint(map(fold, twin.words))
