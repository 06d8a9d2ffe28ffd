"""Read decisions in running text, in marks or by a custom pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar

from evalkit.config import OutputConfig
from evalkit.core.errors import ConfigError
from evalkit.core.patterns import lazy_pattern
from evalkit.core.scale import Classes, Scale
from evalkit.core.types import Winner
from evalkit.core.values import frozen
from evalkit.evaluators.parsing.mentions import (
    is_denied,
    is_doubted,
    is_list,
    is_struck,
)
from evalkit.evaluators.parsing.plain_text import (
    UnreadableError,
    drop_thinking,
    extent,
    in_context,
    is_refusal,
    read_class,
    read_score,
    read_verdict,
    to_half_width,
    unescape,
    with_base,
    without_special_tokens,
)

Take: TypeAlias = Literal["last", "first", "only"]
AnswerKind: TypeAlias = Literal["winner", "score", "ranking", "class", "items"]
T = TypeVar("T")

DECORATION = " \t*_#`~.。"
_QUOTES = "[\"'“”‘’「」『』«»]"
_LABEL = lazy_pattern(rf"(?:(?!{_QUOTES})[^\[\]>]){{1,40}}[:：]")
_REST = lazy_pattern(
    r"(?:</\w+>|[^\w\n]|_)*(?:分|星|points?|stars?|です|である|입니다)?"
    r"(?:[^\w\n]*confidence\b[^\n]{0,20})?[^\w\n]*(?:\n|\Z)",
    re.IGNORECASE,
)
"""What may follow a verdict on its line."""
_SENTENCE_END = lazy_pattern(r"\n|[.!?;](?=\s)|[。！？；]")
_CONTEXT = 8
_MOST = 500


@frozen
class Mark:
    """A text in the form of a verdict; `open` if its content is the end of the text."""

    content: str
    start: int
    end: int
    open: bool = False


@frozen
class Reply:
    """A judge's text to read.

    Attributes:
        text: The text.
        cut_off: Whether it is truncated, so that its last mark is unknown.
        sources: The texts under judgment. If one of them contains a verdict, the judge may be
            quoting it, and only a mark at the end of the answer (at the beginning, for `first`) is
            the judge's own.
        at_end: Whether the judge was asked for the verdict at the end, so that a mark that words
            follow on its line is none.
        drafts: Whether the text is reasoning, which may have drafts of the verdict, so that all
            marks must agree.
    """

    text: str
    cut_off: bool = False
    sources: Sequence[str] = ()
    at_end: bool = False
    drafts: bool = False


@frozen
class AnswerTask:
    """What an answer must decide: a score on `scale`, or one of `classes`."""

    decision: AnswerKind
    tie_allowed: bool = True
    scale: Scale | None = None
    classes: Classes | None = None

    def value(self, written: object) -> float | str:
        """Return what is written: a winner's margin as shown, a score, or a class.

        Raises:
            UnreadableError: If it is not one.
        """
        if self.scale is not None:
            return read_score(written, self.scale)
        if self.classes is None:
            return MARGINS[read_verdict(str(written))]
        return read_class(written, self.classes)


def choose_mark(
    reply: Reply,
    find: Callable[[str], Sequence[Mark]],
    read: Callable[[str], T],
    *,
    take: Take,
    form: str,
    alone: bool = True,
) -> T:
    """Return the value of the selected mark.

    Args:
        reply: The judge's answer.
        find: Returns the marks in a text, in order.
        read: Returns the value of a mark's content, or raises UnreadableError.
        take: Which of several marks to select.
        form: The form of a mark, for error messages.
        alone: Whether a mark must be alone on its line or after a label if the judge may be
            quoting.

    Raises:
        UnreadableError: If there is no mark, the selected mark cannot be read, or the selection is
            ambiguous.
    """
    # Step 1: find the marks outside of thinking, which may try out several verdicts.
    text = without_special_tokens(drop_thinking(reply.text, reply.sources))
    cut_off = reply.cut_off
    every_mark = find(text)
    if alone:
        every_mark = [
            mark for mark in every_mark if not is_struck(text, mark.start, mark.end)
        ]
    if not every_mark:
        raise UnreadableError("no_answer", f"there is no verdict: {form} is missing")
    marks = every_mark
    if alone:
        marks = [
            mark
            for mark in every_mark
            if not is_denied(text, mark.start) and not is_doubted(text, mark.end)
        ]
    if not marks:
        problem = f"the only verdict is denied: write {form} for the one that you mean"
        raise UnreadableError("no_answer", problem)
    if reply.drafts:
        _agree(_values(marks, read))
    # Step 2: if a text under judgment has a verdict in this form, only a mark that is alone
    # at the end counts. A response could otherwise judge itself by being quoted.
    sources = {
        spelling for source in reply.sources for spelling in (source, unescape(source))
    }
    if quoted := [value for source in sources for value in _values(find(source), read)]:
        own_marks = _own_mark(
            text, marks, sources, first=take == "first", cut_off=cut_off, alone=alone
        )
        # If it equals a verdict in a source, it may be an echo: then all marks in the answer must
        # agree.
        if read(own_marks[0].content) in quoted:
            _agree(_values(marks, read))
        marks = own_marks
    # Step 3: several marks. Which one counts is the user's choice, but a truncated answer may
    # lack the last one.
    if take == "only":
        _agree(
            [read(content) for content in dict.fromkeys(mark.content for mark in marks)]
        )
    elif cut_off and take == "last":
        _agree(_values(marks, read))
    # Step 4: evalkit asked for the verdict at the end of a line; a mark in a sentence is a
    # mention.
    if reply.at_end and take != "first":
        ends = _at_end(text, marks, cut_off=cut_off)
        if not ends:
            problem = f"a verdict counts only at the end of a line: write {form} on the last line"
            raise UnreadableError("no_answer", problem)
        if take == "last":  # what is said after it must not contradict it
            after = [mark for mark in every_mark if mark.start > ends[-1].start]
            _agree([read(ends[-1].content), *_values(after, read)])
            _agree(_values(on_their_own(text, marks), read))
            _agree(_values(_in_its_sentence(text, marks, ends[-1]), read))
        marks = ends
    mark = marks[0 if take == "first" else -1]
    if alone:
        _agree(_values(_listed(text, every_mark, mark), read))
    # A capture at the very end may be incomplete: 1 could be the start of 10.
    if cut_off and mark.open:
        raise UnreadableError("truncated", "the verdict itself may be truncated")
    return read(mark.content)


def _listed(text: str, marks: Sequence[Mark], mark: Mark) -> list[Mark]:
    """Return the marks that are listed with a mark, itself included."""
    listed: list[Mark] = []
    for candidate in marks:
        if listed and not is_list(text, listed[-1].end, candidate.start):
            if mark in listed:
                break
            listed = []
        listed.append(candidate)
    return listed


def _in_its_sentence(text: str, marks: Sequence[Mark], mark: Mark) -> list[Mark]:
    """Return the marks in a mark's sentence up to it, itself included."""
    before = [end.end() for end in _SENTENCE_END.finditer(text, 0, mark.start)]
    begin = before[-1] if before else 0
    return [other for other in marks if begin <= other.start <= mark.start]


