"""One annotator's labels of a case, pair by pair; a plain choice is between the first
two responses.

And the probability with which a case was chosen for labeling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeVar

from evalkit.core.errors import ConfigError
from evalkit.core.types import Annotation, Case, Unit, Winner
from evalkit.core.values import frozen

Vote = TypeVar("Vote", bound=str)

FIRST: Unit = (0, 1)
"""The pair of a case's own label and of a plain choice."""


INCLUSION: Final = "inclusion_probability"
"""The metadata of a case with the probability that it was chosen for labeling."""
UNKNOWN: Final = "unknown"
"""Its value if the case was picked for labeling, and the probability is not known."""


def inclusion(case: Case) -> float | Literal["unknown"] | None:
    """Return the probability that a case was chosen for labeling.

    `None` if it was not chosen by a sample.

    Raises:
        ConfigError: if it is not a number above 0 and at most 1.
    """
    value = case.metadata.get(INCLUSION)
    if value is None or value == "":
        return None
    if value == UNKNOWN:
        return UNKNOWN
    try:
        probability = float(value)
    except (TypeError, ValueError):
        probability = 0.0
    if not 0 < probability <= 1 or isinstance(value, bool):
        problem = (
            f"'{value!s:.40}' is not the probability that a case is chosen for labeling"
        )
        remedy = f"write a number above 0 and at most 1 in {INCLUSION}, or omit it"
        raise ConfigError(problem, where=f"case '{case.id}'", remedy=remedy)
    return probability


def pair_key(unit: Unit) -> str:
    """Return the name of a pair of responses in an annotation, such as `0,2`."""
    return ",".join(map(str, unit))


def parse_pair_key(name: str) -> Unit | None:
    """Return the pair with a name, the lower index first; `None` if it is not the name
    of a pair.
    """
    parts = [part.strip() for part in name.split(",")]
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        return None
    first = int(parts[0])
    second = int(parts[1])
    # A pair is named with the lower index first, so that each pair has one name.
    if first < second:
        return (first, second)
    return None


def choices_in(annotation: Annotation) -> Iterator[tuple[Unit, Winner]]:
    """Yield each pair with the annotator's choice; nothing for grades."""
    if isinstance(annotation, str):
        yield FIRST, annotation
    elif isinstance(annotation, Mapping):
        for name, winner in annotation.items():
            if (unit := parse_pair_key(name)) is not None:
                yield unit, winner


def choice_for(annotation: Annotation, unit: Unit = FIRST) -> Winner | None:
    """Return the annotator's choice for a pair; `None` if there is none."""
    if isinstance(annotation, str):
        if unit == FIRST:
            return annotation
        return None
    if isinstance(annotation, Mapping):
        return annotation.get(pair_key(unit))
    return None


def annotation_grades(annotation: Annotation) -> tuple[float | None, ...]:
    """Return the annotator's grades of a case's responses; empty if the annotation has
    choices or classes.
    """
    if not isinstance(annotation, tuple) or any(
        isinstance(entry, str) for entry in annotation
    ):
        return ()
    return tuple(entry for entry in annotation if not isinstance(entry, str))


def annotation_classes(annotation: Annotation) -> tuple[str | None, ...]:
    """Return the annotator's classes of a case's responses; empty if the annotation has
    choices or grades.
    """
    if not isinstance(annotation, tuple) or any(
        isinstance(entry, float | int) for entry in annotation
    ):
        return ()
    return tuple(entry for entry in annotation if not isinstance(entry, float | int))


def chosen(choices: Mapping[Unit, Winner]) -> Annotation:
    """Combine choices into one annotation; a single choice between the first two
    responses becomes a plain choice.
    """
    if set(choices) == {FIRST}:
        return choices[FIRST]
    return {pair_key(unit): winner for unit, winner in sorted(choices.items())}


def majority(votes: Iterable[Vote | None]) -> Vote | None:
    """Return the most frequent vote; `None` without votes or if the vote is split."""
    most = Counter(vote for vote in votes if vote is not None).most_common(2)
    if most and (len(most) == 1 or most[0][1] > most[1][1]):
        return most[0][0]
    return None


@frozen
class Label:
    """One annotator's label: a winner in the case's order, a grade or a class of one
    response, or an item's answer.

    `unit` is empty if a grade or an answer does not name its response. `location` is the label's
    file and line. `item` is the id of the checklist item, if the label is the answer to one.
    `probability` is that with which the case was chosen for labeling, if the label is of a task:
    any value from its file, or UNKNOWN.
    """

    case_id: str
    unit: Unit
    annotator: str
    value: Winner | float | str
    location: str = field(default="", compare=False)
    item: str = ""
    probability: Any = field(default=None, compare=False)
