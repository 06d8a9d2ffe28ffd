"""Which design a run has: what it asks besides its cases."""

from __future__ import annotations

from typing import Final

from evalkit.config import RunConfig
from evalkit.core.optional_features import load_feature
from evalkit.engine.run_design import Design

_AUDIT: Final = "evalkit.audit.design"


def design_of(config: RunConfig) -> Design:
    """Return what a run of a config asks.

    Raises:
        ConfigError: If this installation cannot ask it.
    """
    if not config.probe.probes:
        return Design(config)
    design: Design = load_feature(_AUDIT, "probe.probes").AuditDesign(config)
    return design
