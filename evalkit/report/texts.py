"""Texts of reports in every language: those of figures, pages and decisions, titles of metrics, and notes.

Notes are stored in English, as a run folder keeps them, and translated where they are shown:
`note_text` finds each part of a note in notes.txt, with its arguments. A note that is not there is
shown in English.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from evalkit.core.translation import Joined, Text, gettext, in_every_language, joined
from evalkit.scoring.catalog import CATALOG, Match

NOTES: Final = tuple(
    map(Text, (Path(__file__).parent / "notes.txt").read_text("utf-8").splitlines())
)
"""Parts of notes; a note joins one or more by semicolons."""


def note_text(note: str) -> Joined:
    """Return a note as a text in every language."""
    # Parts of a note are separated by semicolons, and translated one by one.
    return joined(map(_part, filter(None, note.split("; "))), gettext("; "))


def _part(part: str) -> Text:
    # The most specific note that matches.
    for start, text in _notes():
        # A cheap test before the pattern, which is compiled once and only if needed.
        if not part.startswith(start):
            continue
        if match := _pattern(text.message).fullmatch(part):
            return text.fill(
                **{
                    name: _argument(name, value)
                    for name, value in match.groupdict().items()
                }
            )
    return Text(part)  # of a plug-in, which may bring its translation


def _argument(name: str, value: str) -> Joined | str:
    """Return an argument; those that are not numbers, or names in the data, are words too."""
    words = name in ("units", "effect", "facet", "answer", "state", "what")
    # Several words may be joined by the sign of a product.
    if words:
        return joined(map(_part, value.split(" × ")), Text(" × "))
    return value


@cache
def _notes() -> list[tuple[str, Text]]:
    """Return each note with its letters before the first argument, those with the most letters first."""
    # Letters without the arguments: a note of more letters is more specific.
    parts = sorted(NOTES, key=lambda text: -len(re.sub(r"\{\w+\}", "", text.message)))
    return [(re.split(r"\{\w+\}", text.message)[0], text) for text in parts]


@cache
def _pattern(message: str) -> re.Pattern[str]:
    """Return the pattern of a note; compiling those of all notes takes as long as a page."""
    return re.compile(_ARGUMENT.sub(_argument_pattern, re.escape(message)))


def _argument_pattern(argument: re.Match[str]) -> str:
    """Return the pattern of an argument: counts are of anything, so only a number makes a part of a note one."""
    # A count must be a number, or words would be read as one.
    return rf"(?P<{argument[1]}>{'[0-9,]+' if argument[1] in ('count', 'total') else '.{1,500}'})"


_ARGUMENT = re.compile(r"\\\{(\w+)\\\}")


Words: TypeAlias = tuple[str, str]
"""A text in English and in Chinese."""


def metric_title(name: str) -> Text | str:
    """Return what a metric is called; an unknown one is called by its name, and one of a panel's judge by both."""
    match = CATALOG.find(name)
    if match is not None and match.judge is not None:
        return gettext("{judge}: {metric}", judge=match.judge, metric=_title(match))
    # A metric of a judge that the catalog does not have, such as a custom one.
    if name.startswith("judge/"):
        _, judge, metric = name.split("/", 2)
        return gettext("{judge}: {metric}", judge=judge, metric=metric)
    if match is None:
        return name
    return _title(match)


def metric_measure(name: str) -> Text | str:
    """Return what a metric measures: its title, without a benchmark's name."""
    match = CATALOG.find(name)
    if match is None:
        return name
    return _measure(match)


def _title(match: Match) -> Text:
    title = _measure(match)
    benchmark = match.spec.benchmark
    if benchmark:
        return gettext("{benchmark}: {metric}", benchmark=benchmark, metric=title)
    return title


def _measure(match: Match) -> Text:
    # The metric of a slice has a title of its own within the title.
    if "metric" in match.values:  # of a slice, which the data name
        return Text(
            match.spec.title,
            {**match.values, "metric": metric_measure(match.values["metric"])},
        )
    if match.values.keys() & {"criterion", "system", "class"}:  # named by the user
        return Text(match.spec.title, match.values)
    # Values of the benchmark have words in reports, such as the name of a subset.
    words = {key: match.spec.words.get(value) for key, value in match.values.items()}
    values = {
        key: Text(word) if isinstance(word, str) else word
        for key, word in words.items()
        if word
    }
    return Text(match.spec.title, {**match.values, **values})


def metric_words(name: str) -> Words:
    """Return what a metric is called, in every language."""
    return in_every_language(metric_title(name))


def note_words(note: str) -> Words:
    """Return a note of a metric or of a run, in every language."""
    return in_every_language(note_text(note))


_FILES: Final = (
    "figures/captions.toml",
    "assets/words.toml",
    "findings/decisions.toml",
)
_TABLE: Final = {
    section: table
    for file in _FILES
    for section, table in tomllib.loads(
        (Path(__file__).parent / file).read_text("utf-8")
    ).items()
}


def _text(entry: str | Mapping[str, str]) -> Text:
    if isinstance(entry, str):
        return Text(entry)
    # A text with a count has a singular and a plural.
    if "many" in entry:
        return Text(entry["one"], {"n": 2}, entry["many"], 2)
    return Text(entry["text"], context=entry["context"])


def texts(section: str) -> dict[str, Text]:
    """Return the texts of a section of these files by key."""
    return {key: _text(entry) for key, entry in _TABLE[section].items()}


def all_texts() -> Iterator[Text]:
    """Yield every text of these files."""
    for section, table in _TABLE.items():
        for text in table.values():
            # Each figure has a title and a caption, other sections have one text for each key.
            yield from map(_text, text.values() if section == "figures" else [text])


def words(section: str) -> dict[str, Words]:
    """Return the texts of a section in every language by key."""
    return {key: in_every_language(text) for key, text in texts(section).items()}


FLAGS = words("flags")
PAGE = words("page")
SCRIPT = words("script")
SHARED: Final = ("findings", "figures", "dark", "light", "language")
"""Words of a run's page that other pages share."""
SWEEP = words("sweep") | {key: PAGE[key] for key in SHARED}
WATCH = words("watch") | {key: PAGE[key] for key in SHARED}
LABELING = {
    **words("labeling"),
    **{key: PAGE[key] for key in ("dark", "light", "language")},
    **{key: SCRIPT[key] for key in ("prompt", "context", "reference", "response")},
}
"""Words of the labeling page."""
TOKENS = texts("tokens")
LABELS = words("labels")

_FIGURES: Final[dict[str, dict[str, Text]]] = {
    name: {key: _text(text) for key, text in entry.items()}
    for name, entry in _TABLE["figures"].items()
}
_FIGURES["reliability_after"] = {
    "title": _FIGURES["reliability"]["title"],
    "caption": gettext(
        "{caption} Other lines: recalibrated, by cross-validation.",
        caption=_FIGURES["reliability"]["caption"],
    ),
}
FIGURES: Final[dict[str, tuple[Words, Words]]] = {
    name: (in_every_language(entry["title"]), in_every_language(entry["caption"]))
    for name, entry in _FIGURES.items()
}
"""Title and caption of each figure."""
