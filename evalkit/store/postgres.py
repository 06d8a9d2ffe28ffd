"""Completions by content key in a PostgreSQL database, for workers on several machines.

A claim is a session-level advisory lock. It ends with the connection that took it, however that ends, so there are no
leases and no clocks. Texts are stored as bytes: PostgreSQL's `text` cannot hold U+0000, nor every character in every
encoding.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from evalkit.core.display import shorten
from evalkit.core.redaction import redact, without_password
from evalkit.errors import StoreError
from evalkit.protocols import Store
from evalkit.store.codec import Row, completions_in, is_damaged_state, row_of, state_in, stored_in
from evalkit.types import Completion, StoredCompletion, StoreDescription
from evalkit.values import Json

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
"""Statements that bring a store from the version of their index to the next one; the first creates it."""
RECONNECT_SECONDS = 15.0
"""How long a lost connection is opened again before the store fails."""
LOOKED_AT = 5_000
"""Rows, the last ones, among which a model's recent completions are looked for: there is no index by model."""
CHUNK = 500
_MIGRATION_LOCK = 0x65766B74
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0
# Both sides notice a connection that is gone: the client to open another one, the server to end its claims.
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
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
"""
# One statement is one commit and one round trip. Keys of the last array keep what is stored.
_PUT = """
INSERT INTO evalkit_completions (key, model, created, value, digest)
SELECT key, model, created, value, digest
FROM unnest(%b::bytea[], %b::bytea[], %b::float8[], %b::bytea[], %b::bigint[])
  WITH ORDINALITY AS new (key, model, created, value, digest, n)
ORDER BY n
ON CONFLICT (key) DO UPDATE SET model = excluded.model, created = excluded.created, value = excluded.value,
  digest = excluded.digest
