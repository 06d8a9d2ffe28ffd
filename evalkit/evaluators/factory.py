"""Evaluators, selected by `mode.name`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import isclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError, PluginError
from evalkit.core.plugins import EVALUATORS, PROMPTS, construct, find, folders
from evalkit.core.protocols import Evaluator, FollowUpEvaluator
from evalkit.evaluators.mode_registry import (
    DECISIONS_OF_CLASSES,
    DECISIONS_OF_MODES,
    MODES,
    MODES_OF_CLASSES,
    MODES_OF_REWARDS,
)
from evalkit.evaluators.prompting import Prompts, foreign_template
from evalkit.evaluators.wrappers import (
    CommitFirst,
    JudgeByJudge,
    explain_turns,
    guard_evaluator,
)


def make_evaluator(
    config: RunConfig,
    *,
    prompt_folders: Sequence[Path] = (),
    recorded: Mapping[str, str] | None = None,
) -> Evaluator:
    """Return the evaluator for `mode.name`, with its prompts found, checked and filled once.

    Args:
        config: The run's config.
        prompt_folders: The user's folders of prompts.
        recorded: The text of templates by name; these take precedence over files.

    Raises:
        PluginError: If there is no such evaluator, it is not an evaluator, or `mode.params` are
            invalid for it.
        PromptError: If its template cannot be found, parsed or filled.
        ConfigError: If it does not support the rest of the config.
    """
    kinds = {(judge.rewards, judge.decides, judge.template) for judge in config.judges}
    if len(kinds) == 1:
        return _for_one_kind(config, prompt_folders, recorded)
    # Each judge is asked as if it were alone.
    evaluators = {
        judge.label: _for_one_kind(
            config.with_({"judge": judge}), prompt_folders, recorded
        )
        for judge in config.judges
    }
    return JudgeByJudge(evaluators, config.swap.arbiter)


def _for_one_kind(
    config: RunConfig,
    prompt_folders: Sequence[Path],
    recorded: Mapping[str, str] | None,
) -> Evaluator:
    """Return the evaluator of judges that are asked in the same way.

    Args:
        config: The config of the run; its `judge` is asked in one way.
        prompt_folders: The user's folders of templates, which come first.
        recorded: The texts of templates by file name, from a run folder; `None` for a new run.

    Raises:
        ConfigError: If the mode and the rubric do not fit together.
        PluginError: If `mode.name` or its parameters are not valid.
        PromptError: If a template cannot be used.
    """
    name = config.mode.name
    if config.rubric.classes and name in MODES and name != "pointwise":
        problem = f"a class is for one response, and mode {name} shows several"
        raise ConfigError(problem, where="rubric.classes", remedy="set mode=pointwise")
    if config.rubric.real and name in MODES and not config.judge.rewards:
        remedy = (
            "set rubric.min and rubric.max, or judge.endpoint to that of a reward model"
        )
        raise ConfigError(
            "a judge that answers in words needs a scale",
            where="rubric.real",
            remedy=remedy,
        )
    mode_class = find(
        EVALUATORS, name, _known_modes(config), where="mode.name", methods=("plan",)
    )
    if not (isclass(mode_class) and issubclass(mode_class, Evaluator)):
        raise PluginError(
            f"'{name}' is not an evaluator",
            where="mode.name",
            remedy="give a class with the methods plan and read",
        )
    # A third-party template is converted once and kept as recorded text, so that a run folder has
    # what was sent.
    if (source := config.prompt.source) is not None:
        file = Path(config.prompt.template or "").expanduser()
        if file.name not in (recorded or {}):
            recorded = {**(recorded or {}), file.name: foreign_template(file, source)}
    prompts = Prompts(
        config.prompt.language, [*prompt_folders, *folders(PROMPTS)], recorded
    )
    evaluator: Evaluator = construct(
        mode_class,
        config,
        prompts,
        *_params(mode_class, config),
        name=name,
        where="mode.name",
    )
    if name not in MODES:
        evaluator = guard_evaluator(evaluator, name)
    _check_abilities(evaluator, config)
    chats = not (config.judge.rewards or config.judge.decides)
    if config.dataset.has_turns and source is None and chats:
        evaluator = explain_turns(evaluator, config, prompts)
    # Outermost, so that the judge's own answer comes before everything that the inner ones add.
    if config.mode.commit_first and chats:
        return CommitFirst(evaluator, prompts)
    return evaluator


def _known_modes(config: RunConfig) -> Mapping[str, str]:
    """Return the evaluators by mode, for the judge's kind of answer."""
    if config.judge.decides:
        if config.rubric.classes:
            return DECISIONS_OF_CLASSES
        return DECISIONS_OF_MODES
    if config.judge.rewards:
        return MODES_OF_REWARDS
    if config.rubric.classes:
        return MODES_OF_CLASSES
    return MODES


def _check_abilities(evaluator: Evaluator, config: RunConfig) -> None:
    """Raise before any request if the evaluator does not support a setting."""
    mode = f"mode '{config.mode.name}'"
    if config.judge.weighs and not getattr(evaluator, "weighs", False):
        raise ConfigError(
            f"{mode} does not support log-probabilities",
            where="judge.logprobs",
            remedy="set it to false, or mode=pairwise",
        )
    if (
        config.swap.policy == "both"
        and config.swap.resolve == "third_pass"
        and not isinstance(evaluator, FollowUpEvaluator)
    ):
        raise ConfigError(
            f"{mode} does not support third_pass",
            where="swap.resolve",
            remedy="set another value, or mode=pairwise",
        )


def _params(mode_class: Any, config: RunConfig) -> tuple[Any, ...]:
    """Return the parameters of a mode as the last arguments of its class: none, or one model of
    `mode.params`.

    Raises:
        PluginError: If the mode has no parameters, or they are not valid.
    """
    model = getattr(mode_class, "Params", None)
    params = config.mode.params
    if model is None:
        if params:
            raise PluginError(
                f"'{config.mode.name}' has no parameters",
                where=f"mode.params.{next(iter(params))}",
                remedy="remove it",
            )
        return ()
    try:
        return (model.model_validate(params),)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in ("mode.params", *first["loc"]))
        raise PluginError(
            first["msg"],
            where=key,
            remedy=f"see the parameters of '{config.mode.name}'",
        ) from None
