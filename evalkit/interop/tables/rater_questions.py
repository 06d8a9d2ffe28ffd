"""Questions about which columns are judges and which are labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn

from evalkit.core.errors import DatasetError
from evalkit.interop.layouts.rater_names import is_code
from evalkit.interop.tables.aggregates import is_aggregate
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import NO_JUDGES, says_agreement, strength
from evalkit.interop.tables.likely_raters import same_words
from evalkit.interop.tables.questions import (
    Answer,
    NoJudgeError,
    OpenTableError,
    UnreadColumnsError,
    named_options,
)
from evalkit.interop.tables.rater_levels import EMPTY_CELL
from evalkit.interop.tables.rater_roles import Raters
from evalkit.interop.tables.repeated_columns import are_all_runs, runs_of
from evalkit.interop.tables.stacked import ALL_RUNS
from evalkit.interop.tables.words import (
    FAILED,
    fold,
    is_model,
    matches,
    polarity,
    tokens,
    word_group,
)

_GRADERS: Final = word_group("grader")
"""Words for who judges, who may be a person."""
MOST_ANSWERS: Final = 6
"""The most columns that a question lists as answers."""
OF_PEOPLE: Final = ("label", 4)
"""The strength of a name that says that a person judged."""
_FAILED_CALLS: Final = word_group("failed_call")
_MOST_NAMED: Final = 8
"""The most columns that a refusal names."""
_RAW: Final = "raw"
_MARKS: Final = word_group("mark")
_MOST_RATERS: Final = 12
"""The most columns that differ only in their number and may be raters."""
_ONE_TOOL: Final = ((("score",), ("label",)), (("value",), ("label",)))
"""The last words of names of a judge's score and of its word, as tools write them."""
_NAMED_JUDGES: Final = (("judge", 3), ("judge", 4))
"""The strength of names that say that a judge judged."""
_ROWS: Final = 20
"""The fewest rows in which one word is no chance."""
_OFTEN: Final = 0.2
"""The share of empty cells from which a column of one mark may mean the opposite by them."""


def _drop_other_texts(
    plain: Sequence[str],
    named: Sequence[str],
    typed: Mapping[str, TypedColumn],
    raters: Raters,
) -> list[str]:
    """Drop columns of classes next to judges that give flags, such as `pred_sql` next to
    `judge_correct`, and return the others.
    """
    kept = []
    for name in plain:
        flags = [typed[judge].share(typed[judge].flags) == 1 for judge in named]
        is_text = typed[name].kind == "class" and not typed[name].flags
        if is_text and all(flags):
            del raters.judges[name]
            raters.unused[name] = "other words than those of a judge"
        else:
            kept.append(name)
    return kept


def check_verdicts(
    raters: Raters, typed: Mapping[str, TypedColumn], where: str
) -> None:
    """Ask whose a column is that is only named a verdict, next to another judge and without labels.

    Raises:
        OpenTableError: If there is one.
    """
    # A column `verdict` or `result` may be a person's next to `gpt_verdict`, and so may `grader`.
    plain = [
        name
        for name in raters.judges
        if strength(name)[1] == 2 or _GRADERS.intersection(tokens(name))
    ]
    named = [name for name in raters.judges if name not in plain]
    if named and not raters.labels:
        plain = _drop_other_texts(plain, named, typed, raters)
    if raters.labels or not plain or len(raters.judges) < 2:
        return
    if named:
        ask_for_label(plain, named, where)
    # pandas adds .1 to the name of a column that occurs twice.
    repeated = [name for name in plain if f"{name}.1" in plain]
    if repeated:
        ask_for_roles(plain, where)
    # Numbered columns such as verdict_1 and verdict_2 are of one kind.
    kinds = {
        tuple(part for part in tokens(name) if not part.isdigit()) for name in plain
    }
    if len(kinds) > 1:
        ask_for_roles(plain, where)