def _at_end(text: str, marks: Sequence[Mark], *, cut_off: bool) -> list[Mark]:
    """Return the marks that end their lines."""
    ends = [mark for mark in marks if _REST.match(text, mark.end)]
    if cut_off and ends and "\n" not in text[ends[-1].end :]:  # the line may go on
        lead = text[: ends[-1].start].rpartition("\n")[2]
        if lead.strip(DECORATION):
            return ends[:-1]
        return ends
    return ends


def on_their_own(text: str, marks: Sequence[Mark]) -> list[Mark]:
    """Return the marks on lines of nothing but marks after a label: verdicts, not mentions."""
    by_line: dict[int, list[Mark]] = {}
    for mark in marks:
        # Keyed by the start of the line; `rfind` is -1 on the first line, so its start is 0.
        by_line.setdefault(text.rfind("\n", 0, mark.start) + 1, []).append(mark)
    chosen: list[Mark] = []
    for begin, line_marks in by_line.items():
        end = text.find("\n", line_marks[-1].end)
        stops = [mark.start for mark in line_marks[1:]]
        stops.append(len(text) if end < 0 else end)
        # gaps[i] is the text after mark i, up to the next mark or the end of the line.
        gaps = [
            text[mark.end : stop] for mark, stop in zip(line_marks, stops, strict=True)
        ]
        lead = text[begin : line_marks[0].start].strip(DECORATION)
        labeled = not lead or _LABEL.fullmatch(lead) is not None
        if labeled and not any(gap.strip(DECORATION) for gap in gaps):
            chosen += line_marks
    return chosen


def _values(marks: Sequence[Mark], read: Callable[[str], T]) -> list[T]:
    """Return the distinct values of the readable marks."""
    contents = dict.fromkeys(mark.content for mark in marks)
    # A hostile answer could hold a mark in every line.
    if len(contents) > _MOST:
        raise UnreadableError("ambiguous", f"there are {len(contents)} verdicts")
    values: list[T] = []
    for content in contents:
        try:
            values.append(read(content))
        except UnreadableError:
            continue
    return values


def _agree(values: Sequence[object]) -> None:
    if any(value != values[0] for value in values):
        raise UnreadableError(
            "ambiguous", f"there are {len(values)} verdicts and they differ"
        )


