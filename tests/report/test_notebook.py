"""What a notebook shows of runs, leaderboards, comparisons and judges: the report's tables, in one language."""

import re
from pathlib import Path

import pytest

import evalkit
from evalkit.core.errors import ConfigError
from evalkit.serving.folder import write_judge
from tests.report.test_page import tags

ATTACK = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Values with the same runs behind them."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["dataset=sample", "tracking=none", "scoring.bootstrap=50", "store.mode=off"]
    runs = {
        name: evalkit.run(
            evalkit.load_config(overrides=[*words, f"judge=simulated/{name}"]), folder / name
        )
        for name in ("good", "length_biased")
    }
    judge = write_judge(runs["good"], folder.parent / "judge") or evalkit.load_judge(
        folder.parent / "judge"
    )
    named = {ATTACK: runs["good"], "long": runs["length_biased"]}
    compared = evalkit.compare(named, ["agreement/accuracy"], runs["good"].config.scoring)
    return {
        "run": runs["good"],
        "board": evalkit.leaderboard(folder),
        "comparison": compared,
        "judge": judge,
    }


def cells(html: str) -> list[str]:
    return [
        " ".join(re.sub("<[^>]*>", " ", cell).split())
        for cell in re.findall(r"<t[dh].*?</t[dh]>", html, re.DOTALL)
    ]


@pytest.mark.parametrize("name", ["run", "board", "comparison", "judge"])
def test_a_value_is_a_table_without_scripts_in_one_language(shown, name):
    html = shown[name]._repr_html_()
    assert "<table" in html
    assert not {tag for tag, _ in tags(html)} & {"script", "img", "iframe", "link"}
    assert '<span class="zh"' not in html
    opened = [tag for tag, _ in tags(html)]
    assert {tag: opened.count(tag) for tag in ("div", "table", "details")} == {
        tag: html.count(f"</{tag}>") for tag in ("div", "table", "details")
    }
    accuracy = shown["run"].metrics["agreement/accuracy"]
    assert f"[{accuracy.low:.3f}, {accuracy.high:.3f}]" in " ".join(
        cells(html)
    )  # every number has its interval


def test_a_run_has_the_table_of_its_report(shown):
    run = shown["run"]
    page = re.sub(
        '<span class="zh" lang="zh">[^<]*</span>',
        "",
        (Path(run.folder) / "report.html").read_text("utf-8"),
    )
    assert "".join(cells(page)) in "".join(cells(run._repr_html_()))


def test_texts_from_data_make_no_markup(make_run):
    html = make_run(4)._repr_html_()
    assert not {tag for tag, _ in tags(html)} & {"script", "img"}


def test_the_language_is_that_of_the_prompts(make_run):
    config = make_run(4).config
    chinese = config.model_copy(
        update={"prompt": config.prompt.model_copy(update={"language": "zh"})}
    )
    html = make_run(4, config=chinese)._repr_html_()
    assert '<span class="en"' not in html
    assert "指标" in html


def test_a_comparison_says_what_the_command_says(shown):
    html = shown["comparison"]._repr_html_()
    assert "p = " in html
    assert "first − second" in html
    with pytest.raises(ConfigError, match="at least two"):
        evalkit.compare({"one": shown["run"]})
    with pytest.raises(ConfigError, match="fewer than two runs"):
        evalkit.leaderboard(shown["run"].folder)
