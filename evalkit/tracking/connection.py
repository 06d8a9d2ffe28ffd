"""Open MLflow stores: without log noise, with short timeouts, and under a lock between processes where needed."""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import socket
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evalkit.core.display import shorten
from evalkit.core.redaction import without_password
from evalkit.errors import TrackingError
from evalkit.tracking.location import refuse_files, sqlite_file

if TYPE_CHECKING:
    from mlflow import MlflowClient

# MLflow's defaults wait for minutes if a server does not answer.
_PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
_FIRST_CONTACT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
}
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_SQL = ("mlflow.store.tracking.sqlalchemy_store", "mlflow.store.model_registry.sqlalchemy_store")
_SECONDS = 5.0


def open_client(uri: str) -> MlflowClient:
    """Return a client of the store at `uri` after checking that the store answers.

    Raises:
        TrackingError: if it is a file store.
        OSError: if the database cannot be reached or written.
        sqlite3.Error: if the SQLite file cannot be used.
        mlflow.exceptions.MlflowException: if the server refused or did not answer.
    """
    refuse_files(uri)
    _check_sqlite(uri)
    _check_database_host(uri)
    _quieten()
    from mlflow import MlflowClient

    _quieten_loggers()
    with _environment(_FIRST_CONTACT if uri.startswith("http") else {}):
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
    return client


def import_all(uri: str) -> None:
    """Import every module that recording at `uri` needs."""
    _quieten()
    for name in ("mlflow", *(_SQL if sqlite_file(uri) else ())):
        import_module(name)


def _check_sqlite(uri: str) -> None:
    file = sqlite_file(uri)
    if file is None or str(file) == ":memory:":
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(file, timeout=_SECONDS, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def _check_database_host(uri: str) -> None:
    parts = urlsplit(uri)
    port = _PORTS.get(parts.scheme.split("+")[0])
    if port and parts.hostname:
        socket.create_connection((parts.hostname, parts.port or port), timeout=_SECONDS).close()


def _quieten() -> None:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)


def _quieten_loggers() -> None:
    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        for name in ("mlflow", "alembic", "urllib3.connectionpool"):
            logging.getLogger(name).setLevel(logging.ERROR)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def one_line_errors(uri: str, folder: str | None) -> Iterator[None]:
    """Turn any error inside the block into one line.

    Raises:
        TrackingError: with the cause and how to send the run later.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except TrackingError:
        raise
    except Exception as problem:
        raise TrackingError(_explain(problem, uri, folder)) from problem


def _explain(problem: Exception, uri: str, folder: str | None) -> str:
    reason = without_password(" ".join((str(problem) or type(problem).__name__).split()))
    if "Max retries exceeded" in reason or "Connection refused" in reason:
        reason = "no answer from the server"
    if "error code 401" in reason:
        reason = "it refused the credentials: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    reason = shorten(reason, 300)
    later = (
        f"{folder} is complete: `evalkit track {shlex.quote(folder)}` sends it later"
        if folder
        else "its results are not lost"
    )
    return f"{without_password(uri)}: the run was not recorded in MLflow: {reason}; {later}"


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Hold a lock between the user's processes, so that two jobs of a sweep do not both create its parent run."""
    try:
        import fcntl
    except ImportError:  # Windows has no fcntl: there only the check after creation removes duplicate parents
        yield
        return
    digest = hashlib.sha256(name.encode()).hexdigest()[:24]
    path = Path(tempfile.gettempdir()) / f"evalkit-{os.getuid()}-{digest}.lock"
    while True:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(path, file.fileno()):  # whoever held the lock before has removed it
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
