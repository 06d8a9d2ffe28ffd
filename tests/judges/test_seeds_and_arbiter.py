"""Seeds of samples, and the judge that gives third judgments."""

from __future__ import annotations

import pytest

from evalkit.config import JudgeConfig, RunConfig, RunnerConfig
from evalkit.judges import describe_judges, make_arbiter, make_judges
from evalkit.judges.model_judge import sent_params
from evalkit.types import JudgeRequest


@pytest.mark.parametrize(
    ("params", "sample", "shared", "sent"),
    [
        ({"seed": 7, "top_p": 0.5}, 0, False, 7),
        ({"seed": 7}, 2, False, 9),
        ({"seed": 7}, 2, True, 7),
        ({"seed": 0}, 1, False, 1),
        ({"top_p": 0.5}, 2, False, None),
    ],
)
def test_each_sample_is_drawn_with_a_seed_of_its_own(params, sample, shared, sent):
    request = JudgeRequest("c", (0,), (0,), (), sample=sample, shared=shared)
    got = sent_params(params, request)
    assert got.get("seed") == sent
    assert got.get("top_p") == params.get("top_p")


def test_an_arbiter_is_made_only_where_it_is_asked():
    def made(**swap):
        config = RunConfig(judge={"model": "a/m"}, criteria=[{"name": "c"}], swap=swap)
        return make_arbiter(config)

    wise = {"model": "a/wise", "temperature": 1}
    assert made(arbiter=wise, resolve="third_pass").spec.model == "a/wise"
    assert made(arbiter=wise) is None
    assert made(arbiter=wise, resolve="third_pass", policy="none") is None
    assert made(resolve="third_pass") is None


def test_a_manifest_names_the_arbiter_where_it_is_asked():
    def told(**swap):
        return describe_judges(RunConfig(judge={"model": "a/m"}, criteria=[{"name": "c"}], swap=swap))

    wise = {"model": "a/wise", "temperature": 1}
    assert [one["model"] for one in told(arbiter=wise)] == ["a/m"]
    assert [(one["model"], one.get("arbiter")) for one in told(arbiter=wise, resolve="third_pass")] == [
        ("a/m", None),
        ("a/wise", True),
    ]


async def test_samples_are_sent_with_their_seeds(provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    config = JudgeConfig(model="openai/gpt-4o-mini", api_base=provider.api_base, seed=5)
    [judge] = make_judges(config, RunnerConfig())
    message = ({"role": "user", "content": "x"},)
    try:
        for sample in (0, 2):
            await judge.complete(JudgeRequest("c", (0,), (0,), message, sample=sample))
    finally:
        await judge.close()
    assert [request["seed"] for request in provider.requests] == [5, 7]
