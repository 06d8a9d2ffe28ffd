"""Probes that add a claim about a response which says nothing about its quality."""

from __future__ import annotations

from typing import Final

from evalkit.audit.probes import Probe

PROBES: Final[tuple[Probe, ...]] = ()