def _own_mark(
    text: str,
    marks: Sequence[Mark],
    sources: Collection[str],
    *,
    first: bool,
    cut_off: bool,
    alone: bool,
) -> list[Mark]:
    """Return the judge's own mark, in a list, if a text under judgment has such a mark, too.

    Raises:
        UnreadableError: If the judge refused, or no mark is certainly its own.
    """
    if is_refusal(text):
        raise UnreadableError("refusal", f"the judge refused: {text.strip()[:200]}")
    # The judge's own verdict is on the last line that has content, or on the first one.
    begin, end = _line(text, first=first)
    # Only the last mark in a line is at its end.
    own_marks = [mark for mark in marks if begin <= mark.start and mark.end <= end][-1:]
    if (
        cut_off
        or not own_marks
        or not _apart(
            text[begin : own_marks[0].start],
            text[own_marks[0].end : end],
            sources,
            alone=alone,
        )
        or any(_copied(text, own_marks[0], source) for source in sources)
    ):
        raise UnreadableError(
            "ambiguous",
            "the material to judge contains a verdict in this form, so the judge's own must be"
            " alone on the last line",
        )
    return own_marks


def _line(text: str, *, first: bool) -> tuple[int, int]:
    """Return the span of the last (first) line with content."""
    lines = [
        match.span()
        for match in re.finditer(r"[^\r\n]+", text)
        if match[0].strip(DECORATION)
    ]
    if lines:
        return lines[0 if first else -1]
    return (0, 0)


def _apart(before: str, after: str, sources: Collection[str], *, alone: bool) -> bool:
    """Return whether a mark is at the end of a line without quotations, as a judge's own."""
    if after.strip(DECORATION):
        return False
    lead = before.strip(DECORATION)
    if not lead:
        return True
    if not alone:
        return not re.search(rf"\A>|{_QUOTES}\Z", lead)
    # A label such as "Verdict:" is the judge's own unless a text under judgment also has it before
    # a mark.
    return bool(_LABEL.fullmatch(lead)) and not any(
        lead in source for source in sources
    )


def _copied(text: str, mark: Mark, source: str) -> bool:
    """Return whether `source` has the same text before the same mark, but for white space."""
    # The last few characters before the mark are compared: an echo brings its surroundings along.
    head = _flat(unescape(text[: mark.start]))
    spelling = _flat(unescape(text[mark.start : mark.end]))
    flat = _flat(source)
    starts = (match.start() for match in re.finditer(re.escape(spelling), flat))
    leads = (flat[max(0, start - _CONTEXT) : start] for start in starts if start)
    return any(map(head.endswith, leads))


def _flat(text: str) -> str:
    return "".join(text.split())


MARGINS: Mapping[Winner, float] = MappingProxyType({"A": 1.0, "TIE": 0.0, "B": -1.0})
"""The margin of each winner, and of `[[A>>B]]`."""
BETTER = 1 / 3
"""The margin of `[[A>B]]`."""

# Models escape square brackets for Markdown renderers.
_MARK = lazy_pattern(r"\\?\[\\?\[([^\[\]]{1,80})\]\\?\]")
_LONGEST_MARK = 40
_ORDERED = lazy_pattern(
    r"\A(?P<left>[AB])\s*(?P<sign>>{1,3}|<{1,3}|={1,3})\s*(?P<right>[AB])\Z"
)


def read_marks(reply: Reply, output: OutputConfig, task: AnswerTask) -> float | str:
    """Return the decision in double brackets.

    It is a winner's margin as shown, a score in scale units, or a class.

    A margin is positive if the response shown first is better: 1, or a third for `A>B` if
    `output.graded` is set.

    Raises:
        UnreadableError: If there is no mark, one that cannot be read, or an ambiguous one.
    """
    if task.scale is not None:
        return choose_mark(
            reply, _ratings, task.value, take=output.take, form="[[score]]"
        )
    if task.classes is not None:
        form = " or ".join(f"[[{name}]]" for name in task.classes.answers)
        return choose_mark(reply, marks, task.value, take=output.take, form=form)
    if output.graded:
        form = "[[A>>B]], [[A>B]], [[A=B]], [[B>A]] or [[B>>A]]"
        return choose_mark(reply, marks, _graded, take=output.take, form=form)
    return choose_mark(
        reply,
        marks,
        lambda mark: MARGINS[_winner_of_mark(mark)],
        take=output.take,
        form="[[A]], [[B]] or [[C]]",
    )


