"""Read exports of tools that keep assessments: who said what about which criterion of an answer.

Raters are judges, people or code. `read_assessed` selects the criterion that annotators and judges
share, and asks if it is open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Final

from evalkit.core.display import relative
from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.values import JsonObject, frozen
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Key,
    OpenCriterionError,
    Source,
    class_words,
    differing_scales,
    grade_of,
    is_general,
    is_polar,
    one_scale,
    require_shared_words,
    same_criterion,
    spelled,
    unit_of,
    varied,
    with_meanings,
    words_alike,
)
from evalkit.interop.layouts.judgment_files import number
from evalkit.interop.layouts.layouts import Unit, log_cells, record_of
from evalkit.interop.layouts.records import Options, ParsedFile, Record

WINNERS: Final = frozenset(
    {
        *(
            "a",
            "b",
            "tie",
            "left",
            "right",
            "first",
            "second",
            "both",
            "neither",
            "same",
        ),
        *("equal", "draw", "response_a", "response_b", "model_a", "model_b"),
        *("both_good", "both_bad"),
    }
)
"""Words for a response of a pair, or a tie."""
_CELL: Final[Mapping[Unit, str]] = {
    "pair": "winner",
    "response": "score",
    "class": "class",
}
_EVALUATOR: Final = "evaluator"
"""The judge of criteria whose tool names no judge."""
# A question lists at most this many commands, and names that fit on a line.
_MOST_COMMANDS: Final = 6
_NAMED: Final = 5
_LONGEST_NAMES: Final = 120


@frozen
class Assessed:
    """One answer: its cells (`id`, `prompt`, `response`, `metadata` …), and what raters
    said about it.
    """

    cells: JsonObject
    entries: tuple[Assessment, ...] = ()


@frozen
class _Choice:
    """The judges and the labels that are compared, by rater and criterion, and notes
    about the rest.
    """

    # (rater, criterion) of each judge and each label.
    judges: tuple[tuple[str, str], ...]
    labels: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = field(default=())


def read_assessed(
    path: Path,
    units: Sequence[Assessed],
    options: Options,
    notes: Iterable[str] = (),
    *,
    needs: str = "a judge's verdicts",
) -> ParsedFile:
    """Return a record for each answer and judge, with annotators' labels of the same criterion.

    Args:
        path: The file.
        units: The answers.
        options: The user's options: `dimension` selects the labels by criterion or rater, `judge`
            the judge by name or criterion, and `answers` asks for all answers.
        notes: Notes of the reader.
        needs: What a file without a judge lacks.

    Raises:
        DatasetError: If no judge gave a verdict, or judges and annotators differ in kind.
        ConfigError: If several criteria could be compared, or there is none of the user's name.
    """
    # All answers are to be judged: assessments become metadata.
    if options.answers:
        return ParsedFile(list(_assessed_answers(units)), notes=tuple(notes))
    if options.winners:
        units = _with_meanings(path, units, options.winners)
    units = _with_distinct_raters(units)
    # A tool may list a criterion that never got a value, which would be one more to choose.
    units = _speaking(units)
    every = [entry for unit in units for entry in unit.entries]
    # Pairs only if every answer has a second response.
    paired = bool(units) and all("response_b" in unit.cells for unit in units)
    choice = _choose_raters(path, every, options, needs, paired=paired)
    if _are_flags_by_criterion(every, choice):
        units = _with_graded_flags(units, choice)
        every = [entry for unit in units for entry in unit.entries]
    selected = {*choice.judges, *choice.labels}
    used = [entry for entry in every if entry.key in selected]
    kind = _kind(path, units, used, choice)
    if not _is_comparable(kind, used, choice):
        raise _which_criterion(path, choice)
    # {(rater, criterion): {word of the file: class}}.
    words = class_words(used, choice.judges, choice.labels)
    if kind == "class":
        require_shared_words(path, words, choice.judges, choice.labels)
    scales = None
    if kind == "response" and choice.labels:
        scales = differing_scales(used, choice.judges, choice.labels)
    names = _names(choice.judges, options)
    records = []
    unjudged = 0
    for unit in units:
        chosen_rows = list(_records_of_answer(unit, choice, kind, words, names))
        unjudged += not chosen_rows
        records += chosen_rows
    counted = {
        "answers that no judge assessed, omitted": unjudged,
        "labels that an annotator gave again, of which the last is kept": _again(
            units, choice.labels
        ),
    }
    # Differing scales can only be compared by rank, so grades are kept as numbers.
    return ParsedFile(
        records,
        rubric={"real": True} if scales else {},
        notes=(
            *_read_as(choice),
            *([scales] if scales else []),
            *notes,
            *choice.notes,
            *(f"{kind}: {count}" for kind, count in counted.items() if count),
        ),
    )


def _are_flags_by_criterion(every: Sequence[Assessment], choice: _Choice) -> bool:
    """Return whether judges pass or fail answers by several criteria, without labels to
    compare one with. Their scores are then from 0 to 1, too.
    """
    criteria = {name for _, name in choice.judges}
    if choice.labels or len(criteria) == 1:
        return False
    judges = {*choice.judges}
    judged = [entry for entry in every if entry.key in judges]
    words = {entry.word for entry in judged if entry.word is not None}
    scores = [entry.score for entry in judged if entry.score is not None]
    in_range = all(0 <= score <= 1 for score in scores)
    return bool(words) and is_polar(words) and in_range


def _with_graded_flags(units: Sequence[Assessed], choice: _Choice) -> list[Assessed]:
    """Return answers in which the words of judges are 1 for good and 0 for bad."""
    judges = {*choice.judges}
    return [
        replace(
            unit,
            entries=tuple(
                replace(entry, score=grade_of(entry), word=None)
                if entry.key in judges
                else entry
                for entry in unit.entries
            ),
        )
        for unit in units
    ]


def _with_meanings(
    path: Path, units: Sequence[Assessed], meanings: Mapping[str, str]
) -> list[Assessed]:
    every = [entry for unit in units for entry in unit.entries]
    mapped = iter(with_meanings(path, every, meanings))
    # As many of them for each answer as before.
    return [
        replace(unit, entries=tuple(islice(mapped, len(unit.entries))))
        for unit in units
    ]


def _with_distinct_raters(units: Sequence[Assessed]) -> list[Assessed]:
    """Return the answers with a source in the name of a rater whose name another source
    has, as code and a judge of one name.
    """
    sources: dict[Key, Source] = {}
    # The judge keeps the name, then people.
    for source in (JUDGE, PERSON, CODE):
        for entry in (entry for unit in units for entry in unit.entries):
            if entry.source == source:
                sources.setdefault(entry.key, source)
    return [
        replace(
            unit,
            entries=tuple(
                entry
                if sources[entry.key] == entry.source
                else replace(entry, rater=f"{entry.rater} ({entry.source})")
                for entry in unit.entries
            ),
        )
        for unit in units
    ]


def _speaking(units: Sequence[Assessed]) -> list[Assessed]:
    """Return the answers without raters of a criterion that never say anything."""
    # Keys are (rater, criterion).
    speaking = {
        entry.key
        for unit in units
        for entry in unit.entries
        if entry.word is not None or entry.score is not None or entry.failure
    }
    return [
        replace(
            unit,
            entries=tuple(entry for entry in unit.entries if entry.key in speaking),
        )
        for unit in units
    ]


def _kind(
    path: Path, units: Sequence[Assessed], used: Sequence[Assessment], choice: _Choice
) -> Unit:
    """Return what is judged: pairs if there are two responses and all words name one or a tie."""
    words = {entry.word.casefold() for entry in used if entry.word is not None}
    paired = all("response_b" in unit.cells for unit in units)
    # Pairs only if all words name a side: two responses may also be graded.
    if paired and words and all(word in WINNERS for word in words):
        return "pair"
    try:
        return unit_of(path, used, choice.judges, choice.labels)
    except DatasetError:
        # Without labels, several criteria of different kinds are a question, not an error.
        if choice.labels or len({name for _, name in choice.judges}) == 1:
            raise
    raise _which_criterion(path, choice)


def _choose_raters(
    path: Path,
    every: Sequence[Assessment],
    options: Options,
    needs: str,
    *,
    paired: bool,
) -> _Choice:
    """Return the judges and labels to compare.

    Raises:
        DatasetError: If there are no judges.
        ConfigError: If several criteria could be compared, or the user's name is unknown.
    """
    # Sets that keep the order of first occurrence.
    by_source: dict[str, dict[tuple[str, str], None]] = {
        JUDGE: {},
        PERSON: {},
        CODE: {},
    }
    for entry in every:
        by_source[entry.source][entry.key] = None
    people = [*by_source[PERSON]]
    judges = [*by_source[JUDGE]]
    code = [*by_source[CODE]]
    if options.dimension:
        # People first: code and judges are labels only if the user names them.
        labels = _keys_named(
            path, "--label", options.dimension, people, [*code, *judges]
        )
        judges = [key for key in judges if key not in labels]
    else:
        labels = people
    # A judge cannot be its own label.
    if options.judge:
        judges = _keys_named(path, "--judge", options.judge, judges, code)
        labels = [key for key in labels if key not in judges]
    if not judges:
        raise DatasetError(
            f"has {'labels' if people else 'answers'} and not {needs}",
            where=str(path),
            remedy=_no_judge_remedy(path, code, paired=paired),
        )
    try:
        judges, labels = _pair_raters(path, judges, labels, options)
    except OpenCriterionError:
        # The user names the judge, and which of its criteria is compared.
        if options.judge:
            raise
        likely = _likely_judges(every, judges, labels)
        judges, labels = _pair_raters(path, likely, labels, options)
    # What was not selected is counted by kind, so that no assessment vanishes unnoticed.
    omitted = Counter(
        "scores of code" if entry.source == CODE else f"values of '{entry.name}'"
        for entry in every
        if entry.key not in judges and entry.key not in labels
    )
    listed = ", ".join(f"{kind} ({count})" for kind, count in omitted.items())
    notes = (f"assessments that are not compared, omitted: {listed}",) if listed else ()
    return _Choice(tuple(judges), tuple(labels), notes)


def _likely_judges(
    every: Sequence[Assessment], judges: Sequence[Key], labels: Sequence[Key]
) -> list[Key]:
    """Return the judges that may be compared with labels whose names do not say it: those that
    tell answers apart, and of these the only ones with the words of the labels.
    """
    likely = varied(every, judges)
    alike = words_alike(every, likely, labels)
    if alike is None:
        return likely
    return [key for key in likely if key[1] == alike]


def _keys_named(
    path: Path,
    option: str,
    name: str,
    first: Sequence[tuple[str, str]],
    second: Sequence[tuple[str, str]],
) -> list[tuple[str, str]]:
    """Return the keys of a criterion or rater, of the usual source before others."""
    for keys in (first, second):
        for part in (1, 0):  # the criterion, then the rater
            if named := [key for key in keys if key[part] == name]:
                return named
        # Names as notes print them: the rater, then the criterion.
        if named := [key for key in keys if f"{key[0]} {key[1]}" == name]:
            return named
    # Names of criteria before those of raters, as they are tried.
    present = dict.fromkeys(word for key in (*first, *second) for word in key[::-1])
    raise ConfigError(
        "no rater or criterion has this name",
        where=f"{option} {name}",
        remedy=did_you_mean(name, [*present])
        if present
        else f"omit it: {path} has none",
    )


def _no_judge_remedy(
    path: Path, code: Sequence[tuple[str, str]], *, paired: bool
) -> str:
    """Return what to do with a file without a judge: have its answers judged, or name one.

    `code` are the raters that are code, each as (kind, name).
    """
    quoted_path = quote(str(relative(path)))
    mode = "pairwise" if paired else "pointwise"
    remedy = (
        f"have its answers judged: evalkit run mode={mode} dataset.path={quoted_path}"
    )
    if code:
        names = [*dict.fromkeys(name for _, name in code)]
        remedy += (
            f"; or name a judge: evalkit check {quoted_path} --judge {quote(names[0])}"
        )
        if len(names) > 1:
            remedy += f" (or {', '.join(names[1:_MOST_COMMANDS])})"
    return remedy


def _pair_raters(
    path: Path,
    judges: list[tuple[str, str]],
    labels: list[tuple[str, str]],
    options: Options,
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the judges and labels of one criterion; all judges if there are no labels.

    Raises:
        ConfigError: If several could be meant.
    """
    # In order of first occurrence; questions and names follow it.
    criteria = dict.fromkeys(name for _, name in labels)
    judged = dict.fromkeys(name for _, name in judges)
    if not criteria:
        return judges, []
    # All pairs of a criterion of labels and one of judges that are about the same.
    pairs = [
        (label, judge)
        for label in criteria
        for judge in judged
        if same_criterion(label, judge)
    ]
    # the user named both, so they are about the same
    if options.dimension and options.judge and len(criteria) == len(judged) == 1:
        pairs = [(next(iter(criteria)), next(iter(judged)))]
    # One criterion each, one of which has a general name such as `score`, can only be meant.
    if (
        not pairs
        and len(criteria) == len(judged) == 1
        and any(is_general(name) for name in (*criteria, *judged))
    ):
        pairs = [(next(iter(criteria)), next(iter(judged)))]
    # equal names win over similar ones
    exact = [pair for pair in pairs if pair[0] == pair[1]]
    if len(pairs) > 1 and len(exact) == 1:
        pairs = exact
    # None or several could be meant, so the user decides.
    if len(pairs) != 1:
        options_of = pairs or [(label, judge) for label in criteria for judge in judged]
        raise _question(path, options_of)
    [(label, judge)] = pairs
    return (
        [key for key in judges if key[1] == judge],
        [key for key in labels if key[1] == label],
    )


