"""Templates with everything filled in but the texts of a case: what is left is to put these in their places.

Where a template does no more with a text than to place it, Jinja is asked once for what stands around the texts, and a
prompt is the pieces joined. Where each text stands between markers of its own besides, prompts can be told apart by
their texts alone, without being filled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

from evalkit.prompting.counting import quarters
from evalkit.types import Message

BETWEEN = ("task", "context", "reference", "response_a", "response_b", "response")
"""The markers that a text of a case can stand between."""
MOST_ASKED = 5
_HOLE = re.compile("\x00evalkit:([0-9]+)\x00")
_TRIAL = "{{ x }} <b>&\x02\n '\""
_OPENING = re.compile(rf"<({'|'.join(BETWEEN)})>\n")
Fill = Callable[[Mapping[str, str]], tuple[Message, ...]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """What stands around the texts: of each message its role, and its pieces, each written out or a text's number.

    `mark` is that of no other sheet in this process, `quarters` the length of what is written out; `places` are the
    numbers of the texts in their order.
    """

    messages: tuple[tuple[str, tuple[str | int, ...]], ...]
    mark: int
    quarters: int
    places: tuple[int, ...]

    def fill(self, texts: Sequence[str]) -> tuple[Message, ...]:
        """Return the messages with texts in their places."""
        return tuple(
            [
                {"role": role, "content": "".join([one if isinstance(one, str) else texts[one] for one in pieces])}
                for role, pieces in self.messages
            ]
        )


class Outline(NamedTuple):
    """What tells a filled prompt from others in this process: `mark` and the texts that `pick` takes, made safe.

    Its length is `quarters` of a token and that of these texts, which stand at `places`.
    """

    mark: int
    quarters: int
    pick: Callable[[Sequence[Any]], tuple[Any, ...]]
    places: tuple[int, ...]


class Blank:
    """A template to be filled with the texts of cases, given in the order of `names`.

    Args:
        names: the placeholders that stand for texts.
        fill: fills the template, whatever it is.
        asked: the texts of which the template asks whether they are empty, if that and placing them is all it does with
            texts; none if it does more.
    """

    def __init__(self, names: Sequence[str], fill: Fill, asked: frozenset[str] | None) -> None:
        self._names, self._fill = tuple(names), fill
        self._asked = () if asked is None else tuple(place for place, name in enumerate(names) if name in asked)
        self._pick_asked = _picking(self._asked)
        self._sheets: dict[tuple[bool, ...], Sheet] = {}
        if asked is not None and len(asked) <= MOST_ASKED:
            self._sheets = self._made()
        self.tells = bool(self._sheets) and all(_is_marked(sheet) for sheet in self._sheets.values())
        """Whether `outline` can be asked: for texts that were made safe, it tells prompts apart."""

    def fill(self, texts: Sequence[str]) -> tuple[Message, ...]:
        """Return the messages of the template with these texts.

        Raises:
            PromptError: if it cannot be filled.
        """
        if self._sheets:
            return self._sheet(texts).fill(texts)
        return self._fill(dict(zip(self._names, texts, strict=True)))

    def outline(self, there: Sequence[bool], places: Sequence[int]) -> Outline:
        """Return what tells a filled prompt from others, for texts that are picked from more than are shown.

        Args:
            there: which of these are not empty.
            places: for each of the names, where its text stands among these.
        """
        sheet = self._sheets[tuple([there[places[name]] for name in self._asked])]
        found = tuple([places[name] for name in sheet.places])
        return Outline(sheet.mark, sheet.quarters, _picking(found), found)

    def _sheet(self, texts: Sequence[str]) -> Sheet:
        return self._sheets[tuple(map(bool, self._pick_asked(texts)))]

    def _made(self) -> dict[tuple[bool, ...], Sheet]:
        """Return the sheet for each choice of empty texts; none at all unless a trial shows each to be right."""
        sheets = {}
        for there in product((True, False), repeat=len(self._asked)):
            empty = {place for place, is_there in zip(self._asked, there, strict=True) if not is_there}
            holes = ["" if place in empty else f"\x00evalkit:{place}\x00" for place in range(len(self._names))]
            trial = ["" if place in empty else f"{place}{_TRIAL}" for place in range(len(self._names))]
            try:
                sheet = _sheet(self._fill(dict(zip(self._names, holes, strict=True))), len(self._names))
                if sheet.fill(trial) != self._fill(dict(zip(self._names, trial, strict=True))):
                    return {}
            except Exception:  # whoever fills the template is told
                return {}
            sheets[there] = sheet
        return sheets


def _sheet(messages: Sequence[Message], count: int) -> Sheet:
    found = tuple((message["role"], tuple(_pieces(message["content"]))) for message in messages)
    flat = [piece for _, pieces in found for piece in pieces]
    places = tuple(piece for piece in flat if isinstance(piece, int))
    if any(place >= count for place in places):
        raise ValueError("a text of the template's own looks like a place")
    if any(role != "user" and not _has_words(pieces) for role, pieces in found):
        raise ValueError("a message that is left out where its texts are blank")
    written = sum(quarters(piece) for piece in flat if isinstance(piece, str))
    # By which number a text goes in its place is the evaluator's own business: prompts of two of them may be equal.
    mark = hash(tuple((role, tuple(one if isinstance(one, str) else None for one in pieces)) for role, pieces in found))
    return Sheet(found, mark, written, places)


def _has_words(pieces: Sequence[str | int]) -> bool:
    return any(isinstance(piece, str) and piece.strip() for piece in pieces)


def _picking(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return what takes the values at some places; `itemgetter` gives a tuple of two or more only."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _pieces(content: str) -> Iterator[str | int]:
    for number, piece in enumerate(_HOLE.split(content)):
        if number % 2:
            yield int(piece)
        elif piece:
            yield piece


def _is_marked(sheet: Sheet) -> bool:
    r"""Say whether each text stands between markers, alone on its lines, and no such marker opens anything else.

    A safe text holds no marker. So in a filled message each text ends before the first `\n</marker>` after its
    beginning; and two messages of such sheets that are equal begin and end their first texts at the same places, and
    so on: they are of one sheet, and their texts are the same.
    """
    return all(_is_well_marked(pieces) for _, pieces in sheet.messages)


def _is_well_marked(pieces: Sequence[str | int]) -> bool:
    for at, piece in enumerate(pieces):
        if isinstance(piece, str):
            is_last = at + 1 == len(pieces)
            openings = list(_OPENING.finditer(piece))
            if len(openings) > (0 if is_last else 1):
                return False
            continue
        before, after = pieces[at - 1] if at else "", pieces[at + 1] if at + 1 < len(pieces) else ""
        opening = None if isinstance(before, int) else re.search(rf"{_OPENING.pattern}\Z", before)
        if opening is None or isinstance(after, int) or not after.startswith(f"\n</{opening[1]}>"):
            return False
    return True
