"""Keep secrets out of everything that is written, shown, logged or stored: refuse
configs, and redact texts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evalkit.core.patterns import lazy_pattern

_PARTS = lazy_pattern(r"(?<=[a-z])(?=[A-Z])|[\W_]+")
_CHOSEN = lazy_pattern(
    r"\w*(?:SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?", re.IGNORECASE
)
_ISSUED = lazy_pattern(
    r"(?!(?:MON|DON|TUR|HOC|JOC|WHIS|HOT)KEY)\w*(?:KEY|TOKEN)S?", re.IGNORECASE
)
_CHOSEN_AT_THE_END = frozenset(("PASS", "PWD", "PAT"))
# a variable with such an ending is about a secret, and does not contain it
_OF_A_SECRET = frozenset(
    ("LIMIT", "LIMITS", "MAX", "MIN", "COUNT", "SIZE", "LENGTH", "BUDGET", "TTL", "EXPIRY",
     "TIMEOUT", "NAME", "TYPE", "MODE", "LAYOUT", "ALGORITHM", "FORMAT", "MODEL", "ENABLED",
     "REQUIRED")
)  # fmt: skip
_ENDING = lazy_pattern(r"(KEY|TOKEN|SECRET|PASSWORD)S?$", re.IGNORECASE)
_PLACEHOLDERS = frozenset(  # what servers that check no key are given
    ("empty", "notneeded", "notrequired", "notused", "unused", "nokey", "nokeyrequired",
     "sknokeyrequired", "ollama", "lmstudio", "localhost", "placeholder", "dummykey", "testkey",
     "fakekey", "changeme")
)  # fmt: skip
_SHORTEST_EQUAL = 6
_SHORTEST_SECRET = 8
_SHORTEST_ISSUED = 16
_NO_WORD = 16  # a text of this many letters is not a word
_PLAIN = lazy_pattern(r"(?:[A-Za-z]{0,15}\d{0,4}|\d+[A-Za-z]{0,2})(?:[\W_]+|$)")
_USERINFO = lazy_pattern(r"(?<=://)([^/\s'\"@]*)@")
_PASSED = lazy_pattern(
    r"(?i)([?&;](?:api_?key|key|access_?token|auth_?token|token|secret|client_secret"
    r"|password|passwd|pwd|sig|signature|"
    r"x-amz-signature|x-amz-credential|x-amz-security-token)=)[^&\s'\"]+"
)
_KEYS = frozenset(
    ("apikey", "apitoken", "accesstoken", "authtoken", "bearertoken", "password", "passwd",
     "secret", "clientsecret", "authorization", "xapikey", "credentials")
)  # fmt: skip
_DATABASE = lazy_pattern(r"(?!https?:)[\w+.-]+://[^/\s:@]*@")
_SHAPES = lazy_pattern(
    r"(?<![A-Za-z0-9])(?:"
    r"(?P<openai>sk-(?:proj|svcacct|admin|None)-[\w-]{20,}|sk-[A-Za-z0-9]{20,})"
    r"|(?P<anthropic>sk-ant-[\w-]{16,})"
    r"|(?P<openrouter>sk-or-(?:v\d-)?[\w-]{16,})"
    r"|(?P<github>gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"
    r"|(?P<gitlab>glpat-[\w-]{16,})"
    r"|(?P<aws>(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9]))"
    r"|(?P<google>AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,})"
    r"|(?P<huggingface>hf_[A-Za-z]{24,}|hf_[A-Za-z0-9]{24,}|api_org_[A-Za-z0-9]{24,})"
    r"|(?P<slack>xox[abeoprs]-[\w-]{10,}|xapp-\d-[\w-]{10,})"
    r"|(?P<groq>gsk_[A-Za-z0-9]{20,})"
    r"|(?P<xai>xai-[A-Za-z0-9]{20,})"
    r"|(?P<perplexity>pplx-[A-Za-z0-9]{20,})"
    r"|(?P<replicate>r8_[A-Za-z0-9]{20,})"
    r"|(?P<nvidia>nvapi-[\w-]{20,})"
    r"|(?P<databricks>dapi[0-9a-f]{32})"
    r"|(?P<stripe>[rs]k_(?:live|test)_[A-Za-z0-9]{16,})"
    r"|(?P<npm>npm_[A-Za-z0-9]{30,})"
    r"|(?P<pypi>pypi-[\w-]{30,})"
    r"|(?P<sendgrid>SG\.[\w-]{16,}\.[\w-]{16,})"
    r"|(?P<jwt>eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,})"
    r"|(?P<private>-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----)"
    r")"
)
"""The shapes of well-known keys; a name of each is the provider's."""
_PATTERNS = (
    # A short word in a sentence ("Hydra's basic launcher") is no credential.
    (
        re.compile(
            r"(?i)\b(bearer|basic)\s+(?!(?-i:[a-z]{1,15})(?![\w\-~+/=]|\.\w))[\w\-.~+/=]{6,}"
        ),
        r"\1 [redacted]",
    ),
    (
        re.compile(
            r"(?i)\b(authorization|x-api-key|api-key|x-goog-api-key)(['\"]?\s*[:=]\s*['\"]?)"
            # A word of a message about such a key is no credential.
            r"(?!\[redacted\]|(?-i:an?|are|can|cannot|contains|expected|has|invalid|is"
            r"|missing|must|names|no|not|required|set|the|was)(?:[\s,.;:)]|$))"
            r"(?:(?:basic|bearer|digest|negotiate|token)\s+)?[^\s'\",}]+"
        ),
        r"\1\2[redacted]",
    ),
    (_PASSED, r"\1[redacted]"),
    (_USERINFO, "[redacted]@"),
    (
        re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|pplx)[-_][\w\-]{6,}\**[\w\-]*"),
        "[redacted]",
    ),
    (re.compile(r"\bAIza[\w\-]{20,}"), "[redacted]"),
    (_SHAPES, "[redacted]"),
)


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return `text` without secrets: values of environment variables named like keys,
    and texts that look like keys.
    """
    values = [
        value
        for value in _secrets(environment).values()
        if len(value) >= _SHORTEST_SECRET and not is_placeholder(value)
    ]
    spellings = {form for value in values for form in (value, _quoted(value))}
    # Longest first: one secret may be a prefix of another.
    for secret in sorted(spellings, key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def without_password(text: str) -> str:
    """Return `text` without the user and password of URLs."""
    return _USERINFO.sub("", text)


def secret_in(text: str, secrets: Mapping[str, str] | None = None) -> str | None:
    """Describe the secret in a text of a config, without the secret itself.

    `None` if there is none.

    `secrets` are the values of environment variables by name, if they are known.
    """
    for userinfo in _USERINFO.finditer(text):
        if ":" in userinfo[1] or (userinfo[1] and not _DATABASE.match(text)):
            return "contains a URL with a password"
    if _PASSED.search(text):
        return "contains a URL with a key"
    if shape := _SHAPES.search(text):
        return f"contains what looks like a key ({shape.lastgroup})"
    for name, value in (_secrets(None) if secrets is None else secrets).items():
        # A value that is the whole text is more suspicious than one inside of a longer text.
        whole = text.strip() == value
        if not (value in text or _quoted(value) in text) or _is_path(value):
            continue
        # The name ends in KEY or the like: its value is a secret, however plain it looks.
        if whole and names_secret(name) and not is_placeholder(value):
            return f"contains the value of ${name}"
        if len(value) < _SHORTEST_SECRET:
            continue
        # A password may be a word that occurs in any text; a generated key is not a word.
        if (
            (whole or len(value) >= _NO_WORD or not value.isalpha())
            if _is_chosen(name)
            else _is_issued(value)
        ):
            return f"contains the value of ${name}"
    return None


def secrets_of(
    value: Any, key: str = "", secrets: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each key of a config with a secret, and what is wrong with it, as the end of a
    sentence.

    Args:
        value: The config, or a part of it.
        key: The dotted key of this part; empty for the whole.
        secrets: The values that are secret here, with their descriptions; `None` to look them up.
    """
    # Looked up once for the whole config.
    known = _secrets(None) if secrets is None else secrets
    if isinstance(value, str):
        if (secret := secret_in(value, known)) is not None:
            yield key, secret
    elif isinstance(value, Mapping):
        for name, part in value.items():
            inner = f"{key}.{name}" if key else str(name)
            if (
                isinstance(part, str)
                and part
                # api_key, apiKey and API-KEY are one name.
                and re.sub(r"[\W_]", "", str(name)).casefold() in _KEYS
            ):
                yield inner, "contains a secret"
            elif secret_in(str(name), known) is not None:
                yield key, "has a key that contains a secret"
            else:
                yield from secrets_of(part, inner, known)
    elif isinstance(value, Sequence):
        for index, part in enumerate(value):
            yield from secrets_of(part, f"{key}.{index}", known)


