"""What evalkit's own evaluators have alike: a config, the names of its criteria, and the templates they fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalkit.config import RunConfig
from evalkit.errors import DatasetError, PromptError
from evalkit.evaluators.output_formats import AnswerTask, make_format
from evalkit.prompting import Prompts, neutralize
from evalkit.types import Case, Message


def check_responses(case: Case, least: int) -> None:
    """Refuse a case with too few responses.

    Raises:
        DatasetError: if it has fewer than `least`.
    """
    if len(case.responses) < least:
        raise DatasetError(
            f"it has {len(case.responses)} response(s), and this mode needs at least {least}",
            where=f"case '{case.id}'",
            remedy="give it more, or leave it out",
        )


SHARED = ("original_prompt", "context", "reference")
"""The placeholders that stand for a case in every template."""


def shared_variables(case: Case) -> dict[str, str]:
    """Return the texts of a case that every template is filled with, made safe; a blank one counts as none."""
    context, reference = case.context, case.reference
    return {
        "original_prompt": neutralize(case.prompt),
        "context": neutralize(context) if context and not context.isspace() else "",
        "reference": neutralize(reference) if reference and not reference.isspace() else "",
    }


INSTRUCTION = "output_instruction"
"""The placeholder that stands for what the output format tells the judge."""
_PROBE, _OTHER_PROBE = "evalkit one", "Another two, to see what changes"


class TemplateEvaluator:
    """Base of an evaluator that fills the template of its mode, or the one that `prompt.template` names.

    Args:
        config: the run's config.
        prompts: fills templates, and knows which were filled.
        template: the mode's own template.
        task: what an answer decides.

    Raises:
        ConfigError: if the output format is not for this mode.
        PluginError: if there is no such output format.
    """

    def __init__(self, config: RunConfig, prompts: Prompts, template: str, task: AnswerTask) -> None:
        self._config, self._prompts, self._mode = config, prompts, template
        self._format = make_format(config, task)
        self._names = list(config.criteria)
        self._shown_names = [neutralize(name) for name in self._names]
        self._template = config.prompt.template or template

    def _with_instruction(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return these placeholders of the mode's template, with the output format's instruction if it asks for it.

        Raises:
            PromptError: if the instruction cannot be filled, or is set and the template does not ask for it.
            PluginError: if the output format is a plug-in that has none.
        """
        output = self._config.output
        known = {**variables, "output": output.format}
        if self._prompts.uses(self._template, INSTRUCTION):
            given = output.instruction
            text = self._format.instruction(self._prompts, self._mode, known) if given is None else neutralize(given)
        elif output.instruction is None:
            text = ""
        else:
            what, remedy = f"has no placeholder '{INSTRUCTION}'", f"write {{{{ {INSTRUCTION} }}}} in it"
            where = self._prompts.place(self._template)
            raise PromptError(what, where=where, remedy=f"{remedy}, or remove output.instruction")
        return {**known, INSTRUCTION: text}

    def _check_placeholders(self, fill: Callable[[Mapping[str, str]], Sequence[Message]], names: Sequence[str]) -> None:
        """Refuse a template whose messages do not depend on each of the texts `names`, or that lacks the criteria.

        Args:
            fill: fills the template with these texts.
            names: the placeholders that the mode cannot do without.

        Raises:
            PromptError: naming the template and the first placeholder that it lacks.
        """
        texts = dict.fromkeys(names, _PROBE)
        messages = fill(texts)
        lacking = [name for name in names if fill({**texts, name: _OTHER_PROBE}) == messages]
        if self._config.output.format == "json":
            shown = "".join(message["content"] for message in messages)
            lacking += ["criteria"] if any(name not in shown for name in self._shown_names) else []
        if lacking:
            raise PromptError(
                f"has no placeholder '{lacking[0]}'",
                where=self._prompts.place(self._template),
                remedy=f"mode {self._config.mode.name} needs {', '.join(lacking)}: write {{{{ {lacking[0]} }}}} in it"
                if lacking[0] != "criteria"
                else "name each of the criteria in it, as the shipped templates do",
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
        """Return each criterion as prompts show it, with its weight where `prompt.show_weights` asks for it.

        The weights are the criteria's own: those of `scoring.weights` never change a prompt, nor do equal ones.
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