def _is_comparable(kind: Unit, used: Sequence[Assessment], choice: _Choice) -> bool:
    """Return whether the judges are about one criterion, or about several of one scale."""
    criteria = {name for _, name in choice.judges}
    if choice.labels or len(criteria) == 1:
        return True
    # Without labels, scores of several criteria are averaged, which needs one scale.
    return kind == "response" and one_scale(used, choice.judges)


def _which_criterion(path: Path, choice: _Choice) -> OpenCriterionError:
    """Return the question which criterion of several to check."""
    criteria = dict.fromkeys(name for _, name in choice.judges)
    answers = [
        (f"check the verdicts on '{name}'", ("--judge", name))
        for name in criteria
        if len(name) <= _LONGEST_NAMES
    ]
    problem = "has several criteria of different kinds or scales"
    return OpenCriterionError(problem, path, answers[:_MOST_COMMANDS])


def _question(path: Path, pairs: Sequence[tuple[str, str]]) -> OpenCriterionError:
    """Return the question which criterion of the labels is that of a judge."""
    answers = []
    for label, judge in pairs:
        meaning = f"the judge's '{judge}' is compared with the labels' '{label}'"
        # Labels in a column say no criterion, so that they may be about any.
        if label == judge:
            meaning = f"the labels are about '{judge}'"
        if len(label) + len(judge) <= _LONGEST_NAMES:
            answers.append((meaning, ("--label", label, "--judge", judge)))
    problem = (
        "has labels and judges of criteria that have different names or are several"
    )
    return OpenCriterionError(problem, path, answers[:_MOST_COMMANDS])


