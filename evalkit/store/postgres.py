"""Completions by content key in a PostgreSQL database, for workers on several machines.

A claim is a session-level advisory lock. It ends with the connection that took it, however that
ends, so there are no leases and no clocks. Texts are stored as bytes: PostgreSQL's `text` cannot
hold U+0000, nor every character in every encoding.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from evalkit.core.display import shorten
from evalkit.core.errors import StoreError
from evalkit.core.redaction import redact, without_password
from evalkit.core.types import StoredCompletion, StoreDescription
from evalkit.core.values import Json
from evalkit.store.codec import Row, stored_in
from evalkit.store.database import CHUNK, COLUMNS, DatabaseStore, Execute

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]
else:
    try:
        import psycopg
    except ImportError:  # reported when a store is opened
        psycopg = None

MIGRATIONS = (
    """
    CREATE TABLE evalkit_store (version integer NOT NULL);
    INSERT INTO evalkit_store VALUES (0);
    CREATE TABLE evalkit_completions (
      place bigint GENERATED ALWAYS AS IDENTITY UNIQUE, key bytea PRIMARY KEY, model bytea NOT NULL,
      created double precision NOT NULL, value bytea NOT NULL, digest bigint NOT NULL
    )
    """,
    "CREATE TABLE evalkit_state (name bytea PRIMARY KEY, value bytea NOT NULL)",
)
"""Statements that bring a store from the version of their index to the next one; the first creates
it."""
RECONNECT_SECONDS = 15.0
"""How long a lost connection is opened again before the store fails."""
_MIGRATION_LOCK = 0x65766B74
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0
# Both sides notice a connection that is gone: the client to open another one, the server to end its
# claims.
_CONNECTION: Json = {
    "fallback_application_name": "evalkit",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_SESSION = """
SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3;
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
"""
# One statement is one commit and one round trip. Keys of the last array keep what is stored.
_PUT = f"""
INSERT INTO evalkit_completions ({COLUMNS})
SELECT {COLUMNS}
FROM unnest(?::bytea[], ?::bytea[], ?::float8[], ?::bytea[], ?::bigint[])
  WITH ORDINALITY AS new ({COLUMNS}, n)
ORDER BY n
ON CONFLICT (key) DO UPDATE SET
  model = excluded.model, created = excluded.created, value = excluded.value,
  digest = excluded.digest
