"""A model's last answers in a store: those that are still to come may be like them."""

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
