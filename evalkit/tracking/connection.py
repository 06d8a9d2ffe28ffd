"""Locate MLflow stores by config, environment or folder, and open them quietly, with
short timeouts and under locks.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import socket
import sqlite3
import ssl
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from http.client import HTTPException
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evalkit.config import TrackingConfig
from evalkit.core.claims import is_at
from evalkit.core.display import shorten
from evalkit.core.errors import ConfigError, EvalkitError, TrackingError
from evalkit.core.redaction import without_password
from evalkit.core.regular_files import check_regular
from evalkit.tracking.new_tables import create_tables

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
_SQL = (
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.store.model_registry.sqlalchemy_store",
)


_FRAMES = ("pandas", "polars")
"""What MLflow imports only to log data frames, a third of the time of its own import. Without
pandas it does what `mlflow-skinny` does."""


KEPT = "its results are not lost"


def open_client(uri: str, contacts: int = 2) -> MlflowClient:
    """Return a client of the store at `uri` after checking that the store answers.

    Args:
        uri: The store.
        contacts: How often to ask a server that does not answer, about 4 seconds each.

    Raises:
        TrackingError: if it is a file store.
        OSError: if the database cannot be reached or written.
        sqlite3.Error: if the SQLite file cannot be used.
        mlflow.exceptions.MlflowException: if the server refused or did not answer.
    """
    if uri.startswith(("http:", "https:")):
        _wait_for_answer(uri, contacts)
    else:
        reach(uri, create=True)
    _quieten()
    from mlflow import MlflowClient

    _quieten_loggers()
    # A short patience for the first question only: later ones may upload files.
    with _environment(_FIRST_CONTACT if uri.startswith("http") else {}):
        if (file := sqlite_file(uri)) is not None and str(file) != ":memory:":
            create_tables(file, _SECONDS)
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
    return client


def _wait_for_answer(uri: str, contacts: int) -> None:
    """Ask a server for anything, perhaps by a proxy: MLflow itself waits for a minute or more.

    Args:
        uri: The address of the server.
        contacts: How often to ask before giving up.

    Raises:
        OSError: If nothing answers.
    """
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    parts = urlsplit(uri)
    address = parts._replace(
        # Without the password, which must not be sent to a wrong host.
        netloc=parts.netloc.rpartition("@")[2],
        query="",
        fragment="",
    )
    request = Request(f"{address.geturl().rstrip('/')}/health")
    for attempt in range(contacts):
        try:
            urlopen(request, timeout=_CONTACT_SECONDS).close()
        except HTTPError:
            return  # an answer, too
        except URLError as error:
            if isinstance(error.reason, ssl.SSLError):
                return  # MLflow may have another certificate
        except (OSError, HTTPException, ValueError):
            pass
        else:
            return
        if attempt + 1 < contacts:
            time.sleep(_PAUSE_SECONDS)
    raise OSError("no answer from the server")


def import_all(uri: str) -> None:
    """Import every module that recording at `uri` needs."""
    _quieten()
    with hidden(_FRAMES):
        for name in ("mlflow", *(_SQL if sqlite_file(uri) else ())):
            import_module(name)


@contextmanager
def hidden(packages: Sequence[str]) -> Iterator[None]:
    """Make packages that are not imported look inside the block as if they were not installed."""
    absent = [name for name in packages if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def _quieten() -> None:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    # Where a run is, the command says in its own words.
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    for name, value in _PATIENCE.items():
        # `setdefault`: the user's own settings count.
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
def mlflow_errors(
    raised: Callable[[str], Exception], unchanged: type[Exception] = EvalkitError
) -> Iterator[None]:
    """Turn any error of MLflow inside the block into one line.

    Args:
        raised: Returns the error to raise for a cause.
        unchanged: The errors that are raised as they are.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except unchanged:
        raise
    except Exception as problem:
        raise raised(_describe_cause(problem)) from problem


def recording_errors(uri: str, folder: str | None) -> AbstractContextManager[None]:
    """Turn any error inside the block into one line.

    Raises:
        TrackingError: with the cause and how to send the run later.
    """
    if folder:
        later = f"{folder} is complete: `evalkit track {shlex.quote(folder)}` sends it later"
    else:
        later = KEPT
    problem = f"{without_password(uri)}: the run was not recorded in MLflow"
    return mlflow_errors(
        lambda cause: TrackingError(f"{problem}: {cause}; {later}"), TrackingError
    )


