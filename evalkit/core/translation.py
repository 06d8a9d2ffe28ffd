"""Texts for readers in their language: English in the code, translations in
`locale/LANGUAGE/LC_MESSAGES`.

`gettext`, `ngettext` and `pgettext` return a `Text`, which a translator renders later: there is no
global language. A text without a translation is in English. `docs/translations.py` collects the
texts.
"""

from __future__ import annotations

import gettext as catalogs
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final, TypeAlias

from evalkit.core.values import frozen

DOMAIN: Final = "evalkit"
LANGUAGES: Final = ("en", "zh")
"""The languages of reports; the first one is the language of the code."""

_NOUNS: Final = (
    "annotator answer call case cluster comparison conversation item judge label look pair passe"
    " response score slice unit"
)
_COUNTED: Final = re.compile(
    rf"\{{(\w+)(?::,)?\}} (?:[a-z]+ )?(?:{'|'.join(_NOUNS.split())}|system|test|verdict|word)s(?:"
    r" or \w+s)?\b"
)
"""A number before what it counts, in an English text; each noun is without its last `s`, so
`passes` is `passe`."""

Translator: TypeAlias = catalogs.NullTranslations


@frozen
class Text:
    """A message with values for its `{placeholders}`, which may be texts themselves.

    Attributes:
        message: The message in English. Without values, braces in it have no meaning.
        values: The values of its placeholders.
        plural: The message for any number except one.
        count: The number that selects the singular or the plural.
        context: Distinguishes equal messages with different translations.
    """

    message: str
    values: Mapping[str, object] = field(default_factory=dict)
    plural: str | None = None
    count: int = 1
    context: str | None = None

    def render(self, translator: Translator) -> str:
        """Return the text in the translator's language."""
        if self.plural is not None:
            template = translator.ngettext(self.message, self.plural, self.count)
        elif self.context is not None:
            template = translator.pgettext(self.context, self.message)
        else:
            template = translator.gettext(self.message)
        if not self.values:
            return template
        # Only English has a plural here; a translation has its own form.
        if template == self.message:
            template = _COUNTED.sub(self._noun_of_one, template)
        return template.format(
            **{name: rendered(value, translator) for name, value in self.values.items()}
        )

    def _noun_of_one(self, match: re.Match[str]) -> str:
        """Return a number with its noun, which is singular after 1."""
        if self.values.get(match[1]) == 1:
            return re.sub(r"(?<=ss)es\b|(?<!s)s\b", "", match[0])
        return match[0]

    def fill(self, **values: object) -> Text:
        """Return the text with additional values."""
        return replace(self, values={**self.values, **values})


@frozen
class Joined:
    """Several texts with a separator between them."""

    separator: Text
    parts: tuple[Text | Joined | str, ...]

    def render(self, translator: Translator) -> str:
        """Return the text in the translator's language."""
        return self.separator.render(translator).join(
            str(rendered(part, translator)) for part in self.parts
        )


Message: TypeAlias = Text | Joined | str


def rendered(value: object, translator: Translator) -> object:
    """Render a text in the translator's language; return any other value unchanged."""
    if isinstance(value, Text | Joined):
        return value.render(translator)
    return value


def gettext(message: str, /, **values: object) -> Text:
    """Return a translatable text."""
    return Text(message, values)


def ngettext(message: str, plural: str, count: int, /, **values: object) -> Text:
    """Return a translatable text with a singular and a plural; the number is also its value `n`."""
    return Text(message, {"n": count, **values}, plural, count)


def pgettext(context: str, message: str, /, **values: object) -> Text:
    """Return a translatable text whose translation depends on the context."""
    return Text(message, values, context=context)


def joined(parts: Iterable[Message], separator: Text | None = None) -> Joined:
    """Return texts as a list, by default separated by commas."""
    return Joined(gettext(", ") if separator is None else separator, tuple(parts))


@cache
def translator(language: str) -> Translator:
    """Return the translator for a language; it returns English if the language has no
    translations.
    """
    with as_file(files("evalkit") / "locale") as folder:
        return catalogs.translation(DOMAIN, folder, [language], fallback=True)


@cache
def add_translations(folder: Path) -> None:
    """Add another package's `LANGUAGE/LC_MESSAGES/evalkit.mo`, for texts that have no
    translation yet.
    """
    for language in LANGUAGES:
        translator(language).add_fallback(
            catalogs.translation(DOMAIN, folder, [language], fallback=True)
        )


def in_every_language(message: Message) -> tuple[str, str]:
    """Return a text in each of the `LANGUAGES`."""
    english, chinese = (
        str(rendered(message, translator(language))) for language in LANGUAGES
    )
    return english, chinese
