"""MLflow's own pages in Chromium, as `evalkit ui` serves them: what they show of a sweep, and labels of two people."""

import json
import re
import shutil
import socket
import sqlite3
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evalkit.cli import main
from evalkit.config import TrackingConfig
from evalkit.runs import read_run
from evalkit.scoring.decision import USES
from evalkit.tracking import server_environment
from evalkit.tracking.review import PROBABILITY, RUN, SHOWN, fetch_labels
from tests.support.chromium import shoot
from tests.support.command_line import fake, pair, prefers
from tests.support.fake_provider import serving
from tests.support.servers import PATIENCE, free_port, served

pytestmark = pytest.mark.slow
PAGE_PATIENCE = 60_000
PAGE = "mlflow.experiment-review-queue"
LONG = "so that it goes on, " * 120
NOT_OURS = ("Failed to load resource", "ResizeObserver loop")
"""MLflow's own noise: it asks for a user although nobody signs in, which its server answers with
404."""
SWAPS = ("none", "both")


class Site(NamedTuple):
    """Where the pages are, and which experiment and runs they show, by swap policy."""

    url: str
    experiment: str
    runs: dict[str, str]


@pytest.fixture(scope="module")
def folder(empty_store, tmp_path_factory):
    """A folder with a sweep of two tiny runs, and a run of eight pairs, of which two people are to label two."""
    folder = tmp_path_factory.mktemp("ui")
    shutil.copy(empty_store, folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setenv("EVALKIT_STORE", str(folder / "store.sqlite"))
        patch.setenv("OPENAI_API_KEY", "any")
        sweep()
        to_label()
    return folder


def sweep() -> None:
    Path("cases.jsonl").write_text(
        "".join(f"{json.dumps(pair(number))}\n" for number in range(4)), "utf-8"
    )
    data = ["dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=50"]
    tracked = ["tracking.experiment=study", "tracking.traces=2", "hydra.sweep.dir=sweep"]
    with serving() as provider:
        provider.rule = prefers()
        words = [
            *(*fake(provider), "judge.transport=direct", *data, *tracked),
            *(f"swap={','.join(SWAPS)}", "-m"),
        ]
        assert main(["run", *words]) == 0


def to_label() -> None:
    """Import pairs whose first response is the good one, and ask two people for the labels of two."""
    rows = [
        {
            "id": f"c{n}",
            "prompt": f"Question {n}?",
            "response_a": f"good {n} {LONG}",
            "response_b": f"bad {n} {LONG}",
        }
        | {
            "model_a": "secret-model",
            "model_b": "hidden-model",
            "winner": winner,
            "order": order,
            "judge": "gpt-x",
        }
        for n in range(8)
        for order, winner in (("ab", "A"), ("ba", "AB"[n % 2]))
    ]
    Path("pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    brief = ["hydra.run.dir=run", "tracking=none", "scoring.bootstrap=0"]
    assert main(["import", "generic", "pairs.jsonl", *brief]) == 0
    assert main(["label", "run", "--to", "mlflow", "--n", "2", "--annotators", "ann,bob"]) == 0


@pytest.fixture(scope="module")
def pages(folder):
    """MLflow's pages, as `evalkit ui` serves them; they end with the command's process."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {**server_environment(), "EVALKIT_STORE": str(folder / "store.sqlite")}
    command = [sys.executable, "-m", "evalkit", "ui", "--no-browser", "--port", str(port)]
    with served(command, f"{url}/health", folder, environment) as process:
        said = (folder / "server.log").read_text()
        assert f"starting MLflow on sqlite:///{folder}/mlflow.db" in said
        yield url
        assert f"\n{url}/#/experiments/" in (folder / "server.log").read_text()
        process.terminate()
        process.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while not is_free(port):  # else its server outlived the command that started it
            assert time.monotonic() < deadline
            time.sleep(0.01)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return bool(probe.connect_ex(("127.0.0.1", port)))


@pytest.fixture(scope="module")
def site(pages, folder):
    return Site(pages, *_recorded(folder / "mlflow.db"))


def _recorded(database: Path) -> tuple[str, dict[str, str]]:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        ((experiment,),) = connection.execute(
            "select experiment_id from experiments where name = 'study'"
        )
        runs = connection.execute("select value, run_uuid from params where key = 'swap.policy'")
        return str(experiment), dict(runs)
    finally:
        connection.close()


@pytest.fixture
def page(browser, site):
    """A page that complains of script errors, of errors on the console, and of requests that go elsewhere."""
    opened = browser.new_context(viewport={"width": 1600, "height": 1000}).new_page()
    opened.set_default_timeout(PAGE_PATIENCE)
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on(
        "console",
        lambda message: complaints.append(message.text) if _is_complaint(message) else None,
    )
    opened.on(
        "request",
        lambda request: None if _is_here(request.url, site.url) else complaints.append(request.url),
    )
    yield opened
    opened.context.close()
    assert complaints == []


def _is_complaint(message: Any) -> bool:
    return message.type == "error" and not any(noise in message.text for noise in NOT_OURS)


def _is_here(url: str, base: str) -> bool:
    return url.startswith((base, "data:", "blob:"))


@pytest.mark.browser
def test_the_run_table_has_the_sweep_with_its_jobs_and_they_compare(page, site):
    page.goto(f"{site.url}/#/experiments/{site.experiment}/runs")
    page.locator("[role=row]", has_text="sweep").get_by_role("button").first.click()
    rows = {swap: page.locator(f"[role=row][row-id='{site.runs[swap]}']") for swap in SWAPS}
    for swap, row in rows.items():
        row.get_by_text(f"swap={swap}").first.wait_for()
        row.locator("input.ag-checkbox-input").check()
    shoot(page, "mlflow-runs")
    page.get_by_role("button", name="Compare").first.click()
    page.get_by_text("Comparing 2 Runs from 1 Experiment").wait_for()
    params = page.locator("tr", has_text="swap.policy").first
    params.wait_for()
    assert sorted(params.inner_text().split()[1:]) == sorted(SWAPS)
    metric = page.get_by_text("agreement/accuracy_per_order", exact=True).first
    metric.scroll_into_view_if_needed()
    shoot(page, "mlflow-compare")


@pytest.mark.browser
def test_the_decision_is_a_column_of_the_view_that_the_command_names(page, site):
    page.goto(f"{site.url}/#/experiments/{site.experiment}/runs?viewStateShareKey=evalkit")
    page.locator("[role=columnheader]", has_text="decision").first.wait_for()
    page.locator("[role=row]", has_text="sweep").get_by_role("button").first.click()
    for run in site.runs.values():
        decision = page.locator(f"[role=row][row-id='{run}'] [col-id*='decision']").first
        decision.wait_for()
        assert decision.inner_text().strip() in USES
    shoot(page, "mlflow-decision")


@pytest.mark.browser
def test_a_trace_shows_what_was_judged_and_how_people_did(page, site):
    page.goto(f"{site.url}/#/experiments/{site.experiment}/traces")
    page.get_by_text("Got it").click()
    page.get_by_text("Question 0?").first.click()
    page.get_by_text("pairwise judgment").first.wait_for()
    for said in ("good 0", "bad 0"):
        page.get_by_text(said, exact=True).first.wait_for()
    page.get_by_role("button", name="Assess").click()
    for name in ("verdict", "label"):
        page.get_by_text(name, exact=True).first.wait_for()
    shoot(page, "mlflow-trace")


@pytest.fixture
def plain_page(browser, pages):
    opened = browser.new_page(viewport={"width": 1500, "height": 950})
    opened.set_default_timeout(PAGE_PATIENCE)
    yield opened
    opened.close()


def labels_experiment(folder: Path) -> str:
    from mlflow import MlflowClient

    return (
        MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
        .get_experiment_by_name("evalkit labels")
        .experiment_id
    )


def experiment(pages: str) -> str:
    url = f"{pages}/api/2.0/mlflow/experiments/get-by-name?experiment_name=evalkit%20labels"
    with urllib.request.urlopen(url, timeout=120) as reply:
        return str(json.load(reply)["experiment"]["experiment_id"])


def label_all(page: Any, pages: str, annotator: str, choose: Any) -> list[str]:
    """Label all tasks of an annotator's queue; return what the page said at each of them."""
    page.goto(f"{pages}/#/experiments/{experiment(pages)}/review-queue")
    page.get_by_text(f"{annotator}: run").first.click()
    page.locator(f'[data-component-id="{PAGE}.list.start-review"]').click()
    seen = []
    for done in range(2):
        page.get_by_text(re.compile(rf"\b{done} of 2 reviewed")).wait_for()
        page.get_by_text("Response B").wait_for()
        told = page.inner_text("body")
        seen.append(told)
        page.locator(f'[data-component-id="{PAGE}.focused-review.question.categorical"]').click()
        page.get_by_role("option", name=choose(told), exact=True).click()
        page.locator(f'[data-component-id="{PAGE}.focused-review.complete"]').click()
    # The last one done leads back to the list.
    page.get_by_text(re.compile(r"2 of 2 reviewed|Completed \(2\)")).first.wait_for()
    return seen


def the_good_one(told: str) -> str:
    first, second = told.split("Response A")[1].split("Response B")
    assert ("good" in first) != ("good" in second)
    return "A" if "good" in first else "B"


@pytest.mark.browser
def test_two_people_label_in_the_pages_of_mlflow(plain_page, pages, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    seen = label_all(plain_page, pages, "ann", the_good_one)
    other = label_all(plain_page, pages, "bob", lambda _: "TIE")
    for told in seen + other:
        assert not re.search(
            "secret-model|hidden-model|gpt-x|winner|verdict|judge(?!s)", told.replace("Judges", "")
        )
        assert told.count(LONG.strip()) == 2
    questions = [[re.search(r"Question \d", told)[0] for told in each] for each in (seen, other)]
    assert sorted(questions[0]) == sorted(questions[1])
    assert len(set(questions[0])) == 2
    capsys.readouterr()
    assert main(["label", "run", "--from", "mlflow"]) == 0
    assert "labels: 4 by 2 annotators (ann 2, bob 2)" in capsys.readouterr().out
    people = [case.labels for case in read_run(folder / "run").cases if case.labels]
    assert people == [{"ann": "A", "bob": "TIE"}] * 2
    metrics = json.loads((folder / "run" / "metrics.json").read_text("utf-8"))["metrics"]
    assert metrics["human/ceiling"]["n"] == 4
    assert metrics["human/ceiling"]["value"] == 0


@pytest.fixture
def another(folder, tmp_path):
    """The same run under another id, of which nothing is known in MLflow."""
    other = tmp_path / "other"
    shutil.copytree(folder / "run", other)
    manifest = json.loads((other / "manifest.json").read_text("utf-8"))
    (other / "manifest.json").write_text(json.dumps({**manifest, "run_id": tmp_path.name}), "utf-8")
    return other


def test_feedback_of_users_who_signed_in_is_theirs(folder, another, monkeypatch, capsys):
    """On a server with sign-in, and with what clients log, the source names the person; a judge's word is no label."""
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.tracing.client import TracingClient

    monkeypatch.chdir(folder)
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    sent = ("--to", "mlflow", "--n", "1", "--annotators", "eve", f"tracking.uri={uri}")
    assert main(["label", str(another), *sent]) == 0
    assert main(["label", str(another), *sent]) == 0
    assert "1 of them sent earlier" in capsys.readouterr().out
    client = TracingClient(uri)
    found = client.search_traces(
        locations=[labels_experiment(folder)], filter_string="tag.`evalkit.label.annotator` = 'eve'"
    )
    (trace,) = (one for one in found if one.info.tags[RUN] == another.parent.name)
    sampled = json.loads((another / "label-sample.json").read_text("utf-8"))
    stratum = sampled["strata"]["all"]  # other tests may have sampled more cases of this run before
    assert stratum["cases"] == 8
    assert float(trace.info.tags[PROBABILITY]) == stratum["sampled"] / 8
    good = "A" if trace.info.tags[SHOWN] == "0,1" else "B"
    bad = "B" if good == "A" else "A"

    def say(value: str, who: str, kind: str = "HUMAN", name: str = "better response") -> None:
        feedback = Feedback(name=name, value=value, source=AssessmentSource(kind, who))
        client.log_assessment(trace.info.trace_id, feedback)

    say(bad, "carol@x.org")
    say(good, "carol@x.org")
    say(good, "User")
    say(bad, "gpt-x", kind="LLM_JUDGE")
    say("nothing", "dan", name="notes")
    labels = fetch_labels(TrackingConfig(uri=uri), read_run(another))
    assert {label.annotator: label.value for label in labels} == {"carol@x.org": "A", "eve": "A"}
    assert {label.probability for label in labels} == {trace.info.tags[PROBABILITY]}
    client.delete_trace_tag(trace.info.trace_id, PROBABILITY)  # as sent by an older version
    labels = fetch_labels(TrackingConfig(uri=uri), read_run(another))
    assert {label.probability for label in labels} == {"unknown"}


def test_nobody_has_said_anything(folder, another, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    capsys.readouterr()
    assert main(["label", str(another), "--from", "mlflow"]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "none of this run's 0 tasks has a label" in line
    assert "run `evalkit label RUN --to mlflow`" in line