WHERE NOT excluded.key = ANY (?::bytea[])
"""
T = TypeVar("T")


class _Link:
    """One connection, opened when it is needed and again when it is lost; one thread
    uses it at a time.

    Args:
        database: What to connect to.
        lost: Called when the connection is lost.
    """

    def __init__(
        self, database: _Database, lost: Callable[[], None] = lambda: None
    ) -> None:
        # Reentrant: work on a link may check or drop the connection.
        self.lock = threading.RLock()
        self._database, self._lost = database, lost
        self._connection: Connection | None = None
        self._closed = False

    def run(self, work: Callable[[Connection], T], *, patient: bool = True) -> T:
        """Do work that may be done twice, on a new connection if the present one is lost.

        Args:
            work: What to do with the connection.
            patient: Whether to try again for `RECONNECT_SECONDS` after an error of the
                connection.

        Raises:
            StoreError: If the server cannot be reached for that long, or refuses the work.
        """
        with self.lock:
            # The time starts with the first error, so that a long statement does not use it up.
            until, wait = None, _FIRST_WAIT
            while True:
                # Checked on each attempt: the store may be closed while this thread waits.
                if self._closed:
                    raise StoreError(f"{self._database.name}: the store is closed")
                try:
                    if self._connection is None:
                        self._connection = self._database.connect()
                    return work(self._connection)
                except psycopg.Error as error:
                    until = until or time.monotonic() + RECONNECT_SECONDS
                    if (
                        not (patient and self._may_repeat(error))
                        or time.monotonic() + wait > until
                    ):
                        raise StoreError(
                            f"{self._database.name}: {self._database.explain(error)}"
                        ) from error
                time.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)

    def check(self) -> None:
        """Notice, without waiting for the server, that it has ended the connection."""
        with self.lock:
            if self._connection is None:
                return
            try:
                for _ in range(2):  # the server's last words, then the end
                    self._connection.pgconn.consume_input()
            except psycopg.Error:
                self._drop()

    def close(self, farewell: str = "") -> None:
        with self.lock:
            self._closed = True
            if self._connection is not None:
                with suppress(psycopg.Error):
                    if farewell:
                        self._connection.execute(farewell)
                    self._connection.close()
                self._connection = None

    def _may_repeat(self, error: psycopg.Error) -> bool:
        if self._connection is None:
            return True
        if self._connection.closed:
            self._drop()
            return True
        return isinstance(
            error,
            (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure),
        )

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._lost()


class _Database:
    """The server and database that a URL names.

    Attributes:
        name: The URL as messages show it, without user and password.

    Raises:
        StoreError: If the URL cannot be read, or psycopg is not installed.
    """

    def __init__(self, url: str, *, read_only: bool) -> None:
        """Check the URL, without connecting.

        Raises:
            StoreError: If psycopg is not installed, or the URL is not one of PostgreSQL.
        """
        if psycopg is None:
            raise StoreError(
                "store.url: PostgreSQL needs psycopg; run pip install 'evalkit-judge[postgres]'"
            )
        self._settings = _SESSION + (
            # The server itself then refuses writes.
            "SET default_transaction_read_only = on;" if read_only else ""
        )
        try:
            parameters = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:  # its message may show a part of the password
            parameters = {"host": "@"}
        # An unescaped @ or / in a password ends up in one of these parts, and would be shown in
        # messages.
        ports = str(parameters.get("port") or "0").split(",")
        if any(
            "@" in str(parameters.get(part, "")) for part in ("host", "dbname")
        ) or not all(port.isdigit() or not port for port in ports):
            raise StoreError(
                "store.url: not a PostgreSQL URL; write postgresql://user@host:5432/database, with"
                " %40 for @ and %2F for / in a name or password"
            )
        # The user's URL wins over these settings.
        self._options = {**_CONNECTION, **parameters}
        self.name = redact(without_password(url))

    def connect(self) -> Connection:
        # Autocommit: each statement is its own transaction unless a block says otherwise.
        connection: Connection = psycopg.connect(**self._options, autocommit=True)
        try:
            connection.execute(self._settings)
        except BaseException:
            connection.close()
            raise
        return connection

    def explain(self, error: psycopg.Error) -> str:
        """Return one line about what an error means and what to do."""
        text = " ".join(str(error).split())
        # The server's message may quote the connection string.
        if password := self._options.get("password"):
            text = text.replace(str(password), "[redacted]")
        text = shorten(redact(text), 240)
        for words, remedy in _REMEDIES.items():
            if words in text:
                return f"{text}; {remedy}"
        return f"{text}; check store.url and the server"


_REMEDIES = {
    "password": "set PGPASSWORD, or write the password into ~/.pgpass",
    "does not exist": "create the database with createdb, or name another one in store.url",
    "permission denied": "let the owner of the schema GRANT the right, or set store.mode=read_only",
    "too many": "use fewer workers, or raise the server's max_connections",
    "remaining connection slots": "use fewer workers, or raise the server's max_connections",
    "shared memory": (
        "every request in hand is a lock: raise the server's max_locks_per_transaction"
    ),
    "already exists": (
        "the schema has another table of this name; name another database in store.url"
    ),
}


class PostgresStore(DatabaseStore):
    """A store in a PostgreSQL database, for any number of threads, processes and machines.

    Args:
        url: `postgresql://user@host:port/database`, as libpq reads it; the tables are created when
            missing.
        read_only: Never write; a missing store is an error.
        verify: Not used: each row is checked when it is read.

    Raises:
        StoreError: If the server cannot be reached, or the store is newer than this version.
    """

    _completions, _state, _position, _state_id = (
        "evalkit_completions",
        "evalkit_state",
        "place",
        "name",
    )
    _now = "extract(epoch FROM clock_timestamp())::float8"

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        verify: bool = True,  # noqa: ARG002
    ) -> None:
        """Connect, and create the tables if they are missing."""
        self._database = _Database(url, read_only=read_only)
        self.name = self._database.name
        self.read_only = read_only
        # lock -> its key
        self._held: dict[int, str] = {}
        # Keys whose claims ended with a connection; others may claim them since.
        self._lost: set[str] = set()
        # Claims and reads share a connection, so a read after a claim shows that the claim held.
        # Writes have their own.
        self._session = _Link(self._database, self._lose_claims)
        self._writer = _Link(self._database)
        try:
            # Not patient: a wrong URL should fail at once.
            self._writer.run(self._prepare, patient=False)
        except BaseException:
            self._writer.close()
            raise

    @staticmethod
    def exists(url: str) -> bool:
        """Return whether the database at `url` has a store."""
        return _once(url, _version) is not None

    @staticmethod
    def check_creatable(url: str) -> None:
        """Check that the tables could be created."""
        query = (
            "SELECT current_schema(), has_schema_privilege(current_schema(), 'CREATE')"
        )
        schema, allowed = _once(url, lambda connection: _one(connection, query))
        if not allowed:
            name = redact(without_password(url))
            raise StoreError(
                f"{name}: no table can be created in the schema {schema}; let its owner GRANT"
                " CREATE"
            )

    def claim(self, key: str) -> bool:
        """Claim a key and return whether it is claimed now; a key with the same 64-bit
        hash waits for it, too.
        """
        return key in self.claim_many([key])

    def release(self, key: str) -> None:
        """Give up a claim."""
        self.release_many([key])

    def claim_many(self, keys: Sequence[str]) -> set[str]:
        """Claim keys in one round trip, and return those that are claimed now."""
        if self.read_only:
            return set(keys)
        # lock -> its key: the first, if several keys have one lock
        keys_by_lock = {_place(key): key for key in reversed(keys)}

        def take(connection: Connection) -> set[str]:
            """Claim the locks that are free, and return their keys."""
            # A session may take its own lock again, so locks that it holds are omitted.
            free = [lock for lock in keys_by_lock if lock not in self._held]
            query = (
                "SELECT place, pg_try_advisory_lock(place) FROM unnest(%s::bigint[]) AS asked"
                " (place)"
            )
            taken = {
                lock: keys_by_lock[lock]
                for lock, got in connection.execute(query, (free,))
                if got
            }
            self._held.update(taken)
            # Claimed again, so their answers may replace stored ones as before.
            self._lost.difference_update(taken.values())
            return {*taken.values()}

        return self._session.run(take)

    def release_many(self, keys: Sequence[str]) -> None:
        """Give up claims in one round trip; keys that this process does not hold are skipped.

        Raises:
            StoreError: If a pooler gave this process another session, or the server fails.
        """

        def give_up(connection: Connection) -> None:
            """Release the locks of keys that this process holds.

            Raises:
                StoreError: if a pooler gave this process another session.
            """
            locks = [
                lock
                for lock, key in ((_place(key), key) for key in keys)
                # Not the lock of another key with the same hash.
                if self._held.get(lock) == key
            ]
            query = (
                "SELECT place, pg_advisory_unlock(place) "
                "FROM unnest(%s::bigint[]) AS asked (place)"
            )
            released: dict[int, bool] = dict(
                connection.execute(query, (locks,)).fetchall()
            )
            for lock in locks:
                del self._held[lock]
            # A lock that the server does not find belongs to another session: a pooler changed
            # it.
            if not all(released.values()):
                raise StoreError(self._pooled())

        if not self.read_only:
            with self._session.lock:
                self._lost.difference_update(keys)
                if any(self._held.get(_place(key)) == key for key in keys):
                    self._session.run(give_up)

    def holds(self, key: str) -> bool:
        """Return whether a claim made here still holds: it ends with its connection."""
        if self.read_only:
            return True
        with self._session.lock:
            self._session.check()
            return self._held.get(_place(key)) == key

    def describe(self) -> StoreDescription:
        """Return where the store is, its version and its size on the server."""
        query = "SELECT version, pg_total_relation_size('evalkit_completions') FROM evalkit_store"
        version, size = self._writer.run(lambda connection: _one(connection, query))
        return StoreDescription(self.name, version, size)

    def close(self) -> None:
        """Release every claim and close the connections."""
        # The server ends a session's locks after it reads the end of the connection: too late for
        # whoever is next.
        self._session.close("SELECT pg_advisory_unlock_all()" if self._held else "")
        self._held.clear()
        self._writer.close()

    def _fetch(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._writer.run(
            lambda connection: _execute(connection, statement, *values).fetchall()
        )

    def _look_up(self, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        query = "SELECT key, model, value, digest FROM evalkit_completions WHERE key = ANY (?)"
        if keys:
            return self._session.run(
                lambda connection: _execute(connection, query, [*keys]).fetchall()
            )
        return []

    def _rows(self) -> Iterator[tuple[int, StoredCompletion | None]]:
        # Not a cursor: a long transaction would keep the server from cleaning up, and end with its
        # connection.
        query = (
            f"SELECT place, {COLUMNS} FROM evalkit_completions WHERE place > ? ORDER BY place"
            " LIMIT ?"
        )
        position = 0
        while rows := self._fetch(query, position, CHUNK):
            for position, *row in rows:
                yield position, stored_in(*row)

    def _change(self, work: Callable[[Execute], T], name: str = "") -> T:
        def transaction(connection: Connection) -> T:
            with connection.transaction():
                # Its own statement: one that waits for the lock sees what was there before.
                connection.execute(
                    "SELECT pg_advisory_xact_lock(%s)", (_place(f"state {name}"),)
                )
                return work(partial(_execute, connection))

        return self._writer.run(transaction)

    def _insert(self, rows: Sequence[Row], *, replace: bool) -> int:
        """Write rows in one commit, and return their number.

        If the claim of a key was lost, another worker may have stored an answer meanwhile: then
        that one stays.
        """
        if not rows:
            return 0
        # One statement cannot update a row twice. The last row of a key counts, or the first if
        # nothing is replaced.
        unique: dict[str, Row] = {}
        for row in rows:
            if replace or row.key not in unique:
                unique[row.key] = row
        self._session.check()
        # Whoever claimed a lost key since may have paid for an answer too: the stored one
        # remains.
        keep = [key for key in unique if not replace or key in self._lost]
        # columns[i][j] is column i of row j, as `unnest` expects them.
        columns = [list(column) for column in zip(*unique.values(), strict=True)]
        return self._writer.run(
            lambda connection: _execute(connection, _PUT, *columns, keep).rowcount
        )

    def _free_space(self) -> None:
        self._writer.run(
            lambda connection: connection.execute("VACUUM evalkit_completions")
        )

    def _pooled(self) -> str:
        return (
            f"{self.name}: claims do not hold, because a pooler shares this connection "
            "(transaction pooling); use session pooling, or connect to the server itself"
        )

    def _lose_claims(self) -> None:
        self._lost.update(self._held.values())
        self._held.clear()

    def _prepare(self, connection: Connection) -> None:
        """Create the store, or bring it to this version.

        Raises:
            StoreError: If it is newer than this version, or missing and to be read only.
        """
        if self._is_ready(_version(connection)):
            return
        # Not a lock of the transaction: a transaction that began before another one's end may not
        # see its tables.
        connection.execute("SELECT pg_advisory_lock(%s)", (_MIGRATION_LOCK,))
        try:
            with connection.transaction():
                version = _version(connection)
                if not self._is_ready(version):
                    for step in MIGRATIONS[version or 0 :]:
                        connection.execute(step)
                    connection.execute(
                        "UPDATE evalkit_store SET version = %s", (len(MIGRATIONS),)
                    )
        finally:
            connection.execute("SELECT pg_advisory_unlock(%s)", (_MIGRATION_LOCK,))

    def _is_ready(self, version: int | None) -> bool:
        if version is None and self.read_only:
            raise StoreError(
                f"{self.name}: there is no store; name another database in store.url"
            )
        if version is not None and version > len(MIGRATIONS):
            raise StoreError(
                f"{self.name}: written by a newer evalkit (store version {version}, this one reads "
                f"{len(MIGRATIONS)}); update evalkit, or name another database in store.url"
            )
        return version == len(MIGRATIONS) or self.read_only


def _once(url: str, work: Callable[[Connection], T]) -> T:
    link = _Link(_Database(url, read_only=True))
    try:
        return link.run(work, patient=False)
    finally:
        link.close()


def _version(connection: Connection) -> int | None:
    if _one(connection, "SELECT to_regclass('evalkit_store')")[0] is None:
        return None
    return int(_one(connection, "SELECT version FROM evalkit_store")[0])


def _one(connection: Connection, query: str, *values: object) -> tuple[Any, ...]:
    row = connection.execute(query, values or None).fetchone()
    if row is None:
        raise StoreError(
            "the PostgreSQL store is damaged: a table is empty; name another database in store.url"
        )
    return row


def _execute(
    connection: Connection, statement: str, *values: object
) -> psycopg.Cursor[tuple[Any, ...]]:
    return connection.execute(
        statement.replace("?", "%s"), [*map(_bytes, values)], binary=True
    )


def _bytes(value: object) -> object:
    """Return a text, and each text in a list, as bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [*map(_bytes, value)]
    return value


def _place(key: str) -> int:
    # Advisory locks are signed numbers of 64 bits.
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
