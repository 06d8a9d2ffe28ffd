"""`evalkit plan --labels`: how many more labels a finished run needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.results import RunResult
from evalkit.runs import write_run
from evalkit.scoring import score_run
from evalkit.scoring.labels import labels_for, labels_for_width
from tests.scoring.drift_runs import pairs, right_in, truth

LABELS = truth(100)


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunResult]:
    """Write a run folder."""
    monkeypatch.chdir(tmp_path)

    def make(labels: Any = LABELS, **sections: Any) -> RunResult:
        run = pairs(right_in(LABELS, 0.85, 1), labels, **{"scoring": {"bootstrap": 200}, **sections})
        scored = score_run(run.config, run.cases, run.judgments)
        manifest = {"run_id": "r", "judge": "m", "mode": "pairwise"}
        result = RunResult(None, run.config, manifest, run.cases, run.judgments, scored.verdicts, scored.metrics)
        write_run(tmp_path / "run", result)
        return result

    return make


def test_labels_for_a_width_and_for_a_gate(make_run: Callable[..., RunResult], capsys: pytest.CaptureFixture) -> None:
    metrics = make_run(gate={"agreement/kappa": ">= 0.6", "tie_rate": "<= 0.5"}).metrics
    files = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(["plan", "--labels", "run", "--width", "0.05"]) == 0
    out = capsys.readouterr().out
    accuracy, kappa = metrics["agreement/accuracy"], metrics["agreement/kappa"]
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith("agreement/")}
    assert rows["agreement/accuracy"].endswith(f"100  about {labels_for_width(accuracy, 0.05, 0.95):,}".split("  ")[1])
    assert f"about {labels_for_width(kappa, 0.05, 0.95):,}" in rows["agreement/kappa"]
    assert f"gate: agreement/kappa >= 0.6: undecided, about {labels_for(kappa, 0.6, 0.95):,} more labels would" in out
    assert "gate: tie_rate <= 0.5: held\n" in out
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == files
    assert main(["plan", "gate={agreement/accuracy: '>= 0.9'}", "--labels", "run", "--width", "1"]) == 0
    out = capsys.readouterr().out
    assert "gate: agreement/accuracy >= 0.9: undecided, about" in out
    assert "agreement/kappa >= 0.6" not in out
    assert rows["agreement/accuracy"][:30] in out
    assert " 0\n" in out


def test_a_run_without_labels_says_how_many_are_needed_first(
    make_run: Callable[..., RunResult], capsys: pytest.CaptureFixture
) -> None:
    make_run([None] * 100)
    assert main(["plan", "--labels", "run"]) == 0
    assert capsys.readouterr().out.startswith("Label about 170 pairs first")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--labels", "nowhere"], "nowhere: no such folder"),
        (["--labels", "run", "--width", "0"], "'0' is not a number above 0"),
        (["--labels", "run", "--width", "nan"], "'nan' is not a number above 0"),
        (["--labels", "run", "--width", "wide"], "'wide' is not a number above 0"),
        (["--labels", "run", "--pilot", "3"], "--labels cannot be used with --pilot"),
        (["--labels", "run", "-m"], "--labels cannot be used with --multirun"),
        (["--labels", "run", "judge=gpt-4o"], "judge: cannot be changed here"),
        (["--labels", "run", "study.yaml"], "study.yaml: is not an override"),
        (["--labels", "run", "gate={agreement/kapa: '>= 0.5'}"], "did you mean 'agreement/kappa'?"),
        (["--labels", "run", "gate={nonsense: '>= 0.5'}"], "choose from agreement/ac1, agreement/accuracy, "),
    ],
)
def test_a_mistake_is_one_line(
    make_run: Callable[..., RunResult], capsys: pytest.CaptureFixture, words: list[str], complaint: str
) -> None:
    make_run()
    assert main(["plan", *words]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
    assert len(line) < 1000
