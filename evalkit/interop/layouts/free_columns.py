"""Find texts, judges and labels in columns that users of a tool named: the data of a
labeling task, or its metadata.

A column is a judge or a label because of its name, or because its values are the words of the
other raters. Names alone decide for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
    is_polar,
)
from evalkit.interop.layouts.rater_names import is_judges, is_labels, words_of
from evalkit.interop.layouts.records import Options

_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt": (
        *("prompt", "question", "query", "instruction", "input", "user_input", "task"),
        *("inputs", "attributes.input.value", "问题", "提示", "指令"),
    ),
    "response": (
        *(
            "response",
            "answer",
            "output",
            "completion",
            "generation",
            "reply",
            "outputs",
        ),
        *("attributes.output.value", "回答", "回复", "答案", "text"),
    ),
    "response_a": (
        "response_a",
        "answer_a",
        "output_a",
        "response1",
        "response_1",
        "answer1",
    ),
    "response_b": (
        "response_b",
        "answer_b",
        "output_b",
        "response2",
        "response_2",
        "answer2",
    ),
    "context": ("context", "retrieved_contexts", "retrieval_context"),
    "reference": (
        *(
            "reference",
            "ground_truth",
            "expected",
            "expected_output",
            "target",
            "reference_answer",
        ),
    ),
    "model": ("model", "model_name", "system"),
}
_REFERENCES: Final = frozenset(
    {*("expected", "reference", "target", "ground", "truth", "gold", "previous", "old")}
)
"""Words in the name of a column that is neither a judge nor a label unless the user says so."""
# The most different words of classes; more are names or texts.
_MOST_WORDS: Final = 12


def _is_no_judge(name: str) -> bool:
    return is_labels(name) or not _REFERENCES.isdisjoint(words_of(name))


def flat(data: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested objects by path."""
    if not isinstance(data, Mapping):
        return
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}.")
        else:
            yield path, value


def text_cells(data: Json) -> JsonObject:
    """Return the cells of a prompt, responses, a context and a reference by the usual
    names of columns.
    """
    # Names without case and spaces to the names in the data.
    folded = {str(name).casefold().replace(" ", "_"): name for name in data}
    cells: JsonObject = {}
    for cell, names in _TEXTS.items():
        # The first usual name counts, in the order of the table above.
        column = next((folded[name] for name in names if name in folded), None)
        if column is not None and data[column] not in (None, "", []):
            cells[cell] = data[column]
    if "response_a" in cells and "response_b" in cells:
        # a third column next to a pair is not judged
        cells.pop("response", None)
    return cells


def with_raters_in_data(
    units: Sequence[Assessed],
    data: Sequence[Json],
    options: Options,
    unused: Iterable[str] = (),
) -> list[Assessed]:
    """Return the answers with what raters in columns of their data said.

    A column that the user names is a judge (`--judge`) or a label (`--label`). Otherwise labels in
    columns are read if no annotator is known, and judges if no judge is.

    Args:
        units: The answers.
        data: The columns of each answer; empty if another row has them.
        options: The user's options.
        unused: Columns that are texts or ids.
    """
    present = [entry for unit in units for entry in unit.entries]
    columns = _columns(data, {*unused})
    raters: dict[str, Source] = {}
    # What the user names is read first, and whatever its name says.
    if options.judge in columns:
        raters[options.judge] = JUDGE
    if options.dimension in columns:
        raters[options.dimension] = PERSON
    # Without any known judge, columns are searched for one.
    if options.judge not in columns and not any(
        entry.source == JUDGE for entry in present
    ):
        people = [entry for entry in present if entry.source == PERSON]
        raters |= {
            name: JUDGE
            for name in _similar_columns(columns, people, is_judges, _is_no_judge)
            if name not in raters
        }
    # Without any known annotator, columns are searched for labels.
    if options.dimension not in columns and not any(
        entry.source == PERSON for entry in present
    ):
        judges = [entry for entry in present if entry.source == JUDGE]
        raters |= {
            name: PERSON
            for name in _similar_columns(columns, judges, is_labels, is_judges)
            # Only by name: words alike could be those of a second judge.
            if name not in raters and is_labels(name)
        }
    # Without any judge, numbers like those of people are offered, and none is taken.
    people = [entry for entry in present if entry.source == PERSON]
    sources = {*raters.values(), *(entry.source for entry in present)}
    if people and JUDGE not in sources:
        raters |= dict.fromkeys(_in_range(columns, people, raters), CODE)
    # A judge in a column is about the criteria of people, and the reverse.
    criteria: dict[Source, list[str]] = {
        JUDGE: _criteria_of(present, PERSON),
        PERSON: _criteria_of(present, JUDGE),
        CODE: [],
    }
    about = {
        name: _criteria(
            name, _of_its_kind(criteria[source], present, columns[name]), options
        )
        for name, source in raters.items()
    }
    return [
        Assessed(
            _without_raters(unit.cells, raters),
            (*unit.entries, *_said_in(row, raters, about)),
        )
        # `data` is aligned with `units`; an empty row has no columns.
        for unit, row in zip(units, data, strict=True)
    ]


def _in_range(
    columns: Mapping[str, Sequence[Any]],
    people: Sequence[Assessment],
    raters: Mapping[str, Source],
) -> list[str]:
    """Return columns of several numbers within the range of people's grades."""
    grades = [entry.score for entry in people if entry.score is not None]
    words = {entry.word for entry in people if entry.word is not None}
    if words and is_polar(words):
        grades += [0.0, 1.0]
    fitting = []
    for name, values in columns.items():
        numbers = {assessment("", "", CODE, value).score for value in values}
        inside = all(
            number is not None and grades and min(grades) <= number <= max(grades)
            for number in numbers
        )
        if inside and len(numbers) > 1 and name not in raters and not is_labels(name):
            fitting.append(name)
    return fitting


