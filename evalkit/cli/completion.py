"""Tab completion: commands and options from the parser, studies by name, overrides by Hydra."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from evalkit.cli.hydra_runner import run_jobs
from evalkit.cli.parser import COMMANDS, option_names, subparsers
from evalkit.cli.run import AUDIT
from evalkit.hydra_app import study_names


def complete(words: Sequence[str]) -> int:
    """Print the script that a shell loads, or the completions of the line that a shell sends."""
    line = os.environ.get("COMP_LINE", "")
    if not any(word.startswith("query=") for word in words):
        return run_jobs(words, lambda _: 0)
    if (rest := _for_hydra(line.split(" ")[1:])) is None:
        return 0
    # Hydra reads the line from the environment.
    os.environ["COMP_LINE"] = " ".join(["evalkit", *rest])
    try:
        return run_jobs(words, lambda _: 0)
    finally:
        os.environ["COMP_LINE"] = line


def _for_hydra(typed: Sequence[str]) -> list[str] | None:
    """Complete commands, options and studies; return the words that Hydra completes, or `None` if there are none."""
    if len(typed) < 2:
        _print(COMMANDS, "".join(typed))
        return None
    command, *rest = typed
    if command not in COMMANDS:
        return None
    parser = COMMANDS[command].parser()
    actions: Iterable[str] | None = None
    if (commands := subparsers(parser)) is not None:
        actions = commands
        if len(rest) > 1 and rest[0] in commands:
            parser = commands[rest[0]]
            rest = rest[1:]
            actions = None
    if rest[-1].startswith("-"):
        _print(option_names(parser), rest[-1])
        return None
    if command == "plan" and rest[0] == AUDIT and len(rest) > 1:
        rest = rest[1:]
    elif command == "plan" and len(rest) == 1:
        actions = [AUDIT]
    if actions is not None and len(rest) == 1:
        _print(actions, rest[0])
    if not any(action.dest == "study" for action in parser._actions):
        return None
    if (
        rest[0] and "=" not in rest[0] and not rest[0].startswith(("-", "+", "~"))
    ):  # may be a study
        _print(study_names() if len(rest) == 1 else (), rest[0])
        rest = rest[1:] or rest
    return rest


def _print(names: Iterable[str], start: str) -> None:
    print(" ".join(name for name in names if name.startswith(start)))
