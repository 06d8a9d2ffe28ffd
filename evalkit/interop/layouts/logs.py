"""Read logs of evaluations: cases with scores by graders, of which some are judges and
some are people.

Columns of the metadata that are named after people are labels too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.values import JsonObject, frozen
from evalkit.interop.layouts.criteria import (
    JUDGE,
    PERSON,
    OpenCriterionError,
    assessment,
    differing_scales,
    grade_of,
    same_criterion,
)
from evalkit.interop.layouts.layouts import Field, log_cells, record_of
from evalkit.interop.layouts.rater_names import is_persons
from evalkit.interop.layouts.records import (
    NONE,
    Options,
    ParsedFile,
    Record,
    require_heard,
)

# Scores of these levels only are read as a scale in steps of one half.
_LEVELS: Final = {0.0, 0.5, 1.0}
_QUALITY: Final = "quality"
# The most different words of a column of labels; more are names or texts.
_MOST_WORDS: Final = 12
_LABEL: Final = "label."
_UNGRADED: Final = "N"
"""Inspect's word for no answer to grade."""


@frozen
class Part:
    """One score of a case in a log.

    Attributes:
        name: The criterion.
        score: The score; `None` if there is none, for the reason in `error`.
        grader: Who gave it: a model, or the name of code.
        is_judge: Whether that is a judge; code is one only if the user says so.
        reason: The grader's text.
        error: Why its answer has no score.
        failure: Why the grader gave no answer.
        description: The text of the criterion.
    """

    name: str
    score: float | None
    grader: str
    is_judge: bool = True
    reason: Any = None
    error: str = ""
    failure: str = ""
    description: str = ""


def read_log(
    path: Path,
    listed: Sequence[Any],
    fields: Mapping[str, Field],
    parts: Callable[[Any], Iterable[Part]],
    options: Options,
    unnamed: str = "",
    grades: Mapping[str, float] | None = None,
) -> ParsedFile:
    """Return a record for each case of a log and each judge of it.

    Its criteria are the judge's scores.

    Cases without a judge's score are omitted, unless they failed or `options.answers` asks for all
    answers. `options.judge` selects a grader, or names the only judge; the scores of
    `options.dimension`, or else of graders named after people, are labels.

    Args:
        path: The log.
        listed: Its cases.
        fields: The fields of a case, as in `log_cells`.
        parts: Returns the scores of a case.
        options: The user's options.
        unnamed: The judge of all scores if no grader is a judge.
        grades: The tool's own words for grades, which people may use too.

    Raises:
        DatasetError: If no grader is a judge and `unnamed` is not set.
        ConfigError: If there are several judges, and none has the name in `options.judge`, or no
            grader that in `options.dimension`, or if people grade several criteria.
    """
    cases = [case for case in listed if isinstance(case, dict)]
    # (cases,) the scores of each, by any grader.
    graded = [list(parts(case)) for case in cases]
    notes = []
    # A log without any judge can still be read: its scores are all those of `unnamed`.
    if unnamed and _has_no_judge(graded, options):
        notes.append("no grader is a model: all scores are read as those of one judge")
        graded = [
            [replace(part, grader=unnamed, is_judge=True) for part in case_parts]
            for case_parts in graded
        ]
    rows = [log_cells(case, fields) for case in cases]
    every = _all_parts(graded)
    graders = _graders(path, rows, every, options, grades or {})
    criterion = _criterion(path, every, graders.judges, graders.columns, options)
    if criterion is not None:
        graded = [
            [part for part in case_parts if _is_about(part, criterion, graders.judges)]
            for case_parts in graded
        ]
        every = _all_parts(graded)
        notes.append(f"compared on one of the judge's criteria: {criterion}")
    # {criterion: its text}, filled while the records are made.
    criteria: dict[str, str] = {}
    records: list[Record] = []
    unjudged = 0
    for index, case_parts in enumerate(graded):
        cells = _with_labels(rows[index], index, graders.columns)
        of_case = _records(case_parts, cells, graders, options, str(index), criteria)
        records += of_case
        if not of_case:
            unjudged += 1
    notes += _omissions(every, graders)
    if len(cases) < len(listed):
        omitted = len(listed) - len(cases)
        notes.append(f"cases that are not objects, omitted: {omitted} of {len(listed)}")
    if unjudged:
        notes.append(f"cases that no judge scored, omitted: {unjudged} of {len(cases)}")
    scores = [part.score for part in every if part.grader in graders.judges]
    present = [score for score in scores if score is not None]
    if len(present) < len(scores):
        missing = len(scores) - len(present)
        notes.append(f"scores of judges that are missing: {missing} of {len(scores)}")
    # A score is a mean over all criteria, so judges of different criteria do not compare.
    by_judge = _differing(records)
    if by_judge:
        records = [part for record in records for part in _split(record, by_judge)]
        notes.append(_split_note(by_judge))
        criteria = {}
    if graders.labels:
        notes.append(f"read as labels: {', '.join(graders.labels)}")
    scale = None
    rubric = {}
    differing = _differing_scales(present, graders.columns)
    if differing:
        # Differing scales can only be compared by rank, so grades are kept as numbers.
        rubric["real"] = True
        notes.append(differing)
    elif all(0 <= score <= 1 for score in present):
        # Scores from 0 to 1 have that scale; for others none is assumed.
        step = 0.5 if {*present} <= _LEVELS else 0.001
        scale = (0.0, 1.0, step)
    return ParsedFile(
        records, rubric=rubric, scale=scale, criteria=criteria, notes=tuple(notes)
    )


