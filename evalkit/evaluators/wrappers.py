"""Wrap evaluators: the judge answers the task itself first, or learns how to read numbered turns.

Judges of different kinds each have their own. Errors of third-party evaluators become one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import isfinite
from typing import Any

from evalkit.config import JudgeConfig, RunConfig
from evalkit.core.errors import PluginError, PromptError
from evalkit.core.finish_reasons import end_of
from evalkit.core.plugins import third_party_errors
from evalkit.core.protocols import Evaluator, FollowUpEvaluator
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment, Message
from evalkit.evaluators.base import missing_judgment
from evalkit.evaluators.parsing import UnreadableError, drop_thinking
from evalkit.evaluators.prompting import Prompts, neutralize

ANSWER, OWN_ANSWER = "answer", "own_answer"


class CommitFirst:
    """Wraps an evaluator so that the judge answers the task itself before each request.

    The additional request is the same for all responses, orders and samples of a case, so it is
    paid for once. Its answer is shown in the requests after it, marked as the judge's own and
    neutralized like any other text.

    Args:
        inner: The evaluator.
        prompts: The templates `answer` (original_prompt, context) and `own_answer` (own_answer).

    Raises:
        PromptError: If one of these templates cannot be found, parsed or filled.
    """

    def __init__(self, inner: Evaluator, prompts: Prompts) -> None:
        self._inner, self._prompts = inner, prompts
        for optional in (None, "text"):
            self._question(Case("rehearsal", "text", (), context=optional))
        self._fill_own_answer("text")
        self._check_placeholders()

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """The SHA-256 of each template in use."""
        return {**getattr(self._inner, "prompt_hashes", {}), **self._prompts.hashes()}

    @property
    def prompt_texts(self) -> dict[str, str]:
        """The text of each template in use."""
        return {**getattr(self._inner, "prompt_texts", {}), **self._prompts.texts()}

    def _check_placeholders(self) -> None:
        """Check that both templates show what they must, by filling in two different texts.

        Raises:
            PromptError: If a template gives the same messages for both.
        """
        probe, second_probe = "evalkit one", "Another two, to see what changes"
        checks: list[tuple[str, str, bool]] = [
            (
                ANSWER,
                "original_prompt",
                self._fill_answer(probe, "") != self._fill_answer(second_probe, ""),
            ),
            (
                OWN_ANSWER,
                "own_answer",
                self._fill_own_answer(probe) != self._fill_own_answer(second_probe),
            ),
        ]
        # A template without the placeholder gives equal messages for both texts.
        for template, name, depends in checks:
            if not depends:
                remedy = f"add {{{{ {name} }}}} to it"
                raise PromptError(
                    f"has no placeholder '{name}'",
                    where=self._prompts.place(template),
                    remedy=remedy,
                )

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return, for each request of the inner evaluator, the request for the judge's
        own answer that precedes it.
        """
        return self._preceded(case, self._inner.plan(case))

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return the inner evaluator's request with the judge's own answer in it, or
        what the inner evaluator reads.
        """
        # `then` is set only on the question for the judge's own answer.
        if request.then is None:
            return self._inner.read(request, completion)
        try:
            own_answer = _read_own_answer(completion)
        except UnreadableError as fault:
            return missing_judgment(request, completion, fault)
        # The judge's own answer precedes the responses, which are in the last message.
        *before, last = request.then.messages
        content = f"{self._fill_own_answer(own_answer)}\n\n{last['content'].lstrip()}"
        return replace(
            request.then, messages=(*before, {"role": last["role"], "content": content})
        )

    def follow(
        self, case: Case, judgments: Sequence[Judgment]
    ) -> Sequence[JudgeRequest]:
        """Return the inner evaluator's follow-up requests, wrapped in the same way."""
        return self._preceded(
            case,
            (
                self._inner.follow(case, judgments)
                if isinstance(self._inner, FollowUpEvaluator)
                else ()
            ),
        )

    def _preceded(
        self, case: Case, requests: Sequence[JudgeRequest]
    ) -> list[JudgeRequest]:
        question = self._question(case)
        return [
            replace(request, messages=question, answer=None, then=request, shared=True)
            for request in requests
        ]

    def _question(self, case: Case) -> tuple[Message, ...]:
        return self._fill_answer(
            neutralize(case.prompt), neutralize(case.context or "")
        )

    def _fill_answer(self, prompt: str, context: str) -> tuple[Message, ...]:
        return self._prompts.render(ANSWER, original_prompt=prompt, context=context)

    def _fill_own_answer(self, own_answer: str) -> str:
        return self._prompts.render(OWN_ANSWER, own_answer=neutralize(own_answer))[-1][
            "content"
        ].strip()


