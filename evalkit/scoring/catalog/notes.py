"""Every note of a metric, for readers in their language.

Notes are stored in English, as a run folder keeps them, and translated where they are shown: `note_text` finds each
part of a note here, with its arguments. A note that is not here is shown in English.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from evalkit.core.translation import Joined, Text, gettext, joined

NOTES: Final = tuple(map(Text, (Path(__file__).parent / "notes.txt").read_text("utf-8").splitlines()))
"""Parts of notes; a note joins one or more by semicolons."""


def note_text(note: str) -> Joined:
    """Return a note as a text in every language."""
    return joined(map(_part, filter(None, note.split("; "))), gettext("; "))


def _part(part: str) -> Text:
    for pattern, text in _patterns():
        if found := pattern.fullmatch(part):
            return text.fill(**{name: _argument(name, value) for name, value in found.groupdict().items()})
    return Text(part)  # of a plug-in, which may bring its translation


def _argument(name: str, value: str) -> Joined | str:
    """Return an argument; those that are not numbers, or names in the data, are words too."""
    words = name in ("units", "effect", "facet", "answer")
    return joined(map(_part, value.split(" × ")), Text(" × ")) if words else value


@cache
def _patterns() -> list[tuple[re.Pattern[str], Text]]:
    """Return the pattern of each note, those with the most letters of their own first."""
    parts = sorted(NOTES, key=lambda text: -len(re.sub(r"\{\w+\}", "", text.message)))
    return [(re.compile(_ARGUMENT.sub(r"(?P<\1>.{1,500})", re.escape(text.message))), text) for text in parts]


_ARGUMENT = re.compile(r"\\\{(\w+)\\\}")
