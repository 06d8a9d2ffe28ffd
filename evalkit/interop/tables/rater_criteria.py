"""Judges and annotators by criterion, as `gpt_tone` and `human_tone`, and lists of
verdicts by position.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from evalkit.core.errors import DatasetError
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import PATH, Choices, strength
from evalkit.interop.tables.questions import Answer, OpenTableError, named_options
from evalkit.interop.tables.rater_questions import (
    MOST_ANSWERS,
    check_code,
    check_constant,
    check_ids,
)
from evalkit.interop.tables.rater_roles import Raters
from evalkit.interop.tables.stacked import (
    ALL_CRITERIA,
    Key,
    Stack,
    has_one_scale,
    stack_of,
)
from evalkit.interop.tables.words import (
    begins,
    is_model,
    matches,
    root,
    tokens,
    word_group,
)

HUMAN: Final = ("human", "label")
MACHINE: Final = ("judge", "verdict")
"""The groups of words by which a name says that a person, or a machine, judged."""
_OVERALL: Final = word_group("overall")
_GENERAL: Final = _OVERALL | word_group("quality")
"""Words for a verdict about everything, and for the quality of a response."""
_METRICS: Final = word_group("metric_of_tool")
"""Names of metrics that begin as criteria do, and say nothing about what is judged."""
_QUESTIONS: Final = word_group("question")
"""Words before the number of what a verdict is about, as in `q1`."""
_LONGEST_MARK: Final = 3
"""The longest mark of a rater in the name of a column, such as `h` or `llm`."""
_TWO: Final = ("judge", "label")
_POSITION: Final = re.compile(r"(.+)\.(\d+)")
"""The name of a column with one position of lists."""


def rest_of(name: str, groups: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a name without those that say who judged or in what form."""
    return tuple(
        part
        for part in tokens(name)
        if not matches(part, "part")
        and not any(matches(part, group) for group in groups)
    )


def check_criteria(
    raters: Raters,
    typed: Mapping[str, TypedColumn],
    choices: Choices,
    where: str,
) -> None:
    """Ask for one criterion if the columns are judges and annotators by criterion, such
    as gpt_tone and human_tone.

    Raises:
        OpenTableError: If so, with an answer for each criterion.
    """
    if choices.judges or choices.labels:
        return
    check_ids(list(raters.judges), raters.labels, raters.unused, typed, where)
    check_code(list(raters.judges), raters.labels, typed, where)
    check_constant(list(raters.judges), raters.labels, raters.unused, typed, where)
    _drop_other_criteria(raters)
    _check_same_criterion(raters, where)
    # {words of the criterion: columns}; () is a name without a criterion.
    judged = _by_criterion(raters.judges)
    labeled = _by_criterion(raters.labels)
    # Lists on both sides: a position may be that of a response or of a rater.
    positions = _by_position(raters.judges), _by_position(raters.labels)
    by_position = bool(positions[0]) and positions[0].keys() == positions[1].keys()
    if by_position:
        judged, labeled = positions
    if len(labeled) < 2:
        judged = _by_question(raters.judges)
        labeled = _by_question(raters.labels)
    # The name of a model may have words of its own, as `gpt-4o_tone` next to `human_tone`.
    if set(judged) != set(labeled):
        judged = _by_known_criteria(raters.judges, labeled)
    # Only the same criteria on both sides can be compared by criterion.
    if len(judged) < 2 or set(judged) != set(labeled) or () in judged:
        return
    stack = stack_of(judged, labeled, typed)
    # The same verdicts in a long table, with a column of criteria, are read so, too.
    # Figures of several scales together mean nothing.
    if stack is not None and not has_one_scale(stack, typed):
        stack = None
    is_clear = not by_position and all(map(_is_one_of_several, judged))
    if stack is not None and (is_clear or ALL_CRITERIA in choices.keys):
        raters.stack = stack
        return
    answers = []
    if stack is not None:
        answers.append(Answer("all, with a result for each", ("--key", ALL_CRITERIA)))
    for key, names in judged.items():
        judges = named_options("--judge", names)
        labels = [word for name in labeled[key] for word in ("--label", name)]
        answers.append(Answer(" ".join(key), (*judges, *labels)))
    if by_position:
        judges = named_options("--judge", raters.judges)
        labels = named_options("--label", raters.labels)
        answers.append(Answer("each is of another rater", (*judges, *labels)))
    criteria = ", ".join(" ".join(key) for key in judged)
    raise OpenTableError(
        f"has verdicts by criterion ({criteria}): which are to be checked?",
        where,
        answers,
    )


