"""Whether runs could be recorded at a place, found out without importing MLflow and without leaving anything there."""

from __future__ import annotations

import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from evalkit.errors import TrackingError
from evalkit.redaction import without_password
from evalkit.tracking.location import refuse_files, sqlite_file

_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
_SECONDS = 5.0


def check_tracking(uri: str) -> None:
    """Check that something answers at a tracking URI, or that its file can be written.

    Raises:
        TrackingError: if runs cannot be recorded there.
    """
    shown = without_password(uri)
    refuse_files(uri)
    parts = urlsplit(uri)
    port = _PORTS.get(parts.scheme.split("+")[0])
    try:
        if (file := sqlite_file(uri)) is not None:
            _check_file(file)
        elif port is not None and parts.hostname:
            socket.create_connection((parts.hostname, parts.port or port), timeout=_SECONDS).close()
    except (OSError, sqlite3.Error) as error:
        reason = "nothing answers" if port is not None else str(error)
        raise TrackingError(f"{shown}: {reason}; check tracking.uri or MLFLOW_TRACKING_URI") from error


def _check_file(file: Path) -> None:
    if file.exists():
        with closing(sqlite3.connect(file, timeout=_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        return
    folder = next(folder for folder in file.absolute().parents if folder.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise PermissionError(f"{folder} cannot be written")
