"""Normalize texts (thinking, escapes, full-width forms), detect refusals, and read
scores strictly.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from evalkit.core.patterns import lazy_pattern
from evalkit.core.scale import Classes, Scale
from evalkit.core.types import Winner

_TAG = lazy_pattern(
    r"<(/?)(think|thinking|thought|reasoning|scratchpad)>", re.IGNORECASE
)

_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord("【"): "[",
    ord("】"): "]",
    ord("〔"): "[",
    ord("〕"): "]",
    0x3000: " ",
}


def drop_thinking(text: str, sources: Sequence[str] = ()) -> str:
    """Return `text` without thinking blocks, each replaced by a paragraph break.

    An unclosed block extends to the end.

    If a text under judgment in `sources` also has such tags, the judge may be quoting them. Then
    only a block at the beginning of the text is the judge's own.
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return text
    if any(_TAG.search(unescape(source)) for source in sources):
        return _without_first(text, tags)
    # closing[i] is the end of the tag that closes tags[i]; `None` if nothing does.
    closing = _next_closing(tags)
    kept = []
    done = 0
    unmatched = []
    for tag, end in zip(tags, closing, strict=True):
        # Inside a block that was already dropped.
        if tag.start() < done:
            continue
        if tag[1] or end is None:
            unmatched.append(tag)
        else:
            kept.append((done, tag.start()))
            done = end
    # A closing tag without an opening one: the chat template had written `<think>` itself.
    begin = _end_of_opened_before(unmatched)
    pieces = [
        text[max(start, begin) : stop]
        for start, stop in [*kept, (done, len(text))]
        if stop > begin
    ]
    opened = next((tag for tag in unmatched if not tag[1]), None)
    answer = "\n\n".join(pieces)
    # A text that begins with unclosed thinking is all thinking.
    if opened is not None and _TAG.match(answer.lstrip()):
        return ""
    return answer


def _without_first(text: str, tags: Sequence[re.Match[str]]) -> str:
    first = tags[0]
    if first[1] or text[: first.start()].strip():
        return text
    end = _next_closing(tags)[0]
    if end is None:
        return ""
    return text[end:]


def _end_of_opened_before(tags: Sequence[re.Match[str]]) -> int:
    """Return the end of thinking that the chat template opened before the text; 0 if
    there is none.
    """
    end = 0
    for tag in tags:
        if not tag[1]:
            break
        end = tag.end()
    return end


def _next_closing(tags: Sequence[re.Match[str]]) -> list[int | None]:
    """Return, for each tag, the end of the next closing tag with its name."""
    ends: dict[str, int] = {}
    closings: list[int | None] = []
    # From the end, so that each tag sees the nearest closing one after it: linear time.
    for tag in reversed(tags):
        if tag[1]:
            ends[tag[2].lower()] = tag.end()
        closings.append(ends.get(tag[2].lower()))
    return closings[::-1]


def to_half_width(text: str) -> str:
    """Replace full-width letters, digits, signs and square brackets by ASCII, one
    character each.
    """
    return text.translate(_HALF_WIDTH)


