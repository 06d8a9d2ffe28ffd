"""Ask before a conclusion if the values of a table fit another choice of raters better.

Names choose the raters. Verdicts on the same responses go together, though, even those of a bad
judge with other raters' scale. So a rater whose numbers have nothing to do with any other rater's,
or an unused column that goes together with a judge while no label does, is a question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from evalkit.interop.tables.aggregates import has_numbered_twin
from evalkit.interop.tables.associations import (
    FEWEST_ROWS,
    are_derived,
    association,
    has_known_direction,
)
from evalkit.interop.tables.column_types import MOST_CLASSES, TypedColumn
from evalkit.interop.tables.fixed_roles import (
    NO_LABELS,
    Choices,
    names_no_verdict,
)
from evalkit.interop.tables.likely_raters import is_score, same_words
from evalkit.interop.tables.questions import Answer, OpenTableError, named_options
from evalkit.interop.tables.rater_questions import MOST_ANSWERS, ask_for_label
from evalkit.interop.tables.rater_roles import Raters

_CLEAR: Final = 0.4
"""The association from which a column may well be another rater's."""
_VERY_CLEAR: Final = 0.5
"""The same for a column whose levels have no known direction, or are not those of a judge."""
_DERIVED: Final = ("sums up", "of the same rater")
"""The beginning of reasons why a column repeats the verdicts of a rater."""


def check_other_readings(
    typed: Mapping[str, TypedColumn],
    raters: Raters,
    taken: Iterable[str],
    choices: Choices,
    where: str,
) -> None:
    """Ask which columns are raters, if values contradict what names say.

    Args:
        typed: The columns.
        raters: The judges and the labels.
        taken: The columns that have other roles.
        choices: The user's choices, which are not asked about.
        where: The table's name.

    Raises:
        OpenTableError: If another reading fits better.
    """
    if choices.only or choices.unlabeled or raters.criteria or not raters.judges:
        return
    if not choices.labels and not choices.judges:
        _check_unrelated(typed, raters, where)
    if choices.labels:
        return
    names = [name for name in typed if name not in {*taken, *raters.names}]
    likely = [name for name in names if _may_be_rater(name, typed, raters)]
    if not raters.labels:
        labels = _related(likely, raters.judges, typed)
        if labels:
            ask_for_label(labels, list(raters.judges), where)
        return
    if choices.judges or _go_together(raters.judges, raters.labels, typed):
        return
    _ask_for_better(likely, typed, raters, where)


def _check_unrelated(
    typed: Mapping[str, TypedColumn], raters: Raters, where: str
) -> None:
    """Ask about numbers that have nothing to do with those of any other rater, next to
    raters who go together.

    Raises:
        OpenTableError: If there are such numbers, as in `reviewer_shift`.
    """
    if len(raters.names) <= 2:
        return
    unrelated = [name for name in raters.names if _is_unrelated(name, typed, raters)]
    judges = [name for name in raters.judges if name not in unrelated]
    labels = [name for name in raters.labels if name not in unrelated]
    if not unrelated or not judges or not labels:
        return
    if not _go_together(judges, labels, typed):
        return
    answers = [
        Answer("no", _options(judges, labels)),
        Answer("yes", _options(raters.judges, raters.labels)),
    ]
    columns = ", ".join(f"'{name}'" for name in unrelated)
    problem = (
        f"the numbers in {columns} have nothing to do with any other verdicts here:"
        " are they verdicts?"
    )
    raise OpenTableError(problem, where, answers)


