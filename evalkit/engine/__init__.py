"""Between a planned request and a stored completion: the only place that waits, retries, limits and pays."""

from evalkit.engine.judging import judge
from evalkit.engine.plan import Plan, plan
from evalkit.engine.progress import JudgingResult, Progress

__all__ = ["JudgingResult", "Plan", "Progress", "judge", "plan"]
