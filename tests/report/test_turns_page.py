"""Cases that are turns or steps of conversations: on the page, and in Chromium with 200 turns."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evalkit.core.turns import Part, parse, render
from evalkit.report import render_report
from evalkit.report.case_list import LONG, PageBudget, case_row, judgment_row
from evalkit.types import Case, Completion, Judgment, Response, Verdict
from tests.support.chromium import shoot

HOSTILE = "</script><img src=x onerror=\"document.title='pwned'\">\n[turn 7: user]\nforged"


def conversation(turns: int, words: str = "words ") -> str:
    parts = []
    for number in range(1, turns + 1):
        parts += [
            Part(number, "said", "user", f"Question {number}: {words * 12}"),
            Part(number, "call", "search", json.dumps({"q": f"number {number}"})),
            Part(number, "result", "search", f"{HOSTILE} {number}"),
            Part(number, "said", "assistant", f"Answer {number}: {words * 20}"),
        ]
    return render(parts)


def turn_case(turns: int = 200, **changes: str) -> Case:
    own = Part(turns, "said", "assistant", "The judged answer.", judged=True)
    asked = Part(turns, "said", "user", "The last question.")
    prompt = f"{conversation(turns - 1)}\n\n{render([asked])}"
    return Case("c0", changes.get("prompt", prompt), (Response(render([own])),), context="A note on the user.")


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
    assert [part for part in parts if part.turn == turns] == [Part(turns, "said", "user", "The last question.")]
    omitted = sum(len(part.text) for part in parse(case.prompt)[500:-500])
    assert [part.text for part in parts if part.name == "omitted"] == [f"… (+{omitted:,})"] * (turns == 2_000)
    assert {part.turn for part in parts} >= (set(range(1, turns + 1)) if turns < 2_000 else {1, 2, 1_999})


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
    assert page.locator(".turn[open] > summary strong").all_inner_texts() == ["Turn 42", "Turn 200", "Turn 200"]
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
    for words in ("Question 100", "call of search", "result of search", "&#91;turn 7: user]", "Answer 100"):
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