def _read_own_answer(completion: Completion) -> str:
    """Return the judge's own answer to the task, without its thinking.

    Raises:
        UnreadableError: If it is refused, empty, or ended in an unusual way.
    """
    # An answer cut off at the limit still helps; any other unusual end does not.
    end = end_of(completion.finish_reason)
    if completion.refusal or end == "refused":
        reason = completion.refusal or "the provider's content filter stopped it"
        raise UnreadableError(
            "refusal", f"the judge refused to answer the task itself: {reason[:200]}"
        )
    if end not in ("complete", "length"):
        reason = f"the judge's own answer ended with '{completion.finish_reason}'"
        raise UnreadableError("truncated", reason)
    answer = drop_thinking(completion.text).strip()
    if not answer:
        raise UnreadableError("empty", "the judge's own answer to the task is empty")
    return answer


def explain_turns(inner: Evaluator, config: RunConfig, prompts: Prompts) -> Evaluator:
    """Return an evaluator whose judge learns how to read numbered turns from the end of
    its first message.

    Raises:
        PromptError: If the template `turns` cannot be found, parsed or filled.
    """
    dataset = config.dataset
    cut = dataset.fit is not None or dataset.max_chars is not None
    note = prompts.instruction(
        "turns",
        unit=dataset.unit,
        after=dataset.after,
        several=not config.mode.scores,
        cut=cut,
    )
    return (
        _FollowingExplained if isinstance(inner, FollowUpEvaluator) else _Explained
    )(inner, note)


class _Explained:
    def __init__(self, inner: Evaluator, note: str) -> None:
        self.inner, self._note = inner, note

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # copying an object asks for it before it exists
            raise AttributeError(name)
        return getattr(self.inner, name)

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests of the inner evaluator with the note."""
        return self._with_note(self.inner.plan(case))

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return what the inner evaluator reads."""
        return self.inner.read(request, completion)

    def _with_note(self, requests: Sequence[JudgeRequest]) -> list[JudgeRequest]:
        return [
            replace(
                request,
                messages=(self._noted(request.messages[0]), *request.messages[1:]),
            )
            for request in requests
        ]

    def _noted(self, message: Message) -> Message:
        first = message["content"]
        last = self._note
        # After a system text, but before the material of a user message.
        if message["role"] != "system":
            first, last = last, first
        return {
            "role": message["role"],
            "content": f"{first.rstrip()}\n\n{last.lstrip()}",
        }


class _FollowingExplained(_Explained):
    def follow(
        self, case: Case, judgments: Sequence[Judgment]
    ) -> Sequence[JudgeRequest]:
        """Return the inner evaluator's follow-up requests with the note."""
        assert isinstance(self.inner, FollowUpEvaluator)
        return self._with_note(self.inner.follow(case, judgments))


