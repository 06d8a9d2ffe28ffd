"""LiteLLM's price list, read from its file: without importing LiteLLM, and without the network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evalkit.config import JudgeConfig, Price
from evalkit.judges.specs import FREE
from evalkit.types import Usage

_FILE = "model_prices_and_context_window_backup.json"
_TIERED = "input_cost_per_token_above_"
_THOUSANDS = re.compile(r"(\d+)k_tokens")
_ANY_TIER = (None, "auto", "on_demand")
_BASE_TIERS = (*_ANY_TIER, "default", "standard")
_DISCOUNTING = ("fireworks_ai",)  # cached tokens cost less than others there, and the list has not how much
_VARYING = {"tiered_pricing", "off_peak_pricing"}


@cache
def price_list() -> Mapping[str, Any]:
    """Return the list by model name; empty where LiteLLM is not installed."""
    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / _FILE).is_file():
            held: Mapping[str, Any] = json.loads(path.read_bytes())
            return held
    return {}


def price_of(config: JudgeConfig) -> Price | None:
    """Return what a judge's tokens cost, by its config, else by the list; none where that is not known.

    Of a server at an address of one's own the list says nothing.
    """
    if config.price is not None:
        return config.price
    model = config.model or ""
    if model.startswith(FREE):
        return Price(input=0, output=0)
    listed = price_list().get(model) or price_list().get(model.partition("/")[2]) or {}
    reading, writing = listed.get("input_cost_per_token"), listed.get("output_cost_per_token")
    if config.api_base is not None or reading is None or writing is None:
        return None
    return Price(input=round(reading * 1e6, 9), output=round(writing * 1e6, 9))


def tier_of(served: str | None, asked: object) -> object:
    """Return the service tier by which a call is priced: the one that served it, else the one that was asked for."""
    return asked if served in _ANY_TIER else served


def listed_cost(
    provider: str, models: tuple[str | None, ...], usage: Usage, cached: int, tier: object = None
) -> float | None:
    """Return the US$ of one call by the first of `models` that has a price with `provider`, or none.

    Prompt tokens that the provider had `cached` are counted at their own price. None, too, where the price hangs on
    more than the numbers of tokens (a service `tier` of its own, a long prompt), and where the list does not say what
    cached tokens cost.
    """
    entry = next((found for model in models if (found := _priced(provider, model))), None)
    prompt, written = usage.prompt_tokens, usage.completion_tokens
    if entry is None or prompt is None or written is None or tier not in _BASE_TIERS or not _flat(entry, prompt):
        return None
    each, known = entry["input_cost_per_token"], min(cached, prompt)
    reread = entry.get("cache_read_input_token_cost", None if provider in _DISCOUNTING else each)
    if known and reread is None:
        return None
    reading = (prompt - known) * each + (known * reread if known else 0)
    return float(reading + written * entry["output_cost_per_token"]) or None


def _flat(entry: Mapping[str, Any], prompt: int) -> bool:
    """Say whether a prompt of this length is read and answered at the entry's first prices, at any time of day."""
    tiers = [found for name in entry if name.startswith(_TIERED) and (found := _THOUSANDS.match(name, len(_TIERED)))]
    return not _VARYING & set(entry) and all(prompt < 1000 * int(tier[1]) for tier in tiers)


def _priced(provider: str, model: str | None) -> Mapping[str, Any] | None:
    for name in (f"{provider}/{model}", model or ""):
        entry: Mapping[str, Any] = price_list().get(name) or {}
        if entry.get("litellm_provider") == provider and {"input_cost_per_token", "output_cost_per_token"} <= set(
            entry
        ):
            return entry
    return None
