"""Read verdicts and ratings in running text: `[[A]]`, `[[A>>B]]`, `[[7.5]]`, or a custom pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from evalkit.config import OutputConfig
from evalkit.core.classes import Classes
from evalkit.core.scale import Scale
from evalkit.errors import ConfigError
from evalkit.parsing.plain_text import drop_thinking, is_refusal, to_half_width, unescape
from evalkit.parsing.scores import UnreadableError, extent, read_class, read_score, read_winner, with_base
from evalkit.types import Winner

Take: TypeAlias = Literal["last", "first", "only"]
T = TypeVar("T")

_DECORATION = " \t*_#`~.。"
_QUOTES = "[\"'“”‘’「」『』«»]"
_LABEL = re.compile(rf"(?:(?!{_QUOTES})[^\[\]>]){{1,40}}[:：]")
_REST = re.compile(r"(?:</\w+>|[^\w\n])*(?:分|星|points?|stars?)?[^\w\n]*(?:\n|\Z)")
"""What may follow a verdict on its line."""
_CONTEXT = 8
_MOST = 500


@dataclass(frozen=True, slots=True)
class Mark:
    """A text in the form of a verdict: its content and its span; `open` if its content is the end of the text."""

    content: str
    start: int
    end: int
    open: bool = False


@dataclass(frozen=True, slots=True)
class MarkRule:
    """The rule that selects one of several marks.

    `cut_off` means that the text is truncated, so the last mark is unknown. `sources` are the texts under judgment. If
    one of them contains a verdict, the judge may be quoting it, and only a mark at the end of the answer (at the
    beginning, for `first`) is the judge's own. With `alone`, it must be alone on its line or after a label. With
    `at_end`, the judge was asked for the verdict at the end, so a mark that words follow on its line is none.
    """

    take: Take = "last"
    wanted: str = "a verdict"
    cut_off: bool = False
    sources: Sequence[str] = ()
    alone: bool = True
    at_end: bool = False


def choose_mark(text: str, find: Callable[[str], Sequence[Mark]], read: Callable[[str], T], choice: MarkRule) -> T:
    """Return the value of the selected mark.

    Args:
        text: The judge's answer.
        find: Returns the marks in a text, in order.
        read: Returns the value of a mark's content, or raises UnreadableError.
        choice: The rule.

    Raises:
        UnreadableError: If there is no mark, the selected mark cannot be read, or the selection is ambiguous.
    """
    text = drop_thinking(text, choice.sources)
    marks = find(text)
    if not marks:
        raise UnreadableError("no_answer", f"there is no verdict: {choice.wanted} is missing")
    sources = {one for source in choice.sources for one in (source, unescape(source))}
    if quoted := [value for source in sources for value in _values(find(source), read)]:
        own = _own(text, marks, choice, sources)
        # If it equals a verdict in a source, it may be an echo: then all marks in the answer must agree.
        if read(own[0].content) in quoted:
            _agree(_values(marks, read))
        marks = own
    if choice.take == "only":
        _agree([read(content) for content in dict.fromkeys(mark.content for mark in marks)])
    elif choice.cut_off and choice.take == "last":
        _agree(_values(marks, read))
    if choice.at_end and choice.take != "first":
        marks = _at_end(text, marks, read, choice)
    mark = marks[0 if choice.take == "first" else -1]
    if choice.cut_off and mark.open:
        raise UnreadableError("truncated", "the verdict itself may be truncated")
    return read(mark.content)


def _at_end(text: str, marks: Sequence[Mark], read: Callable[[str], T], choice: MarkRule) -> list[Mark]:
    """Return the marks that end their lines; what is said after the last one must not contradict it."""
    ends = [mark for mark in marks if _REST.match(text, mark.end)]
    if choice.cut_off and ends and "\n" not in text[ends[-1].end :]:  # the line may go on
        lead = text[: ends[-1].start].rpartition("\n")[2]
        ends = ends[:-1] if lead.strip(_DECORATION) else ends
    if not ends:
        what = f"a verdict counts only at the end of a line: write {choice.wanted} on the last line"
        raise UnreadableError("no_answer", what)
    if choice.take == "last":
        _agree([read(ends[-1].content), *_values([mark for mark in marks if mark.start > ends[-1].start], read)])
    return ends


def _values(marks: Sequence[Mark], read: Callable[[str], T]) -> list[T]:
    """Return the distinct values of the readable marks."""
    contents = dict.fromkeys(mark.content for mark in marks)
    if len(contents) > _MOST:
        raise UnreadableError("ambiguous", f"there are {len(contents)} verdicts")
    values: list[T] = []
    for one in contents:
        try:
            values.append(read(one))
        except UnreadableError:
            continue
    return values


def _agree(values: Sequence[object]) -> None:
    if any(value != values[0] for value in values):
        raise UnreadableError("ambiguous", f"there are {len(values)} verdicts and they differ")


def _own(text: str, marks: Sequence[Mark], choice: MarkRule, sources: Collection[str]) -> list[Mark]:
    """Return the judge's own mark when a text under judgment contains such a mark too."""
    if is_refusal(text):
        raise UnreadableError("refusal", f"the judge refused: {text.strip()[:200]}")
    begin, end = _line(text, first=choice.take == "first")
    # Only the last mark in a line is at its end.
    own = [mark for mark in marks if begin <= mark.start and mark.end <= end][-1:]
    if (
        choice.cut_off
        or not own
        or not _apart(text[begin : own[0].start], text[own[0].end : end], choice, sources)
        or any(_copied(text, own[0], source) for source in sources)
    ):
        raise UnreadableError(
            "ambiguous",
            "the material to judge contains a verdict in this form, so the judge's own must be alone on the last line",
        )
    return own


