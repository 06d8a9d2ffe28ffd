"""Read the answers to checklist items: met, not met, or cannot assess. Anything else is unreadable."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from evalkit.parsing.decisions import Mark, Reply, Take, choose_mark, marks
from evalkit.parsing.plain_text import drop_thinking, to_half_width, unescape
from evalkit.parsing.scores import UnreadableError
from evalkit.types import ItemAnswer

_ANSWERS: Mapping[str, ItemAnswer] = MappingProxyType(
    {
        "met": "met",
        "not met": "not_met",
        "cannot assess": "cannot_assess",
        "满足": "met",
        "不满足": "not_met",
        "无法判断": "cannot_assess",
    }
)
_NUMBERED = re.compile(r"\A(?P<number>\d{1,5})\s*:\s*(?P<answer>.+)\Z")
_REST = re.compile(r"[^\w\n]*(?:\n|\Z|\d{1,5}\s*[:：])")
"""What may follow an answer on its line: nothing, or the next answer."""
_ENTRY = re.compile(r"item\W{0,3}:", re.I)
WANTED = "[[met]], [[not met]] or [[cannot assess]]"


def read_item_answer(value: object) -> ItemAnswer:
    """Return the answer that a text states.

    Raises:
        UnreadableError: If it is not a text, or any other text.
    """
    spelt = " ".join(value.replace("_", " ").split()).strip("*.。").casefold() if isinstance(value, str) else None
    if spelt is None or spelt not in _ANSWERS:
        raise UnreadableError("invalid", f"'{str(value)[:60]}' is not met, not_met or cannot_assess")
    return _ANSWERS[spelt]


def read_item_entries(
    entries: object, count: int, sources: Collection[str] = ()
) -> dict[int, tuple[ItemAnswer | None, str]]:
    """Return the answer and the reason of each item, by number from 1; the answer is `None` if it is missing.

    Other numbers, and a number that occurs twice, make the whole answer unreadable: the judge may have numbered the
    items in another way, or a text that it quotes may have ended its entry early. So is every answer about a text that
    could be an entry; its items are then asked for one by one.

    Args:
        entries: The list in the answer: `item`, `reason`, `answer`.
        count: The number of items.
        sources: The texts under judgment.

    Raises:
        UnreadableError: If it is not a list, an entry has no item's number, or no item has an answer.
    """
    if not isinstance(entries, list):
        raise UnreadableError("invalid", "items: expected a list of items")
    if any(_ENTRY.search(unescape(source)) for source in sources):
        raise UnreadableError("invalid", "items: a text under judgment may have added an entry")
    found: dict[int, tuple[ItemAnswer | None, str]] = {}
    for entry in entries:
        number = _number(entry.get("item"), count) if isinstance(entry, dict) else None
        if number is None:
            raise UnreadableError("invalid", f"items: an entry has no item number from 1 to {count}")
        if number in found:
            raise UnreadableError("invalid", f"items: item {number} has two entries")
        reason, answer = entry.get("reason"), _answer_or_none(entry.get("answer"))
        found[number] = (answer, reason if isinstance(reason, str) else "")
    if not any(answer for answer, _ in found.values()):
        raise UnreadableError("no_answer", "items: there is no answer: met, not_met or cannot_assess is missing")
    return found


def _number(value: Any, count: int) -> int | None:
    if isinstance(value, str) and len(value) <= 5 and value.strip().isdecimal():
        value = int(value)
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    return int(value) if whole and 1 <= value <= count else None


def _answer_or_none(value: object) -> ItemAnswer | None:
    try:
        return read_item_answer(value)
    except UnreadableError:
        return None


def read_marked_item(reply: Reply, take: Take) -> ItemAnswer:
    """Return the answer in double brackets.

    Raises:
        UnreadableError: If there is none, an unknown one, or an ambiguous one.
    """
    return choose_mark(reply, marks, read_item_answer, take=take, wanted=WANTED)


def read_marked_items(reply: Reply, count: int) -> dict[int, tuple[ItemAnswer | None, str]]:
    """Return the answers in double brackets, `[[2: met]]`, as `read_item_entries` does.

    The reason is the text on the mark's line before it. A mark that also occurs in the texts under judgment may be a
    quotation, so its item is missing. So is that of a mark within a sentence, if the judge was asked for it `at_end`.

    Raises:
        UnreadableError: If there is no mark with an item's number, or one with another number.
    """
    text = drop_thinking(reply.text, reply.sources)
    quoted = {mark.content for source in reply.sources for one in (source, unescape(source)) for mark in marks(one)}
    found: dict[int, tuple[ItemAnswer | None, str]] = {}
    for mark in marks(text):
        read = _NUMBERED.match(to_half_width(mark.content))
        if read is None:
            continue
        number = int(read["number"])
        if not 1 <= number <= count:
            raise UnreadableError("invalid", f"there is no item {number}: items are numbered from 1 to {count}")
        within = reply.at_end and not _REST.match(text, mark.end)
        answer = None if within or mark.content in quoted else _answer_or_none(read["answer"])
        if number in found and found[number][0] != answer:
            answer = None
        found[number] = (answer, _reason(text, mark))
    if not any(answer for answer, _ in found.values()):
        raise UnreadableError("no_answer", "there is no answer: [[1: met]] for each item is missing")
    return found


def _reason(text: str, mark: Mark) -> str:
    line = text[text.rfind("\n", 0, mark.start) + 1 : mark.start]
    return line.strip().strip("*-").strip()
