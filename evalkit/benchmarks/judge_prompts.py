"""What the prompts of FastChat's and Arena-Hard's judges hold between their markers: question, answers, reference."""

from __future__ import annotations

import re

_ANSWER = re.compile(
    r"(?:\[|<\|)The Start of (?:the )?(?:Assistant|Model)(?: (?P<side>[AB]))?['’]s "
    r"(?P<kind>Answer|Conversation with User)(?:\]|\|>)\s*(?P<text>.*?)\s*(?:\[|<\|)The End of ",
    re.DOTALL,
)
_QUESTION = re.compile(
    r"(?:\[(?:User )?Question\]|<\|User Prompt\|>)\s*(?P<text>.*?)\s*(?=\[The Start|<\|The )", re.DOTALL
)
_REFERENCE = re.compile(
    r"(?:\[|<\|)The Start of Reference Answer(?:\]|\|>)\s*(?P<text>.*?)\s*(?:\[|<\|)The End of ", re.DOTALL
)
_TURN = re.compile(r"^### (?P<who>User|Assistant(?: [AB])?|Reference answer):[ \t]*\n", re.MULTILINE)


def answers_in(prompt: str) -> dict[str, str]:
    """Return the answers in a judge's prompt by side: `A` and `B`, or one under an empty name.

    Of a conversation they are what the assistant said in each turn.
    """
    found = {match["side"] or "": _said(match["text"], "Assistant") for match in _ANSWER.finditer(prompt)}
    # FastChat calls the only assistant of a conversation A.
    return {"": found["A"]} if set(found) == {"A"} else found


def question_in(prompt: str) -> str:
    """Return the question in a judge's prompt, of a conversation what the user said in each turn; else nothing."""
    if match := _QUESTION.search(prompt):
        return match["text"]
    match = _ANSWER.search(prompt)
    return _said(match["text"], "User") if match and match["kind"] != "Answer" else ""


def reference_in(prompt: str) -> str | None:
    """Return the reference answer in a judge's prompt, none where there is none."""
    match = _REFERENCE.search(prompt)
    return (_said(match["text"], "Reference answer") or None) if match else None


def _said(text: str, who: str) -> str:
    """Return what one side says in a conversation: the one text, or all under their numbers; a plain text as it is."""
    parts = _TURN.split(text)
    if len(parts) == 1:
        return text
    said = [part.strip() for name, part in zip(parts[1::2], parts[2::2], strict=True) if name.startswith(who)]
    if len(said) == 1:
        return said[0]
    return "\n\n".join(f"[Turn {number}]\n{part}" for number, part in enumerate(said, 1))
