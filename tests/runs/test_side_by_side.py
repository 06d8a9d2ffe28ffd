"""The verdicts of runs next to each other: who decided what about which case."""

import csv
from pathlib import Path
from types import SimpleNamespace

from evalkit.core.types import Verdict
from evalkit.runs import side_by_side as module
from evalkit.runs.side_by_side import side_by_side


def _verdict(case: str, winner: str | None) -> Verdict:
    reason = "judged" if winner else "missing"
    return Verdict(case, (0, 1), winner, None, reason, None, None, "A", {}, None, "judge")


def test_cases_on_which_jobs_differ_come_first(monkeypatch):
    verdicts = {
        "0": [_verdict("c1", "A"), _verdict("c2", "B"), _verdict("c3", "A")],
        "1": [_verdict("c1", "A"), _verdict("c2", None)],
    }
    manifest = {"dataset": {"fingerprint": "d"}}
    monkeypatch.setattr(
        module,
        "read_outcome",
        lambda folder: SimpleNamespace(manifest=manifest, verdicts=verdicts[folder.name]),
    )
    names = {"0": "judge=x", "1": "judge=x"}
    header, *rows = csv.reader(side_by_side(Path("sweep"), names).splitlines())
    assert header == ["case", "responses", "label", "same", "judge=x (0)", "judge=x (1)"]
    assert rows == [
        ["c2", "AB", "A", "0", "B", "missing"],
        ["c1", "AB", "A", "1", "A", "A"],
        ["c3", "AB", "A", "1", "A", ""],
    ]