def chosen_stack(raters: Raters, typed: Mapping[str, TypedColumn], where: str) -> Stack:
    """Return how to stack the columns that the user named, for `--key CRITERION`.

    Raises:
        DatasetError: If they are not a column of each criterion for each rater.
    """
    stack = None
    judged = _by_criterion(raters.judges)
    labeled = _by_criterion(raters.labels)
    if set(judged) != set(labeled):
        judged = _by_other_words(raters.judges)
        labeled = _by_other_words(raters.labels)
    if set(judged) == set(labeled) and () not in judged:
        stack = stack_of(judged, labeled, typed)
    if stack is None:
        raise DatasetError(
            "has no column of each criterion for each rater that is named",
            where=where,
            remedy=f"leave out --key {ALL_CRITERIA}, or name columns such as gpt_tone, gpt_style,"
            " human_tone and human_style",
        )
    return stack


def ask_for_criteria(judges: Sequence[str], columns: Iterable[str], where: str) -> None:
    """Ask whose columns are that are named after the same criteria as a judge's, as
    `md_dose` next to `ai_dose`.

    Args:
        judges: The judges' columns.
        columns: Other columns.
        where: The table's name.

    Raises:
        OpenTableError: If a column of each criterion is there.
    """
    judged = _each_of_one_criterion(judges)
    by_criterion = _twins(judged, columns)
    if not by_criterion:
        return
    every_judge = named_options("--judge", judges)
    answers = _answers_by_criterion(judged, by_criterion, "they are labels: ")
    as_judges = [word for name in by_criterion.values() for word in ("--judge", name)]
    options = (*every_judge, *as_judges, "--label", "NONE")
    answers.append(Answer("they are another judge's", options))
    named = ", ".join(f"'{name}'" for name in by_criterion.values())
    problem = f"{named} are named after the criteria of '{judges[0]}': whose are they?"
    raise OpenTableError(problem, where, answers)


def ask_for_judge_by_criterion(
    labels: Sequence[str], columns: Iterable[str], where: str
) -> None:
    """Ask whether columns are a judge's that are named after the same criteria as labels.

    Args:
        labels: The columns of the labels.
        columns: Other columns.
        where: The table's name.

    Raises:
        OpenTableError: If a column of each criterion is there.
    """
    labeled = _each_of_one_criterion(labels)
    by_criterion = _twins(labeled, columns)
    if not by_criterion:
        return
    judges = {key: by_criterion[key] for key in labeled}
    answers = _answers_by_criterion(judges, labeled, "")
    listed = ", ".join(f"'{name}'" for name in labels)
    named = ", ".join(f"'{name}'" for name in judges.values())
    problem = (
        f"has labels ({listed}), and no column is named as a judge: is it {named}?"
    )
    raise OpenTableError(problem, where, answers)


