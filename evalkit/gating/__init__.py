"""Check a run against its gate, and write the outcome for continuous integration."""

from __future__ import annotations

from evalkit.gating.gate_files import gate_faults, gate_lines, title_of, write_step_summary, write_with_gate
from evalkit.gating.rules import GATE, apply_gate, check_gate, check_rules, shortfall, unusable

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
