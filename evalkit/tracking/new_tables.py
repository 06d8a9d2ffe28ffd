"""Create the tables of a new SQLite store in one transaction.

MLflow creates them by 70 migrations, each of which waits for the disk.
"""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

_FRAME = ("BEGIN TRANSACTION;", "COMMIT;")
"""The first and the last statement of a dump."""


_migrating = Lock()
"""Migrations belong to a process, not to a thread."""


def create_tables(file: Path, seconds: float) -> None:
    """Create MLflow's tables in an SQLite file that has none.

    If it cannot, MLflow creates them when the store is opened.

    Args:
        file: the file.
        seconds: how long to wait for another process that writes it.
    """
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(file, timeout=seconds, isolation_level=None)) as store,
    ):
        if _has_tables(store):
            return
        # Before the lock is taken: this takes a second.
        with _migrating:
            statements = statements_of_tables()
        store.execute("BEGIN IMMEDIATE")
        # Another process may have created them meanwhile.
        if not _has_tables(store):
            for statement in statements:
                store.execute(statement)
        store.execute("COMMIT")


@cache
def statements_of_tables() -> tuple[str, ...]:
    """Return the statements that create MLflow's tables; empty if this MLflow has others."""
    try:
        from mlflow.store.db.utils import _initialize_tables
        from sqlalchemy import create_engine
        from sqlalchemy.pool import StaticPool

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # MLflow's own migrations, in memory.
            engine = create_engine("sqlite://", poolclass=StaticPool)
            _initialize_tables(engine)
        with closing(engine.raw_connection()) as connection:
            memory: Any = connection.driver_connection
            dump: list[str] = [*memory.iterdump()]
        engine.dispose()
    except Exception:  # what is private to MLflow may change
        return ()
    return tuple(statement for statement in dump if statement not in _FRAME)


def _has_tables(store: sqlite3.Connection) -> bool:
    return store.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
