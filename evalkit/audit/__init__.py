"""Audit a judge: edit cases, and see whether the judge falls for it more than its own
noise explains.
"""

from __future__ import annotations

from evalkit.audit.plan import expand, probes_of
from evalkit.audit.probes import all_probes
from evalkit.audit.rewriting import Rewriter

__all__ = ["Rewriter", "all_probes", "expand", "probes_of"]
