"""`evalkit ui`: open MLflow on the store of this folder's runs."""

from __future__ import annotations

import errno
import signal
import socket
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.request import ProxyHandler, build_opener

from evalkit.cli.hydra_runner import split_study
from evalkit.cli.parser import check_overrides, study_words
from evalkit.core.redaction import without_password
from evalkit.errors import ConfigError
from evalkit.hydra_app import DEFAULT, load_jobs
from evalkit.tracking import server_environment, tracking_uri

_POLL_SECONDS: Final = 1.0
"""The pause between checks whether the server is ready."""


def main(arguments: Namespace) -> int:
    """Serve the MLflow UI until Ctrl-C."""
    study, overrides = split_study(study_words(arguments))
    check_overrides(overrides)
    config = load_jobs(str(study) if study else DEFAULT, overrides, sweep=False)[0][1]
    uri = tracking_uri(config.tracking, Path.cwd())
    if uri.startswith(("http://", "https://")):
        print(f"the runs are at {without_password(uri)}")
        return 0
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise ConfigError("no runs are recorded yet", where=uri, remedy="`evalkit run` records the first")
    _check_port(arguments.host, arguments.port)
    # One worker is enough for one user; each additional worker needs the memory of another MLflow.
    listen = ["--host", arguments.host, "--port", str(arguments.port), "--workers", str(arguments.workers)]
    command = [sys.executable, "-m", "mlflow", "ui", *listen]
    url = f"http://{_reachable(arguments.host)}:{arguments.port}"
    print(f"MLflow on {without_password(uri)}; Ctrl-C stops it", flush=True)
    print("starting MLflow (this takes about 30 s)", flush=True)
    return _serve(command, uri, url)


def _reachable(host: str) -> str:
    """Return an address at which this machine reaches a server that listens at `host`."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _check_port(host: str, port: int) -> None:
    """Check that MLflow can listen on the port; its own error has many lines and exit status 0.

    Raises:
        ConfigError: if the port is in use.
    """
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            return  # MLflow may resolve the host name
        why = "is in use" if error.errno == errno.EADDRINUSE else "may not be used"
        raise ConfigError(why, where=f"port {port}", remedy=f"choose another: evalkit ui --port {_free()}") from None


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def _announce(server: subprocess.Popen[bytes], url: str) -> None:
    """Print the address as soon as the server answers there."""
    opener = build_opener(ProxyHandler({}))
    started = time.monotonic()
    while server.poll() is None:
        try:
            opener.open(f"{url}/health", timeout=_POLL_SECONDS).close()
        except (OSError, HTTPException):
            time.sleep(_POLL_SECONDS)
            continue
        print(f"ready after {time.monotonic() - started:.0f} s: {url}", flush=True)
        return


def _serve(command: Sequence[str], uri: str, url: str) -> int:
    # The URI may have a password, and every user of the machine can read arguments.
    server = subprocess.Popen(command, env={**server_environment(), "MLFLOW_BACKEND_STORE_URI": uri})
    Thread(target=_announce, args=(server, url), daemon=True).start()
    # The server ends with this process.
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        return server.wait()
    except KeyboardInterrupt:
        server.terminate()
        with suppress(KeyboardInterrupt):
            server.wait()
        return 0
