"""How long a plan's calls take, by whatever lets the fewest through."""

from __future__ import annotations

import pytest

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.engine import Plan
from evalkit.engine.estimates import Length, Part, minutes


def part(requests: int, seconds: float | None = 6.0, **judge: object) -> Part:
    config = JudgeConfig.model_validate({"model": "fake/model", **judge})
    return Part(config, Plan(unique=requests, prompt_tokens=100 * requests), Length(50, seconds, "own", 20))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([part(80)], 1.0),  # 80 calls of 6 s, eight at once
        ([part(80), part(40)], 1.5),
        ([part(80, concurrency=2)], 4.0),
        ([part(80, concurrency=64)], 1.0),
        ([part(80, concurrency=2), part(40)], 4.0),
        ([part(80, model="local/smollm2")], 4.0),  # two copies answer side by side
        ([part(80, rpm=20)], 4.0),
        ([part(80, tpm=2000)], 6.0),
        ([part(80, None)], None),
        ([part(0)], 0.0),
        ([], 0.0),
    ],
)
def test_the_time_is_the_longest_that_any_limit_makes_it(parts: list[Part], expected: float | None) -> None:
    assert minutes(parts, RunnerConfig(concurrency=8)) == expected