def ask_whose_criteria(
    names: Sequence[str],
    free: Sequence[str],
    typed: Mapping[str, TypedColumn],
    where: str,
) -> None:
    """Ask whose scores are under one path that names nobody, such as `scores.tone` and
    `scores.style`, next to other scores.

    Args:
        names: The scores, which are of criteria.
        free: All columns that may have verdicts.
        typed: The columns.
        where: The table's name.

    Raises:
        OpenTableError: If they are, and another column may have the verdicts of another rater.
    """
    _ask_for_marked_raters(names, where)
    others = [
        name
        for name in free
        if name not in names
        and typed[name].is_numeric
        and len(typed[name].distinct_numbers) > 1
    ]
    if not others or len({_above(name) for name in names}) > 1 or not _above(names[0]):
        return
    judges = named_options("--judge", others)
    answers = [
        Answer(f"people's: '{name}' is the label", ("--label", name, *judges))
        for name in names[:MOST_ANSWERS]
    ]
    every_criterion = named_options("--judge", names)
    options = (*every_criterion, "--key", ALL_CRITERIA, "--label", "NONE")
    answers.append(Answer("a judge's, and there are no labels", options))
    listed = ", ".join(f"'{name}'" for name in names)
    problem = (
        f"{listed} are scores of one rater by criterion, and '{others[0]}' may be another's:"
        " whose are they?"
    )
    raise OpenTableError(problem, where, answers)


def _ask_for_marked_raters(names: Sequence[str], where: str) -> None:
    """Ask whether two marks such as `h` and `j` in the names of all criteria are two raters.

    Raises:
        OpenTableError: If each criterion has a column with each mark.
    """
    by_mark: dict[str, dict[Key, str]] = {}
    for name in names:
        words = tokens(name)
        for mark, criterion in ((words[-1], words[:-1]), (words[0], words[1:])):
            is_mark = len(mark) <= _LONGEST_MARK and mark.isalpha()
            if is_mark and criterion:
                by_mark.setdefault(mark, {})[criterion] = name
                break
    if len(by_mark) != len(_TWO) or sum(map(len, by_mark.values())) != len(names):
        return
    (first, first_names), (second, second_names) = by_mark.items()
    if len(first_names) < len(_TWO) or first_names.keys() != second_names.keys():
        return
    answers = []
    for judge, judged, labeled in (
        (first, first_names, second_names),
        (second, second_names, first_names),
    ):
        options = (
            *named_options("--judge", judged.values()),
            *named_options("--label", labeled.values()),
            *("--key", ALL_CRITERIA),
        )
        answers.append(
            Answer(f"'{judge}' is the judge, the other one the label", options)
        )
    options = (
        *named_options("--judge", names),
        "--key",
        ALL_CRITERIA,
        "--label",
        "NONE",
    )
    answers.append(
        Answer("all are criteria of one judge, and there are no labels", options)
    )
    problem = f"each criterion has a column with '{first}' and one with '{second}': who are they?"
    raise OpenTableError(problem, where, answers)


def without_siblings(names: Iterable[str], labels: Iterable[str]) -> list[str]:
    """Return columns without those under the same path as a label whose name names nobody,
    such as `scores.style` next to `scores.tone`: they are of the same rater.
    """
    unnamed = [label for label in labels if strength(label)[1] < 2]
    paths = {_above(label) for label in unnamed} - {""}
    return [name for name in names if _above(name) not in paths]


def are_of_one_source(names: Sequence[str]) -> bool:
    """Return whether columns may be of one rater: below one path, or parts of one name, as
    `tone.score` and `style.score`; `feedback.rating` and `metrics.tone` are of two.
    """
    paths = {_above(name) for name in names}
    last_parts = {PATH.split(name)[-1] for name in names}
    return len(paths) == 1 or "" in paths or len(last_parts) == 1


def _above(name: str) -> str:
    """Return the path of a column without its last part; empty if it has one part."""
    *above, _ = PATH.split(name)
    return ".".join(above)


def _each_of_one_criterion(names: Sequence[str]) -> dict[Key, str]:
    """Return columns by criterion; nothing if two have the same, or one has none."""
    columns = _by_other_words(names)
    if len(columns) < 2 or () in columns or len(columns) < len(names):
        return {}
    return {criterion: name for criterion, [name] in columns.items()}


