"""Call decision models through LiteLLM: `litellm.asystemone` and `litellm.adecisions`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

from evalkit.core.errors import JudgeSetupError
from evalkit.core.values import Json
from evalkit.guard.credentials import is_withheld
from evalkit.judges import setup
from evalkit.judges.adaptations import Shape
from evalkit.judges.completions import amount
from evalkit.judges.decision_protocol import asked_questions, decided, request_fields
from evalkit.judges.error_mapping import call_error, clean_message
from evalkit.judges.litellm_http import CapturedCall, captured
from evalkit.judges.litellm_transport import (
    LiteLLMTransport,
    enter,
    load_litellm,
    skip_logging,
)
from evalkit.judges.model_judge import ProviderReply
from evalkit.judges.responses import bad_response

_NEEDED = "1.110"
"""The first version of LiteLLM that has both protocols."""
_FUNCTIONS = {"systemone": "asystemone", "decisions": "adecisions"}
_UNEXPECTED = "returned an unexpected response"


class DecisionTransport(LiteLLMTransport):
    """Calls `litellm.asystemone` or `litellm.adecisions`, by `judge.endpoint`.

    Args:
        config: The config of one judge, not of a panel.
        runner: Provides the timeout of one call, in seconds.
    """

    async def open(
        self, judge: str, *, check: bool = True
    ) -> tuple[setup.Target, Shape]:
        """Import LiteLLM; return the target of the calls, and their shape.

        The questions are sent as the schema of the answer, which is the only shape. The version,
        the model and the endpoint are checked; with `check`, so is the key.

        Raises:
            JudgeSetupError: If no call to this judge can succeed.
        """
        if self._litellm is None:
            await asyncio.to_thread(load_litellm)
            self._litellm = enter()
        if not hasattr(self._litellm, _FUNCTIONS[self.config.endpoint]):
            raise JudgeSetupError(
                f"judge.endpoint={self.config.endpoint} needs LiteLLM {_NEEDED} or newer, and"
                f" {version('litellm')} is installed",
                where="judge.endpoint",
                remedy=f"pip install 'litellm>={_NEEDED}'",
            )
        target = setup.resolve_target(self._litellm, self.config)
        target = await asyncio.to_thread(self._connected, target)
        setup.check_listed_mode(self.entry(), self.config)
        if check:
            await setup.check(target, judge=judge)
        return target, Shape("json_schema")

    async def send(self, target: setup.Target, call: Json) -> ProviderReply:
        """Send one call and return the reply.

        Raises:
            CallError: If the call fails.
            JudgeSetupError: If no call to this judge can succeed.
        """
        endpoint = self.config.endpoint
        ask = getattr(self._litellm, _FUNCTIONS[endpoint])
        unsent = ("messages", "response_format")
        params = {name: value for name, value in call.items() if name not in unsent}
        call_record = CapturedCall(
            self.config.max_answer_bytes,
            openai=False,
            withheld=is_withheld(self.config.api_base),
            extra_headers=self.config.headers,
        )
        await self._wait_for_turn()
        send = partial(
            ask,
            **params,
            **request_fields(endpoint, call),
            **target.settings,
            timeout=self.timeout,
            num_retries=0,
        )
        with skip_logging(), captured(call_record):
            try:
                response = await send()
            except (JudgeSetupError, asyncio.CancelledError):
                raise
            except Exception as error:
                hidden = setup.hidden_setup_error(error, target.model)
                original = call_record.refused or hidden or call_record.failure
                if original is None and _UNEXPECTED in str(error):
                    message = clean_message(str(error))
                    original = bad_response(message, retryable=False)
                raise original or call_error(error) from error
        # LiteLLM's price list has zeros for models with an unknown price.
        cost = amount(response._hidden_params.get("response_cost")) or None
        parsed = response.model_dump()
        if endpoint == "decisions":
            _check_positions(parsed, call)
        answer = decided(parsed, call)
        return ProviderReply(replace(answer, model=answer.model or target.name), cost)

    def _connected(self, target: setup.Target) -> setup.Target:
        """Return the target with the address and the missing key of the decision provider.

        Raises:
            JudgeSetupError: If the provider has no decision models, or no address is set.
        """
        try:
            from litellm.decisions.call import get_decisions_provider_config

            provider: Any = get_decisions_provider_config(target.name, target.provider)
        except Exception as error:
            raise JudgeSetupError(
                f"{target.model}: {clean_message(str(error))}",
                where="judge.model",
                remedy="choose a decision model, or set judge.endpoint=chat",
            ) from error
        try:
            address, key = provider.resolve_connection(self.config.api_base, None)
        except Exception as error:
            raise _no_address(target, clean_message(str(error))) from error
        if address is None:
            raise _no_address(target, "no address is known")
        missing: tuple[str, ...] = ()
        if key is None and provider.api_key_required:
            names = provider.api_key_env or target.missing
            missing = tuple(names) or (f"{target.provider.upper()}_API_KEY",)
        settings = dict(target.settings)
        if missing and self.config.api_base is not None:
            settings.setdefault("api_key", "none")
        return replace(target, address=address, missing=missing, settings=settings)


def _check_positions(parsed: Json, call: Json) -> None:
    """Check that no answer can be about another question.

    LiteLLM matches the answers of this protocol by position, so a missing one moves all that follow
    it, and the last question has none.

    Raises:
        CallError: Of kind `bad_response`, if the last of several questions has no answer.
    """
    answers = parsed.get("answers")
    if not answers or len(asked_questions(call)) < 2:
        return
    if answers[-1].get("type") == "refusal":
        raise bad_response(
            "the last question has no answer, so the other answers may be about other questions;"
            " set judge.transport=direct, which matches them by name",
            retryable=False,
        )


def _no_address(target: setup.Target, why: str) -> JudgeSetupError:
    return JudgeSetupError(
        f"{target.model}: {why}",
        where="judge.api_base",
        remedy="set it to the address of the model's server",
    )