def _all_parts(graded: Iterable[Sequence[Part]]) -> list[Part]:
    return [part for case_parts in graded for part in case_parts]


def _has_no_judge(graded: Iterable[Sequence[Part]], options: Options) -> bool:
    """Return whether there are scores, and no grader of them is a judge or chosen as one."""
    every = _all_parts(graded)
    judged = any(part.is_judge or part.grader == options.judge for part in every)
    return bool(every) and not judged


@frozen
class _Graders:
    """Who gave the scores of a log.

    Attributes:
        judges: The name of each judge by its grader.
        people: The graders whose scores are labels.
        columns: The columns of the metadata with grades of people, by the index of the case.
    """

    judges: Mapping[str, str]
    people: Set[str | None]
    columns: Mapping[str, Mapping[int, float | None]]

    @property
    def labels(self) -> list[str]:
        """The names of the labels."""
        people = sorted(str(name) for name in self.people if name not in self.columns)
        return [*people, *self.columns]


def _graders(
    path: Path,
    rows: Sequence[JsonObject],
    parts: Sequence[Part],
    options: Options,
    grades: Mapping[str, float],
) -> _Graders:
    """Return who gave the scores; the arguments are those of `read_log`."""
    meanings = _meanings(path, rows, options)
    by_column = _grades_in_metadata(rows, grades, meanings)
    judges = _names_of_judges(path, parts, options, by_column)
    # The user's, or else those that are named after people.
    people = _people(parts, judges)
    if options.dimension:
        people = {options.dimension}
    names = _columns_of_people(path, rows, by_column, people, options)
    columns = {name: by_column[name] for name in names}
    return _Graders(judges, people, columns)


def _records(
    parts: Sequence[Part],
    cells: JsonObject,
    graders: _Graders,
    options: Options,
    identity: str,
    criteria: dict[str, str],
) -> list[Record]:
    """Return a record for each judge of a case; empty if no judge scored it.

    Args:
        parts: The scores of the case.
        cells: Its cells.
        graders: Who gave the scores.
        options: The user's options.
        identity: The id of the case, if it has none.
        criteria: {criterion: its text}, which is extended.
    """
    judges = dict.fromkeys(
        part.grader for part in parts if part.grader in graders.judges
    )
    if not judges and not cells.get("failure") and not options.answers:
        return []
    labels = {
        f"{_LABEL}{part.grader}": part.score
        for part in parts
        if part.grader in graders.people
    }
    records = []
    # A failed case counts for every judge. A case without any score has no judge's name; the
    # empty one makes one record.
    for judge in judges or graders.judges or {"": ""}:
        parts_of_judge = [part for part in parts if part.grader == judge]
        scores = _score_cells(parts_of_judge, criteria)
        name = graders.judges.get(judge)
        record_cells = {**cells, **scores, **labels, "judge": name}
        records.append(record_of(record_cells, identity, "response"))
    return records


def _omissions(parts: Iterable[Part], graders: _Graders) -> Iterator[str]:
    """Yield whose scores are neither those of judges nor labels."""
    used = {*graders.judges, *graders.people}
    counts = Counter(part.grader for part in parts if part.grader not in used)
    if counts:
        names = ", ".join(counts)
        yield (
            f"scores of graders that are not judges, omitted: {counts.total()} ({names})"
        )


def _meanings(
    path: Path, rows: Sequence[JsonObject], options: Options
) -> dict[str, float | None]:
    """Return the grades that the user's words mean; `None` for no verdict.

    Raises:
        ConfigError: If no column of the metadata has a word, or its meaning is no grade.
    """
    if not options.winners:
        return {}
    # {column: its words}
    words: dict[str, set[str]] = {}
    for row in rows:
        metadata = row.get("metadata")
        for name, value in metadata.items() if isinstance(metadata, Mapping) else ():
            words.setdefault(name, set()).add(str(value))
    # Columns of more words are texts.
    said = {
        word
        for column in words.values()
        if len(column) <= _MOST_WORDS
        for word in column
    }
    require_heard(path, options.winners, said)
    grades = {
        word: None if meaning == NONE else grade_of(assessment("", "", PERSON, meaning))
        for word, meaning in options.winners.items()
    }
    for word, meaning in options.winners.items():
        if meaning != NONE and grades[word] is None:
            raise ConfigError(
                "the labels of a log are grades",
                where=f"--map {word}={meaning}",
                remedy=f"use a number, pass, fail or {NONE}",
            )
    return grades