def _describe_cause(problem: Exception) -> str:
    """Return in a few words, without credentials, why MLflow failed."""
    reason = without_password(
        " ".join((str(problem) or type(problem).__name__).split())
    )
    if "Max retries exceeded" in reason or "Connection refused" in reason:
        return "no answer from the server"
    if "error code 401" in reason:
        return (
            "it refused the credentials: "
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    return shorten(reason, 300)


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Hold a lock between this user's processes on this machine, so that two jobs of a sweep do
    not both create its parent run.

    It waits for the lock without a limit. There is no lock on Windows.

    Args:
        name: What is locked; blocks with the same name exclude each other.
    """
    try:
        import fcntl
    # Windows has no fcntl: there only the check after creation removes duplicate parents
    except ImportError:
        yield
        return
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS_OF_LOCK]
    path = Path(tempfile.gettempdir()) / f"evalkit-{os.getuid()}-{digest}.lock"
    while True:
        # Append mode creates the file and never empties one that another process has open.
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Whoever held the lock before may have removed the file.
            if is_at(path, file.fileno()):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return


SQLITE = "sqlite:///"
SCHEMES = (
    "sqlite",
    "http",
    "https",
    "postgresql",
    "mysql",
    "mssql",
    "databricks",
    "databricks-uc",
    "uc",
    "file",
)

VIEW = "evalkit"
"""The name of evalkit's view of the run list."""


def tracking_uri(config: TrackingConfig, folder: Path | None = None) -> str:
    """Return the URI of the tracking store: `tracking.uri`, else $MLFLOW_TRACKING_URI,
    else an SQLite file in `folder`.

    Relative SQLite files start from `folder`, or else the current one, and are made absolute, so
    that the URI is valid in any folder.

    Raises:
        ConfigError: if neither MLflow nor a plug-in of MLflow knows the URI.
    """
    folder = (folder or Path.cwd()).resolve()
    uri = config.uri or os.environ.get("MLFLOW_TRACKING_URI") or f"{SQLITE}mlflow.db"
    # `sqlite:///:memory:` has no file to make absolute.
    if uri.startswith(SQLITE) and not uri.startswith(f"{SQLITE}:"):
        return f"{SQLITE}{(folder / uri.removeprefix(SQLITE)).as_posix()}"
    if "://" in uri or uri.startswith(("file:", "databricks")) or _plugged(uri):
        _check_scheme(uri)
        return uri
    return (folder / uri).as_uri()


def _check_scheme(uri: str) -> None:
    scheme = uri.partition(":")[0].partition("+")[0]
    if scheme not in SCHEMES and not _plugged(uri):
        remedy = f"use sqlite:///mlflow.db, or one of {', '.join(SCHEMES[1:6])}"
        raise ConfigError(
            f"MLflow knows no '{scheme}:'", where="tracking.uri", remedy=remedy
        )


def _plugged(uri: str) -> bool:
    """Return whether a plug-in of MLflow knows a URI.

    Some are not URLs, for example SageMaker's `arn:aws:…`.
    """
    from importlib.metadata import entry_points

    scheme, colon, _ = uri.partition(":")
    return bool(colon) and any(
        point.name == scheme for point in entry_points(group="mlflow.tracking_store")
    )


def refuse_files(uri: str) -> None:
    """Refuse a file store: there each metric is a file, so `x` and `x/low` cannot both exist.

    Raises:
        TrackingError: if `uri` is a file store.
    """
    if uri.startswith("file:"):
        raise TrackingError(
            f"tracking.uri: {uri} is a file store, which cannot store intervals; use"
            " sqlite:///mlflow.db"
        )


PAGE_SERVER = Path(__file__).with_name("page_server.py")
"""What serves MLflow's pages with the options of `mlflow ui`."""


def server_environment() -> dict[str, str]:
    """Return the environment for a process that serves MLflow's pages.

    MLflow's server imports LiteLLM if it is installed, and LiteLLM fetches its price list from the
    network when it is imported; without a network the server would not start. The current folder is
    not searched for modules. The processes for jobs of MLflow's own are not started, unless the
    user's environment asks for them: no page of a run needs them, and each imports MLflow.
    """
    quiet = {
        "PYTHONWARNINGS": "ignore",
        "PYTHONSAFEPATH": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    jobs = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return {**jobs, **os.environ, **quiet, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def sqlite_file(uri: str) -> Path | None:
    """Return the file of an SQLite URI, or `None` for any other URI."""
    if uri.startswith(SQLITE):
        return Path(uri.removeprefix(SQLITE))
    return None


_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
_SECONDS = 5.0
_CONTACT_SECONDS = 4.0
_PAUSE_SECONDS = 0.5
_DIGITS_OF_LOCK = 24


def check_tracking(uri: str) -> None:
    """Check that a tracking server answers, or that the store's file can be written.

    Raises:
        TrackingError: if runs cannot be recorded there.
    """
    try:
        reach(uri)
    except (OSError, sqlite3.Error) as error:
        reason = str(error) if sqlite_file(uri) else "nothing answers"
        raise TrackingError(
            f"{without_password(uri)}: {reason}; check tracking.uri or MLFLOW_TRACKING_URI"
        ) from error


def reach(uri: str, *, create: bool = False) -> None:
    """Connect to the host of a tracking store, or begin to write its file; with
    `create`, a missing one is created.

    Raises:
        TrackingError: if it is a file store.
        OSError: if it cannot be reached.
        sqlite3.Error: if the file cannot be used.
    """
    refuse_files(uri)
    parts = urlsplit(uri)
    file = sqlite_file(uri)
    # Without the driver: postgresql+psycopg.
    scheme, _, _ = parts.scheme.partition("+")
    port = _PORTS.get(scheme)
    if port is not None and parts.hostname:
        address = (parts.hostname, parts.port or port)
        socket.create_connection(address, timeout=_SECONDS).close()
    if file is None or str(file) == ":memory:":
        return
    if create:
        file.parent.mkdir(parents=True, exist_ok=True)
    if create or file.exists():
        _begin_to_write(file)
    else:
        _check_can_be_created(file)


def _begin_to_write(file: Path) -> None:
    """Take the lock of an SQLite file for writing, and nothing else: a full disk shows now."""
    if file.exists():
        check_regular(file)
    connection = sqlite3.connect(file, timeout=_SECONDS, isolation_level=None)
    with closing(connection):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def _check_can_be_created(file: Path) -> None:
    """Check that the folder of a file, or the nearest one that exists, can be written.

    Raises:
        PermissionError: if it cannot.
    """
    folder = next(folder for folder in file.absolute().parents if folder.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise PermissionError(f"{folder} cannot be written")
