"""The config of judgments made elsewhere; the usual one is composed without Hydra,
which takes long to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from evalkit.core.errors import EvalkitError
from evalkit.core.values import Json

if TYPE_CHECKING:
    from evalkit.config import RunConfig

PLAIN: Final = {"tracking=none": ("tracking", "none")}
"""The overrides that only choose a shipped option."""


def load_settings(settings: Json, overrides: Sequence[str] = ()) -> RunConfig:
    """Compose a config from plain values and overrides, as `hydra_app.load_settings` does.

    Raises:
        ConfigError: if the config is invalid.
    """
    if PLAIN.keys() >= set(overrides):
        config = plain_settings(settings, overrides)
        if config is not None:
            return config
    from evalkit.compose import load_settings as compose_settings

    return compose_settings(settings, overrides)


def plain_settings(settings: Json, overrides: Sequence[str]) -> RunConfig | None:
    """Return the config; `None` if it is invalid, which Hydra's errors explain."""
    from evalkit.config import RunConfig
    from evalkit.config.shipped_options import settled_values
    from evalkit.core.resources import project
    from evalkit.datasets import with_examples
    from evalkit.guard.config_sources import SECTIONS, SETTINGS
    from evalkit.guard.policy import check, origin_of

    chosen = dict(PLAIN[word] for word in overrides)
    repeated = {group: [option] for group, option in chosen.items()}
    try:
        config = RunConfig.model_validate(settled_values(settings, chosen))
        check(config, replace(origin_of(None), repeated=repeated), SECTIONS[SETTINGS])
        return with_examples(config, base=project())
    except (EvalkitError, ValueError):
        return None
