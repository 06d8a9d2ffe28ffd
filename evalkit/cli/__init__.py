"""The command line: the parser reads the words, and the chosen command's module is
imported and called.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper
from types import FrameType
from typing import TypeVar

from evalkit.cli.output import printable_output
from evalkit.cli.parser import COMMANDS, parse, root_help
from evalkit.core.errors import ConfigError, EvalkitError, ExitStatus, Signaled
from evalkit.core.optional_features import missing_feature
from evalkit.core.plain_errors import shows_everything
from evalkit.core.plugins import ALLOW_FLAG
from evalkit.guard.known_hosts import FLAG as TRUST_FLAG

__all__ = ["COMMANDS", "entry_point", "main"]

SIGNAL_STATUS = 128
SHOWN = 80
"""The characters of a name too long for a file that an error shows."""
_RARE_COLLECTION = (50_000, 20, 100)
"""The thresholds of the garbage collector's three generations."""
T = TypeVar("T")


def entry_point() -> None:
    """Run the command line and exit with its status.

    Settings of this process for speed and for old terminals come first.
    """
    # Collect rarely during imports, and not at exit: together this saves a sixth of a run's CPU
    # time.
    gc.set_threshold(*_RARE_COLLECTION)
    # NumPy's second thread waits busily and has nothing to do: a sixth of a small check's CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        # A character that an old terminal cannot show must not end a run that is paid for.
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    try:
        _catch_signals()
        status = main(sys.argv[1:])
    except KeyboardInterrupt as stop:  # before a command began
        status = _interrupted(stop)
    gc.freeze()
    sys.exit(status)


def _catch_signals() -> None:
    """Treat SIGTERM and SIGHUP as Ctrl-C, from the first import on; a second signal
    ends the process at once.
    """
    signals: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if signals:
            # Not `print`: a signal may arrive in the middle of one, whose buffer is then locked.
            os.write(2, b"evalkit: interrupted twice\n")
            os._exit(SIGNAL_STATUS + number)
        signals.append(number)
        raise Signaled(number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # What nohup ignores stays ignored.
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit status; an error becomes one line on standard error."""
    with printable_output():
        return _report_errors(_run_command, argv)


def _report_errors(function: Callable[[T], int], argument: T) -> int:
    """Call a function and return its exit status; print an error as one line and return its status.

    A bug is raised, and ends in a traceback.
    """
    try:
        return function(argument)
    except EvalkitError as error:
        if shows_everything():
            _print_traceback(error)
        _print_error(error)
        return error.status
    except UnicodeDecodeError as error:
        _print_error(
            ConfigError(
                f"a file is not UTF-8 (the byte at offset {error.start})",
                remedy="save it as UTF-8",
            )
        )
        return ExitStatus.WRONG
    except KeyboardInterrupt as stop:
        return _interrupted(stop)
    except BrokenPipeError:
        # The reader of a pipe has gone, such as `head`: nothing more can be written, not even at
        # exit.
        sys.stderr.close()
        return ExitStatus.WRONG
    # Of a name that no file can have: it may be in any argument. Other errors of files are handled
    # where they are met.
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        from evalkit.core.display import shorten

        _print_error(
            ConfigError(
                "the name is too long for a file",
                where=shorten(str(error.filename), SHOWN),
            )
        )
        return ExitStatus.WRONG


def _interrupted(stop: KeyboardInterrupt) -> int:
    _print_error(str(stop) or "interrupted")
    return SIGNAL_STATUS + (
        stop.number if isinstance(stop, Signaled) else signal.SIGINT
    )


def _print_error(error: object) -> None:
    """Print an error in one line on standard error, without secrets."""
    from evalkit.cli.console import log

    log("error", str(error))


def _print_traceback(error: BaseException) -> None:
    """Print how an error came about, with the errors that it replaced, without secrets."""
    from traceback import format_exception

    from evalkit.core.redaction import redact

    cause: BaseException | None = error
    while cause is not None:
        # An error that is raised `from None` still has its context.
        cause.__suppress_context__ = False
        cause = cause.__cause__ or cause.__context__
    print(redact("".join(format_exception(error))), end="", file=sys.stderr)


def _flags_after_command(argv: Sequence[str]) -> list[str]:
    """Return the words with a leading flag of trust after the command, where the parser
    knows it.
    """
    words = list(argv)
    # A flag without a value.
    if words[:1] == [ALLOW_FLAG] and words[1:]:
        command, *arguments = words[1:]
        words = [command, ALLOW_FLAG, *arguments]
    # A flag and its value.
    if words[:1] == [TRUST_FLAG] and words[2:]:
        flag, host, command, *arguments = words
        words = [command, flag, host, *arguments]
    return words


def _run_command(argv: Sequence[str]) -> int:
    """Run the command of a command line, and return its exit status.

    Without a command, the help or the version is printed. Errors of evalkit are printed and become
    the status.

    Args:
        argv: The words after `evalkit`.
    """
    words = _flags_after_command(argv)
    if not words or words[0] in ("-h", "--help") or words == ["help"]:
        print(root_help())
        return 0
    if words[0] in ("--version", "-V"):
        from evalkit.core.resources import own_version

        print(f"evalkit {own_version()}")
        return 0
    if words[0].startswith(("-sc", "--shell-completion", "--shell_completion")):
        from evalkit.cli.completion import complete

        return complete(words)
    try:
        arguments = parse([*words[1:], "--help"] if words[0] == "help" else words)
    except SystemExit:  # argparse has printed the help
        return 0
    from evalkit.cli.console import CommandSettings, LogStyle

    log_style: LogStyle = ""
    if arguments.json_logs:
        log_style = "json"
    elif arguments.quiet:
        log_style = "quiet"
    settings = CommandSettings(
        log_style=log_style,
        allow_code=arguments.allow_code,
        trust=tuple(arguments.trust),
        verbose=getattr(arguments, "verbose", False),
    )
    from evalkit.cli.trust import keep_unused, or_ask

    with settings.applied():
        module, _, function = arguments.run.partition(":")

        def command(arguments: Namespace) -> int:
            """Import the module of the command and call it; an optional part may be removed."""
            try:
                main = getattr(import_module(module), function)
                status: int = or_ask(main, arguments)
            except ModuleNotFoundError as error:
                if error.name is None or not error.name.startswith("evalkit."):
                    raise
                raise missing_feature(error.name, f"evalkit {words[0]}") from None
            keep_unused(settings.trust)
            return status

        # Errors are reported under the command's own settings.
        return _report_errors(command, arguments)
