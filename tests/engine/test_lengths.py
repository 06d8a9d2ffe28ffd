"""How long prompts and answers are held to be, against a real tokeniser and against answers themselves."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from scipy import stats

from evalkit.core.scale import Scale
from evalkit.engine import plan
from evalkit.engine.requests import FREE_TEXT, Kind, call_key, expected_tokens, prompt_tokens, sample_fits
from evalkit.evaluators.json_answers import pairwise_format, pointwise_format
from evalkit.types import AnswerFormat, Completion, JudgeRequest, JudgeSpec, Response, Usage
from tests.support.engine_fakes import Both, Memory, Prepared, cases

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cl100k():
    """GPT-4's own vocabulary, which LiteLLM carries."""
    import tiktoken

    spec = find_spec("litellm")
    [folder] = spec.submodule_search_locations
    file = Path(folder) / "litellm_core_utils" / "tokenizers" / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
    pattern = (
        r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"""
        r"""\s*[\r\n]|\s+(?!\S)|\s"""
    )
    lines = (line.split() for line in file.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding("cl100k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def request(text: str, answer: AnswerFormat | None = None) -> JudgeRequest:
    return JudgeRequest("c", (0,), (0,), ({"role": "user", "content": text},), answer)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_prompts_have_about_as_many_tokens_as_a_tokeniser_finds(language: str, cl100k) -> None:
    text = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "prompts" / language).glob("*.j2")))
    assert prompt_tokens(request(text)) == pytest.approx(len(cl100k.encode(text)), rel=0.15)


def test_texts_in_plain_letters_count_four_to_a_token_and_others_by_their_bytes() -> None:
    assert prompt_tokens(request("abcdefgh")) == 2
    assert prompt_tokens(request("abcde")) == 2
    assert prompt_tokens(request("评" * 100)) == 100
    assert prompt_tokens(request("ж" * 100)) == 50


def test_an_answer_is_expected_to_be_as_long_as_what_it_is_to_hold() -> None:
    lengths = [expected_tokens(pairwise_format("abc"[:n], tie_allowed=True)) for n in (1, 2, 3)]
    assert lengths[2] - lengths[1] == lengths[1] - lengths[0] > 60
    assert 300 < lengths[2] < 600
    assert expected_tokens(None) == FREE_TEXT


def test_a_stored_answer_is_known_for_one_of_a_format() -> None:
    one, two = (pairwise_format("abc"[:n], tie_allowed=True) for n in (1, 2))
    held = {"analysis": {}, "comparison": [{}], "result": {}}
    answer = Completion(json.dumps(held))
    scored = pointwise_format("a", Scale(1, 5, 1))
    assert [sample_fits(kind, answer) for kind in (one, two, scored, None)] == [True, False, False, False]
    assert [sample_fits(kind, Completion("[[A]]")) for kind in (one, None)] == [False, True]
    assert not sample_fits(one, Completion("[1]"))


def test_a_judges_own_answer_is_guessed_to_be_as_long_as_those_it_judges() -> None:
    long = replace(cases(1)[0], responses=(Response("word " * 100), Response("评" * 75)))
    own, verdict = plan([long], Prepared(Both()), [JudgeSpec("fake", "fake/model")], None).kinds
    assert (own.wanted, verdict.wanted) == (2, 2)
    assert (own.guess(), verdict.guess()) == (100.0, FREE_TEXT)


@pytest.mark.parametrize("found", [8, 20, 200])
def test_how_far_off_a_mean_may_be_is_students_interval_without_replacement(found: int) -> None:
    tokens = [100 + 7 * k % 31 for k in range(found)]
    kind = Kind(None, wanted=80)
    for count in tokens:
        kind.add(Completion("x", usage=Usage(1, count)))
    error = stats.sem(tokens) * (80 / (80 + found)) ** 0.5
    assert kind.half_width() == pytest.approx(stats.t.ppf(0.975, found - 1) * error, rel=0.01)
    kind.wanted = 0
    assert kind.half_width() == 0
    assert Kind(None, wanted=9, found=7, tokens=70).half_width() is None


def test_a_plan_counts_prompts_as_the_provider_counted_those_that_are_stored() -> None:
    store, spec = Memory(), JudgeSpec("fake", "fake/model")
    first = Both().plan(cases(1)[0])[0]
    before = plan(cases(3), Both(), [spec], store)
    store.kept[call_key(spec, first)] = Completion("x", usage=Usage(2 * prompt_tokens(first), 40), latency=0.5)
    after = plan(cases(3), Both(), [spec], store)
    assert after.token_ratio == 2
    assert after.prompt_tokens == 2 * (before.prompt_tokens - prompt_tokens(first))
    [kind] = after.kinds
    assert (kind.wanted, kind.found, kind.tokens, kind.seconds) == (5, 1, 40, 0.5)
    assert after.after([before]).unique == 0
