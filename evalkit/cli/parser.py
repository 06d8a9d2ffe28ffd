"""The parser of every command: commands.toml, from which help, shell completion and the
reference come.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NoReturn

from evalkit.core.benchmark_discovery import own_benchmark_names
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.optional_features import load_feature
from evalkit.core.plugins import (
    ALLOW_FLAG,
    BENCHMARKS,
    CONF,
    entry_points_in,
    folders,
    user_folders,
)
from evalkit.core.prepared_files import read_table
from evalkit.core.resources import shipped
from evalkit.core.values import Json, frozen
from evalkit.guard.known_hosts import FLAG as TRUST_FLAG

WIDTH: Final = 100
READING: Final = "dataset.reading="
FOLDER: Final = "hydra.run.dir="
"""The override that names the run folder."""
_OWN_FOLDER: Final = (
    "options in ./conf are found; EVALKIT_CONF=FOLDER names another folder"
)
_STUDY_NAME: Final = "name the study first: evalkit run NAME"
_INSTEAD: Final = {
    "--dry": "evalkit plan shows what a run would request",
    "--dry-run": "evalkit plan shows what a run would request",
    "--dryrun": "evalkit plan shows what a run would request",
    "-cn": _STUDY_NAME,
    "--config-name": _STUDY_NAME,
    "-cp": _OWN_FOLDER,
    "--config-path": _OWN_FOLDER,
    "-cd": _OWN_FOLDER,
    "--config-dir": _OWN_FOLDER,
}
"""What to use instead of options that Hydra and other programs have, for commands with a study."""


class UsageError(ConfigError):
    """A command line that a command cannot read."""

    def __init__(self, command: str, problem: str, remedy: str = "") -> None:
        name = f"evalkit {command}".rstrip()
        full_remedy = f"try {name} --help"
        if remedy:
            full_remedy = f"{remedy}{'' if remedy.endswith('?') else ';'} {full_remedy}"
        super().__init__(problem, where=name, remedy=full_remedy)


_RENAMED: Final = {("plan", "--probe"): "--pilot"}
"""Options of earlier versions, by command and name, and their names now."""


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line with exit status 1.

    `closing` returns the end of the help; it may read files.
    """

    def __init__(
        self, *, closing: Callable[[], str] | None = None, **settings: Any
    ) -> None:
        super().__init__(
            **{"formatter_class": _Formatter, "allow_abbrev": False, **settings}
        )
        self._closing = closing

    def format_help(self) -> str:
        """Return the help."""
        if self._closing is not None:
            # Built only if help is printed: it reads the files of all config groups.
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
        # argparse's words become those of all other errors: problem first, then what to do.
        if missing := re.fullmatch(
            "the following arguments are required: (.*)", message
        ):
            # argparse also lists arguments that may be given any number of times, or never.
            repeatable = {
                action.metavar for action in self._actions if action.nargs == "*"
            }
            names = missing[1].split(", ")
            needed = [name for name in names if name not in repeatable]
            text = f"needs {' and '.join(needed)}"
        else:
            text = message
        plain = text.removeprefix("argument ").replace(
            "expected one argument", "needs a value"
        )
        # Of `-x/--option`, only the long name.
        named = re.sub(r"^(?:-\w/)?(--\S+?): ", r"\1: ", plain)
        problem, _, remedy = named.partition("; ")
        raise UsageError(self.command, problem, remedy)

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words of one command; positional arguments and options can come in any order.

        Raises:
            UsageError: if an option or argument is unknown, missing or has a wrong value.
        """
        for word in words:
            self._check_option(word)
        # Intermixed: overrides may come before, between and after the options.
        namespace, unknown = self.parse_known_intermixed_args(words)
        if unknown:
            raise UsageError(self.command, f"unexpected argument '{unknown[0]}'")
        namespace.words = list(words)
        return namespace

    def _check_option(self, word: str) -> None:
        """Check that a word is a known option, or none.

        Raises:
            UsageError: if not, with its new name or a similar one, if there is one.
        """
        # Before anything that is missing, because a misspelled option is why it is missing.
        name = word.partition("=")[0]
        known_options = self._option_string_actions
        if name in _INSTEAD and name not in known_options:
            raise UsageError(self.command, f"no such option {name}", _INSTEAD[name])
        if (
            not word.startswith("-")
            or word == "-"
            or name in known_options
            # A short option with its value in one word, such as `-p80`.
            or (name[:2] in known_options and not name.startswith("--"))
        ):
            return
        if (new := _RENAMED.get((self.command, name))) is not None:
            raise UsageError(self.command, f"{name} is now named {new}")
        # The dashes are not compared: all options have them.
        options = {flag.lstrip("-"): flag for flag in known_options}
        bare = name.lstrip("-")
        close = get_close_matches(
            bare, options, n=1, cutoff=0.5 if len(bare) < 3 else 0.6
        )
        remedy = f"did you mean '{options[close[0]]}'?" if close else ""
        raise UsageError(self.command, f"no such option {name}", remedy)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Lines of one width, with the default of each option that has one."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, width=WIDTH, max_help_position=28)

    def _get_help_string(self, action: argparse.Action) -> str:
        return f"{action.help}{default_note(action)}"


def default_note(action: argparse.Action) -> str:
    """Return an option's default in parentheses, or nothing if it has none."""
    plain = isinstance(action.default, str | int) and not isinstance(
        action.default, bool
    )
    if plain and action.option_strings and action.default != argparse.SUPPRESS:
        return " (default: %(default)s)"
    return ""


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


