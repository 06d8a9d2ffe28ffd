"""Read judges' answers: JSON, verdicts and ratings in brackets, and custom patterns."""

from evalkit.parsing.checklists import read_item_answer, read_item_entries, read_marked_item, read_marked_items
from evalkit.parsing.decisions import Pattern, read_margin, read_marked_class, read_rating, read_verdict
from evalkit.parsing.json import read_json
from evalkit.parsing.plain_text import drop_thinking, is_refusal
from evalkit.parsing.scores import UnreadableError, read_class, read_score, read_winner

__all__ = [
    "Pattern",
    "UnreadableError",
    "drop_thinking",
    "is_refusal",
    "read_class",
    "read_item_answer",
    "read_item_entries",
    "read_json",
    "read_margin",
    "read_marked_class",
    "read_marked_item",
    "read_marked_items",
    "read_rating",
    "read_score",
    "read_verdict",
    "read_winner",
]
