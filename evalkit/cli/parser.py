"""The parser of every command: commands.toml, from which help, shell completion and the reference come."""

from __future__ import annotations

import argparse
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evalkit.cli.arguments import WIDTH, Parser, UsageError, is_override, natural, one_of, pair, port, positive
from evalkit.core.resources import shipped
from evalkit.errors import ConfigError, did_you_mean
from evalkit.plugins import ALLOW_FLAG

DOCS: Final = "Reference: docs/reference/commands.md (commands) and docs/reference/config.md (configuration keys)."
STATUS: Final = """\
Exit status: 0 success, 1 invalid configuration or data, 2 too many failed calls or out of budget,
3 run not tracked, 4 failed gate or failed reproduction, 128 + signal if interrupted (130 by Ctrl-C)."""
_TABLE: Final = tomllib.loads((Path(__file__).parent / "commands.toml").read_text("utf-8"))
_STUDY: Final = (
    {"name": "study", "nargs": "?", "metavar": "STUDY", "help": "a study: a YAML file, or a name in experiments/"},
    {
        "name": "overrides",
        "nargs": "*",
        "metavar": "OVERRIDE",
        "help": "Hydra overrides: group=option, key.path=value, +key=value, ~key",
    },
)


def _shard(text: str) -> str:
    """Return a text that names a shard, such as 3/20."""
    from evalkit.workers import Shard

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
}


@dataclass(frozen=True, slots=True)
class Command:
    """One command, or an action of a command: its name and its entry in commands.toml.

    Its function is imported only if the command is chosen.
    """

    name: str
    entry: Mapping[str, Any]

    @property
    def summary(self) -> str:
        """What the command does."""
        return str(self.entry["summary"])

    @property
    def example(self) -> str:
        """A command line."""
        return str(self.entry["example"])

    def parser(self) -> Parser:
        """Return the command's parser."""
        parser = Parser(
            prog=f"evalkit {self.name}", description=self._description(), add_help=False, closing=self._closing
        )
        self.add_to(parser)
        parser.set_defaults(command=self.name, run=self.entry["run"], quiet=False, json_logs=False)
        # MLflow's own short option for the host is -h.
        flags = ("--help",) if "-h" in parser._option_string_actions else ("-h", "--help")
        parser.add_argument(*flags, action="help", help="print this help")
        parser.add_argument(
            ALLOW_FLAG,
            action="store_true",
            help="let configs name code, which is imported and run, and set any option of workers",
        )
        return parser

    def add_to(self, parser: Parser) -> None:
        """Add the command's arguments and actions to a parser."""
        for settings in _arguments(self.entry):
            _add(parser, **settings)
        if actions := self.entry.get("actions"):
            parts = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", parser_class=Parser)
            for name, entry in actions.items():
                action = Command(f"{self.name} {name}", entry)
                part = parts.add_parser(
                    name, help=action.summary, description=action._description(), epilog=DOCS, allow_abbrev=False
                )
                action.add_to(part)
                if all(argument.dest != "overrides" for argument in part._actions):
                    part.set_defaults(overrides=[])

    def _description(self) -> str:
        return f"{self.summary[0].upper()}{self.summary[1:]}."

    def _closing(self) -> str:
        more = globals()[self.entry["more_from"]]() if "more_from" in self.entry else self.entry.get("more", "")
        return "\n\n".join(filter(None, (more, f"Example:\n  {self.example}", DOCS)))


