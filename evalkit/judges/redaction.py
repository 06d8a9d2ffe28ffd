"""Keeping secrets out of everything that is shown, logged or stored."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_NAMED_LIKE_A_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 8
_PATTERNS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w\-.~+/=]{6,}"), r"\1 [redacted]"),
    (
        re.compile(r"(?i)\b(authorization|x-api-key|api-key|x-goog-api-key)(['\"]?\s*[:=]\s*['\"]?)[^\s'\",}]+"),
        r"\1\2[redacted]",
    ),
    (re.compile(r"(?i)([?&](?:api_)?key=)[^&\s'\"]+"), r"\1[redacted]"),
    (re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+@"), "[redacted]@"),
    (re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|pplx)[-_][\w\-]{6,}\**[\w\-]*"), "[redacted]"),
    (re.compile(r"\bAIza[\w\-]{20,}"), "[redacted]"),
)


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return `text` without secrets: values of environment variables named like keys, and what looks like a key."""
    variables = os.environ if environment is None else environment
    secrets = {
        value
        for name, value in variables.items()
        if len(value) >= _SHORTEST_SECRET and _NAMED_LIKE_A_SECRET.search(name)
    }
    # Longest first: one secret may be the beginning of another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
