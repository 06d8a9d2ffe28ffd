"""Prompt templates: found, checked, filled and hashed; and texts made safe to stand in them."""

from evalkit.prompting.safety import MARKERS, marked, marked_texts, neutralize
from evalkit.prompting.templates import Prompts

__all__ = [
    "MARKERS",
    "Prompts",
    "marked",
    "marked_texts",
    "neutralize",
]