def _twins(criteria: Iterable[Key], columns: Iterable[str]) -> dict[Key, str]:
    """Return another rater's column of each criterion; nothing if one is missing."""
    # {words besides the criterion: {criterion: column}}
    twins: dict[Key, dict[Key, str]] = {}
    listed = list(criteria)
    for name in columns:
        words = tokens(name)
        for criterion in listed:
            size = len(criterion)
            if words[-size:] == criterion:
                rater = words[:-size]
            elif words[:size] == criterion:
                rater = words[size:]
            else:
                continue
            twins.setdefault(rater, {})[criterion] = name
    # A column may have the name of a criterion alone; those of a named rater come first.
    whole = [
        by_criterion
        for _, by_criterion in sorted(twins.items(), key=lambda twin: not twin[0])
        if len(by_criterion) == len(listed)
    ]
    return whole[0] if whole else {}


def _answers_by_criterion(
    judges: Mapping[Key, str], labels: Mapping[Key, str], prefix: str
) -> list[Answer]:
    """Return an answer for all criteria together, and one for each."""
    every_judge = [word for name in judges.values() for word in ("--judge", name)]
    every_label = [word for name in labels.values() for word in ("--label", name)]
    text = f"{prefix}all criteria, with a result for each"
    answers = [Answer(text, (*every_judge, *every_label, "--key", ALL_CRITERIA))]
    for criterion, name in judges.items():
        text = f"{prefix}{' '.join(criterion)}"
        options = ("--judge", name, "--label", labels[criterion])
        answers.append(Answer(text, options))
    return answers


