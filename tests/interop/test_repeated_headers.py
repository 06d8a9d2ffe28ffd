"""Columns with one header: equal, without a role, or a question whose answers can be pasted."""

import csv
import shlex
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from evalkit.cli import main
from evalkit.core.errors import DatasetError
from evalkit.datasets.formats import reader_for
from tests.support.thorough import some_of

N = 40
HUMAN = ["pass" if i % 2 else "fail" for i in range(N)]
JUDGE = ["pass" if (i + (i % 7 == 0)) % 2 else "fail" for i in range(N)]
RIGHT = sum(a == b for a, b in zip(HUMAN, JUDGE, strict=True)) / N
COLUMNS: dict[str, list[Any]] = {
    "id": [f"c{i}" for i in range(N)],
    "question": [f"What is {i}?" for i in range(N)],
    "answer": [f"It is {i}, I think." for i in range(N)],
    "human_verdict": HUMAN,
    "judge_verdict": JUDGE,
}
UNUSED = ["notes", "Kommentar", "备注", "date", "url", "Column1"]
USED = ["id", "question", "answer"]
RATERS = ["human_verdict", "judge_verdict"]


def written(path: Path, *added: tuple[str, list[Any]]) -> Path:
    header = [*COLUMNS, *(name for name, _ in added)]
    columns = [*COLUMNS.values(), *(cells for _, cells in added)]
    rows = [header, *zip(*columns, strict=True)]
    if path.suffix == ".xlsx":
        with xlsxwriter.Workbook(path) as book:
            sheet = book.add_worksheet()
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)
    return path


def checked(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(["check", *words])
    shown = capsys.readouterr()
    return status, shown.out + shown.err


@pytest.mark.parametrize(
    ("name", "suffix"),
    some_of([*product([*UNUSED, *USED, *RATERS], (".csv", ".xlsx"))], 14, rows=True),
)
def test_equal_columns_are_one(name, suffix, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = COLUMNS.get(name, [f"see {i}" for i in range(N)])
    added = [(name, cells)] if name in COLUMNS else [(name, cells), (name, cells)]
    status, shown = checked([str(written(tmp_path / f"t{suffix}", *added))], capsys)
    assert "columns with one header that are equal, read as one" in shown
    assert f"accuracy {RIGHT:.2f}" in shown
    assert status in (0, 5)


@pytest.mark.parametrize(("name", "suffix"), [*product(UNUSED, (".csv", ".xlsx"))])
def test_columns_without_a_role_may_differ(name, suffix, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    added = [(name, [f"see {i * k} or more" for i in range(N)]) for k in (1, 2)]
    status, shown = checked([str(written(tmp_path / f"t{suffix}", *added))], capsys)
    assert f"not used: '{name} (column 6)', '{name} (column 7)'" in shown
    assert f"accuracy {RIGHT:.2f}" in shown
    assert status in (0, 5)


@pytest.mark.parametrize("name", USED)
def test_columns_with_a_role_that_differ_are_an_error(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    added = (name, COLUMNS[name][::-1])
    status, shown = checked([str(written(tmp_path / "t.csv", added))], capsys)
    assert (status, shown.count("\n")) == (1, 1)
    assert "have one header and differ; give each column its own name" in shown


@pytest.mark.parametrize("name", RATERS)
def test_raters_that_differ_are_a_question(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = ["pass" if i % 5 else "fail" for i in range(N)]
    path = written(tmp_path / "t.csv", (name, other))
    status, shown = checked([str(path)], capsys)
    assert status == 1
    assert "accuracy" not in shown
    commands = [shlex.split(line) for line in shown.splitlines() if "    evalkit check" in line]
    assert len(commands) == 3
    rates = set()
    for words in commands[:2]:
        status, answer = checked(words[2:], capsys)
        assert status in (0, 5), answer
        assert "not used:" in answer
        rates.add(next(part for part in answer.split() if part.startswith("0.")))
    assert len(rates) == 2
    # The third one has all of them.
    status, answer = checked(commands[2][2:], capsys)
    assert status in (0, 5), answer


def test_two_scores_of_one_header_may_be_a_judge_and_a_label(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "t.csv"
    lines = ["id,text,score,score", *(f"c{i},t{i},{HUMAN[i]},{JUDGE[i]}" for i in range(N))]
    path.write_text("\n".join(lines), encoding="utf-8")
    status, shown = checked([str(path)], capsys)
    assert status == 1
    commands = [shlex.split(line) for line in shown.splitlines() if "    evalkit check" in line]
    status, answer = checked(commands[0][2:], capsys)
    assert f"accuracy {RIGHT:.2f}" in answer


def test_cases_of_a_dataset_need_names_of_their_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "t.csv", ("notes", HUMAN), ("notes", JUDGE))
    rows = list(reader_for(None, path)(path))
    assert [*rows[0][1]][-2:] == ["notes (column 6)", "notes (column 7)"]
    words = ["plan", "mode=pointwise", "dataset=file", f"dataset.path={path}"]
    assert main(words) == 1
    assert "two columns are named 'notes'" in capsys.readouterr().err


def test_too_many_columns_are_an_error(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{','.join(['a'] * 10_001)}\n{','.join(['1'] * 10_001)}\n", encoding="utf-8")
    with pytest.raises(DatasetError, match="more than 10,000 columns"):
        list(reader_for(None, path)(path))
