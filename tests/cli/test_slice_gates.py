"""Gates on a slice, from the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evalkit.cli import main
from evalkit.results import RunResult
from evalkit.runs import write_run
from evalkit.scoring import score_run
from tests.scoring.drift_runs import pairs


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a run that is right in English and wrong in half of the German and Japanese cases."""
    monkeypatch.chdir(tmp_path)
    languages = [("en", "de", "ja/JP")[n % 3] for n in range(120)]
    labels = ["AB"[n // 3 % 2] for n in range(120)]
    wrong = [language != "en" and n // 6 % 2 for n, language in enumerate(languages)]
    verdicts = ["AB"[(label == "A") == bool(off)] for label, off in zip(labels, wrong, strict=True)]
    run = pairs(verdicts, labels, scoring={"bootstrap": 200, "slices": ["language"]})
    cases = [replace(one, metadata={"language": name}) for one, name in zip(run.cases, languages, strict=True)]
    scored = score_run(run.config, cases, run.judgments)
    manifest = {
        "run_id": "r",
        "judge": "m",
        "mode": "pairwise",
        "dataset": {"name": "pairs", "fingerprint": "f", "rows": 120},
    }
    result = RunResult(None, run.config, manifest, tuple(cases), run.judgments, scored.verdicts, scored.metrics)
    write_run(tmp_path / "run", result)
    return tmp_path / "run"


def rules(run: Path) -> dict[str, str]:
    gate = json.loads((run / "gate.json").read_text())
    return {rule["metric"]: rule["state"] for rule in gate["rules"]}


def test_a_slice_passes_or_fails_on_its_own(judged: Path, capsys: pytest.CaptureFixture) -> None:
    capsys.readouterr()
    rule = "gate={slice/language/en/agreement/kappa: '>= 0.6', slice/language/de/agreement/kappa: '>= 0.6'}"
    assert main(["score", "run", rule]) == 4
    assert rules(judged) == {
        "slice/language/en/agreement/kappa": "held",
        "slice/language/de/agreement/kappa": "failed",
    }
    assert "gate failed: slice/language/de/agreement/kappa" in capsys.readouterr().err
    assert main(["score", "run", "gate={slice/language/en/agreement/kappa: '>= 0.6'}"]) == 0
    assert main(["score", "run", "gate={slice/language/ja_2f_JP/agreement/accuracy: '<= 0.7'}"]) == 0


def test_a_slice_that_the_run_does_not_have_is_one_line(judged: Path, capsys: pytest.CaptureFixture) -> None:
    capsys.readouterr()
    assert main(["score", "run", "gate={slice/language/dee/agreement/kappa: '>= 0.6'}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "did you mean 'slice/language/de/agreement/kappa'?" in line
    assert not (judged / "gate.json").exists()
