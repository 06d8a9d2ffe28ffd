"""A template filled in part and then with a case's texts gives what filling it at once gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalkit.core.resources import shipped
from evalkit.prompting import Prompts

NAMES = ("task", "note", "reply")
IN_PIECES = {
    "one message": "{{ task }}: {{ reply }} {{ fixed }}",
    "blocks": (
        "{% block system %}\nJudge {{ fixed }}.\n{% endblock %}\n"
        "{% block user %}\n{{ task }} {{ reply }}{{ reply }}\n{% endblock %}"
    ),
    "tested": "{% if note %}{{ note }}{% elif reply %}{{ reply }}{% elif fixed %}{{ fixed }}{% else %}none{% endif %}",
    "in a loop": "{% for x in fixed %}{{ loop.index }} {{ x }} {{ task }}{% endfor %}",
    "marked": "<task>\n{{ task }}\n</task>\n{% if note %}\n<context>\n{{ note }}\n</context>\n{% endif %}\n{{ reply }}",
    "all of a message": "{% block system %}{{ note }}{% endblock %}{% block user %}x{% endblock %}",
}
AS_A_WHOLE = {
    "changed": "{{ task | upper }} {{ reply }}",
    "measured": "{% if task | length > 3 %}long{% endif %}",
    "compared": "{% if task == reply %}same{% endif %}{{ note }}",
    "negated": "{% if not note %}{{ task }}{% endif %}",
    "chosen": "{{ task if note else reply }}",
    "set": "{% set x = task %}{{ x | title }}",
    "captured": "{% set x %}{{ task }}{% endset %}{{ x | upper }}",
    "a filter around it": "{% filter upper %}{{ task }}{% endfilter %}",
    "a block once more": "{% block user %}{{ task }}{% endblock %}{{ self.user() | upper }}",
    "a macro": "{% macro say(x) %}{{ x | upper }}{% endmacro %}{{ say(task) }}",
    "joined": "{{ task ~ reply }}",
    "hidden": "{% for task in fixed %}{{ task }}{% endfor %}",
    "extended": "{% extends 'en/base.md.j2' %}{% block user %}{{ super() | upper }}{{ reply }}{% endblock %}",
    "extended in a filter": "{% extends 'en/loud.md.j2' %}{% block user %}{{ task }}{% endblock %}",
    "included": "{{ task }}{% include 'en/base.md.j2' %}",
}
TEXTS = ("", " ", "a", "A b", "\n", "x" * 9, "\x00evalkit:0\x00", "{{ task }}", "<b>&", "评", "\ud800")


@pytest.mark.parametrize("name", [*IN_PIECES, *AS_A_WHOLE])
def test_it_is_filled_as_the_template_is(name: str, tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "ask.md.j2").write_text((IN_PIECES | AS_A_WHOLE)[name])
    (tmp_path / "en" / "base.md.j2").write_text("{% block user %}{{ task }} base {{ note }}{% endblock %}")
    (tmp_path / "en" / "loud.md.j2").write_text("{% filter upper %}{% block user %}{% endblock %}{% endfilter %}")
    prompts = Prompts("en", [tmp_path])
    partial = prompts.partial("ask", NAMES, fixed="xyz")
    assert partial._in_pieces == (name in IN_PIECES)
    for number in range(len(TEXTS) ** 2):
        texts = dict(zip(NAMES, (TEXTS[number // step % len(TEXTS)] for step in (1, len(TEXTS), 3)), strict=True))
        assert partial.fill(**texts) == prompts.render("ask", fixed="xyz", **texts)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("name", "shown"), [("pairwise", ("response_a", "response_b")), ("pointwise", ("response",))])
def test_shipped_templates_are_filled_in_pieces(name: str, shown: tuple[str, ...], language: str) -> None:
    prompts = Prompts(language, [shipped("prompts")])
    names = ("criteria", "tie_allowed", "output", "output_instruction", "scale", "levels", "examples")
    fixed: dict[str, Any] = {name: {} for name in names}
    assert prompts.partial(name, ("original_prompt", "context", "reference", *shown), **fixed)._in_pieces
