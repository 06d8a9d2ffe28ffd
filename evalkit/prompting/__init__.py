"""Prompt templates: found, checked, filled and hashed; and texts made safe to stand in them."""

from evalkit.prompting.blanks import Blank, Outline
from evalkit.prompting.counting import quarters
from evalkit.prompting.markers import MARKERS, is_safe, marked, marked_texts, neutralise
from evalkit.prompting.templates import Prompts

__all__ = ["MARKERS", "Blank", "Outline", "Prompts", "is_safe", "marked", "marked_texts", "neutralise", "quarters"]
