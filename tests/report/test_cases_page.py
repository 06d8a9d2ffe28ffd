"""The page of cases side by side: who is wrong, where runs and orders disagree."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evalkit.cli import main
from evalkit.core.scale import Scale
from evalkit.core.types import ItemVerdict, Verdict
from evalkit.report import cases_page as page_module
from evalkit.report.cases_page import answer_of, cases_page, label_of, state_of
from tests.support.chromium import shoot

FIVE = Scale(1.0, 5.0, 1.0)


def verdict(**values):
    return replace(Verdict("c", (0,), None, None, "judged"), **values)


@pytest.mark.parametrize(("values", "state", "answer", "label"), [
    ({"unit": (0, 1), "winner": "A", "label": "A"}, "right", "A", "A"),
    ({"unit": (1, 2), "winner": "B", "label": "A"}, "wrong", "C", "B"),
    ({"unit": (0, 1), "winner": "TIE"}, "unlabeled", "TIE", None),
    ({"reason": "missing", "label": 3.0}, "missing", "missing", "3"),
    ({"score": 4.0, "label": 3.0}, "right", "4", "3"),
    ({"score": 4.25, "label": 3.0}, "wrong", "4.25", "3"),
    ({"class_name": "ok", "label": "ok"}, "right", "ok", "ok"),
    ({"class_name": None, "label": "ok", "reason": "split"}, "wrong", "split", "ok"),
    ({"score": 0.5, "items": (ItemVerdict("i", "met", "judged", label="not_met"),)}, "wrong",
     "0.5", None),
    ({"items": (ItemVerdict("i", "met", "judged", label="met"),)}, "right", "judged", None),
])  # fmt: skip
def test_a_verdict_is_right_by_its_label(values, state, answer, label):
    said = verdict(**values)
    assert (state_of(said, FIVE), answer_of(said), label_of(said)) == (state, answer, label)


def test_counts_are_of_all_verdicts_and_each_filter_has_cases(make_run, monkeypatch):
    monkeypatch.setattr(page_module, "MOST", 12)
    monkeypatch.setattr(page_module, "EACH", 2)
    one = make_run(40)
    other = replace(
        one, verdicts=tuple(replace(v, winner="B", reason="judged") for v in one.verdicts)
    )
    page = cases_page({"one": one, "other": other}, "t")
    # c1, c5, … are missing in the first run; c2, c6, … change with the order; c3, c7, … are wrong
    assert page.counts["missing-0"] == page.counts["orders-0"] == page.counts["wrong-0"] == 10
    assert page.counts["wrong-1"] == 30
    assert page.counts["missing-1"] == 0
    assert page.counts["differ"] == 40
    assert page.html.count('<details class="case"') == 12
    for flag in ("missing-0", "orders-0", "wrong-0", "wrong-1", "differ"):
        assert page.html.count(f" {flag}") + page.html.count(f'"{flag}') >= 2
    assert "12 of 40 units are listed" in page.html
    alone = cases_page({"one": replace(one, verdicts=one.verdicts[:1])}, "t")
    assert "none is wrong or missing" in alone.html


def test_runs_of_other_data_are_not_compared(make_run):
    one = make_run(4)
    other = replace(one, manifest={**one.manifest, "dataset": {"fingerprint": "x"}})
    assert cases_page({"one": one, "other": other}, "t").counts["differ"] == 0


@pytest.mark.browser
def test_numbers_lead_to_their_cases_and_hostile_texts_stay_text(
    browser, tmp_path, make_run, attack
):
    one = make_run(8)
    reasons = {"result": {"winner": "A", "reasoning": f"because {attack}"}}
    one = replace(one, judgments=tuple(replace(j, answer=reasons) for j in one.judgments))
    other = replace(one, verdicts=tuple(replace(v, winner="B") for v in one.verdicts))
    file = tmp_path / "cases.html"
    file.write_text(cases_page({attack: one, "other": other}, attack).html, "utf-8")
    for width, scheme in ((1400, "light"), (390, "dark")):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.goto(file.as_uri() + "#missing-0")
        assert page.locator(".case:visible .id").all_text_contents() == ["c1", "c5"]
        page.locator("[data-filter=wrong-0]").click()
        assert page.locator(".case:visible .id").all_text_contents() == ["c3", "c7"]
        page.locator(".case:visible > summary").first.click()
        assert page.locator(".case[open] .text", has_text=f"because {attack}").count() == 2
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("img").count() == 0
        shoot(page, f"cases-{width}-{scheme}")
        page.get_by_role("button", name="中文").click()
        assert page.locator("h2").first.inner_text() == "谁判错了？"
        assert page.title() == attack
        page.close()


def test_a_sweep_and_a_comparison_write_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["dataset=sample", "dataset.limit=6", "tracking=none", "scoring.bootstrap=20"]
    judges = "judge=simulated/position_biased,simulated/length_biased"
    assert main(["run", "-m", judges, *words, "hydra.sweep.dir=s"]) == 0
    assert "s/cases.html" in capsys.readouterr().out
    board = Path("s/report.html").read_text("utf-8")
    runs = [json.loads(Path("s", job, "metrics.json").read_text("utf-8")) for job in "01"]
    wrong = [round((1 - run["metrics"]["agreement/accuracy"]["value"]) * 6) for run in runs]
    page = Path("s/cases.html").read_text("utf-8")
    for position, name in enumerate(("position_biased", "length_biased")):
        assert name in page
        assert 'href="cases.html#wrong-' in board
        assert str(wrong[position]) in page
    assert main(["compare", "s/0", "s/1", "--output", "c"]) == 0
    assert "written: c/comparison.json, c/comparison.csv, c/cases.html" in capsys.readouterr().out
    assert "simulated_length_biased" in Path("c/cases.html").read_text("utf-8")
