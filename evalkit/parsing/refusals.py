"""Telling a refusal from an answer that merely cannot be read; asked only once nothing could be read."""

from __future__ import annotations

import re

_UNABLE = (
    r"(?:can(?:no|')t|can not|won't|will not|(?:am|'m) (?:unable|not able|not comfortable)"
    r"|(?:must |respectfully |politely )*decline)"
)
_DEEDS = (
    r"(?:assist|help|comply|fulfil|engage|continue|participate|evaluat|judg|rat(?:e|ing)\b|scor(?:e|ing)\b|compar|provid"
    r"|produc|respond|answer|process|discuss|do (?:that|this)|with (?:that|this))"
)
_SORRY = r"(?:i(?:'m| am) (?:very |really |so )?(?:sorry|afraid)|sorry|(?:my |i )?apolog\w+|unfortunately)"
_ENGLISH = re.compile(
    rf"\A\W*(?:{_SORRY}\b[^\n]{{0,60}}?)?(?:as an ai\b[^.\n]{{0,60}}?)?\bi ?{_UNABLE}\b[^.\n]{{0,60}}?\b{_DEEDS}",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    r"\A\W*(?:(?:很|非常|十分)?(?:抱歉|对不起|遗憾)[^\n]{0,30}?|作为(?:一个|一名)?(?:AI|人工智能|语言模型)[^。\n]{0,30}?)?"
    r"我?(?:无法|不能|不便|没有办法|拒绝)[^。\n]{0,20}?(?:协助|帮助|提供|评估|评价|评判|评分|打分|比较|回答|回应|满足|继续|处理|讨论)",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """Say whether a text, in English or Chinese, opens by declining to do what was asked."""
    opening = text.lstrip()[:300].replace("’", "'")
    return bool(_ENGLISH.match(opening) or _CHINESE.match(opening))
