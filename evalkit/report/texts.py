"""Texts of reports: those of texts.toml, as texts to fill and in every language."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from evalkit.core.translation import Text, gettext, in_every_language
from evalkit.report.metric_names import Words

_TABLE: Final = tomllib.loads((Path(__file__).parent / "texts.toml").read_text("utf-8"))


def _text(entry: str | Mapping[str, str]) -> Text:
    if isinstance(entry, str):
        return Text(entry)
    if "many" in entry:
        return Text(entry["one"], {"n": 2}, entry["many"], 2)
    return Text(entry["text"], context=entry["context"])


def texts(section: str) -> dict[str, Text]:
    """Return the texts of a section of texts.toml by key."""
    return {key: _text(entry) for key, entry in _TABLE[section].items()}


def all_texts() -> Iterator[Text]:
    """Yield every text of texts.toml."""
    for section, table in _TABLE.items():
        for text in table.values():
            yield from map(_text, text.values() if section == "figures" else [text])


def words(section: str) -> dict[str, Words]:
    """Return the texts of a section in every language by key."""
    return {key: in_every_language(text) for key, text in texts(section).items()}


FLAGS, PAGE, SCRIPT = words("flags"), words("page"), words("script")
SHARED: Final = ("findings", "figures", "dark", "light", "language")
"""Words of a run's page that other pages share."""
SWEEP = words("sweep") | {key: PAGE[key] for key in SHARED}
LABELING = {
    **words("labeling"),
    **{key: PAGE[key] for key in ("dark", "light", "language")},
    **{key: SCRIPT[key] for key in ("prompt", "context", "reference", "response")},
}
"""Words of the labeling page."""
TOKENS, LABELS = texts("tokens"), words("labels")

_FIGURES: Final[dict[str, dict[str, Text]]] = {
    name: {key: _text(text) for key, text in entry.items()} for name, entry in _TABLE["figures"].items()
}
_FIGURES["reliability_after"] = {
    "title": _FIGURES["reliability"]["title"],
    "caption": gettext(
        "{caption} Other lines: recalibrated, by cross-validation.", caption=_FIGURES["reliability"]["caption"]
    ),
}
FIGURES: Final[dict[str, tuple[Words, Words]]] = {
    name: (in_every_language(entry["title"]), in_every_language(entry["caption"])) for name, entry in _FIGURES.items()
}
"""Title and caption of each figure."""
