"""Ask a server for its list of models, which is free: does it accept the key, and does
it have the model?
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from evalkit.config import JudgeConfig
from evalkit.core.errors import CallError, JudgeSetupError
from evalkit.guard.credentials import is_withheld
from evalkit.judges import setup
from evalkit.judges.http_bodies import ENCODINGS, read_body
from evalkit.judges.responses import error_in

_LONGEST = 4_000_000
_SHOWN = 5
_ANY_NAME = ("llamacpp", "me")
"""The owners of models whose servers (llama.cpp and its Python binding) answer to any name."""


async def confirm(target: setup.Target, config: JudgeConfig) -> None:
    """Check the key and the model of a server that speaks OpenAI's protocol; do nothing for others.

    A server without an answer, or without a list, is not an error.

    Raises:
        JudgeSetupError: If the server refuses the key, or does not have the model.
    """
    if target.provider not in setup.OPENAI_SERVERS or target.address is None:
        return
    status, body = await _models(target, config)
    if status in (401, 403):
        refusal = error_in(status, body, {})
        denied = CallError("auth", refusal.message, retryable=False, status=status)
        raise setup.setup_error(target, denied)
    if status != 200:
        return
    names = _names(body)
    if not names or target.name in names:
        return
    listed = ", ".join(sorted(names)[:_SHOWN])
    omitted = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    raise JudgeSetupError(
        f"{target.model}: {target.address} does not have this model; it has {listed}{omitted}",
        remedy="check judge.model and judge.api_base",
    )


async def _models(target: setup.Target, config: JudgeConfig) -> tuple[int, bytes]:
    """Return the status and the body of the list; the status 0 if there is no answer.

    Only a status of 200 says that the body is a list. Redirects are not followed.
    """
    from aiohttp import ClientError, ClientSession, ClientTimeout

    key = os.environ.get(f"{target.provider.upper()}_API_KEY")
    headers = {**config.headers, "Accept-Encoding": ENCODINGS}
    if key and not is_withheld(config.api_base):
        headers["Authorization"] = f"Bearer {key}"
    url = f"{(target.address or '').rstrip('/')}/models"
    limit = ClientTimeout(total=setup.CONNECT_SECONDS)
    try:
        async with (
            ClientSession(timeout=limit, auto_decompress=False) as session,
            session.get(
                url, headers=headers, allow_redirects=False, proxy=setup.proxy_of(url)
            ) as response,
        ):
            encoding = response.headers.get("content-encoding", "")
            chunks = response.content.iter_chunked(2**16)
            return response.status, await read_body(chunks, encoding, _LONGEST)
    except (CallError, ClientError, OSError, TimeoutError):
        return 0, b""


def _names(body: bytes) -> frozenset[str]:
    """Return the names in a list of models; empty if the server answers to any name."""
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError):
        return frozenset()
    entries = parsed.get("data") if isinstance(parsed, Mapping) else None
    names = set()
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping) or entry.get("owned_by") in _ANY_NAME:
            return frozenset()
        for name in (entry.get("id"), entry.get("root")):
            if isinstance(name, str):
                names.add(name)
    return frozenset(names)
