"""Sweeps as wholes: which of their jobs are finished already, and how they compare."""

from evalkit.sweeps.board import leaderboard_of, write_leaderboard

__all__ = ["leaderboard_of", "write_leaderboard"]
