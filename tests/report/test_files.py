from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from evalkit.config import RunConfig
from evalkit.report import run_files
from evalkit.report.findings.finding import as_markdown
from evalkit.results import RunResult
from evalkit.scoring import score_run

HOSTILE = "![x](http://e/i.png) <img src=x> [y](http://e) `z` <http://e>"


@given(st.text("[]()<>!`\\*_:# -\nab/", max_size=30))
@example(HOSTILE)
@example("0.52 [0.38, 0.66] (x)")
def test_a_name_of_the_data_is_only_text_in_markdown(text):
    html = MarkdownIt("commonmark").render(f"x {as_markdown(text)}")
    assert not any(f"<{tag}" in html for tag in ("a ", "img", "em", "strong", "code", "h1", "ul", "br"))
    said = html.removeprefix("<p>").removesuffix("</p>\n")
    for mark, written in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        said = said.replace(mark, written)
    assert said.split() == ["x", *text.split()]


def test_what_was_found_is_a_file_in_the_language_of_the_prompts(make_run):
    run: RunResult = make_run(8)
    for language, said in (("en", "- Label some more pairs before you decide"), ("zh", "- 请先再标注")):
        config = RunConfig.model_validate(
            {"judge": {"model": "openai/m"}, "criteria": [{"name": "overall"}], "prompt": {"language": language}}
        )
        scores = score_run(config, [], [])
        [line, *_] = run_files(config, replace(run, config=config), scores)["findings.md"].splitlines()
        assert line.startswith(said)
