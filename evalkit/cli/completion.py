"""Tab completion: commands and options from the parser, studies by name, overrides from
files, the rest by Hydra.

Importing Hydra takes longer than a person waits for a completion, so it is asked only for what the
files cannot tell: keys below a chosen option, such as `criteria.accuracy.weight`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from evalkit.cli.parser import COMMANDS, config_groups, option_names, subparsers
from evalkit.core.resources import project, shipped

PLANNED: Final = ("audit", "watch", "align")
"""What may follow `evalkit plan`: the command to plan."""
_KEY: Final = re.compile(r"(?m)^`([a-z_]+\.[a-z_.]+)`(?: \(|$)")


def complete(words: Sequence[str]) -> int:
    """Print the script that a shell loads, or the completions of the line that a shell sends."""
    line = os.environ.get("COMP_LINE", "")
    if not any(word.startswith("query=") for word in words):
        return _by_hydra(words)
    remaining = _for_overrides(line.split(" ")[1:])
    if remaining is None:
        return 0
    # Files first: they answer without importing Hydra.
    names = _overrides(remaining[-1])
    if names is not None:
        print(" ".join(sorted(names)))
        return 0
    # Hydra reads the line from the environment.
    # Without the command's name and study, which Hydra does not know.
    os.environ["COMP_LINE"] = " ".join(["evalkit", *remaining])
    try:
        return _by_hydra(words)
    finally:
        os.environ["COMP_LINE"] = line


def _by_hydra(words: Sequence[str]) -> int:
    from evalkit.cli.hydra_runner import run_jobs

    return run_jobs(words, lambda _: 0)


def _for_overrides(typed: Sequence[str]) -> list[str] | None:
    """Complete commands, options and studies.

    Args:
        typed: The words after `evalkit`; the last one is to be completed, and may be empty.

    Returns:
        The words of an override to complete; `None` if there are none.
    """
    if len(typed) < 2:
        _print(COMMANDS, "".join(typed))
        return None
    command, *remaining = typed
    if command not in COMMANDS:
        return None
    parser = COMMANDS[command].parser()
    actions: Iterable[str] | None = None
    if (commands := subparsers(parser)) is not None:
        actions = commands
        if len(remaining) > 1 and remaining[0] in commands:
            parser = commands[remaining[0]]
            remaining = remaining[1:]
            actions = None
    if remaining[-1].startswith("-"):
        _print(option_names(parser), remaining[-1])
        return None
    if command == "plan":
        if len(remaining) == 1:
            actions = PLANNED
        elif remaining[0] in PLANNED:
            remaining = remaining[1:]
    if actions is not None and len(remaining) == 1:
        _print(actions, remaining[0])
    if not any(action.dest == "study" for action in parser._actions):
        return None
    first, *further = remaining
    is_override = first.startswith(("-", "+", "~")) or "=" in first
    if not first or is_override:
        return remaining
    # Another word follows the study, so its name is complete.
    if further:
        _print((), first)
        return further
    _print(_study_names(), first)
    return remaining


def _overrides(start: str) -> set[str] | None:
    """Return the overrides that begin with `start`, or `None` if files do not tell:
    options of groups, and keys.
    """
    groups = _groups()
    group, equals, value = start.partition("=")
    if equals:
        if group not in groups:
            return None
        # In a sweep, options follow each other after commas.
        _, _, unfinished = value.rpartition(",")
        written = start.removesuffix(unfinished)
        choices = {written + option for option in groups[group]}
        return {choice for choice in choices if choice.startswith(start)}
    reference = shipped("docs") / "reference" / "config.md"
    keys = _KEY.findall(reference.read_text("utf-8"))
    names = {f"{name}=" for name in {*groups, *keys}}
    return {name for name in names if name.startswith(start)} or None


def _groups() -> dict[str, set[str]]:
    """Return the options of each group; one in a folder of the group is named with the
    folder, `simulated/good`.
    """
    groups: dict[str, set[str]] = {}
    for path, options in config_groups(installed=True).items():
        group, _, folder = path.partition("/")
        names = {f"{folder}/{option}" if folder else option for option in options}
        groups.setdefault(group, set()).update(names)
    return groups


def _study_names() -> list[str]:
    """Return the names of the studies in ./experiments and of the shipped ones."""
    folders = (project() / "experiments", shipped("experiments"))
    return sorted({file.stem for folder in folders for file in folder.glob("*.yaml")})


def _print(names: Iterable[str], start: str) -> None:
    print(" ".join(name for name in names if name.startswith(start)))
