"""The tables of a new store are those that MLflow makes, in one transaction."""

import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import import_module
from unittest.mock import patch

import pytest

from evalkit.tracking.connection import hidden, open_client
from evalkit.tracking.new_tables import create_tables, statements_of_tables

pytestmark = pytest.mark.filterwarnings("ignore")  # of SQLAlchemy, about MLflow


def tables_of(file):
    """Return the columns, foreign keys and indexes of each table, and the revision of all.

    MLflow writes the constraints of a table in an order that differs from time to time.
    """
    with closing(sqlite3.connect(file)) as store:
        names = [name for (name,) in store.execute("SELECT name FROM sqlite_master")]
        parts = {
            (name, part): sorted(row[1:] for row in store.execute(f"PRAGMA {part}('{name}')"))
            for name in names
            for part in ("table_info", "foreign_key_list", "index_list")
        }
        revisions = store.execute("SELECT * FROM alembic_version").fetchall()
    return parts, revisions


@pytest.fixture(scope="module")
def by_mlflow(tmp_path_factory):
    """A store whose tables MLflow has made in its file."""
    from mlflow.store.db.utils import _initialize_tables, create_sqlalchemy_engine

    file = tmp_path_factory.mktemp("by_mlflow") / "mlflow.db"
    engine = create_sqlalchemy_engine(f"sqlite:///{file}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _initialize_tables(engine)
    engine.dispose()
    return file


def test_the_tables_are_those_of_mlflow_whoever_creates_them_first(by_mlflow, tmp_path):
    file = tmp_path / "mlflow.db"
    with ThreadPoolExecutor(4) as processes:
        [*processes.map(lambda _: create_tables(file, 30), range(4))]
    assert tables_of(file) == tables_of(by_mlflow)


def test_a_store_that_has_tables_stays_as_it_is(tmp_path):
    file = tmp_path / "own.db"
    with closing(sqlite3.connect(file)) as store:
        store.execute("CREATE TABLE other (x)")
    create_tables(file, 5)
    with closing(sqlite3.connect(file)) as store:
        assert store.execute("SELECT name FROM sqlite_master").fetchall() == [("other",)]


@pytest.mark.parametrize("fault", [ImportError("another MLflow"), RuntimeError("a migration")])
def test_mlflow_makes_the_tables_if_evalkit_cannot(by_mlflow, tmp_path, fault):
    statements_of_tables.cache_clear()
    with patch("sqlalchemy.create_engine", side_effect=fault):
        assert statements_of_tables() == ()
    file = tmp_path / "mlflow.db"
    client = open_client(f"sqlite:///{file}")
    statements_of_tables.cache_clear()
    assert client.search_experiments()
    assert tables_of(file) == tables_of(by_mlflow)


def test_packages_are_hidden_in_the_block_only(tmp_path, monkeypatch):
    (tmp_path / "frames_of_nobody.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with hidden(["frames_of_nobody"]), pytest.raises(ImportError):
        import_module("frames_of_nobody")
    assert import_module("frames_of_nobody")
    with hidden(["frames_of_nobody"]):
        assert import_module("frames_of_nobody")
