"""Metrics behind the decision: agreement of a judge with itself, leans, and the labels it needs."""

from __future__ import annotations

from typing import Final

from evalkit.scoring.catalog.spec import CHECKLISTS, CLASSES, EVERY, NO_INTERVAL, PAIRS, POINTWISE, MetricSpec

_SCOTT: Final = "Scott 1955, Public Opin. Q. 19, 321-325"
_LEANS: Final = (
    ("a", "Lean to A", "the win rate of response A, a tie as half a win", (*PAIRS, "pointwise"), ""),
    ("longer", "Lean to the longer response", "the win rate of the longer response", (*PAIRS, "pointwise"), ""),
    ("score", "Lean to high scores", "the mean score, as a share of the scale", POINTWISE, "grades on the scale"),
    ("met", "Lean to met", "the share of items that are met", CHECKLISTS, "labels by item"),
    ("class/{class}", "Lean to {class}", "the share of this class", CLASSES, ""),
    (
        "system/{system}",
        "Lean to {system}",
        "the win rate of this system, or its mean score above that of the others as a share of the scale",
        (*PAIRS, "pointwise"),
        "names of systems",
    ),
)

DECISION_ROWS: Final = (
    MetricSpec(
        "decision/order_agreement",
        "Both orders agree, beyond chance",
        "Agreement of both orders of a pair, 0 for a judge that ignores the responses.",
        "(p - e) / (1 - e), where p is position/consistency and e the expected agreement of a judge that chooses the "
        "response shown first, the second or a tie with fixed probabilities",
        unit="coefficient",
        low=-1.0,
        better="higher",
        chance=0.0,
        source=_SCOTT,
        modes=PAIRS,
    ),
    *(
        MetricSpec(
            f"decision/lean/{name}",
            title,
            f"Difference between verdicts and labels in {rate}, over labeled units.",
            unit="difference",
            low=-1.0,
            chance=None,
            modes=modes,
            needs=needs,
        )
        for name, title, rate, modes, needs in _LEANS
    ),
    MetricSpec(
        "decision/labels_needed",
        "Labels needed to decide",
        "How many more labels decide about the judge with 80% probability, if its agreement is as estimated.",
        unit="labels",
        low=1.0,
        high=None,
        source="Chow et al. 2008, Sample Size Calculations in Clinical Research, 1.3",
        modes=EVERY,
        interval=NO_INTERVAL,
    ),
)