def _line(text: str, *, first: bool) -> tuple[int, int]:
    """Return the span of the last (first) line with content."""
    lines = [match.span() for match in re.finditer(r"[^\r\n]+", text) if match[0].strip(_DECORATION)]
    return lines[0 if first else -1] if lines else (0, 0)


def _apart(before: str, after: str, choice: MarkRule, sources: Collection[str]) -> bool:
    """Return whether a mark is at the end of a line without quotations, as a judge's own."""
    if after.strip(_DECORATION):
        return False
    lead = before.strip(_DECORATION)
    if not lead:
        return True
    if not choice.alone:
        return not re.search(rf"\A>|{_QUOTES}\Z", lead)
    # A label such as "Verdict:" is the judge's own unless a text under judgment also has it before a mark.
    return bool(_LABEL.fullmatch(lead)) and not any(lead in source for source in sources)


def _copied(text: str, mark: Mark, source: str) -> bool:
    """Return whether the text before a mark is before the same mark in `source`, ignoring white space."""
    head, spelling = _flat(unescape(text[: mark.start])), _flat(unescape(text[mark.start : mark.end]))
    flat = _flat(source)
    starts = (match.start() for match in re.finditer(re.escape(spelling), flat))
    return any(head.endswith(flat[max(0, start - _CONTEXT) : start]) for start in starts if start)


def _flat(text: str) -> str:
    return "".join(text.split())


BETTER = 1 / 3
"""The margin of "better"; that of "much better" is 1."""

# Models escape square brackets for Markdown renderers.
_MARK = re.compile(r"\\?\[\\?\[([^\[\]]{1,80})\]\\?\]")
_LONGEST_MARK = 40
_ORDERED = re.compile(r"\A(?P<left>[AB])\s*(?P<sign>>{1,3}|<{1,3}|={1,3})\s*(?P<right>[AB])\Z")


def read_verdict(
    text: str, output: OutputConfig, *, cut_off: bool = False, sources: Sequence[str] = (), at_end: bool = False
) -> Winner:
    """Return the winner as shown (A = the response shown first), read by the marks or the pattern of `output`.

    Args:
        text: The judge's text.
        output: The output settings.
        cut_off: Whether the text is truncated.
        sources: The texts under judgment, from which a verdict may be quoted.
        at_end: Whether the judge was asked for the verdict at the end; a mark within a sentence is then none.

    Raises:
        UnreadableError: If there is no verdict, an unknown one, or an ambiguous one.
    """
    if output.format == "regex":
        return Pattern(output, "winner").winner(text, cut_off=cut_off, sources=sources)
    choice = MarkRule(output.take, "[[A]], [[B]] or [[C]]", cut_off, sources, at_end=at_end)
    return choose_mark(text, marks, _marked, choice)


def read_margin(
    text: str, output: OutputConfig, *, cut_off: bool = False, sources: Sequence[str] = (), at_end: bool = False
) -> float:
    """Return the margin as shown, from double brackets: 1 for `A` and `A>>B`, a third for `A>B`, 0 for a tie.

    It is positive if the response shown first is better. Arguments are as for `read_verdict`.

    Raises:
        UnreadableError: As for `read_verdict`.
    """
    wanted = "[[A>>B]], [[A>B]], [[A=B]], [[B>A]] or [[B>>A]]"
    choice = MarkRule(output.take, wanted, cut_off, sources, at_end=at_end)
    return choose_mark(text, marks, _graded, choice)


def read_rating(
    text: str,
    output: OutputConfig,
    scale: Scale,
    *,
    cut_off: bool = False,
    sources: Sequence[str] = (),
    at_end: bool = False,
) -> float:
    """Return the score in scale units, read by the marks or the pattern of `output`; arguments as for `read_verdict`.

    Raises:
        UnreadableError: If there is no score, one off the scale, or an ambiguous one.
    """
    if output.format == "regex":
        return Pattern(output, "score").score(text, scale, cut_off=cut_off, sources=sources)
    choice = MarkRule(output.take, "[[score]]", cut_off, sources, at_end=at_end)
    return choose_mark(text, _ratings, lambda mark: read_score(mark, scale), choice)


def read_marked_class(
    text: str,
    output: OutputConfig,
    classes: Classes,
    *,
    cut_off: bool = False,
    sources: Sequence[str] = (),
    at_end: bool = False,
) -> str:
    """Return the class, or the abstention, in double brackets; arguments as for `read_verdict`.

    Raises:
        UnreadableError: If there is no class, an unknown one, or an ambiguous one.
    """
    wanted = " or ".join(f"[[{name}]]" for name in classes.answers)
    choice = MarkRule(output.take, wanted, cut_off, sources, at_end=at_end)
    return choose_mark(text, marks, lambda mark: read_class(mark, classes), choice)


