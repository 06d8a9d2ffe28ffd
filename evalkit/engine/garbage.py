"""Python's collector of cyclic garbage, kept from walking what is not garbage while answers arrive."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def imports_uncollected() -> Iterator[None]:
    """Leave what is there now, mostly what was imported, out of collections as long as the block lasts.

    A full collection walks all of it, which takes as long as dozens of answers; what comes into being is collected.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
