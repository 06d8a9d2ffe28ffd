"""Notice that a judge gives no usable answer, before all requests are paid for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from evalkit.core.causes import STOPPED_EARLY, USABLE, CauseKey, cause_key
from evalkit.core.display import shorten, visible
from evalkit.core.types import Judgment

ANSWERS: Final = 16
"""The fewest answers after which a run can be stopped."""
CASES: Final = 8
"""The fewest cases with these answers."""


@dataclass(slots=True)
class _Judge:
    """What a judge has answered so far: nothing usable, always for the same reason."""

    cause: CauseKey | None = None
    answers: int = 0
    cases: set[str] = field(default_factory=set)


@dataclass(slots=True)
class UselessJudges:
    """Counts each judge's answers until one of them is usable, or unusable for another reason.

    Attributes:
        exempt: Judges that are not counted any more.
        stored_counts: Whether a stored usable answer shows that a judge can answer.
    """

    stored_counts: bool = False
    exempt: set[str] = field(default_factory=set)
    _judges: dict[str, _Judge] = field(default_factory=dict)

    def why(self, judgment: Judgment) -> str | None:
        """Count a judgment; return why the run should stop, or `None` while it should not.

        A judge is exempt for good after a usable answer, or after answers that fail for two
        different reasons. The run stops once a judge's first answers, `ANSWERS` in at least
        `CASES` cases, all fail for one reason. Stored answers and failed calls do not count as
        answers.
        """
        name = judgment.arbiter or judgment.judge
        if name in self.exempt:
            return None
        if judgment.stored:
            if self.stored_counts and judgment.status in USABLE:
                self.exempt.add(name)
            return None
        if judgment.completion is None and not judgment.earlier:
            return None  # the call failed
        key = cause_key(judgment)
        judge = self._judges.setdefault(name, _Judge(key))
        if key is None or key != judge.cause:
            self.exempt.add(name)
            return None
        judge.answers += len(judgment.earlier) + (judgment.completion is not None)
        judge.cases.add(judgment.case_id)
        if judge.answers < ANSWERS or len(judge.cases) < CASES:
            return None
        reason = shorten(visible(judgment.error or judgment.status), 200)
        return (
            f"{STOPPED_EARLY}: the first {judge.answers} "
            f"answers of {name} ({len(judge.cases)} cases)"
            f" are all {judgment.status} for the same reason: {reason}"
        )
