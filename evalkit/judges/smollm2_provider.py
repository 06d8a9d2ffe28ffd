"""Register the embedded model as a LiteLLM provider. This module imports LiteLLM, so import it late."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from litellm import ModelResponse
from litellm.llms.custom_llm import CustomLLM, CustomLLMError

from evalkit.judges.smollm2 import COPIES, model

# One thread per copy: requests queue here, where a canceled one can still be removed, and not inside the model.
_THREADS = ThreadPoolExecutor(max_workers=COPIES, thread_name_prefix="evalkit-smollm2")


class SmolLM2Provider(CustomLLM):  # type: ignore[misc]
    """Serves `local/…` models through `litellm.acompletion`."""

    async def acompletion(self, *_: Any, **call: Any) -> Any:
        """Answer one call in one of the model's own threads.

        Raises:
            CustomLLMError: With the model's status and message, if it refused the request.
        """
        settings = {name: value for name, value in call["optional_params"].items() if name != "max_retries"}
        request = {"messages": call["messages"], **settings}
        response = await asyncio.get_running_loop().run_in_executor(_THREADS, model().answer, request)
        if error := response.get("error"):
            raise CustomLLMError(int(error.get("code") or 500), f"{error.get('type')}: {error.get('message')}")
        return ModelResponse(**{**response, "model": call["model"]})
