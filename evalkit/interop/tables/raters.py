"""Which columns are judges and which are labels; every other column that could be one
is a question or is listed.

A rater is a column whose name says so, or whose values judge as those of a named rater do. A
judge's own word and its own score are one judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from evalkit.interop.tables.aggregates import (
    find_sums,
    has_numbered_twin,
    is_aggregate,
    is_resolved,
    shares_path,
)
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import (
    NO_LABELS,
    PATH,
    Choices,
    strength,
    strength_of_column,
)
from evalkit.interop.tables.label_versions import check_labels
from evalkit.interop.tables.likely_raters import (
    answers_a_form,
    answers_the_same,
    approves,
    comparable,
    has_the_scores,
    has_the_words,
    is_alike,
    is_comparable,
    is_form,
    is_question,
    is_score,
    is_true_class,
    judges_like,
    names_one_person,
    same_words,
    tells_a_fault,
    verdict_like,
)
from evalkit.interop.tables.other_readings import closest
from evalkit.interop.tables.questions import (
    Answer,
    OpenTableError,
    named_options,
)
from evalkit.interop.tables.rater_columns import (
    candidates,
    has_twin,
    is_of_one_judge,
    may_be_names,
)
from evalkit.interop.tables.rater_criteria import (
    HUMAN,
    MACHINE,
    are_of_one_source,
    ask_for_criteria,
    ask_for_judge_by_criterion,
    ask_whose_criteria,
    check_criteria,
    chosen_stack,
    rest_of,
    without_siblings,
)
from evalkit.interop.tables.rater_forms import (
    drop_copies,
    drop_ids_of_raters,
    drop_other_words,
    drop_scores_of_judges,
    keep_one_form,
)
from evalkit.interop.tables.rater_questions import (
    MOST_ANSWERS,
    as_judge_and_label,
    ask_for_annotators,
    ask_for_label,
    ask_for_roles,
    check_dates,
    check_failed,
    check_label_and_score,
    check_lists,
    check_runs,
    check_verdicts,
    nobody_judges,
    refuse_without_judge,
)
from evalkit.interop.tables.rater_roles import MAY_BE_VERDICT, Raters
from evalkit.interop.tables.stacked import ALL_CRITERIA
from evalkit.interop.tables.words import (
    begins,
    fold,
    is_model,
    matches,
    root,
    tokens,
    word_group,
)

_VOTES: Final = word_group("vote")
_FEWEST_SUMMED: Final = 3
"""The fewest labels of which one may sum up the others."""
_PAIR: Final = 2


def find_raters(
    typed: Mapping[str, TypedColumn],
    taken: Iterable[str],
    choices: Choices,
    where: str,
    raters: Raters,
) -> None:
    """Find the judges and the labels, and add them to `raters`.

    Raises:
        OpenTableError: If the names and values leave them open.
        DatasetError: If no column can be a judge.
    """
    # The columns that no other role needs and whose values can be verdicts.
    names = candidates(typed, taken, choices)
    raters.judges = dict.fromkeys(choices.judges, "set by --judge")
    raters.labels = dict.fromkeys(choices.labels, "set by --label")
    # `--key CRITERION` with columns that the user named, as a question prints it.
    by_criterion = ALL_CRITERIA in choices.keys and ALL_CRITERIA not in typed
    if by_criterion and choices.judges and choices.unlabeled:
        raters.set_criteria(choices.judges)
        return
    if by_criterion and choices.judges:
        raters.stack = chosen_stack(raters, typed, where)
        return
    # `only`: the judges and labels are exactly those that the user named.
    if choices.only:
        return
    # `--label NONE`: no column becomes a label.
    if choices.unlabeled:
        choices = replace(choices, labels=(NO_LABELS,))
    free = [name for name in names if name not in raters.judges | raters.labels]
    _assign(free, typed, raters, choices, where)
    if choices.answers:
        # Only people judged: no column is a judge's.
        raters.judges = {}
        return
    # What the names leave open, the values decide.
    unknown = [
        name
        for name in free
        if name not in raters.judges
        and name not in raters.labels
        and name not in raters.criteria
        and name not in raters.unused
    ]
    _assign_unknown(unknown, typed, raters, choices, {*taken}, where)
    if not raters.judges:
        _explain_no_judge(typed, names, raters, taken, where)
    if not raters.labels and not choices.labels:
        check_dates(typed, where)
    # One rater's word and score are one label: the form of the judges' verdicts is kept.
    if not choices.labels:
        drop_ids_of_raters(typed, raters)
        keep_one_form(typed, raters)
        if not choices.judges:
            drop_other_words(typed, raters)
            drop_scores_of_judges(typed, raters)
        check_labels(raters, typed, where)
    if not raters.labels and not choices.labels and not choices.judges:
        check_lists(typed, raters.judges, where)
    check_criteria(raters, typed, choices, where)
    drop_copies(typed, raters, {*taken, *choices.keys})
    if by_criterion and raters.stack is None:
        raters.stack = chosen_stack(raters, typed, where)


def _assign(
    names: Sequence[str],
    typed: Mapping[str, TypedColumn],
    raters: Raters,
    choices: Choices,
    where: str,
) -> None:
    """Assign columns whose names say whose verdicts they have."""
    # By role: (how clearly the name says so, the name).
    by_role: dict[str, list[tuple[int, str]]] = {"judge": [], "label": []}
    weak: list[str] = []
    # Clearness: 4 and 3 name a rater, 2 is a general word, 1 a weak one, 0 none.
    for name in names:
        role, clear = strength_of_column(typed[name])
        if names_one_person(typed[name]):
            raters.unused[name] = "has one word in all rows"
        elif clear > 1:
            by_role[role].append((clear, name))
        elif clear == 1 or has_twin(name, typed) or is_true_class(name, names):
            weak.append(name)
    humans = [name for clear, name in by_role["label"] if clear > 2]
    plain = [name for clear, name in by_role["label"] if clear == 2]
    if humans and plain:
        # next to people's labels, a column `label` is a tool's own word
        plain = [name for name in plain if not is_aggregate(name)]
        by_role["label"] = [pair for pair in by_role["label"] if pair[1] not in plain]
        weak += plain
    machines = [name for _, name in by_role["judge"]]
    if not choices.judges:
        raters.judges |= dict.fromkeys(machines, "name")
    if not choices.labels:
        raters.labels |= dict.fromkeys([name for _, name in by_role["label"]], "name")
    # A user who names a judge names all: columns of the same role are listed as unused.
    for role in ("judge", "label"):
        chosen = choices.judges if role == "judge" else choices.labels
        if chosen:
            for _, name in by_role[role]:
                raters.unused[name] = f"not named by --{role}"
    _drop_aggregates(typed, raters, choices)
    # Weak names are settled by the clear ones: `tone` next to `human_tone`.
    weak = [name for name in weak if name not in raters.unused]
    _pair_by_base(weak, raters, choices)
    _one_of_each(typed, raters)
    if not choices.judges and not choices.labels:
        check_verdicts(raters, typed, where)
    undecided = [
        name for name in weak if name not in raters.judges and name not in raters.labels
    ]
    # Without any clear judge, weak names may be the verdicts of the only one.
    if undecided and not raters.judges:
        _weak_judges(undecided, names, typed, raters, where)
    if not choices.judges and not choices.labels:
        check_label_and_score(raters.judges, raters.labels, where)
    if not choices.judges:
        check_runs(raters.judges, raters.labels, where)
    # What is still open stays visible as a possible verdict.
    for name in undecided:
        if name not in raters.judges and name not in raters.criteria:
            raters.unused.setdefault(name, MAY_BE_VERDICT)


def _drop_sums(
    typed: Mapping[str, TypedColumn], raters: Raters, group: Sequence[str]
) -> None:
    """Drop the columns that sum up a group of raters."""
    # Outside the group, a column with the clear name of a rater is not a sum, unless
    # its name says so.
    summed = {
        name
        for name, column in typed.items()
        if column.may_be_verdict
        and (name in group or strength(name)[1] < 3 or is_aggregate(name))
        and not (
            len(group) <= _FEWEST_SUMMED
            and name in raters.labels
            and is_resolved(name, typed)
            and not shares_path(name, group)
        )
    }
    sums = find_sums(summed, group, typed)
    # Numbered raters who agree have the majority's words, too, and are no sums.
    plain = [name for name in sums if not has_numbered_twin(name, group)]
    if len(sums) > 1:
        sums = plain or sums[-1:]
    for name in sums:
        raters.judges.pop(name, None)
        raters.labels.pop(name, None)
        raters.unused[name] = (
            f"sums up {', '.join(rater for rater in group if rater != name)}"
        )


def _drop_aggregates(
    typed: Mapping[str, TypedColumn], raters: Raters, choices: Choices
) -> None:
    """Drop the majority of raters who have columns themselves."""
    if not choices.judges and not choices.labels:
        for group in (raters.judges, raters.labels):
            _drop_sums(typed, raters, list(group))
    if choices.labels or len(raters.labels) < _FEWEST_SUMMED:
        return
    # An adjudicated label replaces those from which it was resolved.
    resolved = [name for name in raters.labels if is_resolved(name, typed)]
    if len(resolved) == 1:
        for name in list(raters.labels):
            if name not in resolved:
                del raters.labels[name]
                raters.unused[name] = (
                    f"an annotator whose labels are resolved in '{resolved[0]}'"
                )
        return
    # A majority of annotators is not one more annotator: it would count their labels twice.
    for name in list(raters.labels):
        if is_aggregate(name) and len(raters.labels) > _FEWEST_SUMMED:
            del raters.labels[name]
            raters.unused[name] = "sums up the annotators"


def _pair_by_base(weak: Sequence[str], raters: Raters, choices: Choices) -> None:
    """Assign `tone` next to `human_tone` to the judge, and next to `judge_tone` to the labels."""
    # The words of the name that name no rater, such as `tone`.
    humans = {
        _roots(rest_of(name, HUMAN)) for name in raters.labels if strength(name)[1] > 2
    }
    machines = {_roots(rest_of(name, MACHINE)) for name in raters.judges}
    for name in weak:
        base_name = _roots(rest_of(name, ()))
        # The judge takes the bare name only if no judge has it already.
        if base_name in humans and not choices.judges and base_name not in machines:
            raters.judges[name] = "the same name as the label"
        elif choices.labels or humans:
            continue
        elif (
            (base_name and base_name in machines)
            or (base_name and is_of_one_judge(name, [*raters.judges]))
            or _is_vote(name, raters.judges)
            or _is_judged(base_name, [*raters.judges])
            or is_true_class(name, raters.judges)
        ):
            raters.labels[name] = "the same name as the judge"


def _roots(words: Iterable[str]) -> tuple[str, ...]:
    """Return words without the endings of criteria: `toxic` is labeled, and `toxicity` scored."""
    return tuple(map(root, words))


def _is_judged(words: Sequence[str], judges: Sequence[str]) -> bool:
    """Return whether the only judge's column is named after a model, and then after a criterion."""
    # Several judges' columns may be criteria, whose columns without a name are asked about.
    if len(judges) != 1 or not is_model(judges[0]):
        return False
    # The name of a model may have any words: `claude-3-5-sonnet_toxicity`.
    judged = _roots(base(judges[0]))
    if not 0 < len(words) < len(judged):
        return False
    return judged[-len(words) :] == (*words,)


