"""The page as people meet it: in Chromium."""

import json
from dataclasses import replace
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.config import PromptConfig, ScoringConfig
from evalkit.core.types import Metric, Verdict
from evalkit.report.page import render_report
from evalkit.report.sweep_page import SweepFacts, render_sweep
from evalkit.report.watch_page import render_watch
from evalkit.scoring.catalog import LEADERBOARD_COLUMNS
from evalkit.scoring.decision import decide
from evalkit.scoring.leaderboard import Contender, Leaderboard, Standing, rank
from evalkit.scoring.looks import Baseline, Look, LookFacts
from evalkit.workflows.sweeps import leaderboard_of, write_leaderboard
from tests.support.chromium import shoot
from tests.support.fake_provider import said

pytestmark = pytest.mark.browser


@pytest.fixture
def open_page(browser, tmp_path):
    opened, complaints = [], []

    def _open(html: str, where: str = "", **context: Any) -> Any:
        (tmp_path / "report.html").write_text(html, encoding="utf-8")
        page = browser.new_context(**context).new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                complaints.append(request.url) if "report.html" not in request.url else None
            ),
        )
        page.goto((tmp_path / "report.html").as_uri() + where)
        opened.append(page)
        return page

    yield _open
    for page in opened:
        page.context.close()
    assert complaints == []


def ids(page: Any) -> list[str]:
    return page.locator(".case .id").all_text_contents()


def body(page: Any) -> str:
    page.locator(".case[open] .body h3").last.wait_for()
    return page.locator(".case[open] .body").last.inner_text()


def test_cases_are_filtered_searched_and_opened_by_keyboard(open_page, make_run):
    page = open_page(render_report(make_run(8)))
    assert len(ids(page)) == 8
    page.locator(".case > summary").nth(2).focus()
    page.keyboard.press("Enter")
    text = body(page)
    for part in (
        *("Response A · x", "Response B", "Shown A, B", "Shown B, A"),
        *("the orders disagree", "A wins / B wins", "raw 2"),
    ):
        assert part in text
    page.locator("input[name=flag][value=all]").focus()
    page.keyboard.press("ArrowRight")
    assert ids(page) == ["c3", "c7"]
    page.get_by_role("radio", name="Missing").check()
    page.locator(".case > summary").first.click()
    assert "Error: it would not say" in body(page)
    page.get_by_role("radio", name="Changes with order").check()
    assert ids(page) == ["c2", "c6"]
    page.get_by_label("Search the texts").fill("RAW 6")
    assert ids(page) == ["c6"]
    page.get_by_role("radio", name="Differs from label").check()
    assert ids(page) == []
    assert page.locator("#shown").inner_text() == "No case matches this filter."


def test_a_page_starts_in_the_language_of_its_prompts_or_the_one_asked_for(open_page, make_run):
    run = make_run(4)
    run = replace(run, config=run.config.model_copy(update={"prompt": PromptConfig(language="zh")}))
    page = open_page(render_report(run), locale="en-US")
    assert page.locator("h2").first.inner_text() == "结论"
    page.goto(f"{page.url}#en")
    page.reload()
    assert page.locator("h2").first.inner_text() == "Findings"
    page = open_page(render_report(make_run(4)), locale="zh-CN")
    assert page.locator("h2").first.inner_text() == "Findings"
    page.get_by_role("button", name="中文").click()
    assert page.locator("h2").first.inner_text() == "结论"
    assert "与标注的一致性" in page.locator(".findings").inner_text()
    assert page.locator("#shown").inner_text() == "显示 4 / 4 个样本"
    assert page.locator("html").get_attribute("lang") == "zh"


def test_the_switch_of_shade_wins_over_the_system_but_not_in_print(open_page, make_run):
    background = "getComputedStyle(document.body).backgroundColor"
    page = open_page(render_report(make_run(4)), color_scheme="dark")
    dark = page.evaluate(background)
    page.emulate_media(media="print")
    assert page.evaluate(background) == "rgb(255, 255, 255)" != dark
    assert page.locator(".controls").is_hidden()
    page.emulate_media(media="screen", color_scheme="light")
    light = page.evaluate(background)
    assert light != dark
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(background) == dark
    page.emulate_media(media="print")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.emulate_media(media="screen")
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(background) == light


