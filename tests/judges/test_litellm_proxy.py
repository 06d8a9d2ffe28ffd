"""Judges behind LiteLLM's own proxy, which runs only where `litellm[proxy]` is installed."""

import os
import shutil
import subprocess
import time
from importlib.util import find_spec
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.support.fake_provider import serving
from tests.support.llama_server import free_port
from tests.support.provider_play import TRANSPORTS, play, verdict

COMMAND = os.environ.get("EVALKIT_LITELLM_PROXY") or shutil.which("litellm")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(
        not (os.environ.get("EVALKIT_LITELLM_PROXY") or find_spec("litellm_proxy_extras")),
        reason="litellm[proxy] is not installed; EVALKIT_LITELLM_PROXY may name its command",
    ),
]
KEY = "sk-loopback-7f3a9c2e5b8d41606f1e2d3c4b5a6978"
_SECONDS = 300.0
CONFIG = """
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "{base}", api_key: none}}
  - model_name: dear
    litellm_params:
      model: openai/m
      api_base: "{base}"
      api_key: none
      input_cost_per_token: 0.001
      output_cost_per_token: 0.001
litellm_settings: {{num_retries: 0}}
router_settings:
  provider_budget_config:
    openai: {{budget_limit: 0.05, time_period: 1d}}
"""
"""An answer of `dear` costs 0.015: six of them are more than the budget."""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    """Start the proxy in front of a provider on loopback."""
    with serving() as provider:
        provider.rule = lambda _: verdict()
        path = tmp_path_factory.mktemp("proxy") / "proxy.yaml"
        path.write_text(CONFIG.format(base=provider.api_base), "utf-8")
        port = free_port()
        environment = {
            **os.environ,
            "LITELLM_MASTER_KEY": KEY,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        process = subprocess.Popen(
            [COMMAND, "--config", str(path), "--port", str(port), "--host", "127.0.0.1"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(process, f"http://127.0.0.1:{port}/health/liveliness")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()


def _wait(process, address):
    opener = build_opener(ProxyHandler({}))
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, "the proxy ended"
        try:
            with opener.open(address, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise TimeoutError("the proxy does not answer")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("LITELLM_PROXY_API_KEY", KEY)


def through(proxy, folder, capfd, transport, model="m"):
    return play(
        folder,
        capfd,
        lambda *_: verdict(),
        transport=transport,
        model=f"litellm_proxy/{model}",
        address=proxy,
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_answers_come_through(proxy, tmp_path, capfd, transport):
    played = through(proxy, tmp_path, capfd, transport)
    assert played.statuses == {"ok": 6}, played.errors


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_unknown_model_ends_the_run(proxy, tmp_path, capfd, transport):
    played = through(proxy, tmp_path, capfd, transport, "nope")
    assert played.status == 1
    assert "check judge.model" in played.output


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_wrong_key_ends_the_run(proxy, tmp_path, capfd, monkeypatch, transport):
    monkeypatch.setenv("LITELLM_PROXY_API_KEY", "sk-wrong")
    played = through(proxy, tmp_path, capfd, transport)
    assert played.status == 1
    assert "LITELLM_PROXY_API_KEY" in played.output


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_spent_budget_ends_the_run(proxy, tmp_path, capfd, transport):
    for name in ("spends", "ends"):
        folder = tmp_path / name
        folder.mkdir()
        played = through(proxy, folder, capfd, transport, "dear")
    assert played.status == 1
    assert "add credit or raise the budget" in played.output
