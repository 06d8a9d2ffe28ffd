"""`evalkit drift`: run folders and recorded runs, from the command line to its exit status."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.results import RunResult
from evalkit.runs import read_run, write_run
from evalkit.scoring import score_run
from tests.scoring.drift_runs import pairs, right_in, truth

LABELS = truth(200)
GOOD, BAD = right_in(LABELS, 0.9, 1), right_in(LABELS, 0.6, 2)
Make = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Write a run folder of verdicts and labels."""
    monkeypatch.chdir(tmp_path)

    def make(name: str, verdicts: Sequence[Any], labels: Sequence[Any] = LABELS, **sections: Any) -> Path:
        run = pairs(verdicts, labels, **{"scoring": {"bootstrap": 100}, **sections})
        scored = score_run(run.config, run.cases, run.judgments)
        manifest = {"run_id": name, "judge": "m", "mode": "pairwise", "prompt_hashes": {"pairwise": "1"}}
        result = RunResult(None, run.config, manifest, run.cases, run.judgments, scored.verdicts, scored.metrics)
        write_run(tmp_path / name, result)
        return tmp_path / name

    return make


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("after", "labels", "status", "word"),
    [
        (GOOD, LABELS, 0, "Same"),
        (BAD, LABELS, 4, "Worse"),
        (right_in(LABELS, 0.89, 4), LABELS, 5, "Not enough to say"),
        (BAD, [None] * 200, 5, "Not enough to say"),
        (LABELS, LABELS, 0, "Better"),
    ],
)
def test_the_state_is_the_exit_status(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture, after: Any, labels: Any, status: int, word: str
) -> None:
    make_run("before", GOOD, labels), make_run("after", after, labels)
    before = files(tmp_path)
    assert main(["drift", "before", "after", "bootstrap=200"]) == status
    heading, first, *_ = capsys.readouterr().out.strip().splitlines()
    assert heading == "before → after (200 cases compared)"
    assert first.startswith(f"  • {word}")
    assert files(tmp_path) == before  # nothing is written