def width(text: str) -> float:
    """Return a width of an interval: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def port(text: str) -> int:
    """Return a port number."""
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port from 1 to 65535")
    return int(text)


def one_of(*names: str) -> Callable[[str], str]:
    """Return a converter that accepts only these names and suggests the closest."""

    def convert(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(
                f"no such choice '{text}'; {did_you_mean(text, names)}"
            )
        return text

    return convert


def pair(text: str) -> tuple[str, str]:
    """Return the two sides of KEY=VALUE; the key may contain `=`."""
    # From the right: a verdict in a table may contain `=`, and its meaning never does.
    key, equals, value = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value


def is_override(word: str) -> bool:
    """Return whether a word is a Hydra override: `key=value`, `+key=value` or `~key`."""
    return word.startswith("~") or ("=" in word and not word.startswith("-"))


DOCS: Final = (
    "Reference: docs/reference/commands.md (commands) and docs/reference/config.md (configuration"
    " keys)."
)
STATUS: Final = """\
Exit status: 0 success, 1 invalid configuration or data, 2 too many failed calls or out of budget,
3 not tracked, 4 failed gate, failed reproduction, worse judge (drift) or changed one (watch), \
5 undecided gate
(gate.undecided=exit_5) or drift, 128 + signal if interrupted (Ctrl-C: 130)."""
_TABLE: Final = read_table(Path(__file__).parent / "commands.toml")
_STUDY: Final = (
    {
        "name": "study",
        "nargs": "?",
        "metavar": "STUDY",
        "help": "a study: a YAML file, or a name in experiments/",
    },
    {
        "name": "overrides",
        "nargs": "*",
        "metavar": "OVERRIDE",
        "help": "Hydra overrides: group=option, key.path=value, +key=value, ~key",
    },
)


def _shard(text: str) -> str:
    """Return a text that names a shard, such as 3/20."""
    from evalkit.engine.shards import Shard

    try:
        return str(Shard.of(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_TYPES: Final = {
    "natural": natural,
    "pair": pair,
    "path": Path,
    "port": port,
    "positive": positive,
    "shard": _shard,
    "width": width,
}


@frozen
class Command:
    """One command, or an action of a command: its name and its entry in commands.toml.

    Its function is imported only if the command is chosen.
    """

    name: str
    entry: Json

    @property
    def summary(self) -> str:
        """What the command does."""
        return str(self.entry["summary"])

    @property
    def example(self) -> str:
        """A command line."""
        return str(self.entry["example"])

    def parser(self) -> Parser:
        """Return the command's parser, with the options that all commands have."""
        parser = Parser(
            prog=f"evalkit {self.name}",
            description=self._description(),
            add_help=False,
            closing=self._closing,
        )
        self.add_to(parser)
        parser.set_defaults(
            # The defaults that every command has, whether or not its table names these options.
            command=self.name,
            run=self.entry["run"],
            quiet=False,
            json_logs=False,
        )
        # MLflow's own short option for the host is -h.
        flags = (
            ("--help",) if "-h" in parser._option_string_actions else ("-h", "--help")
        )
        parser.add_argument(*flags, action="help", help="print this help")
        parser.add_argument(
            ALLOW_FLAG,
            action="store_true",
            help="let configs name code, which is imported and run, and set any option of workers",
        )
        parser.add_argument(
            TRUST_FLAG,
            action="append",
            metavar="HOST",
            default=[],
            help="let configs call this server, and send it the key that it needs; kept for later",
        )
        return parser

    def add_to(self, parser: Parser) -> None:
        """Add the command's arguments, and a parser for each of its actions, to a parser."""
        for settings in _arguments(self.entry):
            _add_argument(parser, **settings)
        if actions := self.entry.get("actions"):
            parts = parser.add_subparsers(
                dest="action", metavar="ACTION", title="actions", parser_class=Parser
            )
            for name, entry in actions.items():
                action = Command(f"{self.name} {name}", entry)
                part = parts.add_parser(
                    name,
                    help=action.summary,
                    description=action._description(),
                    epilog=DOCS,
                    allow_abbrev=False,
                )
                action.add_to(part)
                if all(argument.dest != "overrides" for argument in part._actions):
                    part.set_defaults(overrides=[])

    def _description(self) -> str:
        return f"{self.summary[0].upper()}{self.summary[1:]}."

    def _closing(self) -> str:
        if "more_from" in self.entry:
            closing = globals()[self.entry["more_from"]]()
        else:
            closing = self.entry.get("more", "")
        return "\n\n".join(filter(None, (closing, f"Example:\n  {self.example}", DOCS)))


