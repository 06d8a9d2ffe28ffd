"""Winners, reasons and kinds of answers as small integers."""

from __future__ import annotations

import numpy as np

from evalkit.scoring.stats.arrays import FUZZ, Codes, Floats
from evalkit.types import Judgment, Reason, Winner

A, TIE, B, NONE = 1, 0, -1, -2
"""Winners as numbers: the sign of a margin, and a number that is no sign for a missing one."""
NAMES: dict[int, Winner] = {A: "A", TIE: "TIE", B: "B"}
CODES = {name: code for code, name in NAMES.items()} | {None: NONE}


def sign(values: Floats) -> Codes:
    """Return A, TIE or B for margins above, at and below 0, and NONE for NaN."""
    codes = np.where(np.abs(values) <= FUZZ, TIE, np.where(values > 0, A, B))
    return np.where(np.isnan(values), NONE, codes).astype(np.int8)


KINDS = ("unparseable", "refused", "failed", "budget", "ok", "repaired")
"""What became of an answer; `budget` is a call that was never made, because the cap was reached."""
READABLE = KINDS.index("ok")


STATED, RANKING, IMPLIED = range(3)
"""Where a row of judgments comes from: a judgment of a pair or a response, a ranking, or what a ranking implies."""


def kind_of(judgment: Judgment) -> str:
    """Return why a judgment has no value, or its status where it has one."""
    never_made = judgment.status == "failed" and judgment.error_kind == "budget"
    return "budget" if never_made else judgment.status


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
