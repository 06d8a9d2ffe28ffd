"""A validated judge as a value: same verdicts as its run, one payment for equal requests, nothing of the run's data."""

import asyncio
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import evalkit
from evalkit.core.errors import ConfigError, EvalkitError, JudgeSetupError
from evalkit.runs import read_run
from evalkit.serving.folder import JUDGE, TRUST, read_judge, write_judge
from evalkit.serving.trust import script
from tests.serving.conftest import CASES, make_judge
from tests.support.fake_provider import Provider, Reply, refused, serving
from tests.support.judging import good_first, judging

KEY = "sk-proj-Q7planted0123456789abcdef"

FIELDS = {name: CASES[0][name] for name in ("prompt", "response_a", "response_b")}
NEW = {
    "prompt": "Question 77: is sport healthy?",
    "response_a": "bad: you will sweat a lot",
    "response_b": "good: it is fun to run",
}


def load(folder: Path, provider: Provider, **settings: Any) -> evalkit.Judge:
    return evalkit.load_judge(folder, api_base=provider.api_base, **settings)


def fingerprinted(reply: Reply, name: str) -> Reply:
    reply.body["system_fingerprint"] = name
    return reply


def kinds(verdict: Any) -> list[str]:
    return [warning.kind for warning in verdict.trust.warnings]


def test_a_stored_case_has_the_verdict_of_the_run_and_costs_nothing(judge_folder, provider):
    sent = len(provider.requests)
    run = read_run(judge_folder.parent / "run")
    verdict = load(judge_folder, provider).sync(**FIELDS)
    assert (verdict.status, verdict.winner, verdict.stored) == ("ok", run.verdicts[0].winner, True)
    assert verdict.criteria == run.verdicts[0].criteria
    assert verdict.explanation
    assert verdict.cost_usd == 0
    assert len(provider.requests) == sent
    json.dumps(verdict.json(), allow_nan=False)


def test_a_run_folder_is_a_judge_too(judge_folder, provider):
    judge = load(judge_folder.parent / "run", provider)
    assert judge.sync(**FIELDS).winner == "A"
    assert judge.trust == load(judge_folder, provider).trust


async def test_equal_requests_in_flight_are_paid_for_once(judge_folder, provider):
    sent = len(provider.requests)
    async with load(judge_folder, provider, store={"mode": "off"}) as judge:
        verdicts = await asyncio.gather(*(judge(**NEW) for _ in range(20)))
    assert {verdict.winner for verdict in verdicts} == {"B"}
    assert len(provider.requests) - sent == 2  # both orders


async def test_a_failed_call_is_missing_and_is_made_again_next_time(judge_folder, provider):
    async with load(judge_folder, provider, runner={"retries": 0}) as judge:
        provider.rule = lambda _: refused(500, "down")
        verdict = await judge(**NEW)
        assert (verdict.status, verdict.value, verdict.error_kind) == ("missing", None, "server")
        provider.rule = judging(good_first)
        assert (await judge(**NEW)).winner == "B"


async def test_a_judge_that_cannot_be_called_is_an_error_for_everybody_and_can_recover(
    judge_folder, provider
):
    provider.rule = lambda _: refused(401, "wrong key")
    async with load(judge_folder, provider) as judge:
        ends = await asyncio.gather(
            *(judge(**{**NEW, "prompt": f"Question {n}?"}) for n in range(8)),
            return_exceptions=True,
        )
        assert all(isinstance(end, JudgeSetupError) for end in ends)
        provider.rule = judging(good_first)
        assert (await judge(**NEW)).winner == "B"


async def test_the_budget_holds_for_all_calls_together(judge_folder, provider):
    sent = len(provider.requests)
    async with load(judge_folder, provider, runner={"budget_calls": 3}) as judge:
        cases = [{**NEW, "prompt": f"Question {n}?"} for n in range(4)]
        verdicts = [await judge(**case) for case in cases]
    assert len(provider.requests) - sent == 2  # a question is paid for whole or not at all
    assert [verdict.error_kind for verdict in verdicts][-1] == "budget"