def _grades_in_metadata(
    rows: Sequence[JsonObject],
    grades: Mapping[str, float],
    meanings: Mapping[str, float | None],
) -> dict[str, dict[int, float | None]]:
    """Return the grades in each column of the metadata that has nothing else, by row.

    Args:
        rows: The cases.
        grades: The tool's words for grades, in columns of those words only.
        meanings: The user's words for grades; `None` means no verdict.
    """
    # {column: {row: value}}
    cells: dict[str, dict[int, Any]] = {}
    for index, row in enumerate(rows):
        metadata = row.get("metadata")
        for name, value in metadata.items() if isinstance(metadata, Mapping) else ():
            if value not in (None, ""):
                cells.setdefault(str(name), {})[index] = value
    by_column = {}
    for name, values in cells.items():
        words = {str(value) for value in values.values()}
        is_of_tool = words <= {*grades, *meanings, _UNGRADED}
        own = {_UNGRADED: None, **grades} if is_of_tool else {}
        own |= meanings
        graded = {
            index: own.get(str(value), grade_of(assessment("", "", PERSON, value)))
            for index, value in values.items()
            # A word that the tool or the user calls no verdict.
            if own.get(str(value), 0.0) is not None
        }
        if graded and None not in graded.values():
            by_column[name] = graded
    return by_column


def _columns_of_people(
    path: Path,
    rows: Sequence[JsonObject],
    by_column: Mapping[str, Mapping[int, float | None]],
    people: Collection[str | None],
    options: Options,
) -> list[str]:
    """Return the columns of the metadata that are labels: the user's, or those of
    people if no one else labels.

    Raises:
        ConfigError: If the columns are about several criteria.
    """
    if options.answers:
        return []
    if options.dimension:
        return [name for name in by_column if name == options.dimension]
    labeled = any(key.startswith(_LABEL) for row in rows for key in row)
    if people or labeled:
        return []
    # The same grade in all cases is rather a fact about the data.
    named = [
        name
        for name, grades in by_column.items()
        if is_persons(name) and len(set(grades.values())) > 1
    ]
    if any(not same_criterion(named[0], name) for name in named):
        answers = [
            (f"the judge is compared with '{name}'", ("--label", name))
            for name in named
        ]
        problem = "has labels of several criteria in its metadata"
        raise OpenCriterionError(problem, path, answers)
    return named


def _criterion(
    path: Path,
    parts: Sequence[Part],
    judges: Collection[str],
    columns: Collection[str],
    options: Options,
) -> str | None:
    """Return the criterion of the judge that is compared with people's columns; `None`
    for all of them: the user's, or the one that the columns name.

    Raises:
        OpenCriterionError: If the judge has several, and the user did not name the column.
    """
    names = dict.fromkeys(part.name for part in parts if part.grader in judges)
    if options.judge in names and options.judge not in judges:
        return options.judge
    if len(names) == 1 or not columns or options.answers:
        return None
    same = [
        name for name in names if any(same_criterion(name, label) for label in columns)
    ]
    if len(same) == 1:
        return same[0]
    by_grader = {(part.grader, part.name) for part in parts if part.grader in judges}
    # Graders of one criterion each are judges of their own.
    if options.dimension or len(by_grader) == len({grader for grader, _ in by_grader}):
        return None
    label = next(iter(columns))
    answers = [
        (
            f"the judge's '{name}' is compared with '{label}'",
            ("--label", label, "--judge", name),
        )
        for name in names
    ]
    mean = f"the mean of all criteria is compared with '{label}'"
    problem = "has labels in its metadata and a judge of several criteria"
    raise OpenCriterionError(problem, path, [*answers, (mean, ("--label", label))])


def _is_about(part: Part, criterion: str, judges: Collection[str]) -> bool:
    return part.grader not in judges or part.name == criterion


def _with_labels(
    cells: JsonObject, index: int, columns: Mapping[str, Mapping[int, float | None]]
) -> JsonObject:
    """Return the cells of a case with the labels in its metadata, where they would
    explain the judge by themselves.
    """
    if not columns:
        return cells
    metadata = {
        name: value
        for name, value in (cells.get("metadata") or {}).items()
        if name not in columns
    }
    labels = {f"{_LABEL}{name}": grades.get(index) for name, grades in columns.items()}
    return {**cells, "metadata": metadata, **labels}


