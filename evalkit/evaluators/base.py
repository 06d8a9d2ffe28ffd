"""What evalkit's own evaluators have alike: a config, the names of its criteria, and the templates they fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evalkit.config import RunConfig
from evalkit.errors import ConfigError, DatasetError, PluginError, PromptError, did_you_mean
from evalkit.plugins import OUTPUTS, entry_points_in, is_offered
from evalkit.prompting import Prompts, neutralize
from evalkit.types import Case, Message


def check_format(config: RunConfig, remedies: Mapping[str, str], *, others: bool = True) -> None:
    """Refuse an output format that the mode cannot read.

    Args:
        config: the run's config.
        remedies: the formats of the mode, and what to do instead for those it does not read, by format; a format with
            an empty remedy is read.
        others: whether the mode reads formats of someone else's, which are checked when they are made.

    Raises:
        PluginError: if there is no such format.
        ConfigError: if it is another mode's.
    """
    name = config.output.format
    if name not in remedies:
        if others and is_offered(OUTPUTS, name):
            return
        known = [*remedies, *(point.name for point in entry_points_in(OUTPUTS) if others)]
        raise PluginError(f"there is no '{name}'", where="output.format", remedy=did_you_mean(name, known))
    if remedies[name]:
        raise ConfigError(f"mode {config.mode.name} cannot read '{name}'", where="output.format", remedy=remedies[name])


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


_PROBE, _OTHER_PROBE = "evalkit one", "Another two, to see what changes"


class TemplateEvaluator:
    """Base of an evaluator that fills the template of its mode, or the one that `prompt.template` names.

    Args:
        config: the run's config.
        prompts: fills templates, and knows which were filled.
        template: the mode's own template.
        formats: what to do instead of output formats that the mode cannot read, as `check_format` takes it.
        others: whether it reads formats of someone else's.

    Raises:
        ConfigError: if the output format is not for this mode.
    """

    def __init__(
        self, config: RunConfig, prompts: Prompts, template: str, formats: Mapping[str, str], *, others: bool = True
    ) -> None:
        check_format(config, formats, others=others)
        self._config, self._prompts = config, prompts
        self._names = list(config.criteria)
        self._shown_names = [neutralize(name) for name in self._names]
        self._template = config.prompt.template or template

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
