"""Audit a judge: edit cases, and see whether the judge falls for it more than its own noise explains."""

from __future__ import annotations

from evalkit.audit.datasheet import Audit, check_audit, is_audit, split
from evalkit.audit.plan import AuditPlan, ProbedEvaluator, expand, probes_of
from evalkit.audit.probes import Probe, all_probes
from evalkit.audit.rewriting import Rewriter, paraphrases, rewriting
from evalkit.audit.sweep_datasheet import sweep_datasheet

__all__ = [
    "Audit",
    "AuditPlan",
    "Probe",
    "ProbedEvaluator",
    "Rewriter",
    "all_probes",
    "check_audit",
    "expand",
    "is_audit",
    "paraphrases",
    "probes_of",
    "rewriting",
    "split",
    "sweep_datasheet",
]
