"""The base of the built-in evaluators: a config, its criteria, and the templates to fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

from evalkit.config import RunConfig
from evalkit.errors import DatasetError, PromptError
from evalkit.evaluators.output_formats import make_format
from evalkit.evaluators.reading import Reading, conclude, is_cut_off
from evalkit.parsing import AnswerTask, Reply
from evalkit.prompting import Prompts, marked_texts, neutralize
from evalkit.prompting.templates import PartialTemplate
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Message


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
    """Return the neutralized texts of a case for every template; a blank context or reference is empty."""
    context, reference = case.context, case.reference
    return {
        "original_prompt": neutralize(case.prompt),
        "context": neutralize(context) if context and not context.isspace() else "",
        "reference": neutralize(reference) if reference and not reference.isspace() else "",
    }


INSTRUCTION = "output_instruction"
"""The placeholder for the output format's instruction."""
_PROBE, _OTHER_PROBE = "evalkit one", "Another two, to see what changes"


Fill: TypeAlias = Callable[[Mapping[str, str]], Sequence[Message]]


def filling(prompt: PartialTemplate, names: Sequence[str]) -> Fill:
    """Return a function that fills a template with texts by placeholder; other `names` are empty."""
    empty = dict.fromkeys(names, "")
    return lambda texts: prompt.fill(**{**empty, **texts})


class TemplateEvaluator:
    """Base of an evaluator that fills the template of its mode, or `prompt.template`.

    Args:
        config: The run's config.
        prompts: The templates.
        template: The name of the mode's template.
        task: What an answer decides.

    Raises:
        ConfigError: If the output format does not support this mode.
        PluginError: If there is no such output format.
    """

    _shows_criteria: ClassVar[bool] = True

    def __init__(self, config: RunConfig, prompts: Prompts, template: str, task: AnswerTask) -> None:
        self._config, self._prompts, self._mode = config, prompts, template
        self._format = make_format(config, task)
        self._names = list(config.criteria)
        self._shown_names = [neutralize(name) for name in self._names]
        self._template = config.prompt.template or template
        self._structured = self._format.structured
        self._format.at_end = config.output.instruction is None and prompts.uses(self._template, INSTRUCTION)

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests for a case.

        Raises:
            DatasetError: If the case lacks something that the mode needs.
        """
        raise NotImplementedError

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return the judgment in a completion, in the case's order, or a retry request if its JSON is unusable."""
        read = self._read_json if self._structured else self._read_text
        retry = self._prompts.retry if self._structured else None
        return conclude(request, completion, partial(read, request, completion), retry)

    def _read_json(self, request: JudgeRequest, completion: Completion) -> Reading:
        raise NotImplementedError

    def _read_text(self, request: JudgeRequest, completion: Completion) -> Reading:
        raise NotImplementedError

    def _reply(self, request: JudgeRequest, completion: Completion) -> Reply:
        return Reply(completion.text, is_cut_off(completion), marked_texts(request.messages), self._format.at_end)

    def _check_templates(self, cases: Sequence[Case], fills: Sequence[Fill], names: Sequence[str]) -> None:
        """Fill every template once with and once without the optional parts, to report errors before any request.

        Args:
            cases: Cases to plan.
            fills: Fill each template with texts by placeholder.
            names: The placeholders that the mode requires.

        Raises:
            PromptError: If a template cannot be filled, or lacks a placeholder.
        """
        for optional in (None, "text"):
            for case in cases:
                self.plan(replace(case, context=optional, reference=optional))
        for fill in fills:
            self._check_placeholders(fill, names)
        if self._structured:
            self._prompts.retry("text")

    def _with_instruction(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables with the output format's instruction, if the template has a placeholder for it.

        Raises:
            PromptError: If the instruction cannot be filled, or is set and the template has no placeholder for it.
            PluginError: If the output format is a plug-in without an instruction.
        """
        output = self._config.output
        known = {**variables, "output": output.format}
        if self._prompts.uses(self._template, INSTRUCTION):
            given = output.instruction
            text = self._format.instruction(self._prompts, self._mode, known) if given is None else neutralize(given)
        elif output.instruction is None:
            text = ""
        else:
            what, remedy = f"has no placeholder '{INSTRUCTION}'", f"add {{{{ {INSTRUCTION} }}}} to it"
            where = self._prompts.place(self._template)
            raise PromptError(what, where=where, remedy=f"{remedy}, or remove output.instruction")
        return {**known, INSTRUCTION: text}

    def _check_placeholders(self, fill: Fill, names: Sequence[str]) -> None:
        """Raise if a template's messages do not depend on each of `names`, or lack the criteria that it must show.

        Args:
            fill: Fills the template with texts by placeholder.
            names: The placeholders that the mode requires.

        Raises:
            PromptError: If one is missing; names the template and the first missing placeholder.
        """
        texts = dict.fromkeys(names, _PROBE)
        messages = fill(texts)
        missing = [name for name in names if fill({**texts, name: _OTHER_PROBE}) == messages]
        if self._config.output.format == "json" and self._shows_criteria:
            shown = "".join(message["content"] for message in messages)
            missing += ["criteria"] if any(name not in shown for name in self._shown_names) else []
        if missing:
            raise PromptError(
                f"has no placeholder '{missing[0]}'",
                where=self._prompts.place(self._template),
                remedy=f"mode {self._config.mode.name} needs {', '.join(missing)}: add {{{{ {missing[0]} }}}} to it"
                if missing[0] != "criteria"
                else "name each criterion in it, as the shipped templates do",
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
        """Return each criterion as shown in prompts, with its weight if `prompt.show_weights` is set.

        The weights are those of the criteria: `scoring.weights` never changes a prompt. Equal weights are not shown.
        """
        weights = {name: one.weight for name, one in self._config.criteria.items()}
        total, shown = sum(weights.values()), self._config.prompt.show_weights and len({*weights.values()}) > 1
        return [
            {
                "name": neutralize(name),
                "description": neutralize(one.description),
                "weight": f"{100 * weights[name] / total:.3g}%" if shown else "",
            }
            for name, one in self._config.criteria.items()
        ]