def _arguments(entry: Json) -> Iterator[Json]:
    for argument in entry.get("arguments", ()):
        if not isinstance(argument, str):
            yield argument
        elif argument == "study":
            yield from _STUDY
        else:
            # A text names another command, whose arguments this one has, too.
            yield from _arguments(_TABLE[argument])


def _add_argument(
    parser: Parser, *, name: str = "", flags: Sequence[str] = (), **settings: Any
) -> None:
    """Add an argument as the table of commands describes it, with types and choices by name."""
    if choices := settings.pop("one_of", None):
        settings["type"] = one_of(*choices)
    elif type_ := settings.get("type"):
        settings["type"] = _TYPES[type_]
    # argparse's default is `None`, and every user would have to check for it. A new list each
    # time, since argparse appends to it.
    if settings.get("action") in ("append", "extend"):
        settings["default"] = []
    parser.add_argument(*(flags or [name]), **settings)


def _import_formats() -> str:
    formats = load_feature(
        "evalkit.interop.importer_discovery", "evalkit import"
    ).formats
    return "Formats:\n" + "\n".join(
        f"  {name:<16}{text}" for name, text in formats().items()
    )


def _run_groups() -> str:
    """Return the end of the help of `evalkit run`: the config groups with their options, and the
    exit status.
    """
    rows = "\n".join(
        textwrap.fill(
            f"{group}: {', '.join(options)}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
        )
        for group, options in config_groups(installed=True).items()
    )
    return (
        f"Config groups (group=option):\n{rows}\n\nEvery key with its value: evalkit run --cfg"
        f" job\n\n{STATUS}"
    )


def config_groups(*, installed: bool = False) -> dict[str, list[str]]:
    """Return the options of each config group: evalkit's own, and if `installed`, those
    of packages and the user.
    """
    groups: dict[str, set[str]] = {"dataset": {*own_benchmark_names()}}
    folders_of_groups = [shipped("conf")]
    if installed:
        folders_of_groups += [*folders(CONF), *user_folders()]
        groups["dataset"] |= {point.name for point in entry_points_in(BENCHMARKS)}
    for folder in folders_of_groups:
        for file in folder.rglob("*.yaml"):
            if file.parent != folder:
                groups.setdefault(
                    file.parent.relative_to(folder).as_posix(), set()
                ).add(file.stem)
    return {group: sorted(options) for group, options in sorted(groups.items())}


