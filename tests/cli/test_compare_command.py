"""`evalkit compare` and `evalkit drift`: run folders and recorded runs, down to their files and exit status."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import mcnemar

from evalkit.cli import main
from evalkit.config import RunConfig, TrackingConfig
from evalkit.core.types import Case, Judgment, Response
from evalkit.report.findings import findings_of
from evalkit.runs import read_run, write_run
from evalkit.runs.results import RunResult
from evalkit.scoring.pipeline import score_run
from evalkit.tracking import make_tracker
from tests.scoring.drift_runs import pairs, right_in, truth

Make = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path):
    """Write a run folder of (label, first pass, second pass) for each case."""

    def make(name: str, rows: list[tuple[str, str | None, str | None]], judge: str = "m") -> Path:
        value = {"A": 1.0, "TIE": 0.0, "B": -1.0, None: None}
        config = RunConfig.model_validate(
            {
                "judge": {"model": judge},
                "criteria": [{"name": "quality"}],
                "scoring": {"bootstrap": 100},
            }
        )
        cases = tuple(
            Case(str(k), f"question {k}", (Response("one"), Response("two")), label=row[0])  # type: ignore[arg-type]
            for k, row in enumerate(rows)
        )
        judgments = tuple(
            Judgment(str(k), (0, 1), shown, 0, judge, "ok" if said else "unparseable", value[said])
            for k, row in enumerate(rows)
            for shown, said in zip(((0, 1), (1, 0)), row[1:], strict=True)
        )
        scores = score_run(config, cases, judgments)
        dataset = {"name": "pairs", "source": "pairs.jsonl", "fingerprint": "f", "rows": len(cases)}
        manifest = {"run_id": name, "judge": judge, "mode": "pairwise", "dataset": dataset}
        folder = tmp_path / name
        result = RunResult(
            None, config, manifest, cases, judgments, scores.verdicts, scores.metrics
        )
        write_run(folder, result)
        return folder

    return make


def test_each_run_has_its_decision_and_no_other(make_run, tmp_path, capsys):
    rows = [("AB"[n % 2], *("AB"[(n + (n % 40 in (1, 20))) % 2],) * 2) for n in range(200)]
    coin = [("AB"[n % 2], *("AB"[n // 2 % 2],) * 2) for n in range(160)]
    runs = make_run("one", rows, "good"), make_run("two", coin, "coin")
    assert main(["compare", *map(str, runs), f"folder={tmp_path / 'found'}", "bootstrap=200"]) == 0
    out = capsys.readouterr().out
    decisions = [json.loads((run / "metrics.json").read_text())["decision"] for run in runs]
    compared = json.loads((tmp_path / "found" / "comparison.json").read_text())["runs"]
    assert [run["decision"] for run in compared] == decisions
    assert [decision["use"] for decision in decisions] == ["single", "none"]
    [line] = [line for line in out.splitlines() if line.startswith("decision")]
    assert line.split() == [
        *("decision", "(all", "cases)", "single", "verdicts", "do", "not", "trust"),
    ]
    for name, run in zip(("good", "coin"), runs, strict=True):
        first = findings_of(read_run(run))[0].text
        assert f"• {name}: {first}" in " ".join(out.split())


ROWS = [
    ("A", "A", "A"),
    ("B", "B", "B"),
    ("A", "A", "B"),
    ("B", "A", "A"),
    ("A", "A", "A"),
    ("B", "B", None),
] * 4
OTHER = [
    ("A", "A", "A"),
    ("B", "A", "A"),
    ("A", "B", "B"),
    ("B", "A", "A"),
    ("A", "A", "B"),
    ("B", "B", "B"),
] * 4


def test_it_prints_and_writes_what_it_found(make_run, tmp_path, capsys):
    one, two = make_run("one", ROWS, "good"), make_run("two", OTHER, "bad")
    assert (
        main(["compare", str(one), str(two), f"folder={tmp_path / 'found'}", "bootstrap=200"]) == 0
    )
    out = capsys.readouterr().out
    assert "good · bad (24 shared cases)" in out
    assert "good − bad" in out
    assert "A difference between good and bad in agreement/accuracy: +0.400" in out
    content = json.loads((tmp_path / "found" / "comparison.json").read_text())
    assert [run["name"] for run in content["runs"]] == ["good", "bad"]
    assert content["tested"] == ["agreement/accuracy"]
    rows = list(csv.DictReader((tmp_path / "found" / "comparison.csv").read_text().splitlines()))
    assert len(rows) == len(content["differences"]) + len(content["between"])
    tested = next(row for row in rows if row["p"])
    assert (tested["metric"], tested["missing"]) == ("agreement/accuracy", "4")
    assert (
        float(tested["p_holm"])
        == content["differences"][
            [d["metric"] for d in content["differences"]].index("agreement/accuracy")
        ]["p_holm"]
    )


def test_three_runs_of_one_judge_go_by_their_folders(make_run, capsys, here):
    for name, rows in (("x=1", ROWS), ("x=2", OTHER), ("x=3", ROWS[:12])):
        make_run(name, rows)
    assert (
        main(["compare", "x=1", "x=2", "x=3", "metrics=agreement/accuracy,position/consistency"])
        == 0
    )
    out = capsys.readouterr().out
    assert "x=1 · x=2 · x=3 (12 shared cases)" in out
    assert "note: 12 cases of x=1 omitted: not in every run" in out
    assert "No difference found between x=1 and x=3 in agreement/accuracy: +0.000 [" in out
    assert "; the runs are correct on the same cases." in " ".join(out.split())
    assert "No difference found between" in out
    content = json.loads(Path("comparison.json").read_text())
    letters = [
        row["letters"] for row in content["metrics"] if row["metric"] == "position/consistency"
    ]
    assert all(letters)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["one"], "evalkit compare: needs two or more runs"),
        (["one", "nowhere"], "nowhere: no such folder"),
        (["one", "twoo"], "twoo: no such folder; did you mean 'two'?"),
        (["one", "two", "confidance=0.9"], "did you mean 'confidence'?"),
        (["one", "two", "confidence=2"], "confidence: Input should be less than 1"),
        (["one", "two", "metrics=[a"], "metrics: cannot be read"),
        (["one", "two", "metrics=[nothing]"], "nothing: not a metric that every run has"),
        (
            ["one", "two", "metrics=[variance/case]"],
            "variance/case: not a metric that every run has; removed: evalkit 0.2 was the last",
        ),
        (["one", "two", "folder=one/config.yaml"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_line(make_run, here, finished, capsys, words, complaint):
    finished("runs", lambda: (make_run("one", ROWS, "a"), make_run("two", OTHER, "b")))
    assert main(["compare", *words]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
    assert not (here / "comparison.json").exists()


@pytest.mark.usefixtures("mlflow_store")
def test_a_run_is_fetched_from_mlflow(make_run, tmp_path, monkeypatch, capsys):
    from evalkit.runs import read_run

    monkeypatch.chdir(tmp_path)
    one, two = make_run("one", ROWS, "good"), make_run("two", OTHER, "bad")
    tracker = make_tracker(TrackingConfig(uri="sqlite:///mlflow.db"))
    run_id = tracker.record(read_run(one))
    assert main(["compare", run_id, str(two)]) == 0
    assert "good · bad (24 shared cases)" in capsys.readouterr().out
    assert main(["compare", "0" * 32, str(two), "tracking.uri=sqlite:///mlflow.db"]) == 1
    assert "no such run; name a run folder, or set tracking.uri" in capsys.readouterr().err
    assert main(["compare", run_id, str(two), "tracking.uri=http://127.0.0.1:1"]) == 3
    assert "could not be fetched" in capsys.readouterr().err


@pytest.mark.usefixtures("mlflow_store")
def test_a_recorded_run_that_is_not_ours(make_run, tmp_path, capsys):
    two = make_run("two", OTHER)
    tracker = make_tracker(TrackingConfig(uri=f"sqlite:///{tmp_path / 'mlflow.db'}"))
    client = tracker._client()
    experiment = client.create_experiment(
        "other", artifact_location=(tmp_path / "artifacts").as_uri()
    )
    run_id = client.create_run(experiment).info.run_id
    client.log_text(run_id, "hello", "note.txt")
    assert (
        main(["compare", run_id, str(two), f"tracking.uri=sqlite:///{tmp_path / 'mlflow.db'}"]) == 1
    )
    assert f"MLflow run {run_id}: has no run folder; name a run" in capsys.readouterr().err


def test_runs_that_share_judge_and_folder_name_go_by_their_paths(make_run, here, capsys):
    make_run("first/run", ROWS)
    make_run("second/run", OTHER)
    assert main(["compare", "first/run", "second/run"]) == 0
    assert "first/run · second/run (24 shared cases)" in capsys.readouterr().out


PATTERN = r"Output \((?P<winner>[ab])\)"


def replayed(folder: Path, model: str, strategy: str) -> list[tuple[str, str | None, str | None]]:
    """Return label and both passes of a published judge, read from its texts, un-swapped."""
    import re

    rows = json.loads((folder / "dataset.json").read_text())
    answers = json.loads((folder / "evaluators" / model / strategy / "result.json").read_text())
    found = []
    for row, answer in zip(rows, answers, strict=True):
        said = []
        for swapped in (False, True):
            texts = re.findall(PATTERN, answer["results"][-1][f"swap = {swapped}"]["completion"][0])
            said.append(None if not texts else "A" if (texts[-1] == "a") != swapped else "B")
        found.append(("AB"[row["label"] - 1], *said))
    return found


@pytest.mark.shared
@pytest.mark.parametrize(
    "other",
    [
        ("ChatGPT", "Vanilla_NoRules"),
        *(
            pytest.param(x, marks=pytest.mark.thorough)
            for x in (("PaLM2", "Vanilla"), ("GPT-4", "Vanilla_NoRules"))
        ),
    ],
)
def test_two_published_judges(shared, here, other):
    """Imported as published, then compared: both by command."""
    folder = shared / "data" / "llmbar" / "Natural"
    judges = (("GPT-4", "Vanilla"), other)
    passes = [replayed(folder, *judge) for judge in judges]
    for k, (model, strategy) in enumerate(judges):
        result = str(folder / "evaluators" / model / strategy / "result.json")
        # Orders that differ make a tie, here and in `_resolved`.
        words = [
            f"hydra.run.dir=judge {k}",
            "tracking=none",
            "scoring.bootstrap=0",
            "swap.resolve=tie",
        ]
        assert main(["import", "llmbar", result, *words]) == 0
    assert main(["compare", "judge 0", "judge 1", f"folder={here}", "bootstrap=200"]) == 0
    content = json.loads((here / "comparison.json").read_text())
    verdicts = [[_resolved(*row[1:]) for row in rows] for rows in passes]
    labels = [row[0] for row in passes[0]]
    both = [k for k in range(100) if verdicts[0][k] and verdicts[1][k]]
    right = [np.array([said[k] == labels[k] for k in both]) for said in verdicts]
    table = [[(a & b).sum() for b in (right[1], ~right[1])] for a in (right[0], ~right[0])]
    found = {row["metric"]: row for row in (*content["differences"], *content["between"])}
    exact = bool(table[0][1] + table[1][0] < 25)
    expected = mcnemar(table, exact=exact, correction=True).pvalue
    assert found["agreement/accuracy"]["p"] == pytest.approx(expected, abs=1e-9)
    assert found["agreement/accuracy"]["n"] == len(both)
    between = cohen_kappa_score(*([said[k] for k in both] for said in verdicts))
    assert found["between/kappa"]["value"] == pytest.approx(between, abs=1e-9)
    for run, said in zip(content["runs"], verdicts, strict=True):
        (value,) = (
            r["value"]
            for r in content["metrics"]
            if (r["run"], r["metric"]) == (run["name"], "agreement/kappa")
        )
        read = [k for k in range(100) if said[k]]
        kappa = cohen_kappa_score([labels[k] for k in read], [said[k] for k in read])
        assert value == pytest.approx(kappa, abs=1e-9)


def _resolved(first: str | None, second: str | None) -> str | None:
    return None if first is None or second is None else first if first == second else "TIE"


def test_where_nothing_can_be_tested_it_says_so(make_run, tmp_path, capsys):
    one, two = make_run("one", ROWS), make_run("lost", [(label, None, None) for label, *_ in ROWS])
    assert (
        main(["compare", str(one), str(two), f"folder={tmp_path / 'found'}", "bootstrap=50"]) == 0
    )
    assert "Nothing could be tested" in capsys.readouterr().out


def test_cases_too_few_to_show_any_difference_are_called_so(make_run, here, capsys):
    one = make_run("one", [("A", "A", "A"), ("B", "B", "B"), ("A", "B", "B")])
    two = make_run("two", [("A", "B", "B"), ("B", "B", "B"), ("A", "A", "A")])
    assert main(["compare", str(one), str(two)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "these cases are too few to show any" in out
    assert "would probably have been" not in out


LABELS = truth(200)
GOOD, BAD = right_in(LABELS, 0.9, 1), right_in(LABELS, 0.6, 2)


@pytest.fixture
def make_drift_run(here):
    """Write a run folder of verdicts and labels."""

    def make(
        name: str, verdicts: Sequence[Any], labels: Sequence[Any] = LABELS, **sections: Any
    ) -> Path:
        run = pairs(verdicts, labels, **{"scoring": {"bootstrap": 100}, **sections})
        scored = score_run(run.config, run.cases, run.judgments)
        manifest = {
            "run_id": name,
            "judge": "m",
            "mode": "pairwise",
            "dataset": {},
            "prompt_hashes": {"pairwise": "1"},
        }
        result = RunResult(
            None, run.config, manifest, run.cases, run.judgments, scored.verdicts, scored.metrics
        )
        write_run(here / name, result)
        return here / name

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
    make_drift_run, tmp_path, capsys, after, labels, status, word
):
    make_drift_run("before", GOOD, labels), make_drift_run("after", after, labels)
    before = files(tmp_path)
    assert main(["drift", "before", "after", "bootstrap=200"]) == status
    heading, first, *_ = capsys.readouterr().out.strip().splitlines()
    assert heading == "before → after (200 cases compared)"
    assert first.startswith(f"  • {word}")
    assert files(tmp_path) == before  # nothing is written


def test_json_is_one_object_for_alerts(make_drift_run, capsys):
    make_drift_run("before", GOOD), make_drift_run("after", BAD, judge={"model": "new"})
    assert main(["drift", "before", "after", "--json", "drift.margin=0.1"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["margin"], found["changed"]) == ("worse", 0.1, ["judge"])
    assert (found["before_run"], found["after_run"]) == ("before", "after")
    assert found["agreement"]["difference"]["value"] == pytest.approx(-0.3)
    assert found["findings"][0].startswith("Worse: right in 90% before and 60% after")
    assert found["findings_zh"][0].startswith("变差：")


def test_the_margin_is_that_of_the_run_after_or_of_the_command(make_drift_run, capsys):
    (
        make_drift_run("before", GOOD),
        make_drift_run("after", BAD, scoring={"bootstrap": 100, "margin": 0.5}),
    )
    assert main(["drift", "before", "after"]) == 0
    assert "within the margin of 50 points" in capsys.readouterr().out
    assert main(["drift", "before", "after", "drift.margin=0.1"]) == 4


def test_labels_of_a_file_replace_those_of_the_runs(make_drift_run, tmp_path, capsys):
    make_drift_run("before", GOOD, ["A"] * 200), make_drift_run("after", BAD, ["A"] * 200)
    rows = [
        {"case_id": str(k), "annotator": "ann", "label": label} for k, label in enumerate(LABELS)
    ]
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
        (
            ["before", "after", "drift.margin=five"],
            "drift.margin: 'five' is not a number from 0 to 1",
        ),
        (["before", "after", "drift.margin=-1"], "drift.margin: '-1' is not a number from 0 to 1"),
        (
            ["before", "after", "drift.margin=.nan"],
            "drift.margin: 'nan' is not a number from 0 to 1",
        ),
        (
            ["before", "after", "drift.margin=true"],
            "drift.margin: 'True' is not a number from 0 to 1",
        ),
        (["before", "after", "confidence=2"], "confidence: Input should be less than 1"),
        (["before", "after", "cluster=nothing"], "nothing"),
        (["before", "after", "--labels", "missing.csv"], "missing.csv"),
    ],
)
def test_a_mistake_in_drift_is_one_line(make_drift_run, finished, capsys, words, complaint):
    finished("drift", lambda: (make_drift_run("before", GOOD), make_drift_run("after", GOOD)))
    assert main(["drift", *words]) == 1
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert complaint in line
    assert not out


def test_a_run_before_without_verdicts_is_not_a_lack_of_labels(make_drift_run, capsys):
    make_drift_run("before", [None] * 200), make_drift_run("after", GOOD)
    assert main(["drift", "before", "after"]) == 5
    first = capsys.readouterr().out.strip().splitlines()[1]
    assert first == (
        "  • Not enough to say: none of the pairs has a verdict in both runs. Fix the missing answers first."
    )


def test_names_of_models_cannot_move_the_cursor(make_drift_run, capsys):
    (
        make_drift_run("before", GOOD),
        make_drift_run("after", GOOD, judge={"model": "m\x1b[2J\x07[bold]"}),
    )
    assert main(["drift", "before", "after"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[bold]" in out


@pytest.mark.usefixtures("mlflow_store")
def test_drift_of_a_run_from_mlflow(make_drift_run, tmp_path, capsys):
    from evalkit.config import TrackingConfig
    from evalkit.tracking import make_tracker

    make_drift_run("after", BAD)
    tracker = make_tracker(TrackingConfig(uri="sqlite:///mlflow.db"))
    run_id = tracker.record(read_run(make_drift_run("before", GOOD)))
    assert main(["drift", run_id, "after", "tracking.uri=sqlite:///mlflow.db"]) == 4
    assert "Worse" in capsys.readouterr().out


@pytest.mark.shared
@pytest.mark.parametrize(
    "system",
    [
        "gemma-2b-it",
        *(
            pytest.param(x, marks=pytest.mark.thorough)
            for x in ("gpt-3.5-turbo-0125", "reka-flash-20240226")
        ),
    ],
)
def test_two_published_judges_of_three_systems(shared, here, capsys, system):
    """GPT-4o scores lower than GPT-4 Turbo and much as itself a month later; without labels, no judge is worse."""
    runs = {"turbo": "v2.0522/gpt-4-turbo-2024-04-09", "may": "v2.0522/gpt-4o-2024-05-13"}
    runs |= {"june": "v2.0625/gpt-4o-2024-05-13"}
    for name, path in runs.items():
        file = str(shared / "data" / "wildbench" / path / f"{system}.json.gz")
        assert (
            main(
                [
                    *("import", "wildbench", file, f"hydra.run.dir={name}", "tracking=none"),
                    "scoring.bootstrap=0",
                ]
            )
            == 0
        )
    capsys.readouterr()
    status = {
        pair: main(["drift", *pair, "--json", "bootstrap=200"])
        for pair in (("turbo", "may"), ("may", "june"))
    }
    other, same = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(status.values()) == [5, 0]
    scores = [
        {row["id"]: row["score"] for row in _verdicts(here / name)} for name in ("turbo", "may")
    ]
    both = [
        key for key in scores[0] if scores[1].get(key) is not None and scores[0][key] is not None
    ]
    changed = sum(scores[0][key] != scores[1][key] for key in both) / len(both)
    assert (other["state"], other["reason"], other["changed"]) == (
        "unknown",
        "no_labels",
        ["judge", "data"],
    )
    assert other["flips"]["value"] == pytest.approx(changed)
    assert other["shift"]["high"] < 0
    assert any(one.startswith("Scores are lower by 0.") for one in other["findings"])
    assert (same["state"], same["reason"]) == ("same", "flips")
    assert "judge" not in same["changed"]


def _verdicts(folder: Path) -> list[dict[str, Any]]:
    rows = map(json.loads, (folder / "verdicts.jsonl").read_text().splitlines())
    return [{"id": row["case_id"], "score": row["score"]} for row in rows]
