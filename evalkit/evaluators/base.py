"""The base of the built-in evaluators: templates to fill, and completions to turn into
judgments or retry requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Required, TypeAlias, TypedDict

from evalkit.config import Example, RunConfig
from evalkit.core.errors import DatasetError, PromptError
from evalkit.core.finish_reasons import CONTEXT_FULL, end_of
from evalkit.core.types import (
    Case,
    Completion,
    ItemAnswer,
    JudgeRequest,
    Judgment,
    Message,
    Ranking,
    Status,
    WeightedJudgment,
)
from evalkit.core.values import Json, JsonObject
from evalkit.evaluators.output_formats import make_format
from evalkit.evaluators.parsing import (
    AnswerTask,
    Reply,
    UnreadableError,
    drop_thinking,
    is_refusal,
    read_json,
)
from evalkit.evaluators.prompting import Prompts, marked_texts, neutralize
from evalkit.evaluators.prompting.templates import PrefilledTemplate


def check_responses(case: Case, least: int) -> None:
    """Raise if a case has too few responses.

    Raises:
        DatasetError: If it has fewer than `least`.
    """
    if len(case.responses) < least:
        raise DatasetError(
            f"it has {len(case.responses)} response(s), and this mode needs at least {least}",
            where=f"case '{case.id}'",
            remedy="add responses, or remove the case",
        )


SHARED = ("original_prompt", "context", "reference")
"""The placeholders for a case in every template."""


def shared_variables(case: Case) -> dict[str, str]:
    """Return the neutralized texts of a case for every template; a blank context or
    reference is empty.
    """
    texts = {
        "original_prompt": neutralize(case.prompt),
        "context": "",
        "reference": "",
    }
    if case.context and not case.context.isspace():
        texts["context"] = neutralize(case.context)
    if case.reference and not case.reference.isspace():
        texts["reference"] = neutralize(case.reference)
    return texts


def shown_example(example: Example) -> JsonObject:
    """Return an example as shown in prompts, without its decision."""
    return {
        "task": neutralize(example.prompt or ""),
        "response": neutralize(example.response),
        "justification": neutralize(example.justification),
    }


INSTRUCTION = "output_instruction"
"""The placeholder for the output format's instruction."""
# Two texts without common words and of different lengths, so that any use of a placeholder
# changes the messages.
_PROBE, _OTHER_PROBE = "evalkit one", "Another two, to see what changes"


Fill: TypeAlias = Callable[[Mapping[str, str]], Sequence[Message]]


def filling(prompt: PrefilledTemplate, names: Sequence[str]) -> Fill:
    """Return a function that fills a template with texts by placeholder; other `names`
    are empty.
    """
    empty = dict.fromkeys(names, "")
    return lambda texts: prompt.fill(**{**empty, **texts})


