"""Read judges' answers: JSON, verdicts and ratings in brackets, and custom patterns."""

from evalkit.evaluators.parsing.contradictions import (
    check_fields,
    check_statements,
    check_words,
)
from evalkit.evaluators.parsing.json import read_json
from evalkit.evaluators.parsing.plain_text import (
    UnreadableError,
    drop_thinking,
    is_refusal,
    read_class,
    read_score,
    read_verdict,
    read_winner,
)
from evalkit.evaluators.parsing.stated_items import (
    read_item_answer,
    read_item_entries,
    read_marked_item,
    read_marked_items,
)
from evalkit.evaluators.parsing.stated_verdicts import (
    MARGINS,
    AnswerKind,
    AnswerTask,
    Pattern,
    Reply,
    read_marks,
)

__all__ = [
    "MARGINS",
    "AnswerKind",
    "AnswerTask",
    "Pattern",
    "Reply",
    "UnreadableError",
    "check_fields",
    "check_statements",
    "check_words",
    "drop_thinking",
    "is_refusal",
    "read_class",
    "read_item_answer",
    "read_item_entries",
    "read_json",
    "read_marked_item",
    "read_marked_items",
    "read_marks",
    "read_score",
    "read_verdict",
    "read_winner",
]
