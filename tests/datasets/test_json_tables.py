"""Tables in one JSON object, in every orientation; files that claim more than a table has are one line."""

import gzip
import json
import os
import zipfile
from io import StringIO
from pathlib import Path

import pandas
import pyarrow
import pyarrow.parquet
import pytest
import xlsxwriter

from evalkit.core.errors import DatasetError
from evalkit.datasets.formats import reader_for

TABLE = pandas.DataFrame({"human": ["pass", "fail", "pass"], "score": [1, 4, 2]})
ROWS = TABLE.to_dict("records")
LINES = TABLE.to_json(orient="records", lines=True)


def rows(path: Path, text: str) -> list[object]:
    path.write_text(text, encoding="utf-8")
    return [row for _, row in reader_for(None, path)(path)]


@pytest.mark.parametrize("orient", ["records", "columns", "split", "table"])
def test_pandas_orients_are_one_table(orient, tmp_path):
    read = rows(tmp_path / "t.json", TABLE.to_json(orient=orient))
    assert [{name: row[name] for name in ("human", "score")} for row in read] == ROWS


BY_ID = {f"case-{number}": row for number, row in enumerate(ROWS)}


@pytest.mark.parametrize(("text", "first"), [
    (json.dumps({"data": ROWS}), ROWS[0]),
    (json.dumps({"rows": ROWS, "metrics": {"mean": 2.0}, "url": None}), ROWS[0]),
    (json.dumps({"results": ROWS, "errors": [{"x": 1}]}), ROWS[0]),
    (json.dumps({"scores": ROWS, "dataset": [{"q": 1}] * len(ROWS)}), {"q": 1, **ROWS[0]}),
    (json.dumps({"scores": [{"score": 9}] * len(ROWS), "samples": ROWS}),
     {**ROWS[0], "scores.score": 9}),
    (json.dumps({"columns": TABLE.to_dict("list"), "version": 1}), ROWS[0]),
    (json.dumps({"test_results": ROWS, "experiment_scores": [{"x": 1}]}), ROWS[0]),
    (json.dumps({"answer": {"items": ROWS}}), ROWS[0]),
    (json.dumps({"docs": ROWS, "total": 3}), ROWS[0]),
    (json.dumps({"request_states": ROWS, "spec": {"m": 1}, "annotators": []}), ROWS[0]),
    (json.dumps({"request_states": ROWS, "spec": {}, "annotators": [{"x": 1}]}), ROWS[0]),
    (json.dumps({"means": {"x": 1}, "run_data": ROWS, "judge": "gpt"}), ROWS[0]),
    (json.dumps({"run": {"id": 1}, "output": {"cases": ROWS}}), ROWS[0]),
    (json.dumps({"status": "ok", "data": {"page": 1, "items": ROWS}}), ROWS[0]),
    (json.dumps({"data": {"all": {"edges": [{"node": ROWS[0]}] * 2}}}), {"node": ROWS[0]}),
    (json.dumps({"run": {"id": "r"}, "cases": ROWS, "count": 2}), ROWS[0]),
    (json.dumps({"version": 2, "cases": BY_ID}), {"id": "case-0", **ROWS[0]}),
    (json.dumps({"about": {"n": 2}, "cases": BY_ID}), {"id": "case-0", **ROWS[0]}),
    (json.dumps({"meta": {"by": "x"}, "data": {"page": {"rows": ROWS}}}), ROWS[0]),
    (json.dumps({"rows": [{"row_idx": 0, "row": ROWS[0]}], "features": [{}]}), ROWS[0]),
    (json.dumps(TABLE.to_dict("list")), ROWS[0]),
    (json.dumps(BY_ID), {"id": "case-0", **ROWS[0]}),
    (TABLE.to_json(orient="index"), {"id": "0", **ROWS[0]}),
    (LINES, ROWS[0]),
    (json.dumps({"columns": ["a", "b"], "data": [[1, None], [2, "x"]]}), {"a": 1, "b": None}),
    ('{"data": [{"a": NaN}, {"a": 1}]}', {"a": None}),
])  # fmt: skip
def test_a_table_in_one_object(text, first, tmp_path):
    assert rows(tmp_path / "t.json", text)[0] == first


def test_a_table_in_one_object_is_as_long_as_it_was(tmp_path):
    for text in (json.dumps({"data": ROWS}), json.dumps(BY_ID), LINES, TABLE.to_json()):
        assert len(rows(tmp_path / "t.json", text)) == len(ROWS)


