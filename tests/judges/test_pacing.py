from __future__ import annotations

import pytest

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.judges import make_judges
from evalkit.judges.error_mapping import pause_from_headers
from evalkit.types import JudgeRequest
from tests.support.fake_provider import Reply, said

NOON = 1_767_182_400.0  # 2025-12-31T12:00:00Z


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "6m0s"}, 0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2.5s"}, 62.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "250ms"}, 0.25),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7"}, 7),
        ({"x-ratelimit-remaining-tokens": "0"}, 0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, 0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1000h"}, 600),
        (
            {
                "anthropic-ratelimit-output-tokens-remaining": "0",
                "anthropic-ratelimit-output-tokens-reset": "2025-12-31T12:00:09Z",
            },
            9,
        ),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2025-12-31T11:00:00Z",
            },
            0,
        ),
    ],
)
def test_headers_say_how_long_to_rest(headers, seconds):
    assert pause_from_headers(headers, now=lambda: NOON) == pytest.approx(seconds)


@pytest.mark.parametrize("transport", ["litellm", "direct"])
async def test_a_judge_passes_on_what_its_last_answer_said(provider, transport, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-1234")
    spent = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6s"}
    provider.script.extend([Reply(said().body, headers=spent), said()])
    config = JudgeConfig(model="openai/gpt-4o-mini", api_base=provider.api_base, transport=transport)
    [judge] = make_judges(config, RunnerConfig())
    request = JudgeRequest("c", (0,), (0,), ({"role": "user", "content": "hello"},))
    rests = []
    for _ in range(2):
        await judge.complete(request)
        rests.append(judge.rest)
    await judge.close()
    assert rests == [6.0, 0.0]
