"""Turn planned requests into stored completions.

Only this package waits, retries, limits and spends.
"""

from evalkit.engine.judging import Session, judge
from evalkit.engine.plan import Plan, plan
from evalkit.engine.progress import JudgingResult, Progress

__all__ = ["JudgingResult", "Plan", "Progress", "Session", "judge", "plan"]
