"""A metric: how often the shorter response of a pair wins."""

from __future__ import annotations

from evalkit.core.types import Response, Verdict
from evalkit.scoring.catalog import CustomMetric, MetricSpec


def shorter_wins(verdict: Verdict, first: Response, second: Response) -> bool | None:
    """Return whether the shorter response won; `None` for a tie, or responses of one length."""
    if verdict.winner == "TIE" or len(first.text) == len(second.text):
        return None
    return (verdict.winner == "A") == (len(first.text) < len(second.text))


SHORTER_WINS = CustomMetric(
    MetricSpec(
        "brevity/shorter_wins",
        "shorter response wins",
        "Share of decided pairs that the shorter response wins.",
        chance=0.5,
    ),
    shorter_wins,
)
