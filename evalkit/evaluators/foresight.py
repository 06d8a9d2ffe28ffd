"""What an evaluator would ask of a case, told by the case's texts alone: no prompt is filled for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from evalkit.prompting import CompiledTemplate, is_safe, neutralize, text_length
from evalkit.protocols import Foreseen
from evalkit.types import AnswerFormat, CaseTexts

Places: TypeAlias = tuple[int, ...]
Arranged: TypeAlias = Iterable[tuple[Places, int]]
_Ask: TypeAlias = tuple[int, int, Callable[[Sequence[Any]], tuple[Any, ...]], bool, int]
"""An ask by its outline's mark, length and pick, whether it shows all texts of the case once each, and its sample."""
OF_CASE = 3
"""Where the first response stands: after prompt, context and reference."""
_MOST_KNOWN = 1000


class Foresight:
    """Tells the asks of cases one by one.

    Args:
        blank: what the prompts are filled from, with prompt, context, reference and the responses shown, in this order.
        answer: the format of all answers.
        asks: for a case, the places of the responses shown in each ask, and its sample, in the order of the plan.
        alike: whether that is the same for all cases with as many responses.
    """

    def __init__(
        self,
        blank: CompiledTemplate,
        answer: AnswerFormat | None,
        asks: Callable[[CaseTexts], Arranged],
        *,
        alike: bool,
    ) -> None:
        self._blank, self._answer, self._asks, self._alike = blank, answer, asks, alike
        self._known: dict[tuple[bool, ...], Sequence[_Ask]] = {}

    def __call__(self, case: CaseTexts) -> list[Foreseen]:
        """Return the asks of a case, each as what tells it, its length, its answer's format and its sample."""
        _, prompt, context, reference, responses = case
        if context is not None and context.isspace():
            context = None
        if reference is not None and reference.isspace():
            reference = None
        texts = [prompt, context or "", reference or "", *responses]
        together = "".join(texts)
        if not is_safe(together):
            texts = list(map(neutralize, texts))
        lengths = list(map(len if together.isascii() else text_length, texts))
        there, answer, whole = tuple(map(bool, lengths)), self._answer, sum(lengths)
        return [
            (mark ^ hash(pick(texts)), length + (whole if shows_all else sum(pick(lengths))), answer, sample)
            for mark, length, pick, shows_all, sample in self._known.get(there) or self._arranged(there, case)
        ]

    def _arranged(self, there: tuple[bool, ...], case: CaseTexts) -> Sequence[_Ask]:
        around = tuple(range(OF_CASE))
        all_places = [place for place, is_there in enumerate(there) if is_there]
        found = []
        for shown, sample in self._asks(case):
            outline = self._blank.outline(there, (*around, *(OF_CASE + place for place in shown)))
            shows_all = sorted(place for place in outline.places if there[place]) == all_places
            found.append((outline.mark, outline.quarters, outline.pick, shows_all, sample))
        if self._alike:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[there] = found
        return found
