"""Prompts that a model writes: what of a template may change, what a new text must be,
and trials on train and dev.

Only the instruction may change: the text of a template's system part before its first line with
Jinja or a tag. So the placeholders, the markers around texts, the scale and the instruction of the
output format are the same in every prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from evalkit.alignment.calls import Asking, plain_text
from evalkit.alignment.mistakes import agreed, labeled, shown_cases
from evalkit.alignment.search import Candidate, Side, chance_corrected
from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError, EvalkitError
from evalkit.core.hashing import digest
from evalkit.core.types import Judgment
from evalkit.core.values import JsonObject, frozen
from evalkit.evaluators.parsing import UnreadableError, drop_thinking, is_refusal
from evalkit.runs.read import read_templates
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import VerdictKind
from evalkit.workflows.materials import build_evaluator

TEMPLATE, WRITE = "prompt.template", "align_prompt"
MOST_CHARACTERS: Final = 4000
"""The longest instruction, unless the run's own is longer."""
_ATTEMPTS: Final = 3
_NOT_TUNABLE: Final = "tune other settings, or run with another prompt.template"
# {% block system %}, with the end of its line.
_SYSTEM_BLOCK = re.compile(r"\{%[-+]?\s*block\s+system\b[^%]*%\}\n?")
# {# … #} before the first text; it also matches where there are none.
_LEADING_COMMENTS = re.compile(r"(?:\s*\{#.*?#\})*", re.DOTALL)
# The start of a line that has Jinja or a tag.
_FIXED_LINE = re.compile(r"^[^\n]*(?:\{[{%#]|<)", re.MULTILINE)
# An answer that is one block of code.
_FENCE = re.compile(r"```\w*\n(.*)\n```", re.DOTALL)
_FORBIDDEN: Final = {
    "{{": "Jinja",
    "{%": "Jinja",
    "{#": "Jinja",
    "<": "a tag",
    "[[": "a mark of the output format",
}
_MODES: Final = ("pairwise", "pointwise", "listwise")


@frozen
class Instruction:
    """The instruction in a template, between what cannot change.

    Attributes:
        path: the name of the template in the run folder.
        before: what precedes it.
        text: the instruction.
        after: what follows it.
    """

    path: str
    before: str
    text: str
    after: str

    @classmethod
    def of(cls, result: RunResult) -> Instruction:
        """Return the instruction in the template of a run.

        Raises:
            ConfigError: if the prompt of the run cannot be tuned, or its template has no
                instruction.
        """
        path = _template_path(result.config)
        evaluator = build_evaluator(result.config, read_templates(result))
        # The text that was used in the run, not the installed one.
        used_texts: Mapping[str, str] = getattr(evaluator, "prompt_texts", {})
        template = used_texts.get(path, "")
        span = _instruction_span(template)
        if span is None:
            problem = (
                "no line of its system part precedes the first one with Jinja or a tag, so it has"
                " no instruction"
            )
            raise ConfigError(problem, where=f"template {path}", remedy=_NOT_TUNABLE)
        start, end = span
        return cls(path, template[:start], template[start:end], template[end:])

    @property
    def most(self) -> int:
        """The longest text, in characters."""
        return max(MOST_CHARACTERS, len(self.text))

    def template(self, text: str) -> str:
        """Return the template with another instruction."""
        return self.before + text + self.after

    def read(self, text: str) -> str:
        """Return the instruction in an answer of a model.

        Raises:
            UnreadableError: if it is more than plain text, or too long.
        """
        text = drop_thinking(text).strip()
        text = fence[1].strip() if (fence := _FENCE.fullmatch(text)) else text
        if is_refusal(text):
            raise UnreadableError("refusal", f"the model refused: {text[:100]}")
        return plain_text(text, self.most, _FORBIDDEN, allowed="\n\t")


def _template_path(config: RunConfig) -> str:
    """Return the name under which the run folder keeps the template of a run.

    Raises:
        ConfigError: if the run has no template with an instruction: by its mode, a reward model,
            or prompts that code writes.
    """
    if (
        config.mode.name not in _MODES
        or config.judge.rewards
        or config.prompt.source is not None
    ):
        raise ConfigError(
            "the prompt of this run cannot be tuned",
            where=f"mode={config.mode.name}",
            remedy=_NOT_TUNABLE,
        )
    default = "pointwise_class" if config.rubric.classes else config.mode.name
    name = config.prompt.template or default
    # A file of the user's is kept under its own name, a shipped template by its language.
    is_file = name.endswith(".j2") or "/" in name
    if is_file:
        return name.rpartition("/")[2]
    return f"{config.prompt.language}/{name}.md.j2"


