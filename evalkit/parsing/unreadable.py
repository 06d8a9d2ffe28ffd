"""The one way in which reading fails."""

from __future__ import annotations

from typing import Literal

Kind = Literal["empty", "truncated", "no_answer", "ambiguous", "invalid", "logprobs", "refusal", "content_filter"]


class UnreadableError(Exception):
    """A judge's text holds no answer that can be used; it becomes a judgment's status and never reaches the user.

    Args:
        kind: what sort of fault it is.
        reason: what is wrong, in one line that can be shown to the judge.
    """

    def __init__(self, kind: Kind, reason: str) -> None:
        self.kind, self.reason = kind, " ".join(reason.split())
        super().__init__(self.reason)
