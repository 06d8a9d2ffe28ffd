"""Cases that do not fit the judge's context: shortened to their ends, as little as possible, and counted."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import load_config
from evalkit.core.errors import ConfigError
from evalkit.core.tokens import fit_ends, message_tokens
from evalkit.core.turns import Part, parts_of, render
from evalkit.core.types import Case, Response
from tests.support.command_line import BRIEF, call_main
from tests.support.reward_server import MODEL, RewardServer

texts = st.text(st.sampled_from("ab评\n"), max_size=300)
LIMITS = st.integers(1, 999)


def size(case: Case) -> int:
    return sum(map(len, (case.prompt, case.context or "", *(one.text for one in case.responses))))


@given(
    prompt=texts,
    context=st.none() | texts,
    answers=st.lists(texts, min_size=1, max_size=3),
    most=LIMITS,
)
def test_the_longest_texts_are_cut_as_little_as_possible(prompt, context, answers, most):
    case = Case("c", prompt, tuple(Response(one) for one in answers), context=context)
    cut = fit_ends(case, lambda one: size(one) <= most)
    if size(case) <= most:
        assert cut is case
        return
    pairs = [(prompt, cut.prompt), *zip(answers, (one.text for one in cut.responses), strict=True)]
    kept = {len(old) - omitted(old, new) for old, new in pairs if old != new}
    assert len(kept) <= 1  # all texts that are cut keep equally many characters
    for length in kept:
        assert all(len(old) <= length for old, new in pairs if old == new)


def omitted(old: str, new: str) -> int:
    head, number, tail = re.fullmatch(
        r"(?s)(.*)\n\[\.\.\. ([\d,]+) characters omitted \.\.\.\]\n(.*)", new
    ).groups()
    assert old.startswith(head)
    assert old.endswith(tail)
    assert len(head) + int(number) + len(tail) == len(old)
    return int(number)


def test_a_run_shortens_shows_and_counts_what_does_not_fit(provider, here, capfd):
    RewardServer(context=400).install(provider)
    long = "quality=2.0 " + "word " * 2000 + "the end"
    rows = [
        {"id": f"c{n}", "prompt": "Why?", "responses": [text, "b"]}
        for n, text in enumerate(["a", long])
    ]
    (here / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge = [
        "judge=reward_model",
        f"judge.model=hosted_vllm/{MODEL}",
        f"judge.api_base={provider.api_base}",
    ]
    words = [*judge, "judge.context=400", "dataset=file", "dataset.path=d.jsonl", *BRIEF]
    call_main(capfd, "run", *words, "--output", "refused", status=2)
    failed = [one for one in judgments("refused") if one["status"] != "ok"]
    assert [(one["case_id"], one["error_kind"], one["criteria"]) for one in failed] == [
        ("c1", "too_long", {})
    ]
    assert (
        json.loads((here / "refused" / "metrics.json").read_text())["metrics"]["score/mean"][
            "worst_low"
        ]
        is None
    )
    provider.requests.clear()
    done = call_main(capfd, "run", *words, "dataset.fit=ends", "--output", "fitted")
    assert {one["status"] for one in judgments("fitted")} == {"ok"}
    [sent] = [
        one["messages"]
        for one in provider.requests
        if "omitted" in json.dumps(one) and one["messages"][1:]
    ][:1]
    assert sent[1]["content"].startswith("quality=2.0 word")
    assert sent[1]["content"].endswith("the end")
    assert 280 <= message_tokens(sent) <= 300
    assert "cases shortened to fit judge.context, keeping the beginning and the end of" in done.out


def judgments(run: str) -> list[dict]:
    return [
        json.loads(line) for line in Path(run, "judgments.jsonl").read_text("utf-8").splitlines()
    ]


def test_it_needs_the_context():
    with pytest.raises(ConfigError, match=r"dataset.fit: needs .* set judge.context"):
        load_config(overrides=["dataset.fit=ends", "judge.model=openai/m"])


PARTS = st.lists(
    st.builds(
        Part, st.integers(1, 5), st.sampled_from(["said", "call", "result"]), st.just("x"), texts
    ),
    min_size=1,
    max_size=5,
)


@given(before=PARTS, own=PARTS, most=st.integers(100, 999))
def test_in_conversations_results_of_tools_are_cut_first_and_no_heading_is_lost(before, own, most):
    case = Case("c", render(before), (Response(render(own)),))
    cut = fit_ends(case, lambda one: size(one) <= most)
    if size(case) <= most:
        assert cut is case
        return
    old, new = parts_of(case), parts_of(cut)
    assert [replace(one, text="") for one in new] == [replace(one, text="") for one in old]


def test_only_results_are_cut_if_that_is_enough():
    parts = [
        Part(1, "said", "user", "u" * 300),
        Part(1, "result", "f", "r" * 900),
        Part(1, "result", "g", "s" * 200),
    ]
    case = Case("c", render(parts[:1]), (Response(render(parts[1:])),))
    said, long, short = parts_of(fit_ends(case, lambda one: size(one) <= 1100))
    assert (said.text, short.text) == ("u" * 300, "s" * 200)
    assert 0 < omitted(parts[1].text, long.text) < 500
    said, long, short = parts_of(fit_ends(case, lambda one: size(one) <= 400))
    assert all("omitted" in one.text for one in (said, long, short))


@pytest.mark.parametrize("own", [0, 50, 400])
@pytest.mark.parametrize("fixed", [0, 300, 500])
def test_a_prompt_that_is_too_long_without_the_case_is_an_error(fixed, own):
    case = Case("c", "q" * own, (Response("a" * own),), context="x" * own)

    def fits(one):
        return fixed + size(one) <= 400

    if fixed <= 400:
        cut = fit_ends(case, fits)
        assert (cut is case) == fits(case)
    else:
        with pytest.raises(
            ConfigError,
            match=r"the prompt does not fit judge\.context even without the texts of case 'c'",
        ):
            fit_ends(case, fits)


def test_a_long_template_is_one_line_before_any_call(provider, here, capfd):
    RewardServer(context=400).install(provider)
    (here / "d.jsonl").write_text(
        json.dumps({"id": "c", "prompt": "Why?", "responses": ["a", "b"]}) + "\n"
    )
    words = [
        "judge=gpt-4o-mini",
        f"judge.api_base={provider.api_base}",
        "judge.context=400",
        "dataset.fit=ends",
    ]
    long = f"criteria.quality.description='{'be careful ' * 300}'"
    done = call_main(
        capfd, "run", *words, f"+{long}", "dataset=file", "dataset.path=d.jsonl", *BRIEF, status=1
    )
    line = done.err.strip().splitlines()[-1]
    assert (
        "dataset.fit=ends: the prompt does not fit judge.context even without the texts of case 'c'"
        in line
    )
    assert not provider.requests
