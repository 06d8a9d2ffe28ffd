"""Auto-J's pairwise test data (Li et al. 2024, ICLR, arXiv 2310.05470): pairs with
human labels, by scenario.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalkit.benchmarks.shared.benchmark import FACTS, benchmark, one_of, row_by_row
from evalkit.benchmarks.shared.scoring_rules import View, labeled_rates, orders_agree
from evalkit.interop.layouts.layouts import Field
from evalkit.scoring.stats.statistic import Measures

_GROUP_OF: Final = {
    name: group
    for group, names in FACTS["auto_j"]["tables"]["groups"].items()
    for name in names
}

_CASE: Final[Mapping[str, Field]] = {
    "id": lambda row: str(row.number),
    "prompt": "prompt",
    "response_a": "response 1",
    "response_b": "response 2",
    "label": one_of("label", {"0": "A", "1": "B", "2": "TIE"}),
    "scenario": "scenario",
    "subset": lambda row: _GROUP_OF.get(str(row["scenario"])),
}


def _rule(view: View) -> Measures:
    """Return `auto_j/agreement` and `auto_j/consistency` for all pairs and each group of scenarios.

    For pairs in both orders, agreement is the share whose verdict equals the human label in both,
    and consistency the share with the same verdict in both. Scores and single orders have only
    agreement (Li et al. 2024, arXiv 2310.05470, section 5.1, and the leaderboard's definition).
    """
    right = (view.passes == view.pairs.label[:, None]).all(axis=1)
    subsets = view.subsets()
    return [
        *labeled_rates(view, "auto_j/agreement", right, view.read, subsets),
        *orders_agree(view, "auto_j/consistency", subsets),
    ]


BENCHMARKS: Final = (benchmark("auto_j", read=row_by_row(_CASE), rule=_rule),)
