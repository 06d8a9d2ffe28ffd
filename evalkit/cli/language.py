"""The language of what commands print about a run: `EVALKIT_LANGUAGE`, else that of the
run's prompts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from evalkit.core.errors import ConfigError
from evalkit.core.translation import (
    LANGUAGES,
    Message,
    Translator,
    rendered,
    translator,
)
from evalkit.core.values import Json, frozen

if TYPE_CHECKING:
    from evalkit.config import RunConfig
    from evalkit.report.findings import Finding

VARIABLE: Final = "EVALKIT_LANGUAGE"


def chosen_language() -> str | None:
    """Return the language that the environment chooses, or `None`.

    Raises:
        ConfigError: if evalkit does not speak it.
    """
    language = os.environ.get(VARIABLE)
    if not language:
        return None
    if language not in LANGUAGES:
        raise ConfigError(
            f"'{language}' is not a language of the terminal",
            where=VARIABLE,
            remedy=f"choose from {', '.join(LANGUAGES)}",
        )
    return language


@frozen
class Speaker:
    """Renders texts in one language."""

    translator: Translator

    def __call__(self, message: Message) -> str:
        """Return a text in the language."""
        return str(rendered(message, self.translator))

    def finding(self, finding: Finding) -> str:
        """Return the sentence of a finding in the language."""
        return self.of({"text": finding.text, "text_zh": finding.text_zh})

    def of(self, texts: Json) -> str:
        """Return that of the texts `text` and `text_zh` that is in the language."""
        if self.translator is translator("zh"):
            return str(texts["text_zh"])
        return str(texts["text"])


def speaker(config: RunConfig) -> Speaker:
    """Return the speaker of what a command prints about a run of this config."""
    from evalkit.report.page import language_of

    return Speaker(translator(chosen_language() or language_of(config)))


ENGLISH: Final = Speaker(translator("en"))