def _is_vote(name: str, judges: Iterable[str]) -> bool:
    """Return whether a column of winners has the name of a judge's column without the judge."""
    if not _VOTES.intersection(tokens(name)):
        return False
    # (words of a judge's name without the judge): `gpt4_winner` and `winner`.
    plain = {
        tuple(part for part in tokens(judge) if not matches(part, "judge"))
        for judge in judges
    }
    return tokens(name) in plain


def base(name: str) -> tuple[str, ...]:
    """Return the words of a name that say who judged what, without the form of the verdict."""
    return tuple(part for part in tokens(name) if not matches(part, "part"))


def _one_of_each(typed: Mapping[str, TypedColumn], raters: Raters) -> None:
    """Keep one column of each rater that has a word and a score: the one of the type of
    the labels.
    """
    for group, opposite in (
        (raters.labels, raters.judges),
        (raters.judges, raters.labels),
    ):
        # Columns of one rater by base name: the score and the word of `gpt4`.
        by_base: dict[tuple[str, ...], list[str]] = {}
        for name in group:
            by_base.setdefault(base(name), []).append(name)
        for names in by_base.values():
            # The user's choice wins.
            if len(names) < 2 or any(group[name].startswith("set") for name in names):
                continue
            _keep_one(names, typed, list(opposite), group, raters)


