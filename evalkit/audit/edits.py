"""How probes edit a case: where, and by which kinds of edits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field, replace
from typing import TypeAlias

from evalkit.config import RunConfig
from evalkit.core.hashing import text_digest
from evalkit.types import Case, Response
from evalkit.values import Json, frozen

_CHINESE = re.compile("[\u3400-\u9fff]")


@frozen
class Place:
    """Where and how a probe is to edit a case.

    Attributes:
        side: The index of the response to edit.
        language: `en` or `zh`: the language of the texts to insert.
        config: The run's config.
        settings: The probe's settings, from `probe.probes.NAME`.
        paraphrase: The rewriter's paraphrase of the response; `None` if there is none.
    """

    side: int
    language: str
    config: RunConfig
    settings: Json = field(default_factory=dict)
    paraphrase: str | None = None


Edit: TypeAlias = Callable[[Case, Place], Case | None]


def same_case(case: Case, _: Place) -> Case:
    """Return the case as it is."""
    return case


def edit_text(change: Callable[[str, Case, Place], str | None]) -> Edit:
    """Return an edit that changes the text of one response."""

    def edit(case: Case, place: Place) -> Case | None:
        old = case.responses[place.side]
        text = change(old.text, case, place)
        return None if text is None or text == old.text else with_text(case, place.side, text)

    return edit


def replace_copy(change: Callable[[str, Case, Place], str | None]) -> Edit:
    """Return an edit that puts a changed copy of one response next to the original, or in its place if it is alone."""

    def edit(case: Case, place: Place) -> Case | None:
        original = case.responses[1 - place.side if len(case.responses) > 1 else 0]
        text = change(original.text, case, place)
        return None if text is None or text == original.text else with_text(case, place.side, text)

    return edit


def with_text(case: Case, side: int, text: str) -> Case:
    """Return a case with another text of one response."""
    responses = (*case.responses[:side], Response(text), *case.responses[side + 1 :])
    return replace(case, responses=responses)


def side_of(case: Case, *, worse: bool) -> int:
    """Return the index, 0 or 1, of the worse or better response; one by the hash of the case's id if labels differ not.

    It does not depend on any judgment, so that a judge's noise cannot select cases.
    """
    if len(case.responses) < 2:
        return 0
    one, two = (response.grade for response in case.responses[:2])
    if one is not None and two is not None and one != two:
        return int((two < one) == worse)
    if case.label in ("A", "B"):
        return int((case.label == "A") == worse)
    return int(text_digest(case.id)[:8], 16) % 2


def language_of(text: str) -> str:
    """Return `zh` if a text has Chinese characters, else `en`."""
    return "zh" if _CHINESE.search(text) else "en"