@pytest.mark.parametrize(("text", "said"), [
    ('{"a": 1, "b": "x"}', "is one JSON object and no table of rows (its keys: a, b)"),
    ('{"votes": [{"a": 1}], "labels": [{"b": 1}]}', "no table of rows (its keys: votes, labels)"),
    ('{"a": [1, 2], "b": [1]}', "the columns have different lengths: a (2), b (1)"),
    ('{"scores": [{"id": 2}, {"id": 1}], "rows": [{"id": 1}, {"id": 2}]}', "differ in 'id'"),
    ('{"columns": ["a"], "data": [[1, 2]]}', "has 2 cells and there are 1 columns"),
    ('{"columns": ["a", "a"], "data": [[1, 2]]}', "two columns have the same name"),
    ('{"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 2}}', "could be columns of rows or rows by"),
    ('{"data": [', "not JSON"),
    ('{"data": ' + "[" * 100_000, "nested too deeply"),
])  # fmt: skip
def test_an_object_that_is_no_table_is_one_line(text, said, tmp_path):
    with pytest.raises(DatasetError) as bad:
        rows(tmp_path / "t.json", text)
    assert said in str(bad.value)
    assert "\n" not in str(bad.value)


def sheet(path: Path, cells: dict[str, str]) -> Path:
    """Write a workbook with texts in a few cells of its only sheet."""
    with xlsxwriter.Workbook(path) as book:
        page = book.add_worksheet("Votes")
        for name, text in cells.items():
            page.write_string(name, text)
    return path


@pytest.mark.parametrize("far", ["XFD1048576", "KN1048576"])
def test_a_sheet_with_one_cell_far_away_is_refused_by_name_and_size(far, tmp_path):
    path = sheet(tmp_path / "far.xlsx", {"A1": "judge", "B1": "human", far: "x"})
    with pytest.raises(DatasetError, match=r"sheet 'Votes' spans 1,048,576 rows and [\d,]+"):
        list(reader_for(None, path)(path))


def test_a_sheet_of_mostly_empty_cells_is_refused(tmp_path):
    path = sheet(tmp_path / "sparse.xlsx", {"A1": "judge", "B1": "human", "B1048576": "x"})
    match = r"'Votes' spans 1,048,576 rows and 2 columns, and 3 of its 2,097,152 cells are used"
    with pytest.raises(DatasetError, match=match):
        list(reader_for(None, path)(path))


@pytest.mark.parametrize("part", ["xl/sharedStrings.xml", "xl/worksheets/sheet1.xml"])
def test_a_sheet_with_an_endless_text_is_refused(part, tmp_path):
    path = sheet(tmp_path / "near.xlsx", {"A1": "judge", "B1": "human", "A2": "x", "B2": "y"})
    with zipfile.ZipFile(path) as book:
        contents = {name: book.read(name) for name in book.namelist()}
    contents[part] = contents[part].replace(b"</", b"y" * 4_000_000 + b"</", 1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, content in contents.items():
            book.writestr(name, content)
    with pytest.raises(DatasetError, match=r"a cell has more than 1,048,576 characters"):
        list(reader_for(None, path)(path))


def test_an_ordinary_sheet_is_read(tmp_path):
    path = sheet(tmp_path / "near.xlsx", {"A1": "judge", "B1": "human", "A2": "x", "B2": "y"})
    assert [row for _, row in reader_for(None, path)(path)] == [{"judge": "x", "human": "y"}]


def wide(path: Path, columns: int) -> None:
    names = [f"c{number}" for number in range(columns)]
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table({name: [1] for name in names}), path)
    elif path.suffix == ".csv":
        path.write_text(f"{','.join(names)}\n{'1,' * (columns - 1)}1\n")
    else:
        text = StringIO()
        for start in range(0, columns, 100):
            text.write(json.dumps(dict.fromkeys(names[start : start + 100], 1)) + "\n")
        path.write_text(text.getvalue())


@pytest.mark.parametrize("name", ["wide.parquet", "wide.csv", "sparse.jsonl", "sparse.json"])
def test_a_table_with_too_many_columns_is_one_line(name, tmp_path):
    wide(tmp_path / name, 12_000)
    with pytest.raises(DatasetError, match="more than 10,000 columns"):
        list(reader_for(None, tmp_path / name)(tmp_path / name))


def test_a_long_cell_over_many_lines_of_a_compressed_table_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("evalkit.datasets.formats._LONGEST_CELL", 1_000_000)
    path = tmp_path / "long.csv.gz"
    path.write_bytes(gzip.compress(b'a,b\n1,"' + b"x\n" * 2_000_000 + b'"\n'))
    with pytest.raises(DatasetError, match="not csv"):
        list(reader_for(None, path)(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "name", ["pipe.csv", "pipe.jsonl", "pipe.json", "pipe.parquet", "pipe.xlsx"]
)
def test_a_pipe_is_refused_and_not_waited_for(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DatasetError, match="is a pipe or a device and not a file"):
        list(reader_for(None, tmp_path / name)(tmp_path / name))
