"""Texts of reports in every language: those of figures, pages and decisions, titles of
metrics, and notes.

Notes are stored in English, as a run folder keeps them, and translated where they are shown:
`note_text` finds each part of a note in notes.txt, with its arguments. A note that is not there is
shown in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from evalkit.core.prepared_files import read_table
from evalkit.core.translation import Joined, Text, gettext, in_every_language, joined
from evalkit.scoring.catalog import CATALOG, Match

_FOLDER: Final = Path(__file__).parent
_NOTE_LINES: Final = (_FOLDER / "notes.txt").read_text("utf-8").splitlines()
NOTES: Final = tuple(map(Text, _NOTE_LINES))
"""Parts of notes; a note joins one or more by semicolons."""


def note_text(note: str) -> Joined:
    """Return a note as a text in every language."""
    # Parts of a note are separated by semicolons, and translated one by one.
    parts = [_translate_part(part) for part in note.split("; ") if part]
    return joined(parts, gettext("; "))


def _translate_part(part: str) -> Text:
    """Return one part of a note as a text with its translation, if a known note matches."""
    # The most specific note that matches.
    for start, text in _notes():
        # A cheap test before the pattern, which is compiled once and only if needed.
        if not part.startswith(start):
            continue
        match = _pattern(text.message).fullmatch(part)
        if match:
            arguments = {
                name: _argument(name, value)
                for name, value in match.groupdict().items()
            }
            return text.fill(**arguments)
    return Text(part)  # of a plug-in, which may bring its translation


def _argument(name: str, value: str) -> Text | str:
    """Return an argument; those that are not numbers, or names in the data, are words too."""
    if name in _ARGUMENTS_OF_WORDS:
        return _translate_part(value)
    return value


_ARGUMENTS_OF_WORDS = frozenset(("units", "answer", "state", "what"))


@cache
def _notes() -> list[tuple[str, Text]]:
    """Return each note with its letters before the first argument, the most specific note first."""

    def letters(text: Text) -> int:
        # Without the arguments: a note of more letters is more specific.
        return len(_PLACEHOLDER.sub("", text.message))

    notes = sorted(NOTES, key=letters, reverse=True)
    return [(_PLACEHOLDER.split(text.message)[0], text) for text in notes]


@cache
def _pattern(message: str) -> re.Pattern[str]:
    """Return the pattern of a note; compiling those of all notes takes as long as a page."""
    return re.compile(_ARGUMENT.sub(_argument_pattern, re.escape(message)))


def _argument_pattern(argument: re.Match[str]) -> str:
    """Return the pattern of an argument, as a group of its name."""
    name = argument[1]
    # A count must be a number, or words would be read as one.
    values = "[0-9,]+" if name in ("count", "total") else ".{1,500}"
    return f"(?P<{name}>{values})"


_PLACEHOLDER = re.compile(r"\{\w+\}")
_ARGUMENT = re.compile(r"\\\{(\w+)\\\}")


Words: TypeAlias = tuple[str, str]
"""A text in English and in Chinese."""


def metric_title(name: str) -> Text | str:
    """Return what a metric is called.

    An unknown metric is called by its name, and one of a panel's judge by both names.
    """
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
    return _title_of_match(match)


def _title(match: Match) -> Text:
    title = _title_of_match(match)
    benchmark = match.spec.benchmark
    if benchmark:
        return gettext("{benchmark}: {metric}", benchmark=benchmark, metric=title)
    return title


def _title_of_match(match: Match) -> Text:
    """Return the title of a metric, with words for the values in its name."""
    # The metric of a slice has a title of its own within the title; the data name the slice.
    if "metric" in match.values:
        metric = metric_measure(match.values["metric"])
        return Text(match.spec.title, {**match.values, "metric": metric})
    # These values are named by the user.
    if match.values.keys() & {"criterion", "system", "class"}:
        return Text(match.spec.title, match.values)
    # Values of the benchmark have words in reports, such as the name of a subset.
    values: dict[str, object] = dict(match.values)
    for key, value in match.values.items():
        word = match.spec.words.get(value)
        if word:
            values[key] = Text(word) if isinstance(word, str) else word
    return Text(match.spec.title, values)


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
    for section, table in read_table(_FOLDER / file).items()
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
    entries = _TABLE[section]
    return {key: _text(entry) for key, entry in entries.items()}


def all_texts() -> Iterator[Text]:
    """Yield every text of these files."""
    for section, table in _TABLE.items():
        for entry in table.values():
            # Each figure has a title and a caption, other sections have one text for each key.
            entries = entry.values() if section == "figures" else [entry]
            yield from map(_text, entries)


def words(section: str) -> dict[str, Words]:
    """Return the texts of a section in every language by key."""
    texts_by_key = texts(section)
    return {key: in_every_language(text) for key, text in texts_by_key.items()}


FLAGS = words("flags")
PAGE = words("page")
SCRIPT = words("script")
SHARED: Final = ("findings", "figures", "dark", "light", "language")
"""Words of a run's page that other pages share."""
SWEEP = words("sweep") | {key: PAGE[key] for key in SHARED}
WATCH = words("watch") | {key: PAGE[key] for key in SHARED}
LABELING = {
    **words("labeling"),
    "dark": PAGE["dark"],
    "light": PAGE["light"],
    "language": PAGE["language"],
    "prompt": SCRIPT["prompt"],
    "context": SCRIPT["context"],
    "reference": SCRIPT["reference"],
    "response": SCRIPT["response"],
}
"""Words of the labeling page."""
TOKENS = texts("tokens")
LABELS = words("labels")

_FIGURES: Final[dict[str, dict[str, Text]]] = {
    name: {key: _text(text) for key, text in entry.items()}
    for name, entry in _TABLE["figures"].items()
}
_RELIABILITY: Final = _FIGURES["reliability"]
_FIGURES["reliability_after"] = {
    "title": _RELIABILITY["title"],
    "caption": gettext(
        "{caption} Other lines: recalibrated, by cross-validation.",
        caption=_RELIABILITY["caption"],
    ),
}
FIGURES: Final[dict[str, tuple[Words, Words]]] = {
    name: (in_every_language(entry["title"]), in_every_language(entry["caption"]))
    for name, entry in _FIGURES.items()
}
"""Title and caption of each figure."""