COMMANDS: Final = {name: Command(name, entry) for name, entry in _TABLE.items()}
"""Every command, in the order of the help."""

GROUPS: Final = ("judge", "improve", "use")
"""The groups of commands, in the order of the help."""
NOTES: Final = """\
Overrides are Hydra's:  evalkit run judge=gpt-4o,gpt-4o-mini swap=both,none -m
Tab completion:         eval "$(evalkit -sc install=bash)"
Docs:                   evalkit docs\
"""


def root_help() -> str:
    """Return the help of `evalkit` itself: the main commands in groups, then the names
    of the rest.
    """
    lines = [
        "evalkit: which LLM judge configuration to trust, and how far.",
        "usage: evalkit COMMAND [...]; evalkit COMMAND --help; evalkit --version",
    ]
    for group in GROUPS:
        lines += ["", f"{group}:"]
        lines += [
            f"  {name:<9}{command.entry['brief']}"
            for name, command in COMMANDS.items()
            if command.entry.get("group") == group
        ]
    minor = " ".join(
        name for name, command in COMMANDS.items() if "group" not in command.entry
    )
    return "\n".join([*lines, f"more:  {minor}", NOTES])


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read a command line that begins with a command's name.

    Raises:
        ConfigError: if there is no such command, or it cannot read the rest.
    """
    name, *arguments = words
    if name in ("sweep", "multirun"):
        remedy = "write evalkit run -m KEY=VALUE,VALUE"
        raise ConfigError("no such command", where=name, remedy=remedy)
    if name not in COMMANDS:
        raise ConfigError(
            "no such command", where=name, remedy=did_you_mean(name, COMMANDS)
        )
    parser = COMMANDS[name].parser()
    if (actions := subparsers(parser)) is None:
        return parser.read(arguments)
    # argparse cannot mix overrides and options of a parser that has parsers of its own.
    if arguments and arguments[0] in actions:
        namespace = actions[arguments[0]].read(arguments[1:])
        return argparse.Namespace(
            # The defaults of the command, under what its action has read.
            **{**vars(parser.parse_args([])), **vars(namespace), "action": arguments[0]}
        )
    if arguments and not arguments[0].startswith("-"):
        raise UsageError(
            name,
            f"no such action '{arguments[0]}'",
            did_you_mean(arguments[0], actions),
        )
    # Only for `--help`: anything else ends in the error below.
    parser.parse_args(arguments)
    raise UsageError(name, f"needs an action: {', '.join(actions)}")


def subparsers(parser: argparse.ArgumentParser) -> dict[str, Parser] | None:
    """Return the parsers of a command's actions by name, or `None` if it has no actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return None


def option_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a command, each by every spelling."""
    yield from parser._option_string_actions


def study_words(arguments: argparse.Namespace) -> list[str]:
    """Return the positional words of a command with a study: the study, if any, and the
    overrides.
    """
    return ([arguments.study] if arguments.study is not None else []) + list(
        arguments.overrides
    )


def check_overrides(words: Sequence[str]) -> None:
    """Check that each word is an override and holds no secret, as overrides are kept with a run.

    Raises:
        ConfigError: naming the first word that is not, or does.
    """
    from evalkit.core.redaction import remedy_for, secret_in

    for word in words:
        key, _, value = word.partition("=")
        if (secret := secret_in(value)) is not None:
            raise ConfigError(secret, where=key, remedy=remedy_for(key.lstrip("+")))
    for word in words:
        if not is_override(word):
            raise ConfigError(
                "is not an override",
                where=word,
                remedy="write key=value; a study's file comes first",
            )


def reading_option(
    overrides: Sequence[str], reading: Path | None
) -> tuple[list[str], Path | None]:
    """Return overrides without `dataset.reading=FILE`, and the file, which is the same
    as `--reading FILE`.
    """
    kept = [word for word in overrides if not word.startswith(READING)]
    files = [word.removeprefix(READING) for word in overrides if word not in kept]
    return kept, reading or (Path(files[-1]) if files else None)
