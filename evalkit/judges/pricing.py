"""Read prices from LiteLLM's price list, without importing LiteLLM and without the network."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from evalkit.config import JudgeConfig, Price
from evalkit.core.types import JudgeRequest, Usage
from evalkit.core.values import Json
from evalkit.judges.setup import FREE, ceiling
from evalkit.judges.transport_registry import TRANSPORTS

_FILE = "model_prices_and_context_window_backup.json"
_TIERED = "input_cost_per_token_above_"
_MILLION = 1e6
_DIGITS = 9
_THOUSANDS = re.compile(r"(\d+)k_tokens")
_ANY_TIER = (None, "auto", "on_demand")
_BASE_TIERS = (*_ANY_TIER, "default", "standard")
_DISCOUNTING = (
    "fireworks_ai",
)  # cached tokens are cheaper there, and the list does not have their price
_PRICES = {"input_cost_per_token", "output_cost_per_token"}
_VARYING = {"tiered_pricing", "off_peak_pricing"}


@cache
def price_list() -> Json:
    """Return the price list by model name; empty if LiteLLM does not have one."""
    spec = find_spec("litellm")
    if spec:
        paths = [
            Path(folder) / _FILE for folder in spec.submodule_search_locations or ()
        ]
    else:
        paths = []
    prices: Json = json.loads(
        next((path.read_text("utf-8") for path in paths if path.is_file()), "{}")
    )
    return prices


def entry_of(prices: Json, model: str) -> Json:
    """Return a model's entry in LiteLLM's price list, by its name with or without the
    provider; empty if missing.
    """
    listed: Json = prices.get(model) or prices.get(model.partition("/")[2]) or {}
    return listed


def batch_entry(entry: Json) -> Json:
    """Return an entry of the price list with its batch prices as its prices; few have any."""
    return {**entry, **{name: entry.get(f"{name}_batches") for name in _PRICES}}


def price_of(config: JudgeConfig, *, batch: bool = False) -> Price | None:
    """Return the price of a judge's tokens in USD per million, from its config or the price list;
    `None` if it is unknown.

    As in a run, a server at `api_base` has the prices of the model's name; batches of such a server
    have none.

    Args:
        config: The config of the judge.
        batch: Whether the price is that of the provider's batches.
    """
    if config.price is not None:
        return config.price
    model = config.model or ""
    if model.startswith(FREE):
        return Price(input=0, output=0)
    if batch:
        listed = batch_entry(entry_of(price_list(), model))
    else:
        listed = entry_of(price_list(), model)
    reading = listed.get("input_cost_per_token")
    writing = listed.get("output_cost_per_token")
    # The list has the batch prices of providers, not of other servers.
    if (batch and config.api_base is not None) or reading is None or writing is None:
        return None
    # The list has prices per token; rounding removes what the multiplication adds.
    return Price(
        input=round(reading * _MILLION, _DIGITS),
        output=round(writing * _MILLION, _DIGITS),
    )


def is_bounded(config: JudgeConfig) -> bool:
    """Return whether the most that a call can cost is known of each judge, as far as
    that is known without a call.
    """
    request = JudgeRequest("", (), (), ())
    return all(
        (member.model or "").startswith(FREE)
        or member.transport not in TRANSPORTS  # a plug-in may know it
        or ceiling(entry_of(price_list(), member.model or ""), member, request)
        is not None
        for member in config.members
    )


def tier_of(served: str | None, requested: object) -> object:
    """Return the service tier that sets a call's price: the one that served it, or else
    the one requested.
    """
    if served in _ANY_TIER:
        return requested
    return served


def listed_cost(
    provider: str,
    models: tuple[str | None, ...],
    usage: Usage,
    cached: int,
    tier: object = None,
    *,
    batch: bool = False,
) -> float | None:
    """Return the cost of one call in USD, by the first of `models` that has a price;
    `None` if it is unknown.

    It is unknown, too, if the price depends on more than the token counts (a service tier, a long
    prompt), or if the list does not have the price of cached tokens.

    Args:
        provider: LiteLLM's name of the provider.
        models: The names of the model to look up, most specific first.
        usage: The token counts of the call.
        cached: The prompt tokens that the provider had cached; they have their own price.
        tier: The service tier.
        batch: Whether the call was part of a batch; the list has such prices for few providers.
    """
    keys = [key for model in models for key in (f"{provider}/{model}", model or "")]
    entries: list[Json] = [price_list().get(key) or {} for key in keys]
    entry = next(
        (
            e
            # The provider must match too: the same model costs something else at another one.
            for e in entries
            if e.get("litellm_provider") == provider and set(e) >= _PRICES
        ),
        None,
    )
    prompt = usage.prompt_tokens
    written = usage.completion_tokens
    if entry is None or prompt is None or written is None or tier not in _BASE_TIERS:
        return None
    # The base prices apply at any time of day, and to prompts below each threshold.
    tiers = [
        match
        for name in entry
        if name.startswith(_TIERED) and (match := _THOUSANDS.match(name, len(_TIERED)))
    ]
    if _VARYING & set(entry) or any(prompt >= 1000 * int(match[1]) for match in tiers):
        return None
    if batch:
        reading, writing = (
            batch_entry(entry)[f"{way}_cost_per_token"] for way in ("input", "output")
        )
        if reading is None or writing is None:
            return None
        return float(prompt * reading + written * writing) or None
    input_price = entry["input_cost_per_token"]
    # Never more than the prompt has, or the rest would cost less than nothing.
    reused = min(cached, prompt)
    reread = entry.get(
        "cache_read_input_token_cost", None if provider in _DISCOUNTING else input_price
    )
    if reused and reread is None:
        return None
    reading = (prompt - reused) * input_price + (reused * reread if reused else 0)
    return float(reading + written * entry["output_cost_per_token"]) or None
