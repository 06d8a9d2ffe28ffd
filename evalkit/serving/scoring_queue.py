"""Score questions that end at about the same time in one pass.

One pass over 50 questions takes about as long as a pass over one. Questions are scored together
only if each gets the verdict that it gets alone. Small ones are scored in the event loop: their
pass takes about a millisecond, and a thread may wait longer for a busy loop before it begins.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Verdict
from evalkit.scoring.pipeline import verdicts_of
from evalkit.serving.side_threads import aside

_MODES: Final = ("pairwise", "pointwise")
"""The modes whose verdicts depend on nothing but the judgments of their own case."""
SHORT: Final = 20_000
"""The most characters of a small question."""
_FEW: Final = 64
"""The most values in the judgments of a small question, and the most small questions of a pass."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A case with its judgments, and the future of its verdicts."""

    case: Case
    judgments: Sequence[Judgment]
    verdicts: asyncio.Future[Sequence[Verdict]]


class _Queue:
    """Questions that wait, and the task that scores them.

    Attributes:
        waiting: The questions, by the form of their judgments.
        passes: The task, while there is one.
    """

    def __init__(self) -> None:
        self.waiting: defaultdict[Hashable, list[_Question]] = defaultdict(list)
        self.passes: asyncio.Task[None] | None = None


class ScoringQueue:
    """Scores the questions of one config; those that end during a pass share the next one.

    All calls must come from one event loop.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._independent = scores_each_case_alone(config)
        self._small = _Queue()
        self._large = _Queue()

    async def verdicts(
        self, cases: Sequence[Case], judgments: Sequence[Judgment]
    ) -> Sequence[Verdict]:
        """Return the verdicts on cases, as `verdicts_of` does.

        Raises:
            ConfigError: as `verdicts_of`.
        """
        form = _form_of(judgments)
        # Scoring takes as long as the cases are large; other calls of the event loop continue.
        if not self._independent or len(cases) != 1 or form is None:
            return await aside(verdicts_of, self._config, cases, judgments)
        question = _Question(
            cases[0], judgments, asyncio.get_running_loop().create_future()
        )
        # Small questions do not wait until large ones are scored.
        is_small = _is_small(question)
        queue = self._small if is_small else self._large
        queue.waiting[form].append(question)
        if queue.passes is None:
            # It begins after the other questions whose answers were stored together.
            score = self._score_small() if is_small else self._score_large()
            queue.passes = asyncio.create_task(score)
        return await question.verdicts

    async def _score_small(self) -> None:
        """Score small questions in the event loop, pass by pass, until none waits."""
        queue = self._small
        try:
            while queue.waiting:
                form, questions = queue.waiting.popitem()
                if len(questions) > _FEW:
                    queue.waiting[form] = questions[_FEW:]
                _deliver(questions[:_FEW], self._score(questions[:_FEW]))
                await asyncio.sleep(0)  # other calls of the event loop continue
        finally:
            queue.passes = None

    async def _score_large(self) -> None:
        """Score large questions in a thread, pass by pass, until none waits."""
        queue = self._large
        try:
            while queue.waiting:
                _, questions = queue.waiting.popitem()
                _deliver(questions, await aside(self._score, questions))
        finally:
            queue.passes = None

    def _score(
        self, questions: Sequence[_Question]
    ) -> list[Sequence[Verdict] | Exception]:
        """Return the verdicts on each question, or the error of scoring it."""
        if len(questions) > 1:
            try:
                return [*_score_together(self._config, questions)]
            except Exception:
                # One of them cannot be scored; the others must not fail with it.
                pass
        return [_score_alone(self._config, question) for question in questions]


def scores_each_case_alone(config: RunConfig) -> bool:
    """Return whether the verdict on a case is known not to depend on the cases scored with it.

    Votes of a panel can be fitted to its cases, margins of rewards are scaled by all of them,
    expected values count only if every answer has them, the slope of length is that of all
    responses, and the coin that settles a tie depends on the id of the case.
    """
    return (
        config.mode.name in _MODES
        and len(config.judge.members) == 1
        and not config.judge.probabilities
        and not config.rubric.real
        and not config.scoring.length_control
        and config.tie.allow
    )


def _form_of(judgments: Sequence[Judgment]) -> Hashable | None:
    """Return what the judgments of two questions must have in common to be scored together.

    `None` if a judgment was not read, or is no plain answer. Whether an overall winner or those by
    criterion count depends on what any answer of a pass has, so all must have the same.
    """
    form = []
    for judgment in judgments:
        is_plain = (
            judgment.readable
            and judgment.arbiter is None
            and judgment.weighted is None
            and judgment.ranking is None
        )
        if not is_plain:
            return None
        answered = (
            judgment.value is not None,
            judgment.class_name is not None,
            frozenset(judgment.criteria),
        )
        form.append((judgment.unit, judgment.shown, judgment.sample, answered))
    return tuple(form)


def _score_together(
    config: RunConfig, questions: Sequence[_Question]
) -> Iterator[Sequence[Verdict]]:
    """Yield the verdicts on each question, from one pass over all.

    The ids of clients repeat, so that a pass has ids of its own.
    """
    cases = []
    judgments = []
    for number, question in enumerate(questions):
        case_id = str(number)
        cases.append(replace(question.case, id=case_id))
        judgments += [
            replace(judgment, case_id=case_id) for judgment in question.judgments
        ]
    by_case = defaultdict[str, list[Verdict]](list)
    for verdict in verdicts_of(config, cases, judgments):
        by_case[verdict.case_id].append(verdict)
    for case, question in zip(cases, questions, strict=True):
        yield [
            replace(verdict, case_id=question.case.id) for verdict in by_case[case.id]
        ]


def _score_alone(
    config: RunConfig, question: _Question
) -> Sequence[Verdict] | Exception:
    try:
        return verdicts_of(config, [question.case], question.judgments)
    except Exception as error:
        return error


def _is_small(question: _Question) -> bool:
    """Return whether a question takes almost no time to score."""
    case = question.case
    texts = [case.prompt, case.context or "", case.reference or ""]
    texts += [response.text for response in case.responses]
    values = sum(1 + len(judgment.criteria) for judgment in question.judgments)
    return values <= _FEW and sum(map(len, texts)) <= SHORT


def _deliver(
    questions: Sequence[_Question], scored: Sequence[Sequence[Verdict] | Exception]
) -> None:
    """Give each question its verdicts, or the error of scoring it."""
    for question, verdicts in zip(questions, scored, strict=True):
        if question.verdicts.done():  # canceled
            continue
        if isinstance(verdicts, Exception):
            question.verdicts.set_exception(verdicts)
        else:
            question.verdicts.set_result(verdicts)