def remedy_for(key: str) -> str:
    """Return how to pass a secret instead of writing it under a key."""
    if key.startswith("tracking.uri"):
        return (
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or the whole URI as"
            " MLFLOW_TRACKING_URI, which evalkit reads directly"
        )
    if key.startswith("store.url"):
        return (
            "set PGPASSWORD, or write the password into ~/.pgpass; a URL in EVALKIT_STORE may hold"
            " it, too"
        )
    if key.startswith("judge"):
        return "set the provider's environment variable instead"
    return (
        "set an environment variable instead: "
        "configs are written to the run folder and to MLflow"
    )


@lru_cache(maxsize=256)  # each text of a config is compared with each variable
def _quoted(value: str) -> str:
    """Return a value as a URL has it."""
    return quote(value, safe="")


def _secrets(environment: Mapping[str, str] | None) -> dict[str, str]:
    variables = os.environ if environment is None else environment
    return {
        name: value
        for name, value in variables.items()
        if len(value) >= _SHORTEST_EQUAL and _named_like_a_secret(name)
    }


def names_secret(name: str) -> bool:
    """Return whether an environment variable's name says that its value is a secret,
    whatever it looks like.
    """
    return _named_like_a_secret(name) and _ENDING.search(name) is not None


def is_placeholder(value: str) -> bool:
    """Return whether a value is what servers that check no key are given, such as `EMPTY`."""
    return re.sub(r"[\W_]", "", value).casefold() in _PLACEHOLDERS


@lru_cache(maxsize=1024)  # each text that is redacted asks about all variables
def _named_like_a_secret(name: str) -> bool:
    parts = [part for part in _PARTS.split(name) if part]
    if not parts or parts[-1].upper() in _OF_A_SECRET:
        return False
    return _is_chosen(name) or any(_ISSUED.fullmatch(part) for part in parts)


def _is_chosen(name: str) -> bool:
    parts = [part for part in _PARTS.split(name) if part]
    return any(_CHOSEN.fullmatch(part) for part in parts) or (
        len(parts) > 1 and parts[-1].upper() in _CHOSEN_AT_THE_END
    )


def _is_issued(value: str) -> bool:
    """Return whether a value looks generated: words, numbers, and names of models and
    places do not.
    """
    return len(value) >= _SHORTEST_ISSUED and _PLAIN.sub("", value) != ""


def _is_path(value: str) -> bool:
    """Return whether a value is the path of a file with the secret, like
    GOOGLE_APPLICATION_CREDENTIALS.
    """
    try:
        return value.startswith(("/", "~", ".")) and Path(value).expanduser().exists()
    except (OSError, RuntimeError):
        return False
