"""`direct_score` against a real server: every field of the published schema, weights as given, no score made up."""

import json

import pytest

import evalkit
from evalkit.core.errors import ConfigError
from tests.support.fake_provider import said
from tests.support.judging import SCORED as INPUT
from tests.support.judging import scoring


async def test_every_field_is_there_by_its_published_name(provider, overrides):
    provider.rule = scoring({"accuracy": 5, "clarity": 4, "completeness": 2})
    found = (await evalkit.direct_score(INPUT, overrides=overrides)).model_dump(by_alias=True)
    assert found.pop("metadata").keys() == {"evaluationTimeMs", "criteriaCount", "rubricScale"}
    assert found == {
        "success": True,
        "scores": [
            {
                "criterion": name,
                "score": score,
                "maxScore": 5.0,
                "justification": f"why {name}",
                "examples": ["patterns"],
            }
            for name, score in (("accuracy", 5.0), ("clarity", 4.0), ("completeness", 2.0))
        ],
        "overallScore": pytest.approx(11 / 3),
        "weightedScore": pytest.approx(0.4 * 5 + 0.3 * 4 + 0.3 * 2),
        "summary": {"strengths": ["short"], "weaknesses": ["thin"], "suggestions": ["say more"]},
        "error": None,
        "trust": None,
    }


async def test_the_levels_reach_the_judge(provider, overrides):
    provider.rule = scoring({"accuracy": 5, "clarity": 4, "completeness": 2})
    await evalkit.direct_score({**INPUT, "context": "For a school."}, overrides=overrides)
    text = str(provider.requests[0]["messages"])
    assert all(
        word in text
        for word in ("fails entirely", "flawless", "For a school.", "A beginner can follow.")
    )


@pytest.mark.parametrize(("scale", "top"), [("1-3", 3), ("1-5", 5), ("1-10", 10)])
async def test_each_scale(scale, top, provider, overrides):
    provider.rule = scoring({"accuracy": top, "clarity": top, "completeness": 1})
    result = await evalkit.direct_score({**INPUT, "rubric": {"scale": scale}}, overrides=overrides)
    assert (result.metadata.rubric_scale, result.metadata.criteria_count) == (scale, 3)
    assert [row.max_score for row in result.scores] == [top] * 3
    assert result.weighted_score == pytest.approx(0.7 * top + 0.3)


async def test_weights_that_do_not_sum_to_one_are_relative(provider, overrides):
    provider.rule = scoring({"accuracy": 5, "clarity": 2})
    criteria = [{"name": "accuracy", "weight": 1}, {"name": "clarity", "weight": 0.5}]
    result = await evalkit.direct_score({**INPUT, "criteria": criteria}, overrides=overrides)
    assert result.weighted_score == pytest.approx((5 + 0.5 * 2) / 1.5)
    assert result.overall_score == pytest.approx(3.5)


@pytest.mark.parametrize("score", [0, 6, 3.5, "very good", None, True])
async def test_a_score_off_the_scale_is_no_score(score, provider, overrides):
    provider.rule = scoring({"accuracy": score, "clarity": 4, "completeness": 2})
    result = await evalkit.direct_score(INPUT, overrides=overrides)
    assert (result.success, result.overall_score, result.weighted_score, result.scores) == (
        False,
        None,
        None,
        [],
    )
    assert "accuracy" in result.error
    assert len(provider.requests) == 2, "asked again once"
    json.dumps(result.model_dump(by_alias=True), allow_nan=False)


async def test_the_second_answer_counts_when_it_can_be_read(provider, overrides):
    provider.script.append(said("I think it is fine."))
    provider.rule = scoring({"accuracy": 3, "clarity": 3, "completeness": 3})
    result = await evalkit.direct_score(INPUT, overrides=overrides)
    assert (result.success, result.weighted_score) == (True, 3.0)


def test_the_sync_twin(provider, overrides):
    provider.rule = scoring({"accuracy": 5, "clarity": 4, "completeness": 2})
    assert evalkit.direct_score_sync(**INPUT, overrides=overrides).success


@pytest.mark.parametrize(
    "wrong",
    [
        {"rubric": {"scale": "1-7"}},
        {"rubric": {"scale": "1-3", "levelDescriptions": {"4": "beyond"}}},
        {"rubric": {"scale": "1-3", "levelDescriptions": {"²": "a digit, and no number"}}},
        {"criteria": []},
        {"criteria": [{"name": "accuracy", "weight": 1.5}]},
        {"criteria": [{"name": "accuracy", "weight": -0.1}]},
        {"criteria": [{"name": "accuracy", "weight": 0}]},
        {"criteria": [{"name": "a"}, {"name": "a"}]},
    ],
)
async def test_a_wrong_input_is_refused_before_any_call(wrong, provider, overrides):
    with pytest.raises(ConfigError):
        await evalkit.direct_score({**INPUT, **wrong}, overrides=overrides)
    assert provider.requests == []
