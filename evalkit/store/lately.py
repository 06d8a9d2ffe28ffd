"""The answers of a model that were stored last: what the next ones may be like."""

from __future__ import annotations

from evalkit.store.rows import Row, completion_in
from evalkit.store.sqlite import SqliteStore
from evalkit.types import Completion

LOOKED_AT = 5_000
"""Rows, the last ones, among which a model's are looked for: there is no index by model."""
MOST = 500


def lately(store: SqliteStore, model: str) -> list[Completion]:
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