def test_everything_can_be_reached_by_keyboard(open_page, make_run):
    page = open_page(render_report(make_run(4)))
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached[:2] == ["theme", "language"]
    assert {"search", "SUMMARY"} <= set(reached)
    page.locator("#language").focus()
    page.keyboard.press("Enter")
    assert page.locator("html").get_attribute("lang") == "zh"


def test_hostile_names_do_nothing_wherever_they_stand(open_page, make_run, attack):
    number = {"value": 1.0, "low": 0.5, "high": 1.0, "n": 3}
    system = {"system": attack, "rating": number, "win_rate": number, "rank": number}
    circle = {
        "case_id": attack,
        "responses": [0, 1, 2],
        "models": [attack] * 3,
        "cycles": [[0, 1, 2]],
        "reverse": [],
    }
    further = {"ranking": {"systems": [system, system]}, "conflicts": {"cases": [circle]}}
    run = make_run(
        4,
        metrics={
            attack: Metric(attack, 0.5, note=attack),
            "ranking/separated": Metric("ranking/separated", 1.0, n=1),
        },
    )
    rename = {f"c{i}": f"c{i}{attack}" for i in range(4)}
    run = replace(
        run,
        config=run.config.model_copy(
            update={"prompt": PromptConfig.model_construct(language=attack)}
        ),
        manifest={
            **run.manifest,
            "judge": attack,
            "dataset": {"name": attack},
            "started": attack,
            "mode": attack,
        },
        cases=tuple(replace(case, id=rename[case.id]) for case in run.cases),
        judgments=tuple(
            replace(
                j,
                case_id=rename[j.case_id],
                judge=attack,
                criteria={attack: 1.0},
                read_by=attack,
                error=attack,
            )
            for j in run.judgments
        ),
        verdicts=tuple(
            replace(v, case_id=rename[v.case_id], criteria={attack: 1.0}, votes={attack: "A"})
            for v in run.verdicts
        ),
        tokens={attack: 3},
    )
    page = open_page(render_report(run, further))
    title = page.title()
    for summary in page.locator(".case > summary").all():
        summary.click()
    body(page)
    assert page.locator(".case .text", has_text=attack).count() > 4
    page.get_by_role("button", name="中文").click()
    assert page.title() == title
    assert page.locator("script").count() == 3
    assert page.locator("img").count() == 0
    assert page.locator("svg text", has_text="</script>").count() >= 2


def test_a_thousand_cases_are_filtered_at_once(open_page, make_run):
    page = open_page(render_report(make_run(1_000, text="word " * 200)))
    milliseconds = page.evaluate(
        "() => { const start = performance.now(); document.querySelector('input[value=flip]').click();"
        " return performance.now() - start; }"
    )
    assert page.locator(".case").count() == 250
    assert milliseconds < 5_000


def board(rates: dict[str, tuple[float, float | None]]) -> Leaderboard:
    contenders = [
        Contender(
            job,
            f"judge.model={job}",
            "d",
            {
                "agreement/accuracy": Metric("agreement/accuracy", right),
                "cost/per_case": Metric("cost/per_case", cost),
            },
            [Verdict("c", (0, 1), "A", None, "judged", label="A")],
        )
        for job, (right, cost) in rates.items()
    ]
    return rank(contenders, ScoringConfig(bootstrap=0))


def test_a_leaderboard_is_sorted_by_its_headings_with_the_keyboard_alone(open_page):
    jobs = board({"a": (0.9, 0.3), "b": (0.8, 0.1), "c": (0.7, None)})
    page = open_page(render_sweep(jobs, SweepFacts("study", pages=list("abc"))))
    order = lambda: page.locator("#board tbody th").all_text_contents()  # noqa: E731
    assert order() == ["a", "b", "c"]
    page.get_by_role("button", name="Cost per case").focus()
    page.keyboard.press("Enter")
    assert order() == ["a", "b", "c"]
    page.keyboard.press("Enter")
    assert order() == ["b", "a", "c"], "what is not known comes last either way"
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert page.get_by_role("link").first.get_attribute("href") == "b/report.html"
    page.get_by_role("button", name="中文").click()
    assert page.locator("h2").first.inner_text() == "结论"
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.set_viewport_size({"width": 718, "height": 1000})  # what A4 leaves between its margins
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 718


