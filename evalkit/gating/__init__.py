"""Check a run against its gate, and write the outcome for continuous integration."""

from __future__ import annotations

from evalkit.gating.rules import (
    GATE,
    apply_gate,
    check_gate,
    check_rules,
    gate_faults,
    gate_lines,
    shortfall,
    title_of,
    unusable,
    write_step_summary,
    write_with_gate,
)

__all__ = [
    "GATE",
    "apply_gate",
    "check_gate",
    "check_rules",
    "gate_faults",
    "gate_lines",
    "shortfall",
    "title_of",
    "unusable",
    "write_step_summary",
    "write_with_gate",
]
