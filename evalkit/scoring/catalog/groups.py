"""Headings of groups of metrics, for tables of many."""

from __future__ import annotations

from typing import Final

from evalkit.core.translation import Text, gettext
from evalkit.scoring.catalog import CATALOG

HEADINGS: Final = {
    "class": gettext("Classes"),
    **dict.fromkeys(("tie_rate", "forced_rate", "win_rate"), gettext("Verdicts")),
    **dict.fromkeys(("position", "third_pass", "samples"), gettext("Order and repeats")),
    "length": gettext("Length"),
    "conflict": gettext("Contradictions"),
    **dict.fromkeys(("criteria", "agreement"), gettext("Agreement")),
    "checklist": gettext("Checklists"),
    "human": gettext("Annotators"),
    "self": gettext("Own model family"),
    "calibration": gettext("Confidence"),
    "score": gettext("Scores"),
    **dict.fromkeys(("ranking", "jnd"), gettext("Systems and margins")),
    "corrected": gettext("Rates corrected by labels"),
    "variance": gettext("Variance"),
    "weighted": gettext("Token probabilities"),
    **dict.fromkeys(("cost", "latency"), gettext("Cost and latency")),
    "missing": gettext("Missing answers"),
    "panel": gettext("Panel"),
    **dict.fromkeys(("between", "leaderboard"), gettext("Comparison")),
    "audit": gettext("Audit"),
    "decision": gettext("Behind the decision"),
    "labels": gettext("Choice of labels"),
}
"""The heading of each group of the catalog; groups that are read together share one."""


def heading(name: str) -> Text | str:
    """Return the heading above a metric: its group's, its benchmark's, or the judge's of a panel."""
    found = CATALOG.find(name)
    if found is not None and found.judge is not None:
        return found.judge
    if found is not None and found.spec.benchmark:
        return found.spec.benchmark
    return HEADINGS.get(name.partition("/")[0], gettext("Other metrics"))
