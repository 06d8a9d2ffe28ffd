"""The command line: one word chooses a command, each in a module of its own that is imported when it is chosen."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from io import TextIOWrapper
from types import FrameType

from evalkit.errors import ConfigError, EvalkitError, ExitStatus, Signaled, did_you_mean
from evalkit.plugins import ALLOW, ALLOW_FLAG

COMMANDS = {
    "run": ("evalkit.cli.run", "judge, score, write the run folder, record the run in MLflow"),
    "demo": ("evalkit.cli.demo", "find the planted faults of three simulated judges: seconds, no model, no key"),
    "plan": ("evalkit.cli.plan", "the same composition and no call: what is still to be asked and paid"),
    "score": ("evalkit.cli.score", "score a finished run again under other settings or another gate, at no cost"),
    "compare": ("evalkit.cli.compare", "compare runs on the cases they share: differences, tests, what could be seen"),
    "reproduce": (
        "evalkit.cli.reproduce",
        "run again from stored answers alone: is every metric equal, else why not",
    ),
    "track": ("evalkit.cli.track", "send a finished run to MLflow"),
    "import": ("evalkit.cli.import_", "turn judgments made elsewhere into a run folder: formats with --help"),
    "export": ("evalkit.cli.export", "write a run's judgments as a file for other tools"),
    "label": ("evalkit.cli.label", "add people's labels to a finished run; have people label in MLflow"),
    "store": ("evalkit.cli.store", "look after stored answers: stats, prune, export, import"),
    "ui": ("evalkit.cli.ui", "open MLflow on the configured tracking store"),
    "tools": ("evalkit.cli.tools", "print the schemas of pairwise_compare and direct_score, for agents"),
    "plugins": ("evalkit.cli.plugins", "list what other packages add, and from where"),
    "doctor": ("evalkit.cli.doctor", "check versions, keys, endpoints and folders before money is spent"),
    "init": ("evalkit.cli.init", "make a project: conf/, prompts/, experiments/, a sample dataset"),
}

SIGNAL_STATUS = 128
STATUS = """\
Exit status: 0 done, 1 wrongly described, 2 too many failed calls or out of budget, 3 not tracked,
4 a gate or a reproduction did not hold, 128 + signal interrupted (130 by Ctrl-C)."""

HELP = """\
evalkit: which LLM judge configuration to trust, and how far.

usage: evalkit COMMAND [...]; evalkit COMMAND --help

{commands}

  evalkit demo                                     what evalkit finds, on judges with known faults
  evalkit run                                      judge the sample dataset with the embedded model
  evalkit run judge=gpt-4o-mini dataset=file dataset.path=mine.jsonl
  evalkit run judge=gpt-4o,gpt-4o-mini swap=both,none -m       a sweep
  evalkit run experiments/ties_and_conflicts.yaml              a study in one file
  evalkit run --cfg job                            print the composed config and every key
  evalkit plan judge=gpt-4o-mini --probe 20        what it would cost, measured on 20 requests
  evalkit run --quiet | --json-logs                say only what went wrong | say everything as JSON lines
  evalkit COMMAND … --allow-code                   let configs name code by its dotted path: it is imported and run

Overrides are Hydra's: GROUP=OPTION, key.path=value, -m to sweep.
Tab completion: eval "$(evalkit -sc install=bash)"
{status}
"""


def entry_point() -> None:
    """Run the command line and exit with its status."""
    # Few collections while modules are imported, and none at the end, when the system takes everything back: together
    # a sixth of a run's processor time.
    gc.set_threshold(50_000, 20, 100)
    for stream in (sys.stdout, sys.stderr):
        # What an old terminal has no letter for must not end a run that is paid for.
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    try:
        _catch_signals()
        status = main(sys.argv[1:])
    except KeyboardInterrupt as stop:  # before a command has begun
        status = _interrupted(stop)
    gc.freeze()
    sys.exit(status)


def _catch_signals() -> None:
    """End by SIGTERM and SIGHUP as by Ctrl-C, from the first import on; a second signal ends at once."""
    seen: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if seen:
            os.write(2, b"evalkit: interrupted twice\n")
            os._exit(SIGNAL_STATUS + number)
        seen.append(number)
        raise Signaled(number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # What nohup ignores stays ignored.
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit status; an error becomes one line on standard error."""
    from evalkit.cli.console import with_log_style

    with _code(argv) as rest, with_log_style(rest) if rest and rest[0] == "run" else nullcontext(list(rest)) as words:
        return _ended(words)


@contextmanager
def _code(argv: Sequence[str]) -> Iterator[Sequence[str]]:
    """Take `--allow-code` off the words; it goes into the environment, so that a launcher's processes have it too."""
    before = os.environ.get(ALLOW)
    if ALLOW_FLAG in argv:
        os.environ[ALLOW] = "1"
    try:
        yield [word for word in argv if word != ALLOW_FLAG]
    finally:
        if before is None:
            os.environ.pop(ALLOW, None)
        else:
            os.environ[ALLOW] = before


def _ended(argv: list[str]) -> int:
    try:
        return _dispatch(argv)
    except EvalkitError as error:
        complain(error)
        return int(error.status)
    except UnicodeDecodeError as error:
        complain(ConfigError(f"a file is not UTF-8 (the byte at offset {error.start})", remedy="save it as UTF-8"))
        return int(ExitStatus.WRONG)
    except KeyboardInterrupt as stop:
        return _interrupted(stop)
    except BrokenPipeError:
        sys.stderr.close()
        return int(ExitStatus.WRONG)


def _interrupted(stop: KeyboardInterrupt) -> int:
    _say_error(str(stop) or "interrupted")
    return SIGNAL_STATUS + (stop.number if isinstance(stop, Signaled) else signal.SIGINT)


def complain(error: EvalkitError) -> None:
    """Say an error in one line on standard error, without secrets."""
    _say_error(str(error))


def _say_error(text: str) -> None:
    from evalkit.cli.console import log

    log("error", text)


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        rows = "\n".join(f"  {name:<11}{text}" for name, (_, text) in COMMANDS.items())
        print(HELP.format(commands=rows, status=STATUS))
        return 0
    if argv[0] in ("--version", "-V"):
        from evalkit.core.resources import own_version

        print(f"evalkit {own_version()}")
        return 0
    if argv[0].startswith(("-sc", "--shell-completion", "--shell_completion")):
        complete: int = import_module("evalkit.cli.completion").main(argv)
        return complete
    command, words = argv[0], argv[1:]
    if command not in COMMANDS:
        raise ConfigError("no such command", where=command, remedy=did_you_mean(command, COMMANDS))
    from evalkit.cli.usage import help_of, wants_help

    if wants_help(command, words):
        print(help_of(command, COMMANDS[command][1]))
        return 0
    status: int = import_module(COMMANDS[command][0]).main(words)
    return status
