"""What users of MLflow see of a sweep: its pages, as `evalkit ui` serves them, in Chromium."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evalkit.cli import main
from evalkit.decision import USES
from tests.support.chromium import shoot
from tests.support.command_line import fake, pair, prefers
from tests.support.fake_provider import serving
from tests.support.servers import free_port, served

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PATIENCE = 60_000
NOT_OURS = ("Failed to load resource", "ResizeObserver loop")
"""MLflow's own noise: it asks for a user although nobody signs in, which its server answers with 404."""
SWAPS = ("none", "both", "random")


class Site(NamedTuple):
    """Where the pages are, and which experiment and runs they show, by swap policy."""

    url: str
    experiment: str
    runs: dict[str, str]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a sweep of three tiny runs in it."""
    folder = tmp_path_factory.mktemp("ui")
    (folder / "cases.jsonl").write_text("".join(f"{json.dumps(pair(number))}\n" for number in range(4)), "utf-8")
    data = ["dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=50"]
    tracked = ["tracking.experiment=study", "tracking.traces=2", "hydra.sweep.dir=sweep"]
    with pytest.MonkeyPatch.context() as patch, serving() as provider:
        provider.rule = prefers()
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setenv("EVALKIT_STORE", str(folder / "store.sqlite"))
        patch.setenv("OPENAI_API_KEY", "any")
        words = [*fake(provider), "judge.transport=direct", *data, *tracked, f"swap={','.join(SWAPS)}", "-m"]
        assert main(["run", *words]) == 0
        yield folder


@pytest.fixture(scope="module")
def site(swept: Path) -> Iterator[Site]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "evalkit", "ui", "--port", str(port)]
    with served(command, f"{url}/health", swept):
        yield Site(url, *_recorded(swept / "mlflow.db"))


def _recorded(database: Path) -> tuple[str, dict[str, str]]:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        ((experiment,),) = connection.execute("select experiment_id from experiments where name = 'study'")
        runs = connection.execute("select value, run_uuid from params where key = 'swap.policy'")
        return str(experiment), dict(runs)
    finally:
        connection.close()


@pytest.fixture
def page(browser: Any, site: Site) -> Iterator[Any]:
    """A page that complains of script errors, of errors on the console, and of requests that go elsewhere."""
    opened = browser.new_context(viewport={"width": 1600, "height": 1000}).new_page()
    opened.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda message: complaints.append(message.text) if _is_complaint(message) else None)
    opened.on("request", lambda request: None if _is_here(request.url, site.url) else complaints.append(request.url))
    yield opened
    opened.context.close()
    assert complaints == []


def _is_complaint(message: Any) -> bool:
    return message.type == "error" and not any(noise in message.text for noise in NOT_OURS)


def _is_here(url: str, base: str) -> bool:
    return url.startswith((base, "data:", "blob:"))


def test_the_run_table_has_the_sweep_with_its_jobs_and_they_compare(page, site, tmp_path):
    page.goto(f"{site.url}/#/experiments/{site.experiment}/runs")
    page.locator("[role=row]", has_text="sweep").get_by_role("button").first.click()
    rows = {swap: page.locator(f"[role=row][row-id='{site.runs[swap]}']") for swap in SWAPS}
    for swap, row in rows.items():
        row.get_by_text(f"swap={swap}").first.wait_for()
        row.locator("input.ag-checkbox-input").check()
    shoot(page, "mlflow-runs", tmp_path)
    page.get_by_role("button", name="Compare").first.click()
    page.get_by_text("Comparing 3 Runs from 1 Experiment").wait_for()
    params = page.locator("tr", has_text="swap.policy").first
    params.wait_for()
    assert sorted(params.inner_text().split()[1:]) == sorted(SWAPS)
    metric = page.get_by_text("agreement/accuracy_per_order", exact=True).first
    metric.scroll_into_view_if_needed()
    shoot(page, "mlflow-compare", tmp_path)


def test_the_decision_is_a_column_of_the_view_that_the_command_names(page, site, tmp_path):
    page.goto(f"{site.url}/#/experiments/{site.experiment}/runs?viewStateShareKey=evalkit")
    page.locator("[role=columnheader]", has_text="decision").first.wait_for()
    page.locator("[role=row]", has_text="sweep").get_by_role("button").first.click()
    for run in site.runs.values():
        decision = page.locator(f"[role=row][row-id='{run}'] [col-id*='decision']").first
        decision.wait_for()
        assert decision.inner_text().strip() in USES
    shoot(page, "mlflow-decision", tmp_path)


def test_a_trace_shows_what_was_judged_and_how_people_did(page, site, tmp_path):
    page.goto(f"{site.url}/#/experiments/{site.experiment}/traces")
    page.get_by_text("Got it").click()
    page.get_by_text("Question 0?").first.click()
    page.get_by_text("pairwise judgment").first.wait_for()
    for said in ("good 0", "bad 0"):
        page.get_by_text(said, exact=True).first.wait_for()
    page.get_by_role("button", name="Assess").click()
    for name in ("verdict", "label"):
        page.get_by_text(name, exact=True).first.wait_for()
    shoot(page, "mlflow-trace", tmp_path)