def _keep_one(
    names: Sequence[str],
    typed: Mapping[str, TypedColumn],
    opposite: Sequence[str],
    group: dict[str, str],
    raters: Raters,
) -> None:
    """Keep one of several columns of one rater, if they are its word and its score, or
    say the same.
    """
    forms = {_form(typed[name]) for name in names}
    # Columns of one form that differ are two verdicts, such as two criteria, and both stay.
    if len(forms) < 2 and not _say_the_same([typed[name] for name in names]):
        return
    kept = _preferred(names, typed, [typed[name] for name in opposite])
    for name in names:
        if name != kept:
            group.pop(name, None)
            raters.unused[name] = f"of the same rater as '{kept}'"


def _form(column: TypedColumn) -> str:
    # A text next to the verdict that was read from it.
    if column.kind == "stated":
        return "text"
    return "number" if is_score(column) else "word"


def _say_the_same(columns: Sequence[TypedColumn]) -> bool:
    """Return whether columns determine each other: each value of one goes with one
    value of the next.
    """
    # Both ways: as many pairs of texts as texts in each column means one to one.
    first, *further_columns = columns
    for column in further_columns:
        pairs = {
            pair
            for pair in zip(first.texts, column.texts, strict=True)
            if None not in pair
        }
        first_texts = {first_text for first_text, _ in pairs}
        second_texts = {second_text for _, second_text in pairs}
        if not len(pairs) == len(first_texts) == len(second_texts):
            return False
    return True


