"""Where runs are recorded: from the config, the environment or the current folder."""

from __future__ import annotations

import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from evalkit.config import TrackingConfig
from evalkit.core.redaction import without_password
from evalkit.errors import ConfigError, TrackingError

SQLITE = "sqlite:///"
SCHEMES = ("sqlite", "http", "https", "postgresql", "mysql", "mssql", "databricks", "databricks-uc", "uc", "file")

VIEW = "evalkit"
"""The name of evalkit's view of the run list."""


def tracking_uri(config: TrackingConfig, folder: Path) -> str:
    """Return the URI of the tracking store: `tracking.uri`, else $MLFLOW_TRACKING_URI, else an SQLite file in `folder`.

    Relative SQLite files start from `folder` and are made absolute, so that the URI is valid in any folder.

    Raises:
        ConfigError: if neither MLflow nor a plug-in of MLflow knows the URI.
    """
    uri = config.uri or os.environ.get("MLFLOW_TRACKING_URI") or f"{SQLITE}mlflow.db"
    if uri.startswith(SQLITE) and not uri.startswith(f"{SQLITE}:"):
        return f"{SQLITE}{(folder.resolve() / uri.removeprefix(SQLITE)).as_posix()}"
    if "://" in uri or uri.startswith(("file:", "databricks")) or _plugged(uri):
        _check_scheme(uri)
        return uri
    return (folder.resolve() / uri).as_uri()


def _check_scheme(uri: str) -> None:
    scheme = uri.partition(":")[0].partition("+")[0]
    if scheme not in SCHEMES and not _plugged(uri):
        remedy = f"use sqlite:///mlflow.db, or one of {', '.join(SCHEMES[1:6])}"
        raise ConfigError(f"MLflow knows no '{scheme}:'", where="tracking.uri", remedy=remedy)


def _plugged(uri: str) -> bool:
    """Return whether a plug-in of MLflow knows a URI. Some are not URLs, for example SageMaker's `arn:aws:…`."""
    from importlib.metadata import entry_points

    scheme, colon, _ = uri.partition(":")
    return bool(colon) and any(one.name == scheme for one in entry_points(group="mlflow.tracking_store"))


def refuse_files(uri: str) -> None:
    """Refuse a file store: there each metric is a file, so `x` and `x/low` cannot both exist.

    Raises:
        TrackingError: if `uri` is a file store.
    """
    if uri.startswith("file:"):
        raise TrackingError(
            f"tracking.uri: {uri} is a file store, which cannot store intervals; use sqlite:///mlflow.db"
        )


def server_environment() -> dict[str, str]:
    """Return the environment for a process that serves MLflow's pages.

    MLflow's server imports LiteLLM if it is installed, and LiteLLM fetches its price list from the network when it is
    imported; without a network the server would not start. The current folder is not searched for modules.
    """
    quiet = {"PYTHONWARNINGS": "ignore", "PYTHONSAFEPATH": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return {**os.environ, **quiet, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def sqlite_file(uri: str) -> Path | None:
    """Return the file of an SQLite URI, or `None` for any other URI."""
    return Path(uri.removeprefix(SQLITE)) if uri.startswith(SQLITE) else None


_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
_SECONDS = 5.0


def check_tracking(uri: str) -> None:
    """Check that a tracking server answers, or that the store's file can be written.

    Raises:
        TrackingError: if runs cannot be recorded there.
    """
    try:
        reach(uri)
    except (OSError, sqlite3.Error) as error:
        reason = str(error) if sqlite_file(uri) else "nothing answers"
        raise TrackingError(f"{without_password(uri)}: {reason}; check tracking.uri or MLFLOW_TRACKING_URI") from error


def reach(uri: str, *, create: bool = False) -> None:
    """Connect to the host of a tracking store, or begin to write its file; with `create`, a missing one is created.

    Raises:
        TrackingError: if it is a file store.
        OSError: if it cannot be reached.
        sqlite3.Error: if the file cannot be used.
    """
    refuse_files(uri)
    parts, file = urlsplit(uri), sqlite_file(uri)
    port = _PORTS.get(parts.scheme.split("+")[0])
    if port is not None and parts.hostname:
        socket.create_connection((parts.hostname, parts.port or port), timeout=_SECONDS).close()
    if file is None or str(file) == ":memory:":
        return
    if create:
        file.parent.mkdir(parents=True, exist_ok=True)
    if create or file.exists():
        with closing(sqlite3.connect(file, timeout=_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        return
    folder = next(folder for folder in file.absolute().parents if folder.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise PermissionError(f"{folder} cannot be written")
