"""Conversations as numbered parts, and as texts with a heading above each part that no
text can imitate.

A heading is `[turn 3: user]`, `[turn 3: call search]` or `[turn 3: result of search]`; in a
conversation that is judged by steps, `[step 3: …]`. The headings of what is judged have `, judged`
after the number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from evalkit.core.lookalikes import visual_form
from evalkit.core.patterns import lazy_pattern
from evalkit.core.types import Case
from evalkit.core.values import frozen

Kind: TypeAlias = Literal["said", "call", "result"]
Unit: TypeAlias = Literal["turn", "step"]
CONVERSATION, TURN, TURNS, POSITION = "conversation", "turn", "turns", "position"
UNIT_KEYS: Final = (CONVERSATION, TURN, TURNS, POSITION)
"""The metadata of a case that is a turn or a step: the conversation's id, its number, their count,
number over count.
"""
_LONGEST_NAME: Final = 60
_HEADING: Final = lazy_pattern(
    r"^\[(turn|step) (\d+)(, judged)?: (call |result of |)([\w.-]+(?: \([\w.-]+\))?)\]$",
    re.MULTILINE,
)
_PREFIXES: Final[Mapping[str, Kind]] = {
    "": "said",
    "call ": "call",
    "result of ": "result",
}
_KINDS: Final = {kind: prefix for prefix, kind in _PREFIXES.items()}
_BRACKET: Final = lazy_pattern(r"[\[［【〔〖⟦❲⁅﹇]")
_LINE_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_ESCAPED: Final = "&#91;"
_CITED: Final = lazy_pattern(
    r"[\[［【]\s*(?:turn|step)s?\s*"
    r"(\d{1,9}(?:\s*(?:,\s*and|,|and|-|–)\s*(?:(?:turn|step)\s*)?\d{1,9})*)",
    re.I,
)


@frozen
class Part:
    """One part of a conversation.

    Attributes:
        turn: The number of its turn or step, from 1.
        kind: Whether it was said, is a call of a tool, or is the result of one.
        name: The role of who says it, with a name if there is one, or the tool.
        text: What was said, the arguments of the call, or the result.
        judged: Whether it belongs to the turn or step that is judged.
    """

    turn: int
    kind: Kind
    name: str
    text: str
    judged: bool = False


def speaker(role: object, name: object = None) -> str:
    """Return a role and a name as in a heading: a name is in parentheses."""
    if name:
        return f"{_word(role)} ({_word(name)})"
    return _word(role)


def _word(name: object) -> str:
    return re.sub(r"[^\w.-]+", "_", str(name))[:_LONGEST_NAME] or "unnamed"


def arguments_text(arguments: Any) -> str:
    """Return the arguments of a call, or a result, as text: JSON unless it is a text already."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, ensure_ascii=False, default=str)


def render(parts: Iterable[Part], unit: Unit = "turn") -> str:
    """Return parts as text, each below its heading.

    In a line that looks like a heading, also with look-alike or invisible characters, the bracket
    becomes `&#91;`.
    """
    return "\n\n".join(
        f"{_heading(part, unit)}\n{protected(part.text)}" for part in parts
    )


def _heading(part: Part, unit: Unit) -> str:
    role, _, name = part.name.partition(" (")
    if part.kind == "said":
        title = speaker(role, name.removesuffix(")"))
    else:
        title = _word(part.name)
    return f"[{unit} {part.turn}{', judged' if part.judged else ''}: {_KINDS[part.kind]}{title}]"


def protected(text: str) -> str:
    """Return a text in which no line looks like a heading."""
    pieces = []
    done = 0
    # A response could otherwise contain turns that nobody said.
    for bracket in _BRACKET.finditer(text):
        if _begins_line(text, bracket.start()) and _names_unit(text, bracket.end()):
            pieces += [text[done : bracket.start()], _ESCAPED]
            done = bracket.end()
    if pieces:
        return "".join([*pieces, text[done:]])
    return text


def _begins_line(text: str, at: int) -> bool:
    """Return whether only white space and invisible characters are between the
    beginning of a line and `at`.
    """
    for index in range(at - 1, -1, -1):
        if text[index] in _LINE_ENDS:
            return True
        if visual_form(text[index]).strip():
            return False
    return True


def _names_unit(text: str, at: int) -> bool:
    # compared by their looks, as a judge reads them
    letters = ""
    for index in range(at, len(text)):
        letters += visual_form(text[index]).strip()
        if len(letters) > len(TURN):
            return letters.startswith((TURN, "step")) and letters[len(TURN)].isdigit()
        if not (TURN.startswith(letters) or "step".startswith(letters)):
            return False
    return False


def parse(text: str) -> list[Part]:
    """Return the parts of a rendered conversation; nothing for a text without headings.

    The inverse of `render`, except that brackets stay escaped. A text before the first heading is
    not a part.
    """
    headings = list(_HEADING.finditer(text))
    # ends[i] is the end of part i: two line breaks before the next heading.
    ends = [*(match.start() - 2 for match in headings[1:]), len(text)]
    parts = []
    for match, end in zip(headings, ends, strict=False):
        _, number, judged, prefix, name = match.groups()
        content = text[match.end() + 1 : end]
        parts.append(Part(int(number), _PREFIXES[prefix], name, content, bool(judged)))
    return parts


def unit_of(text: str) -> Unit | None:
    """Return the unit that a text's headings number; `None` if it does not begin with a heading."""
    match = _HEADING.match(text)
    if match is None:
        return None
    if match[1] == "step":
        return "step"
    return "turn"


def parts_of(case: Case, index: int = 0) -> list[Part]:
    """Return the parts of a case that the judge sees with one of its responses, in order.

    Empty if it has none.

    Where a turn or a step is judged, `judged` is set for its parts, and otherwise for the whole
    response.

    Args:
        case: The case.
        index: The index of the response.
    """
    before = parse(case.prompt)
    after = parse(case.context or "")
    response = parse(case.responses[index].text)
    if not any(part.judged for part in response):
        response = [
            Part(part.turn, part.kind, part.name, part.text, judged=True)
            for part in response
        ]
    return [*before, *response, *after]


def cited_turns(text: str) -> Iterator[int]:
    """Yield the numbers of the turns or steps that a judge names as evidence, such as
    `[turn 3]` or `[steps 2, 5]`.
    """
    for match in _CITED.finditer(text):
        yield from map(int, re.findall(r"\d+", match[1]))
