"""The hash of a dataset's content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from evalkit.types import Case

_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
"""As `canonical_json`, with the encoder made once: there is one call for each case."""


class Fingerprint:
    """The SHA-256 of cases' content, one after the other."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def through(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Yield cases, and take each into the hash."""
        update = self._sha.update
        for case in cases:
            update((_ENCODE(_content(case)) + "\n").encode("utf-8", "surrogatepass"))
            yield case

    def hexdigest(self) -> str:
        """Return the hash of the cases so far, in hex."""
        return self._sha.hexdigest()


def fingerprint(cases: Iterable[Case]) -> str:
    """Return the SHA-256, in hex, of the cases' content: one line of canonical JSON for each, in order."""
    sha = Fingerprint()
    for _ in sha.through(cases):
        pass
    return sha.hexdigest()


def _content(case: Case) -> dict[str, Any]:
    content = {
        "id": case.id,
        "prompt": case.prompt,
        "context": case.context,
        "reference": case.reference,
        "responses": [[r.text, r.model, r.grade] for r in case.responses],
        "label": case.label,
        "metadata": dict(case.metadata),
    }
    # A new key would change the fingerprint of every dataset that does not have it.
    return {**content, "labels": dict(case.labels)} if case.labels else content
