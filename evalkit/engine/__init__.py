"""Between a planned request and a stored completion: the only place that waits, retries, limits and pays."""

from evalkit.engine.judging import judge
from evalkit.engine.outcome import Judged, Progress
from evalkit.engine.planning import Plan, foreseen_plans, plan

__all__ = ["Judged", "Plan", "Progress", "foreseen_plans", "judge", "plan"]
