"""Refuse runs that stop once a metric is known, where the requests are chosen beforehand."""

from __future__ import annotations

from evalkit.config.run_config import RunConfig
from evalkit.core.errors import ConfigError


def refuse_stop(config: RunConfig) -> None:
    """Refuse a stop where requests are chosen without the answers to earlier ones.

    Raises:
        ConfigError: If the run stops once a metric is known.
    """
    if config.runner.stop is not None:
        raise ConfigError(
            "the answers decide what is asked next",
            where="runner.stop",
            remedy="use evalkit run",
        )
