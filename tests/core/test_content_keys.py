"""A content key is the hash of canonical JSON, however its parts are encoded."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from evalkit.core.hashing import canonical_json, content_key, digest

texts = st.text(st.characters(codec=None, exclude_categories=()))
EVERY = "".join(map(chr, range(0x3000))) + "\ud800\U0001f600\udfff\uffff\U0010ffff"


@given(texts, texts, texts, st.none() | texts, st.none() | texts, st.integers(0, 9))
@example(EVERY.replace("\ud800", "").replace("\udfff", ""), EVERY, EVERY, EVERY, EVERY, 0)
def test_it_is_that_of_the_whole_request(
    system: str, user: str, model: str, api_base: str | None, look: str | None, sample: int
) -> None:
    params, answer = {"temperature": 0.1, "stop": [user]}, {"name": "answer", "schema": {"é": system}}
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