async def test_a_batch_has_a_verdict_for_each_case_in_order(judge_folder, provider):
    turned = {**FIELDS, "response_a": FIELDS["response_b"], "response_b": FIELDS["response_a"]}
    async with load(judge_folder, provider) as judge:
        verdicts = await judge.batch([{**FIELDS, "id": "x"}, {**turned, "id": "x"}, NEW])
    assert [verdict.winner for verdict in verdicts] == ["A", "B", "B"]
    assert verdicts[0].verdicts[0].case_id == "x"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (
            {"prompt": "?", "response": "x"},
            "case: 1 response, and mode pairwise needs 2; pass prompt, response_a and resp",
        ),
        (
            {"prompt": "?", "response_a": "x", "response_b": "y", "responze": "z"},
            "unknown field 'responze'",
        ),
        (
            {"prompt": "?", "responses": []},
            "case: no responses, and mode pairwise needs 2; add responses to the case$",
        ),
        (
            {"response_a": "x", "response_b": "y"},
            "case: no field 'prompt'; pass prompt, response_a and response_b$",
        ),
        (
            {"prompt": 3, "response_a": ["x"], "response_b": "y"},
            "case: response_a is a list, not a text; pass a text$",
        ),
    ],
)
def test_other_fields_are_refused_before_a_call(judge_folder, provider, fields, fault):
    sent = len(provider.requests)
    with pytest.raises(EvalkitError, match=fault) as error:
        load(judge_folder, provider).sync(**fields)
    assert "\n" not in str(error.value)
    assert len(provider.requests) == sent


def test_its_folder_holds_no_key_no_path_and_no_case(judge_folder, tmp_path):
    texts = b"".join(file.read_bytes() for file in judge_folder.iterdir())
    for absent in (b"sk-test", str(tmp_path).encode(), b"strengthens", b"Question 1"):
        assert absent not in texts


def test_a_changed_file_is_refused(judge_folder, provider):
    file = judge_folder / JUDGE
    file.write_text(file.read_text().replace("temperature: 0.0", "temperature: 1.0"))
    with pytest.raises(ConfigError, match="changed after the export"):
        load(judge_folder, provider)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "decision": {"use": "gold"}}']
)
def test_a_damaged_trust_file_is_one_line(judge_folder, provider, content):
    (judge_folder / TRUST).write_text(content)
    with pytest.raises(ConfigError) as error:
        load(judge_folder, provider)
    assert "\n" not in str(error.value)