class TemplateEvaluator:
    """Base of an evaluator that fills the template of its mode, or `prompt.template`.

    Args:
        config: The run's config.
        prompts: The templates.
        mode: The name of the mode's template, which begins those of the output formats.
        task: What an answer decides.
        template: Another template of the mode.

    Raises:
        ConfigError: If the output format does not support this mode.
        PluginError: If there is no such output format.
    """

    _shows_criteria: ClassVar[bool] = True

    def __init__(
        self,
        config: RunConfig,
        prompts: Prompts,
        mode: str,
        task: AnswerTask,
        template: str | None = None,
    ) -> None:
        self._config, self._prompts, self._mode = config, prompts, mode
        self._format = make_format(config, task)
        self._names = list(config.criteria)
        self._shown_names = [neutralize(name) for name in self._names]
        self._template = config.prompt.template or template or mode
        self._structured = config.output.structured
        # Only evalkit's own instruction asks for a verdict at the end; a custom one may not.
        self._format.at_end = config.output.instruction is None and prompts.uses(
            self._template, INSTRUCTION
        )

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests for a case.

        Raises:
            DatasetError: If the case lacks something that the mode needs.
        """
        raise NotImplementedError

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return the judgment in a completion, in the case's order, or a retry request
        if its JSON is unusable.
        """
        read = self._read_json if self._structured else self._read_text
        retry = self._prompts.retry if self._structured else None
        return conclude(request, completion, partial(read, request, completion), retry)

    def _read_json(self, request: JudgeRequest, completion: Completion) -> Reading:
        raise NotImplementedError

    def _read_text(self, request: JudgeRequest, completion: Completion) -> Reading:
        raise NotImplementedError

    def _reply(self, request: JudgeRequest, completion: Completion) -> Reply:
        """Return a judge's answer with all that a format needs to read it."""
        # Some servers put the whole answer into the reasoning.
        drafts = not completion.text.strip() and bool(completion.reasoning)
        text = (completion.reasoning or "") if drafts else completion.text
        return Reply(
            text,
            is_cut_off(completion),
            marked_texts(request.messages),
            self._format.at_end,
            drafts,
        )

    def _check_templates(
        self, cases: Sequence[Case], fills: Sequence[Fill], names: Sequence[str]
    ) -> None:
        """Fill every template once with and once without the optional parts, to report
        errors before any request.

        Args:
            cases: Cases to plan.
            fills: Fill each template with texts by placeholder.
            names: The placeholders that the mode requires.

        Raises:
            PromptError: If a template cannot be filled, or lacks a placeholder.
        """
        # A template may have a branch for an empty context; both must be fillable.
        for optional in (None, "text"):
            for case in cases:
                self.plan(replace(case, context=optional, reference=optional))
        for fill in fills:
            self._check_placeholders(fill, names)
        if self._structured:
            self._prompts.retry("text")

    def _with_instruction(self, variables: Json) -> JsonObject:
        """Return the variables with the output format's instruction, if the template shows it.

        Raises:
            PromptError: If the instruction cannot be filled, or is set and the template has no
                placeholder for it.
            PluginError: If the output format is a plug-in without an instruction.
        """
        output = self._config.output
        values = {**variables, "output": output.format}
        if self._prompts.uses(self._template, INSTRUCTION):
            instruction = output.instruction
            if instruction is None:
                text = self._format.instruction(self._prompts, self._mode, values)
            else:
                text = neutralize(instruction)
        elif output.instruction is None:
            text = ""
        else:
            problem = f"has no placeholder '{INSTRUCTION}'"
            remedy = f"add {{{{ {INSTRUCTION} }}}} to it"
            where = self._prompts.place(self._template)
            raise PromptError(
                problem, where=where, remedy=f"{remedy}, or remove output.instruction"
            )
        return {**values, INSTRUCTION: text}

    def _check_placeholders(self, fill: Fill, names: Sequence[str]) -> None:
        """Raise if a template's messages do not depend on each of `names`, or lack the
        criteria that it must show.

        Args:
            fill: Fills the template with texts by placeholder.
            names: The placeholders that the mode requires.

        Raises:
            PromptError: If one is missing; names the template and the first missing placeholder.
        """
        texts = dict.fromkeys(names, _PROBE)
        messages = fill(texts)
        # A placeholder that the template lacks cannot change the messages.
        # Fill twice with one text changed: equal messages mean that it is not shown.
        missing = [
            name for name in names if fill({**texts, name: _OTHER_PROBE}) == messages
        ]
        if self._structured and self._shows_criteria:
            text = "".join(message["content"] for message in messages)
            missing += (
                ["criteria"]
                if any(name not in text for name in self._shown_names)
                else []
            )
        if missing:
            raise PromptError(
                f"has no placeholder '{missing[0]}'",
                where=self._prompts.place(self._template),
                remedy=(
                    f"mode {self._config.mode.name} needs {', '.join(missing)}: add {{{{"
                    f" {missing[0]} }}}} to it"
                    if missing[0] != "criteria"
                    else "name each criterion in it, as the shipped templates do"
                ),
            )

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """The SHA-256 of each template in use."""
        return self._prompts.hashes()

    @property
    def prompt_texts(self) -> dict[str, str]:
        """The text of each template in use."""
        return self._prompts.texts()

    def _shown_criteria(self) -> list[dict[str, str]]:
        """Return each criterion as shown in prompts, with its weight if
        `prompt.show_weights` is set.

        The weights are those of the criteria: `scoring.weights` never changes a prompt. Equal
        weights are not shown.
        """
        weights = {
            name: criterion.weight for name, criterion in self._config.criteria.items()
        }
        total = sum(weights.values())
        shares = dict.fromkeys(weights, "")
        if self._config.prompt.show_weights and len({*weights.values()}) > 1:
            shares = {
                name: f"{100 * weight / total:.3g}%" for name, weight in weights.items()
            }
        return [
            {
                "name": neutralize(name),
                "description": neutralize(criterion.description),
                "weight": shares[name],
            }
            for name, criterion in self._config.criteria.items()
        ]


