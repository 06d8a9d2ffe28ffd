"""Thinking that a model leaves in its answer, and characters in other widths."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evalkit.parsing.escapes import undone

_TAG = re.compile(r"<(/?)(think|thinking|thought|reasoning)>", re.IGNORECASE)

_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord("【"): "[",
    ord("】"): "]",
    ord("〔"): "[",
    ord("〕"): "]",
    0x3000: " ",
}


def drop_thinking(text: str, sources: Sequence[str] = ()) -> str:
    """Return `text` without its thinking blocks, each a paragraph's end; one that never ends takes the rest with it.

    Where a text under judgment in `sources` has such tags, too, the judge may be quoting them: then only a block that
    the text begins with is the judge's own.
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return text
    if any(_TAG.search(undone(source)) for source in sources):
        return _without_first(text, tags)
    closing = _next_closing(tags)
    kept, done, left = [], 0, []
    for tag, end in zip(tags, closing, strict=True):
        if tag.start() < done:
            continue
        if tag[1] or end is None:
            left.append(tag)
        else:
            kept.append((done, tag.start()))
            done = end
    begin = _end_of_opened_before(left)
    pieces = [text[max(start, begin) : stop] for start, stop in [*kept, (done, len(text))] if stop > begin]
    opened = next((tag for tag in left if not tag[1]), None)
    said = "\n\n".join(pieces)
    # What begins with thinking that does not end is thinking.
    return "" if opened is not None and _TAG.match(said.lstrip()) else said


def _without_first(text: str, tags: Sequence[re.Match[str]]) -> str:
    first = tags[0]
    if first[1] or text[: first.start()].strip():
        return text
    end = _next_closing(tags)[0]
    return "" if end is None else text[end:]


def _end_of_opened_before(tags: Sequence[re.Match[str]]) -> int:
    """Return where thinking ends that a chat template began, so that the text starts inside it; 0 if none does."""
    end = 0
    for tag in tags:
        if not tag[1]:
            break
        end = tag.end()
    return end


def _next_closing(tags: Sequence[re.Match[str]]) -> list[int | None]:
    """Return for each tag where the next closing tag of its name ends."""
    ends: dict[str, int] = {}
    found: list[int | None] = []
    for tag in reversed(tags):
        if tag[1]:
            ends[tag[2].lower()] = tag.end()
        found.append(ends.get(tag[2].lower()))
    return found[::-1]


def half_width(text: str) -> str:
    """Return `text` with full-width letters, digits, signs and square brackets as ASCII, character for character."""
    return text.translate(_HALF_WIDTH)