def _preferred(
    names: Sequence[str],
    typed: Mapping[str, TypedColumn],
    opposite: Sequence[TypedColumn],
) -> str:
    """Return the column that is most like those of the other raters: the same words, or
    else the same form.
    """

    def likeness(name: str) -> tuple[bool, bool, bool, bool]:
        column = typed[name]
        words = {fold(word) for word in column.words}
        shared = any(words & {fold(word) for word in rater.words} for rater in opposite)
        alike = any(is_score(column) == is_score(rater) for rater in opposite)
        # Compared in this order: shared words, then the same form, then words before numbers.
        form = _form(column)
        return form != "text", shared and alike, alike, form == "word"

    return max(names, key=likeness)


def _weak_judges(
    names: Sequence[str],
    free: Sequence[str],
    typed: Mapping[str, TypedColumn],
    raters: Raters,
    where: str,
) -> None:
    """Read verdicts without a rater's name as those of one judge, unless others are `free`."""
    labeled = [typed[name] for name in raters.labels]
    # What a verdict should be is not the judge's.
    names = [name for name in names if not matches(name, "wanted")]
    # Numbers cannot be compared with words other than flags.
    if labeled and not any(
        column.is_numeric or column.flags or column.order for column in labeled
    ):
        names = [name for name in names if not is_score(typed[name])]
    by_base: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        # Names without the words of verdicts and scores; () is a bare `score` or `label`.
        by_base.setdefault(rest_of(name, ("value", "label")), []).append(name)
    bare = by_base.get((), [])
    # Scores of several names are criteria of one judge, if there is nothing to compare.
    if not bare and len(by_base) > 1:
        scored = all(is_score(typed[name]) for name in names)
        # Two scores of other names may be those of two raters, as `da_score` and `xx_score`.
        about_criteria = len(names) > _PAIR or any(
            begins(name, "criteria") for name in names
        )
        one_source = are_of_one_source(names)
        if not raters.labels and scored and about_criteria and one_source:
            ask_whose_criteria(names, free, typed, where)
            raters.set_criteria(names)
        return
    columns = bare or names
    # `final_answer_correct` next to numbers says something about the answer that nobody judged.
    if not bare and labeled and all(map(is_score, labeled)):
        columns = [name for name in columns if is_score(typed[name])]
    group = dict.fromkeys(columns, "the only verdicts")
    if len(columns) > 1:
        _keep_one(columns, typed, list(raters.labels), group, raters)
    if len(group) == 1:
        raters.judges |= group