def _is_unrelated(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether a rater has numbers on a scale of its own, which go together with
    no other rater's.
    """
    column = typed[name]
    if not is_score(column) or column.total < FEWEST_ROWS:
        return False
    if has_numbered_twin(name, raters.names):
        return False
    twins = [typed[twin] for twin in raters.names if twin != name]
    # A judge on the scale of the labels may just be a bad one.
    scored = [typed[label] for label in raters.labels if is_score(typed[label])]
    if name in raters.judges and any(_is_within(column, label) for label in scored):
        return False
    # Raters who use the same levels may well disagree.
    if any(column.distinct_numbers == twin.distinct_numbers for twin in twins):
        return False
    return not any(association(column, twin) for twin in twins)


def _may_be_rater(name: str, typed: Mapping[str, TypedColumn], raters: Raters) -> bool:
    """Return whether an unused column may have verdicts: a few levels, a name that does
    not say otherwise, and values that do not follow from those of a rater.
    """
    column = typed[name]
    if not column.may_be_verdict or not 1 < len(column.words) <= MOST_CLASSES:
        return False
    if names_no_verdict(name):
        return False
    if raters.unused.get(name, "").startswith(_DERIVED):
        return False
    # A judge's own word and score follow from each other.
    return not any(are_derived(column, typed[rater]) for rater in raters.names)


def _related(
    names: Sequence[str], raters: Iterable[str], typed: Mapping[str, TypedColumn]
) -> list[str]:
    """Return the columns that go together with a rater, the closest first."""
    strengths = {
        name: max(_strength(typed[name], typed[rater]) for rater in raters)
        for name in names
    }
    related = [name for name in names if strengths[name] > 0]
    return sorted(related, key=lambda name: -strengths[name])


def closest(
    names: Sequence[str], raters: Iterable[str], typed: Mapping[str, TypedColumn]
) -> list[str]:
    """Return the columns that go together with a rater, the closest first, and those with
    the same words; all columns if there are none.
    """
    judges = [*raters]
    related = _related(names, judges, typed)
    alike = [
        name
        for name in names
        if name not in related
        and any(same_words(typed[name], typed[judge]) for judge in judges)
    ]
    return [*related, *alike] or [*names]


def _strength(column: TypedColumn, rater: TypedColumn) -> float:
    """Return how closely a column goes together with a rater; 0 if not clearly so."""
    value = association(column, rater)
    directed = has_known_direction(column) and has_known_direction(rater)
    if directed and is_score(column) == is_score(rater):
        is_within = not is_score(column) or _is_within(column, rater)
        return value if value >= _CLEAR and is_within else 0.0
    # Two unknown words go together in either direction.
    value = value if directed else abs(value)
    return value if value >= _VERY_CLEAR else 0.0


def _is_within(column: TypedColumn, rater: TypedColumn) -> bool:
    """Return whether numbers are within the scale of a rater."""
    numbers = column.distinct_numbers
    scale = rater.distinct_numbers
    return scale[0] <= numbers[0] and numbers[-1] <= scale[-1]


def _go_together(
    judges: Iterable[str], labels: Iterable[str], typed: Mapping[str, TypedColumn]
) -> bool:
    labeled = [*labels]
    return any(
        association(typed[judge], typed[label]) for judge in judges for label in labeled
    )


def _ask_for_better(
    likely: Sequence[str], typed: Mapping[str, TypedColumn], raters: Raters, where: str
) -> None:
    """Ask whether an unused column is the label, or the judge, that goes together with
    the other side, if no judge does with a label.

    Raises:
        OpenTableError: If so.
    """
    judges = list(raters.judges)
    labels = list(raters.labels)
    better_labels = _related(likely, judges, typed)
    better_judges = _related(likely, labels, typed)
    answers = [
        Answer(f"'{name}' is the label", _options(judges, [name]))
        for name in better_labels[:MOST_ANSWERS]
    ]
    answers += [
        Answer(f"'{name}' is the judge", _options([name], labels))
        for name in better_judges[:MOST_ANSWERS]
    ]
    if not answers:
        return
    answers.append(Answer("as it was read", _options(judges, labels)))
    judge = f"'{judges[0]}'"
    label = f"'{labels[0]}'"
    better = dict.fromkeys((*better_labels, *better_judges))
    columns = ", ".join(f"'{name}'" for name in better)
    problem = (
        f"the judge {judge} and the label {label} have nothing to do with each other, and"
        f" {columns} goes together with one of them: which columns are they?"
    )
    raise OpenTableError(problem, where, answers)


def _options(judges: Iterable[str], labels: Iterable[str]) -> tuple[str, ...]:
    judged = named_options("--judge", judges)
    labeled = [word for name in [*labels] or [NO_LABELS] for word in ("--label", name)]
    return (*judged, *labeled)
