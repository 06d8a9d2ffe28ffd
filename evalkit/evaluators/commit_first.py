"""Commit-first: whatever the way of judging, the judge answers the task itself before it sees what to judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evalkit.errors import PromptError
from evalkit.evaluators.reading import missing_judgment
from evalkit.parsing import UnreadableError, drop_thinking
from evalkit.prompting import Prompts, neutralize
from evalkit.protocols import Evaluator, FollowUpEvaluator
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Message

ANSWER, OWN_ANSWER = "answer", "own_answer"


class CommitFirst:
    """Puts before each ask of another evaluator one in which the judge answers the task itself.

    That ask is the same for all responses, orders and samples of a case, so that it is paid for once. Its answer stands
    in the asks that come after it, marked as the judge's own and as unsafe as any text.

    Args:
        inner: the way of judging.
        prompts: where the templates `answer` (original_prompt, context) and `own_answer` (own_answer) are found.

    Raises:
        PromptError: if one of these cannot be found, parsed or filled.
    """

    def __init__(self, inner: Evaluator, prompts: Prompts) -> None:
        self._inner, self._prompts = inner, prompts
        for optional in (None, "text"):
            self._question(Case("rehearsal", "text", (), context=optional))
        self._said("text")
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
        one, other = "evalkit one", "Another two, to see what changes"
        checks: list[tuple[str, str, bool]] = [
            (ANSWER, "original_prompt", self._asked(one, "") != self._asked(other, "")),
            (OWN_ANSWER, "own_answer", self._said(one) != self._said(other)),
        ]
        for template, name, depends in checks:
            if not depends:
                remedy = f"write {{{{ {name} }}}} in it"
                raise PromptError(f"has no placeholder '{name}'", where=self._prompts.place(template), remedy=remedy)

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return an ask for an answer of the judge's own before each ask of the inner evaluator."""
        return self._prepared(case, self._inner.plan(case))

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return the ask that was prepared for, now with the judge's own answer, or what the inner evaluator reads."""
        if request.then is None:
            return self._inner.read(request, completion)
        try:
            own = _own_answer(completion)
        except UnreadableError as fault:
            return missing_judgment(request, completion, fault)
        *before, last = request.then.messages
        content = f"{self._said(own)}\n\n{last['content'].lstrip()}"
        return replace(request.then, messages=(*before, {"role": last["role"], "content": content}))

    def follow(self, case: Case, judgments: Sequence[Judgment]) -> Sequence[JudgeRequest]:
        """Return what the inner evaluator asks after all judgments of a unit, prepared for in the same way."""
        return self._prepared(
            case, self._inner.follow(case, judgments) if isinstance(self._inner, FollowUpEvaluator) else ()
        )

    def _prepared(self, case: Case, asks: Sequence[JudgeRequest]) -> list[JudgeRequest]:
        question = self._question(case)
        return [replace(ask, messages=question, answer=None, then=ask, shared=True) for ask in asks]

    def _question(self, case: Case) -> tuple[Message, ...]:
        return self._asked(neutralize(case.prompt), neutralize(case.context or ""))

    def _asked(self, prompt: str, context: str) -> tuple[Message, ...]:
        return self._prompts.render(ANSWER, original_prompt=prompt, context=context)

    def _said(self, own: str) -> str:
        return self._prompts.render(OWN_ANSWER, own_answer=neutralize(own))[-1]["content"].strip()


def _own_answer(completion: Completion) -> str:
    if completion.refusal or completion.finish_reason == "content_filter":
        said = completion.refusal or "the provider's content filter stopped it"
        raise UnreadableError("refusal", f"the judge would not answer the task itself: {said[:200]}")
    own = drop_thinking(completion.text).strip()
    if not own:
        raise UnreadableError("empty", "the judge's own answer to the task is empty")
    return own
