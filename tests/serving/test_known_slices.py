"""A judge that is a coin in one language: warnings, unknown slices, refusals, and older files of trust."""

import json
from dataclasses import replace
from typing import Any

import pytest

import evalkit
from evalkit.core.errors import ConfigError
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case, Response
from evalkit.runs import read_run
from evalkit.serving.known_slices import KnownSlices
from evalkit.serving.rating import AdaptedJudge
from evalkit.serving.trust import describe_trust
from tests.serving.conftest import make_judge
from tests.support.serving import served

COUNT = 160
TEXTS = {
    "prompt": "Question 5: is sport healthy?",
    "response_a": "good: it strengthens the heart (5)",
    "response_b": "bad: you will look better (5)",
}


def case(number: int) -> dict[str, Any]:
    """Return a pair whose label follows the good response in English, and nothing in German."""
    texts = [f"good: it strengthens the heart ({number})", f"bad: you look better ({number})"]
    best = number % 2
    german = number % 3 == 0
    label = (number // 6) % 2 if german else best
    return {
        "id": str(number),
        "prompt": f"Question {number}: is sport healthy?",
        "response_a": texts[best],
        "response_b": texts[1 - best],
        "label": "AB"[label],
        "language": "de" if german else "en",
    }


@pytest.fixture
def folder(finished, provider, tmp_path):
    def make() -> None:
        words = ("swap.policy=none", "scoring.bootstrap=200")
        make_judge(provider, tmp_path, *words, cases=[case(number) for number in range(COUNT)])

    finished("sliced", make)
    provider.requests.clear()
    return tmp_path / "judge"


def warned(verdict: Any) -> list[str]:
    return [warning.kind for warning in verdict.trust.warnings]


def test_the_judge_warns_in_the_slice_and_where_the_slice_is_unknown(folder, provider):
    trust = json.loads((folder / "trust.json").read_text())
    (where,) = trust["decision"]["where"]
    assert (where["column"], where["slice"], where["allows"]) == ("language", "de", "none")
    assert "not where language is de" in trust["decision"]["sentence"]
    assert trust["searched"]["columns"] == ["language", "length", "prompt_length", "length_ratio"]
    judge = evalkit.load_judge(folder, api_base=provider.api_base)
    for metadata, kinds in (
        ({"language": "en"}, []),
        ({"language": "de"}, ["slice"]),
        ({"language": ["en", "de"]}, ["slice"]),
        ({"language": "fr"}, ["slice_unknown"]),
        ({"language": ""}, ["slice_unknown"]),
        ({"tone": "de"}, ["slice_unknown"]),
    ):
        verdict = judge.sync(**TEXTS, metadata=metadata)
        assert warned(verdict) == kinds
    verdict = judge.sync(**TEXTS)
    (warning,) = verdict.trust.warnings
    assert warning.kind == "slice_unknown"
    assert "language" in warning.text
    assert "language" in warning.text_zh
    assert len(provider.requests) <= 1
    for wrong in ("de", {"language": {"is": "de"}}, {1: "de"}):
        with pytest.raises(ConfigError, match="mapping of columns"):
            judge.sync(**TEXTS, metadata=wrong)


def test_adapters_pass_the_metadata_of_their_frameworks(folder, provider):
    adapted = AdaptedJudge(folder, api_base=provider.api_base)
    texts = {"prompt": TEXTS["prompt"], "response_b": TEXTS["response_b"]}
    for metadata, warning in (
        ({"language": "en", "object": object()}, None),
        ({"language": "de"}, "not to be trusted where language is de."),
        (None, "no known value of language"),
    ):
        rating = adapted.rate_sync(
            texts["prompt"], TEXTS["response_a"], {"response_b": texts["response_b"]}, metadata
        )
        shown = rating.metadata.get("evalkit.warnings")
        if warning is None:
            assert shown is None
        else:
            assert warning in str(shown)


def test_a_server_that_requires_a_use_refuses_other_slices(folder, provider):
    words = (str(folder), "--api-base", provider.api_base, "--require", "rates_corrected")
    with served(*words) as server:
        status, body = server.post("/judge", {**TEXTS, "metadata": {"language": "de"}})
        assert (status, "slice:" in json.dumps(body)) == (422, True)
        status, body = server.post("/judge", TEXTS)
        assert (status, "slice_unknown:" in json.dumps(body)) == (422, True)
        assert not provider.requests
        tool = {
            "prompt": TEXTS["prompt"],
            "responseA": TEXTS["response_a"],
            "responseB": TEXTS["response_b"],
            "criteria": ["clarity"],
        }
        for metadata, kind in (({"language": "de"}, "slice:"), ({}, "slice_unknown:")):
            status, body = server.post("/pairwise_compare", {**tool, "metadata": metadata})
            assert (status, kind in json.dumps(body)) == (422, True)
        known = {**tool, "metadata": {"language": "en"}}
        assert server.post("/pairwise_compare", known)[0] == 200
        status, body = server.post("/judge", {**TEXTS, "metadata": {"language": "en"}})
        assert (status, body["trust"]["warnings"]) == (200, [])


def test_an_older_file_says_once_that_no_slices_were_searched(folder, provider, tmp_path):
    trust = json.loads((folder / "trust.json").read_text())
    del trust["searched"]
    del trust["decision"]["where"]
    (folder / "trust.json").write_text(json.dumps(trust))
    judge = evalkit.load_judge(folder, api_base=provider.api_base)
    assert [warned(judge.sync(**TEXTS)) for _ in range(2)] == [["slices_not_searched"], []]
    result = read_run(tmp_path / "run")
    config = result.config.with_({"scoring.search": "none"})
    assert describe_trust(replace(result, config=config))["searched"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"allows": "everything"},
        {"from": [], "below": None},
        {"column": None, "allows": None},
    ],
)
def test_a_damaged_slice_is_one_line(folder, provider, change):
    trust = json.loads((folder / "trust.json").read_text())
    trust["decision"]["where"][0] |= change
    (folder / "trust.json").write_text(json.dumps(trust))
    with pytest.raises(ConfigError, match="does not describe a judge"):
        evalkit.load_judge(folder, api_base=provider.api_base)


def test_the_length_of_responses_is_always_known():
    where = {"column": "length", "slice": "900..2000", "allows": "none"}
    where |= {"from": 900.0, "below": None, "computed": True}
    decision = {"use": "single", "where": [where]}
    known = KnownSlices({"decision": decision, "searched": {"values": {}}})
    for size, kinds in ((100, []), (900, ["slice"]), (5000, ["slice"])):
        asked = Case("1", "q", (Response("x" * size),), metadata={"length": "short"})
        assert [kind for kind, _ in known.warnings(asked)] == kinds
    asked = Case("1", "q", (Response("x" * 900),))
    assert [kind for kind, _ in known.warnings(asked, "rates_corrected")] == ["slice"]
    decision["where"] = [where | {"column": "case_number", "slice": "61..99", "from": 61}]
    placed = KnownSlices({"decision": decision, "searched": {"values": {}}})
    ((kind, message),) = placed.warnings(asked)
    assert kind == "slice_unknown"
    assert (
        "number 61 to 99 in the data; new cases may be like these" in in_every_language(message)[0]
    )
