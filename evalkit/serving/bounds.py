"""How large a question to a judge can be: bounds that are checked before anything is
computed or sent.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from evalkit.core.admission import Refusal
from evalkit.core.values import frozen

THREADS: Final = 4
"""How many questions are read, planned or scored at a time, outside the event loop."""


@frozen
class Bounds:
    """The largest question that is answered.

    Attributes:
        criteria: The most criteria of a tool's arguments; a judge's own criteria always pass.
        responses: The most responses.
        items: The most checklist items, scored examples and columns of metadata.
        calls: The most calls to the judge for one question.
    """

    criteria: int = 100
    responses: int = 20
    items: int = 100
    calls: int = 100

    def check_criteria(self, criteria: Sized, validated: Sized) -> None:
        """Refuse too many criteria.

        Raises:
            Refusal: If there are more than allowed, and more than the judge has.
        """
        if len(criteria) > len(validated):
            _check("criteria", len(criteria), self.criteria, "--max-criteria")

    def check_responses(self, responses: Sized | None) -> None:
        """Refuse too many responses.

        Raises:
            Refusal: If there are more than allowed.
        """
        if responses is not None:
            _check("responses", len(responses), self.responses, "--max-responses")

    def check_items(self, name: str, items: Sized | None) -> None:
        """Refuse too many items of a list.

        Raises:
            Refusal: If there are more than allowed.
        """
        if items is not None:
            _check(name, len(items), self.items, "--max-items")

    def check_calls(self, calls: int) -> None:
        """Refuse a question that needs too many calls.

        Raises:
            Refusal: If it needs more than allowed.
        """
        _check("calls to the judge", calls, self.calls, "--max-calls")


def _check(name: str, count: int, most: int, flag: str) -> None:
    if count > most:
        raise Refusal(422, f"the question has {count:,} {name}; {flag} allows {most:,}")