def ask_for_label(names: Sequence[str], judges: Sequence[str], where: str) -> None:
    """Ask whose verdicts columns have that are like those of judges.

    Raises:
        OpenTableError: Always.
    """
    column = names[0]
    judged = named_options("--judge", judges)
    answers = [
        Answer(f"'{name}' is the label", (*judged, "--label", name))
        for name in names[:MOST_ANSWERS]
    ]
    # Several columns like a judge's are most likely annotators, and a consensus is none of them.
    annotators = [name for name in names if not is_aggregate(name)]
    if len(annotators) > 1:
        labels = named_options("--label", annotators)
        answers.insert(
            0, Answer("all are labels, of several people", (*judged, *labels))
        )
    answers += [
        Answer(
            f"'{column}' is another judge",
            (*judged, "--judge", column, "--label", "NONE"),
        ),
        Answer("there are no labels", (*judged, "--label", "NONE")),
    ]
    columns = ", ".join(f"'{name}'" for name in names)
    subject = f"column {columns} has" if len(names) == 1 else f"columns {columns} have"
    problem = f"{subject} values like those of the judge '{judges[0]}': whose are they?"
    raise OpenTableError(problem, where, answers)


def ask_for_annotators(
    names: Sequence[str], judges: Sequence[str], people: Sequence[str], where: str
) -> None:
    """Ask whether columns have labels, too, like those of people that are named.

    Raises:
        OpenTableError: Always.
    """
    judged = named_options("--judge", judges)
    labeled = named_options("--label", people)
    added = named_options("--label", names)
    columns = ", ".join(f"'{name}'" for name in names)
    answers = [
        Answer("they are labels, too", (*judged, *labeled, *added)),
        Answer("they are not used", (*judged, *labeled)),
    ]
    problem = f"{columns} has values like the labels in '{people[0]}': is it of another annotator?"
    raise OpenTableError(problem, where, answers)


def check_agreement(
    judges: Iterable[str],
    labels: Iterable[str],
    typed: Mapping[str, TypedColumn],
    where: str,
) -> None:
    """Ask about a column that says whether someone agrees with a judge, if there are no labels.

    Raises:
        OpenTableError: If there is one.
    """
    judged = named_options("--judge", judges)
    if any(True for _ in labels) or not judged:
        return
    for name, column in typed.items():
        states_agreement = says_agreement(name) and (
            column.kind == "flag" or column.is_binary
        )
        if not states_agreement or matches(name, "computed"):
            continue
        answers = [
            Answer("yes, so there are no labels", (*judged, "--label", "NONE")),
            Answer("no, it has a person's own verdicts", (*judged, "--label", name)),
        ]
        problem = (
            f"'{name}' seems to tell where someone agrees with a verdict: does it? That is not a"
            " label, and a column with that person's own verdicts would be one"
        )
        raise OpenTableError(problem, where, answers)


def ask_for_roles(names: Sequence[str], where: str) -> None:
    """Ask which of several columns is the judge, unless all are named after people.

    Raises:
        OpenTableError: If there are several.
        DatasetError: If there are so many by number that they are cases.
    """
    # The text that a judge wrote is the source of its own verdict.
    names = [name for name in names if _RAW not in tokens(name)] or names
    if len(names) < 2:
        return
    # Votes of people alone: none of them is a judge's, and their answers can be judged.
    if all(strength(name) == OF_PEOPLE for name in names):
        return
    bases = {
        tuple(part for part in tokens(name) if not part.isdigit()) for name in names
    }
    if len(names) > _MOST_RATERS and len(bases) == 1:
        problem = (
            f"columns '{names[0]}' to '{names[-1]}' seem to be cases, and nothing says"
            " who judged"
        )
        remedy = "write a row for each case, with a column for the judge and one for the label"
        raise DatasetError(problem, where=where, remedy=remedy)
    first = names[0]
    last = names[-1]
    answers = [
        Answer(f"'{last}' is the judge", _options(names, last)),
        Answer(f"'{first}' is the judge", _options(names, first)),
    ]
    # Several verdicts without a label's name may be those of several judges.
    if all(strength(name)[0] == "judge" for name in names):
        judges = named_options("--judge", names)
        answers.append(
            Answer("all are judges', without labels", (*judges, "--label", "NONE"))
        )
    answers += nobody_judges(names)
    columns = ", ".join(f"'{name}'" for name in names)
    problem = f"the names and values of {columns} leave open which is the judge"
    raise OpenTableError(problem, where, answers)


