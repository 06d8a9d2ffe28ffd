"""Rows that are held by column are the rows that are read one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.core.errors import DatasetError
from evalkit.datasets.table_rows import TableRows
from evalkit.interop.layouts.judgment_files import rows_of, table_rows

TABLES = {
    "plain": "id,text\n1,a\n2,b\n",
    "marked names and cells": "'=id,text\n1,'=a\n2,'b\n",
    "lines in a cell": 'id,text\n1,"a\nb"\n2,c\n',
    "blank rows and cells": "id,text\n1,\n,\n2,b\n\n",
    "title and footer": "My table\n\nid,text\n1,a\n2,b\n\nmade by a program\n",
    "blank cells beyond the header": "id,text\n1,a,\n2,b, \n",
    "a column without a name": "id,,text\n1,,a\n2, ,b\n",
    "lines of an old Mac": "id,text\r1,a\r2,b\r",
    "two columns of one name": "id,id\n1,a\n2,b\n",
    "another delimiter": "id;text\n1;a\n2;b\n",
    "rules between cells": "| id | text |\n|---|---|\n| 1 | a |\n| 2 | b |\n",
    "JSON": '[{"id": 1}, {"id": 2, "text": "a"}]',
    "many rows": "id,text\n" + "".join(f"{row},{row % 3}\n" for row in range(9000)),
    "many different cells": "id\n" + "".join(f"cell {row}\n" for row in range(9000)),
}
REFUSED = {
    "a short row": "id,text\n1,a\n2\n",
    "a long row": "id,text\n1,a\n2,b,c\n",
    "a value without a name": "id,,text\n1,,a\n2,x,b\n",
    "an open quote": 'id,text\n1,a\n2,"b\n',
    "a NUL in a name": "id,te\0xt\n1,a\n2,b\n",
}


def _file(folder: Path, content: str) -> Path:
    path = folder / "table.csv"
    path.write_text(content, newline="")
    return path


@pytest.mark.parametrize("name", TABLES)
def test_rows_by_column_are_the_rows_of_the_file(name, tmp_path):
    path = _file(tmp_path, TABLES[name])
    rows = list(rows_of(path))
    table = table_rows(path)
    assert [*table] == rows
    assert [*table[1:]] == rows[1:]


@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_table_is_refused_with_the_same_line(name, tmp_path):
    path = _file(tmp_path, REFUSED[name])
    with pytest.raises(DatasetError) as expected:
        list(rows_of(path))
    with pytest.raises(DatasetError) as refused:
        table_rows(path)
    assert str(refused.value) == str(expected.value)


def test_equal_cells_of_a_column_are_one_object(tmp_path):
    table = table_rows(_file(tmp_path, "id,text\n1,some words\n2,some words\n"))
    assert isinstance(table, TableRows)
    first, second = table.columns["text"]
    assert first is second


def test_a_row_without_a_column_has_none_in_it():
    table = TableRows.of([("line 1", {"id": 1}), ("line 2", {"text": "a"})])
    assert table.columns == {"id": [1, None], "text": [None, "a"]}
    assert [*table.locations] == ["line 1", "line 2"]