def test_a_leaderboard_shows_the_main_metrics_and_all_on_request(open_page):
    metrics = {name: Metric(name, 0.5, 0.4, 0.6, n=9) for name in LEADERBOARD_COLUMNS}
    rows = tuple(
        Standing(
            *(rank, str(rank), f"judge=a-judge-with-a-long-name-{rank}, swap=both", "d"),
            {name: replace(one, value=0.1 * rank) for name, one in metrics.items()},
            decide(metrics, 0.95),
        )
        for rank in (5, 6, 7)
    )
    jobs = Leaderboard("agreement/accuracy", LEADERBOARD_COLUMNS, 0.95, rows)
    page = open_page(
        render_sweep(jobs, SweepFacts("study")), viewport={"width": 1200, "height": 800}
    )
    fits = "(box => box.scrollWidth <= box.clientWidth)(document.querySelector('.scroll'))"
    assert page.evaluate(fits)
    assert page.locator("#board .column").count() == 0
    assert page.locator("#board thead th.num:visible").count() == 6  # the rank and five metrics
    page.get_by_label("Show all metrics").check()
    assert page.locator("#board thead th.num:visible").count() == 1 + len(LEADERBOARD_COLUMNS)
    page.set_viewport_size({"width": 390, "height": 740})
    page.locator("#board .column").first.wait_for(state="attached")
    assert page.evaluate(fits)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    cells = page.locator("#board tbody tr").first.locator("td:visible").all_inner_texts()
    assert any("Accuracy" in text and "0.5" in text.replace("50", "0.5") for text in cells), (
        "a cell names its column"
    )
    shoot(page, "sweep-phone")


def test_names_of_jobs_are_not_cut_off(open_page):
    """Each name begins within its drawing, also on a phone's screen."""
    names = ("a-large-model", "a model of some length", "模型")
    jobs = board(dict(zip(names, ((0.9, 0.3), (0.8, 0.1), (0.7, 0.2)), strict=True)))
    page = open_page(
        render_sweep(jobs, SweepFacts("study")), viewport={"width": 390, "height": 740}
    )
    outside = page.evaluate(
        "[...document.querySelectorAll('svg')].flatMap(svg => [...svg.querySelectorAll('.name')].filter(text =>"
        " getComputedStyle(text).display !== 'none' &&"
        " text.getBoundingClientRect().left < svg.getBoundingClientRect().left - 0.5).map(text => text.textContent))"
    )
    assert outside == []


def test_a_sweeps_page_leads_to_those_of_its_jobs_and_these_to_the_prompts_as_sent(
    browser, tmp_path, monkeypatch, provider
):
    rows = [
        {"prompt": f"Question {i}?", "response_a": f"good {i} <b>", "response_b": "bad"}
        for i in range(3)
    ]
    lines = (json.dumps({"id": f"c{i}", **row, "label": "A"}) for i, row in enumerate(rows))
    (tmp_path / "cases.jsonl").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    provider.rule = lambda body: said("[[A]]")
    judge = f"judge.model=openai/m judge.api_base={provider.api_base} judge.transport=direct"
    data = "dataset=file dataset.path=cases.jsonl output=bracket tracking=none scoring.bootstrap=0"
    words = f"judge=openai_compatible {judge} {data} swap=both,none hydra.sweep.dir=sweep -m"
    assert main(["run", *words.split()]) == 0
    board = leaderboard_of(tmp_path / "sweep", ["0", "1"])
    assert {path.name for path in write_leaderboard(tmp_path / "sweep", board)} >= {
        "report.html",
        "leaderboard.csv",
    }
    assert {row.name for row in board.rows} == {"swap=both", "swap=none"}, (
        "a URL is the same for every job"
    )
    page = browser.new_page()
    page.goto((tmp_path / "sweep" / "report.html").as_uri())
    assert sorted(page.locator("#board tbody th").all_text_contents()) == ["both", "none"]
    shoot(page, "sweep-report")
    page.get_by_role("link", name="both").click()
    assert page.locator(".kicker").inner_text() == "Judge report"
    assert page.url.endswith("/sweep/0/report.html")
    for summary in page.locator(".case > summary").all():
        summary.click()
    page.locator("details.asked").nth(5).wait_for()
    shown = []
    for details in page.locator("details.asked").all():
        details.locator("summary").click()
        details.locator(".key").wait_for()
        roles = details.locator("h3").all_text_contents()
        texts = details.locator(".text").all_text_contents()
        said_to = zip(roles, texts, strict=True)
        shown.append([{"role": role, "content": text} for role, text in said_to])
    assert len(shown) == 6
    assert sorted(map(str, shown)) == sorted(str(body["messages"]) for body in provider.requests)
    page.close()


