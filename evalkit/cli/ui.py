"""`evalkit ui`: open MLflow on the store of this folder's runs."""

from __future__ import annotations

import errno
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import IO, Final
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

from evalkit.cli.hydra_runner import study_jobs
from evalkit.cli.parser import study_words
from evalkit.core.errors import ConfigError
from evalkit.core.redaction import without_password
from evalkit.core.values import Json
from evalkit.tracking import PAGE_SERVER, VIEW, server_environment, tracking_uri

_ANSWER_SECONDS: Final = 30.0
"""How long to wait for the server's first answer on an experiment."""
_LOG_LINES: Final = 20
"""How much of the server's log is printed if it fails."""
_POLL_SECONDS: Final = 0.2
"""The pause between checks whether the server is ready."""


def main(arguments: Namespace) -> int:
    """Serve the MLflow UI until Ctrl-C; return the exit status.

    A tracking server has its own page, so only its address is printed.

    Raises:
        ConfigError: If no runs are recorded, or the port cannot be used.
    """
    [(_, config)] = study_jobs(study_words(arguments))
    uri = tracking_uri(config.tracking)
    # A tracking server has a page of its own.
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
    # Checked by listening once, since a server takes seconds to find out.
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
    command = [sys.executable, str(PAGE_SERVER), *listen]
    url = f"http://{_reachable(arguments.host)}:{arguments.port}"
    print(
        f"starting MLflow on {without_password(uri)}"
        " (10 s, and up to a minute on a busy machine); Ctrl-C stops it",
        file=sys.stderr,
        flush=True,
    )
    named = config.tracking.experiment
    return _run_server(command, uri, url, named, opens=not arguments.no_browser)


def _reachable(host: str) -> str:
    """Return an address at which this machine reaches a server that listens at `host`."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    if ":" in host:
        return f"[{host}]"
    return host


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


def _announce(
    server: subprocess.Popen[bytes], url: str, experiment: str | None, *, opens: bool
) -> None:
    """Print the address of the run list as soon as the server answers, and open it in
    the browser.
    """
    # No proxy: the server is on this machine.
    opener = build_opener(ProxyHandler({}))
    while server.poll() is None:
        try:
            opener.open(f"{url}/health", timeout=_ANSWER_SECONDS).close()
        except (OSError, HTTPException):
            time.sleep(_POLL_SECONDS)
            continue
        page = runs_page(opener, url, experiment)
        print(page, flush=True)
        if opens:
            webbrowser.open(page)
        return


def runs_page(opener: OpenerDirector, url: str, experiment: str | None) -> str:
    """Return the address of the run list of an experiment, with its main metrics as columns.

    Args:
        opener: Asks the server.
        url: The server.
        experiment: The name; `None` for the experiment of the run that started last.

    Returns:
        The server's first page if it has no such experiment.
    """
    try:
        experiments = _ask(opener, url, "experiments/search", {"max_results": 1_000})[
            "experiments"
        ]
        if experiment is None:
            entry = _last_written(opener, url, experiments)
        else:
            entry = next(row for row in experiments if row["name"] == experiment)
    except (OSError, HTTPException, ValueError, KeyError, IndexError, StopIteration):
        return url
    page = f"{url}/#/experiments/{entry['experiment_id']}/runs"
    tags = {tag["key"] for tag in entry.get("tags", [])}
    has_view = f"mlflow.sharedViewState.{VIEW}" in tags
    if has_view:
        return f"{page}?viewStateShareKey={VIEW}"
    return page


def _last_written(
    opener: OpenerDirector, url: str, experiments: Sequence[Json]
) -> Json:
    """Return the experiment of the last run of all."""
    by_id = {str(experiment["experiment_id"]): experiment for experiment in experiments}
    # The last run shows which experiment the user works on.
    query = {
        "experiment_ids": [*by_id],
        "max_results": 1,
        "order_by": ["attributes.start_time DESC"],
    }
    [run] = _ask(opener, url, "runs/search", query)["runs"][:1]
    return by_id[run["info"]["experiment_id"]]


def _ask(opener: OpenerDirector, url: str, method: str, query: Json) -> Json:
    request = Request(
        f"{url}/api/2.0/mlflow/{method}",
        data=json.dumps(query).encode(),
        headers={"Content-Type": "application/json"},
    )
    with opener.open(request, timeout=_ANSWER_SECONDS) as reply:
        answer: Json = json.load(reply)
    return answer


def _run_server(
    command: Sequence[str], uri: str, url: str, experiment: str | None, *, opens: bool
) -> int:
    """Run an MLflow server until it ends or is stopped, and return its exit status.

    Args:
        command: How to start it.
        uri: The store of runs, which may contain a password.
        url: Where it will answer.
        experiment: The experiment to open; `None` for all.
        opens: Whether to open it in a browser.
    """
    # The URI may have a password, and every user of the machine can read arguments.
    environment = {**server_environment(), "MLFLOW_BACKEND_STORE_URI": uri}
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        # In a thread, because this one waits for the server to end.
        Thread(
            target=_announce,
            args=(server, url, experiment),
            kwargs={"opens": opens},
            daemon=True,
        ).start()
        status = _wait(server)
        if status > 0:
            _print_end(log)
    return status


def _print_end(log: IO[bytes]) -> None:
    """Print the last lines of the server's log, which say why it failed."""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").splitlines()
    print(*lines[-_LOG_LINES:], sep="\n", file=sys.stderr)


def _wait(server: subprocess.Popen[bytes]) -> int:
    """Wait for the server, which ends with this process."""
    # Otherwise the server would go on without its parent.
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        return server.wait()
    except KeyboardInterrupt:
        server.terminate()
        # A second Ctrl-C must not leave the server behind.
        with suppress(KeyboardInterrupt):
            server.wait()
        return 0
