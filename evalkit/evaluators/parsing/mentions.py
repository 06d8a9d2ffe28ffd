"""Tell a mark that states a verdict from one that is only mentioned: denied, or one of a list."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from evalkit.core.patterns import lazy_pattern

_NO = (
    r"\b(?:(?<!or )(?:can)?not|never|neither|nor|than|over|instead of"
    r"|unlike|except|beats|versus|vs\.?"
    r"|hardly|barely|scarcely|far from|anything but|short of|fail(?:s|ed)? to"
    r"|almost|nearly|partial(?:ly)?|partly|half|might|could|may"
    r"|about|around|roughly|approximately|at (?:least|most)|up to|below|above|under"
    r"|wrong to|hesitate to|reluctant to|tempted (?:by|to)|is (?:it|this)"
    r"|(?:(?:asked|instructed|supposed|required|ordered) to|please|you must)"
    r" (?:answer|output|write|say|respond|reply|return|print)(?: with)?)"
    r"|n['’]t"
    r"|不是|并非|而非|不选择?|不会选择?|不应该?选?择?|不为|不如|优于|好于|胜过|没有选?择?|无法选?择?"
    r"|(?:不能|不可|很难|难以)(?:说是?|判为|评为|选择?)?|没有?理由选?择?|难道是?"
    r"|[谈算称说够]不上|不属于|远非|未达到|尚?未|部分|基本|不[到值足]|[给达]不到"
    r"|\b(?:nicht|kein(?:e[nrsm]?)?|kaum|pas|jamais|nunca|não|mai|не|никогда|нельзя|вряд ли)"
    r"|(?:\b|(?<=_))(?:no|nunca|tampoco|não|nem|non|не)"
    r" (?:es|sería|elijo|elegiría|escojo|escogería|prefiero|gana|é|seria|escolho|escolheria"
    r"|prefiro|vence|è|sarebbe|scelgo|sceglierei|vince|выбираю|выберу|выбрал бы|считаю)"
    r"|\b(?:(?:any(?:one|thing|body)|every(?:one|thing)|all) but|opposite of|against|no way it['’]s"
    r"|example|e\.g\.|claims?|rejected|eliminated|disqualified|tentative(?:ly)?)[:：]?"
    r"|\b(?:ungefähr|etwa|fast|höchstens|mindestens|unter|über|(?:weniger|mehr) als|environ"
    r"|presque|au (?:moins|plus)|(?:moins|plus) de|casi|(?:menos|más) de|al menos|около|почти"
    r"|(?:менее|более)|quase|pelo menos|circa|quasi|almeno|max)"
    r"|約|(?<=\d)(?:[-–—/]|\s+(?:to|or|bis)\s+)"
    r"|大约|约|接近|将近|至少|最多|超过|[低高少多]于|不"
    r"|\b(?:mostly|largely|none (?:is|are)|without|niet|nie|teil(?:s|weise)|en (?:partie|parte)"
    r"|in parte|partiellement|parcialmente|parzialmente|gedeeltelijk|частично)|几乎|ليس"
)
_UNSURE = (
    r"(?:\b(?:maybe|perhaps|possibly|vielleicht|möglicherweise|eventuell|peut-être|tal vez|quizás?"
    r"|a lo mejor|talvez|возможно|может быть|forse|misschien|belki|może|initially|almost said"
    r"|at first(?: glance| sight)?|auf den ersten blick|à première vue|a primera vista)"
    r"|也许|或许|(?<![很有])可能|大概|说不定|乍一看|起初|たぶん|おそらく|もしかすると"
    r"|어쩌면|아마도?|ربما|शायद)"
    r"[,，、]?(?:\s*(?:it(?:['’]s| is)|the (?:answer|winner|verdict) is|是))?"
)
"""Words that leave a verdict open: it may be another one, or was another one later."""
_FILLERS = (
    r"be|been|yet|fully|considered|judged|rated|as|say|choose|pick|select"
    r"|prefer|call it|go with|vote for|an?|the|for|argue|give|get|reach"
    r"|deserves?|merits?|earns?|worth"
    r"|necessarily|simply|clearly|really|just|quite|definitely"
)
_DENIED = lazy_pattern(
    rf"(?:{_NO}|{_UNSURE})(?:\s+(?:{_FILLERS})){{0,3}}[\s*_`\"'“‘(]*\Z", re.IGNORECASE
)
_NOT_THE_VERDICT = lazy_pattern(
    r"(?:\A|[^\w\s])\W*(?:the )?(?:(?:loser|worse|worst|weaker|weakest|rejected|eliminated|inferior"
    r"|runner.up|second.(?:place|best)|2nd(?: place)?|preliminary|initial|tentative|draft"
    r"|expected|options|(?:output )?format|reference|provisional"
    r"|verlierer|schlechter(?:e[rs]?)?|perdant|moins bonne|perdedor|peor|pior"
    r"|проигравший|хуже|败者|输家|较差|更差|敗者|패자|初步)"
    r"(?: ?(?:response|answer|verdict|impression|guess|judgment|decision|option|one|place"
    r"|antwort|réponse|respuesta|resposta|ответ|的?回答|判断|裁决))?)[\s*_]*[:：=|][\s*_`]*\Z",
    re.IGNORECASE,
)
"""A label before a mark that is about something else than who has won."""
_ANOTHER_SAYS = lazy_pattern(
    r"\b(?:response|assistant|answer|model) (?-i:[AB]) "
    r"(?:says|said|claims|states|asks|writes|wrote)\b[^.!?\n]*\Z",
    re.IGNORECASE,
)
"""Words before a mark that someone else says."""
_SYMBOLS = frozenset(
    "|<>+=~→⇒➡▶►∴●○◆◇■▪▫★☆✅✔☑✓🏆🥇🏅🎖👑⭐🌟✨🎯🎉👍👉🔹🔸🔷🔶🟢📌📝💡🔍🔥⚖🤖"
)
"""The symbols that may be directly before a mark; others may negate it."""
_UNSAID = ("!=", "≠", "[ ]", "[]", "/=", "=/=")
_STRUCK = (
    ("~~", "~~"),
    ("<s>", "</s>"),
    ("<del>", "</del>"),
    ("<strike>", "</strike>"),
    ("<!--", "-->"),
)
_DOUBT = frozenset("?？❌✗✘✖🚫👎❎⛔")
_NEAR = 12
_EMOJI_STYLE = "\ufe0f"
_LONGEST = 60
_LONGEST_LINE = 300
_IF = lazy_pattern(
    r"(?:\A|[.;!?。；！？])\W*(?:(?:if|unless)\b|如果|若|假如|要是|倘若)"
    r"(?! (?:i|we|one|you)\b| ?(?:我|必须|一定))[^.;!?。；！？]*\Z",
    re.IGNORECASE,
)
"""A condition, unless it is only that a choice has to be made."""
_OPENING = ("“", "「", "『", "«")
_CLOSING = ("”", "」", "』", "»")
_LISTED = lazy_pattern(
    r"[^\S\n]*(?:(?:[*_`,，、;；/|&+~–—<>=→-]+"
    r"|and|or|to|(?:out )?of|through|versus|vs\.?|maybe|perhaps|possibly|followed by"
    r"|ahead of|\d[.)]|和|或者?|与|比|到|至"
    r"|und|oder|et|ou|y|e|o|u|и|или|と|か|または|와|과|또는)[^\S\n]*)*",
    re.IGNORECASE,
)
"""What is between the parts of a list."""


def is_denied(text: str, start: int) -> bool:
    """Return whether the words before a mark, on its line, say that it is not the verdict."""
    # A line can be long, and have many marks: only the words near the mark are read.
    earliest = max(0, start - _LONGEST_LINE - 1)
    lead = text[max(text.rfind("\n", earliest, start) + 1, earliest) : start]
    return _denies(lead)


@lru_cache(maxsize=256)
def _denies(lead: str) -> bool:
    """Return whether the words before a mark deny it; an answer has the same ones many times."""
    if _DENIED.search(lead[-_LONGEST:]) or _NOT_THE_VERDICT.search(lead[-_LONGEST:]):
        return True
    if _ANOTHER_SAYS.search(lead) or _has_a_foreign_symbol(lead[-_NEAR:].rstrip()):
        return True
    if len(lead) > _LONGEST_LINE:
        return False
    return _IF.search(lead) is not None or _is_in_a_quotation(lead)


def _is_in_a_quotation(lead: str) -> bool:
    """Return whether a quotation has begun that says more than the mark."""
    begun = [lead.rfind('"')] if lead.count('"') % 2 else []
    for opening, closing in zip(_OPENING, _CLOSING, strict=True):
        if lead.rfind(opening) > lead.rfind(closing):
            begun.append(lead.rfind(opening))
    return any(re.search(r"\w", lead[start:]) for start in begun)


def _has_a_foreign_symbol(near: str) -> bool:
    """Return whether the last characters before a mark are a symbol that may negate it."""
    shown = near.rstrip(_EMOJI_STYLE)
    if shown.endswith(_UNSAID):
        return True
    last = shown[-1:]
    return (
        bool(last)
        and last not in _SYMBOLS
        and unicodedata.category(last) in ("So", "Sm")
    )


def is_struck(text: str, start: int, end: int) -> bool:
    """Return whether a mark is struck through, as in `~~[[A]]~~`, or in a comment."""
    before = text[max(0, start - _NEAR) : start].rstrip()
    after = text[end : end + _NEAR].lstrip()
    return any(
        before.endswith(opening) and after.startswith(closing)
        for opening, closing in _STRUCK
    )


def is_doubted(text: str, end: int) -> bool:
    """Return whether the sign after a mark says that it may not be the verdict, as in `[[A]]?`
    and `[[A]] (?)`.
    """
    after = text[end : end + _NEAR].lstrip(" \t*_`(（")[:1]
    return after in _DOUBT if after else False


def is_list(text: str, end: int, start: int) -> bool:
    """Return whether the text between two marks only joins them, as in `[[A]], [[B]] and [[C]]`."""
    return _LISTED.fullmatch(text, end, start) is not None
