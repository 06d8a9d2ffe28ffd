"""`scoring.cluster`, from the command line: what is resampled, what is said of it, and a column that is not there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Done, fake, pair, shown
from tests.support.fake_provider import said

Call = Callable[..., Done]
CASES, TOPICS = 24, 6


@pytest.fixture
def run(call, provider, tmp_path):
    """Runs a judge that is always right on pairs of six prompts and three topics."""
    provider.rule = lambda body: said("[[A]]" if shown(body)[0].startswith("good") else "[[B]]")
    rows = [
        pair(n, label="A", prompt=f"question {n % TOPICS}", topic=n % TOPICS // 2, copies=[n % 2])
        for n in range(CASES)
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = [
        *("dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=100"),
        "tracking=none",
    ]
    return lambda *more, status=0: call(
        "run", *fake(provider), "judge.transport=direct", *data, *more, status=status
    )


def told(folder: Path) -> tuple[int, dict, list[str], str]:
    """Return over how many clusters accuracy is exact, and what manifest and findings say of clusters."""
    metric = json.loads((folder / "metrics.json").read_text())["metrics"]["agreement/accuracy"]
    manifest = json.loads((folder / "manifest.json").read_text())
    count = next(n for n in range(2, 100) if metric["low"] == pytest.approx(0.025 ** (1 / n)))
    notes = [note for note in manifest["notes"] if note.startswith("clusters: ")]
    return count, manifest["clusters"], notes, (folder / "findings.md").read_text()


def test_the_prompt_is_the_cluster_unless_a_column_is_named(run, call, tmp_path):
    done = run("hydra.run.dir=one")
    count, clusters, notes, findings = told(tmp_path / "one")
    assert (count, clusters) == (6, {"by": "prompt", "count": 6, "cases": 24})
    assert notes == [
        "clusters: 24 cases in 6 clusters by prompt; intervals and tests resample clusters"
    ]
    assert notes[0] in done.out + done.err
    assert "24 cases in 6 clusters by prompt" in findings

    call("score", "one", "scoring.cluster=topic")
    count, clusters, notes, findings = told(tmp_path / "one")
    assert (count, clusters["by"], len(notes)) == (3, "topic", 1)
    assert "24 cases in 3 clusters by topic" in findings

    call("score", "one", "scoring.cluster=id")
    count, clusters, notes, findings = told(tmp_path / "one")
    assert (count, clusters["count"], notes) == (24, 24, [])
    assert "clusters" not in findings


def test_compare_takes_the_runs_clusters_or_others(run, call, tmp_path):
    run("hydra.run.dir=one", "scoring.cluster=topic")
    run("hydra.run.dir=two", "swap=none")
    for words, expected in (
        ([], "3 clusters by topic"),
        (["cluster=prompt"], "6 clusters by prompt"),
    ):
        done = call("compare", "one", "two", *words)
        assert f"24 cases in {expected}" in done.out
        assert expected in json.loads((tmp_path / "comparison.json").read_text())["clusters"]


@pytest.mark.parametrize("key", ["slices", "cluster"])
def test_a_column_that_no_case_has_is_one_line_before_anything_is_asked(
    run, call, provider, tmp_path, key
):
    value = "[topics]" if key == "slices" else "topics"
    done = run("hydra.run.dir=one", f"scoring.{key}={value}", status=1)
    message = f"evalkit: scoring.{key}=topics: no case has this column; did you mean 'topic'?"
    assert done.err.strip().splitlines()[-1] == message
    assert not provider.requests
    assert not (tmp_path / "one" / "metrics.json").exists()
    assert call("plan", *done.words[1:], status=1).err.strip() == message


def test_a_column_that_no_case_of_a_finished_run_has_is_one_line(run, call):
    run("hydra.run.dir=one")
    for words in (
        ["score", "one", "scoring.cluster=topics"],
        ["compare", "one", "one", "cluster=topics"],
    ):
        assert call(*words, status=1).err.count("\n") == 1
