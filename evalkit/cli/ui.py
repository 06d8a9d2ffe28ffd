"""`evalkit ui`: MLflow's own pages, on the store this folder's runs are recorded in."""

from __future__ import annotations

import errno
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from evalkit.cli.hydra_runner import check_words, split_study
from evalkit.core.redaction import without_password
from evalkit.errors import ConfigError
from evalkit.hydra_app import DEFAULT, load_jobs
from evalkit.tracking import server_environment, tracking_uri

PASSED_ON = ("--host", "-h", "--port", "-p", "--workers", "-w")


def main(words: Sequence[str]) -> int:
    """Serve MLflow's pages on loopback until Ctrl-C; `--host`, `--port` and `--workers` are passed on."""
    flags, rest = _split_flags(words)
    study, overrides = split_study(rest)
    check_words(overrides, flags=(), also=PASSED_ON)
    config = load_jobs(str(study) if study else DEFAULT, overrides, sweep=False)[0][1]
    uri = tracking_uri(config.tracking, Path.cwd())
    if uri.startswith(("http://", "https://")):
        print(f"the runs are at {without_password(uri)}")
        return 0
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise ConfigError("holds no runs yet", where=uri, remedy="`evalkit run` makes the first")
    _check_place(flags)
    # One worker serves one person, and each further one takes the memory of another MLflow.
    command = [sys.executable, "-m", "mlflow", "ui", "--workers", "1", *flags]
    print(f"MLflow on {without_password(uri)}; Ctrl-C ends it", flush=True)
    return _serve(command, uri)


def _check_place(flags: Sequence[str]) -> None:
    """Check where MLflow is to serve: it would say that it cannot in many lines, and end as if all were well.

    Raises:
        ConfigError: if the port is not one, or is in use.
    """
    host, port = _value(flags, ("--host", "-h"), "127.0.0.1"), _value(flags, ("--port", "-p"), "5000")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError("is not a port", where=f"--port {port}", remedy="write --port 5001")
    try:
        socket.create_server((host, int(port))).close()
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            return  # a name that MLflow may know better
        why = "is in use" if error.errno == errno.EADDRINUSE else "may not be used"
        raise ConfigError(why, where=f"port {port}", remedy=f"choose another: evalkit ui --port {_free()}") from None


def _value(flags: Sequence[str], names: Sequence[str], default: str) -> str:
    for flag, after in zip(flags, [*flags[1:], ""], strict=True):
        name, equals, value = flag.partition("=")
        if name in names:
            return value if equals else after
    return default


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def _split_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that are MLflow's, each flag with its value, and the others."""
    flags: list[str] = []
    rest: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        ours = before not in PASSED_ON and word.partition("=")[0] not in PASSED_ON
        (rest if ours else flags).append(word)
    return flags, rest


def _serve(command: Sequence[str], uri: str) -> int:
    # Not as a word of the command, which everybody on the machine can read: it may hold a password.
    server = subprocess.Popen(command, env={**server_environment(), "MLFLOW_BACKEND_STORE_URI": uri})
    # Whoever ends this process ends the server with it.
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        return server.wait()
    except KeyboardInterrupt:
        server.terminate()
        with suppress(KeyboardInterrupt):
            server.wait()
        return 0
