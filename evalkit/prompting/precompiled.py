"""Templates with everything filled in but the texts of a case: what is left is to put these in their places.

Where a template does no more with a text than to place it, Jinja is asked once for what stands around the texts, and a
prompt is the pieces joined. Where each text stands between markers of its own besides, prompts can be told apart by
their texts alone, without being filled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

from jinja2 import nodes

from evalkit.types import Message

# What is written inside these may be changed on its way out, or be written elsewhere.
_CHANGING = (nodes.FilterBlock, nodes.CallBlock, nodes.AssignBlock, nodes.Macro, nodes.ScopedEvalContextModifier)
_PASSING = (nodes.Template, nodes.Block, nodes.For)


def template_inputs(trees: Iterable[nodes.Template], texts: Set[str]) -> frozenset[str] | None:
    """Return those of `texts` that the templates ask whether they are empty, if that and placing them is all they do.

    None, where a text may be looked at or changed: then only filling the template tells what becomes of it.
    """
    asked: set[str] = set()
    for tree in trees:
        if next(tree.find_all(_CHANGING), None) is not None or _calls_blocks(tree):
            return None
        if not _only_places(tree, texts, asked):
            return None
    return frozenset(asked)


def _calls_blocks(tree: nodes.Template) -> bool:
    """Say whether a block is called, but to be written as it is."""
    written = {id(part) for output in tree.find_all(nodes.Output) for part in output.nodes}
    supers = (call for call in tree.find_all(nodes.Call) if _is_named(call.node, "super"))
    return any(id(call) not in written for call in supers) or any(
        name.name == "self" for name in tree.find_all(nodes.Name)
    )


def _is_named(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.name == name


def _only_places(node: nodes.Node, texts: Set[str], asked: set[str]) -> bool:
    if isinstance(node, nodes.Output):
        return all(_is_text(part, texts) or _names_none(part, texts) for part in node.nodes)
    if isinstance(node, nodes.If):
        parts = [*node.body, *node.elif_, *node.else_]
        return _only_asks(node.test, texts, asked) and all(_only_places(part, texts, asked) for part in parts)
    if isinstance(node, _PASSING):
        return all(_only_places(part, texts, asked) for part in node.iter_child_nodes())
    return _names_none(node, texts)


def _only_asks(test: nodes.Node, texts: Set[str], asked: set[str]) -> bool:
    if isinstance(test, nodes.Name) and test.name in texts:
        asked.add(test.name)
        return True
    if isinstance(test, nodes.Not | nodes.And | nodes.Or):
        return all(_only_asks(part, texts, asked) for part in test.iter_child_nodes())
    return _names_none(test, texts)


def _is_text(node: nodes.Node, texts: Set[str]) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name in texts


def _names_none(node: nodes.Node, texts: Set[str]) -> bool:
    return not (isinstance(node, nodes.Name) and node.name in texts) and not any(
        name.name in texts for name in node.find_all(nodes.Name)
    )


CHARACTERS_PER_TOKEN = 4
TOKENS_PER_BYTE = 0.5
"""Of what a character beyond ASCII takes in UTF-8 beyond its first byte: so a Chinese one is one token."""
_MORE = round(CHARACTERS_PER_TOKEN * TOKENS_PER_BYTE)


def text_length(text: str) -> int:
    """Return about how many tokens a text has, in quarters of one: those of texts add up to those of all together."""
    if text.isascii():
        return len(text)
    plain = len(text.encode("ascii", "ignore"))
    return plain + _MORE * (len(text.encode("utf-8", "surrogatepass")) - len(text))


BETWEEN = ("task", "context", "reference", "response_a", "response_b", "response")
"""The markers that a text of a case can stand between."""
MOST_ASKED = 5
_HOLE = re.compile("\x00evalkit:([0-9]+)\x00")
_TRIAL = "{{ x }} <b>&\x02\n '\""
_OPENING = re.compile(rf"<({'|'.join(BETWEEN)})>\n")
Fill = Callable[[Mapping[str, str]], tuple[Message, ...]]


@dataclass(frozen=True, slots=True)
class Layout:
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


class PromptSignature(NamedTuple):
    """What tells a filled prompt from others in this process: `mark` and the texts that `pick` takes, made safe.

    Its length is `quarters` of a token and that of these texts, which stand at `places`.
    """

    mark: int
    quarters: int
    pick: Callable[[Sequence[Any]], tuple[Any, ...]]
    places: tuple[int, ...]


class CompiledTemplate:
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
        self._sheets: dict[tuple[bool, ...], Layout] = {}
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

    def outline(self, there: Sequence[bool], places: Sequence[int]) -> PromptSignature:
        """Return what tells a filled prompt from others, for texts that are picked from more than are shown.

        Args:
            there: which of these are not empty.
            places: for each of the names, where its text stands among these.
        """
        sheet = self._sheets[tuple([there[places[name]] for name in self._asked])]
        found = tuple([places[name] for name in sheet.places])
        return PromptSignature(sheet.mark, sheet.quarters, _picking(found), found)

    def _sheet(self, texts: Sequence[str]) -> Layout:
        return self._sheets[tuple(map(bool, self._pick_asked(texts)))]

    def _made(self) -> dict[tuple[bool, ...], Layout]:
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


def _sheet(messages: Sequence[Message], count: int) -> Layout:
    found = tuple((message["role"], tuple(_pieces(message["content"]))) for message in messages)
    flat = [piece for _, pieces in found for piece in pieces]
    places = tuple(piece for piece in flat if isinstance(piece, int))
    if any(place >= count for place in places):
        raise ValueError("a text of the template's own looks like a place")
    if any(role != "user" and not _has_words(pieces) for role, pieces in found):
        raise ValueError("a message that is left out where its texts are blank")
    written = sum(text_length(piece) for piece in flat if isinstance(piece, str))
    # By which number a text goes in its place is the evaluator's own business: prompts of two of them may be equal.
    mark = hash(tuple((role, tuple(one if isinstance(one, str) else None for one in pieces)) for role, pieces in found))
    return Layout(found, mark, written, places)


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


def _is_marked(sheet: Layout) -> bool:
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
