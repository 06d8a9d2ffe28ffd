"""Whether anything answers at an address, found out before the first call."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from evalkit.errors import JudgeSetupError

CONNECT_SECONDS = 5.0


async def check_reachable(api_base: str, *, judge: str) -> None:
    """Connect to the host and port of `api_base` once.

    Raises:
        JudgeSetupError: if nothing listens there. Behind a proxy nothing is checked: the way there is not ours.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(api_base)
    host = parts.hostname or ""
    if not host or (parts.scheme in getproxies() and not proxy_bypass(host)):
        return
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_SECONDS)
    except OSError as error:
        raise JudgeSetupError(
            f"nothing answers at {api_base}",
            where=f"judge {judge}",
            remedy="is the server running? check judge.api_base",
        ) from error
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
