"""Arguments, overrides and schemas of the tools: honored or refused in one line, and described field by field."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import evalkit
from evalkit.cli import main
from evalkit.core.errors import ConfigError
from evalkit.serving.tools import TOOLS, tool_schemas
from evalkit.serving.tools.models import schema_of
from tests.support.judging import INPUT, SCORED, always_first, good_first, judging, scoring


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["criteria=helpsteer"],
            "criteria: the tool cannot honor this override; the criteria are an argument of the tool",
        ),
        (
            ["criteria.accuracy.weight=0.9"],
            "criteria.accuracy.weight: the tool cannot honor this override",
        ),
        (["dataset.limit=3"], "dataset.limit: the tool cannot honor this override"),
        (["tracking=mlflow"], "tracking: the tool cannot honor this override"),
        (["+gate.consistency.min=0.9"], "the tool cannot honor this override"),
        (
            ["scoring.normalize=zscore"],
            "scoring.normalize: the tool cannot honor this override; it uses only",
        ),
        (
            ["runner.max_failure_rate=0.5"],
            "runner.max_failure_rate: the tool cannot honor this override",
        ),
        (
            ["rubric=likert10"],
            "rubric: the tool cannot honor this override; pairs are compared without a scale",
        ),
        (["swap=random"], "swap.policy: the tool judges both orders or the given one"),
        (
            ["scoring.weights.tone=2"],
            "scoring.weights.tone: no such criterion; choose from accuracy, clarity",
        ),
        (["tie.treshold=1"], "did you mean 'threshold'"),
    ],
)
async def test_an_override_that_cannot_be_honored_is_an_error(words, said, provider, overrides):
    with pytest.raises(ConfigError) as caught:
        await evalkit.pairwise_compare(INPUT, overrides=[*overrides, *words])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert provider.requests == []


@pytest.mark.parametrize(
    "words", [["swap=none"], ["tie.threshold=1"], ["tie=forbid"], ["dataset.limit=3"]]
)
async def test_one_response_has_no_orders_and_no_ties(words, overrides):
    with pytest.raises(ConfigError, match="the tool cannot honor this override"):
        await evalkit.direct_score(SCORED, overrides=[*overrides, *words])


@pytest.mark.parametrize(
    ("argument", "word", "said"),
    [
        ({"swapPositions": True}, "swap=none", "swap.policy: is 'none', but swapPositions is true"),
        (
            {"swapPositions": False},
            "swap=mean",
            "swap: swapPositions is false, so there is one order",
        ),
        (
            {"swapPositions": False},
            "swap.resolve=mean",
            "swap: swapPositions is false, so there is one order",
        ),
        ({"allowTie": True}, "tie=forbid", "tie.allow: is false, but allowTie is true"),
        ({"allowTie": False}, "tie.allow=true", "tie.allow: is true, but allowTie is false"),
    ],
)
async def test_an_override_that_contradicts_an_argument_is_an_error(
    argument, word, said, overrides
):
    with pytest.raises(ConfigError) as caught:
        await evalkit.pairwise_compare({**INPUT, **argument}, overrides=[*overrides, word])
    assert said in str(caught.value)


async def test_arguments_left_out_or_null_are_as_configured(provider, overrides):
    provider.rule = judging(always_first)
    nulls = {"context": None, "allowTie": None, "swapPositions": None}
    result = await evalkit.pairwise_compare(
        {**INPUT, **nulls}, overrides=[*overrides, "swap=none", "tie=forbid"]
    )
    assert (result.winner, result.position_consistency, result.metadata.positions_swapped) == (
        *("A", None, False),
    )
    assert "TIE" not in provider.requests[0]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("words", "winner", "confidence", "reason"),
    [
        (["swap.resolve=lower_confidence"], "A", 0.65, "judged"),
        (["swap.resolve=mean"], "TIE", None, "swap_disagreement"),
        (["tie.min_confidence=0.99", "swap.resolve=lower_confidence"], "TIE", 0.65, "threshold"),
    ],
)
async def test_orders_that_disagree_are_resolved_as_configured(
    words, winner, confidence, reason, provider, overrides
):
    provider.rule = judging(lambda first, _: ("A", 0.9 if first.startswith("good") else 0.6))
    result = await evalkit.pairwise_compare(INPUT, overrides=[*overrides, *words])
    assert (result.winner, result.reason) == (winner, reason)
    assert confidence is None or result.confidence == pytest.approx(confidence)
    assert [row.winner for row in result.comparison or ()] == [winner] * 2


async def test_an_arbiter_decides_where_the_orders_disagree(provider, overrides):
    provider.rule = lambda body: judging(good_first if body["model"] == "other" else always_first)(
        body
    )
    words = [
        *overrides,
        "swap=third_pass",
        "+judge@swap.arbiter=openai_compatible",
        "swap.arbiter.model=openai/other",
    ]
    result = await evalkit.pairwise_compare(
        INPUT, overrides=[*words, f"swap.arbiter.api_base={provider.api_base}"]
    )
    assert (result.winner, len(provider.requests)) == ("A", 3)
    assert [row.winner for row in result.comparison or ()] == ["A", "A"]


async def test_a_criterion_on_which_only_it_disagrees_needs_no_third_judgment(provider, overrides):
    provider.rule = judging(good_first, {"clarity": always_first})
    words = [*overrides, "swap=third_pass", "judge.temperature=1"]
    result = await evalkit.pairwise_compare(INPUT, overrides=words)
    assert (result.winner, [row.winner for row in result.comparison or ()]) == ("A", ["A", "TIE"])


async def test_weights_of_criteria_are_honored(provider, overrides):
    provider.rule = judging(
        good_first, {"clarity": lambda a, b: ("B" if a.startswith("good") else "A", 0.9)}
    )
    words = [*overrides, "scoring.weights={accuracy: 0.2, clarity: 0.8}"]
    result = await evalkit.pairwise_compare(INPUT, overrides=words)
    assert (result.winner, [row.winner for row in result.comparison or ()]) == ("B", ["A", "B"])
    assert result.overall_reasoning.endswith(
        "[This answer chose A; over all answers the result is B.]"
    )


async def test_a_config_and_overrides_are_both_honored(provider, overrides):
    provider.rule = judging(always_first)
    config = evalkit.load_config(overrides=[*overrides, "criteria=writing", "dataset.limit=3"])
    result = await evalkit.pairwise_compare(INPUT, config=config, overrides=["swap=none"])
    assert (result.winner, len(provider.requests)) == ("A", 1)


EXAMPLE = {"prompt": "Explain gravity.", "response": "It pulls.", "justification": "Brief."}


@pytest.mark.parametrize(
    ("words", "scale", "part"),
    [
        (["rubric=likert10"], "1-10", "- 4: below expectations"),
        (["rubric=decimal10"], "1.0-10.0 by 0.1", "in steps of 0.1"),
        (["rubric=own", "rubric.min=0", "rubric.max=7"], "0-7", "an integer from 0 to 7"),
        (["method=direct100"], "1-100", "an integer from 1 to 100"),
        (
            [
                "rubric.examples=[{prompt: Explain gravity., response: It pulls., scores: {accuracy: 4}, "
                "justification: Brief.}]"
            ],
            "1-5",
            "<example_task>\nExplain gravity.\n</example_task>",
        ),
    ],
)
async def test_other_scales_and_examples_are_honored(words, scale, part, provider, overrides):
    provider.rule = scoring({"accuracy": 5, "clarity": 4, "completeness": 2})
    asked = {name: value for name, value in SCORED.items() if name != "rubric"}
    result = await evalkit.direct_score(asked, overrides=[*overrides, *words])
    assert (result.metadata.rubric_scale, result.success) == (scale, True)
    assert part in provider.requests[0]["messages"][0]["content"]


async def test_examples_are_an_argument_too(provider, overrides):
    provider.rule = scoring({"accuracy": 3, "clarity": 2, "completeness": 2})
    rubric = {
        "scale": "1-3",
        "levelDescriptions": None,
        "examples": [{**EXAMPLE, "scores": {"clarity": 2}}],
    }
    await evalkit.direct_score({**SCORED, "rubric": rubric}, overrides=overrides)
    system = provider.requests[0]["messages"][0]["content"]
    assert "Justification: Brief.\nScore for clarity: 2\n" in system
    wrong = {"scale": "1-3", "examples": [{**EXAMPLE, "scores": {"clarity": 5}}]}
    with pytest.raises(ConfigError, match=r"5 is not on the scale 1-3"):
        await evalkit.direct_score({**SCORED, "rubric": wrong}, overrides=overrides)


async def test_two_scales_are_a_contradiction(overrides):
    with pytest.raises(
        ConfigError, match=r"rubric: is 1 to 10 by 1, but the argument rubric.scale is 1-5"
    ):
        await evalkit.direct_score(
            {**SCORED, "rubric": {"scale": "1-5"}}, overrides=[*overrides, "rubric=likert10"]
        )


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for one in schema:
            yield from objects(one)
    elif isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for one in schema.values():
            yield from objects(one)


@pytest.mark.parametrize("model", [model for one in TOOLS for model in (one.arguments, one.result)])
def test_every_field_is_described(model):
    schema = schema_of(model)
    Draft202012Validator.check_schema(schema)
    assert "$ref" not in json.dumps(schema)
    for part in objects(schema):
        assert part["description"]
        for name, field in part["properties"].items():
            assert len(field.get("description", "")) > 10, name


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_optional_field_accepts_null(tool):
    given = INPUT if tool.name == "pairwise_compare" else SCORED
    schema = schema_of(tool.arguments)
    for part in objects(schema):
        for name, field in part["properties"].items():
            if name not in part.get("required", ()):
                assert {"type": "null"} in field["anyOf"], name
    optional = [name for name in schema["properties"] if name not in schema["required"]]
    nulls = {**given, **dict.fromkeys(optional)}
    Draft202012Validator(schema).validate(nulls)
    without = {name: value for name, value in given.items() if name not in optional}
    assert tool.arguments.model_validate(nulls) == tool.arguments.model_validate(without)


def test_the_command_prints_what_python_returns(capsys):
    for form in ("openai", "anthropic", "mcp", "json-schema"):
        assert main(["tools", "--format", form]) == 0
        assert json.loads(capsys.readouterr().out) == tool_schemas(form)
    openai, anthropic, mcp = (tool_schemas(form) for form in ("openai", "anthropic", "mcp"))
    assert [one["function"]["name"] for one in openai] == ["pairwise_compare", "direct_score"]
    assert all(one["type"] == "function" and one["function"]["parameters"] for one in openai)
    assert [set(one) for one in anthropic] == [{"name", "description", "input_schema"}] * 2
    assert [set(one) for one in mcp["tools"]] == [
        {"name", "description", "inputSchema", "outputSchema"}
    ] * 2
    assert main(["tools"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"pairwise_compare", "direct_score"}


@pytest.mark.parametrize("words", [["--format", "yaml"], ["--form", "mcp"], ["mcp"], ["--format"]])
def test_a_wrong_word_is_one_line(words, capsys):
    assert main(["tools", *words]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


async def test_a_score_needs_a_scale(overrides):
    with pytest.raises(
        ConfigError, match=r"has classes, but this tool gives scores; choose a scale"
    ):
        await evalkit.direct_score(SCORED, overrides=[*overrides, "rubric=pass_fail"])
