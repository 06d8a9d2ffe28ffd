"""Reading what judges write: JSON, marked verdicts and ratings, patterns; and telling what cannot be read."""

from evalkit.parsing.json_text import read_json
from evalkit.parsing.refusals import is_refusal
from evalkit.parsing.scores import read_score
from evalkit.parsing.thinking import drop_thinking
from evalkit.parsing.unreadable import UnreadableError
from evalkit.parsing.verdicts import Pattern, read_margin, read_rating, read_verdict
from evalkit.parsing.winners import read_winner

__all__ = [
    "Pattern",
    "UnreadableError",
    "drop_thinking",
    "is_refusal",
    "read_json",
    "read_margin",
    "read_rating",
    "read_score",
    "read_verdict",
    "read_winner",
]
