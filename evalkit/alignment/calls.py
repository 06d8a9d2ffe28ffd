"""The calls of an alignment, all within one budget: the judge answers a side, and
`align.model` writes texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from signal import SIGINT
from typing import Any, TypeAlias

from evalkit.alignment.search import Candidate, Side
from evalkit.config import JudgeConfig, RunConfig, SwapConfig
from evalkit.core.errors import (
    ConfigError,
    EvalkitError,
    ExitStatus,
    Signaled,
)
from evalkit.core.hashing import digest
from evalkit.core.plugins import PROMPTS, folders
from evalkit.core.protocols import Evaluator
from evalkit.core.redaction import redact
from evalkit.core.resources import project
from evalkit.core.splits import without_labels
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment, Message
from evalkit.core.values import Json
from evalkit.engine.event_loop import run_async
from evalkit.engine.judging_run import NEVER_SENT
from evalkit.engine.progress import JudgingResult
from evalkit.evaluators.base import Reading, conclude, is_cut_off
from evalkit.evaluators.parsing import UnreadableError, drop_thinking
from evalkit.evaluators.prompting import Prompts, neutralize
from evalkit.judges.setup import keys_below
from evalkit.runs.read import read_templates
from evalkit.runs.results import RunResult, Spent
from evalkit.workflows.asking import Circumstances, ask_judges
from evalkit.workflows.materials import build_evaluator

Read: TypeAlias = Callable[[str], Json]
"""What is in a text; raises UnreadableError if it cannot be used."""


class AnswersError(EvalkitError):
    """Too many calls failed to compare candidates; answers that were received are stored."""

    status = ExitStatus.TOO_MANY_FAILURES


@dataclass(frozen=True)
class _Writing:
    """Sends prompts to the model of `align.model` as they are, and reads its texts."""

    prompts: Mapping[str, tuple[Message, ...]]
    content: Read

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        return (JudgeRequest(case.id, (0,), (0,), self.prompts[case.id], shared=True),)

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        return conclude(request, completion, lambda: self._reading(completion), None)

    def _reading(self, completion: Completion) -> Reading:
        if is_cut_off(completion):
            raise UnreadableError("truncated", "set a higher align.model.max_tokens")
        if not (text := drop_thinking(completion.text).strip()):
            raise UnreadableError("empty", "the text is empty")
        return Reading(read_by="text", answer=self.content(text))


@dataclass
class Asking:
    """Judges sides with other settings, and has texts written, within a budget; stored
    answers cost nothing.

    Attributes:
        result: the run, whose templates are used.
        budget_usd: the most to spend.
        writer: the model that writes texts.
        spent: what was spent.
        last: the cost of a case the last time that all of a side was judged.
    """

    result: RunResult
    budget_usd: float
    writer: JudgeConfig | None = None
    spent: Spent = field(default_factory=Spent)
    last: float = 0.0

    def answer(
        self, candidate: Candidate, side: Side, *, reserve: int | None = None
    ) -> Side | None:
        """Return a side with the answers under a candidate, `None` if the budget did
        not pay for all of them.

        Args:
            candidate: the settings and templates.
            side: the cases.
            reserve: the number of other cases that the budget must pay for; `None` to make calls
                until it ends.

        Raises:
            ConfigError: if a template or a judge cannot be used, or a case has an item of the
                candidate.
            AnswersError: if more calls fail than `runner.max_failure_rate` allows.
            Signaled: if the user stopped it; received answers are stored.
        """
        if (
            reserve is not None
            and self.spent.usd + self.last * (len(side.cases) + reserve)
            > self.budget_usd
        ):
            return (
                None  # the rest of the budget probably does not pay for so many cases
            )
        config = candidate.of(self.result.config)
        templates = candidate.templates
        side = with_items(self.result.config, config, side)
        before = self.spent.usd
        # Labels stay out of everything that is sent or planned.
        cases = [*map(without_labels, side.cases)]
        judged = self._answers_within_budget(
            config,
            cases,
            build_evaluator(
                config, {**(read_templates(self.result) or {}), **templates}
            ),
        )
        if judged.stopped is not None:
            return None
        # The highest cost of a case so far, for the next estimate; stored answers make it no
        # lower.
        self.last = max(self.last, (self.spent.usd - before) / max(len(cases), 1))
        return replace(side, judgments=list[Judgment](judged.judgments))

    def write(
        self, prompts: Sequence[tuple[Message, ...]], read: Read
    ) -> list[Judgment] | None:
        """Return what `align.model` writes for each prompt, `None` if the budget did not pay for
        all of them.

        Each text is a judgment, whose `answer` is what `read` found in it; if that could not be
        used, its `error` says why. The text is as hostile as any answer of a model.

        Args:
            prompts: The messages of each prompt.
            read: Returns what a text has, or raises `UnreadableError`.

        Raises:
            ConfigError: if the model cannot be used.
            AnswersError: if more calls fail than `runner.max_failure_rate` allows.
            Signaled: if the user stopped it; received texts are stored.
        """
        assert self.writer is not None, "the settings were checked"
        config = self.result.config.with_(
            {"judge": self.writer, "swap": SwapConfig(policy="none")}
        )
        # Each prompt becomes a case without texts; the number keeps equal prompts apart.
        by_id = {
            f"{number} {digest(prompt)}": prompt
            for number, prompt in enumerate(prompts)
        }
        with keys_below("align.model"):
            judged = self._answers_within_budget(
                config,
                [Case(case_id, "", ()) for case_id in by_id],
                _Writing(by_id, read),
            )
        if judged.stopped is not None:
            return None
        return list(judged.judgments)

    def prompt(self, template: str, **variables: Any) -> tuple[Message, ...]:
        """Return a prompt for `align.model`, from a template in the language of the run
        or in English.

        Raises:
            PromptError: if the template cannot be used.
        """
        language = self.result.config.prompt.language
        prompts = Prompts(
            language, [project() / "prompts", *folders(PROMPTS)], optional=[template]
        )
        return prompts.render(template, **variables)

    def _answers_within_budget(
        self, config: RunConfig, cases: Sequence[Case], evaluator: Evaluator
    ) -> JudgingResult:
        """Ask judges online within the budget of the alignment and store their answers.

        Raises:
            Signaled: if the user stops it.
            AnswersError: if more calls fail than `runner.max_failure_rate` allows.
        """
        changes = {
            "runner.budget_usd": self.budget_usd,
            "runner.budget_calls": None,
            "runner.budget_scope": "run",
        }
        changed = config.with_(
            {**changes, "runner.kind": "online", "store.mode": "read_write"}
        )
        judged = run_async(
            ask_judges(changed, cases, evaluator, Circumstances(spent=self.spent))
        )
        # `None` would mean that the budget is reached.
        if judged.interrupted:
            raise Signaled(
                judged.signal or SIGINT,
                "interrupted: received answers are stored; run it again to resume",
            )
        failed = [
            judgment
            for judgment in judged.judgments
            if judgment.status == "failed" and judgment.error_kind not in NEVER_SENT
        ]
        if len(failed) > config.runner.max_failure_rate * len(judged.judgments):
            problem = (
                f"{len(failed)} of {len(judged.judgments)} calls failed, for example:"
                f" {failed[0].error}"
            )
            raise AnswersError(f"{problem}; run it again to resume")
        return judged


def with_items(config: RunConfig, changed: RunConfig, side: Side) -> Side:
    """Return a side whose cases have the checklist items of another config, before their own items.

    Raises:
        ConfigError: if a case has an item of its own with the same id.
    """
    if changed.mode.checklist == config.mode.checklist:
        return side
    shared = changed.mode.items
    # Shared items are replaced, and each case's own ones follow.
    before = {item.id for item in config.mode.items}
    cases = []
    for case in side.cases:
        items = tuple(item for item in case.checklist if item.id not in before)
        if twice := {item.id for item in shared} & {item.id for item in items}:
            raise ConfigError(
                f"has an item '{min(twice)}' of its own",
                where=f"case '{case.id}'",
                remedy="rename one",
            )
        cases.append(replace(case, checklist=(*shared, *items)))
    return replace(side, cases=cases)


def plain_text(
    text: str, most: int, forbidden: Mapping[str, str], allowed: str = ""
) -> str:
    """Return a text that a model wrote, if it is plain text.

    Args:
        text: the text.
        most: the most characters.
        forbidden: what it may not contain, with names.
        allowed: the control characters that it may contain.

    Raises:
        UnreadableError: if it is more than plain text, or too long.
    """
    if why := next((name for sign, name in forbidden.items() if sign in text), None):
        raise UnreadableError("invalid", f"it has {why}")
    if not text or len(text) > most:
        raise UnreadableError(
            "invalid", f"it has {len(text):,} characters, at most are {most:,}"
        )
    # The text becomes a part of prompts: it must not imitate a marker.
    if neutralize(text) != text or not all(
        character.isprintable() or character in allowed for character in text
    ):
        raise UnreadableError("invalid", "it has control characters or control tokens")
    # It is written to a file that is shared.
    if redact(text) != text:
        raise UnreadableError("invalid", "it has a secret")
    return text
