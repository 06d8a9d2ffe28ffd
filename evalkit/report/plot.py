"""The interval plot as numbers: where each dot and line stands, in the units of the drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evalkit.report.finding import interval
from evalkit.report.wording import Words, metric_words
from evalkit.types import Metric

LEFT, RIGHT, WIDTH, ROW = 250.0, 560.0, 720.0, 28.0

RATES = (
    "agreement/accuracy",
    "agreement/accuracy_per_order",
    "agreement/accuracy_both_orders",
    "position/consistency",
    "position/first_rate",
    "length/longer_rate",
    "tie_rate",
    "win_rate/a",
    "win_rate/b",
    "conflict/rate",
    "conflict/weak_rate",
    "calibration/ece",
)
COEFFICIENTS = ("agreement/kappa", "agreement/pearson", "agreement/spearman", "agreement/kendall")
_CHANCE = {"agreement/accuracy": 0.5, "position/first_rate": 0.5, "length/longer_rate": 0.5}


@dataclass(frozen=True, slots=True)
class Bar:
    """One metric's row: `x` of the dot, `ci` and `worst` the ends of its lines, `chance` a mark; all horizontal."""

    words: Words
    name: str
    y: float
    x: float
    ci: tuple[float, float] | None
    worst: tuple[float, float] | None
    chance: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows on one axis; `ticks` are (x, label)."""

    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    height: float


def panels(metrics: Mapping[str, Metric]) -> list[Panel]:
    """Return one panel for the rates (0 to 1) and one for the coefficients (-1 to 1), of metrics with an interval."""
    rates = _panel(_present(metrics, RATES), 0.0, 1.0, _CHANCE)
    coefficients = _panel(_present(metrics, COEFFICIENTS), -1.0, 1.0, dict.fromkeys(COEFFICIENTS, 0.0))
    return [panel for panel in (rates, coefficients) if panel.bars]


def _present(metrics: Mapping[str, Metric], names: Iterable[str]) -> list[Metric]:
    return [metric for name in names if (metric := metrics.get(name)) is not None and metric.low is not None]


def _panel(rows: list[Metric], low: float, high: float, chance: Mapping[str, float]) -> Panel:
    def x(value: float) -> float:
        inside = min(max(value, low), high)
        return round(LEFT + (RIGHT - LEFT) * (inside - low) / (high - low), 1)

    def span(start: float | None, end: float | None) -> tuple[float, float] | None:
        return None if start is None or end is None else (x(start), x(end))

    bars = tuple(
        Bar(
            words=metric_words(metric.name),
            name=metric.name,
            y=ROW * (place + 0.5),
            x=x(metric.value if metric.value is not None else low),
            ci=span(metric.low, metric.high),
            worst=span(metric.worst_low, metric.worst_high),
            chance=x(chance[metric.name]) if metric.name in chance else None,
            text=interval(metric),
        )
        for place, metric in enumerate(rows)
    )
    ticks = tuple((x(low + (high - low) * i / 4), f"{low + (high - low) * i / 4:g}") for i in range(5))
    return Panel(bars, ticks, ROW * len(bars) + 24)