def _assign_unknown(
    unknown: Sequence[str],
    typed: Mapping[str, TypedColumn],
    raters: Raters,
    choices: Choices,
    taken: set[str],
    where: str,
) -> None:
    """Assign columns whose values judge as those of a named rater do, and ask where two
    readings differ.
    """
    judging = [name for name in unknown if judges_like(name, typed, raters)]
    # Only a judge: labels are searched among all columns, not only the unknown ones.
    if raters.judges and not raters.labels and not choices.labels:
        judging += [name for name in raters.unused if is_alike(name, typed, raters)]
        judging += [name for name in unknown if has_the_scores(name, typed, raters)]
        weak = [*unknown, *raters.unused]
        judging += [name for name in weak if answers_the_same(name, typed, raters)]
        judging += [name for name in weak if answers_a_form(name, typed, raters)]
        judging += [name for name in typed if tells_a_fault(name, typed, raters)]
        judging += [name for name in typed if approves(name, typed, raters)]
        judging += [name for name in typed if has_the_words(name, typed, raters)]
        judging = [name for name in judging if name not in taken]
    # A column may be in several lists; the first position counts.
    judging = list(dict.fromkeys(judging))
    # One word in all rows says nothing next to columns that differ.
    judging = [name for name in judging if len(typed[name].words) > 1] or judging
    for name in unknown:
        if name not in judging:
            raters.unused.setdefault(name, MAY_BE_VERDICT)
    texts = [name for name in unknown if typed[name].kind == "stated"]
    weak_judges = [name for name in raters.judges if strength(name)[1] < 2]
    unnamed = (
        bool(weak_judges) and [*raters.judges] == weak_judges and not raters.labels
    )
    # Nothing names the judge, and texts state verdicts, too.
    if texts and unnamed and not (judging or choices.judges or choices.labels):
        ask_for_roles([*weak_judges, *texts], where)
    # Both are clear: a column that judges alike is listed, and not added in silence.
    if raters.judges and raters.labels:
        if not choices.labels and not choices.judges:
            judging = _without_annotators(judging, typed, raters, where)
        for name in judging:
            raters.unused[name] = "values like those of a rater"
        return
    # Only labels: one column that judges like them is the judge; of several, the user picks.
    if raters.labels and not raters.judges:
        options = judging or [
            name for name, why in raters.unused.items() if why == MAY_BE_VERDICT
        ]
        options = [name for name in options if is_comparable(name, typed, raters)]
        options = without_siblings(options, raters.labels)
        if len(judging) == 1:
            raters.judges[judging[0]] = "values like those of the label"
            return
        if options and not choices.judges:
            _ask_for_judge(options, typed, raters, where)
        return
    if raters.judges and not raters.labels:
        if not choices.labels and not choices.judges:
            rest = [name for name in typed if name not in {*taken, *raters.judges}]
            if not judging:
                rest = [n for n in rest if raters.unused.get(n) == MAY_BE_VERDICT]
            ask_for_criteria(list(raters.judges), rest, where)
        if len(judging) == 1 and is_form(typed) and is_question(judging[0]):
            raters.labels[judging[0]] = "the question of a form"
            raters.unused.pop(judging[0], None)
            return
        if judging and not choices.labels:
            likely = closest(judging, raters.judges, typed)
            ask_for_label(likely, list(raters.judges), where)
        return
    ask_for_roles(judging or comparable(verdict_like(unknown, typed), typed), where)


def _ask_for_judge(
    options: Sequence[str],
    typed: Mapping[str, TypedColumn],
    raters: Raters,
    where: str,
) -> None:
    """Ask which columns are judges, if labels are named.

    Raises:
        OpenTableError: Always.
    """
    check_failed(typed, where)
    # The majority of columns that may be judges is no label.
    summing = [name for name in raters.labels if is_aggregate(name)]
    sums = find_sums(summing, options, typed)
    labels = [name for name in raters.labels if name not in sums] or [*raters.labels]
    ask_for_judge_by_criterion(labels, options, where)
    labeled = named_options("--label", labels)
    answers = [
        Answer(f"'{name}' is the judge", ("--judge", name, *labeled))
        for name in options[:MOST_ANSWERS]
    ]
    first, *others = [typed[name] for name in options]
    if others and all(same_words(first, other) for other in others):
        judged = named_options("--judge", options)
        answers.insert(0, Answer("all are judges", (*judged, *labeled)))
    answers += nobody_judges(labels)
    columns = ", ".join(f"'{name}'" for name in options)
    named = ", ".join(f"'{name}'" for name in labels)
    problem = (
        f"has labels ({named}), and no column is named as a judge: is it {columns}?"
    )
    raise OpenTableError(problem, where, answers)


