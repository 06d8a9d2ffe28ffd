"""Scoring of stored judgments: verdicts and metrics with intervals, without IO, judges or a clock.

Everything that can be decided after judging is decided here, so that it can be changed at no cost.

Imports go one way, from high to low:

    gate_rules | drift → compare → leaderboard | pipeline → run_metrics → frontier → metrics →
    verdicts → columns → judgments → stats
"""
