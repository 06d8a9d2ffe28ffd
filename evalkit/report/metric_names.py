"""Titles of metrics and benchmarks, as reports show them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from evalkit.core.translation import Text, gettext, in_every_language
from evalkit.scoring.catalog import CATALOG, Match

Words: TypeAlias = tuple[str, str]
"""A text in English and in Chinese."""

VALUES: Final[Mapping[str, Text]] = MappingProxyType(
    {
        # Of what: levels, turns, difficulties.
        "easy": gettext("easy"),
        "hard": gettext("hard"),
        "normal": gettext("normal"),
        "sample": gettext("over all responses"),
        "summary": gettext("within documents"),
        "system": gettext("over systems"),
        "turn1": gettext("first turn"),
        "turn2": gettext("second turn"),
        # Dimensions and attributes.
        "coherence": gettext("coherence"),
        "complexity": gettext("complexity"),
        "consistency": gettext("consistency"),
        "correctness": gettext("correctness"),
        "engagingness": gettext("engagingness"),
        "fluency": gettext("fluency"),
        "groundedness": gettext("groundedness"),
        "helpfulness": gettext("helpfulness"),
        "naturalness": gettext("naturalness"),
        "overall": gettext("overall"),
        "relevance": gettext("relevance"),
        "understandability": gettext("understandability"),
        "verbosity": gettext("verbosity"),
        # Sets, sections, categories.
        "adversarial": gettext("adversarial sets"),
        "chat": gettext("chat"),
        "chat_hard": gettext("hard chat"),
        "code": gettext("code"),
        "coding": gettext("coding"),
        "creative_writing": gettext("creative writing"),
        "exam_questions": gettext("exam questions"),
        "factuality": gettext("factuality"),
        "focus": gettext("focus"),
        "functional_writing": gettext("functional writing"),
        "general_communication": gettext("general communication"),
        "gptinst": gettext("GPTInst"),
        "gptout": gettext("GPTOut"),
        "hard_prompt": gettext("hard prompts"),
        "knowledge": gettext("knowledge"),
        "manual": gettext("manual"),
        "math": gettext("math"),
        "misleading": gettext("misleading"),
        "misleading_hard": gettext("misleading, hard"),
        "natural": gettext("natural"),
        "neighbor": gettext("neighbor"),
        "nlp_tasks": gettext("NLP tasks"),
        "precise_if": gettext("precise instructions"),
        "reasoning": gettext("reasoning"),
        "rewriting": gettext("rewriting"),
        "safety": gettext("safety"),
        "summarization": gettext("summarization"),
    }
)
"""What the values of placeholders in names of metrics stand for; models and small sets are shown as they are."""


def metric_title(name: str) -> Text | str:
    """Return what a metric is called; an unknown one is called by its name, and one of a panel's judge by both."""
    found = CATALOG.find(name)
    if found is not None and found.judge is not None:
        return gettext("{judge}: {metric}", judge=found.judge, metric=_title(found))
    if name.startswith("judge/"):
        _, judge, own = name.split("/", 2)
        return gettext("{judge}: {metric}", judge=judge, metric=own)
    return name if found is None else _title(found)


def metric_measure(name: str) -> Text | str:
    """Return what a metric measures: its title, without a benchmark's name."""
    found = CATALOG.find(name)
    return name if found is None else _measure(found)


def _title(found: Match) -> Text:
    title, benchmark = _measure(found), found.spec.benchmark
    return gettext("{benchmark}: {metric}", benchmark=benchmark, metric=title) if benchmark else title


def _measure(found: Match) -> Text:
    own = bool(found.values.keys() & {"criterion", "system", "class"})  # named by the user
    values = found.values if own else {key: VALUES.get(value, value) for key, value in found.values.items()}
    return Text(found.spec.title, values)


def metric_words(name: str) -> Words:
    """Return what a metric is called, in every language."""
    return in_every_language(metric_title(name))
