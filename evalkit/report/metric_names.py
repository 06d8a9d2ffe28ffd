"""Titles of metrics and benchmarks, as reports show them."""

from __future__ import annotations

from typing import TypeAlias

from evalkit.core.translation import Text, gettext, in_every_language
from evalkit.scoring.catalog import CATALOG, Match
from evalkit.scoring.catalog.notes import note_text

Words: TypeAlias = tuple[str, str]
"""A text in English and in Chinese."""


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
    if found.values.keys() & {"criterion", "system", "class"}:  # named by the user
        return Text(found.spec.title, found.values)
    words = {key: found.spec.words.get(value) for key, value in found.values.items()}
    values = {key: Text(word) if isinstance(word, str) else word for key, word in words.items() if word}
    return Text(found.spec.title, {**found.values, **values})


def metric_words(name: str) -> Words:
    """Return what a metric is called, in every language."""
    return in_every_language(metric_title(name))


def note_words(note: str) -> Words:
    """Return a note of a metric or of a run, in every language."""
    return in_every_language(note_text(note))