WHERE NOT excluded.key = ANY (%s::bytea[])
"""
_ROW = "key, model, created, value, digest"
T = TypeVar("T")


class _Link:
    """One connection, opened when it is needed and again when it is lost; one thread uses it at a time.

    Args:
        database: What to connect to.
        lost: Called when the connection is lost.
    """

    def __init__(self, database: _Database, lost: Callable[[], None] = lambda: None) -> None:
        self.lock = threading.RLock()
        self._database, self._lost = database, lost
        self._connection: Connection | None = None
        self._closed = False

    def run(self, work: Callable[[Connection], T], *, patient: bool = True) -> T:
        """Do work that may be done twice, on a new connection if the present one is lost.

        Raises:
            StoreError: If the server cannot be reached for `RECONNECT_SECONDS`, or refuses the work.
        """
        with self.lock:
            until, wait = None, _FIRST_WAIT
            while True:
                if self._closed:
                    raise StoreError(f"{self._database.name}: the store is closed")
                try:
                    if self._connection is None:
                        self._connection = self._database.connect()
                    return work(self._connection)
                except psycopg.Error as error:
                    until = until or time.monotonic() + RECONNECT_SECONDS
                    if not (patient and self._may_repeat(error)) or time.monotonic() + wait > until:
                        raise StoreError(f"{self._database.name}: {self._database.explain(error)}") from error
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
        return isinstance(error, (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure))

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
        if psycopg is None:
            raise StoreError("store.url: PostgreSQL needs psycopg; run pip install 'evalkit-judge[postgres]'")
        self._settings = _SESSION + ("SET default_transaction_read_only = on;" if read_only else "")
        try:
            given = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:  # its message may show a part of the password
            given = {"host": "@"}
        ports = str(given.get("port") or "0").split(",")
        if any("@" in str(given.get(part, "")) for part in ("host", "dbname")) or not all(
            port.isdigit() or not port for port in ports
        ):
            raise StoreError(
                "store.url: not a PostgreSQL URL; write postgresql://user@host:5432/database, with %40 for @ and "
                "%2F for / in a name or password"
            )
        self._options = {**_CONNECTION, **given}
        self.name = redact(without_password(url))

    def connect(self) -> Connection:
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
    "shared memory": "every request in hand is a lock: raise the server's max_locks_per_transaction",
    "already exists": "the schema has another table of this name; name another database in store.url",
}


class PostgresStore(Store):
    """A store in a PostgreSQL database, for any number of threads, processes and machines.

    Args:
        url: `postgresql://user@host:port/database`, as libpq reads it; the tables are created when missing.
        read_only: Never write; a missing store is an error.
        verify: Not used: each row is checked when it is read.

    Raises:
        StoreError: If the server cannot be reached, or the store is newer than this version.
    """

    def __init__(self, url: str, *, read_only: bool = False, verify: bool = True) -> None:  # noqa: ARG002
        self._database = _Database(url, read_only=read_only)
        self.read_only = read_only
        self._held: dict[int, str] = {}
        self._lost: set[str] = set()
        # Claims and reads share a connection, so a read after a claim shows that the claim held. Writes have their own.
        self._session, self._writer = _Link(self._database, self._lose_claims), _Link(self._database)
        try:
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
        query = "SELECT current_schema(), has_schema_privilege(current_schema(), 'CREATE')"
        schema, allowed = _once(url, lambda connection: _one(connection, query))
        if not allowed:
            name = redact(without_password(url))
            raise StoreError(f"{name}: no table can be created in the schema {schema}; let its owner GRANT CREATE")

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions among `keys`."""
        if not keys:
            return {}
        query = "SELECT key, model, value, digest FROM evalkit_completions WHERE key = ANY (%b)"
        wanted = [key.encode() for key in keys]
        rows = self._session.run(lambda connection: connection.execute(query, (wanted,), binary=True).fetchall())
        return completions_in(rows, self._database.name)

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Keep completions in one commit; a newer one replaces an older.

        If the claim of a key was lost, another worker may have stored an answer meanwhile: then that one stays.

        Raises:
            StoreError: If they could not be written; then none of them was.
        """
        now = time.time()
        rows = {key: row_of(key, model, now, completion) for key, model, completion in answers}
        self._session.check()
        self._insert(list(rows.values()), [key for key in rows if key in self._lost])

    def add_many(self, rows: Sequence[StoredCompletion]) -> int:
        """Keep completions that are not stored yet, with the times they have, and return how many were new."""
        new = {row.key: row_of(row.key, row.model, row.created, row.completion) for row in reversed(rows)}
        return self._insert(list(reversed(new.values())), list(new))

    def claim(self, key: str) -> bool:
        """Claim a key and return whether it is claimed now; a key with the same 64-bit hash waits for it, too."""
        return key in self.claim_many([key])

    def release(self, key: str) -> None:
        """Give up a claim."""
        self.release_many([key])

    def claim_many(self, keys: Sequence[str]) -> set[str]:
        """Claim keys in one round trip, and return those that are claimed now."""
        if self.read_only:
            return set(keys)
        places = {_place(key): key for key in reversed(keys)}

        def take(connection: Connection) -> set[str]:
            free = [place for place in places if place not in self._held]
            query = "SELECT place, pg_try_advisory_lock(place) FROM unnest(%s::bigint[]) AS asked (place)"
            taken = {place: places[place] for place, got in connection.execute(query, (free,)) if got}
            self._held.update(taken)
            self._lost.difference_update(taken.values())
            return {*taken.values()}

        return self._session.run(take)

    def release_many(self, keys: Sequence[str]) -> None:
        """Give up claims in one round trip."""

        def give_up(connection: Connection) -> None:
            places = [place for place, key in ((_place(key), key) for key in keys) if self._held.get(place) == key]
            query = "SELECT place, pg_advisory_unlock(place) FROM unnest(%s::bigint[]) AS asked (place)"
            released: dict[int, bool] = dict(connection.execute(query, (places,)).fetchall())
            for place in places:
                del self._held[place]
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

    def states(self, prefix: str) -> Mapping[str, str]:
        """Return the texts whose names start with `prefix`."""
        query = "SELECT name, value FROM evalkit_state WHERE substring(name FOR %s) = %b ORDER BY name"
        rows = self._fetched(query, len(prefix.encode()), prefix.encode())
        return dict(state_in(self._database.name, *row) for row in rows)

    def change_state(self, name: str, change: Callable[[str | None, float], str | None]) -> None:
        """Replace a text by what `change` returns for it and the server's time."""
        key, row = name.encode(), "FROM evalkit_state WHERE name = %b"

        def work(connection: Connection) -> None:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_place(f"state {name}"),))
                # Another statement: one that waits for the lock sees what was there before.
                query = f"SELECT (SELECT value {row}), extract(epoch FROM clock_timestamp())"
                old, now = _one(connection, query, key)
                new = change(None if old is None else state_in(self._database.name, key, bytes(old))[1], float(now))
                connection.execute(f"DELETE {row}", (key,))
                if new is not None:
                    connection.execute("INSERT INTO evalkit_state VALUES (%b, %b)", (key, new.encode()))

        self._writer.run(work)

    def recent(self, model: str, limit: int = 500) -> list[Completion]:
        """Return a model's last completions among the last `LOOKED_AT` rows, at most `limit`, without damaged ones."""
        last = f"SELECT place, {_ROW} FROM evalkit_completions ORDER BY place DESC LIMIT %s"
        query = f"SELECT * FROM ({last}) AS last WHERE model = %b ORDER BY place DESC LIMIT %s"
        found = (stored_in(*row) for _, *row in self._fetched(query, LOOKED_AT, model.encode(), limit))
        return [one.completion for one in found if one is not None]

    def scan(self) -> Iterator[StoredCompletion | None]:
        """Yield every completion in the order in which they were first put, and `None` for each damaged one.

        Pages by place, not a cursor: a long transaction would keep the server from cleaning up, and end with its
        connection.

        Raises:
            StoreError: If the server fails.
        """
        for _, row in self._rows():
            yield row

    def _rows(self) -> Iterator[tuple[int, StoredCompletion | None]]:
        query = f"SELECT place, {_ROW} FROM evalkit_completions WHERE place > %s ORDER BY place LIMIT %s"
        place = 0
        while rows := self._fetched(query, place, CHUNK):
            for place, *row in rows:
                yield place, stored_in(*row)

    def prune_damaged(self) -> int:
        """Delete the rows and shared texts that are damaged, and return how many."""
        rows = [place for place, row in self._rows() if row is None]
        states = [
            name
            for name, value in self._fetched("SELECT name, value FROM evalkit_state")
            if is_damaged_state(name, value)
        ]

        def work(connection: Connection) -> int:
            with connection.transaction():
                gone = connection.execute("DELETE FROM evalkit_completions WHERE place = ANY (%s)", (rows,)).rowcount
                return gone + connection.execute("DELETE FROM evalkit_state WHERE name = ANY (%s)", (states,)).rowcount

        return self._writer.run(work)

    def prune(self, before: float) -> int:
        """Delete the rows stored before a time, make their room usable again, and return how many."""
        query = "DELETE FROM evalkit_completions WHERE created < %s"
        gone = self._writer.run(lambda connection: connection.execute(query, (before,)).rowcount)
        if gone:
            with suppress(StoreError):
                self._writer.run(lambda connection: connection.execute("VACUUM evalkit_completions"))
        return gone

    def describe(self) -> StoreDescription:
        """Return where the store is, its version and its size on the server."""
        query = "SELECT version, pg_total_relation_size('evalkit_completions') FROM evalkit_store"
        version, size = self._writer.run(lambda connection: _one(connection, query))
        return StoreDescription(self._database.name, version, size)

    def close(self) -> None:
        """Release every claim and close the connections."""
        # The server ends a session's locks after it reads the end of the connection: too late for whoever is next.
        self._session.close("SELECT pg_advisory_unlock_all()" if self._held else "")
        self._held.clear()
        self._writer.close()

    def _fetched(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._writer.run(lambda connection: connection.execute(query, values, binary=True).fetchall())

    def _insert(self, rows: Sequence[Row], keep: Sequence[str]) -> int:
        """Write rows in one commit, except the stored ones whose key is in `keep`; return how many were written."""
        if self.read_only:
            raise StoreError(f"{self._database.name}: opened read-only (store.mode=read_only), nothing can be added")
        if not rows:
            return 0
        keys, models, times, values, digests = zip(*rows, strict=True)
        texts = [[text.encode() for text in column] for column in (keys, models, values)]
        arrays = (texts[0], texts[1], list(times), texts[2], list(digests), [key.encode() for key in keep])
        return self._writer.run(lambda connection: connection.execute(_PUT, arrays).rowcount)

    def _pooled(self) -> str:
        return (
            f"{self._database.name}: claims do not hold, because a pooler shares this connection "
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
        # Not a lock of the transaction: a transaction that began before another one's end may not see its tables.
        connection.execute("SELECT pg_advisory_lock(%s)", (_MIGRATION_LOCK,))
        try:
            with connection.transaction():
                version = _version(connection)
                if not self._is_ready(version):
                    for step in MIGRATIONS[version or 0 :]:
                        connection.execute(step)
                    connection.execute("UPDATE evalkit_store SET version = %s", (len(MIGRATIONS),))
        finally:
            connection.execute("SELECT pg_advisory_unlock(%s)", (_MIGRATION_LOCK,))

    def _is_ready(self, version: int | None) -> bool:
        if version is None and self.read_only:
            raise StoreError(f"{self._database.name}: there is no store; name another database in store.url")
        if version is not None and version > len(MIGRATIONS):
            raise StoreError(
                f"{self._database.name}: written by a newer evalkit (store version {version}, this one reads "
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
        raise StoreError("the PostgreSQL store is damaged: a table is empty; name another database in store.url")
    return row


def _place(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
