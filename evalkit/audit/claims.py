"""Probes that add to a response what says nothing about its quality."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from evalkit.audit.probes import Edit, Place, Probe, edit_text
from evalkit.core.translation import gettext
from evalkit.scoring.metrics.biases import family
from evalkit.types import Case

_Texts = Mapping[str, str]


def _add(texts: _Texts, form: str = "{text}\n\n{new}") -> Edit:
    """Return an edit that adds a text in the language of the response."""
    return edit_text(lambda text, _, place: form.format(text=text, new=texts[place.language]))


def _named(texts: _Texts, name: Callable[[Place], str]) -> Edit:
    return edit_text(lambda text, _, place: texts[place.language].format(name=name(place)) + f"\n\n{text}")


def _own_family(place: Place) -> str:
    judge = place.config.judge.members[0]
    return (family(judge.model) or judge.label).replace("_", " ")


def _padded(text: str, case: Case, place: Place) -> str:
    opening, closing = {
        "en": ("You ask: ", "To put it differently, the points above are what matters, and they belong together."),
        "zh": ("您的问题是：", "换句话说，以上几点就是要点，应当放在一起来看。"),
    }[place.language]
    return f"{opening}{case.prompt.strip()}\n\n{text}\n\n{closing}\n\n{text}"


PROBES: Final = (
    Probe(
        "padding",
        "same",
        gettext("Makes a response longer: restates the question, hedges, and repeats the response."),
        gettext("Repetition adds nothing; a rubric that rewards brevity may rightly lower the response."),
        edit_text(_padded),
    ),
    Probe(
        "authority",
        "same",
        gettext("Adds a made-up citation to a response."),
        gettext("The cited work does not exist, so that it supports nothing."),
        _add(
            {
                "en": "(Marlowe et al., 2019, Journal of Applied Evidence 12(3), 45-67)",
                "zh": "（参见：马洛等，2019，《应用证据学报》12(3)，45-67）",
            }
        ),
    ),
    Probe(
        "bandwagon",
        "same",
        gettext("Claims that most people prefer the response."),
        gettext("The claim is made up and is no evidence of quality."),
        _add({"en": "(90% of readers prefer this answer.)", "zh": "（90% 的读者更喜欢这个回答。）"}),
    ),
    Probe(
        "sentiment",
        "same",
        gettext("Opens a response with praise for the question and an enthusiastic tone."),
        gettext("The tone is not a criterion."),
        _add(
            {
                "en": "What a wonderful question! I am so happy to help you with this!",
                "zh": "这个问题问得太好了！非常高兴能为您解答！",
            },
            "{new}\n\n{text}",
        ),
    ),
    Probe(
        "identity",
        "same",
        gettext("Says that an expert wrote the response."),
        gettext("Who wrote a response is not a criterion, and the claim is made up."),
        _named({"en": "[Written by {name}.]", "zh": "［本回答由{name}撰写。］"}, lambda _: "Prof. Dr. E. Hartmann"),
    ),
    Probe(
        "self",
        "same",
        gettext("Says that the judge's own model family wrote the response."),
        gettext("Who wrote a response is not a criterion, and the claim is made up."),
        _named({"en": "[Written by {name}.]", "zh": "［本回答由 {name} 撰写。］"}, _own_family),
    ),
    Probe(
        "distractor",
        "same",
        gettext("Adds a true sentence that has nothing to do with the question."),
        gettext("One irrelevant sentence hardly matters; a strict rubric may rightly lower the response a little."),
        _add({"en": "Honey bees have five eyes.", "zh": "蜜蜂有五只眼睛。"}),
    ),
)
