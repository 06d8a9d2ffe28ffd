"""Find, check, fill and hash prompt templates, and neutralize the texts they contain."""

from evalkit.evaluators.prompting.foreign import foreign_template
from evalkit.evaluators.prompting.safety import (
    MARKERS,
    around_texts,
    marked,
    marked_texts,
    neutralize,
)
from evalkit.evaluators.prompting.templates import Prompts

__all__ = [
    "MARKERS",
    "Prompts",
    "around_texts",
    "foreign_template",
    "marked",
    "marked_texts",
    "neutralize",
]