def nobody_judges(names: Sequence[str]) -> list[Answer]:
    """Return the answer that columns are labels of people and no column is a judge's, if several
    columns may be.
    """
    people = [name for name in names if strength(name) not in _NAMED_JUDGES]
    if len(people) < 2:
        return []
    labels = named_options("--label", people)
    meaning = (
        "they are labels of people, and there is no judge: show how far they agree"
    )
    return [Answer(meaning, ("--judge", NO_JUDGES, *labels))]


def as_judge_and_label(
    options: Sequence[str], typed: Mapping[str, TypedColumn]
) -> list[Answer]:
    """Return an answer for each of two columns with the same words or scores: it is the
    judge, and the other the label.
    """
    first, second = options
    flags = [
        column.is_binary or column.kind == "flag"
        for column in map(typed.__getitem__, options)
    ]
    scores = [{*typed[name].distinct_numbers} for name in options]
    # The scores of one rater may be some of the other's.
    smaller, larger = sorted(scores, key=len)
    share_scores = len(smaller) > 2 and smaller <= larger
    alike = share_scores or same_words(typed[first], typed[second])
    if not all(flags) and not alike:
        return []
    return [
        Answer(
            f"'{judge}' is the judge, and '{label}' the label",
            ("--judge", judge, "--label", label),
        )
        for judge, label in ((first, second), (second, first))
    ]


def _options(names: Sequence[str], judge: str) -> tuple[str, ...]:
    labels = named_options("--label", [name for name in names if name != judge])
    return ("--judge", judge, *labels)


def check_runs(judges: Iterable[str], labels: Iterable[str], where: str) -> None:
    """Ask whether columns such as `judge_run1` and `judge_run2` are runs of one judge.

    Raises:
        OpenTableError: If there are such columns.
    """
    judged = list(judges)
    labeled = named_options("--label", labels) or ["--label", "NONE"]
    by_judge = runs_of(judged)
    runs = next(iter(by_judge.values()), ())
    if not runs:
        return
    other_judges = [name for name in judged if name not in runs]
    further_judges = named_options("--judge", other_judges)
    answers = []
    if are_all_runs(judged):
        answers.append(Answer("runs of one judge: all of them", ("--key", ALL_RUNS)))
    for name in runs[:MOST_ANSWERS]:
        options = ("--judge", name, *further_judges, *labeled)
        answers.append(Answer(f"runs of one judge: check '{name}'", options))
    every = named_options("--judge", judged)
    answers.append(Answer("different judges", (*every, *labeled)))
    columns = ", ".join(f"'{name}'" for name in runs)
    problem = f"{columns} may be runs of one judge: are they?"
    raise OpenTableError(problem, where, answers)


def check_label_and_score(
    judges: Iterable[str], labels: Iterable[str], where: str
) -> None:
    """Ask whether columns `label` and `score` are of a person and a judge, or both of one judge.

    Raises:
        OpenTableError: If no other name says who judged.
    """
    judged = list(judges)
    labeled = list(labels)
    if len(judged) != 1 or len(labeled) != 1:
        return
    judge = judged[0]
    label = labeled[0]
    # The last words of both names, and the rest, which must be equal.
    parts = tokens(judge)[-1:], tokens(label)[-1:]
    if parts not in _ONE_TOOL or tokens(judge)[:-1] != tokens(label)[:-1]:
        return
    answers = [
        Answer(f"'{label}' is a person's label", ("--judge", judge, "--label", label)),
        Answer("both are the judge's", ("--judge", label, "--label", "NONE")),
    ]
    problem = f"'{label}' and '{judge}' may be one judge's word and score: whose is '{label}'?"
    raise OpenTableError(problem, where, answers)


def check_lists(
    typed: Mapping[str, TypedColumn], judges: Iterable[str], where: str
) -> None:
    """Ask about a column that is named as labels and has lists, if there are no other labels.

    Raises:
        OpenTableError: If there is one.
    """
    judged = named_options("--judge", judges)
    for name, column in typed.items():
        if column.kind != "list" or not matches(tokens(name)[-1], "label"):
            continue
        problem = (
            f"'{name}' is named as labels and has lists, which are not one verdict: write them"
            " as a column with one word in each row, unless they are no labels"
        )
        answers = [Answer("there are no labels", (*judged, "--label", "NONE"))]
        raise OpenTableError(problem, where, answers)