def test_the_table_of_looks_needs_no_sideways_scrolling(open_page):
    flips, change = Metric("x", 0.125, 0.041, 0.263, 90), Metric("x", -0.125, -0.263, -0.041, 90)
    facts = LookFacts(flips, flips, change, flips, change, 1_234.5)
    reported = {
        "accounts/fireworks/models/llama-v3p1-405b": (
            "accounts/fireworks/models/llama-v3p1-405b-instruct",
        )
    }
    prints = {"openai/gpt-4o-mini": ("fp_0123456789abcdef0123456789abcdef",)}
    looks = [
        Look(
            f"k{n}",
            n,
            "2026-11-25T20:00:00",
            True,
            None,
            ("A",),
            reported,
            prints,
            90,
            0.012345,
            facts,
        )
        for n in range(1, 5)
    ]
    looks += [
        Look(
            "k5", 5, "2026-11-25T20:00:00", why="the budget of $0.012345 is spent", models=reported
        )
    ]
    page = open_page(
        render_watch([Baseline("openai/gpt-4o-mini", "c", "f", {}, 90, looks=tuple(looks))]),
        viewport={"width": 1100, "height": 900},
    )
    boxes = (
        "[...document.querySelectorAll('.scroll:has(.looks)')]"
        ".every(box => box.scrollWidth <= box.clientWidth)"
    )
    assert page.evaluate(boxes)
    assert page.locator(".looks .column:visible").count() == 0
    page.locator(".looks").scroll_into_view_if_needed()
    shoot(page, "watch")
    page.set_viewport_size({"width": 390, "height": 740})
    assert page.evaluate(boxes)
    # The incomplete look has no answers to compare.
    newest = page.locator(".looks tbody tr").first
    names = newest.locator(".column:visible .en").all_inner_texts()
    assert names == ["Look", "Started (UTC)", "State", "Cost", "Reported model"]
    shoot(page, "watch-phone")


def test_a_page_uses_its_window(open_page, make_run):
    page = open_page(render_report(make_run(6)))
    for width, share in ((360, 0.9), (1400, 0.7), (1920, 0.85)):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator(".case > summary").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        used = page.evaluate("document.querySelector('section').getBoundingClientRect().width")
        figures = page.locator("figure svg:visible").all()
        assert figures
        assert all(figure.bounding_box()["height"] > 20 for figure in figures)
        assert used >= share * width
        tops = page.evaluate(
            "[...document.querySelectorAll('figure')].map(one => one.getBoundingClientRect().left)"
        )
        assert (len({round(left) for left in tops}) > 1) == (width > 1000)
        for box in page.evaluate(
            "[...document.querySelectorAll('svg')].flatMap(svg => {"
            " const frame = svg.getBoundingClientRect();"
            " return [...svg.querySelectorAll('text')].filter(one => one.getClientRects().length)"
            "  .map(one => [one.textContent, frame.width && one.getBoundingClientRect().right - frame.right]) })"
        ):
            assert box[1] <= 1, box