class Pattern:
    """A custom pattern with a group `winner`, `score` or `class`.

    Raises:
        ConfigError: If it does not compile or has no such group.
    """

    def __init__(self, output: OutputConfig, task: AnswerTask) -> None:
        self._output = output
        self._task = task
        group = task.decision
        self._group = group
        try:
            self._pattern = re.compile(output.pattern or "")
        except re.error as error:
            raise ConfigError(
                f"not a regular expression: {error}",
                where="output.pattern",
                remedy=f"fix '{output.pattern}'",
            ) from None
        if group not in self._pattern.groupindex:
            raise ConfigError(
                f"'{output.pattern}' has no group named '{group}', which this mode needs",
                where="output.pattern",
                remedy=f"put (?P<{group}>…) around the {group}",
            )
        classes = None if task.classes is None else task.classes.answers
        self._table = {
            word: name
            for word, name in output.map.items()
            if classes is None or name in classes
        }

    def read(self, reply: Reply) -> float | str:
        """Return the captured decision as `read_marks` does, by `output.map` if that is set.

        Raises:
            UnreadableError: If there is none, an unknown one, part of a longer number, or an
                ambiguous one.
        """
        scored = self._task.scale is not None
        find, read = (
            (self._number_marks, self._task.value)
            if scored
            else (self._captured, self._mapped)
        )
        # The pattern says where the decision is.
        anywhere = replace(reply, at_end=False)
        form = "a match of output.pattern"
        return choose_mark(
            anywhere, find, read, take=self._output.take, form=form, alone=False
        )

    def _captured(self, text: str) -> list[Mark]:
        matches = self._pattern.finditer(text)
        last = len(text.rstrip(" \t"))
        return [
            Mark(match[self._group], *match.span(), match.end(self._group) >= last)
            for match in matches
            if match[self._group] is not None
        ]

    def _number_marks(self, text: str) -> list[Mark]:
        """Return the numbers that the pattern captures, each extended to all of its digits."""
        plain = to_half_width(text)
        matches = self._pattern.finditer(text)
        # Spans are indexes into `text`; they hold in `plain`, too, as widths are replaced
        # character by character.
        spans = [
            (match, match.span(self._group))
            for match in matches
            if match[self._group] is not None
        ]
        # A pattern may capture the 1 of 10: the span is extended to the complete number.
        whole = [(match, extent(plain, *span)) for match, span in spans]
        return [
            Mark(
                plain[begin:end],
                min(begin, match.start()),
                max(end, match.end()),
                end >= len(text.rstrip(" \t")),
            )
            for match, (begin, end) in whole
        ]

    def _mapped(self, captured: str) -> float | str:
        return self._task.value(
            _meaning(captured, self._table) if self._table else captured
        )


def _meaning(captured: str, table: Mapping[str, str]) -> str:
    """Return the meaning of a captured text by `output.map`, in any case."""
    # The exact spelling first, because two keys may differ only in case.
    if captured in table:
        return table[captured]
    folded = {key.strip().casefold(): meaning for key, meaning in table.items()}
    if meaning := folded.get(captured.strip().casefold()):
        return meaning
    raise UnreadableError("invalid", f"'{captured[:60]}' is not in output.map")


def marks(text: str) -> list[Mark]:
    """Return the double brackets in a text, also full-width ones."""
    # A mark cannot contain a paragraph break, such as one that replaced thinking.
    matches = [
        match for match in _MARK.finditer(to_half_width(text)) if "\n\n" not in match[1]
    ]
    entries = [
        (match[1].removesuffix("\\").strip(), *match.span()) for match in matches
    ]
    return [
        Mark(*entry)
        for entry in entries
        if 0 < len(entry[0]) <= _LONGEST_MARK and "\n" not in entry[0]
    ]


def _ratings(text: str) -> list[Mark]:
    """Return the double brackets in a text, each with its denominator."""
    plain = to_half_width(text)
    ratings = []
    for mark in marks(text):
        end = with_base(plain, mark.end)
        content = in_context(plain, mark.content, (mark.start, mark.end), end)
        ratings.append(Mark(content, mark.start, end))
    return ratings


def _graded(mark: str) -> float:
    winner = _winner_of_mark(mark)
    ordered = _ORDERED.match(mark.strip().upper())
    # One sign is "better", two or three are "much better".
    size = BETTER if ordered is not None and len(ordered["sign"]) == 1 else 1.0
    return size * MARGINS[winner]


def _winner_of_mark(mark: str) -> Winner:
    """Return the winner of a mark such as `A`, `A>B`, `B>>A`, `A=B` or `C`, which is a tie.

    Raises:
        UnreadableError: If it is none of these.
    """
    spelt = mark.strip().upper()
    if spelt == "C":
        return "TIE"
    ordered = _ORDERED.match(spelt)
    if ordered is None or ordered["left"] == ordered["right"]:
        return read_verdict(mark)
    if "=" in ordered["sign"]:
        return "TIE"
    if (ordered["left"] == "A") == (">" in ordered["sign"]):
        return "A"
    return "B"
