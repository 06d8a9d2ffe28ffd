"""Tab completion: what Hydra completes, with evalkit's commands and studies before it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from evalkit.cli import COMMANDS
from evalkit.cli.hydra_runner import run_jobs
from evalkit.hydra_app import study_names

COMPOSING = ("run", "plan", "doctor", "ui")


def main(words: Sequence[str]) -> int:
    """Print the script that a shell is to load, or what the line it is asked about may go on with."""
    asked = any(word.startswith("query=") for word in words)
    if asked and not _hand_on(os.environ.get("COMP_LINE", "").split(" ")[1:]):
        return 0
    return run_jobs(words, lambda _: 0)


def _hand_on(typed: Sequence[str]) -> bool:
    """Complete what of a line is evalkit's own, leave its overrides to Hydra, and say whether there may be any."""
    if len(typed) < 2:
        print(" ".join(name for name in COMMANDS if name.startswith("".join(typed))))
        return False
    command, *rest = typed
    if _may_be_study(rest[0]):
        print(" ".join(name for name in study_names() if len(rest) == 1 and name.startswith(rest[0])))
        rest = rest[1:] or rest
    os.environ["COMP_LINE"] = " ".join(["evalkit", *rest])
    return command in COMPOSING


def _may_be_study(word: str) -> bool:
    return bool(word) and "=" not in word and not word.startswith(("-", "+", "~"))
