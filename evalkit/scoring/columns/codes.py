"""Winners, reasons and answer kinds as small integers."""

from __future__ import annotations

import numpy as np

from evalkit.scoring.stats.arrays import FUZZ, Codes, Floats
from evalkit.types import Judgment, Reason, Winner

A, TIE, B, NONE = 1, 0, -1, -2
"""Winners as numbers: the sign of a margin, and -2 for a missing winner."""
NAMES: dict[int, Winner] = {A: "A", TIE: "TIE", B: "B"}
CODES = {name: code for code, name in NAMES.items()} | {None: NONE}


def sign(values: Floats) -> Codes:
    """Return A, TIE or B for margins above, at and below 0, and NONE for NaN."""
    codes = np.where(np.abs(values) <= FUZZ, TIE, np.where(values > 0, A, B))
    return np.where(np.isnan(values), NONE, codes).astype(np.int8)


KINDS = ("unparseable", "refused", "failed", "budget", "ok", "repaired")
"""Kinds of answers; `budget` is a call that was not made because the budget was used up."""
READABLE = KINDS.index("ok")
"""The first kind that is readable."""


STATED, RANKING, IMPLIED = range(3)
"""Origins of a row of judgments: a judgment of a pair or response, a ranking, or an implication of a ranking."""


def kind_of(judgment: Judgment) -> str:
    """Return the reason why a judgment has no value, or its status if it has one."""
    cut_off = judgment.status == "failed" and judgment.error_kind == "budget"
    return "budget" if cut_off else judgment.status


JUDGED, THRESHOLD, DISAGREEMENT, FORCED, MISSING, SPLIT, EQUAL = range(7)
REASONS: tuple[Reason, ...] = (
    "judged",
    "threshold",
    "swap_disagreement",
    "forced",
    "missing",
    "split",
    "equal_scores",
)