def _names(
    judges: Sequence[tuple[str, str]], options: Options
) -> dict[tuple[str, str], str]:
    """Return the name of each judge: its rater, with the criterion if a rater has several."""
    raters = Counter(rater for rater, _ in judges)
    # The user's name is a new one if the judge has neither that rater nor that criterion.
    if len(judges) == 1 and options.judge and options.judge not in judges[0]:
        return {judges[0]: options.judge}
    return {
        # A tool that names no judge repeats the criterion as the rater.
        key: key[0] if raters[key[0]] == 1 or key[0] == key[1] else f"{key[0]} {key[1]}"
        for key in judges
    }


def _read_as(choice: _Choice) -> list[str]:
    """Return how the file is read: the judges and the annotators, with their criteria."""
    judges = dict.fromkeys(
        rater if rater == name else f"{rater} ({name})" for rater, name in choice.judges
    )
    labels = dict.fromkeys(f"{rater} ({name})" for rater, name in choice.labels)
    notes = [f"read as judges: {_listed(judges)}"]
    if labels:
        notes.append(f"read as labels: {_listed(labels)}")
    return notes


def _listed(names: Iterable[str]) -> str:
    listed = [*names]
    return ", ".join(listed[:_NAMED]) + (", …" if len(listed) > _NAMED else "")


