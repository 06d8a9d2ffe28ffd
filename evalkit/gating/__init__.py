"""A run held against its gate, and the files that tell continuous integration what came of it."""

from __future__ import annotations

from evalkit.gating.checking import check_gate
from evalkit.gating.files import gate_faults, gate_lines, title_of, write_held, write_step_summary
from evalkit.gating.ruling import GATE, check_rules, rule_on
from evalkit.gating.shortfall import shortfall, unusable

__all__ = [
    "GATE",
    "check_gate",
    "check_rules",
    "gate_faults",
    "gate_lines",
    "rule_on",
    "shortfall",
    "title_of",
    "unusable",
    "write_held",
    "write_step_summary",
]