def _instruction_span(template: str) -> tuple[int, int] | None:
    """Return the start and the end of the instruction in a template, `None` if it has none.

    It starts after the opening of the system block, or after leading comments, and ends before
    the first line with Jinja or a tag, since placeholders must stay. Blank lines around it are
    not part of it.
    """
    opening = _SYSTEM_BLOCK.search(template) or _LEADING_COMMENTS.match(template)
    begin = opening.end() if opening is not None else 0
    body = template[begin:]
    first_fixed = _FIXED_LINE.search(body)
    changeable = body[: first_fixed.start()] if first_fixed is not None else body
    instruction = changeable.strip()
    if not instruction:
        return None
    start = begin + changeable.index(instruction)
    return start, start + len(instruction)


class PromptOptimizer(Protocol):
    """Searches for a better instruction. Trials remember which ones were tried on all of dev."""

    def optimize(self, trials: Trials) -> None:
        """Have instructions written and tried until the trials have ended."""
        ...


class TrialsEndedError(Exception):
    """Nothing more can be tried: the budget, or the reserve for test, is reached."""


@dataclass
class Trials:
    """What an optimizer can do: try an instruction on labeled cases of train or dev,
    and have a new one written.

    Attributes:
        result: the run.
        kind: what the labels are about.
        asking: the calls.
        instruction: the run's own instruction.
        train: the labeled cases of train, with the run's answers.
        dev: the same of dev.
        reserve: the number of cases of test, which the budget must still pay for.
        prompts: the most instructions to write.
        size: the number of cases that one is written from.
        seed: the seed of the optimizer.
        name: the name of a template with another instruction.
        tell: called with the progress.
        enough: whether answers under a config reach the goal.
        candidates: the instructions that were tried on all of dev, as candidates.
        unpaid: whether the budget ended the trials.
        failure: the error that ended the trials.
        written: the number of instructions that were written.
    """

    result: RunResult
    kind: VerdictKind
    asking: Asking
    instruction: Instruction
    train: Side
    dev: Side
    reserve: int
    prompts: int
    size: int
    seed: int
    name: str
    tell: Callable[[str], None]
    enough: Callable[[RunConfig, Side], bool]
    candidates: dict[str, Candidate] = field(default_factory=dict)
    unpaid: bool = False
    failure: EvalkitError | None = None
    written: int = 0
    _answers: dict[str, dict[str, list[Judgment]]] = field(default_factory=dict)
    _tried_texts: set[str] = field(default_factory=set)
    _origins: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    _attempts: dict[str, list[JsonObject]] = field(default_factory=dict)
    _reached: bool = False

    def __post_init__(self) -> None:
        answers: dict[str, list[Judgment]] = {}
        for judgment in (*self.train.judgments, *self.dev.judgments):
            answers.setdefault(judgment.case_id, []).append(judgment)
        # The run's own answers are known and cost nothing.
        self._answers[self.instruction.text] = answers
        self._tried_texts.add(self.instruction.text)

    def cases(self) -> list[str]:
        """Return the ids of train cases to write from: those that differ from their
        labels, and as many that agree.
        """
        ids = sorted(
            (case.id for case in self.train.cases),
            key=lambda case_id: digest([self.seed, case_id]),
        )
        agreed = dict(zip(ids, self.scores(self.instruction.text, ids), strict=True))
        wrong = [case_id for case_id, value in agreed.items() if value < 1]
        if not wrong:
            self.tell(
                "the judge agrees with all labels of train, so there is nothing to write a prompt"
                " from"
            )
        return [
            *wrong,
            *[case_id for case_id, value in agreed.items() if value == 1][: len(wrong)],
        ]

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be tried."""
        stopped = self.unpaid or self._reached or self.failure is not None
        return stopped or self.written >= self.prompts

    def candidate(self, text: str) -> Candidate:
        """Return the settings with an instruction."""
        if text == self.instruction.text:
            return Candidate({}, 0.0)
        path = f"{self.result.config.prompt.language}/{self.name}.md.j2"
        return Candidate(
            {TEMPLATE: self.name}, 0.0, {path: self.instruction.template(text)}
        )

    def scores(self, text: str, ids: Sequence[str]) -> list[float]:
        """Return the agreement of each case, in [0, 1], if the judge has an
        instruction; without an answer it is 0.

        Raises:
            TrialsEndedError: if the budget does not pay for the answers.
            EvalkitError: if the judge cannot be called.
        """
        side = self._judged_side(text, ids)
        config = self.candidate(text).of(self.result.config)
        by_case = self._agreement_by_case(config, side)
        # An optimizer may name a case twice.
        scores = [by_case[case_id] for case_id in ids]
        is_new = text not in self.candidates and text != self.instruction.text
        if is_new and set(ids) == {case.id for case in self.dev.cases}:
            self._keep_candidate(text, config, side, by_case.values())
        # Which instruction a text was written from, and on which cases it was to be better.
        parent, cases = self._origins.get(text, ("", []))
        if parent and cases == list(ids):
            del self._origins[text]
            self._note_attempt(text, parent, ids, scores)
        return scores

    def _agreement_by_case(self, config: RunConfig, side: Side) -> dict[str, float]:
        """Return the mean agreement of each case's labeled verdicts; 0 without any."""
        values_by_case: dict[str, list[float]] = {case.id: [] for case in side.cases}
        for verdict in labeled(config, side):
            value = agreed(config, self.kind, verdict)
            values_by_case[verdict.case_id].append(value)
        return {
            case_id: sum(values) / len(values) if values else 0.0
            for case_id, values in values_by_case.items()
        }

    def _note_attempt(
        self, text: str, parent: str, ids: Sequence[str], scores: Sequence[float]
    ) -> None:
        """Keep how an instruction compares with the one that it was written from."""
        before = sum(self.scores(parent, ids)) / len(ids)
        after = sum(scores) / len(ids)
        attempt = {"instruction": text, "before": before, "after": after}
        self._attempts.setdefault(parent, []).append(attempt)
        if after <= before:
            self.tell(
                f"prompt {self.written} of {self.prompts}: no better on the cases that it was"
                " written from"
            )

    def _keep_candidate(
        self, text: str, config: RunConfig, side: Side, values: Collection[float]
    ) -> None:
        """Keep an instruction that was tried on all of dev, and see if it reaches the goal."""
        candidate = self.candidate(text)
        self.candidates[text] = Candidate(
            candidate.settings, candidate.train, candidate.templates, side
        )
        value = chance_corrected(config, self.kind, side)
        self.tell(
            f"prompt {self.written} of {self.prompts}: agreement {value:.3f} on dev"
        )
        self._reached = self.enough(config, side) or min(values) == 1

    def _judged_side(self, text: str, ids: Sequence[str]) -> Side:
        """Return cases and their judgments with an instruction; only cases new to it are asked.

        Raises:
            TrialsEndedError: if the budget does not pay for the answers.
        """
        by_case = self._answers.setdefault(text, {})
        by_id = {case.id: case for case in (*self.train.cases, *self.dev.cases)}
        ids = list(dict.fromkeys(ids))
        # Only what this instruction was not asked about before.
        missing = [by_id[case_id] for case_id in ids if case_id not in by_case]
        if missing:
            answered = self.asking.answer(
                self.candidate(text), Side(missing, ()), reserve=self.reserve
            )
            if answered is None:
                self.unpaid = True
                raise TrialsEndedError
            for judgment in answered.judgments:
                by_case.setdefault(judgment.case_id, []).append(judgment)
        return Side(
            [by_id[case_id] for case_id in ids],
            [judgment for case_id in ids for judgment in by_case.get(case_id, ())],
        )

    def write(self, text: str, ids: Sequence[str]) -> str | None:
        """Return a new instruction, written from one and cases that were judged with
        it; `None` if there is none.

        A text that cannot be used is one line of progress.
        """
        if self.ended:
            return None
        try:
            written = self._write_once(text, self._judged_side(text, ids))
        except (
            EvalkitError
        ) as error:  # an optimizer may go on after an error: this ends the trials
            self.failure = error
            return None
        if written is not None:
            self._origins[written] = text, list(ids)
        return written

    def _write_once(self, text: str, side: Side) -> str | None:
        """Have one instruction written; `None` if it cannot be used, or the budget is reached."""
        config = self.candidate(text).of(self.result.config)
        cases = [*shown_cases(config, self.kind, side)]
        tried = self._attempts.get(text, [])[-_ATTEMPTS:]
        most = self.instruction.most
        prompt = self.asking.prompt(
            WRITE, instruction=text, cases=cases, attempts=tried, most=most
        )
        answers = self.asking.write(
            [prompt], lambda reply: {"text": self._checked_instruction(reply)}
        )
        if answers is None:
            self.unpaid = True
            return None
        # An unusable text counts, too: it was paid for, and the number is bounded.
        self.written += 1
        [answer] = answers
        if answer.answer is not None:
            return str(answer.answer["text"])
        self.tell(
            f"prompt {self.written} of {self.prompts} is not used: {(answer.error or '')[:200]}"
        )
        return None

    def _checked_instruction(self, reply: str) -> str:
        """Return the instruction in a reply, if it is new and makes a valid template.

        Raises:
            UnreadableError: if it cannot be used.
        """
        text = self.instruction.read(reply)
        # A model may repeat itself; trying it again would cost and show nothing.
        if text in self._tried_texts:
            raise UnreadableError("invalid", "it was written before")
        self._tried_texts.add(text)
        candidate = self.candidate(text)
        try:
            build_evaluator(
                candidate.of(self.result.config),
                {**(read_templates(self.result) or {}), **candidate.templates},
            )
        except ConfigError as error:
            raise UnreadableError("invalid", str(error)) from None
        return text