def _again(units: Sequence[Assessed], labels: Sequence[tuple[str, str]]) -> int:
    return sum(
        count - 1
        # All but the last of each annotator's labels of one answer.
        for unit in units
        for key, count in Counter(
            entry.key for entry in unit.entries if entry.source == PERSON
        ).items()
        if key in labels
    )


def _records_of_answer(
    unit: Assessed,
    choice: _Choice,
    kind: Unit,
    words: Mapping[tuple[str, str], Mapping[str, str]],
    names: Mapping[tuple[str, str], str],
) -> Iterator[Record]:
    """Yield the records of an answer, one for each time that a judge assessed it."""
    # The cells that all records of this answer share.
    cells = {**log_cells(unit.cells, {name: name for name in unit.cells})}
    # A later label of one annotator replaces the earlier one.
    for entry in unit.entries:
        value = _mapped_verdict(entry, kind, words)
        if entry.key in choice.labels and value is not None:
            cells[f"label.{entry.rater}"] = value
    verdict = _CELL[kind]
    # Several criteria of one scale and no labels: a judge's scores are one judgment.
    if kind == "response" and not choice.labels and len(choice.judges) > 1:
        yield from _by_criterion(unit, cells, choice)
        return
    for key in choice.judges:
        for entry in unit.entries:
            if entry.key != key:
                continue
            value = _mapped_verdict(entry, kind, words)
            failure_cell: JsonObject = (
                {"failure": entry.failure} if entry.failure else {}
            )
            yield record_of(
                {
                    **cells,
                    **failure_cell,
                    verdict: value,
                    "judge": names[key],
                    "text": entry.reason,
                },
                str(cells["id"]),
                kind,
            )