def test_a_server_that_is_not_repeated_gets_no_key(judge_folder, provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    # A server of this machine is called without the key.
    judge = evalkit.load_judge(judge_folder, runner={"budget_calls": 2}, store={"mode": "off"})
    assert judge.sync(**FIELDS).winner == "A"
    assert KEY not in str(provider.headers)
    with serving() as other:
        judge = evalkit.load_judge(
            judge_folder,
            api_base=[other.api_base, provider.api_base],
            store={"mode": "off"},
        )
    assert judge.sync(**FIELDS).winner == "A"
    assert f"Bearer {KEY}" in provider.headers[-1].values()
    # What is trusted once needs no repetition; in Python, nothing is kept.
    config = read_judge(judge_folder).config.with_({"judge.api_base": "https://gateway.example/v1"})
    read = replace(read_judge(judge_folder), config=config)
    with patch("evalkit.serving.judge.read_judge", return_value=read):
        evalkit.load_judge(judge_folder, trust=["gateway.example"])
        with pytest.raises(ConfigError, match=r"would get your key.*--trust gateway\.example"):
            evalkit.load_judge(judge_folder, trust=["gateway.example:8443"])


@pytest.mark.parametrize(
    ("api_base", "is_own"),
    [
        ("https://api.openai.com/v1", True),
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com.evil.example/v1", False),
        ("https://api.openai.com@evil.example/v1", False),
        ("https://api.anthropic.com/v1", False),
    ],
)
def test_the_providers_own_server_needs_no_repetition(judge_folder, api_base, is_own):
    read = read_judge(judge_folder)
    config = read.config.with_({"judge.api_base": api_base})
    refusal = nullcontext() if is_own else pytest.raises(ConfigError, match="would get your key")
    with (
        patch("evalkit.serving.judge.read_judge", return_value=replace(read, config=config)),
        refusal,
    ):
        evalkit.load_judge(judge_folder)


def test_warnings_name_what_the_validation_did_not_have(judge_folder, provider):
    judge = load(judge_folder, provider)
    assert kinds(judge.sync(**FIELDS)) == kinds(judge.sync(**NEW)) == []
    assert kinds(
        judge.sync(**{**NEW, "prompt": "运动对健康有好处吗？请用一句话回答这个问题吧好吗？"})
    ) == ["script"]
    assert kinds(judge.sync(**{**NEW, "response_b": "good " * 100})) == ["length"]
    rule = judging(good_first)

    def renamed(body: dict[str, Any]) -> Any:
        reply = rule(body)
        reply.body["model"] = "gpt-5-newer"
        return reply

    provider.rule = renamed
    assert kinds(judge.sync(**{**NEW, "prompt": "Question 99: is sport healthy?"})) == ["model"]
    provider.rule = lambda body: fingerprinted(rule(body), "fp_new")
    assert kinds(judge.sync(**{**NEW, "prompt": "Question 98: is sport healthy?"})) == [
        "fingerprint"
    ]


@pytest.mark.parametrize(
    ("labels", "warning"),
    [("AABB" * 40, "not_trusted"), ("A" * 39 + "B", "not_validated"), ("A" * 39 + "-", None)],
)
def test_a_judge_at_chance_or_with_labels_that_do_not_decide_has_a_warning(
    provider, tmp_path, labels, warning
):
    """The judge prefers A in every case."""
    cases = [
        {
            **CASES[0],
            "id": str(number),
            "prompt": f"Question {number}?",
            "label": {"-": None}.get(label, label),
        }
        for number, label in enumerate(labels)
    ]
    judge = load(make_judge(provider, tmp_path, cases=cases), provider)
    assert kinds(judge.sync(**{name: cases[0][name] for name in FIELDS})) == [warning] * (
        warning is not None
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [("hello", "Latin"), ("你好 ok", "Han"), ("привет", "Cyrillic"), ("12 !", ""), ("", "")],
)
def test_script_is_that_of_most_letters(text, name):
    assert script(text) == name


@pytest.mark.parametrize(
    ("overrides", "rows", "fields"),
    [
        (["mode=pointwise"], {"response": "a b c"}, {"response": "a b"}),
        (
            ["mode=listwise"],
            {"responses": ["a", "b b", "c c c"]},
            {"responses": ["x", "y y", "z z z"]},
        ),
        (["mode=pointwise", "rubric=pass_fail"], {"response": "a b c"}, {"response": "a b"}),
        (
            ["mode=checklist"],
            {"response": "a b c", "checklist": ["It is short."]},
            {"response": "a b", "checklist": ["It is short."]},
        ),
    ],
)
def test_every_mode_gives_a_verdict_and_without_labels_a_warning(here, overrides, rows, fields):
    words = ["judge=simulated/good", "tracking=none", "scoring.bootstrap=20", *overrides]
    cases = [{"id": str(n), "prompt": f"Write {n}", **rows} for n in range(4)]
    evalkit.run(evalkit.load_config(overrides=words), here / "run", cases=cases)
    write_judge(read_run(here / "run"), here / "judge")
    verdict = evalkit.load_judge(here / "judge").sync(prompt="Write 9", **fields)
    assert verdict.status == "ok"
    assert verdict.value is not None
    assert "no_labels" in kinds(verdict)
