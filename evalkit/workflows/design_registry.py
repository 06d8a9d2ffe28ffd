"""Which design a run has: what it asks besides its cases."""

from __future__ import annotations

from typing import Final

from evalkit.config import RunConfig
from evalkit.core.rooms import load_room
from evalkit.engine.designs import Design

_AUDIT: Final = "evalkit.audit.design"


def design_of(config: RunConfig) -> Design:
    """Return what a run of a config asks.

    Raises:
        ConfigError: If this installation cannot ask it.
    """
    if not config.probe.probes:
        return Design(config)
    design: Design = load_room(_AUDIT, "probe.probes").AuditDesign(config)
    return design
