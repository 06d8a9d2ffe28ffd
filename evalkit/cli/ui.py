"""`evalkit ui`: open MLflow on the store of this folder's runs."""

from __future__ import annotations

import errno
import json
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
from urllib.parse import quote
from urllib.request import OpenerDirector, ProxyHandler, build_opener

from evalkit.cli.hydra_runner import study_jobs
from evalkit.cli.parser import study_words
from evalkit.core.redaction import without_password
from evalkit.errors import ConfigError
from evalkit.tracking import VIEW, server_environment, tracking_uri

_ANSWER_SECONDS: Final = 30.0
"""How long to wait for the server's first answer on an experiment."""
_POLL_SECONDS: Final = 1.0
"""The pause between checks whether the server is ready."""


def main(arguments: Namespace) -> int:
    """Serve the MLflow UI until Ctrl-C."""
    [(_, config)] = study_jobs(study_words(arguments))
    uri = tracking_uri(config.tracking)
    if uri.startswith(("http://", "https://")):
        print(f"the runs are at {without_password(uri)}")
        return 0
    if (
        uri.startswith("sqlite:///")
        and not Path(uri.removeprefix("sqlite:///")).is_file()
    ):
        raise ConfigError(
            "no runs are recorded yet",
            where=uri,
            remedy="`evalkit run` records the first",
        )
    _check_port(arguments.host, arguments.port)
    # One worker is enough for one user; each additional worker needs the memory of another MLflow.
    listen = [
        "--host",
        arguments.host,
        "--port",
        str(arguments.port),
        "--workers",
        str(arguments.workers),
    ]
    command = [sys.executable, "-m", "mlflow", "ui", *listen]
    url = f"http://{_reachable(arguments.host)}:{arguments.port}"
    print(f"MLflow on {without_password(uri)}; Ctrl-C stops it", flush=True)
    print("starting MLflow (30 s of CPU time)", flush=True)
    return _serve(command, uri, url, config.tracking.experiment)


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
        raise ConfigError(
            why,
            where=f"port {port}",
            remedy=f"choose another: evalkit ui --port {_free()}",
        ) from None


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _announce(server: subprocess.Popen[bytes], url: str, experiment: str) -> None:
    """Print the address and that of the run list with metrics as soon as the server answers."""
    opener = build_opener(ProxyHandler({}))
    started = time.monotonic()
    while server.poll() is None:
        try:
            opener.open(f"{url}/health", timeout=_POLL_SECONDS).close()
        except (OSError, HTTPException):
            time.sleep(_POLL_SECONDS)
            continue
        print(f"ready after {time.monotonic() - started:.0f} s: {url}", flush=True)
        if (view := _runs_with_metrics(opener, url, experiment)) is not None:
            print(f"runs with their main metrics: {view}", flush=True)
        return


def _runs_with_metrics(opener: OpenerDirector, url: str, experiment: str) -> str | None:
    """Return the address of evalkit's view of the run list, or `None` if the experiment has no such view."""
    query = f"{url}/api/2.0/mlflow/experiments/get-by-name?experiment_name={quote(experiment)}"
    try:
        with opener.open(query, timeout=_ANSWER_SECONDS) as reply:
            found_experiment = json.load(reply)["experiment"]
    except (OSError, HTTPException, ValueError, KeyError):
        return None
    tags = {tag["key"] for tag in found_experiment.get("tags", [])}
    has_view = f"mlflow.sharedViewState.{VIEW}" in tags
    return (
        f"{url}/#/experiments/{found_experiment['experiment_id']}/runs?viewStateShareKey={VIEW}"
        if has_view
        else None
    )


def _serve(command: Sequence[str], uri: str, url: str, experiment: str) -> int:
    # The URI may have a password, and every user of the machine can read arguments.
    server = subprocess.Popen(
        command, env={**server_environment(), "MLFLOW_BACKEND_STORE_URI": uri}
    )
    Thread(target=_announce, args=(server, url, experiment), daemon=True).start()
    # The server ends with this process.
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        return server.wait()
    except KeyboardInterrupt:
        server.terminate()
        with suppress(KeyboardInterrupt):
            server.wait()
        return 0
