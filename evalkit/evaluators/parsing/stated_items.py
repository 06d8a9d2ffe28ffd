"""Read what an answer says of the items of a checklist."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from evalkit.core.patterns import lazy_pattern
from evalkit.core.types import ItemAnswer
from evalkit.evaluators.parsing.mentions import (
    is_denied,
    is_doubted,
    is_struck,
)
from evalkit.evaluators.parsing.plain_text import (
    UnreadableError,
    drop_thinking,
    to_half_width,
    unescape,
    without_special_tokens,
)
from evalkit.evaluators.parsing.stated_verdicts import (
    DECORATION,
    Mark,
    Reply,
    Take,
    choose_mark,
    marks,
)

_ANSWERS: Mapping[str, ItemAnswer] = MappingProxyType(
    {
        **dict.fromkeys(("met", "is met", "已满足"), "met"),
        **dict.fromkeys(("not met", "is not met", "unmet", "没有满足"), "not_met"),
        **dict.fromkeys(
            ("cannot assess", "can't assess", "cannot be assessed", "unable to assess"),
            "cannot_assess",
        ),
        "无法评估": "cannot_assess",
        "满足": "met",
        "不满足": "not_met",
        "未满足": "not_met",
        "无法判断": "cannot_assess",
    }
)


_NUMBERED = lazy_pattern(
    r"\A(?:item ?)?(?P<number>\d{1,5})\s*:\s*(?P<answer>.+)\Z", re.I
)


_AFTER_ITEM = lazy_pattern(r"[^\w\n]*(?:</\w{1,20}>[^\w\n]*)?(?:\n|\Z|\d{1,5}\s*[:：])")
"""What may follow an answer on its line: nothing, the end of a tag, or the next answer."""
_NEGATIONS = ("!", "！", "~", "¬", "-")
"""What may be before a word that is denied or struck through."""


_ENTRY = lazy_pattern(r"item\W{0,3}:", re.I)


WANTED = "[[met]], [[not met]] or [[cannot assess]]"


def read_item_answer(value: object) -> ItemAnswer:
    """Return the answer that a text states.

    Raises:
        UnreadableError: If it is not a text, or any other text.
    """
    spelt = None
    if isinstance(value, str) and not value.lstrip().startswith(_NEGATIONS):
        words = re.split(r"[\s_-]+", value.strip(f"{DECORATION}\n\"'“”‘’!！"))
        spelt = " ".join(words).casefold().replace("’", "'")
    if spelt is None or spelt not in _ANSWERS:
        raise UnreadableError(
            "invalid", f"'{str(value)[:60]}' is not met, not_met or cannot_assess"
        )
    return _ANSWERS[spelt]


def read_item_entries(
    entries: object, count: int, sources: Collection[str] = ()
) -> dict[int, tuple[ItemAnswer | None, str]]:
    """Return the answer and the reason of each item, by number from 1.

    The answer is `None` if its entry has none; an item without an entry has no key.

    Other numbers, and a number that occurs twice, make the whole answer unreadable: the judge may
    have numbered the items in another way, or a text that it quotes may have ended its entry early.
    So is every answer about a text that could be an entry; its items are then asked for one by one.

    Args:
        entries: The list in the answer: `item`, `reason`, `answer`.
        count: The number of items.
        sources: The texts under judgment.

    Raises:
        UnreadableError: If no item can be read, or an entry has no item's number.
    """
    if not isinstance(entries, list):
        raise UnreadableError("invalid", "items: expected a list of items")
    # A response that contains JSON of this form could end a string of the judge and add answers.
    if any(_ENTRY.search(unescape(source)) for source in sources):
        raise UnreadableError(
            "invalid", "items: a text under judgment may have added an entry"
        )
    answers: dict[int, tuple[ItemAnswer | None, str]] = {}
    for entry in entries:
        number = (
            _item_number(entry.get("item"), count) if isinstance(entry, dict) else None
        )
        if number is None:
            raise UnreadableError(
                "invalid", f"items: an entry has no item number from 1 to {count}"
            )
        # Which of two entries is the judge's own cannot be known.
        if number in answers:
            raise UnreadableError("invalid", f"items: item {number} has two entries")
        reason = entry.get("reason")
        answer = _answer_or_none(entry.get("answer"))
        answers[number] = (answer, reason if isinstance(reason, str) else "")
    if not any(answer for answer, _ in answers.values()):
        raise UnreadableError(
            "no_answer",
            "items: there is no answer: met, not_met or cannot_assess is missing",
        )
    return answers


def _item_number(value: Any, count: int) -> int | None:
    """Return the number of an item, from 1 to `count`; `None` if it is not one."""
    if isinstance(value, str) and len(value) <= 5 and value.strip().isdecimal():
        value = int(value)
    whole = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and value == value // 1
    )
    if whole and 1 <= value <= count:
        return int(value)
    return None


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
    return choose_mark(reply, marks, read_item_answer, take=take, form=WANTED)


def read_marked_items(
    reply: Reply, count: int
) -> dict[int, tuple[ItemAnswer | None, str]]:
    """Return answers and reasons in double brackets, `[[2: met]]`, as `read_item_entries` does.

    The reason is the text on the mark's line before it. The answer is `None` if the mark is also in
    the texts under judgment, may be denied, doubted or struck, or contradicts an earlier one; and
    within a sentence, if the judge was asked for it `at_end`.

    Raises:
        UnreadableError: If there is no mark with an item's number, or one with another number.
    """
    text = without_special_tokens(drop_thinking(reply.text, reply.sources))
    quoted = {
        mark.content
        for source in reply.sources
        for spelling in (source, unescape(source))
        for mark in marks(spelling)
    }
    answers: dict[int, tuple[ItemAnswer | None, str]] = {}
    for mark in marks(text):
        read = _NUMBERED.match(to_half_width(mark.content))
        if read is None:
            continue
        number = int(read["number"])
        if not 1 <= number <= count:
            raise UnreadableError(
                "invalid",
                f"there is no item {number}: items are numbered from 1 to {count}",
            )
        within = reply.at_end and not _AFTER_ITEM.match(text, mark.end)
        within = within or is_denied(text, mark.start) or is_doubted(text, mark.end)
        within = within or is_struck(text, mark.start, mark.end)
        if within or mark.content in quoted:
            answer = None
        else:
            answer = _answer_or_none(read["answer"])
        # Two marks for an item that differ: the item is missing, not the last one right.
        if number in answers and answers[number][0] != answer:
            answer = None
        answers[number] = (answer, _reason(text, mark))
    if not any(answer for answer, _ in answers.values()):
        raise UnreadableError(
            "no_answer", "there is no answer: [[1: met]] for each item is missing"
        )
    return answers


def _reason(text: str, mark: Mark) -> str:
    line = text[text.rfind("\n", 0, mark.start) + 1 : mark.start]
    return line.strip().strip("*-").strip()
