"""`evalkit ui`: MLflow's own pages, on the store this folder's runs are recorded in."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from evalkit.cli.driving import check_words, split_study
from evalkit.compose import DEFAULT, load_jobs
from evalkit.errors import ConfigError
from evalkit.tracking import server_environment, tracking_uri

PASSED_ON = ("--host", "-h", "--port", "-p", "--workers", "-w")


def main(words: Sequence[str]) -> int:
    """Serve MLflow's pages on loopback until Ctrl-C; `--host`, `--port` and `--workers` are passed on."""
    flags, rest = _split_flags(words)
    study, overrides = split_study(rest)
    check_words(overrides, flags=())
    config = load_jobs(str(study) if study else DEFAULT, overrides, sweep=False)[0][1]
    uri = tracking_uri(config.tracking, Path.cwd())
    if uri.startswith(("http://", "https://")):
        print(f"the runs are at {uri}")
        return 0
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise ConfigError("holds no runs yet", where=uri, remedy="`evalkit run` makes the first")
    # One worker serves one person, and each further one takes the memory of another MLflow.
    command = [sys.executable, "-m", "mlflow", "ui", "--workers", "1", "--backend-store-uri", uri, *flags]
    print(f"MLflow on {uri}; Ctrl-C ends it", flush=True)
    return _serve(command)


def _split_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that are MLflow's, each flag with its value, and the others."""
    flags: list[str] = []
    rest: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        ours = before not in PASSED_ON and word.partition("=")[0] not in PASSED_ON
        (rest if ours else flags).append(word)
    return flags, rest


def _serve(command: Sequence[str]) -> int:
    server = subprocess.Popen(command, env=server_environment())
    # Whoever ends this process ends the server with it.
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        return server.wait()
    except KeyboardInterrupt:
        server.terminate()
        with suppress(KeyboardInterrupt):
            server.wait()
        return 0
