"""Sweeps as wholes: which of their jobs are finished already, and how they compare."""

from evalkit.sweeps.board import leaderboard_of, track_leaderboard, write_leaderboard

__all__ = ["leaderboard_of", "track_leaderboard", "write_leaderboard"]