class Pattern:
    """A custom pattern with a group `winner`, `score` or `class`.

    Raises:
        ConfigError: If it does not compile or has no such group.
    """

    def __init__(self, output: OutputConfig, group: Literal["winner", "score", "class"]) -> None:
        self._output, self._group = output, group
        try:
            self._pattern = re.compile(output.pattern or "")
        except re.error as error:
            raise ConfigError(
                f"not a regular expression: {error}", where="output.pattern", remedy=f"fix '{output.pattern}'"
            ) from None
        if group not in self._pattern.groupindex:
            raise ConfigError(
                f"'{output.pattern}' has no group named '{group}', which this mode needs",
                where="output.pattern",
                remedy=f"put (?P<{group}>…) around the {group}",
            )

    def winner(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> Winner:
        """Return the captured winner.

        Raises:
            UnreadableError: If there is no winner, an unknown one, or an ambiguous one.
        """
        return choose_mark(text, self._captured, self._mapped, self._choice(cut_off, sources))

    def score(self, text: str, scale: Scale, *, cut_off: bool = False, sources: Sequence[str] = ()) -> float:
        """Return the captured score, in scale units.

        Raises:
            UnreadableError: If there is no score, one off the scale, part of a longer number, or an ambiguous one.
        """
        choice = self._choice(cut_off, sources)
        return choose_mark(text, self._numbers, lambda one: read_score(one, scale), choice)

    def class_name(self, text: str, classes: Classes, *, cut_off: bool = False, sources: Sequence[str] = ()) -> str:
        """Return the captured class, or the abstention.

        Raises:
            UnreadableError: If there is no class, an unknown one, or an ambiguous one.
        """
        table = {word: meaning for word, meaning in self._output.map.items() if meaning in classes.answers}

        def read(captured: str) -> str:
            return _meaning(captured, table) if table else read_class(captured, classes)

        return choose_mark(text, self._captured, read, self._choice(cut_off, sources))

    def _choice(self, cut_off: bool, sources: Sequence[str]) -> MarkRule:
        return MarkRule(self._output.take, "a match of output.pattern", cut_off, sources, alone=False)

    def _captured(self, text: str) -> list[Mark]:
        matches, last = self._pattern.finditer(text), len(text.rstrip(" \t"))
        return [
            Mark(match[self._group], *match.span(), match.end(self._group) >= last)
            for match in matches
            if match[self._group] is not None
        ]

    def _numbers(self, text: str) -> list[Mark]:
        plain, found = to_half_width(text), self._pattern.finditer(text)
        spans = [(match, match.span(self._group)) for match in found if match[self._group] is not None]
        whole = [(match, extent(plain, *span)) for match, span in spans]
        return [
            Mark(plain[begin:end], min(begin, match.start()), max(end, match.end()), end >= len(text.rstrip(" \t")))
            for match, (begin, end) in whole
        ]

    def _mapped(self, captured: str) -> Winner:
        return read_winner(_meaning(captured, self._output.map) if self._output.map else captured)


def _meaning(captured: str, table: Mapping[str, str]) -> str:
    """Return the meaning of a captured text by `output.map`, in any case."""
    if captured in table:
        return table[captured]
    folded = {key.strip().casefold(): meaning for key, meaning in table.items()}
    if meaning := folded.get(captured.strip().casefold()):
        return meaning
    raise UnreadableError("invalid", f"'{captured[:60]}' is not in output.map")


def marks(text: str) -> list[Mark]:
    """Return the double brackets in a text, also full-width ones."""
    # A mark cannot contain a paragraph break, such as one that replaced thinking.
    matches = [match for match in _MARK.finditer(to_half_width(text)) if "\n\n" not in match[1]]
    found = [(match[1].removesuffix("\\").strip(), *match.span()) for match in matches]
    return [Mark(*one) for one in found if 0 < len(one[0]) <= _LONGEST_MARK and "\n" not in one[0]]


def _ratings(text: str) -> list[Mark]:
    """Return the double brackets in a text, each with its denominator."""
    plain = to_half_width(text)
    ends = [(mark, with_base(plain, mark.end)) for mark in marks(text)]
    return [Mark(mark.content + plain[mark.end : end], mark.start, end) for mark, end in ends]


def _graded(mark: str) -> float:
    winner, ordered = _marked(mark), _ORDERED.match(mark.strip().upper())
    size = BETTER if ordered is not None and len(ordered["sign"]) == 1 else 1.0
    return {"A": size, "TIE": 0.0, "B": -size}[winner]


def _marked(mark: str) -> Winner:
    spelt = mark.strip().upper()
    if spelt == "C":
        return "TIE"
    ordered = _ORDERED.match(spelt)
    if ordered is None or ordered["left"] == ordered["right"]:
        return read_winner(mark)
    if "=" in ordered["sign"]:
        return "TIE"
    return "A" if (ordered["left"] == "A") == (">" in ordered["sign"]) else "B"
