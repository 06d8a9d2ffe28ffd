"""Probes that change how a case is presented, and not what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from evalkit.audit.probes import PAIRS, Place, Probe, edit_text, same_case, with_text
from evalkit.core.translation import gettext
from evalkit.types import Case


def _swapped(case: Case, place: Place) -> Case | None:
    if place.config.swap.policy == "both":  # both orders are judged anyway
        return None
    return replace(case, responses=case.responses[1::-1] + case.responses[2:])


def _identical(case: Case, place: Place) -> Case:
    return with_text(case, 1 - place.side, case.responses[place.side].text)


_HEDGES = {
    "en": "To put it differently, the points above are what matters here, and they should be read together.",
    "zh": "换句话说，以上几点就是这里的要点，应当放在一起来看。",
}


def _padded(text: str, case: Case, place: Place) -> str:
    opening = {"en": f"You ask: {case.prompt.strip()}", "zh": f"您的问题是：{case.prompt.strip()}"}[place.language]
    return f"{opening}\n\n{text}\n\n{_HEDGES[place.language]}\n\n{text}"


PROBES: Final = (
    Probe(
        "repeat",
        "same",
        gettext("Asks the same question again: the judge's own noise."),
        gettext("Nothing: the request differs only in its sample number."),
        same_case,
        directed=False,
    ),
    Probe(
        "order",
        "same",
        gettext("Shows the two responses in the other order."),
        gettext("The order of responses says nothing about them."),
        _swapped,
        modes=PAIRS,
    ),
    Probe(
        "identical",
        "tie",
        gettext("Compares a response with itself."),
        gettext("Two equal texts are equally good."),
        _identical,
        modes=PAIRS,
    ),
    Probe(
        "padding",
        "same",
        gettext("Makes a response longer: restates the question, hedges, and repeats the response."),
        gettext("Repetition adds nothing to a response; a rubric that rewards brevity may lower it."),
        edit_text(_padded),
    ),
)
