"""Use a validated judge in other frameworks: one module for each, which imports its framework.

A verdict has its reason, and what is known about the judge as metadata. A missing verdict is an
error in the framework's own way, never a score. Adapters may import `serving` and everything below;
nothing imports them.
"""

from evalkit.serving.rating import AdaptedJudge, Rating

__all__ = ["AdaptedJudge", "Rating"]
