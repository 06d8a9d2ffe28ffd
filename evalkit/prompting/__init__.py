"""Prompt templates: found, checked, filled and hashed; and texts made safe to stand in them."""

from evalkit.prompting.markers import MARKERS, marked_texts, neutralise
from evalkit.prompting.templates import Prompts

__all__ = ["MARKERS", "Prompts", "marked_texts", "neutralise"]
