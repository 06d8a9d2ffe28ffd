from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from evalkit.config import RunConfig
from evalkit.core.display import exact, span
from evalkit.report import render_report
from evalkit.report.page import asset
from evalkit.report.texts import FLAGS, PAGE, SCRIPT
from evalkit.types import Completion, Metric


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def tags(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(page)
    return parser.seen


def test_text_from_data_makes_no_markup(make_run):
    harmless = make_run(
        4, text="x", config=RunConfig(judge={"model": "m"}, criteria={"q": {}}), manifest={"mode": "pairwise"}
    )
    hostile = make_run(4)
    count = [sum(tag == "script" for tag, _ in tags(render_report(run))) for run in (harmless, hostile)]
    assert count == [3, 3]
    assert not [tag for tag, _ in tags(render_report(hostile)) if tag == "img"]


def test_the_page_asks_the_network_for_nothing(make_run):
    asked = [
        (tag, name, value)
        for tag, attributes in tags(render_report(make_run(4)))
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "action")
    ]
    assert asked == []
    assert "url(" not in render_report(make_run(0))


def test_findings_come_before_numbers_and_cases(make_run):
    page = render_report(make_run(4))
    places = [
        page.index(text) for text in ("Agreement with the labels", 'id="h-figures"', 'id="h-metrics"', 'id="cases"')
    ]
    assert places == sorted(places)


def test_a_metric_without_a_value_shows_why_and_no_number(make_run):
    why = "every case has a tie, and zeta needs cases without ties (7 cases)"
    metrics = {
        "conflict/rate": Metric("conflict/rate", None, note=why),
        "tie_rate": Metric("tie_rate", 1.0, note="all 7 cases agree: exact binomial interval"),
    }
    seen = render_report(make_run(4, metrics=metrics)).split("<script")[0]
    shown = '(<span class="en" lang="en">{}</span><span class="zh" lang="zh">{}</span>): <code>conflict/rate</code>'
    assert shown.format(why, "每个样本都有平局，而 zeta 需要没有平局的样本（7 个样本）") in seen
    assert '<span class="zh" lang="zh">7 个样本全部一致：精确二项区间</span></td>' in seen
    assert "Cases with a cycle" not in seen
    assert "None" not in seen
    assert "nan" not in seen.lower()


def test_a_thousand_cases_of_long_answers_stay_under_3_mb(make_run):
    run = make_run(1_000, text="A long answer, with some 汉字 in it. " * 80)
    long = Completion("The judge, too, had much to say of both, and said it. " * 40)
    page = render_report(replace(run, judgments=tuple(replace(one, completion=long) for one in run.judgments)))
    assert 2_000_000 < len(page.encode()) < 3_000_000
    whole, short = map(int, re.findall(r"(\d+) of 1,000 cases have their full texts here.*?other (\d+)", page)[0])
    assert whole + short == 1_000
    assert whole > 100


def test_lone_surrogates_can_be_written(make_run):
    render_report(make_run(4, text="half a pair \ud83d")).encode("utf-8")


@pytest.mark.parametrize("empty", ["cases", "metrics"])
def test_a_run_with_nothing_in_it_still_has_a_page(make_run, empty):
    changes = {"metrics": {}} if empty == "metrics" else {"cases": (), "verdicts": (), "judgments": ()}
    assert "</html>" in render_report(replace(make_run(4), **changes))


def test_numbers_keep_three_decimals_unless_whole():
    assert [exact(x) for x in (None, 0.5, 3.0, 1234.5678, -0.25)] == ["", "0.500", "3", "1,234.568", "-0.250"]
    assert (span(0.0, 0.05), span(1.0, 3.0)) == ("[0.000, 0.050]", "[1, 3]")


def test_every_word_is_in_both_languages():
    for table in (FLAGS, PAGE, SCRIPT):
        assert all(english and chinese for english, chinese in table.values())
    used = set(re.findall(r'say\("(\w+)"', asset("report.js")))
    assert used <= set(SCRIPT)


def test_findings_alone_load_no_template_engine():
    code = "import sys, evalkit.report; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_table_of_metrics_has_the_headings_of_the_catalog(make_run):
    names = ["tie_rate", "win_rate/a", "position/consistency", "agreement/kappa", "criteria/overall_disagreement"]
    names += ["mt_bench/agreement", "judge/small/tie_rate", "mine/own"]
    page = render_report(make_run(2, metrics={name: Metric(name, 0.5, n=2) for name in names}))
    table = page.split('id="h-metrics"')[1].split("</table>")[0]
    headings = re.findall(r'class="group".*?lang="en">(.*?)<', table)
    assert headings == ["Verdicts", "Order and repeats", "Agreement", "MT-Bench", "small", "Other metrics"]
    assert [table.count(f"<code>{name}</code>") for name in names[:5]] == [1] * 5
    assert table.index("win_rate/a") < table.index(">Order and repeats<") < table.index("position/consistency")
    assert 'lang="zh">顺序与重复<' in table
