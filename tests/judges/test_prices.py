"""Prices come from the config, else from LiteLLM's own table, and are not guessed."""

from __future__ import annotations

import subprocess
import sys

from evalkit.config import JudgeConfig, Price
from evalkit.judges.pricing import price_of


def test_a_configured_price_comes_first() -> None:
    assert price_of(JudgeConfig(model="openai/gpt-4o-mini", price=Price(input=1, output=2))) == Price(input=1, output=2)


def test_litellms_table_is_asked_with_and_without_the_provider() -> None:
    assert price_of(JudgeConfig(model="openai/gpt-4o-mini")) == Price(input=0.15, output=0.6)
    assert price_of(JudgeConfig(model="gpt-4o-mini")) == price_of(JudgeConfig(model="openai/gpt-4o-mini"))


def test_an_unknown_price_is_none_and_not_zero() -> None:
    assert price_of(JudgeConfig(model="openai/nobody-knows")) is None


def test_a_server_has_the_prices_that_a_run_reports_and_none_for_batches() -> None:
    server = JudgeConfig(model="openai/gpt-4o-mini", api_base="http://localhost:1/v1")
    assert price_of(server) == Price(input=0.15, output=0.6)
    assert price_of(server, batch=True) is None


def test_what_runs_here_costs_nothing() -> None:
    assert price_of(JudgeConfig(model="local/smollm2-135m-instruct")) == Price(input=0, output=0)


def test_the_table_is_read_without_litellm() -> None:
    code = (
        "import sys; from evalkit.config import JudgeConfig; from evalkit.judges.pricing import price_of;"
        "assert price_of(JudgeConfig(model='openai/gpt-4o')); assert 'litellm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