_FINAL = ("refusal", "content_filter", "truncated", "logprobs")
"""Kinds of errors that a retry would not fix."""


class Reading(TypedDict, total=False):
    """The content of one completion, in the case's order, and the parsing step that
    read it: fields of `Judgment`.
    """

    read_by: Required[str]
    value: float | None
    confidence: float | None
    criteria: Mapping[str, float]
    answer: Json
    ranking: Ranking | None
    rankings: Mapping[str, Ranking]
    weighted: WeightedJudgment | None
    class_name: str
    items: Mapping[str, ItemAnswer | None]


def conclude(
    request: JudgeRequest,
    completion: Completion,
    read: Callable[[], Reading],
    retry: Callable[[str], str] | None,
) -> Judgment | JudgeRequest:
    """Return the judgment from `read`, a missing judgment with its reason, or one retry
    request for an unusable answer.

    A truncated answer is not retried: the same limit would truncate it again.

    Args:
        request: The request.
        completion: The completion.
        read: Reads the completion, or raises UnreadableError.
        retry: Returns the message that explains the problem to the judge; `None` for no retry.
    """
    try:
        # A refusal and the end come first: the text of a filtered answer may look like a verdict.
        _check_refusal(completion)
        _check_end(completion)
        return _judged(request, completion, read())
    except UnreadableError as fault:
        fault = _explained(fault, completion)
        # One retry only: a judge that fails twice at the format would cost without end.
        if retry is None or request.turn > 0 or fault.kind in _FINAL:
            return missing_judgment(request, completion, fault)
        # The reason may quote the answer, which must not look like a part of the prompt.
        message = retry(neutralize(fault.reason))
        return _repeated_request(request, completion, message)


def missing_judgment(
    request: JudgeRequest, completion: Completion, fault: UnreadableError
) -> Judgment:
    """Return a missing judgment with its reason."""
    status: Status = (
        "refused" if fault.kind in ("refusal", "content_filter") else "unparseable"
    )
    return replace(
        _judgment_without_value(request, completion, status),
        error=fault.reason,
        error_kind=fault.kind,
    )


def read_object(
    request: JudgeRequest, completion: Completion, keys: Collection[str]
) -> tuple[JsonObject, str]:
    """Return the JSON object in a completion, and the parsing step that read it.

    A completion without a text is read from its reasoning. The step says how the object was
    found: as the whole text, within a text, or repaired.

    Raises:
        UnreadableError: If no object has `keys`, or it is quoted from the texts under judgment.
    """
    sources = marked_texts(request.messages)
    schema = request.answer.schema if request.answer else None
    cut_off = is_cut_off(completion)
    text = completion.text
    if not text.strip() and completion.reasoning:
        # Only if nothing else is there: reasoning may contain drafts of the object.
        text = _whole_object(completion.reasoning)
    return read_json(text, keys=keys, cut_off=cut_off, sources=sources, schema=schema)


