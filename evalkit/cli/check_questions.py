"""The questions of `evalkit check`, and the command that gives each answer."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evalkit.cli.check_summary import reading_lines

if TYPE_CHECKING:
    from evalkit.datasets.file_parts import OpenFileError
    from evalkit.interop.layouts.criteria import OpenCriterionError
    from evalkit.interop.tables.questions import Answer, OpenTableError

_LIKE_AN_OPTION: Final = re.compile(r"-(?!\d)")
"""The beginning of a value that would be read as an option."""
_READING: Final = "How the table was read:"


def as_table_question(question: OpenCriterionError) -> OpenTableError:
    """Return the question about an export as one about a table."""
    from evalkit.interop.tables.questions import Answer, OpenTableError

    answers = [Answer(meaning, options) for meaning, options in question.answers]
    return OpenTableError(question.what, question.where, answers)


def print_question(question: OpenTableError, arguments: Namespace) -> None:
    """Print how the table was read so far, the question, and a command for each answer."""
    from evalkit.interop.tables.questions import command

    if question.roles:
        print(f"{_READING}\n" + "\n".join(reading_lines(question.roles)))
    print(f"Question: {question.what}")
    for answer in question.answers:
        words = ["evalkit", *answered_command(answer, arguments)]
        print(f"  {answer.meaning}:\n    {command(words)}")


def print_parts(
    question: OpenFileError, paths: Sequence[Path], arguments: Namespace
) -> None:
    """Print which part of a file is to be read, and a command for each."""
    from evalkit.interop.tables.questions import command

    if question.path not in paths:
        return
    print(f"Question: {question.what}: {question.question}")
    for part, meaning in question.parts:
        named = [
            f"{name}#{part}" if Path(name).expanduser() == question.path else name
            for name in arguments.paths
        ]
        words = _attached(["evalkit", "check", *named, *_given_options(arguments)])
        print(f"  {meaning}:\n    {command(words)}")


def answered_command(answer: Answer, arguments: Namespace) -> list[str]:
    """Return the arguments of the command that answers a question."""
    before = _given_options(arguments)
    words = _without_repeats(["check", *arguments.paths, *before, *answer.options])
    return _attached(words)


def _attached(words: Sequence[str]) -> list[str]:
    """Return a command in which a value that begins as an option does is in one word
    with its option.
    """
    attached: list[str] = []
    for word in words:
        # -1 is a number, and --map an option.
        is_value = _LIKE_AN_OPTION.match(word) and attached[-1:] == ["--map"]
        if is_value:
            attached[-1] = f"--map={word}"
        else:
            attached.append(word)
    return attached


def chosen_answer(question: OpenTableError) -> Answer | None:
    """Return the answer that the user chooses; `None` if nobody can be asked at a terminal."""
    # a script must not wait for an answer
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    for number, answer in enumerate(question.answers, 1):
        print(f"  {number}: {answer.meaning}")
    try:
        number = int(input(f"1 to {len(question.answers)}, or Enter to stop: "))
    except (ValueError, EOFError):
        return None
    in_range = 1 <= number <= len(question.answers)
    if in_range:
        return question.answers[number - 1]
    return None


def with_command(note: str, arguments: Namespace) -> str:
    """Return a note that ends with options of this command, with the whole command."""
    from evalkit.interop.tables.questions import command
    from evalkit.interop.tables.score_verdicts import MAPPED

    before, mapped, options = note.partition(MAPPED)
    if not mapped:
        return note
    words = ["evalkit", "check", *arguments.paths, *_given_options(arguments)]
    return f"{before}{mapped}{command(words)} {options}"


def _given_options(arguments: Namespace) -> list[str]:
    """Return the options of the command that say how to read the table."""
    options: list[str] = []
    for name in ("judge", "label", "response", "key"):
        for value in getattr(arguments, name, None) or ():
            options += [f"--{name}", value]
    for name in ("id", "prompt", "order", "sample"):
        if value := getattr(arguments, name, None):
            options += [f"--{name}", value]
    for word, meaning in arguments.map or ():
        options += ["--map", f"{word}={meaning}"]
    for name in ("output", "save", "reading"):
        if value := getattr(arguments, name, None):
            options += [f"--{name}", str(value)]
    for name in ("json", "overwrite"):
        if getattr(arguments, name, False):
            options.append(f"--{name}")
    return options


def _without_repeats(words: Sequence[str]) -> list[str]:
    """Return a command without options that occur twice with one value; the first one stays.

    Args:
        words: The words of the command; every option but the two flags has a value.
    """
    kept: list[str] = []
    used_options: set[tuple[str, str]] = set()
    position = 0
    while position < len(words):
        word = words[position]
        if word.startswith("--") and word not in ("--json", "--overwrite"):
            # Every option here has a value, except for the two flags.
            option = (word, words[position + 1])
            if option not in used_options:
                kept += option
            used_options.add(option)
            position += 2
        else:
            kept.append(word)
            position += 1
    return kept
