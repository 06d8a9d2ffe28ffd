"""A blank with its texts put in is the template filled; and what tells prompts apart tells them apart exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.core.resources import shipped
from evalkit.prompting import CompiledTemplate, Prompts, neutralize

NAMES = ("task", "note", "reply")
MARKED = (
    "<task>\n{{ task }}\n</task>\n{% if note %}\n<context>\n{{ note }}\n</context>\n{% endif %}\n"
    "<response>\n{{ reply }}\n</response>\n"
)
PLACED = {
    "one message": "{{ task }}: {{ reply }} {{ fixed }}",
    "blocks": (
        "{% block system %}\nJudge {{ fixed }}.\n{% endblock %}\n"
        "{% block user %}\n{{ task }} {{ reply }}{{ reply }}\n{% endblock %}"
    ),
    "asked for": "{% if note and not reply %}{{ note }}{% elif task or fixed %}{{ reply }}{% else %}none{% endif %}",
    "in a loop": "{% for x in fixed %}{{ loop.index }} {{ x }} {{ task }}{% endfor %}",
    "marked": MARKED,
    "extended": "{% extends 'en/base.md.j2' %}{% block user %}{{ super() }}{{ reply }}{% endblock %}",
    "included": "{{ task }}{% include 'en/base.md.j2' %}",
}
LOOKED_AT = {
    "changed": "{{ task | upper }} {{ reply }}",
    "measured": "{% if task | length > 3 %}long{% endif %}",
    "compared": "{% if task == reply %}same{% endif %}{{ note }}",
    "set": "{% set x = task %}{{ x | title }}",
    "captured": "{% set x %}{{ task }}{% endset %}{{ x | upper }}",
    "a filter around it": "{% filter upper %}{{ task }}{% endfilter %}",
    "a filter around a block": "{% extends 'en/loud.md.j2' %}{% block user %}{{ task }}{% endblock %}",
    "a block once more": "{% block user %}{{ task }}{% endblock %}{{ self.user() | upper }}",
    "above, changed": "{% extends 'en/base.md.j2' %}{% block user %}{{ super() | upper }}{% endblock %}",
    "a macro": "{% macro say(x) %}{{ x | upper }}{% endmacro %}{{ say(task) }}",
    "all of a message": "{% block system %}{{ note }}{% endblock %}{% block user %}x{% endblock %}",
    "in the middle": "{{ task ~ reply }}",
    "hidden": "{% for task in fixed %}{{ task }}{% endfor %}",
}
FOUND_AS_FILLED = "{% include fixed %}"


def blank(folder: Path, template: str, **fixed: object) -> tuple[CompiledTemplate, Prompts]:
    (folder / "en").mkdir(parents=True, exist_ok=True)
    (folder / "en" / "ask.md.j2").write_text(template)
    (folder / "en" / "base.md.j2").write_text("{% block user %}{{ task }} base {{ note }}{% endblock %}")
    (folder / "en" / "loud.md.j2").write_text("{% filter upper %}{% block user %}{% endblock %}{% endfilter %}")
    prompts = Prompts("en", [folder])
    return prompts.blank("ask", NAMES, **fixed), prompts


TEXTS = ("", " ", "a", "A b", "\n", "x" * 9, "\x00evalkit:0\x00", "{{ task }}", "<b>&", "评", "\ud800")


@pytest.mark.parametrize("name", [*PLACED, *LOOKED_AT])
def test_it_is_filled_as_the_template_is(name: str, tmp_path: Path) -> None:
    made, prompts = blank(tmp_path, {**PLACED, **LOOKED_AT}[name], fixed="xyz")
    assert bool(made._sheets) == (name in PLACED)
    for number in range(len(TEXTS) ** 2):
        texts = [TEXTS[(number // step) % len(TEXTS)] for step in (1, len(TEXTS), 3)]
        assert made.fill(texts) == prompts.render("ask", fixed="xyz", **dict(zip(NAMES, texts, strict=True)))


def test_what_is_found_only_as_it_is_filled_is_filled_by_jinja(tmp_path: Path) -> None:
    made, prompts = blank(tmp_path, FOUND_AS_FILLED, fixed="en/base.md.j2")
    assert not made._sheets
    assert made.fill(["a", "b", "c"]) == ({"role": "user", "content": "a base b"},)
    assert made.fill(["a", "b", "c"]) == prompts.render("ask", fixed="en/base.md.j2", task="a", note="b", reply="c")


@pytest.mark.parametrize(
    ("template", "fixed", "tells"),
    [
        (MARKED, "x", True),
        (MARKED + "{{ fixed }}", "<task>", True),
        (MARKED + "{{ fixed }}", "<task>\n", False),
        ("{{ fixed }}" + MARKED, "<context>\n", False),
        (MARKED.replace("{% endif %}", "{% else %}<context>\nnone\n</context>\n{% endif %}"), "x", False),
        (MARKED.replace("{{ reply }}", "{{ reply }} end"), "x", False),
        (MARKED.replace("{{ reply }}", "{{ note }}{{ reply }}"), "x", False),
        (MARKED.replace("response>", "answer>"), "x", False),
        (PLACED["one message"], "x", False),
    ],
)
def test_prompts_are_told_apart_only_where_every_text_stands_between_markers(
    template: str, fixed: str, tells: bool, tmp_path: Path
) -> None:
    assert blank(tmp_path, template, fixed=fixed)[0].tells is tells


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_shipped_templates_of_pairs_and_scores_can_be_told_apart(language: str) -> None:
    prompts = Prompts(language, [shipped("prompts")])
    shared = ("original_prompt", "context", "reference")
    pairs = {"criteria": [{"name": "n", "description": "d"}], "tie_allowed": True, "output": "json"}
    assert prompts.blank("pairwise", (*shared, "response_a", "response_b"), **pairs).tells


def test_equal_prompts_are_known_again_whatever_their_texts_are_called(tmp_path: Path) -> None:
    made, prompts = blank(tmp_path, MARKED, fixed="x")
    (tmp_path / "en" / "turned.md.j2").write_text(MARKED.replace("{{ task", "{{ a").replace("note", "b"))
    turned = prompts.blank("turned", ("b", "reply", "a"))
    assert turned.fill(["n", "r", "t"]) == made.fill(["t", "n", "r"])
    outlines = (made.outline([True] * 3, (0, 1, 2)), turned.outline([True] * 3, (1, 2, 0)))
    assert len({(mark, length, pick(["t", "n", "r"])) for mark, length, pick, _ in outlines}) == 1


PIECES = (
    "",
    "a",
    "\n",
    "<task>",
    "</task>",
    "\n</task>",
    "<context>\n",
    "</context>",
    "&lt;task>",
    "<",
    "/",
    "response>",
)
hostile = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> CompiledTemplate:
    return blank(tmp_path_factory.mktemp("prompts"), MARKED, fixed="x")[0]


@settings(max_examples=300)
@given(st.lists(st.tuples(hostile, hostile, hostile), min_size=2, max_size=8))
def test_equal_prompts_and_no_others_have_equal_outlines(
    marked: CompiledTemplate, many: list[tuple[str, str, str]]
) -> None:
    prompts, outlines = set(), set()
    for one in many:
        texts = [neutralize(text) for text in one]
        mark, _, pick, _ = marked.outline([bool(text) for text in texts], range(3))
        outlines.add((mark, pick(texts)))
        prompts.add(marked.fill(texts)[0]["content"])
    assert len(outlines) == len(prompts)
