"""Open MLflow stores: without log noise, with short timeouts, and under a lock between processes where needed."""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.core.display import shorten
from evalkit.core.redaction import without_password
from evalkit.errors import EvalkitError, TrackingError
from evalkit.tracking.location import reach, sqlite_file

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
_SQL = ("mlflow.store.tracking.sqlalchemy_store", "mlflow.store.model_registry.sqlalchemy_store")


KEPT = "its results are not lost"


def open_client(uri: str) -> MlflowClient:
    """Return a client of the store at `uri` after checking that the store answers.

    Raises:
        TrackingError: if it is a file store.
        OSError: if the database cannot be reached or written.
        sqlite3.Error: if the SQLite file cannot be used.
        mlflow.exceptions.MlflowException: if the server refused or did not answer.
    """
    if not uri.startswith("http"):  # the client asks a server itself, perhaps by a proxy
        reach(uri, create=True)
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
def mlflow_errors(raised: Callable[[str], Exception], own: type[Exception] = EvalkitError) -> Iterator[None]:
    """Turn any error of MLflow inside the block into one line.

    Args:
        raised: Returns the error to raise for a cause.
        own: The errors that are raised as they are.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except own:
        raise
    except Exception as problem:
        raise raised(_cause(problem)) from problem


def recording_errors(uri: str, folder: str | None) -> AbstractContextManager[None]:
    """Turn any error inside the block into one line.

    Raises:
        TrackingError: with the cause and how to send the run later.
    """
    later = f"{folder} is complete: `evalkit track {shlex.quote(folder)}` sends it later" if folder else KEPT
    what = f"{without_password(uri)}: the run was not recorded in MLflow"
    return mlflow_errors(lambda cause: TrackingError(f"{what}: {cause}; {later}"), TrackingError)


def _cause(problem: Exception) -> str:
    reason = without_password(" ".join((str(problem) or type(problem).__name__).split()))
    if "Max retries exceeded" in reason or "Connection refused" in reason:
        return "no answer from the server"
    if "error code 401" in reason:
        return "it refused the credentials: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    return shorten(reason, 300)


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
