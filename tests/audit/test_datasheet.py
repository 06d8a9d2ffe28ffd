"""The datasheet in a browser, in both languages, with hostile texts; and on published judgments."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.audit.datasheet import datasheet, datasheet_files
from evalkit.audit.metrics import Contrast, outcomes, probe_statistics
from evalkit.audit.probes import own_probes
from evalkit.core.translation import in_every_language
from evalkit.report.findings import findings_of
from evalkit.report.findings.decisions import USES
from evalkit.runs import read_run
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from tests.support.chromium import shoot
from tests.support.command_line import call_main, run_once

ATTACK = (
    "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
)
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def write_pairs(path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for number in range(24):
        good = f"The answer to question {number} is long enough to be told apart: {'reason ' * 9}{number * 7}."
        row = {"id": f"c{number}{ATTACK}", "prompt": f"Question {number}? {ATTACK}"}
        rows.append(
            row
            | {
                "response_a": good + ATTACK,
                "response_b": f"Perhaps {number}. {ATTACK}",
                "label": "A",
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """The folder of a sweep of audits with hostile texts, which tests only read."""
    folder = tmp_path_factory.mktemp("audit")
    write_pairs(folder / "pairs.jsonl")
    words = [
        "judge=simulated/authority,simulated/good",
        "dataset=file",
        "dataset.path=pairs.jsonl",
        "tracking=none",
    ]
    words += ["probe=[authority,master_key]", "scoring.bootstrap=100"]
    run_once(folder, "audit", *words, "-q", "-m", "--output", "s")
    return folder / "s"


def test_hostile_texts_stay_text(audit):
    for file in (audit / "datasheet.html", audit / "0" / "datasheet.html"):
        page = file.read_text("utf-8")
        assert "<script>document" not in page
        assert "<img src=x" not in page
    lines = (audit / "0" / "datasheet.md").read_text("utf-8")
    assert "<script" not in lines.replace("\\<", "")


def test_a_planted_fault_is_found_with_its_worst_cases(audit):
    sheet = json.loads((audit / "0" / "datasheet.json").read_bytes())
    [authority] = [probe for probe in sheet["probes"] if probe["name"] == "authority"]
    assert authority["state"] == "falls"
    assert authority["sentences"][0]["text"].startswith("Verdicts shift toward the edited response")
    assert authority["sentences"][0]["text_zh"].startswith("判定偏向被编辑的回答")
    assert len(authority["worst"]) == 3
    assert "Marlowe" in authority["worst"][0]["edited"]
    board = json.loads((audit / "datasheet.json").read_bytes())
    assert [row["falls"] for row in board["jobs"]][-1] == ["authority"]


@pytest.mark.browser
def test_the_page_in_both_languages(audit, browser):
    complaints: list[str] = []
    for file in (audit / "0" / "datasheet.html", audit / "datasheet.html"):
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri())
        title = page.title()
        name = f"datasheet-{file.parent.name}"
        if page.locator("details").count():
            page.locator("details summary").first.click()
        shoot(page, f"{name}-en")
        assert "Marlowe" in page.inner_text("main") or file.parent == audit
        page.click("#language")
        assert "裁判" in page.inner_text("main")
        assert "What the judge falls for" not in page.inner_text("main")
        shoot(page, f"{name}-zh")
        assert page.title() == title
        page.set_viewport_size({"width": 390, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, file
    assert complaints == []


@pytest.mark.shared
@pytest.mark.parametrize("judge", ["ChatGPT/Vanilla_NoRules", "GPT-4/CoT"])
def test_llmbars_adversarial_sets(judge, tmp_path, capfd):
    """The wrong responses of the adversarial sets are made to be preferred; the natural set gives the error rate."""
    if not (DATA / "llmbar").is_dir():
        pytest.skip("needs ../shared/data/llmbar")
    folder = tmp_path / "run"
    words = ["--judge", judge, "--output", str(folder), "tracking=none", "scoring.bootstrap=50"]
    call_main(capfd, "import", "llmbar", str(DATA / "llmbar"), *words)
    run = read_run(folder)
    wrong = np.array(
        [
            np.nan if v.winner is None else 0.5 if v.winner == "TIE" else float(v.winner != v.label)
            for v in run.verdicts
        ]
    )
    natural = np.array([case.metadata["subset"] == "natural" for case in run.cases])
    cases = [case for case, own in zip(run.cases, natural, strict=True) if not own]
    hits, none = wrong[~natural], np.zeros(len(cases), dtype=bool)
    probe = replace(own_probes()["error"], name="llmbar")
    passed = np.where(np.isnan(hits), np.nan, hits > 0)
    lost = np.isnan(hits)
    effect = Contrast(
        probe,
        hits,
        passed,
        passed,
        hits - np.nanmean(wrong[natural]),
        lost,
        none,
        ~none,
        0 * hits,
        2 * hits - 1,
    )
    clusters, scoring = Clusters.each(len(cases)), run.config.scoring
    [outcome] = found = outcomes([effect], scoring, clusters, 1.0)
    metrics = measure(list(probe_statistics(effect)), scoring, clusters)
    result = replace(run, cases=cases, metrics=metrics)
    sheet = datasheet(result, found, [])
    assert outcome.found
    assert sheet["probes"][0]["state"] == "falls"
    assert metrics["audit/llmbar/passed"].value == pytest.approx(float(np.nanmean(passed)))
    assert len(sheet["probes"][0]["worst"]) == 3
    assert "llmbar" in datasheet_files(sheet, result)["datasheet.html"]


def test_the_decision_on_the_unedited_cases_is_that_of_the_run(audit, tmp_path):
    board = json.loads((audit / "datasheet.json").read_bytes())
    for row in board["jobs"]:
        decision = json.loads((audit / row["job"] / "metrics.json").read_bytes())["decision"]
        sheet = json.loads((audit / row["job"] / "datasheet.json").read_bytes())
        assert sheet["decision"] == {**decision, "sentences": []}  # simulated judges get no advice
        assert row["decision"] == decision["use"]
        words = in_every_language(USES[decision["use"]])[0]
        assert f"- Decision: {words}\n" in (audit / row["job"] / "datasheet.md").read_text("utf-8")
        assert f"| {words} |" in (audit / "datasheet.md").read_text("utf-8")
        assert words in (audit / "datasheet.html").read_text("utf-8")
    result = read_run(audit / "0")
    judged = replace(
        result, manifest={**result.manifest, "judges": [{"name": "m", "model": "openai/m"}]}
    )
    sheet = datasheet(judged, [], [])
    [advice] = sheet["decision"]["sentences"]
    assert advice["text"] == findings_of(judged)[0].text
    for page in datasheet_files(sheet, judged).values():
        assert advice["text"][:40] in page