def _arguments(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for argument in entry.get("arguments", ()):
        if not isinstance(argument, str):
            yield argument
        elif argument == "study":
            yield from _STUDY
        else:
            yield from _arguments(_TABLE[argument])


def _add(parser: Parser, *, name: str = "", flags: Sequence[str] = (), **settings: Any) -> None:
    if choices := settings.pop("one_of", None):
        settings["type"] = one_of(*choices)
    elif type_ := settings.get("type"):
        settings["type"] = _TYPES[type_]
    if settings.get("action") in ("append", "extend"):
        settings["default"] = []
    parser.add_argument(*(flags or [name]), **settings)


def _import_formats() -> str:
    from evalkit.interop import formats

    return "Formats:\n" + "\n".join(f"  {name:<14}{text}" for name, text in formats().items())


def _run_groups() -> str:
    """Return the config groups with their options, and the exit status."""
    from evalkit.hydra_app import user_folders
    from evalkit.plugins import CONF, folders

    rows = "\n".join(
        textwrap.fill(f"{group}: {', '.join(options)}", WIDTH, initial_indent="  ", subsequent_indent="    ")
        for group, options in config_groups([*folders(CONF), *user_folders()]).items()
    )
    return f"Config groups (group=option):\n{rows}\n\nEvery key with its value: evalkit run --cfg job\n\n{STATUS}"


def config_groups(more: Sequence[Path] = ()) -> dict[str, list[str]]:
    """Return the options of each config group: evalkit's own, and those in `more` folders."""
    found: dict[str, set[str]] = {}
    for folder in (shipped("conf"), *more):
        for file in folder.rglob("*.yaml"):
            if file.parent != folder:
                found.setdefault(file.parent.relative_to(folder).as_posix(), set()).add(file.stem)
    return {group: sorted(options) for group, options in sorted(found.items())}


COMMANDS: Final = {name: Command(name, entry) for name, entry in _TABLE.items()}
"""Every command, in the order of the help."""

EXAMPLES: Final = """\
Examples:
  evalkit demo                                     what evalkit finds, on judges with known faults
  evalkit run                                      judge the sample dataset with the embedded model
  evalkit run judge=gpt-4o-mini dataset=file dataset.path=mine.jsonl
  evalkit run judge=gpt-4o,gpt-4o-mini swap=both,none -m       a sweep
  evalkit run experiments/ties_and_conflicts.yaml              a study in one file
  evalkit run --cfg job                            print the composed config with every key
  evalkit audit judge=gpt-4o-mini dataset=file dataset.path=mine.jsonl
  evalkit plan judge=gpt-4o-mini --pilot 20        estimate the cost from 20 requests

Overrides are Hydra's: GROUP=OPTION, key.path=value, -m to sweep.
Tab completion: eval "$(evalkit -sc install=bash)\""""


def root_parser() -> Parser:
    """Return the parser of `evalkit` itself: its help lists the commands."""
    parser = Parser(
        prog="evalkit",
        usage="evalkit COMMAND [...]; evalkit COMMAND --help",
        description="evalkit: which LLM judge configuration to trust, and how far.",
        epilog=f"{EXAMPLES}\n{STATUS}\n\n{DOCS}",
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    parser.add_argument(ALLOW_FLAG, action="store_true", help="the same as after the command")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary, add_help=False)
    return parser


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read a command line that begins with a command's name.

    Raises:
        ConfigError: if there is no such command, or it cannot read the rest.
    """
    name, *rest = words
    if name not in COMMANDS:
        raise ConfigError("no such command", where=name, remedy=did_you_mean(name, COMMANDS))
    parser = COMMANDS[name].parser()
    if (actions := subparsers(parser)) is None:
        return parser.read(rest)
    # argparse cannot mix overrides and options of a parser that has parsers of its own.
    if rest and rest[0] in actions:
        found = actions[rest[0]].read(rest[1:])
        return argparse.Namespace(**{**vars(parser.parse_args([])), **vars(found), "action": rest[0]})
    if rest and not rest[0].startswith("-"):
        raise UsageError(name, f"no such action '{rest[0]}'", did_you_mean(rest[0], actions))
    parser.parse_args(rest)
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
    """Return the positional words of a command with a study: the study, if any, and the overrides."""
    return ([arguments.study] if arguments.study is not None else []) + list(arguments.overrides)


def check_overrides(words: Sequence[str]) -> None:
    """Check that each word is an override and holds no secret, as overrides are kept with a run.

    Raises:
        ConfigError: naming the first word that is not, or does.
    """
    from evalkit.core.redaction import remedy_for, secret_in

    for word in words:
        key, _, value = word.partition("=")
        if (found := secret_in(value)) is not None:
            raise ConfigError(found, where=key, remedy=remedy_for(key.lstrip("+")))
    for word in words:
        if not is_override(word):
            raise ConfigError("is not an override", where=word, remedy="write key=value; a study's file comes first")