def _without_raters(cells: JsonObject, raters: Mapping[str, Source]) -> JsonObject:
    """Return cells whose metadata have no verdicts, which would explain the judge by itself."""
    metadata = cells.get("metadata")
    if not raters or not isinstance(metadata, Mapping):
        return cells
    # Only the last part of a path: metadata may nest columns in another way.
    names = {_last(name) for name in raters}
    plain = {
        name: value
        for name, value in metadata.items()
        if _last(name) not in names
        and names.isdisjoint(_last(path) for path, _ in flat(value))
    }
    return {**cells, "metadata": plain}


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _said_in(
    row: Json, raters: Mapping[str, Source], about: Mapping[str, Sequence[str]]
) -> Iterator[Assessment]:
    """Yield what the raters in a row said about each criterion."""
    cells = dict(flat(row)) if raters else {}
    for name, source in raters.items():
        # An answer in several rows has its columns in one of them.
        if row:
            for criterion in about[name]:
                yield assessment(criterion, name, source, cells.get(name))


def _criteria_of(present: Sequence[Assessment], source: Source) -> list[str]:
    """Return the criteria of these raters, or of all if there are none."""
    selected = [entry.name for entry in present if entry.source == source]
    return [*dict.fromkeys(selected or [entry.name for entry in present])]


def _of_its_kind(
    criteria: Sequence[str], present: Sequence[Assessment], values: Iterable[Any]
) -> Sequence[str]:
    """Return the criteria that have values of the kind of a column's, or all if none has:
    words are not compared with grades.
    """
    kinds = _kinds(assessment("", "", CODE, value) for value in values)
    fitting = [
        criterion
        for criterion in criteria
        if not _are_apart(
            kinds, _kinds(entry for entry in present if entry.name == criterion)
        )
    ]
    return fitting or criteria


def _are_apart(kinds: Set[str], others: Set[str]) -> bool:
    """Return whether one has only words, and the other only grades."""
    return {*map(frozenset, (kinds, others))} == {
        frozenset({"word"}),
        frozenset({"score"}),
    }


def _kinds(entries: Iterable[Assessment]) -> set[str]:
    """Return what values are: `word`, and `flag` for 0 and 1 only, or `score`."""
    every = [*entries]
    scores = {entry.score for entry in every if entry.score is not None}
    kinds = {"word"} if any(entry.word is not None for entry in every) else set()
    if scores:
        kinds.add("flag" if scores <= {0.0, 1.0} else "score")
    return kinds


def _criteria(name: str, criteria: Sequence[str], options: Options) -> Sequence[str]:
    """Return the criteria that a column can be about: those that it names, or the
    user's, or all.
    """
    named = [
        criterion
        for criterion in criteria
        # All words of the criterion are in the name of the column.
        if {*words_of(criterion)} <= {*words_of(name)}
    ]
    if named:
        return named
    if options.dimension is not None and options.dimension in criteria:
        return [options.dimension]
    return criteria or [name]


def _columns(data: Sequence[Json], unused: set[str]) -> dict[str, list[Any]]:
    """Return the values of each column; one of the same name that is nested is the same column."""
    columns: dict[str, list[Any]] = {}
    for row in data:
        for name, value in flat(row):
            if name not in unused and value not in (None, ""):
                columns.setdefault(name, []).append(value)
    return {
        name: values
        for name, values in columns.items()
        # `inputs.question` is the same column as `question`.
        if "." not in name or name.rpartition(".")[2] not in columns
    }


def _similar_columns(
    columns: Mapping[str, Sequence[Any]],
    present: Sequence[Assessment],
    named: Callable[[str], bool],
    opposite: Callable[[str], bool],
) -> list[str]:
    """Return the columns with a name of such raters, or with the words of known raters."""
    words = {entry.word.casefold() for entry in present if entry.word is not None}
    scored = any(entry.score is not None for entry in present)
    fitting = []
    for name, values in columns.items():
        cells = [assessment("", "", JUDGE, value) for value in values]
        # Words and numbers of the column, to compare with those of known raters.
        selected = {cell.word.casefold() for cell in cells if cell.word is not None}
        numbers = {cell.score for cell in cells if cell.score is not None}
        # A name of the other kind, or a cell without a value, rules the column out.
        if opposite(name) or len(cells) > len(
            [c for c in cells if c.word or c.score is not None]
        ):
            continue
        if selected and not numbers:
            fits = _words_fit(selected, words, usual=named(name), scored=scored)
        else:
            # 0 and 1 fit annotators who say good and bad.
            flags = numbers <= {0.0, 1.0} and is_polar(words)
            fits = not selected and named(name) and (scored or not words or flags)
        if fits:
            fitting.append(name)
    return fitting


def _words_fit(
    selected: set[str], words: set[str], *, usual: bool, scored: bool
) -> bool:
    """Return whether words of a column are those of known raters, or its name is usual
    for its raters.
    """
    # Two or more words, all of which known raters use: the name need not say anything.
    if len(selected) > 1 and selected <= words:
        return True
    polar = is_polar(selected) and is_polar(words)
    # Words next to scores are about something else, unless they say good and bad.
    unknown = not words and not scored
    related = polar or unknown or bool(selected & words)
    return usual and related and len(selected) <= _MOST_WORDS
