"""The parent run of a sweep in MLflow: its definition, the best job's metrics, and the leaderboard."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.tracking import parent_runs
from tests.support.command_line import fake, pair, prefers, shown
from tests.support.fake_provider import said, serving


@pytest.mark.slow
def test_the_parent_run_says_what_was_swept_and_what_came_of_it(
    mlflow_store, here, monkeypatch, capsys
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    (here / "data.jsonl").write_text("\n".join(json.dumps(pair(number)) for number in range(12)))
    with serving() as provider:
        judged = prefers()
        provider.rule = lambda body: (
            said("[[A]]") if body["model"] == "bad" and shown(body) else judged(body)
        )
        base = [word for word in fake(provider) if not word.startswith("judge.model")]
        given = [
            *(*base, "judge.transport=direct", "dataset=file", "dataset.path=data.jsonl"),
            "output=bracket",
        ]
        mlflow = ["scoring.bootstrap=50", f"tracking.uri={mlflow_store}", "tracking.traces=0"]
        sweep = [
            "judge.model=openai/bad,openai/good",
            "tie=allow,forbid",
            "hydra.sweep.dir=swept",
            "-m",
        ]
        assert main(["run", *given, *mlflow, *sweep]) == 0
        capsys.readouterr()
    board = json.loads((here / "swept" / "leaderboard.json").read_text())
    assert board["sweep"]["swept"] == {
        "judge.model": ["openai/bad", "openai/good"],
        "tie": ["allow", "forbid"],
    }
    with sqlite3.connect("mlflow.db") as database:

        def values(table: str) -> dict[str, str]:
            query = (
                f"SELECT key, value FROM {table} WHERE run_uuid IN "
                "(SELECT run_uuid FROM tags WHERE key = 'evalkit.role' AND value = 'sweep')"
            )
            return dict(database.execute(query).fetchall())

        query = "SELECT runs.name, tags.value FROM runs JOIN tags USING (run_uuid) WHERE tags.key = 'decision'"
        children = dict(database.execute(query).fetchall())
        del children["swept"]  # the parent has the decision about the best job
        params, tags, metrics = values("params"), values("tags"), values("latest_metrics")
        [(artifacts,)] = database.execute(
            "SELECT artifact_uri FROM runs JOIN tags USING (run_uuid) WHERE key = 'evalkit.role'"
        ).fetchall()
    assert params == {
        "sweep.name": "swept",
        "sweep.jobs": "4",
        "sweep.judge.model": "openai/bad, openai/good",
        "sweep.tie": "allow, forbid",
    }
    assert tags["evalkit.sweep.swept"] == "judge.model=openai/bad,openai/good tie=allow,forbid"
    assert tags["evalkit.sweep.ranked_by"] == "agreement/accuracy"
    assert tags["evalkit.sweep.best"].startswith("judge.model=openai/good")
    assert tags["decision"] == board["rows"][0]["decision"]["use"]
    best = board["rows"][0]["metrics"]["agreement/accuracy"]
    assert metrics["agreement/accuracy"] == best["value"] == 1
    assert (metrics["agreement/accuracy/low"], metrics["agreement/accuracy/high"]) == (
        best["low"],
        best["high"],
    )
    assert set(metrics) >= {
        name for name, metric in board["rows"][0]["metrics"].items() if metric["value"] is not None
    }
    note = tags["mlflow.note.content"]
    assert note == board["choices"][0]["text"]
    folder = Path(artifacts.removeprefix("file://"))
    table = json.loads((folder / "tables" / "leaderboard.json").read_text())
    assert json.loads(tags["mlflow.loggedArtifacts"]) == [
        {"path": "tables/leaderboard.json", "type": "table"},
        {"path": "tables/cases.json", "type": "table"},
    ]
    cases = json.loads((folder / "tables" / "cases.json").read_text())
    assert cases["columns"][:4] == ["case", "responses", "label", "same"]
    assert {*cases["columns"][4:]} == {*children}
    assert len(cases["data"]) == 12
    assert len(table["data"]) == 4
    assert {"rank", "job", "name", "agreement/accuracy"} <= set(table["columns"])
    decided = {row["name"]: row["decision"]["use"] for row in board["rows"]}
    name, decision = (table["columns"].index(column) for column in ("name", "decision"))
    assert {row[name]: row[decision] for row in table["data"]} == decided == children
    assert {path.name for path in folder.iterdir()} >= {"leaderboard.csv", "leaderboard.json"}


def row(job: str, value: float, letters: str = "a", dataset: str = "d") -> dict[str, Any]:
    metrics = {"agreement/accuracy": {"value": value, "low": value - 0.1, "high": None}}
    return {
        "job": job,
        "name": f"judge={job}",
        "dataset": dataset,
        "letters": letters,
        "metrics": metrics,
    }


def board(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    sweep = {"name": "mine", "jobs": len(rows), "swept": {"judge": [one["job"] for one in rows]}}
    return {"by": "agreement/accuracy", "rows": list(rows), "sweep": sweep, **more}


def test_jobs_on_different_data_have_no_best_metrics():
    assert parent_runs.best_metrics(board(row("x", 0.9), row("y", 0.8)))["accuracy"] == 0.9
    assert parent_runs.best_metrics(board(row("x", 0.9), row("y", 0.8, dataset="e"))) == {}


def test_the_outcome_is_the_choice_of_each_dataset():
    choices = [{"job": "y", "text": "Use judge=y."}, {"job": None, "text": "Use none."}]
    found = board(row("x", 0.9), row("y", 0.8), choices=choices)
    assert parent_runs.description(found) == "Use judge=y. Use none."
    assert parent_runs.tags_of(found)["evalkit.sweep.best"] == "judge=y (job y)"
    assert parent_runs.description(board(row("x", 0.9))) == "See `leaderboard.csv`."


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        ([("x", "y")], {"between/contradiction", "between/contradiction/low"}),
        (
            [("x", "y"), ("x", "z")],
            {
                f"between/contradiction/judge-x against judge-{two}{end}"
                for two in "yz"
                for end in ("", "/low")
            },
        ),
    ],
)
def test_contradictions_are_named_by_their_jobs_if_there_are_several(pairs, names):
    metric = {"between/contradiction": {"value": 0.2, "low": 0.1, "high": None}}
    found = [{"scores": one, "comparisons": two, "metrics": metric} for one, two in pairs]
    values = parent_runs.contradictions(
        board(*(row(name, 0.9) for name in "xyz"), contradictions=found)
    )
    assert {name.replace("=", "-").replace("_", "-") for name in values} == names
    assert set(values.values()) == {0.2, 0.1}


def test_a_table_has_numbers_where_the_csv_has_them(tmp_path):
    file = tmp_path / "leaderboard.csv"
    file.write_text("rank,name,agreement/accuracy,cost/per_case\n1,x,0.9,\n2,y,much,0.5\n", "utf-8")
    assert json.loads(parent_runs.table_of(file)) == {
        "columns": ["rank", "name", "agreement/accuracy", "cost/per_case"],
        "data": [[1.0, "x", 0.9, None], [2.0, "y", "much", 0.5]],
    }


def test_jobs_share_a_parent_that_has_the_files_of_the_sweep(store, tmp_path):
    from mlflow import MlflowClient

    client = MlflowClient(store)
    experiment = client.create_experiment("e", artifact_location=(tmp_path / "artifacts").as_uri())
    sweep = {"id": "it's", "name": "mine"}
    tags = [parent_runs.child_tags(client, experiment, sweep, started=None) for _ in range(2)]
    assert tags[0] == tags[1]
    child = client.create_run(experiment, tags=tags[0]).info.run_id
    (tmp_path / "leaderboard.json").write_text(
        json.dumps(board(row("x", 0.9), row("y", 0.8))), "utf-8"
    )
    (tmp_path / "leaderboard.csv").write_text("rank,name\n1,x\n", "utf-8")
    files = [tmp_path / "leaderboard.json", tmp_path / "leaderboard.csv"]
    parent = parent_runs.attach(client, child, files)
    for _ in range(2):  # a sweep that is extended
        assert parent_runs.attach(client, child, files) == parent
    data = client.get_run(parent).data
    assert data.params["sweep.name"] == "mine"
    assert data.metrics["agreement/accuracy"] == 0.9
    assert data.tags["mlflow.note.content"] == "See `leaderboard.csv`."
    assert parent_runs.attach(client, parent, files) is None
