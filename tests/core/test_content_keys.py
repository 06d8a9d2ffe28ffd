"""Content keys and hashes."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalkit.core import spool
from evalkit.core.hashing import canonical_json, content_key, digest
from evalkit.core.spool import HashSet, count_repeats, find_new

texts = st.text(st.characters(codec=None, exclude_categories=()))
EVERY = "".join(map(chr, range(0x3000))) + "\ud800\U0001f600\udfff\uffff\U0010ffff"


@given(texts, texts, texts, st.none() | texts, st.none() | texts, st.integers(0, 9))
@example(EVERY.replace("\ud800", "").replace("\udfff", ""), EVERY, EVERY, EVERY, EVERY, 0)
def test_it_is_that_of_the_whole_request(system, user, model, api_base, look, sample):
    params, answer = (
        {"temperature": 0.1, "stop": [user]},
        {"name": "answer", "schema": {"é": system}},
    )
    messages = [("system", system), ("user", user)]
    request = {
        "answer": answer,
        "api_base": api_base,
        **({} if look is None else {"look": look}),
        "messages": [{"role": role, "content": content} for role, content in messages],
        "model": model,
        "params": params,
        "sample": sample,
        "v": 1,
    }
    assert digest(request) == content_key(
        model=model,
        api_base=api_base,
        messages=messages,
        params=canonical_json(params),
        answer=canonical_json(answer),
        sample=sample,
        look=look,
    )


ENDS = (-(2**63), -1, 0, 1, 2**63 - 1)
hashes = st.lists(
    st.one_of(st.sampled_from(ENDS), st.integers(-(2**63), 2**63 - 1), st.integers(0, 9)),
    max_size=60,
)


def held(values: list[int]) -> HashSet:
    kept = HashSet()
    for value in values:
        kept.add(value, value % 7)
    return kept


@given(hashes, hashes, hashes)
def test_they_are_what_sets_say(one, two, three):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "_HELD", 8)
        kept, others = held(one), [held(two), held(three)]
        fresh = {*one} - {*two} - {*three}
        assert len(kept) == len(one)
        assert find_new(kept, others) == (len(fresh), sum(value % 7 for value in fresh))
        assert count_repeats(kept) == {value for value in one if one.count(value) > 1}
        kept.extend(two)
        both = [*one, *two]
        assert len(kept) == len(both)
        assert count_repeats(kept) == {value for value in both if both.count(value) > 1}


def test_a_hundred_thousand_are_counted():
    draw = random.Random(0)
    values = [draw.randrange(-(2**63), 2**63) for _ in range(60_000)]
    kept, other = HashSet(), HashSet()
    for value in [*values, *values[:40_000]]:
        kept.add(value, 3)
    other.extend(values[50_000:])
    assert find_new(kept) == (60_000, 180_000)
    assert find_new(kept, [other]) == (50_000, 150_000)
    assert count_repeats(kept) == {*values[:40_000]}
