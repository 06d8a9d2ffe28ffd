"""What the prompts of FastChat's and Arena-Hard's judges hold: the question and the answers between their markers."""

from __future__ import annotations

import re

_ANSWER = re.compile(
    r"(?:\[|<\|)The Start of (?:the )?(?:Assistant|Model)(?: (?P<side>[AB]))?['’]s (?:Answer|Conversation with User)"
    r"(?:\]|\|>)\s*(?P<text>.*?)\s*(?:\[|<\|)The End of ",
    re.DOTALL,
)
_QUESTION = re.compile(
    r"(?:\[(?:User )?Question\]|<\|User Prompt\|>)\s*(?P<text>.*?)\s*(?=\[The Start|<\|The )", re.DOTALL
)


def answers_in(prompt: str) -> dict[str, str]:
    """Return the answers in a judge's prompt by side: `A` and `B`, or one under an empty name."""
    return {match["side"] or "": match["text"] for match in _ANSWER.finditer(prompt)}


def question_in(prompt: str) -> str:
    """Return the question in a judge's prompt, nothing where there is none."""
    match = _QUESTION.search(prompt)
    return match["text"] if match else ""
