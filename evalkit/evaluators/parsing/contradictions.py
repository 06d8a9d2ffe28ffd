"""Notice that the words around a JSON object state another decision than the object."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from evalkit.core.patterns import lazy_pattern
from evalkit.core.types import Winner
from evalkit.evaluators.parsing.mentions import is_denied
from evalkit.evaluators.parsing.plain_text import (
    UnreadableError,
    drop_thinking,
    to_half_width,
    unescape,
)
from evalkit.evaluators.parsing.stated_verdicts import marks, on_their_own

T = TypeVar("T")

_TURN = (
    r"(?:(?:so|thus|hence|therefore|finally|on reflection|in conclusion|actually|wait|oops|sorry"
    r"|no|edit|update|correction|corrected|korrektur|moment|nein|doch|en fait|finalement"
    r"|corrección|en realidad|mejor dicho|correção|na verdade|исправление|нет|на самом деле)\b"
    r"|总之|综上所述|因此|所以|更正|修正|不对|其实|实际上|訂正|いや|정정|아니)"
)
_STATED = lazy_pattern(
    rf"(?:{_TURN}[,，:：.]? ?){{0,3}}(?:(?:my|the|我的) ?)?"
    r"(?P<last>(?:(?:final|overall|corrected|correct|actual|最终的?|总体的?|正确的?) ?)*)"
    r"(?:winner|verdict|decision|conclusion|class|category|label|answer|choice|pick|preference"
    r"|ranking"
    r"|(?:better|best) (?:response|answer|one|option)"
    r"|summary|result(?!s)"
    r"|gagnant|résultat(?: final)?|meilleure réponse|fazit|urteil|ergebnis|sieger|gewinner"
    r"|bessere antwort|ganador|veredicto|conclusión|resultado|mejor respuesta|vencedor|conclusão"
    r"|vincitore|conclusione|вывод|вердикт|итог|победитель|лучший ответ|結論|勝者|判定|결론|승자"
    r"|胜者|获胜者|结论|裁决|判定|类别|分类|答案|选择|排名|排序|更好的(?:回答|回复|响应)?)"
    r" ?(?:[:：=]|is\b|是|为)(?P<decision>.{1,60})",
    re.IGNORECASE,
)
"""A sentence that states a decision after its name; `last` says that it is the last one."""
_WON = lazy_pattern(
    r"(?:(?:response|answer|antwort|réponse|respuesta|resposta|risposta|ответ|回答|응답)\s*)?"
    r"(?P<first>(?-i:[AB]))\s*(?:wins\b|is (?:the )?(?:better|best|stronger|winner)\b"
    r"|ist (?:die )?bess|gewinnt|est (?:la )?meilleure?|gagne|l['’]emporte"
    r"|es (?:la )?mejor|gana\b|vence\b"
    r"|é (?:a )?melhor|è (?:la )?migliore|vince\b|лучше|побеждает|выигрывает"
    r"|(?:の方|のほう)?が優|の勝ち|[가이] 더)"
    r"|(?:gana|gagne|vince|vence|gewinnt|побеждает) (?:\w+ )?(?P<last>(?-i:[AB]))\Z",
    re.IGNORECASE,
)
"""Who has won, in the languages in which judges answer; more words may follow."""
_SENTENCE = lazy_pattern(r"(?<=[.!?。！？])\s*(?=\S)")
_BARE = lazy_pattern(
    rf"(?:{_TURN}[,，:：.]? ?)*(?:(?:it|this|the (?:response|answer|item)) (?:is|was) )?"
    r"(?P<decision>\S.{0,60})",
    re.IGNORECASE,
)
"""A last sentence that is nothing but a decision, as in "Actually, B is better."."""
_CLAUSE = lazy_pattern(r".*[,，、:：;；—–]\s*(?P<clause>\S.{0,60})", re.DOTALL)
"""The last clause of a sentence, as in "On a second look, B is better."."""
_TAKEN_BACK = lazy_pattern(
    r"(?:please |bitte )?(?:disregard|ignore)\b|scratch that|i take (?:that|it) back|never ?mind"
    r"|correction\b|corrección\b|correção\b|korrektur\b|исправление\b|更正|訂正|정정"
    r"|(?:[(\[]\s*)?(?:just kidding|to be revised|not final)\b",
    re.IGNORECASE,
)
"""How a sentence begins that takes back what was said before it."""
_TAGGED = lazy_pattern(
    r"<(final_answer|winner|verdict|decision|answer|choice|class|label)>([^<{]{1,60})</\1>",
    re.IGNORECASE,
)
_LETTER = lazy_pattern(
    r"(?<![A-Za-z0-9_])(B|(?<=\w )A|A(?! [a-zß-ÿ])"
    r"|A(?= (?:is|was|wins|won|beats|ist|gewinnt|est|gagne|es"
    r"|gana|vence|é|è|vince|bess|besser|would|could)\b))(?![A-Za-z0-9_+#'’])"
)
"""The name of a response; `A` before a word may be the article."""
_EVEN = lazy_pattern(
    r"\b(?:tied?|draw|equal(?:ly)?|equivalent|neither|unentschieden|gleich gut|égalité|se valent"
    r"|ex æquo|empate|empatad[oa]s?|pareggio|ничья|одинаков\w*|равн\w*)\b"
    r"|平局|平手|一样好|不相上下|难分|引き分け|同等|互角|무승부|동등",
    re.IGNORECASE,
)
_FAULTED = lazy_pattern(
    r"(?:(?:the )?(?:response|answer|assistant|antwort|réponse|respuesta|resposta|ответ|回答|回复)"
    r"\s*)?(?-i:[AB])\s*(?:(?:is|was) (?:(?:also|clearly|far|much|slightly|just|simply) )?"
    r"(?:worse|weaker|inferior|wrong|incorrect|inaccurate|incomplete|irrelevant|off[- ]topic)\b"
    r"|(?:lacks|misses|fails|omits|ignores|loses|hallucinates|contradicts)\b"
    r"|ist (?:falsch|schlechter|schwächer|unvollständig)\b|est (?:fausse?|moins bonne|incomplète)\b"
    r"|es (?:peor|incorrect[ao])\b|é (?:pior|incorret[ao])\b|хуже|неверен"
    r"|(?:更|较|比较)差|(?:是)?错误的?|不正确|有误|遗漏)(?P<more>.*)",
    re.IGNORECASE | re.DOTALL,
)
"""A sentence that begins with a fault of a response; `more` follows it."""
_UNREAL = lazy_pattern(
    r"\b(?:would|could) (?:win|be (?:better|best)|have (?:won|been (?:better|best)))\b.*\bif\b",
    re.IGNORECASE,
)
"""A victory under a condition that is not met."""
_TURNED = lazy_pattern(
    r"\b(?:but|however|yet|although|though|not|no|nothing|never|neither|nor|none|only|if|or|than"
    r"|would|aber|jedoch|nicht|kein\w*|nichts|mais|pas|rien|pero|nada|mas|но|не|ничего)\b"
    r"|n['’]t|但|不过|然而|只|[没不]|或|如果|\?",
    re.IGNORECASE,
)
"""What may turn a fault around, as in "B lacks nothing"."""
_OPEN = lazy_pattern(
    r"\?|\b(?:or|if|either|otherwise|depend\w*|decide|would|oder|wenn|entscheiden|ou|si|choisir"
    r"|o|decidir|se|или|если|выбрать)\b|或|如果|否则|无法|なら|どちら|か、|決め|결정|거나|면 ",
    re.IGNORECASE,
)
"""What a sentence has that names both responses and does not decide."""
_SHORT = 80
_BULLET = lazy_pattern(r"\A(?:[-•+]|\d{1,2}[.)])\s+")
_BOX = "\\boxed{"
_BOXED = lazy_pattern(r"\\boxed\{([^{}\n]{1,40})\}")
_EDGES = " \t*_#`~>.。!！|\"'“”"
_FIELDS = frozenset(
    (
        "winner",
        "verdict",
        "decision",
        "answer",
        "class",
        "label",
        "preference",
        "choice",
    )
)


def check_words(
    text: str,
    find_sources: Callable[[], Sequence[str]],
    read: Callable[[str], T],
    decision: T,
    *,
    winner: Winner | None = None,
) -> None:
    """Refuse an answer whose words outside of its JSON object state another decision.

    Args:
        text: The judge's text.
        find_sources: Returns the texts under judgment; a line from one of them is a quotation.
        read: Reads a decision, or raises UnreadableError.
        decision: The decision in the object.
        winner: The decision, if it is a winner.

    Raises:
        UnreadableError: If another decision is stated, or the last words cast doubt on it.
    """
    whole = text.strip()
    # Most answers are nothing but the object.
    if whole.startswith("{") and whole.endswith("}") and _BOX not in whole:
        return
    sources = find_sources()
    answer = to_half_width(drop_thinking(text, sources))
    answer = _BOXED.sub(r"<answer>\1</answer>", answer)
    begin = answer.find("{")
    end = answer.rfind("}") + 1
    if not 0 <= begin < end:
        return
    # What is said before the object may be about one criterion.
    for part, is_last in ((answer[:begin], False), (answer[end:], True)):
        own = _own_lines(part, sources)
        own_marks = [mark for mark in marks(own) if not is_denied(own, mark.start)]
        written = [mark.content for mark in on_their_own(own, own_marks)]
        written += _stated(own, is_last=is_last)
        _compare(written, read, decision, "the JSON object")
        if is_last:
            _check_last_words(own, read, decision, winner, "the JSON object")


def check_statements(
    text: str,
    sources: Sequence[str],
    read: Callable[[str], T],
    decision: T,
    *,
    winner: Winner | None = None,
) -> None:
    """Refuse an answer with a verdict in brackets whose lines state another one after its name.

    Args:
        text: The judge's text.
        sources: The texts under judgment.
        read: Reads a decision, or raises UnreadableError.
        decision: The decision in brackets.
        winner: The decision, if it is a winner.

    Raises:
        UnreadableError: If another decision is stated, or the last words cast doubt on it.
    """
    own = _own_lines(to_half_width(drop_thinking(text, sources)), sources)
    named = [written for written in _named(own, is_last=False) if "[[" not in written]
    _compare(named, read, decision, "the mark")
    own_marks = marks(own)
    if not own_marks:
        return
    after = own[own_marks[-1].end :]
    _compare(_stated(after, is_last=True), read, decision, "the mark")
    _check_last_words(after, read, decision, winner, "the mark")


def _check_last_words(
    own: str, read: Callable[[str], T], decision: T, winner: Winner | None, holder: str
) -> None:
    """Refuse words after a verdict that take it back, or end with something else about the winner.

    A short last sentence that names only the other response, that names both without deciding, or
    that has a word for a tie, is read strictly: it must state the same decision, or a fault of the
    other response.

    Raises:
        UnreadableError: If they do.
    """
    sentences = _sentences(own)
    for sentence in sentences:
        if _TAKEN_BACK.match(sentence) and not _says(sentence, read, decision):
            raise UnreadableError("ambiguous", f"the words after {holder} take it back")
    if winner is None or not sentences or len(sentences[-1]) > _SHORT:
        return
    last = sentences[-1]
    if _casts_doubt(last, winner) and not _says(last, read, decision):
        problem = f"{holder} says {winner} and the last words do not: '{last}'"
        raise UnreadableError("ambiguous", problem)


def _casts_doubt(sentence: str, winner: Winner) -> bool:
    """Return whether a sentence is about another end of the comparison than this winner."""
    named = {match[1] for match in _LETTER.finditer(sentence)}
    if winner != "TIE" and _EVEN.search(sentence):
        return True
    if len(named) == 2:
        return _OPEN.search(sentence) is not None
    if not named:
        return False
    if named == {winner}:
        return _UNREAL.search(sentence) is not None
    return not _is_a_fault(sentence)


def _is_a_fault(sentence: str) -> bool:
    """Return whether a sentence says nothing but what is wrong with the response that it names."""
    fault = _FAULTED.fullmatch(sentence)
    return fault is not None and _TURNED.search(fault["more"]) is None


def check_fields(
    answer: Mapping[str, object], read: Callable[[str], T], decision: T
) -> None:
    """Refuse an object that has another decision in a field that was not asked for.

    Raises:
        UnreadableError: If it has one.
    """
    written = [
        value
        for name, value in answer.items()
        if isinstance(value, str) and _field(name) in _FIELDS
    ]
    _compare(written, read, decision, "the JSON object")


def _field(name: str) -> str:
    folded = re.sub(r"[\s_-]+", "", name).casefold()
    return re.sub(r"\A(?:final|overall)", "", folded)


def _compare(
    written: Iterable[str], read: Callable[[str], T], decision: T, holder: str
) -> None:
    for words in written:
        try:
            stated = read(words)
        except UnreadableError:
            continue
        if stated != decision:
            problem = f"{holder} says {decision} and the text says {stated}"
            raise UnreadableError("ambiguous", problem)


def _says(sentence: str, read: Callable[[str], T], decision: T) -> bool:
    """Return whether a sentence states this decision."""
    for words in _stated(sentence, is_last=True):
        try:
            if read(words) == decision:
                return True
        except UnreadableError:
            continue
    return False


def _own_lines(part: str, sources: Collection[str]) -> str:
    """Return the lines of a part of an answer that are not from a text under judgment."""
    if not part.strip(_EDGES):
        return ""
    quoted = [*sources, *map(unescape, sources)]
    return "\n".join(
        line
        for line in part.splitlines()
        if line.strip() and not any(line.strip() in source for source in quoted)
    )


def _stated(own: str, *, is_last: bool) -> Iterator[str]:
    """Yield what is written as a decision: in a tag, after its name, or as the last sentence.

    Args:
        own: The judge's own words.
        is_last: Whether they are the last words of the answer.
    """
    yield from (tagged[2].strip(_EDGES) for tagged in _TAGGED.finditer(own))
    yield from _named(own, is_last=is_last)
    sentences = _sentences(own)
    if is_last and sentences:
        yield from _bare(sentences[-1])


def _bare(sentence: str) -> Iterator[str]:
    """Yield what a sentence may state as a decision: all of it, its last clause, or who has won."""
    if (bare := _BARE.fullmatch(sentence)) is not None:
        yield bare["decision"].strip(_EDGES)
    clause = _CLAUSE.fullmatch(sentence)
    last = sentence if clause is None else clause["clause"]
    yield last.strip(_EDGES)
    if (won := _WON.fullmatch(last.strip(_EDGES))) is not None:
        yield won["first"] or won["last"]


def _named(own: str, *, is_last: bool) -> Iterator[str]:
    """Yield what sentences state as a decision after its name.

    One before the last words of an answer may be about one criterion, so that it counts only if it
    says that it is the last one, or if it is the only one and nothing is before it.
    """
    sentences = _sentences(own)
    stated = [_STATED.fullmatch(sentence) for sentence in sentences]
    alone = len(stated) - stated.count(None) == 1
    for index, statement in enumerate(stated):
        if statement is None:
            continue
        if is_last or statement["last"] or (alone and index == 0):
            decision = statement["decision"].strip(_EDGES)
            if (won := _WON.match(decision)) is not None:
                yield won["first"] or won["last"]
                continue
            bare = _BARE.fullmatch(decision)
            if bare is not None:
                yield bare["decision"].strip(_EDGES)


def _sentences(own: str) -> list[str]:
    parts = (part for line in own.splitlines() for part in _SENTENCE.split(line))
    bare = (_BULLET.sub("", sentence.strip(_EDGES)) for sentence in parts)
    return [part for sentence in bare if (part := sentence.strip(_EDGES))]