def _without_annotators(
    names: Sequence[str], typed: Mapping[str, TypedColumn], raters: Raters, where: str
) -> list[str]:
    """Return columns without those of more annotators, next to labels in columns that
    are only named after persons.

    Raises:
        OpenTableError: If a column may be one.
    """
    # Labels in columns named after persons: another column may be one more annotator.
    people = [name for name in raters.labels if not matches(name, "human")]
    if len(people) < len(raters.labels):
        return list(names)
    # Columns with a common path, such as `votes.anna` and `votes.tom`, are of one group.
    heads = {PATH.split(name)[0] for name in people if PATH.search(name)}
    siblings = [
        name for name in names if PATH.search(name) and PATH.split(name)[0] in heads
    ]
    raters.labels |= dict.fromkeys(siblings, "next to the labels of people")
    columns_left = [name for name in names if name not in siblings]
    # A name that says nothing, but values in the words of the annotators: ask.
    likely = [
        name
        for name in columns_left
        if strength(name)[1] == 0 and same_words(typed[name], typed[people[0]])
    ]
    if likely:
        ask_for_annotators(likely, list(raters.judges), people, where)
    return columns_left


def _explain_no_judge(
    typed: Mapping[str, TypedColumn],
    names: Sequence[str],
    raters: Raters,
    taken: Iterable[str],
    where: str,
) -> None:
    """Ask which column is the judge's, or report that none can be.

    Raises:
        OpenTableError: If some can be.
        DatasetError: If none can be.
    """
    check_dates(typed, where)
    # A single column is the judge if its name hints at it, or it has words: a lone
    # number may be anything.
    clear = names and (strength(names[0])[1] or not typed[names[0]].is_numeric)
    if not raters.labels and len(names) == 1 and clear:
        raters.judges[names[0]] = "the only verdicts"
        raters.unused.pop(names[0], None)
        return
    # Only labels remain, so the question is who gave them.
    if not names or {*names} <= {*raters.labels}:
        ask_for_roles(list(raters.labels), where)
    used = {*taken, *raters.labels}
    names = [*names, *(name for name in typed if may_be_names(name, typed))]
    # A comment or a critique may end with a verdict.
    names += [
        name
        for name, column in typed.items()
        if column.kind == "stated" and name not in names
    ]
    # Computed columns, such as a BLEU score, are offered, but never taken as judges.
    computed = [
        name
        for name, column in typed.items()
        if matches(name, "computed") and column.is_numeric and name not in used
    ]
    # Numbers named after a model and its doubt, such as a confidence.
    unsure = [
        name
        for name, column in typed.items()
        if strength(name) in (("judge", 3), ("judge", 4))
        and matches(name, "doubt")
        and column.is_numeric
        and raters.labels
        and name not in {*used, *names}
    ]
    options = [name for name in names if name not in used] + computed + unsure
    varied = [name for name in options if len(typed[name].words) > 1]
    # One value in all rows is no verdict where labels differ, or other columns do.
    if not varied and any(len(typed[label].words) > 1 for label in raters.labels):
        options = []
        ask_for_roles(list(raters.labels), where)
    options = varied or options
    labels = named_options("--label", raters.labels)
    if options:
        answers = [
            Answer(f"'{name}' is the judge", ("--judge", name, *labels))
            for name in options[:MOST_ANSWERS]
        ]
        if not raters.labels and len(options) == _PAIR:
            answers = [*as_judge_and_label(options, typed), *answers]
        columns = ", ".join(f"'{name}'" for name in options)
        raise OpenTableError(
            f"no column is named as a judge: is it {columns}?", where, answers
        )
    refuse_without_judge(typed, raters, where)