def _whole_object(reasoning: str) -> str:
    """Return reasoning that is nothing but a JSON object: the server took the answer for reasoning.

    Raises:
        UnreadableError: If it is anything else, since it may have drafts of the answer.
    """
    text = reasoning.strip().removeprefix("```json").strip("`").strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise UnreadableError("empty", _ONLY_REASONING)
    return text


_ONLY_REASONING = (
    "there is no answer, only reasoning; raise judge.max_tokens or turn reasoning off"
)


def is_cut_off(completion: Completion) -> bool:
    """Return whether the provider reports that the answer ended at the length limit."""
    return end_of(completion.finish_reason) == "length"


def _check_end(completion: Completion) -> None:
    """Refuse an answer that is not known to be complete.

    An answer that ended at the token limit is read as far as it is complete.
    """
    if end_of(completion.finish_reason) not in ("complete", "length"):
        reason = (
            f"the answer is not complete: it ended with '{completion.finish_reason}'"
        )
        raise UnreadableError("truncated", reason)


def _check_refusal(completion: Completion) -> None:
    if completion.refusal:
        raise UnreadableError(
            "refusal", f"the judge refused: {completion.refusal[:200]}"
        )
    if end_of(completion.finish_reason) == "refused":
        raise UnreadableError(
            "content_filter", "the provider's content filter stopped the answer"
        )


def _explained(fault: UnreadableError, completion: Completion) -> UnreadableError:
    """Return a more specific error if the completion indicates one."""
    answer = drop_thinking(completion.text)
    # Only now: a judge that begins with an apology and then answers has not refused.
    if fault.kind == "no_answer" and is_refusal(answer):
        return UnreadableError("refusal", f"the judge refused: {answer.strip()[:200]}")
    if is_cut_off(completion) and fault.kind not in ("refusal", "content_filter"):
        return UnreadableError("truncated", f"{_cut(completion)}: {fault.reason}")
    return fault


def _cut(completion: Completion) -> str:
    """Return what cut an answer off."""
    if completion.finish_reason != CONTEXT_FULL:
        return "the answer was truncated at judge.max_tokens"
    usage = completion.usage
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return "the context is full"
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    return f"the context is full ({tokens}), so give the model a longer one"


def _judged(
    request: JudgeRequest, completion: Completion, reading: Reading
) -> Judgment:
    # An answer to a retry was not usable at first.
    repaired = reading["read_by"] == "repaired" or request.turn > 0
    return replace(
        _judgment_without_value(request, completion, "repaired" if repaired else "ok"),
        **reading,
    )


def _judgment_without_value(
    request: JudgeRequest, completion: Completion, status: Status
) -> Judgment:
    """Return a judgment of a request that has its identity, and no value yet."""
    return Judgment(
        case_id=request.case_id,
        unit=request.unit,
        shown=request.shown,
        sample=request.sample,
        judge=request.judge,
        status=status,
        completion=completion,
        items=dict.fromkeys(request.items),
    )


def _repeated_request(
    request: JudgeRequest, completion: Completion, message: str
) -> JudgeRequest:
    """Return a request that shows the judge its answer, and a message on what is wrong with it."""
    # An answer can quote the texts under judgment.
    answer = neutralize(drop_thinking(completion.text).strip())
    if answer:
        added: tuple[Message, ...] = (
            {"role": "assistant", "content": answer},
            {"role": "user", "content": message},
        )
        messages = (*request.messages, *added)
    else:
        # Some providers refuse an empty assistant message.
        # The message is added to the last one instead, so that roles still alternate.
        *before, last = request.messages
        messages = (
            *before,
            {"role": last["role"], "content": f"{last['content']}\n\n{message}"},
        )
    return replace(request, messages=messages, turn=request.turn + 1)