def _by_criterion(
    unit: Assessed, cells: JsonObject, choice: _Choice
) -> Iterator[Record]:
    """Yield a record for each judge of an answer, with its scores by criterion."""
    # {judge: its criteria}; criteria without a judge's name belong to one evaluator.
    names: dict[str, list[str]] = {}
    for rater, name in choice.judges:
        names.setdefault(_EVALUATOR if rater == name else rater, []).append(name)
    for rater, criteria in names.items():
        # {criterion: the last assessment by this judge}.
        chosen_rows = {
            entry.name: entry
            for entry in unit.entries
            # The same rule as above, or its scores would be those of another judge.
            if entry.source == JUDGE
            and rater == (_EVALUATOR if entry.rater == entry.name else entry.rater)
        }
        if not chosen_rows.keys() & {*criteria}:
            continue
        # A criterion without a score keeps its cell, so that the judgment counts as incomplete.
        scores = {
            f"score.{name}": chosen_rows[name].score if name in chosen_rows else None
            for name in criteria
        }
        reasons = [entry.reason for entry in chosen_rows.values() if entry.reason]
        yield record_of(
            {**cells, **scores, "judge": rater, "text": "\n\n".join(reasons) or None},
            str(cells["id"]),
            "response",
        )


def _mapped_verdict(
    entry: Assessment, kind: Unit, words: Mapping[tuple[str, str], Mapping[str, str]]
) -> float | str | None:
    """Return the grade of a response, or the class or winner that a word means.

    `None` if there is no verdict. `words` has the meanings of each rater's words.
    """
    if kind == "response":
        return grade_of(entry)
    # A word is mapped by rater and criterion: `good` may be a class of one, a pass of another.
    spoken = spelled(entry)
    if spoken is None:
        return None
    return words.get(entry.key, {}).get(spoken, spoken)


def _assessed_answers(units: Sequence[Assessed]) -> Iterator[Record]:
    """Yield each answer, with what judges said in the metadata.

    It has labels if they have one criterion.
    """
    # With several criteria of labels, none is the label of the answer.
    labels = dict.fromkeys(
        entry.name for unit in units for entry in unit.entries if entry.source == PERSON
    )
    for unit in units:
        cells = dict(log_cells(unit.cells, {name: name for name in unit.cells}))
        metadata = dict(cells.get("metadata") or {})
        paired = "response_b" in cells
        kind: Unit = "pair" if paired else "response"
        for entry in unit.entries:
            value = entry.word if entry.word is not None else entry.score
            if entry.source == PERSON and len(labels) == 1:
                cells[f"label.{entry.rater}"] = value
                # Words are classes, unless a pair is judged, where they name a response.
                if entry.word is not None and not paired:
                    kind = "class"
            elif value is not None:
                title = "label" if entry.source == PERSON else entry.source
                metadata[f"{title} {entry.rater} {entry.name}"] = value
        # Grades must be numbers; other values are dropped.
        if kind == "response":
            for name in [name for name in cells if name.startswith("label.")]:
                cells[name] = number(cells[name])
        yield record_of({**cells, "metadata": metadata}, str(cells["id"]), kind)


def merged(units: Iterable[Assessed]) -> list[Assessed]:
    """Return the answers of each id as one, in order of first occurrence."""
    by_id: dict[str, Assessed] = {}
    for unit in units:
        id_ = str(unit.cells["id"])
        # An id in several rows, such as a span by assessment, is one answer.
        before = by_id.get(id_)
        if before is None:
            by_id[id_] = unit
        else:
            by_id[id_] = replace(before, entries=(*before.entries, *unit.entries))
    return [*by_id.values()]
