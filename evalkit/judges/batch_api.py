"""Send a file of requests to a provider's batch API through LiteLLM, and get its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from evalkit.config import JudgeConfig
from evalkit.core.errors import JudgeSetupError
from evalkit.core.values import JsonObject, frozen
from evalkit.guard.credentials import is_withheld
from evalkit.guard.hosts import host_of
from evalkit.guard.known_hosts import FLAG
from evalkit.judges import setup
from evalkit.judges.error_mapping import call_error, clean_message

TAG = "evalkit"
"""The key of the metadata by which a batch is found again."""
_PROVIDERS = ("openai", "hosted_vllm", "litellm_proxy")
"""The providers whose files and batches LiteLLM passes on in OpenAI's format."""
_ENDED = ("completed", "failed", "expired", "cancelled")
_PAGE = 100


@frozen
class BatchStatus:
    """A batch: its status in OpenAI's words, how many requests are done, its files, and
    why it failed as a whole.
    """

    id: str
    status: str
    ended: bool
    done: int
    files: tuple[str, ...]
    error: str


class BatchApi:
    """The batch API of one judge's provider.

    A call that may have succeeded is not repeated, but raises a CallError.
    """

    def __init__(self, config: JudgeConfig, timeout: float) -> None:
        self._config, self._timeout = config, timeout
        self._litellm: Any = None
        self._target: setup.Target | None = None
        self._settings: JsonObject = {}

    async def open(self) -> None:
        """Import LiteLLM, and check the provider, key and endpoint, once.

        Raises:
            JudgeSetupError: If no batch can be submitted.
        """
        from evalkit.judges.litellm_transport import load_litellm

        if self._target is not None:
            return
        self._litellm = await asyncio.to_thread(load_litellm)
        target = setup.resolve_target(self._litellm, self._config)
        if target.provider not in _PROVIDERS:
            raise JudgeSetupError(
                f"{target.model}: evalkit cannot create batches of provider {target.provider}"
                " through LiteLLM",
                where="runner.kind",
                remedy=(
                    "use runner=default, `evalkit batch write`, or a LiteLLM proxy"
                    " (litellm_proxy/…)"
                ),
            )
        await setup.check(target, judge=self._config.label)
        _, _, key, base = self._litellm.get_llm_provider(
            target.model, api_base=self._config.api_base
        )
        connection = {"api_key": key, "api_base": base, **target.settings}
        if is_withheld(
            self._config.api_base
        ):  # their clients read the environment, too
            problem = (
                f"a file names {self._config.api_base}, which gets no key, and batches need"
                " one"
            )
            host = host_of(str(self._config.api_base))
            remedy = f"if you trust this server, add {FLAG} {host}"
            raise JudgeSetupError(problem, where="judge.api_base", remedy=remedy)
        # Neither LiteLLM nor OpenAI's client may repeat a call: the first one may have created a
        # batch. LiteLLM makes a client for each call, and never closes it.
        overrides = {
            "max_retries": 0,
            "num_retries": 0,
            "timeout": self._timeout,
            "extra_headers": {"Connection": "close"},
        }
        self._settings = {
            name: value
            for name, value in connection.items()
            if value is not None and name != "model"
        } | overrides
        self._settings["custom_llm_provider"] = target.provider
        self._target = target

    async def submit(self, file: Path, tag: str, check: Callable[[], None]) -> str:
        """Upload a file of requests, `check`, create a batch with a tag in its
        metadata, and return the batch's id.
        """
        uploaded = await self._call(
            "create_file", file=(f"{tag}.jsonl", file.read_bytes()), purpose="batch"
        )
        # After the upload, which may take long, and right before the call that costs.
        check()
        settings = {
            "completion_window": "24h",
            "endpoint": "/v1/chat/completions",
            "metadata": {TAG: tag},
        }
        return str(
            (await self._call("create_batch", input_file_id=uploaded.id, **settings)).id
        )

    async def find(self, tag: str, since: float) -> str | None:
        """Return the id of the batch with a tag, created after a time; `None` if there is none."""
        after: dict[str, str] = {}
        while True:
            page = await self._call("list_batches", limit=_PAGE, **after)
            rows = list(getattr(page, "data", None) or ())
            for row in rows:
                if (getattr(row, "metadata", None) or {}).get(TAG) == tag:
                    return str(row.id)
            last = rows[-1] if rows and getattr(page, "has_more", False) else None
            if (
                last is None
                # A server that ignores `after` would send the same page forever.
                or last.id == after.get("after")
                or (last.created_at or 0) < since
            ):
                return None
            after = {"after": last.id}

    async def look(self, batch: str) -> BatchStatus:
        """Return the status of a batch."""
        status = await self._call("retrieve_batch", batch_id=batch)
        counts = status.request_counts
        errors = getattr(status.errors, "data", None) or ()
        done = 0 if counts is None else (counts.completed or 0) + (counts.failed or 0)
        files = tuple(
            name for name in (status.output_file_id, status.error_file_id) if name
        )
        error = clean_message("; ".join(str(entry.message) for entry in errors))
        return BatchStatus(
            batch, status.status, status.status in _ENDED, done, files, error
        )

    async def download(self, file: str, path: Path) -> None:
        """Write a file of the provider to `path`."""
        content = await self._call("file_content", file_id=file)
        await asyncio.to_thread(path.write_bytes, content.content)

    async def _call(self, name: str, **arguments: Any) -> Any:
        """Call LiteLLM.

        Raises:
            CallError: If the call fails.
            JudgeSetupError: If the key is refused.
        """
        try:
            return await asyncio.to_thread(
                partial(getattr(self._litellm, name), **arguments, **self._settings)
            )
        except Exception as error:
            mapped = call_error(error)
            if mapped.kind == "auth" and self._target is not None:
                raise setup.setup_error(self._target, mapped) from error
            raise mapped from error
