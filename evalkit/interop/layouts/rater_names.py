"""What the name of a score or a column says about who gave it: a judge, or people."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

_PARTS: Final = re.compile(r"[a-z0-9]+|[^\x00-\x7f]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
JUDGES: Final = frozenset(
    {
        *(
            "judge",
            "llm",
            "auto",
            "ai",
            "grader",
            "evaluator",
            "verdict",
            "prediction",
            "pred",
        ),
        *(
            "gpt",
            "gpt4",
            "claude",
            "gemini",
            "llama",
            "qwen",
            "mistral",
            "deepseek",
            "haiku",
        ),
        *(
            "sonnet",
            "opus",
            "prometheus",
            "grok",
            "command",
            "nova",
            "o1",
            "o3",
            "o4",
            "kimi",
        ),
        *("裁判", "模型", "自动"),
    }
)
"""Words in the name of a judge's column."""
PEOPLE: Final = frozenset(
    {
        *(
            "human",
            "annotator",
            "annotators",
            "annotation",
            "expert",
            "crowd",
            "manual",
        ),
        *("reviewer", "sme", "thumb", "thumbs", "人工", "专家", "人类", "标注"),
    }
)
"""Words in the name of a score or a column that people gave."""
_LABELS: Final = frozenset(
    {"gold", "label", "labels", "majority", "truth", "user", "标签", "真值"}
)
"""Words in the name of a column of labels; a score by this name can be a judge's."""
_OPINIONS: Final = frozenset({"feedback", "rating", "score", "vote"})
"""Words that make a `user` the rater, and not the subject of a judge."""
_VERDICTS: Final = frozenset({"verdict", "judge", "grader", "evaluator"})
"""Words for a verdict or a rater, which is a person's after a word for people: `human_verdict`."""
_MACHINES: Final = frozenset(
    {"automated", "automatic", "estimated", "machine", "predicted"}
)
"""Words of what a machine gave, as in `estimated_annotation`."""
_ABOUT_RATERS: Final = frozenset(
    {*("at", "by", "id", "ids", "time", "timestamp", "date", "name", "email", "role")}
)
"""Last words of columns about a rater or a rating, such as `annotation.updated_at`."""
_NO_VERDICTS: Final = frozenset(
    {
        *(
            "minutes",
            "mins",
            "seconds",
            "secs",
            "hours",
            "days",
            "duration",
            "lead",
            "effort",
        ),
        *(
            "count",
            "counts",
            "num",
            "n",
            "total",
            "tokens",
            "length",
            "cost",
            "price",
            "age",
        ),
        *(
            "year",
            "years",
            "difficulty",
            "baseline",
            "performance",
            "accuracy",
            "agreement",
        ),
        *(
            "confidence",
            "rate",
            "verified",
            "reviewed",
            "validated",
            "written",
            "generated",
        ),
        *(
            "edited",
            "annotated",
            "comment",
            "comments",
            "note",
            "notes",
            "reason",
            "reasons",
        ),
        *("explanation", "text", "guideline", "guidelines", "url", "source", "version"),
    }
)
"""Words of columns that measure or describe people's work, such as `human_minutes`, and
are no verdict.
"""


_CODE: Final = frozenset(
    {
        *(
            "bleu",
            "gleu",
            "rouge",
            "rouge1",
            "rouge2",
            "rougel",
            "rougelsum",
            "meteor",
            "chrf",
        ),
        *(
            "exactmatch",
            "levenshtein",
            "levenshteindistance",
            "levenshteinratio",
            "jsondiff",
        ),
        *(
            "numericdiff",
            "validjson",
            "isjson",
            "listcontains",
            "contains",
            "equals",
            "f1",
        ),
        *(
            "embeddingsimilarity",
            "regexmatch",
            "regex",
            "startswith",
            "endswith",
            "icontains",
        ),
        *("stringcheck", "textsimilarity", "tokencount", "latency", "editdistance"),
    }
)
"""Metrics that are code in every tool, without separators."""
_ENDS_OF_METRICS: Final = ("scorer", "score", "metric", "evaluator")


def is_code(name: str) -> bool:
    """Return whether the name of a score is that of a metric without a model, such as
    `exact_match`.
    """
    folded = re.sub(r"[^a-z0-9]", "", name.casefold())
    for end in _ENDS_OF_METRICS:
        folded = folded.removesuffix(end) or folded
    return folded in _CODE


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in snake case, camel case or with spaces."""
    # Humps are split before the case is folded.
    return tuple(_PARTS.findall(_HUMP.sub(" ", name).casefold()))


def is_persons(name: str) -> bool:
    """Return whether the name of a score says that people gave it."""
    words = {*words_of(name)}
    # `user_rating` is a user's, and `user_intent` is about one.
    by_user = "user" in words and not words.isdisjoint(_OPINIONS)
    is_named = by_user or not words.isdisjoint(PEOPLE)
    return is_named and _names_no_judge(name, PEOPLE)


def _names_no_judge(name: str, people: Set[str]) -> bool:
    """Return whether a name of people's has no word of a judge, and is not about a rater.

    A name with words of both, such as `human_vs_gpt`, is open.
    """
    words = words_of(name)
    if not (_NO_VERDICTS | _MACHINES).isdisjoint(words):
        return False
    named = [position for position, word in enumerate(words) if word in people]
    judging = [
        word
        for position, word in enumerate(words)
        if word in JUDGES and not (word in _VERDICTS and position - 1 in named)
    ]
    return not judging and words[-1] not in _ABOUT_RATERS


def is_labels(name: str) -> bool:
    """Return whether the name of a column says that people gave its values."""
    people = PEOPLE | _LABELS
    return not people.isdisjoint(words_of(name)) and _names_no_judge(name, people)


def is_judges(name: str) -> bool:
    """Return whether the name of a column says that a judge gave its values."""
    words = {*words_of(name)}
    return not words.isdisjoint(JUDGES) and words.isdisjoint(PEOPLE | _LABELS)