def test_json_is_one_object_for_alerts(make_run: Make, capsys: pytest.CaptureFixture) -> None:
    make_run("before", GOOD), make_run("after", BAD, judge={"model": "new"})
    assert main(["drift", "before", "after", "--json", "drift.margin=0.1"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["margin"], found["changed"]) == ("worse", 0.1, ["judge"])
    assert (found["before_run"], found["after_run"]) == ("before", "after")
    assert found["agreement"]["difference"]["value"] == pytest.approx(-0.3)
    assert found["findings"][0].startswith("Worse: right in 90% before and 60% after")
    assert found["findings_zh"][0].startswith("变差：")


def test_the_margin_is_that_of_the_run_after_or_of_the_command(make_run: Make, capsys: pytest.CaptureFixture) -> None:
    make_run("before", GOOD), make_run("after", BAD, scoring={"bootstrap": 100, "margin": 0.5})
    assert main(["drift", "before", "after"]) == 0
    assert "within the margin of 50 points" in capsys.readouterr().out
    assert main(["drift", "before", "after", "drift.margin=0.1"]) == 4


def test_labels_of_a_file_replace_those_of_the_runs(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    make_run("before", GOOD, ["A"] * 200), make_run("after", BAD, ["A"] * 200)
    rows = [{"case_id": str(k), "annotator": "ann", "label": label} for k, label in enumerate(LABELS)]
    rows.append({"case_id": "of another run", "annotator": "ann", "label": "A"})
    labels = tmp_path / "labels.jsonl"
    labels.write_text("\n".join(map(json.dumps, rows)))
    assert main(["drift", "before", "after", "--labels", "labels.jsonl", "--json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert found["agreement"]["before"]["value"] == pytest.approx(0.9)
    assert found["changes"]["labels"] == 0
    labels.write_text(json.dumps(rows[-1]))
    assert main(["drift", "before", "after", "--labels", "labels.jsonl"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "labels.jsonl: has no label of a case of the run after; use its case ids" in line


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["before"], "evalkit drift: needs two runs, before and after"),
        (["before", "after", "before"], "evalkit drift: needs two runs, before and after"),
        (["before", "nowhere"], "nowhere: no such folder"),
        (["before", "after", "drift.margn=1"], "did you mean 'drift.margin'?"),
        (["before", "after", "drift.margin=five"], "drift.margin: 'five' is not a number from 0 to 1"),
        (["before", "after", "drift.margin=-1"], "drift.margin: '-1' is not a number from 0 to 1"),
        (["before", "after", "drift.margin=.nan"], "drift.margin: 'nan' is not a number from 0 to 1"),
        (["before", "after", "drift.margin=true"], "drift.margin: 'True' is not a number from 0 to 1"),
        (["before", "after", "confidence=2"], "confidence: Input should be less than 1"),
        (["before", "after", "cluster=nothing"], "nothing"),
        (["before", "after", "--labels", "missing.csv"], "missing.csv"),
    ],
)
def test_a_mistake_is_one_line(make_run: Make, capsys: pytest.CaptureFixture, words: list[str], complaint: str) -> None:
    make_run("before", GOOD), make_run("after", GOOD)
    assert main(["drift", *words]) == 1
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert complaint in line
    assert not out


def test_a_run_before_without_verdicts_is_not_a_lack_of_labels(make_run: Make, capsys: pytest.CaptureFixture) -> None:
    make_run("before", [None] * 200), make_run("after", GOOD)
    assert main(["drift", "before", "after"]) == 5
    first = capsys.readouterr().out.strip().splitlines()[1]
    assert first == (
        "  • Not enough to say: none of the pairs has a verdict in both runs. Fix the missing answers first."
    )


def test_names_of_models_cannot_move_the_cursor(make_run: Make, capsys: pytest.CaptureFixture) -> None:
    make_run("before", GOOD), make_run("after", GOOD, judge={"model": "m\x1b[2J\x07[bold]"})
    assert main(["drift", "before", "after"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[bold]" in out


@pytest.mark.usefixtures("mlflow_store")
def test_a_run_is_fetched_from_mlflow(make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from evalkit.config import TrackingConfig
    from evalkit.tracking import make_tracker

    make_run("after", BAD)
    tracker = make_tracker(TrackingConfig(uri="sqlite:///mlflow.db"))
    run_id = tracker.record(read_run(make_run("before", GOOD)))
    assert main(["drift", run_id, "after", "tracking.uri=sqlite:///mlflow.db"]) == 4
    assert "Worse" in capsys.readouterr().out


@pytest.mark.shared
@pytest.mark.parametrize(
    "system",
    [
        "gemma-2b-it",
        *(pytest.param(x, marks=pytest.mark.thorough) for x in ("gpt-3.5-turbo-0125", "reka-flash-20240226")),
    ],
)
def test_two_published_judges_of_three_systems(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, system: str
) -> None:
    """GPT-4o scores lower than GPT-4 Turbo and much as itself a month later; without labels, no judge is worse."""
    monkeypatch.chdir(tmp_path)
    runs = {"turbo": "v2.0522/gpt-4-turbo-2024-04-09", "may": "v2.0522/gpt-4o-2024-05-13"}
    runs |= {"june": "v2.0625/gpt-4o-2024-05-13"}
    for name, path in runs.items():
        file = str(shared / "data" / "wildbench" / path / f"{system}.json.gz")
        assert main(["import", "wildbench", file, f"hydra.run.dir={name}", "tracking=none", "scoring.bootstrap=0"]) == 0
    capsys.readouterr()
    status = {pair: main(["drift", *pair, "--json", "bootstrap=200"]) for pair in (("turbo", "may"), ("may", "june"))}
    other, same = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(status.values()) == [5, 0]
    scores = [{row["id"]: row["score"] for row in _verdicts(tmp_path / name)} for name in ("turbo", "may")]
    both = [key for key in scores[0] if scores[1].get(key) is not None and scores[0][key] is not None]
    changed = sum(scores[0][key] != scores[1][key] for key in both) / len(both)
    assert (other["state"], other["reason"], other["changed"]) == ("unknown", "no_labels", ["judge", "data"])
    assert other["flips"]["value"] == pytest.approx(changed)
    assert other["shift"]["high"] < 0
    assert any(one.startswith("Scores are lower by 0.") for one in other["findings"])
    assert (same["state"], same["reason"]) == ("same", "flips")
    assert "judge" not in same["changed"]


def _verdicts(folder: Path) -> list[dict[str, Any]]:
    rows = map(json.loads, (folder / "verdicts.jsonl").read_text().splitlines())
    return [{"id": row["case_id"], "score": row["score"]} for row in rows]
