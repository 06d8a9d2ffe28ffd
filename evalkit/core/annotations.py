"""What one person said of a case, pair by pair: a plain choice is one between its first two responses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from evalkit.types import Annotation, Unit, Winner

FIRST: Unit = (0, 1)
"""The pair that a case's own label, and a plain choice, are of."""


def pair_key(unit: Unit) -> str:
    """Return what a pair of responses is called in an annotation: `0,2`."""
    return ",".join(map(str, unit))


def parse_pair_key(name: str) -> Unit | None:
    """Return the pair that a name stands for, the lower index first; none if it is no pair's."""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        return None
    one, two = int(parts[0]), int(parts[1])
    return (one, two) if one < two else None


def choices_in(annotation: Annotation) -> Iterator[tuple[Unit, Winner]]:
    """Yield each pair that a person chose from, and what they chose; nothing of grades."""
    if isinstance(annotation, str):
        yield FIRST, annotation
    elif isinstance(annotation, Mapping):
        for name, winner in annotation.items():
            if (unit := parse_pair_key(name)) is not None:
                yield unit, winner


def choice_for(annotation: Annotation, unit: Unit = FIRST) -> Winner | None:
    """Return what a person chose of a pair, none if they chose nothing of it."""
    if isinstance(annotation, str):
        return annotation if unit == FIRST else None
    return annotation.get(pair_key(unit)) if isinstance(annotation, Mapping) else None


def annotation_grades(annotation: Annotation) -> tuple[float | None, ...]:
    """Return a person's grades of a case's responses, none of them if they gave choices."""
    return annotation if isinstance(annotation, tuple) else ()


def chosen(choices: Mapping[Unit, Winner]) -> Annotation:
    """Return choices as one annotation: the plain choice, where it is only between the first two responses."""
    if set(choices) == {FIRST}:
        return choices[FIRST]
    return {pair_key(unit): winner for unit, winner in sorted(choices.items())}


def majority(votes: Iterable[Winner | None]) -> Winner | None:
    """Return what most people chose, none where nobody chose or they are split."""
    most = Counter(vote for vote in votes if vote is not None).most_common(2)
    return most[0][0] if most and (len(most) == 1 or most[0][1] > most[1][1]) else None
