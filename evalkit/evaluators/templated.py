"""What evalkit's own evaluators have alike: a config, the names of its criteria, and the templates they fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evalkit.config import RunConfig
from evalkit.errors import PromptError
from evalkit.evaluators.settings import check_format
from evalkit.prompting import Prompts, neutralise
from evalkit.types import Message

_PROBE, _OTHER_PROBE = "evalkit one", "Another two, to see what changes"


class Templated:
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
        self._shown_names = [neutralise(name) for name in self._names]
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
                "name": neutralise(name),
                "description": neutralise(one.description),
                "weight": f"{100 * weights[name] / total:.3g}%" if shown else "",
            }
            for name, one in self._config.criteria.items()
        ]