def check_dates(typed: Mapping[str, TypedColumn], where: str) -> None:
    """Refuse a column of a rater that has dates, as spreadsheets make of 5/5.

    Raises:
        DatasetError: If there is one, whose name is about no time.
    """
    for name, column in typed.items():
        words = [part for part in tokens(name) if not matches(part, "value")]
        is_rater = all(
            is_model(part)
            or any(matches(part, group) for group in ("human", "label", "judge"))
            for part in words
        )
        if column.kind == "time" and words and is_rater:
            remedy = "write it again with its cells as text, as a spreadsheet made dates of them"
            if not any(matches(part, "judge") or is_model(part) for part in words):
                remedy += "; or leave it out: --label NONE"
            problem = f"column '{name}' has dates where verdicts were"
            raise DatasetError(problem, where=where, remedy=remedy)


def check_code(
    judges: Sequence[str],
    labels: Iterable[str],
    typed: Mapping[str, TypedColumn],
    where: str,
) -> None:
    """Ask whether scores are a judge's that another column says are of code.

    Raises:
        OpenTableError: If all rows have one metric that is code, such as Levenshtein.
    """
    if len(judges) != 1 or is_model(judges[0]) or matches(judges[0], "judge"):
        return
    [judge] = judges
    for name, column in typed.items():
        metrics = [*column.words]
        one_metric = matches(name, "criterion") and len(metrics) == 1
        if one_metric and is_code(metrics[0]):
            chosen = named_options("--label", labels)
            problem = f"'{judge}' has scores of {metrics[0]}, which is code: are they a judge's?"
            meaning = f"yes, check '{judge}'"
            answers = [Answer(meaning, ("--judge", judge, *chosen))]
            raise OpenTableError(problem, where, answers)


def check_constant(
    judges: Sequence[str],
    labels: Iterable[str],
    unused: Iterable[str],
    typed: Mapping[str, TypedColumn],
    where: str,
) -> None:
    """Ask whether a column with one word in all rows is the label, next to another that may be.

    Raises:
        OpenTableError: If so.
    """
    labeled = list(labels)
    if len(labeled) != 1 or len(judges) != 1:
        return
    label = labeled[0]
    judge = judges[0]
    words = {fold(word) for word in typed[label].words}
    if len(words) != 1 or typed[label].total < _ROWS:
        return
    # With a word of the judge's, all rows may well have this label.
    if words <= {fold(word) for word in typed[judge].words}:
        return
    options = [
        name
        for name in unused
        if len(typed[name].words) > 1
        and (
            typed[name].judges
            or typed[name].is_binary
            or {fold(word) for word in typed[name].words}
            == {fold(word) for word in typed[judge].words}
        )
    ]
    if not options:
        return
    answers = [
        Answer(f"'{name}' is the label", ("--judge", judge, "--label", name))
        for name in options[:MOST_ANSWERS]
    ]
    answers += [
        Answer(f"'{label}' is the label", ("--judge", judge, "--label", label)),
        Answer("there are no labels", ("--judge", judge, "--label", "NONE")),
    ]
    [word] = [*typed[label].words][:1]
    problem = f"'{label}' has '{word}' in all rows: is it the label?"
    raise OpenTableError(problem, where, answers)


def check_ids(
    judges: Sequence[str],
    labels: Iterable[str],
    unused: Iterable[str],
    typed: Mapping[str, TypedColumn],
    where: str,
) -> None:
    """Ask whether integers in a column named after raters are their labels or their ids.

    Raises:
        OpenTableError: If the judges give words.
    """
    if not judges or any(typed[judge].is_numeric for judge in judges):
        return
    for label in labels:
        column = typed[label]
        exact = len(tokens(label)) == 1 and matches(label, "rater")
        # 0 and 1 may be labels; other integers may be ids.
        whole = all(value.is_integer() for value in column.distinct_numbers)
        flags = column.distinct_numbers == [0.0, 1.0]
        if not (exact and column.is_numeric and whole) or flags:
            continue
        judge = judges[0]
        unused_judges = [name for name in unused if typed[name].judges]
        answers = [
            Answer(
                f"ids, and '{name}' is the label", ("--judge", judge, "--label", name)
            )
            for name in unused_judges[:MOST_ANSWERS]
        ]
        answers += [
            Answer("labels", ("--judge", judge, "--label", label)),
            Answer(
                "ids, and there are no labels", ("--judge", judge, "--label", "NONE")
            ),
        ]
        problem = f"'{label}' has integers: are they labels, or ids of annotators?"
        raise OpenTableError(problem, where, answers)