class JudgeByJudge:
    """Asks judges of different kinds, each by an evaluator of its own.

    Args:
        evaluators: The evaluators by the judge's name; the first one is that of the first judge.
        arbiter: The judge of third judgments, if it is another one.
    """

    def __init__(
        self, evaluators: Mapping[str, Evaluator], arbiter: JudgeConfig | None
    ) -> None:
        self._evaluators = evaluators
        self._arbiter = None if arbiter is None else arbiter.label

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """The SHA-256 of each template in use."""
        return self._templates("prompt_hashes")

    @property
    def prompt_texts(self) -> dict[str, str]:
        """The text of each template in use."""
        return self._templates("prompt_texts")

    @property
    def most_further(self) -> int:
        """How many third requests a pair can need."""
        return max(
            getattr(evaluator, "most_further", 0)
            for evaluator in self._evaluators.values()
        )

    def for_judge(self, judge: str) -> Evaluator:
        """Return the evaluator of a judge."""
        return self._evaluators[judge]

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests to the first judge."""
        first = next(iter(self._evaluators.values()))
        return first.plan(case)

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return what the evaluator of the request's judge reads."""
        return self._evaluators[request.judge].read(request, completion)

    def follow(
        self, case: Case, judgments: Sequence[Judgment]
    ) -> Sequence[JudgeRequest]:
        """Return the follow-up requests, in the form that the judge of third judgments
        is asked in.
        """
        evaluator = self._evaluators[self._arbiter or judgments[0].judge]
        if isinstance(evaluator, FollowUpEvaluator):
            return evaluator.follow(case, judgments)
        return ()

    def _templates(self, kind: str) -> dict[str, str]:
        return {
            name: content
            for evaluator in self._evaluators.values()
            for name, content in getattr(evaluator, kind, {}).items()
        }


PAID = "fix the plug-in; answers are stored"


def guard_evaluator(inner: Evaluator, name: str) -> Evaluator:
    """Return an evaluator whose errors, except evalkit's own, are PluginErrors with its
    name and the case.
    """
    if isinstance(inner, FollowUpEvaluator):
        return _CheckedFollower(inner, name)
    return _CheckedPlugin(inner, name)


def impossible(judgment: Judgment) -> str | None:
    """Return the problem with a judgment's numbers; `None` if they are valid.

    Margins must be from -1 to 1, confidences from 0 to 1, and scores of single responses finite.
    """
    values = [
        *judgment.criteria.values(),
        *([] if judgment.value is None else [judgment.value]),
    ]
    if not all(
        isfinite(value) and (len(judgment.unit) == 1 or -1 <= value <= 1)
        for value in values
    ):
        return f"values {values} are not finite, or margins not between -1 and 1"
    if judgment.confidence is not None and not 0 <= judgment.confidence <= 1:
        return f"confidence {judgment.confidence} is not between 0 and 1"
    return None


class _CheckedPlugin:
    def __init__(self, inner: Evaluator, name: str) -> None:
        self.inner, self._name = inner, name

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # copying an object asks for it before it exists
            raise AttributeError(name)
        return getattr(self.inner, name)

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the plug-in's requests."""
        with self._blamed("plan", case.id):
            return tuple(self.inner.plan(case))

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return the plug-in's judgment or retry request."""
        with self._blamed("read", request.case_id):
            read = self.inner.read(request, completion)
        # A margin of 7 from a plug-in would pass through every metric without an error.
        if isinstance(read, Judgment) and (fault := impossible(read)):
            problem = (
                f"'{self._name}' returned an invalid judgment "
                f"for case '{request.case_id}': {fault}"
            )
            raise PluginError(problem, where="mode.name", remedy=PAID)
        return read

    def _blamed(self, method: str, case_id: str) -> AbstractContextManager[None]:
        problem = f"'{self._name}' fails in {method} on case '{case_id}'"
        return third_party_errors(PluginError, problem, where="mode.name", remedy=PAID)


class _CheckedFollower(_CheckedPlugin):
    def follow(
        self, case: Case, judgments: Sequence[Judgment]
    ) -> Sequence[JudgeRequest]:
        """Return the plug-in's follow-up requests."""
        with self._blamed("follow", case.id):
            if isinstance(self.inner, FollowUpEvaluator):
                return tuple(self.inner.follow(case, judgments))
            return ()
