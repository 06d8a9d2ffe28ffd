"""The fields in the body of an error, which providers nest differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_DEEPEST = 6
_MOST_PARTS = 20
_MOST_FIELDS = 40


def fields_in(body: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield the name and the value of each field in a parsed body, also of those within others.

    Depth and number are bounded, because a server wrote the body.

    Args:
        body: The body, or a part of it.
        depth: The number of levels above this part.
    """
    if depth > _DEEPEST:
        return
    if isinstance(body, list):
        for part in body[:_MOST_PARTS]:
            yield from fields_in(part, depth + 1)
    if not isinstance(body, Mapping):
        return
    for name, value in [*body.items()][:_MOST_FIELDS]:
        yield str(name), value
        yield from fields_in(value, depth + 1)
