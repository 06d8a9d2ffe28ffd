"""What evaluators need of the config, checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.config import RunConfig
from evalkit.errors import ConfigError, DatasetError, PluginError, did_you_mean
from evalkit.plugins import OUTPUTS, is_offered, offered
from evalkit.prompting import neutralise
from evalkit.types import Case, CaseTexts


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
        known = [*remedies, *(point.name for point in offered(OUTPUTS) if others)]
        raise PluginError(f"there is no '{name}'", where="output.format", remedy=did_you_mean(name, known))
    if remedies[name]:
        raise ConfigError(f"mode {config.mode.name} cannot read '{name}'", where="output.format", remedy=remedies[name])


def check_responses(case: Case | CaseTexts, least: int) -> None:
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


def shared_texts(case: Case | CaseTexts) -> tuple[str, str, str]:
    """Return the texts of a case that every template is filled with, made safe; a blank one counts as none."""
    context, reference = case.context, case.reference
    return (
        neutralise(case.prompt),
        neutralise(context) if context and not context.isspace() else "",
        neutralise(reference) if reference and not reference.isspace() else "",
    )


def shared_variables(case: Case) -> dict[str, Any]:
    """Return the placeholders that stand for a case in every template, with these texts."""
    return dict(zip(SHARED, shared_texts(case), strict=True))