def _by_other_words(names: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
    """Return columns by the words that not all of them have, which are those of a criterion."""
    words = {name: tokens(name) for name in names}
    if not words:
        return {}
    common = set.intersection(*map(set, words.values()))
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, parts in words.items():
        rest = tuple(part for part in parts if part not in common)
        groups.setdefault(rest, []).append(name)
    return groups


def _drop_other_criteria(raters: Raters) -> None:
    """Drop judges of another criterion than all labels, as `gpt_coherence` next to
    `human_similarity`, if a judge of theirs is there.
    """
    labeled = {_topic(name) for name in raters.labels}
    judged = {name: _topic(name) for name in raters.judges}
    if len(labeled) != 1 or () in labeled or labeled.isdisjoint(judged.values()):
        return
    for name, topic in judged.items():
        names_criterion = any(begins(part, "criteria") for part in topic)
        if topic not in labeled and names_criterion:
            del raters.judges[name]
            raters.unused[name] = "about another criterion than the labels"


def _topic(name: str) -> Key:
    """Return the words of the last part of a name that do not say who judged."""
    words = rest_of(PATH.split(name)[-1], (*HUMAN, *MACHINE))
    return tuple(word for word in words if not is_model(word))


def _check_same_criterion(raters: Raters, where: str) -> None:
    """Ask whether a judge of one criterion can be compared with labels of another.

    Raises:
        OpenTableError: If names say that they are about different criteria.
    """
    for label in raters.labels:
        about = _criteria(label) or _overall(label)
        for judge in raters.judges:
            judged = _criteria(judge) or _overall(judge)
            if not about or not judged or _overlap(about, judged):
                continue
            if len(raters.judges) > 1 and len(raters.labels) > 1:
                continue
            if _is_opposite(about, judged) or about | judged <= _GENERAL:
                continue
            answers = [
                *_of_one_criterion(raters),
                Answer("yes, compare them", ("--judge", judge, "--label", label)),
                Answer(
                    f"no, '{judge}' has no labels",
                    ("--judge", judge, "--label", "NONE"),
                ),
            ]
            problem = (
                f"'{judge}' and '{label}' are named after different criteria: "
                "are they about the same?"
            )
            raise OpenTableError(problem, where, answers)


def _of_one_criterion(raters: Raters) -> list[Answer]:
    """Return an answer for each judge that has labels of its criterion."""
    answers = []
    for judge in raters.judges:
        judged = _criteria(judge) or _overall(judge)
        labels = [
            label
            for label in raters.labels
            if _overlap(_criteria(label) or _overall(label), judged)
        ]
        if labels:
            named = ", ".join(f"'{label}'" for label in labels)
            words = named_options("--label", labels)
            meaning = f"no, compare '{judge}' with {named}"
            answers.append(Answer(meaning, ("--judge", judge, *words)))
    return answers


def _criteria(name: str) -> set[str]:
    """Return the beginnings of the words of a name that are criteria."""
    return {
        part
        for part in tokens(name)
        if begins(part, "criteria") and part not in _METRICS
    }


def _overall(name: str) -> set[str]:
    """Return the word of a name that says that a verdict is about everything."""
    return {*_OVERALL.intersection(tokens(name))}


def _overlap(about: set[str], judged: set[str]) -> bool:
    """Return whether words of two names have a beginning in common."""
    # A beginning of five letters is common to `helpful` and `helpfulness`.
    beginnings = {root(stem)[:5] for stem in about}
    judged_beginnings = {root(stem)[:5] for stem in judged}
    return not beginnings.isdisjoint(judged_beginnings)


def _is_opposite(about: set[str], judged: set[str]) -> bool:
    """Return whether only one of two names is about a fault, which the words of the
    verdicts decide.
    """
    # `toxicity` and `safety` are one criterion in opposite directions.
    label_is_adverse = any(begins(part, "adverse") for part in about)
    judge_is_adverse = any(begins(part, "adverse") for part in judged)
    return label_is_adverse != judge_is_adverse


def _by_criterion(names: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        # Numbers and raters are no part of a criterion.
        words = tuple(
            word
            for word in rest_of(name, (*HUMAN, *MACHINE))
            if not word.isdigit() and strength(word)[1] < 2
        )
        groups.setdefault(words, []).append(name)
    return groups


def _by_question(names: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
    """Return columns by the number of what they are about, as `q1` in `q1_human`; nothing
    if one has none, or a number tells runs apart.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        words = tuple(
            word
            for word in rest_of(name, (*HUMAN, *MACHINE))
            if strength(word)[1] < 2 and not is_model(word)
        )
        numbers = [word for word in words if word.isdigit()]
        is_run = any(matches(word, "repeat") for word in words)
        if not numbers or len(numbers) == len(words) or is_run:
            return {}
        groups.setdefault(words, []).append(name)
    return groups


def _by_known_criteria(
    names: Iterable[str], criteria: Iterable[Key]
) -> dict[Key, list[str]]:
    """Return columns by the criterion with which their names begin or end; nothing if
    one has none, or no words besides it.
    """
    # Longer criteria first: `tone of voice` before `voice`.
    listed = sorted(criteria, key=len, reverse=True)
    columns: dict[Key, list[str]] = {criterion: [] for criterion in listed}
    for name in names:
        words = tokens(name)
        for criterion in listed:
            size = len(criterion)
            if not 0 < size < len(words):
                continue
            if criterion in (words[:size], words[-size:]):
                columns[criterion].append(name)
                break
        else:
            return {}
    return columns


def _is_one_of_several(criterion: Key) -> bool:
    """Return whether words name one criterion or question of several, and no verdict
    about everything and no run.
    """
    if not _OVERALL.isdisjoint(criterion):
        return False
    numbered = any(word.isdigit() for word in criterion)
    return not numbered or not _QUESTIONS.isdisjoint(criterion)


def _by_position(names: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
    """Return the columns of one list by position; nothing if there are others."""
    columns: dict[tuple[str, ...], list[str]] = {}
    lists = set()
    for name in names:
        position = _POSITION.fullmatch(name)
        if position is None:
            return {}
        lists.add(position[1])
        columns[(position[2],)] = [name]
    if len(columns) < 2 or len(lists) > 1:
        return {}
    return columns
