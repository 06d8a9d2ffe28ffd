"""Normalize texts: remove thinking, escapes and full-width forms; and detect refusals."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_TAG = re.compile(r"<(/?)(think|thinking|thought|reasoning)>", re.IGNORECASE)

_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord("【"): "[",
    ord("】"): "]",
    ord("〔"): "[",
    ord("〕"): "]",
    0x3000: " ",
}


def drop_thinking(text: str, sources: Sequence[str] = ()) -> str:
    """Return `text` without thinking blocks, each replaced by a paragraph break; an unclosed block extends to the end.

    If a text under judgment in `sources` also has such tags, the judge may be quoting them. Then only a block at the
    beginning of the text is the judge's own.
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return text
    if any(_TAG.search(unescape(source)) for source in sources):
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
    rest = "\n\n".join(pieces)
    # A text that begins with unclosed thinking is all thinking.
    return "" if opened is not None and _TAG.match(rest.lstrip()) else rest


def _without_first(text: str, tags: Sequence[re.Match[str]]) -> str:
    first = tags[0]
    if first[1] or text[: first.start()].strip():
        return text
    end = _next_closing(tags)[0]
    return "" if end is None else text[end:]


def _end_of_opened_before(tags: Sequence[re.Match[str]]) -> int:
    """Return the end of thinking that the chat template opened before the text; 0 if there is none."""
    end = 0
    for tag in tags:
        if not tag[1]:
            break
        end = tag.end()
    return end


def _next_closing(tags: Sequence[re.Match[str]]) -> list[int | None]:
    """Return, for each tag, the end of the next closing tag with its name."""
    ends: dict[str, int] = {}
    found: list[int | None] = []
    for tag in reversed(tags):
        if tag[1]:
            ends[tag[2].lower()] = tag.end()
        found.append(ends.get(tag[2].lower()))
    return found[::-1]


def to_half_width(text: str) -> str:
    """Replace full-width letters, digits, signs and square brackets by ASCII, one character each."""
    return text.translate(_HALF_WIDTH)


_UNABLE = (
    r"(?:can(?:no|')t|can not|won't|will not|(?:am|'m) (?:unable|not able|not comfortable)"
    r"|(?:must |respectfully |politely )*decline)"
)
_DEEDS = (
    r"(?:assist|help|comply|fulfil|engage|continue|participate|evaluat|judg|rat(?:e|ing)\b|scor(?:e|ing)\b|compar|provid"
    r"|produc|respond|answer|process|discuss|rewrit|rephras|paraphras|do (?:that|this)|with (?:that|this))"
)
_SORRY = r"(?:i(?:'m| am) (?:very |really |so )?(?:sorry|afraid)|sorry|(?:my |i )?apolog\w+|unfortunately)"
_ENGLISH = re.compile(
    rf"\A\W*(?:{_SORRY}\b[^\n]{{0,60}}?)?(?:as an ai\b[^.\n]{{0,60}}?)?\bi ?{_UNABLE}\b[^.\n]{{0,60}}?\b{_DEEDS}",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    r"\A\W*(?:(?:很|非常|十分)?(?:抱歉|对不起|遗憾)[^\n]{0,30}?|作为(?:一个|一名)?(?:AI|人工智能|语言模型)[^。\n]{0,30}?)?"
    r"我?(?:无法|不能|不便|没有办法|拒绝)[^。\n]{0,20}?(?:协助|帮助|提供|评估|评价|评判|评分|打分|比较|回答|回应|满足|继续|处理|讨论|改写|重写|转述)",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """Return whether a text, in English or Chinese, begins with a refusal."""
    opening = text.lstrip()[:300].replace("’", "'")
    return bool(_ENGLISH.match(opening) or _CHINESE.match(opening))


_ROUNDS = 3
_CODE = re.compile(r"(?<!\\)\\+(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2}))")
_NO_CHARACTER = re.compile(r"&#[xX]?[0-9a-fA-F]{9,}")  # more digits than any character has; Python may not parse them
_PERCENT = re.compile(r"%([2-7][0-9a-fA-F])")
_BACKSLASHED = re.compile(r"\\+([^\w\s])")
_INVISIBLE = ("Cf", "Mn", "Me")
_LETTER = re.compile(r"(?<!\\)(?:\\\\)*\\u00(?:3[0-9]|4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])", re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=64)
def unescape(text: str) -> str:
    """Undo the escapes of JSON, HTML, URLs and Markdown in a text, also nested ones.

    Invisible characters are dropped, and full-width characters are normalized.
    """
    for _ in range(_ROUNDS):
        before = text
        text = html.unescape(_NO_CHARACTER.sub("", text)) if "&" in text else text
        text = _CODE.sub(_character, text)
        text = _PERCENT.sub(lambda match: chr(int(match[1], 16)), text)
        text = _BACKSLASHED.sub(r"\1", text)
        if not text.isascii():
            seen = "".join(char for char in text if unicodedata.category(char) not in _INVISIBLE)
            text = unicodedata.normalize("NFKC", seen)
        if text == before:
            break
    return text


def spells_letters(text: str) -> bool:
    r"""Return whether JSON has escapes for plain letters or digits, such as `\u0077inner`; no model writes these."""
    return "\\u00" in text and _LETTER.search(text) is not None


def _character(match: re.Match[str]) -> str:
    code = int(next(group for group in match.groups() if group), 16)
    return chr(code) if code <= 0x10FFFF else match[0]
