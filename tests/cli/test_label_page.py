"""The page to label on: in Chromium with the keyboard, and as a server that others try to misuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from tests.support.chromium import shoot
from tests.support.labeling import OpenPage, label_page

HOSTILE = (
    "<script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "</script><script>document.title='pwned'</script>",
    "{{ 7*7 }} ${7*7} javascript:alert(1)",
    "\u202eright to left\u202c ]]>-->",
)

QUESTION = {"en": "Which response is better?", "zh": "哪个回答更好？"}


def imported(folder: Path, rows: list[dict[str, Any]], *words: str) -> Path:
    """Return the folder of a run imported from rows."""
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    brief = ["tracking=none", "scoring.bootstrap=0", "hydra.run.dir=run"]
    assert main(["import", "generic", "rows.jsonl", *brief, *words]) == 0
    return folder / "run"


def pair(number: int, winners: tuple[str, str], text: str = "") -> list[dict[str, Any]]:
    case = {
        "id": f"gpt-4o against claude {number}",
        "prompt": f"Question {number} {text}",
        "response_a": f"First answer {number} {text}",
        "response_b": f"Second answer {number} {text}",
        **{"model_a": "gpt-4o", "model_b": "claude", "judge": "secret-judge"},
    }
    return [{**case, "winner": winner, "order": order} for winner, order in zip(winners, ("ab", "ba"), strict=True)]


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of twelve pairs: the judge says A, B, or changes its mind."""
    monkeypatch.chdir(tmp_path)
    winners = [("A", "A"), ("B", "B"), ("A", "B")]
    return imported(tmp_path, [row for n in range(12) for row in pair(n, winners[n // 4], HOSTILE[n % len(HOSTILE)])])


@pytest.fixture
def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(n), "prompt": f"Question {n}", "response": f"Answer {n}", "judge": "j"} for n in range(6)]

    def make(values: list[Any], column: str, *words: str) -> Path:
        return imported(tmp_path, [{**row, column: value} for row, value in zip(rows, values, strict=True)], *words)

    return make


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page; script errors, errors on the console and requests elsewhere are complaints."""
    contexts, complaints = [], []

    def opened(page: OpenPage, where: str = "", **settings: Any) -> Any:
        contexts.append(browser.new_context(**settings))
        tab = contexts[-1].new_page()
        tab.on("console", lambda message: complaints.append(message.text) if is_complaint(message) else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: None if request.url.startswith(page.url) else complaints.append(request.url))
        tab.goto(page.url + where)
        tab.locator("#case[aria-busy=false]").wait_for()
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def is_complaint(message: Any) -> bool:
    """A refused answer is shown on the page; Chromium also notes it on the console."""
    return message.type == "error" and "status of 400" not in message.text


def press(tab: Any, *keys: str) -> None:
    """Press keys, and wait for the answer to each."""
    for key in keys:
        with tab.expect_response(lambda reply: reply.request.method == "POST"):
            tab.keyboard.press(key)
        tab.locator("#case[aria-busy=false]").wait_for()


def counted(tab: Any, text: str) -> None:
    tab.locator("#count", has_text=text).wait_for()


def labels_of(run: Path, annotator: str = "human") -> dict[str, Any]:
    cases = [json.loads(line) for line in (run / "cases.jsonl").read_text("utf-8").splitlines()]
    return {case["id"]: case["labels"][annotator] for case in cases if annotator in case["labels"]}


def stored(run: Path, annotator: str = "human") -> list[dict[str, Any]]:
    lines = (run / f"labels-{annotator}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.browser
def test_pairs_by_keyboard_with_a_reload_in_the_middle(pairs, visit, capsys, tmp_path):
    with label_page(pairs) as page:
        tab = visit(page)
        counted(tab, "0 of 12 labeled")
        texts = []
        for number in range(5):
            texts.append(tab.locator("#case .side .text").first.inner_text())
            press(tab, "1")
            assert len(stored(pairs)) == number + 1  # on disk before the next case appears
            counted(tab, f"{number + 1} of 12 labeled")
        tab.reload()
        counted(tab, "5 of 12 labeled")
        press(tab, "ArrowRight")
        counted(tab, "5 of 12 labeled · 1 skipped")
        press(tab, "ArrowLeft", "0")
        counted(tab, "6 of 12 labeled")
        tab.keyboard.press("/")
        tab.keyboard.type("1 and 2 are close")
        tab.keyboard.press("Escape")
        press(tab, "2")
        press(tab, "ArrowLeft")
        assert tab.locator("#note").input_value() == "1 and 2 are close"
        assert tab.locator(".picked").inner_text() == "2Response 2"
        press(tab, "ArrowRight", "1", "1", "1", "1", "1")
        tab.get_by_text("Finished. The results are in the terminal.").wait_for()
        assert tab.title() == "evalkit label"
        assert page.ended() == 0
    rows = stored(pairs)
    assert [row["label"] for row in rows] == ["A"] * 5 + ["TIE", "B"] + ["A"] * 5
    assert rows[6]["note"] == "1 and 2 are close"
    assert {row["shown"] for row in rows} == {"0,1", "1,0"}
    # The label is of the case's own order, whichever response was shown first.
    assert all(("First" in text) == (row["shown"] == "0,1") for text, row in zip(texts, rows, strict=False))
    swapped = {"A": "B", "B": "A", "TIE": "TIE"}
    meant = {row["case_id"]: row["label"] if row["shown"] == "0,1" else swapped[row["label"]] for row in rows}
    assert labels_of(pairs) == meant
    out = capsys.readouterr().out
    assert "labels: 12 by 1 annotator (human 12)" in out
    assert re.search(r"^changed by the labels +before +after$", out, re.MULTILINE)
    assert re.search(r"^agreement/accuracy +– +0\.\d+", out, re.MULTILINE)


@pytest.mark.browser
def test_hostile_texts_are_shown_as_text(pairs, visit):
    with label_page(pairs) as page:
        tab = visit(page)
        shown = ""
        for _ in range(len(HOSTILE) * 2):
            shown += tab.locator("#case").inner_text()
            press(tab, "ArrowRight")
        assert tab.title() == "evalkit label"
        assert tab.locator("#case img, #case script, #case b").count() == 0
        assert all(text in shown for text in HOSTILE)


@pytest.mark.browser
def test_classes_have_their_first_free_letter(graded, visit):
    classes = "rubric.classes={pass: good, partial: half, 不合格: bad}"
    run = graded(["pass", "partial", "不合格"] * 2, "class", classes)
    with label_page(run, "--annotator", "ann") as page:
        tab = visit(page)
        assert tab.locator("#choices button").all_inner_texts() == ["ppass", "apartial", "1不合格"]
        tab.locator("summary").click()
        assert "half" in tab.locator("details").inner_text()
        press(tab, "p", "a", "1", "P", "p", "p")
        assert page.ended() == 0
    assert sorted(labels_of(run, "ann").values()) == [["partial"], ["pass"], ["pass"], ["pass"], ["pass"], ["不合格"]]


@pytest.mark.browser
@pytest.mark.parametrize(("top", "keys"), [(5, "425315"), (10, "405310"), (100, ["57.5", "0", "100", "1", "2", "3"])])
def test_scores_have_digits_or_a_field(graded, visit, top, keys):
    low = int(top == 10 or top == 5)
    run = graded([low, top] * 3, "score", f"rubric.min={low}", f"rubric.max={top}", "rubric.levels={}")
    with label_page(run) as page:
        tab = visit(page)
        for key in keys:
            if top == 100:
                tab.keyboard.type(key)
            press(tab, "Enter" if top == 100 else key)
        assert page.ended() == 0
    assert sorted(row["label"] for row in stored(run)) == sorted(float(key) or (top == 10) * 10 for key in keys)
    assert sorted(labels_of(run).values()) == sorted([float(key) or (top == 10) * 10.0] for key in keys)


@pytest.fixture
def checklists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of two cases, one with a group of items."""
    monkeypatch.chdir(tmp_path)
    group = {"criterion": "Is polite", "parts": [{"id": "hi", "criterion": "Says hello"}, "Says goodbye"]}
    lists = [["Is short", group], ["Is <b>true</b>"]]
    rows = [{"id": str(n), "prompt": f"p{n}", "response": f"r{n}", "checklist": items} for n, items in enumerate(lists)]
    (tmp_path / "items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    data = ["dataset=file", "dataset.path=items.jsonl", "tracking=none", "scoring.bootstrap=50"]
    assert main(["run", "mode=checklist", "judge=simulated/good", *data, "hydra.run.dir=run"]) == 0
    return tmp_path / "run"


@pytest.mark.browser
def test_a_checklist_has_a_tick_for_each_item(checklists, visit):
    with label_page(checklists) as page:
        tab = visit(page)
        while not page.statuses and tab.locator(".items").count():
            items = tab.locator(".items span").all_inner_texts()
            if len(items) == 3:
                assert items == ["Is short", "Is polite\nSays hello", "Is polite\nSays goodbye"]
                tab.keyboard.press("2")
                tab.locator(".items input").nth(2).click()
                tab.keyboard.press("3")
            else:
                assert items == ["Is <b>true</b>"]
            press(tab, "Enter")
        assert page.ended() == 0
    cases = [json.loads(line) for line in (checklists / "cases.jsonl").read_text("utf-8").splitlines()]
    labels = {(case["id"], item["id"]): item["labels"].get("human") for case in cases for item in case["checklist"]}
    assert labels == {
        ("0", "#1"): ["not_met"],
        ("0", "#2"): None,
        ("0", "hi"): ["met"],
        ("0", "#2.2"): ["not_met"],
        ("1", "#1"): ["not_met"],
    }


def contrast(tab: Any) -> float:
    """Return how far the text's and the page's brightness are apart, from 0 to 1."""
    shades = "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    ink, ground = ([int(part) for part in re.findall(r"\d+", shade)[:3]] for shade in tab.evaluate(shades))
    return abs(sum(ink) - sum(ground)) / 765


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_narrow_window_in_both_languages(pairs, visit, tmp_path, scheme):
    with label_page(pairs) as page:
        for language, width in (("en", 400), ("zh", 400), ("en", 1200), ("zh", 1200)):
            tab = visit(page, f"#{language}", viewport={"width": width, "height": 800}, color_scheme=scheme)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert (
                tab.locator("h1").inner_text() == {"en": "Which response is better?", "zh": "哪个回答更好？"}[language]
            )
            assert contrast(tab) > 0.7
            for button in tab.locator("#answer button").all():
                box = button.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
                assert box["y"] + box["height"] <= 800
            shoot(tab, f"label-{language}-{width}-{scheme}", tmp_path / "shots")
        tab.get_by_role("button", name="English").click()
        assert tab.locator("#choices button").nth(1).inner_text() == "0Equally good"


@pytest.mark.browser
def test_skipped_cases_come_again_and_a_button_ends_the_page(pairs, visit):
    with label_page(pairs) as page:
        tab = visit(page)
        press(tab, "1", *["ArrowRight"] * 11)
        counted(tab, "1 of 12 labeled · 11 skipped")
        assert "Nothing is left to label." in tab.locator("#case").inner_text()
        with tab.expect_response("**"):
            tab.get_by_role("button", name="Show the skipped ones").click()
        press(tab, "2")
        counted(tab, "2 of 12 labeled")
        tab.get_by_role("button", name="Finish").click()
        tab.get_by_text("Finished. The results are in the terminal.").wait_for()
        assert page.ended() == 0
    assert len(labels_of(pairs)) == 2


@pytest.mark.browser
def test_an_answer_that_cannot_be_stored_is_reported_and_the_case_stays(pairs, visit, monkeypatch):
    with label_page(pairs) as page:
        tab = visit(page)
        before = tab.locator("#case").inner_text()

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("evalkit.interop.label_session.os.fsync", full)
            press(tab, "1")
            tab.locator("#problem", has_text="Not saved").wait_for()
            assert "No space left on device" in tab.locator("#problem").inner_text()
            assert tab.locator("#case").inner_text() == before
        press(tab, "1")
        counted(tab, "1 of 12 labeled")
        assert len(stored(pairs)) == 1
