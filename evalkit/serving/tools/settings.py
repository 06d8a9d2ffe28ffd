"""Combine a tool's arguments, a config and overrides into one RunConfig; a
contradiction is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from evalkit.compose import load_config, load_settings
from evalkit.config import RunConfig
from evalkit.config.problems import config_error
from evalkit.core.errors import ConfigError
from evalkit.core.values import Json, JsonObject
from evalkit.serving.tools.models import (
    SCALES,
    DirectScoreInput,
    PairwiseCompareInput,
    ScoreRubric,
)

_DEFAULT_SCALE = (1.0, 5.0, 1.0)
"""The lowest and highest score, and the step."""
_NO_RUN = "the tool judges only its arguments and records no run"
_REFUSED = MappingProxyType(
    {
        "criteria": "the criteria are an argument of the tool",
        "dataset": _NO_RUN,
        "tracking": _NO_RUN,
        "gate": _NO_RUN,
        "objective": _NO_RUN,
        "hydra": _NO_RUN,
    }
)
_USED = MappingProxyType(
    {
        "runner": frozenset(
            {"concurrency", "timeout", "retries", "budget_usd", "budget_calls"}
        ),
        # Groups of which only some keys change a single verdict.
        "pairwise scoring": frozenset({"aggregate", "weights", "combine", "weighted"}),
        "pointwise scoring": frozenset({"weights", "combine", "weighted"}),
    }
)
_REFUSED_IN_MODE = MappingProxyType(
    {
        "pairwise": {"rubric": "pairs are compared without a scale"},
        "pointwise": dict.fromkeys(
            ("swap", "tie"), "a single response has no order and no tie"
        ),
    }
)


def pairwise_settings(
    arguments: PairwiseCompareInput, config: RunConfig | None, overrides: Sequence[str]
) -> RunConfig:
    """Return the settings of a comparison; missing arguments come from the config.

    Args:
        arguments: The tool's arguments.
        config: The config; the defaults if `None`.
        overrides: Hydra overrides.

    Raises:
        ConfigError: If an override cannot be honored, contradicts an argument, or is invalid.
    """

    def adjust(values: JsonObject) -> JsonObject:
        """Return the settings with the tool's criteria, orders and ties.

        Raises:
            ConfigError: if an argument contradicts a setting.
        """
        policy = values["swap"]["policy"]
        allow = values["tie"]["allow"]
        # An argument that was not passed has a default, which must not overrule the config.
        if "swap_positions" in arguments.model_fields_set:
            both = arguments.swap_positions
        else:
            both = policy == "both"
        if "allow_tie" in arguments.model_fields_set:
            ties = arguments.allow_tie
        else:
            ties = allow
        if policy == "random":
            raise _contradiction(
                "swap.policy",
                "the tool judges both orders or the given one",
                "set swap=both or none",
            )
        if both and policy != "both":
            raise _contradiction(
                "swap.policy",
                f"is '{policy}', but swapPositions is true",
                "set only one of them",
            )
        # The default config has both orders too, so only an override contradicts the argument.
        if not both and policy == "both" and _touch(overrides, "swap"):
            raise _contradiction(
                "swap",
                "swapPositions is false, so there is one order",
                "set only one of them",
            )
        if ties and not allow:
            raise _contradiction(
                "tie.allow", "is false, but allowTie is true", "set only one of them"
            )
        if not ties and allow and _touch(overrides, "tie.allow", "tie=allow"):
            raise _contradiction(
                "tie.allow", "is true, but allowTie is false", "set only one of them"
            )
        return {
            **values,
            "criteria": [{"name": name} for name in arguments.criteria],
            "swap": {**values["swap"], "policy": "both" if both else "none"},
            "tie": {**values["tie"], "allow": ties},
        }

    return _tool_settings(config, overrides, "pairwise", adjust)


def direct_settings(
    arguments: DirectScoreInput, config: RunConfig | None, overrides: Sequence[str]
) -> RunConfig:
    """Return the settings of a score; the rubric is the argument, or else the configured one.

    Args:
        arguments: The tool's arguments.
        config: The config; the defaults if `None`.
        overrides: Hydra overrides.

    Raises:
        ConfigError: If an override cannot be honored, contradicts an argument, or is invalid.
    """

    def adjust(values: JsonObject) -> JsonObject:
        """Return the settings with the tool's criteria and rubric, for one score.

        Raises:
            ConfigError: if the rubric has classes.
        """
        rubric = dict(values["rubric"])
        if rubric.get("classes"):
            raise _contradiction(
                "rubric", "has classes, but this tool gives scores", "choose a scale"
            )
        if config is None and not _touch(overrides, "rubric", "method"):
            rubric["levels"] = {}  # the default rubric has levels in English
        if arguments.rubric is not None:
            rubric = _update_rubric(arguments.rubric, rubric)
        return {
            **values,
            "criteria": [criterion.model_dump() for criterion in arguments.criteria],
            "rubric": rubric,
            # Settings of pairs and of whole runs do not apply to one score.
            "tie": {"allow": True},
            "scoring": {
                **values["scoring"],
                "normalize": "none",
                "length_control": False,
            },
        }

    return _tool_settings(config, overrides, "pointwise", adjust)


def _update_rubric(arguments: ScoreRubric, configured: Json) -> JsonObject:
    """Return the configured rubric, updated with the argument; what the argument does not set
    stays.

    Args:
        arguments: The argument of the tool.
        configured: The rubric of the config.

    Raises:
        ConfigError: If both set a scale, and not the same one.
    """
    rubric = dict(configured)
    low, high = SCALES[arguments.scale]
    configured_scale = tuple(float(rubric[key]) for key in ("min", "max", "step"))
    requested = (float(low), float(high), 1.0)
    if "scale" in arguments.model_fields_set and configured_scale != requested:
        # The argument may replace the default.
        if configured_scale != _DEFAULT_SCALE:
            lowest, highest, step = configured_scale
            problem = (
                f"is {lowest:g} to {highest:g} by"
                f" {step:g}, but the argument rubric.scale is {arguments.scale}"
            )
            raise _contradiction("rubric", problem, "set only one of them")
        # Levels of another scale would describe scores that do not exist.
        rubric |= {"min": low, "max": high, "step": 1, "levels": {}}
    if arguments.level_descriptions is not None:
        rubric["levels"] = {
            float(level): text for level, text in arguments.level_descriptions.items()
        }
    if arguments.examples is not None:
        rubric |= {
            "examples": [example.model_dump() for example in arguments.examples],
            "examples_path": None,
        }
    return rubric


def _tool_settings(
    config: RunConfig | None,
    overrides: Sequence[str],
    mode: str,
    adjust: Callable[[JsonObject], JsonObject],
) -> RunConfig:
    """Return the config of a call: `config` or the default, with overrides and arguments.

    Raises:
        ConfigError: if the result is invalid.
    """
    for word in overrides:
        _refuse_ignored(word, mode)
    if config is None:
        return load_config(
            overrides=[f"mode={mode}", *overrides], adjust=_require_mode(mode, adjust)
        )
    settings = load_settings(config.dump(), overrides) if overrides else config
    try:
        return RunConfig.model_validate(_require_mode(mode, adjust)(settings.dump()))
    except ValidationError as error:
        raise config_error(error, ()) from None


def _require_mode(
    mode: str, adjust: Callable[[JsonObject], JsonObject]
) -> Callable[[JsonObject], Any]:
    """Return `adjust` with a check of the mode before it.

    Args:
        mode: The mode that the tool needs.
        adjust: Changes the values of a config.

    Raises:
        ConfigError: When the returned function is called with another mode.
    """

    def adjusted(values: JsonObject) -> JsonObject:
        if values["mode"]["name"] != mode:
            raise ConfigError(
                f"is '{values['mode']['name']}'",
                where="mode.name",
                remedy=f"set mode={mode} for this tool",
            )
        return adjust(values)

    return adjusted


def _refuse_ignored(word: str, mode: str) -> None:
    """Refuse an override that the tool would ignore.

    Raises:
        ConfigError: If the tool does not use the key of the override.
    """
    # The forms of Hydra: `+key=…`, `~key`, `group@package=name`, `group/option=name`.
    key = word.lstrip("+~").partition("=")[0]
    group, _, package = key.partition("@")
    root, _, subkey = (package or group).partition(".")
    root = root.partition("/")[0]
    refused = {**_REFUSED, **_REFUSED_IN_MODE[mode]}
    if root in refused:
        raise ConfigError(
            "the tool cannot honor this override",
            where=key,
            remedy=f"{refused[root]}; remove it",
        )
    used = _USED.get(root, _USED.get(f"{mode} {root}"))
    if used is not None and subkey.partition(".")[0] not in used:
        used_keys = ", ".join(f"{root}.{name}" for name in sorted(used))
        raise ConfigError(
            "the tool cannot honor this override",
            where=key,
            remedy=f"it uses only {used_keys}; remove it",
        )


def _touch(overrides: Sequence[str], *keys: str) -> bool:
    """Return whether an override sets one of these keys or a key below it, or equals
    one of these words.
    """
    words = [word.lstrip("+~") for word in overrides]
    # With `group@package`, the package is what is set.
    named = [
        (word, word.partition("=")[0].partition("@")[2] or word.partition("=")[0])
        for word in words
    ]
    return any(
        word == key or name == key or name.startswith(f"{key}.")
        for word, name in named
        for key in keys
    )


def _contradiction(where: str, problem: str, remedy: str) -> ConfigError:
    return ConfigError(problem, where=where, remedy=remedy)
