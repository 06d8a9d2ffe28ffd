"""The registry of stores by URL scheme."""

from collections.abc import Mapping
from types import MappingProxyType

BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "sqlite": "evalkit.store.sqlite:SqliteStore",
        "postgresql": "evalkit.store.postgres:PostgresStore",
        "postgres": "evalkit.store.postgres:PostgresStore",
    }
)
"""URL scheme → `module:class`; other packages register theirs as entry points of the group
`evalkit.stores`."""
