"""The tables of a new store are those that MLflow makes, in one transaction."""

import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import import_module
from unittest.mock import patch

import pytest

from evalkit.core.prepared_files import write_prepared
from evalkit.tracking import new_tables
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


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """The folder in which compiled modules are kept; nothing is kept of other tests."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    monkeypatch.setattr("sys.pycache_prefix", str(tmp_path / "kept"))
    statements_of_tables.cache_clear()
    yield tmp_path / "kept"
    statements_of_tables.cache_clear()


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
    with patch("sqlalchemy.create_engine", side_effect=fault):
        assert statements_of_tables() == ()
    file = tmp_path / "mlflow.db"
    client = open_client(f"sqlite:///{file}")
    statements_of_tables.cache_clear()
    assert client.search_experiments()
    assert tables_of(file) == tables_of(by_mlflow)


def in_another_process(made):
    """Return the statements as another process gets them, and how often it migrates for them."""
    statements_of_tables.cache_clear()
    with patch.object(new_tables, "_migrate_in_memory", return_value=made) as migrate:
        return statements_of_tables(), migrate.call_count


def test_the_tables_are_kept_for_other_processes(by_mlflow, kept, tmp_path):
    first = statements_of_tables()
    assert in_another_process(()) == (first, 0)
    file = tmp_path / "mlflow.db"
    client = open_client(f"sqlite:///{file}")
    assert client.search_experiments()
    assert tables_of(file) == tables_of(by_mlflow)


def test_what_was_kept_and_is_damaged_is_made_again(kept):
    statements = statements_of_tables()
    (file,) = kept.rglob("mlflow_tables*")
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole.replace(b"alembic", b"alambic"), b"", whole[:32] + b"[1"):
        file.write_bytes(damaged)
        assert in_another_process(statements) == (statements, 1)
        assert file.read_bytes() == whole


def test_another_version_and_other_migrations_have_tables_of_their_own(kept, monkeypatch, tmp_path):
    write_prepared(new_tables._KEPT, new_tables._source_of_tables(), b'["CREATE TABLE kept (x)"]')
    assert in_another_process(("new",)) == (("CREATE TABLE kept (x)",), 0)
    with monkeypatch.context() as other:
        other.setattr(new_tables, "version", lambda _: "99.0")
        assert in_another_process(("new",)) == (("new",), 1)
    package = tmp_path / "mlflow"
    migrations = package / "store" / "db_migrations" / "versions"
    migrations.mkdir(parents=True)
    monkeypatch.setattr("mlflow.__file__", str(package / "__init__.py"))
    for revision in ("1", "2"):
        (migrations / f"{revision}.py").write_text(f"revision = '{revision}'")
        assert in_another_process((revision,)) == ((revision,), 1)


def test_nothing_is_kept_where_python_keeps_no_modules(kept, monkeypatch):
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert in_another_process(("new",)) == (("new",), 1)
    assert in_another_process(("new",)) == (("new",), 1)
    assert not kept.exists()


def test_packages_are_hidden_in_the_block_only(tmp_path, monkeypatch):
    (tmp_path / "frames_of_nobody.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with hidden(["frames_of_nobody"]), pytest.raises(ImportError):
        import_module("frames_of_nobody")
    assert import_module("frames_of_nobody")
    with hidden(["frames_of_nobody"]):
        assert import_module("frames_of_nobody")
