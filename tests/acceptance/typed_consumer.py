"""What a project that uses evalkit gives to mypy, which fails in `.ci/run` if a type or an error here is another."""

from __future__ import annotations

from typing import assert_type

from evalkit import RunConfig, RunResult, direct_score_sync, load_config, pairwise_compare, run


def use() -> None:
    config = load_config(overrides=["dataset.limit=2"])
    result = run(config)
    assert_type(config, RunConfig)
    assert_type(result, RunResult)
    assert_type(result.metrics["agreement/accuracy"].low, float | None)
    assert_type(direct_score_sync(prompt="p", response="r").weighted_score, float | None)
    print(config.no_such_key)  # type: ignore[attr-defined]
    run("config")  # type: ignore[arg-type]


async def winner() -> str | None:
    return (await pairwise_compare(prompt="p", response_a="a", response_b="b")).winner
