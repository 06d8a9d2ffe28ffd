"""`evalkit score RUN_DIR`: score a finished run again under other scoring settings."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.api import rescore
from evalkit.cli.run_folders import WEIGHT, apply_settings, print_gate, read_one_run
from evalkit.cli.summary import print_summary

FREE = (
    "scoring",
    WEIGHT,
    "swap.resolve",
    "tie.threshold",
    "tie.min_confidence",
    "judge.vote",
    "judge.quorum",
    "judge.weights",
)
GATES = ("gate",)


def main(words: Sequence[str]) -> int:
    """Score again, rewrite the run folder and print the summary; no judge is called. Return the exit status."""
    folder, result, overrides = read_one_run("score", words)
    config = apply_settings(result, overrides, (*FREE, *GATES))
    again = rescore(config, result, folder)
    print_summary(again)
    return print_gate(again)
