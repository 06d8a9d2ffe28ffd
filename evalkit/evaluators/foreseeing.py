"""What an evaluator would ask of a case, told by the case's texts alone: no prompt is filled for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from evalkit.prompting import Blank, Outline, is_safe, neutralise, quarters
from evalkit.protocols import Foreseen
from evalkit.types import AnswerFormat, CaseTexts

Places: TypeAlias = tuple[int, ...]
Arranged: TypeAlias = Iterable[tuple[Places, int]]
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
        self, blank: Blank, answer: AnswerFormat | None, asks: Callable[[CaseTexts], Arranged], *, alike: bool
    ) -> None:
        self._blank, self._answer, self._asks, self._alike = blank, answer, asks, alike
        self._known: dict[tuple[bool, ...], Sequence[tuple[Outline, int]]] = {}

    def __call__(self, case: CaseTexts) -> list[Foreseen]:
        """Return the asks of a case, each as what tells it, its length, its answer's format and its sample."""
        texts, lengths = _measured(case)
        there, answer = tuple(map(bool, texts)), self._answer
        asks = self._known.get(there) or self._arranged(there, case)
        return [
            (mark ^ hash(pick(texts)), length + sum(pick(lengths)), answer, sample)
            for (mark, length, pick), sample in asks
        ]

    def _arranged(self, there: tuple[bool, ...], case: CaseTexts) -> Sequence[tuple[Outline, int]]:
        around = tuple(range(OF_CASE))
        found = [
            (self._blank.outline(there, (*around, *(OF_CASE + place for place in shown))), sample)
            for shown, sample in self._asks(case)
        ]
        if self._alike:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[there] = found
        return found


def _measured(case: CaseTexts) -> tuple[list[str], list[int]]:
    """Return a case's texts as they are put into prompts, and the length of each in quarters of a token."""
    _, prompt, context, reference, responses = case
    if context is not None and context.isspace():
        context = None
    if reference is not None and reference.isspace():
        reference = None
    texts = [prompt, context or "", reference or "", *responses]
    together = "".join(texts)
    if not is_safe(together):
        texts = list(map(neutralise, texts))
    return texts, list(map(len if together.isascii() else quarters, texts))
