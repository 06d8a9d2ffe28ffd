"""The argument parser of a command and the types of its arguments: every error is one line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from evalkit.errors import ConfigError, did_you_mean

WIDTH: Final = 100
_INSTEAD: Final = {
    ("run", flag): "evalkit plan shows what a run would request" for flag in ("--dry", "--dry-run", "--dryrun")
}
"""What to use instead of options that other programs have."""


class UsageError(ConfigError):
    """A command line that a command cannot read."""

    def __init__(self, command: str, what: str, remedy: str = "") -> None:
        name = f"evalkit {command}".rstrip()
        full_remedy = f"try {name} --help"
        if remedy:
            full_remedy = f"{remedy}{'' if remedy.endswith('?') else ';'} {full_remedy}"
        super().__init__(what, where=name, remedy=full_remedy)


_RENAMED: Final = {("plan", "--probe"): "--pilot"}
"""Options of earlier versions, by command and name, and their names now."""


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line with exit status 1.

    `closing` returns the end of the help; it may read files.
    """

    def __init__(self, *, closing: Callable[[], str] | None = None, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, "allow_abbrev": False, **settings})
        self._closing = closing

    def format_help(self) -> str:
        """Return the help."""
        if self._closing is not None:
            self.epilog = self._closing()
        return super().format_help()

    @property
    def command(self) -> str:
        """The name of the command, without `evalkit`."""
        return self.prog.partition(" ")[2]

    def error(self, message: str) -> NoReturn:
        """Report a wrong command line.

        Raises:
            UsageError: always.
        """
        if missing := re.fullmatch("the following arguments are required: (.*)", message):
            message = f"needs {missing[1].replace(', ', ' and ')}"
        message = message.removeprefix("argument ").replace("expected one argument", "needs a value")
        what, _, remedy = re.sub(r"^(?:-\w/)?(--\S+?): ", r"\1: ", message).partition("; ")
        raise UsageError(self.command, what, remedy)

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words of one command; positional arguments and options can come in any order.

        Raises:
            UsageError: if an option or argument is unknown, missing or has a wrong value.
        """
        for word in words:
            self._check_option(word)
        found, unknown = self.parse_known_intermixed_args(words)
        if unknown:
            raise UsageError(self.command, f"unexpected argument '{unknown[0]}'")
        found.words = list(words)
        return found

    def _check_option(self, word: str) -> None:
        # Before anything that is missing, because a misspelled option is why it is missing.
        name, known = word.partition("=")[0], self._option_string_actions
        if not word.startswith("-") or name in known or (name[:2] in known and not name.startswith("--")):
            return
        if (new := _RENAMED.get((self.command, name))) is not None:
            raise UsageError(self.command, f"{name} is now named {new}")
        # The dashes are not compared: all options have them.
        options = {flag.lstrip("-"): flag for flag in known}
        bare = name.lstrip("-")
        close = get_close_matches(bare, options, n=1, cutoff=0.5 if len(bare) < 3 else 0.6)
        remedy = f"did you mean '{options[close[0]]}'?" if close else _INSTEAD.get((self.command, name), "")
        raise UsageError(self.command, f"no such option {name}", remedy)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Lines of one width, with the default of each option that has one."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, width=WIDTH, max_help_position=28)

    def _get_help_string(self, action: argparse.Action) -> str:
        return f"{action.help}{default_note(action)}"


def default_note(action: argparse.Action) -> str:
    """Return an option's default in parentheses, or nothing if it has none."""
    plain = isinstance(action.default, str | int) and not isinstance(action.default, bool)
    return " (default: %(default)s)" if plain and action.option_strings and action.default != argparse.SUPPRESS else ""


def positive(text: str) -> int:
    """Return an integer above 0."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer above 0")
    return int(text)


def natural(text: str) -> int:
    """Return an integer that is not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer from 0")
    return int(text)


def port(text: str) -> int:
    """Return a port number."""
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port from 1 to 65535")
    return int(text)


def one_of(*names: str) -> Callable[[str], str]:
    """Return a converter that accepts only these names and suggests the closest."""

    def convert(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"no such choice '{text}'; {did_you_mean(text, names)}")
        return text

    return convert


def pair(text: str) -> tuple[str, str]:
    """Return the two sides of KEY=VALUE; the key may contain `=`."""
    key, equals, value = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value


def is_override(word: str) -> bool:
    """Return whether a word is a Hydra override: `key=value`, `+key=value` or `~key`."""
    return word.startswith("~") or ("=" in word and not word.startswith("-"))
