"""Prompts kept for the next who asks: the same ones as filled anew, and not those of other files or values."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.errors import PromptError
from evalkit.prompting import Prompts, templates
from evalkit.prompting.render_cache import RenderCache


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> RenderCache:
    kept = RenderCache()
    monkeypatch.setattr(templates, "RENDER_CACHE", kept)
    return kept


def write(folder: Path, text: str, name: str = "ask") -> Prompts:
    (folder / "en").mkdir(parents=True, exist_ok=True)
    (folder / "en" / f"{name}.md.j2").write_text(text)
    return Prompts("en", [folder])


def test_a_prompt_is_filled_once_for_equal_files_and_values(
    tmp_path: Path, filled: RenderCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path, "{{ x }} and {{ y }}").render("ask", x="a", y=["b"])
    monkeypatch.setattr(templates, "_messages", None)
    again = Prompts("en", [tmp_path])
    assert again.render("ask", x="a", y=["b"]) is first
    assert list(again.hashes()) == ["en/ask.md.j2"]
    with pytest.raises(PromptError):
        again.render("ask", x="a", y=["c"])


def test_another_text_value_or_type_is_another_prompt(tmp_path: Path, filled: RenderCache) -> None:
    one = write(tmp_path, "{{ x }}")
    texts = {one.render("ask", x=x)[0]["content"] for x in ("1.5", 1, 1.0, True, None, [1], (1,))}
    assert texts == {"1.5", "1", "1.0", "True", "None", "[1]", "(1,)"}
    assert write(tmp_path, "now {{ x }}").render("ask", x=1)[0]["content"] == "now 1"


def test_values_that_are_not_plain_and_files_that_are_named_as_they_are_filled_are_never_kept(
    tmp_path: Path, filled: RenderCache
) -> None:
    class Odd:
        text = "first"

        def __str__(self) -> str:
            return self.text

    odd, prompts = Odd(), write(tmp_path, "{{ x }}")
    assert prompts.render("ask", x=odd)[0]["content"] == "first"
    odd.text = "second"
    assert prompts.render("ask", x=odd)[0]["content"] == "second"
    write(tmp_path, "inner", "inner")
    assert write(tmp_path, "{% include x %}").render("ask", x="en/inner.md.j2")[0]["content"] == "inner"
    write(tmp_path, "other", "inner")
    assert Prompts("en", [tmp_path]).render("ask", x="en/inner.md.j2")[0]["content"] == "other"


def test_no_more_is_kept_than_there_is_room_for() -> None:
    kept = RenderCache(most=10)
    keys = [kept.key("ask", {}, {"x": k}) for k in range(5)]
    for key in keys:
        kept.keep(key, ({"role": "user", "content": "four"},))
    assert [kept.get(key) is not None for key in keys] == [False, False, False, False, True]
