"""Create the tables of a new SQLite store in one transaction.

MLflow creates them by 70 migrations, each of which waits for the disk. They run in memory instead,
once for each version of MLflow: their result is kept next to Python's compiled modules.
"""

from __future__ import annotations

import json
import sqlite3
import warnings
from contextlib import closing, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, Final

from evalkit.core.prepared_files import read_prepared, write_prepared

_FRAME = ("BEGIN TRANSACTION;", "COMMIT;")
"""The first and the last statement of a dump."""


_KEPT: Final = Path(__file__).with_name("mlflow_tables")
"""The statements are kept as what is prepared from this file, which does not exist."""
_WRITERS: Final = ("mlflow", "alembic", "sqlalchemy")
"""The packages that write the statements."""
_SOURCES: Final = ("store/db_migrations", "store/db", "store/tracking/dbmodels")
"""MLflow's folders of migrations and of the tables before the first one."""
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
        source = _source_of_tables()
        kept = read_prepared(_KEPT, source)
        if kept is not None:
            return tuple(json.loads(kept))
        statements = _migrate_in_memory()
    except Exception:  # what is private to MLflow may change
        return ()
    write_prepared(_KEPT, source, json.dumps(statements).encode())
    return statements


def _source_of_tables() -> bytes:
    """Return everything that the statements depend on: versions, and the code of all migrations."""
    import mlflow

    folder = Path(mlflow.__file__).parent
    parts = [f"{name} {version(name)}".encode() for name in _WRITERS]
    parts.append(f"sqlite {sqlite3.sqlite_version}".encode())
    for name in _SOURCES:
        for file in sorted(folder.joinpath(name).rglob("*.py")):
            parts += [str(file.relative_to(folder)).encode(), file.read_bytes()]
    return b"\0".join(parts)


def _migrate_in_memory() -> tuple[str, ...]:
    """Return the statements of a store that MLflow's own migrations have made."""
    from mlflow.store.db.utils import _initialize_tables
    from sqlalchemy import create_engine
    from sqlalchemy.pool import StaticPool

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = create_engine("sqlite://", poolclass=StaticPool)
        _initialize_tables(engine)
    with closing(engine.raw_connection()) as connection:
        memory: Any = connection.driver_connection
        dump: list[str] = [*memory.iterdump()]
    engine.dispose()
    return tuple(statement for statement in dump if statement not in _FRAME)


def _has_tables(store: sqlite3.Connection) -> bool:
    return store.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
