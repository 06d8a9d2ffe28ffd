"""The parent run of a sweep in MLflow: its definition, the best job's metrics, and the leaderboard."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from evalkit.cli import main
from tests.support.command_line import fake, pair, prefers, shown
from tests.support.fake_provider import said, serving


@pytest.mark.slow
def test_the_parent_run_says_what_was_swept_and_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps(pair(number)) for number in range(12)))
    with serving() as provider:
        judged = prefers()
        provider.rule = lambda body: said("[[A]]") if body["model"] == "bad" and shown(body) else judged(body)
        base = [word for word in fake(provider) if not word.startswith("judge.model")]
        given = [*base, "judge.transport=direct", "dataset=file", "dataset.path=data.jsonl", "output=bracket"]
        mlflow = ["scoring.bootstrap=50", "tracking.uri=sqlite:///mlflow.db", "tracking.traces=0"]
        sweep = ["judge.model=openai/bad,openai/good", "tie=allow,forbid", "hydra.sweep.dir=swept", "-m"]
        assert main(["run", *given, *mlflow, *sweep]) == 0
        capsys.readouterr()
    board = json.loads((tmp_path / "swept" / "leaderboard.json").read_text())
    assert board["sweep"]["swept"] == {"judge.model": ["openai/bad", "openai/good"], "tie": ["allow", "forbid"]}
    with sqlite3.connect("mlflow.db") as database:

        def values(table: str) -> dict[str, str]:
            query = (
                f"SELECT key, value FROM {table} WHERE run_uuid IN "
                "(SELECT run_uuid FROM tags WHERE key = 'evalkit.role' AND value = 'sweep')"
            )
            return dict(database.execute(query).fetchall())

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
    best = board["rows"][0]["metrics"]["agreement/accuracy"]
    assert metrics["agreement/accuracy"] == best["value"] == 1
    assert (metrics["agreement/accuracy/low"], metrics["agreement/accuracy/high"]) == (best["low"], best["high"])
    assert set(metrics) >= {name for name, metric in board["rows"][0]["metrics"].items() if metric["value"] is not None}
    note = tags["mlflow.note.content"]
    assert note.startswith("First of 4 jobs by agreement/accuracy: `judge.model=openai/good")
    assert "It does not differ significantly from `judge.model=openai/good" in note
    assert "openai/bad" not in note
    folder = Path(artifacts.removeprefix("file://"))
    table = json.loads((folder / "tables" / "leaderboard.json").read_text())
    assert json.loads(tags["mlflow.loggedArtifacts"]) == [{"path": "tables/leaderboard.json", "type": "table"}]
    assert len(table["data"]) == 4
    assert {"rank", "job", "name", "agreement/accuracy"} <= set(table["columns"])
    assert {path.name for path in folder.iterdir()} >= {"leaderboard.csv", "leaderboard.json"}
