"""Prompt templates: found, checked, filled and hashed; and texts made safe to stand in them."""

from evalkit.prompting.precompiled import CompiledTemplate, PromptSignature, text_length
from evalkit.prompting.safety import MARKERS, is_safe, marked, marked_texts, neutralize
from evalkit.prompting.templates import Prompts

__all__ = [
    "MARKERS",
    "CompiledTemplate",
    "PromptSignature",
    "Prompts",
    "is_safe",
    "marked",
    "marked_texts",
    "neutralize",
    "text_length",
]
