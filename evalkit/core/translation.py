"""Texts for readers, in the reader's language: English in the code, translations in `locale/LANGUAGE/LC_MESSAGES`.

`gettext`, `ngettext` and `pgettext` return a `Text`, which is rendered later by a translator that is passed to it: no
language is set anywhere. A text without a translation is in English. `docs/translations.py` collects the texts.
"""

from __future__ import annotations

import gettext as catalogs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import as_file, files
from typing import Final, TypeAlias

DOMAIN: Final = "evalkit"
LANGUAGES: Final = ("en", "zh")
"""The languages of reports; the first one is that of the code."""

Translator: TypeAlias = catalogs.NullTranslations


@dataclass(frozen=True, slots=True)
class Text:
    """A message with values for its `{placeholders}`, which may be texts themselves.

    Without any value, braces are left as they are. `plural` is what it says of another number than one.
    """

    message: str
    values: Mapping[str, object] = field(default_factory=dict)
    plural: str | None = None
    count: int = 1
    context: str | None = None

    def render(self, translator: Translator) -> str:
        """Return it in the translator's language."""
        if self.plural is not None:
            found = translator.ngettext(self.message, self.plural, self.count)
        elif self.context is not None:
            found = translator.pgettext(self.context, self.message)
        else:
            found = translator.gettext(self.message)
        if not self.values:
            return found
        return found.format(**{name: rendered(value, translator) for name, value in self.values.items()})

    def fill(self, **values: object) -> Text:
        """Return it with values for more placeholders."""
        return replace(self, values={**self.values, **values})


@dataclass(frozen=True, slots=True)
class Joined:
    """Texts one after the other, with a separator between them."""

    separator: Text
    parts: tuple[Text | Joined | str, ...]

    def render(self, translator: Translator) -> str:
        """Return it in the translator's language."""
        return self.separator.render(translator).join(str(rendered(part, translator)) for part in self.parts)


Message: TypeAlias = Text | Joined | str


def rendered(value: object, translator: Translator) -> object:
    """Return a text in the translator's language, and any other value as it is."""
    return value.render(translator) if isinstance(value, Text | Joined) else value


def gettext(message: str, /, **values: object) -> Text:
    """Return a text to be translated."""
    return Text(message, values)


def ngettext(message: str, plural: str, count: int, /, **values: object) -> Text:
    """Return a text to be translated that depends on a number, which is also its value `n`."""
    return Text(message, {"n": count, **values}, plural, count)


def pgettext(context: str, message: str, /, **values: object) -> Text:
    """Return a text to be translated that is translated differently elsewhere."""
    return Text(message, values, context=context)


def joined(parts: Iterable[Message], separator: Text | None = None) -> Joined:
    """Return texts as a list, by default with commas."""
    return Joined(gettext(", ") if separator is None else separator, tuple(parts))


@cache
def translator(language: str) -> Translator:
    """Return the translator into a language; English where there are no translations into it."""
    with as_file(files("evalkit") / "locale") as folder:
        return catalogs.translation(DOMAIN, folder, [language], fallback=True)


def in_every_language(message: Message) -> tuple[str, str]:
    """Return a text in each of the `LANGUAGES`."""
    english, chinese = (str(rendered(message, translator(language))) for language in LANGUAGES)
    return english, chinese
