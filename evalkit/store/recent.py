"""A model's answers in a store: whether there are any, and the last ones, which the next may be like."""

from __future__ import annotations

from evalkit.store.sqlite import Row, SqliteStore, completion_in
from evalkit.types import Completion

LOOKED_AT = 5_000
"""Rows, the last ones, among which a model's are looked for: there is no index by model."""
MOST = 500


def recent_answers(store: SqliteStore, model: str) -> list[Completion]:
    """Return a model's last answers, at most `MOST`; damaged ones are left out.

    Raises:
        StoreError: if the file cannot be read.
    """
    last = "rowid > (SELECT max(rowid) FROM completions) - ?"
    query = f"SELECT key, model, created, value, NULL FROM completions WHERE {last} AND model = ? ORDER BY rowid DESC"
    rows = store.locked(lambda db: db.execute(f"{query} LIMIT ?", (LOOKED_AT, model, MOST)).fetchall())
    found = []
    for row in rows:
        try:
            found.append(completion_in(Row(*row)))
        except ValueError:
            continue
    return found


def count(store: SqliteStore) -> int:
    """Return about how many answers a store holds: more than that it never does.

    Raises:
        StoreError: if the file cannot be read.
    """
    [(most,)] = store.locked(lambda db: db.execute("SELECT max(rowid) FROM completions").fetchall())
    return int(most or 0)


def holds(store: SqliteStore, model: str) -> bool:
    """Say whether a store has any answer of a model; it looks at every row where it has none.

    Raises:
        StoreError: if the file cannot be read.
    """
    query = "SELECT 1 FROM completions WHERE model = ? LIMIT 1"
    return bool(store.locked(lambda db: db.execute(query, (model,)).fetchall()))