def _differing_scales(
    scores: Iterable[float], columns: Mapping[str, Mapping[int, float | None]]
) -> str | None:
    """Return a note if the labels in the metadata are on another scale than the scores."""
    grades = [grade for column in columns.values() for grade in column.values()]
    said = [
        *(assessment("", JUDGE, JUDGE, score) for score in scores),
        *(assessment("", PERSON, PERSON, grade) for grade in grades),
    ]
    return differing_scales(said, [(JUDGE, "")], [(PERSON, "")])


def _names_of_judges(
    path: Path, parts: Sequence[Part], options: Options, columns: Iterable[str]
) -> dict[str, str]:
    """Return the name of each judge by its grader.

    It is that in `options.judge`, or else all graders that are judges.
    """
    # In order of first occurrence.
    graders = dict.fromkeys(part.grader for part in parts)
    judges = dict.fromkeys(
        part.grader
        for part in parts
        if part.is_judge and part.grader != options.dimension
    )
    # A label is a grader, or a column of the metadata.
    labels = [*graders, *columns]
    if options.dimension and options.dimension not in labels:
        remedy = did_you_mean(options.dimension, labels)
        raise ConfigError(
            "no such grader", where=f"--label {options.dimension}", remedy=remedy
        )
    # Code is a judge if the user names it.
    if options.judge in graders:
        return {options.judge: options.judge}
    # The user may name a criterion, of all judges.
    if options.judge in {part.name for part in parts if part.is_judge}:
        return {judge: judge for judge in judges}
    if options.judge and len(judges) > 1:
        remedy = did_you_mean(options.judge, graders)
        raise ConfigError(
            "no such judge", where=f"--judge {options.judge}", remedy=remedy
        )
    if graders and not judges and not options.answers:
        remedy = f"if a grader is a judge, name it: --judge NAME ({', '.join(graders)})"
        raise DatasetError("no grader is a model", where=str(path), remedy=remedy)
    return {judge: options.judge or judge for judge in judges}


def _people(parts: Sequence[Part], judges: Mapping[str, str]) -> set[str | None]:
    """Return the graders that are no models and are named after people, as a scorer `human`."""
    return {
        part.grader
        for part in parts
        if part.grader not in judges and not part.is_judge and is_persons(part.grader)
    }


def _differing(records: Sequence[Record]) -> dict[str, dict[str, None]]:
    """Return the criteria of each judge if they differ, and otherwise nothing: a score
    is a mean over all criteria.
    """
    by_judge: dict[str, dict[str, None]] = {}
    for record in records:
        by_judge.setdefault(record.said.judge, {}).update(
            dict.fromkeys(record.said.scores)
        )
    # Judges without any scores, which failed in all cases, do not differ from others.
    if len({frozenset(names) for names in by_judge.values() if names}) > 1:
        return by_judge
    return {}


def _split_note(by_judge: Mapping[str, Mapping[str, None]]) -> str:
    named = ", ".join(
        f"{judge} ({', '.join(names)})" for judge, names in by_judge.items()
    )
    return f"judges with different criteria, each criterion read as a judge: {named}"


def _split(
    record: Record, by_judge: Mapping[str, Mapping[str, None]]
) -> Iterator[Record]:
    """Yield a record for each criterion of its judge, as that of a judge of its own."""
    judgment = record.said
    names = by_judge[record.said.judge]
    for name in names:
        judge = judgment.judge if len(names) == 1 else f"{judgment.judge} {name}"
        # The score becomes the only criterion, so that judges of one criterion compare.
        scores = {_QUALITY: judgment.scores[name]} if name in judgment.scores else {}
        error = None if scores else judgment.error or f"no score of {name}"
        yield replace(
            record, said=replace(judgment, judge=judge, scores=scores, error=error)
        )


def _score_cells(parts: Sequence[Part], criteria: dict[str, str]) -> JsonObject:
    """Return the cells of scores, reasons and errors; a duplicate name gets a number."""
    # Two graders may have one name: `style`, then `style 2`.
    scores: dict[str, float] = {}
    for part in parts:
        same = sum(
            name == part.name or name.startswith(f"{part.name} ") for name in scores
        )
        name = f"{part.name} {same + 1}" if same else part.name
        criteria.setdefault(name, part.description)
        if part.score is not None:
            scores[name] = part.score
    cells: JsonObject = {f"score.{name}": score for name, score in scores.items()}
    reasons = "\n\n".join(
        part.reason for part in parts if isinstance(part.reason, str) and part.reason
    )
    error = "; ".join(part.error for part in parts if part.error) or "no score"
    # A failure is a status of its own; an error is only a missing score.
    if failure := "; ".join(part.failure for part in parts if part.failure):
        cells["failure"] = failure
    return (
        cells
        | ({"text": reasons} if reasons else {})
        | ({} if scores else {"error": error})
    )