_UNABLE = (
    r"(?:can(?:no|')t|can not|won't|will not|(?:am|'m) (?:unable|not able|not comfortable)"
    r"|(?:must |respectfully |politely )*decline)"
)
_DEEDS = (
    r"(?:assist|help|comply|fulfil|engage|continue|participate|evaluat|judg"
    r"|rat(?:e|ing)\b|scor(?:e|ing)\b|compar|provid"
    r"|produc|respond|answer|process|discuss|rewrit|rephras|paraphras|do (?:that|this)|with"
    r" (?:that|this))"
)
_SORRY = (
    r"(?:i(?:'m| am) (?:very |really |so )?(?:sorry|afraid)|sorry|(?:my |i"
    r" )?apolog\w+|unfortunately)"
)
_ENGLISH = lazy_pattern(
    rf"\A\W*(?:{_SORRY}\b[^\n]{{0,60}}?)?(?:as an ai\b[^.\n]{{0,60}}?)?\bi"
    rf" ?{_UNABLE}\b[^.\n]{{0,60}}?\b{_DEEDS}",
    re.IGNORECASE,
)
_CHINESE = lazy_pattern(
    r"\A\W*(?:(?:很|非常|十分)?(?:抱歉|对不起|遗憾)[^\n]{0,30}?|作为(?:一个|一名)?(?:AI|人工智能|语言模型)[^。"
    r"\n]{0,30}?)?"
    r"我?(?:无法|不能|不便|没有办法|拒绝)[^。"
    r"\n]{0,20}?(?:协助|帮助|提供|评估|评价|评判|评分|打分|比较|回答|回应|满足|继续|处理|讨论|改写|重写|转述)",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """Return whether a text, in English or Chinese, begins with a refusal."""
    opening = text.lstrip()[:300].replace("’", "'")
    return bool(_ENGLISH.match(opening) or _CHINESE.match(opening))


_ROUNDS = 3
_CODE = lazy_pattern(
    r"(?<!\\)\\+(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2}))"
)
_NO_CHARACTER = lazy_pattern(
    r"&#[xX]?[0-9a-fA-F]{9,}"
)  # more digits than any character has; Python may not parse them
_PERCENT = lazy_pattern(r"%([2-7][0-9a-fA-F])")
_BACKSLASHED = lazy_pattern(r"\\+([^\w\s])")
_INVISIBLE = ("Cf", "Mn", "Me")
_LETTER = lazy_pattern(
    r"(?<!\\)(?:\\\\)*\\u00(?:3[0-9]|4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])",
    re.IGNORECASE | re.ASCII,
)


@lru_cache(maxsize=64)
def unescape(text: str) -> str:
    """Undo the escapes of JSON, HTML, URLs and Markdown in a text, also nested ones.

    Invisible characters are dropped, and full-width characters are normalized.
    """
    # Escapes may be nested, as in JSON inside of HTML; the bound is against endless ones.
    plain = text
    for _ in range(_ROUNDS):
        unescaped = _unescape_once(plain)
        if unescaped == plain:
            break
        plain = unescaped
    return plain


def _unescape_once(text: str) -> str:
    """Undo the outermost escapes; see `unescape`."""
    named = html.unescape(_NO_CHARACTER.sub("", text)) if "&" in text else text
    coded = _CODE.sub(_character, named)
    # `%41` is the hexadecimal code of a character.
    percent = _PERCENT.sub(lambda match: chr(int(match[1], 16)), coded)
    plain = _BACKSLASHED.sub(r"\1", percent)
    if plain.isascii():
        return plain
    # Invisible characters could split a name, and look-alike widths could disguise it.
    visible = "".join(
        char for char in plain if unicodedata.category(char) not in _INVISIBLE
    )
    return unicodedata.normalize("NFKC", visible)


def spells_letters(text: str) -> bool:
    r"""Return whether JSON has escapes for plain letters or digits, such as
    `\u0077inner`; no model writes these.
    """
    return "\\u00" in text and _LETTER.search(text) is not None


def _character(match: re.Match[str]) -> str:
    code = int(next(group for group in match.groups() if group), 16)
    if code <= 0x10FFFF:
        return chr(code)
    return match[0]


Kind = Literal[
    "empty",
    "truncated",
    "no_answer",
    "ambiguous",
    "invalid",
    "logprobs",
    "refusal",
    "content_filter",
]


class UnreadableError(Exception):
    """A judge's text has no usable answer; it becomes the status of a judgment and is
    never shown to the user.

    Args:
        kind: The kind of problem.
        reason: The problem in one line that can be shown to the judge.
    """

    def __init__(self, kind: Kind, reason: str) -> None:
        self.kind = kind
        self.reason = " ".join(reason.split())
        super().__init__(self.reason)


_DIGITS = MappingProxyType(
    {numeral: str(value) for value, numeral in enumerate("零一二三四五六七八九")}
    | {"〇": "0", "两": "2"}
)
_ONES = "一二两三四五六七八九"
_CHINESE_SCORE = lazy_pattern(
    rf"(?:(?P<hundred>一百)|(?P<tens>[{_ONES}]?十)?(?P<ones>[{_ONES}零〇])?)"
    rf"(?:点(?P<decimals>[{_ONES}零〇]+))?"
)
_NUMERAL = f"[{_ONES}零〇十百]"
_OUT_OF = r"[ \t]*(?:/|(?:out )?of|sur|von|из|de|su)[ \t]*\d+(?:\.\d+)?"
_RANGE = "[-~–—]"
_LONGEST = 64  # characters of a number and of its context
_BEFORE = lazy_pattern(rf"(?:\d[\d.,]*{_RANGE}?|(?<![\w)\]])[+-]|{_NUMERAL}+点?)\Z")
_AFTER = lazy_pattern(
    rf"点?{_NUMERAL}+|(?:[.,]?\d)*(?:[%¼½¾²³]|{_RANGE}\d[\d.]*|{_OUT_OF})?",
    re.IGNORECASE,
)
_BASE = lazy_pattern(
    rf"{_OUT_OF}|[ \t]*%"
    r"|(?:[ \t]*分)?[ \t]*\((?:/|(?:out )?of|满分)[ \t]*\d+(?:\.\d+)?[ \t]*(?:分|points?)?\)",
    re.IGNORECASE,
)
_BASE_BEFORE = lazy_pattern(
    r"(?:\bscale (?:of |from )?\d+ ?(?:to|-|–) ?|\bout of |满分 ?)"
    r"(?P<scale>\d+(?:\.\d+)?)[^\d\n]*\Z"
    r"|\b\d+ ?(?:to|-|–) ?(?P<named>\d+(?:\.\d+)?)(?:-point)? scale[^\d\n]*\Z",
    re.IGNORECASE,
)
_SPECIAL = lazy_pattern(r"(?:<\|[\w-]{1,30}\|>\s*)+\Z")
_TAIL = 200


def chinese_number(text: str) -> float | None:
    """Return the value of a Chinese numeral from 零 (0) to 一百 (100); `None` if it is not one.

    Decimals follow 点, the decimal point.
    """
    match = _CHINESE_SCORE.fullmatch(text)
    if match is None or not (match["hundred"] or match["tens"] or match["ones"]):
        return None
    if match["tens"] and match["ones"] in ("零", "〇"):
        return None
    # The value is 10 times the tens plus the ones; 一百 counts as ten tens.
    if match["hundred"]:
        tens = 10
    else:
        if match["tens"] and match["tens"] != "十":
            tens = int(_DIGITS[match["tens"][0]])
        else:
            tens = 0
    whole = 10 * (tens or (1 if match["tens"] else 0)) + int(
        _DIGITS[match["ones"] or "零"]
    )
    return float(
        f"{whole}.{''.join(_DIGITS[digit] for digit in match['decimals'] or '零')}"
    )


def extent(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the start and the end of the complete number that contains `text[start:end]`.

    For 1 in "10" it is 10, for 8 in "8/10" it is 8/10, and for 3 in "3-4" it is the range. The
    span of a text without a number is unchanged. At most `_LONGEST` characters are read on either
    side.
    """
    if not re.search(rf"\d|{_NUMERAL}", text[start:end]):
        return start, end
    # Only the surroundings are searched: a scan of the whole text for each number is quadratic.
    skipped = max(0, start - _LONGEST)
    if re.match(rf"\d|{_NUMERAL}", text[start:end]):
        before = _BEFORE.search(text[skipped:start])
    else:
        before = None
    if re.search(rf"(?:\d|{_NUMERAL})\Z", text[start:end]):
        after = _AFTER.match(text, end, end + _LONGEST)
    else:
        after = None
    return skipped + before.start() if before else start, after.end() if after else end


def with_base(text: str, end: int) -> int:
    """Return the end of "/5", "out of 5" or "%" at `end`; `end` if there is none."""
    match = _BASE.match(text, end)
    if match:
        return match.end()
    return end


_BARE = lazy_pattern(r"\d+(?:\.\d+)?")
_SIGNS = "~≈≤≥±.-"


def in_context(text: str, content: str, span: tuple[int, int], end: int) -> str:
    """Return the content of a marked score with what is around the mark and belongs to the number.

    Args:
        text: The text in half width.
        content: What is in the mark.
        span: The span of the mark.
        end: The end of its base, such as "/5"; the mark's own end if it has none.
    """
    start, mark_end = span
    written = content + text[mark_end:end]
    earliest = max(0, start - _LONGEST)
    line = text[max(text.rfind("\n", earliest, start) + 1, earliest) : start]
    # "On a scale of 1 to 10: [[4]]" is not 4 of 5.
    named = _BASE_BEFORE.search(line)
    if named is not None and _BARE.fullmatch(written):
        written = f"{written}/{named['scale'] or named['named']}"
    # The sign of "~[[4]]", "3.[[4]]" or "[[4]]+" is that of the number; another mark may be
    # before it.
    if line and line[-1] in _SIGNS and not line[:-1].endswith("]"):
        written = line[-1] + written
    if text.startswith("+", end):
        written += "+"
    return written


def without_special_tokens(text: str) -> str:
    """Return a text without the tokens of a chat template at its end, such as `<|im_end|>`."""
    # Only the end is searched, since a text can be long.
    tail = text[-_TAIL:]
    special = _SPECIAL.search(tail) if "<|" in tail else None
    if special is None:
        return text
    return text[: len(text) - len(tail) + special.start()]


_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_UNIT = r"(?:分|星|points?|stars?)?"
_WRITTEN = lazy_pattern(
    rf"(?P<score>{_NUMBER})\s*{_UNIT}\s*"
    rf"(?:(?P<open>\()?(?:/|(?:out )?of|sur|von|из|de|su|满分)\s*(?P<of>{_NUMBER})"
    rf"\s*{_UNIT}(?(open)\))"
    rf"|(?P<percent>%))?\s*{_UNIT}\s*[.。]?",
    re.IGNORECASE,
)


def read_score(value: object, scale: Scale) -> float:
    """Return a score written as a number or a text, in scale units.

    Such as `4`, `3.5/5`, `４`, `4分` or `四分`.

    Raises:
        UnreadableError: If it has no such form, its denominator is not the scale's maximum, or it
            is off the scale.
    """
    if isinstance(value, str):
        value = _parse_number(value, scale)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableError(
            "invalid",
            f"{value!r:.60} is not a score: write a number on the scale {scale.name()}",
        )
    # Checked before the conversion: an integer can be too large for a float.
    # Off the scale is an error: the nearest value would hide a judge that misread the scale.
    if not scale.contains(value):
        raise UnreadableError(
            "invalid", f"{value!s:.60} is not on the scale {scale.name()}"
        )
    # Adding 0 turns -0.0 into 0.0.
    return float(value) + 0.0


def _parse_number(text: str, scale: Scale) -> float:
    """Return a number that is written as `4`, `4/5`, `80%` or in Chinese; it may be off the scale.

    Raises:
        UnreadableError: If it is not a number, or is a part of another whole than the scale's.
    """
    plain = to_half_width(text).strip().strip("*")
    numeral = chinese_number(re.sub(r"[分。]*\Z", "", plain))
    if numeral is not None:
        return numeral
    written = _WRITTEN.fullmatch(plain)
    if written is None:
        raise UnreadableError(
            "invalid",
            f"'{text.strip()[:60]}' is not a score: write a number on the scale {scale.name()}",
        )
    # 4/5 on a scale to 10 is not 4, and nobody said that it is 8.
    base = 100.0 if written["percent"] else float(written["of"] or scale.max)
    if base != scale.max:
        raise UnreadableError(
            "invalid", f"'{plain[:60]}' is not a score out of {scale.text(scale.max)}"
        )
    return float(written["score"])


def read_class(value: object, classes: Classes) -> str:
    """Return the class, or the abstention, if a value is a text that contains only its
    name, in any case.

    Raises:
        UnreadableError: If it is anything else; the nearest name is never chosen.
    """
    class_name = None
    # `~~good~~` is struck through.
    if isinstance(value, str) and not value.lstrip().startswith("~~"):
        class_name = classes.find(value)
    if class_name is None:
        text = value.strip() if isinstance(value, str) else repr(value)
        raise UnreadableError(
            "invalid",
            f"'{text[:60]}' is not a class: write one of {', '.join(classes.answers)}",
        )
    return class_name


_TIES = ("TIE", "TIED", "DRAW", "EQUAL", "平局", "平手", "打平", "持平")
_SPELLINGS = MappingProxyType({"A": "A", "B": "B"} | dict.fromkeys(_TIES, "TIE"))
_TITLE = lazy_pattern(
    r"\A(?:(?:THE )?(?:RESPONSE|ASSISTANT|ANSWER|OUTPUT)["
    r" _]?|响应|回答|回复|答案)\(?(?P<letter>[AB])\)?\Z"
)


def read_winner(text: str) -> Winner:
    """Return the winner if a text contains only a winner, such as `A`, `tie`, or `平局`.

    Raises:
        UnreadableError: If it does not.
    """
    spelt = to_half_width(text).strip().strip("\"'`*.。").strip().upper()
    titled = _TITLE.match(spelt)
    winner = _SPELLINGS.get(titled["letter"].strip() if titled else spelt)
    if winner is None:
        raise UnreadableError(
            "invalid", f"'{text.strip()[:60]}' is not a winner: write A, B, or TIE"
        )
    if winner == "A":
        return "A"
    if winner == "B":
        return "B"
    return "TIE"


_TITLES = (
    r"(?:THE )?(?:RESPONSE|ASSISTANT|ANSWER|OUTPUT|OPTION|MODEL|CANDIDATE|CHOICE|WINNER|TEXT)"
    r"|响应|回答|回复|答案|选项|模型|候选|助手|胜者|获胜者|我?选择?"
)
_SIDE = (
    "(?:(?:"
    + _TITLES
    + r")[ :=]*)?[\[(]{{0,2}}(?P<side{0}>[AB甲乙])[\])]{{0,2}}(?:的(?:回答|回复|响应))?"
)
_PLACE = (
    r"(?:THE )?(?P<place>FIRST|SECOND)(?: (?:RESPONSE|ASSISTANT|ANSWER|OUTPUT|OPTION|ONE))?"
    r"|第(?P<number>[一二])(?:个|条|份)?(?:回答|回复|响应|答案)?"
    r"|(?P<relative>[前后])者|(?:回答|回复|响应)(?P<numeral>[一二])"
)
_PRAISE = (
    r"(?:(?:IS|WAS) )?(?:THE )?(?:SLIGHTLY |MUCH |CLEARLY |SIGNIFICANTLY |FAR |OVERALL )?"
    r"(?:BETTER|BEST|WINNER|PREFERRED|SUPERIOR)(?: (?:RESPONSE|ANSWER|ONE|OVERALL))?|WINS|WON"
    r"|(?:明显|显然)?更好(?:一些|一点)?|更优秀?|更佳|优|较好|较优|[略稍][好优]|[更略]胜一筹|胜出|获胜|胜|赢"
)
_FIRST_SIDE = _SIDE.format(1)
_OTHER_SIDE = _SIDE.format(2)
_ONE_SIDE = lazy_pattern(
    rf"(?:{_FIRST_SIDE}|{_PLACE})(?: ?(?:{_PRAISE})(?: THAN {_OTHER_SIDE})?)?"
)
_BEATS = lazy_pattern(
    rf"{_FIRST_SIDE} ?(?P<sign>>{{1,3}}|<{{1,3}}|={{1,3}}|≈|BEATS|优于|好于|不如) ?{_OTHER_SIDE}"
)
_TIE = lazy_pattern(
    r"(?:IT(?: I|')S )?(?:A )?(?:TIE|TIED|DRAW)(?: ?\((?:BOTH ?(?:BAD|GOOD)|EQUAL)\))?"
    r"|C|\[\[C\]\]|(?:THE )?SAME|EQUAL|EQUALLY (?:GOOD|BAD)|EVEN"
    r"|BOTH (?:ARE )?(?:EQUAL|EQUALLY GOOD|EQUALLY BAD|GOOD|BAD)"
    r"|(?:两者|双方)?(?:平局|平手|打平|持平|平|相同|一样好?|不相上下|相当)"
)
_SIDES: MappingProxyType[str, Winner] = MappingProxyType(
    {
        "A": "A",
        "甲": "A",
        "FIRST": "A",
        "一": "A",
        "前": "A",
        "B": "B",
        "乙": "B",
        "SECOND": "B",
        "二": "B",
        "后": "B",
    }
)


def read_verdict(text: str) -> Winner:
    """Return the winner that a judge names, in any of the spellings that have one meaning.

    Beyond `read_winner`, these are titles (`Option A`, `model_a`), places (`first`), sentences
    (`A is better`), comparisons (`A>B`, `A=B`), `C` for a tie as in double brackets, and Chinese.

    Raises:
        UnreadableError: If it names none, or both.
    """
    # A sign of exclamation ends a verdict; before a name it is a denial.
    spelt = to_half_width(text).replace("_", " ").strip()
    spelt = spelt.strip("\"'`*.。;").rstrip("!\"'`*.。;").strip()
    spelt = " ".join(spelt.upper().split())
    if _TIE.fullmatch(spelt):
        return "TIE"
    # "A is better than B" is a verdict; "A is better than A" is none.
    if (named := _ONE_SIDE.fullmatch(spelt)) is not None:
        names = ("side1", "place", "number", "relative", "numeral")
        letter = next(named[name] for name in names if named[name])
        winner = _SIDES[letter]
        second_side = named["side2"]
        if second_side is None or _SIDES[second_side] != winner:
            return winner
    if (compared := _BEATS.fullmatch(spelt)) is not None:
        left_side = _SIDES[compared["side1"]]
        right_side = _SIDES[compared["side2"]]
        sign = compared["sign"]
        if left_side != right_side:
            if sign[0] in "=≈":
                return "TIE"
            if sign[0] == "<" or sign == "不如":
                return right_side
            return left_side
    return read_winner(text)
