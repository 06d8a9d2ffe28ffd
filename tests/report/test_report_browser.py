"""The page as people meet it: in Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalkit.report import render_report

pytestmark = pytest.mark.browser
FLAGS = ("gpu", "quic", "background-networking", "component-update", "sync")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium (Debian's package `chromium`)")
    with api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--no-first-run", *(f"--disable-{flag}" for flag in FLAGS)]
        launched = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    opened, complaints = [], []

    def _open(html: str, where: str = "", **context: Any) -> Any:
        (tmp_path / "report.html").write_text(html, encoding="utf-8")
        page = browser.new_context(**context).new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if "report.html" not in request.url else None)
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


def test_a_response_that_is_a_script_does_nothing(open_page, make_run, attack):
    page = open_page(render_report(make_run(8)))
    title = page.title()
    for summary in page.locator(".case > summary").all():
        summary.click()
    body(page)
    assert page.title() == title != "pwned"
    assert page.locator(".case .text", has_text=attack).count() > 8
    assert page.locator("img").count() == 0


def test_filters_and_search_show_the_cases_that_fit(open_page, make_run):
    page = open_page(render_report(make_run(8)))
    assert len(ids(page)) == 8
    page.get_by_role("radio", name="Flips with order").check()
    assert ids(page) == ["c2", "c6"]
    page.get_by_label("Search the texts").fill("RAW 6")
    assert ids(page) == ["c6"]
    page.get_by_role("radio", name="Differs from label").check()
    assert ids(page) == []
    assert page.locator("#shown").inner_text() == "No case fits this filter."


def test_a_case_opens_by_keyboard_with_both_answers_both_passes_and_the_raw_text(open_page, make_run):
    page = open_page(render_report(make_run(4)))
    page.locator(".case > summary").nth(2).focus()
    page.keyboard.press("Enter")
    text = body(page)
    for part in (
        "Response A · x",
        "Response B",
        "Shown A, B",
        "Shown B, A",
        "the orders disagree",
        "A wins / B wins",
        "raw 2",
    ):
        assert part in text
    page.locator("input[name=flag][value=all]").focus()
    page.keyboard.press("ArrowRight")
    assert ids(page) == ["c3"]


def test_a_missing_answer_says_what_went_wrong(open_page, make_run):
    page = open_page(render_report(make_run(4)))
    page.locator(".case > summary").nth(1).click()
    assert "Not read: it would not say" in body(page)


def test_both_languages(open_page, make_run):
    page = open_page(render_report(make_run(4)), locale="en-US")
    assert page.locator("h2").first.inner_text() == "What it found"
    page.get_by_role("button", name="中文").click()
    assert page.locator("h2").first.inner_text() == "结论"
    assert "与随机猜测无法区分" in page.locator(".findings").inner_text()
    assert page.locator("#shown").inner_text() == "显示 4 / 4 个样本"
    assert page.locator("html").get_attribute("lang") == "zh"


def test_a_chinese_browser_starts_in_chinese(open_page, make_run):
    page = open_page(render_report(make_run(4)), locale="zh-CN")
    assert page.locator("h2").first.inner_text() == "结论"


def test_dark_and_light_differ_and_print_is_light(open_page, make_run):
    background = "getComputedStyle(document.body).backgroundColor"
    html = render_report(make_run(4))
    page = open_page(html, color_scheme="dark")
    dark = page.evaluate(background)
    page.emulate_media(media="print")
    assert page.evaluate(background) == "rgb(255, 255, 255)" != dark
    assert page.locator(".controls").is_hidden()
    assert open_page(html, color_scheme="light").evaluate(background) != dark


def test_a_phone_needs_no_sideways_scrolling(open_page, make_run):
    page = open_page(render_report(make_run(8)), viewport={"width": 360, "height": 740})
    page.locator(".case > summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_thousand_cases_are_filtered_at_once(open_page, make_run):
    page = open_page(render_report(make_run(1_000, text="word " * 200)))
    milliseconds = page.evaluate(
        "() => { const start = performance.now(); document.querySelector('input[value=flip]').click();"
        " return performance.now() - start; }"
    )
    assert page.locator(".case").count() == 250
    assert milliseconds < 1_000