def ask_about_marks(
    raters: Mapping[str, TypedColumn], words: Mapping[str, str], where: str
) -> None:
    """Ask what an empty cell means in a column of one mark, such as `x`.

    Raises:
        OpenTableError: If a rater has such a column, and the user did not map the mark.
    """
    mapped = {fold(word) for word in words}
    for name, column in raters.items():
        if len(column.words) != 1:
            continue
        mark = next(iter(column.words))
        empty = sum(cell is None for cell in column.cells)
        # Few empty cells are missing verdicts, whatever the mark means.
        if fold(mark) in mapped or empty < _OFTEN * len(column.cells):
            continue
        meaning, opposite = _of_mark(mark, name, raters)
        if not opposite:
            continue
        marked = ("--map", f"{mark}={meaning}")
        if opposite == "fail":
            answer = "it fails"
        else:
            answer = f"it is '{opposite}'"
        answers = [
            Answer(answer, (*marked, "--map", f"{EMPTY_CELL}={opposite}")),
            Answer("it has no verdict", marked),
        ]
        problem = (
            f"'{name}' has '{mark}' in {column.total} cells and nothing in {empty}: what"
            " does an empty cell mean?"
        )
        raise OpenTableError(problem, where, answers)


def _of_mark(
    mark: str, name: str, raters: Mapping[str, TypedColumn]
) -> tuple[str, str]:
    """Return what the only word of a rater means and what its opposite is; nothing if
    that is not known.
    """
    if fold(mark) in _MARKS:
        return "pass", "fail"
    if all({*map(fold, column.words)} == {fold(mark)} for column in raters.values()):
        # Nobody has another word, so that it marks something.
        return "pass", "fail"
    levels = {
        fold(word): word
        for rater, column in raters.items()
        if rater != name
        for word in column.words
    }
    meanings, _ = polarity()
    # The other raters use two words, of which the mark is one.
    if fold(mark) in levels and len(levels) == 2:
        ((_, opposite),) = [pair for pair in levels.items() if pair[0] != fold(mark)]
        return mark, opposite
    meaning = meanings.get(fold(mark), "")
    return meaning, {"pass": "fail", "fail": "pass"}.get(meaning, "")


def check_failed(typed: Mapping[str, TypedColumn], where: str) -> None:
    """Refuse a table without a judge of which each row has an error, as a failed run has.

    Raises:
        DatasetError: If it is one.
    """
    for name, column in typed.items():
        if _FAILED_CALLS.isdisjoint(tokens(name)) or None in column.texts:
            continue
        if {*column.missing.values()} == {FAILED} and not column.words:
            problem = f"has an error in '{name}' in each row, and no judge's verdicts"
            remedy = "repeat the evaluation with the tool that wrote the file"
            raise DatasetError(problem, where=where, remedy=remedy)


def refuse_without_judge(
    typed: Mapping[str, TypedColumn], raters: Raters, where: str
) -> NoReturn:
    """Refuse a table of which no column can be a judge's.

    Raises:
        NoJudgeError: If it has labels or responses, which can be judged.
        UnreadColumnsError: If not.
    """
    columns = ", ".join(list(typed)[:_MOST_NAMED])
    name_it = f"--judge COLUMN; the columns are {columns}"
    labels = [*raters.labels, *raters.people]
    if labels:
        label = labels[0]
        problem = f"has labels or votes of people ('{label}') and no column with a judge's verdicts"
        if len(labels) > 1:
            name_it += f"; or, if there is none, --judge {NO_JUDGES}"
        raise NoJudgeError(problem, where, f"name the judge's column: {name_it}")
    problem = "has no column with a judge's verdicts"
    if any(matches(name, "response") for name in typed):
        raise NoJudgeError(problem, where, f"name the judge's column: {name_it}")
    raise UnreadColumnsError(problem, where=where, remedy=f"name it: {name_it}")
