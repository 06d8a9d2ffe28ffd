"""Probes that change how a case is presented, and not what it says."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from evalkit.audit.probes import PAIRS, PARAPHRASE, Place, Probe, edit_text, same_case, with_text
from evalkit.config import Criterion, RunConfig
from evalkit.core.translation import gettext
from evalkit.types import Case

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")


def _swapped(case: Case, place: Place) -> Case | None:
    if place.config.swap.policy == "both":  # both orders are judged anyway
        return None
    return replace(case, responses=case.responses[1::-1] + case.responses[2:])


def _identical(case: Case, place: Place) -> Case:
    return with_text(case, 1 - place.side, case.responses[place.side].text)


def _in_bold(text: str, _: Case, place: Place) -> str:
    first, *rest = _SENTENCE.split(text.strip(), maxsplit=1)
    heading = {"en": "Answer", "zh": "回答"}[place.language]
    return f"## {heading}\n\n**{first}**\n\n{''.join(rest)}".strip()


def _as_list(text: str, _: Case, place: Place) -> str:
    points = "\n".join(f"- ✅ {part}" for part in _SENTENCE.split(text.strip()) if part)
    return f"### ✨ { ({'en': 'Key points', 'zh': '要点'}[place.language]) }\n\n{points}"


def _reworded(config: RunConfig) -> RunConfig:
    form = "请评估：{} 这一点做得如何？" if config.prompt.language.startswith("zh") else "How well does this hold: {}"
    criteria = {
        name: one.model_copy(update={"description": form.format(one.description)}) if one.description else one
        for name, one in config.criteria.items()
    }
    return _with(config, criteria)


def _with(config: RunConfig, criteria: dict[str, Criterion]) -> RunConfig:
    return config.model_copy(update={"criteria": criteria})


_LABELS = gettext("What a response is called says nothing about it.")

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
        "letters",
        "same",
        gettext("Calls the responses 1 and 2 instead of A and B."),
        _LABELS,
        same_case,
        modes=PAIRS,
        directed=False,
        relabel=("1", "2"),
    ),
    Probe(
        "names",
        "same",
        gettext("Calls the responses Kim and Lee instead of A and B."),
        _LABELS,
        same_case,
        modes=PAIRS,
        directed=False,
        relabel=("Kim", "Lee"),
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
        "markdown",
        "same",
        gettext("Adds a heading to a response and sets its first sentence in bold."),
        gettext("The words stay the same; a rubric may rightly reward or punish layout."),
        edit_text(_in_bold),
    ),
    Probe(
        "format",
        "same",
        gettext("Turns a response into a list with a heading and emoji."),
        gettext("The sentences stay the same; a rubric may rightly reward or punish layout."),
        edit_text(_as_list),
    ),
    Probe(
        PARAPHRASE,
        "same",
        gettext("Replaces a response by a paraphrase, written by another model."),
        gettext("A paraphrase means the same and is as good; its wording may be better or worse, so review it."),
        edit_text(lambda _text, _case, place: place.paraphrase),
    ),
    Probe(
        "criteria_order",
        "same",
        gettext("Lists the criteria in the opposite order."),
        gettext("The order of criteria says nothing about their weight."),
        same_case,
        directed=False,
        reword=lambda config: _with(config, dict(reversed(config.criteria.items()))),
    ),
    Probe(
        "criteria_paraphrase",
        "same",
        gettext("Turns the description of each criterion into a question."),
        gettext("The question asks for the same as the description."),
        same_case,
        directed=False,
        reword=_reworded,
    ),
)
