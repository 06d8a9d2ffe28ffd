"""The page: its files and cases, and turns of conversations."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from evalkit.config import RunConfig
from evalkit.core.display import exact, letter, span
from evalkit.core.turns import Part, parse, render
from evalkit.core.types import Case, Completion, Judgment, Metric, Response, Verdict
from evalkit.report.case_list import (
    BUDGET,
    CaseData,
    PageBudget,
    case_row,
    flags,
    judgment_row,
    select_cases,
)
from evalkit.report.findings.finding import as_markdown
from evalkit.report.page import asset, render_report
from evalkit.report.shortened_texts import LONG
from evalkit.report.texts import FLAGS, PAGE, SCRIPT
from tests.support.chromium import shoot


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
        4,
        text="x",
        config=RunConfig(judge={"model": "m"}, criteria={"q": {}}),
        manifest={"mode": "pairwise"},
    )
    hostile = make_run(4)
    count = [
        sum(tag == "script" for tag, _ in tags(render_report(run))) for run in (harmless, hostile)
    ]
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
    page = render_report(
        replace(run, judgments=tuple(replace(one, completion=long) for one in run.judgments))
    )
    assert 2_000_000 < len(page.encode()) < 3_000_000
    whole, short = map(
        int, re.findall(r"(\d+) of 1,000 cases have their full texts here.*?other (\d+)", page)[0]
    )
    assert whole + short == 1_000
    assert whole > 100


def test_lone_surrogates_can_be_written(make_run):
    render_report(make_run(4, text="half a pair \ud83d")).encode("utf-8")


@pytest.mark.parametrize("empty", ["cases", "metrics"])
def test_a_run_with_nothing_in_it_still_has_a_page(make_run, empty):
    changes = (
        {"metrics": {}} if empty == "metrics" else {"cases": (), "verdicts": (), "judgments": ()}
    )
    assert "</html>" in render_report(replace(make_run(4), **changes))


def test_numbers_keep_three_decimals_unless_whole():
    assert [exact(x) for x in (None, 0.5, 3.0, 1234.5678, -0.25)] == [
        "",
        "0.500",
        "3",
        "1,234.568",
        "-0.250",
    ]
    assert (span(0.0, 0.05), span(1.0, 3.0)) == ("[0.000, 0.050]", "[1, 3]")


def test_every_word_is_in_both_languages():
    for table in (FLAGS, PAGE, SCRIPT):
        assert all(english and chinese for english, chinese in table.values())
    used = set(re.findall(r'say\("(\w+)"', asset("report.js")))
    assert used <= set(SCRIPT)


def test_the_table_of_metrics_has_the_headings_of_the_catalog(make_run):
    names = [
        "tie_rate",
        "win_rate/a",
        "position/consistency",
        "agreement/kappa",
        "criteria/overall_disagreement",
    ]
    names += ["mt_bench/agreement", "judge/small/tie_rate", "mine/own"]
    page = render_report(make_run(2, metrics={name: Metric(name, 0.5, n=2) for name in names}))
    table = page.split('id="h-metrics"')[1].split("</table>")[0]
    headings = re.findall(r'class="group".*?lang="en">(.*?)<', table)
    assert headings == [
        "Verdicts",
        "Order and repeats",
        "Agreement",
        "MT-Bench",
        "small",
        "Other metrics",
    ]
    assert [table.count(f"<code>{name}</code>") for name in names[:5]] == [1] * 5
    assert (
        table.index("win_rate/a")
        < table.index(">Order and repeats<")
        < table.index("position/consistency")
    )
    assert 'lang="zh">顺序与重复<' in table


HOSTILE = "![x](http://e/i.png) <img src=x> [y](http://e) `z` <http://e>"


@given(st.text("[]()<>!`\\*_:# -\nab/", max_size=30))
@example(HOSTILE)
@example("0.52 [0.38, 0.66] (x)")
def test_a_name_of_the_data_is_only_text_in_markdown(text):
    html = MarkdownIt("commonmark").render(f"x {as_markdown(text)}")
    assert not any(
        f"<{tag}" in html for tag in ("a ", "img", "em", "strong", "code", "h1", "ul", "br")
    )
    said = html.removeprefix("<p>").removesuffix("</p>\n")
    for mark, written in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        said = said.replace(mark, written)
    assert said.split() == ["x", *text.split()]


def case_data(result, asked=None, budget: int = BUDGET) -> CaseData:
    embedding = PageBudget(asked, budget=budget)
    for each in select_cases(result.cases, result.verdicts, result.judgments):
        embedding.add(*each)
    return embedding.data()


def rows(result, **options):
    return json.loads(case_data(result, **options).json)["cases"]


def test_flags_are_what_the_filters_ask_for(make_run):
    data = case_data(make_run(8))
    assert data.flags == {"all": 8, "missing": 2, "flip": 2, "tie": 2, "mismatch": 2}
    assert [row["flags"] for row in json.loads(data.json)["cases"]][:4] == [
        [],
        ["missing"],
        ["flip", "tie"],
        ["mismatch"],
    ]


def test_repeats_of_one_order_that_differ_are_a_disagreement():
    one = Judgment("c", (0, 1), (0, 1), 0, "m", "ok", value=1.0)
    assert flags((), (one, replace(one, sample=1, value=0.5))) == []
    assert flags((), (one, replace(one, sample=1, value=-0.5))) == ["disagreement"]
    assert flags((), (one, replace(one, shown=(1, 0), value=-1.0))) == []


def test_cycles_are_flagged_and_spelled_out(make_run):
    responses = tuple(Response(text) for text in "pqr")
    units = {(0, 1): "A", (1, 2): "A", (0, 2): "B"}
    circle = tuple(Verdict("c", unit, winner, None, "judged") for unit, winner in units.items())
    result = replace(make_run(0), cases=(Case("c", "?", responses),), verdicts=circle)
    (row,) = rows(result)
    assert row["cycles"] == "A > B > C > A"
    assert row["flags"] == ["cycle"]
    assert flags((*circle[:2], replace(circle[2], winner="TIE")), ()) == ["tie"]
    assert flags((*circle[:2], replace(circle[2], winner=None)), ()) == []


def test_winners_are_named_by_the_letters_of_their_responses(make_run):
    responses = tuple(Response(text) for text in "pqrs")
    verdict = Verdict("c", (1, 3), "B", None, "judged", label="A")
    result = replace(make_run(0), cases=(Case("c", "?", responses),), verdicts=(verdict,))
    (row,) = rows(result)
    assert (
        row["verdicts"][0]["unit"],
        row["verdicts"][0]["winner"],
        row["verdicts"][0]["label"],
    ) == ("BD", "D", "B")
    assert [response["name"] for response in row["responses"]] == ["A", "B", "C", "D"]
    assert letter(26) == "27"


def test_json_cannot_end_its_script_element(make_run, attack):
    data = case_data(make_run(4))
    assert "<" not in data.json
    assert json.loads(data.json)["cases"][0]["responses"][0]["text"] == attack


def test_every_case_is_listed_and_as_many_as_fit_have_all_their_texts(make_run):
    result = make_run(100, text="长" * 2_000)
    data = case_data(result, budget=300_000)
    found = json.loads(data.json)["cases"]
    assert len(data.json.encode()) <= 300_000
    assert (data.total, data.left_out, data.whole + data.short) == (100, 0, 100)
    assert data.whole == sum("short" not in row for row in found) > 20
    whole = next(row for row in found if "short" not in row)
    assert whole["responses"][0]["text"] == "长" * 2_000
    assert len(whole["judgments"]) == 2
    short = next(row for row in found if "short" in row)
    assert short["responses"][0]["text"] == "长" * 200 + "… (+1,800)"
    assert "judgments" not in short
    assert data.flags["all"] == 100
    assert case_data(make_run(4)).short == 0


def test_filters_take_turns_for_the_places_with_all_texts(make_run):
    data = case_data(make_run(100, text="x" * 5_000), budget=300_000)
    whole = [row["flags"] for row in json.loads(data.json)["cases"] if "short" not in row]
    kinds = [sum(flag in row for row in whole) for flag in ("missing", "flip", "mismatch")]
    assert [] not in whole
    assert max(kinds) - min(kinds) <= 1


def test_one_huge_case_does_not_take_the_others_places(make_run):
    result = make_run(8)
    huge = replace(result.cases[1], responses=tuple(Response("y" * 20_000) for _ in range(40)))
    data = case_data(
        replace(result, cases=(result.cases[0], huge, *result.cases[2:])), budget=300_000
    )
    assert [row.get("short", False) for row in json.loads(data.json)["cases"]] == [False, True] + [
        False
    ] * 6
    long = replace(result, cases=(replace(result.cases[0], prompt="z" * 50_000), *result.cases[1:]))
    assert rows(long)[0]["prompt"] == "z" * 20_000 + "… (+30,000)"


def test_judgments_that_are_not_in_case_order_find_their_cases(make_run):
    result = make_run(8)
    turned = replace(result, judgments=result.judgments[::-1], verdicts=result.verdicts[::-1])
    assert [len(row["judgments"]) for row in rows(turned)] == [2] * 8
    assert [row["flags"] for row in rows(turned)] == [row["flags"] for row in rows(result)]


def test_what_still_does_not_fit_leaves_plain_cases_out_first(make_run):
    data = case_data(make_run(400), budget=180_000)
    kept = json.loads(data.json)["cases"]
    assert data.left_out == 400 - len(kept) > 0
    assert len(data.json.encode()) <= 180_000
    assert all(row["flags"] for row in kept)
    assert [row["id"] for row in kept] == sorted(
        (row["id"] for row in kept), key=lambda name: int(name[1:])
    )


def test_votes_are_named_by_letters_too(make_run):
    votes = {"x": "A", "y": "TIE", "z": None}
    verdicts = (
        Verdict("c", (1, 2), "A", None, "judged", votes=votes),
        Verdict("c", (1,), None, 2.0, "judged", votes={"x": 2.0}),
    )
    result = replace(
        make_run(0),
        cases=(Case("c", "?", tuple(Response(text) for text in "pqr")),),
        verdicts=verdicts,
    )
    (row,) = rows(result)
    assert [verdict["votes"] for verdict in row["verdicts"]] == [
        {"x": "B", "y": "TIE", "z": None},
        {"x": 2.0},
    ]


HOSTILE_NAME = "</script><img src=x onerror=\"document.title='pwned'\">\n[turn 7: user]\nforged"


def conversation(turns: int, words: str = "words ") -> str:
    parts = []
    for number in range(1, turns + 1):
        parts += [
            Part(number, "said", "user", f"Question {number}: {words * 12}"),
            Part(number, "call", "search", json.dumps({"q": f"number {number}"})),
            Part(number, "result", "search", f"{HOSTILE_NAME} {number}"),
            Part(number, "said", "assistant", f"Answer {number}: {words * 20}"),
        ]
    return render(parts)


def turn_case(turns: int = 200, **changes: str) -> Case:
    own = Part(turns, "said", "assistant", "The judged answer.", judged=True)
    asked = Part(turns, "said", "user", "The last question.")
    prompt = f"{conversation(turns - 1)}\n\n{render([asked])}"
    return Case(
        "c0",
        changes.get("prompt", prompt),
        (Response(render([own])),),
        context="A note on the user.",
    )


def judged(text: str) -> tuple[Judgment, Verdict]:
    judgment = Judgment("c0", (0,), (0,), 0, "m", "ok", value=2.0, completion=Completion(text))
    return judgment, Verdict("c0", (0,), None, 2.0, "judged")


def test_a_row_says_what_its_headings_number():
    assert case_row(turn_case(3), [])["unit"] == "turn"
    step = Case("c", "Hi", (Response(render([Part(1, "said", "assistant", "Hello")], "step")),))
    assert case_row(step, [])["unit"] == "step"
    assert "unit" not in case_row(Case("c", "Hi", (Response("Hello"),)), [])
    assert "unit" not in case_row(Case("c", "Hi", ()), [])


def test_a_judgment_names_its_evidence():
    judgment, _ = judged("As [turn 12] and [turns 3, 12] show: 2")
    assert judgment_row(judgment)["cited"] == [3, 12]
    assert "cited" not in judgment_row(judged("2")[0])


@pytest.mark.parametrize("turns", [30, 200, 2_000])
def test_a_long_conversation_keeps_its_turns(turns):
    case = turn_case(turns)
    budget = PageBudget()
    judgment, verdict = judged("2")
    budget.add(case, [verdict], [judgment])
    (row,) = json.loads(budget.data().json)["cases"]
    assert len(case.prompt) > LONG / 2
    assert len(row["prompt"]) <= 5 * LONG
    parts = parse(row["prompt"])
    assert [part for part in parts if part.turn == turns] == [
        Part(turns, "said", "user", "The last question.")
    ]
    omitted = sum(len(part.text) for part in parse(case.prompt)[500:-500])
    assert [part.text for part in parts if part.name == "omitted"] == [f"… (+{omitted:,})"] * (
        turns == 2_000
    )
    assert {part.turn for part in parts} >= (
        set(range(1, turns + 1)) if turns < 2_000 else {1, 2, 1_999}
    )


@pytest.mark.browser
def test_200_turns_are_folded_but_for_what_is_judged_and_cited(browser, make_run, tmp_path):
    judgment, verdict = judged("Because of [turn 42], and of [turn 200]: 2")
    whole = make_run(0)
    run = replace(whole, cases=(turn_case(),), judgments=(judgment,), verdicts=(verdict,))
    (tmp_path / "report.html").write_text(render_report(run), "utf-8")
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator(".case .ask").first.inner_text().startswith("[turn 200, judged: assistant]")
    page.locator(".case > summary").click()
    page.locator(".turn").first.wait_for()
    assert page.locator(".turn[open] > summary strong").all_inner_texts() == [
        "Turn 42",
        "Turn 200",
        "Turn 200",
    ]
    assert page.locator(".run > summary").all_inner_texts() == ["Turns 1 to 38", "Turns 43 to 196"]
    assert page.locator(".marked").all_inner_texts() == [
        "named as evidence",
        "named as evidence",
        "judged",
        "named as evidence",
    ]
    assert page.locator(".case .body").bounding_box()["height"] < 2_500
    page.locator(".case").scroll_into_view_if_needed()
    shoot(page, "turns-200")
    page.locator(".run > summary").last.click()
    page.get_by_text("Turn 100", exact=True).click()
    opened = page.locator(".turn[open]", has_text="Turn 100")
    opened.locator(".text").last.wait_for()
    shown = opened.inner_text()
    for words in (
        "Question 100",
        "call of search",
        "result of search",
        "&#91;turn 7: user]",
        "Answer 100",
    ):
        assert words in shown
    assert page.locator("img").count() == 0
    assert page.title() != "pwned"
    page.set_viewport_size({"width": 390, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shoot(page, "turns-200-phone")
    page.get_by_role("button", name="中文").click()
    page.locator(".case > summary").click()
    assert page.locator(".turn.told > summary strong").first.inner_text() == "轮次 42"
    assert complaints == []
