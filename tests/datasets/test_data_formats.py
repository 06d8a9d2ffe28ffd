"""Files packed, in other encodings, in folders and patterns, Arrow, standard input, and the shipped samples."""

import bz2
import datetime
import gzip
import io
import json
import lzma
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
import xlsxwriter

from evalkit.config import DatasetConfig
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.types import Case
from evalkit.datasets import CaseStream, Dataset, compression, load_cases, sources, workbooks
from evalkit.datasets.file_parts import OpenFileError
from evalkit.datasets.formats import reader_for
from tests.support.servers import PATIENCE

ROWS = [
    {"id": "one", "prompt": "Q", "response_a": "x", "response_b": "y", "label": "A", "topic": "t"},
    {"id": "二", "prompt": "two\nlines, 中文\u2028", "response_a": "é", "response_b": "z",
     "label": "B", "topic": "u"},
]  # fmt: skip
JSONL = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


def load(path: Path | str, mode: str = "pairwise", **settings: object) -> Dataset:
    return load_cases(DatasetConfig(path=str(path), **settings), mode=mode)


def complaint(path: Path | str, **settings: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def right(tmp_path):
    path = tmp_path / "plain.jsonl"
    path.write_text(JSONL, encoding="utf-8")
    return load(path)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: bytes(pyarrow.Codec("zstd").compress(data)),
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_files_are_told_by_suffix_or_by_their_first_bytes(tmp_path, suffix, right):
    packed = PACKERS[suffix](JSONL.encode())
    named, unnamed = tmp_path / f"d.jsonl.{suffix}", tmp_path / "d2.jsonl"
    named.write_bytes(packed)
    unnamed.write_bytes(packed)
    assert load(named).fingerprint == load(unnamed).fingerprint == right.fingerprint
    named.write_bytes(
        packed + packed
    )  # packed files put one after the other are one, as for gunzip
    assert "id 'one' is already used in line 1" in complaint(named)


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_file_that_is_damaged_is_one_line(tmp_path, suffix):
    path = tmp_path / f"d.jsonl.{suffix}"
    rows = "".join(json.dumps({**ROWS[0], "id": str(i)}) + "\n" for i in range(3000))
    path.write_bytes(PACKERS[suffix](rows.encode())[:-20])
    assert complaint(path).startswith(f"{path}: cannot be decompressed (")
    path.write_bytes(JSONL.encode())
    assert "data, despite its suffix; rename or compress it" in complaint(path)


def test_packed_csv_and_json(tmp_path, right):
    path = tmp_path / "d.json.gz"
    path.write_bytes(gzip.compress(json.dumps(ROWS).encode()))
    assert load(path).fingerprint == right.fingerprint
    path = tmp_path / "d.tsv.gz"
    path.write_bytes(gzip.compress('prompt\tresponse\n"a\nb"\tr\n'.encode("utf-16")))
    assert load(path, "pointwise").cases[0].prompt == "a\nb"
    path = tmp_path / "d.parquet.gz"
    path.write_bytes(gzip.compress(b"PAR1"))
    assert "a parquet file compressed with gzip; decompress it" in complaint(path)
    path = tmp_path / "d.csv.gz"
    path.write_bytes(gzip.compress(b"prompt,response\n" * 1000)[:60])
    with (
        pytest.raises(DatasetError, match="cannot be decompressed"),
        compression.open_lines(path) as lines,
    ):
        list(lines)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_csv_of_another_delimiter_is_told_by_its_header(tmp_path, delimiter):
    path = tmp_path / "d.csv"
    path.write_text(
        delimiter.join(("prompt", "response")) + "\n" + delimiter.join(("a, b", '"c\nd"')) + "\n"
    )
    [case] = load(path, "pointwise").cases
    assert (case.prompt, case.responses[0].text) == ("a, b", "c\nd")
    path.write_text(f'"prompt{delimiter}x",response\na,b\n')
    assert load(path, "pointwise", fields={"prompt": f"prompt{delimiter}x"}).cases[0].prompt == "a"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_encodings_with_a_byte_order_mark(tmp_path, encoding, suffix, right):
    text = JSONL if suffix == "jsonl" else json.dumps(ROWS, ensure_ascii=False)
    path = tmp_path / f"d.{suffix}"
    path.write_bytes(("\ufeff" * encoding.endswith("e") + text).encode(encoding))
    assert load(path).fingerprint == right.fingerprint


@pytest.mark.parametrize("piece", [4, 5, 7, 50, 10_000])
def test_an_array_is_read_alike_in_pieces_of_any_size(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(compression, "_PIECE", piece)
    path = tmp_path / "d.json"
    rows = [
        {"a": 'caf\xe9 \u20ac \U0001f600 \\ " ]', "b": [1.25e-7, True, None, {}]},
        {"c": -12345},
        {},
    ]
    for indent in (None, 0, 2):
        path.write_text(
            " " + json.dumps(rows, indent=indent, ensure_ascii=indent == 2) + "\n", encoding="utf-8"
        )
        assert [row for _, row in read(path)] == rows
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    lines = path.read_text(encoding="utf-8").split("\n")
    starts = [number for number, line in enumerate(lines, 1) if line.startswith(" {")]
    assert [place for place, _ in read(path)] == [f"{path}:{number}" for number in starts]
    for text, said in {
        '[{"a": 1},\n {"a" 2}]': "2: not JSON (column 7: expecting ':' delimiter)",
        '[{"a": 1}, {"b": 1}, {"a": tru}]': "1: not JSON (column 28: expecting value)",
        '[{"a": 1},\n\n {"a": "x\ny"}]': "3: not JSON (column 10: invalid control character)",
        '[{"a": 1},\n {"a": "xy': "2: not JSON (column 8: unterminated string)",
        '[{"a": 1}': "1: not JSON (expected ',' or ']' after a row)",
        '[{"a": 1},\n]': "2: not JSON (column 1: expecting value)",
        '[{"a": 1},\n 12.5]': "2: the row is a number, not an object",
        '[{"a": 1}]\n\n[]': " the file continues after its array of rows",
        "[" * 3000: "1: not JSON (nested too deeply)",
        ' {"a": 1}': " is one JSON object and no table of rows (its keys: a)",
        " 3": " the file is not one JSON array of rows",
    }.items():
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DatasetError) as bad:
            list(read(path))
        assert str(bad.value).startswith(f"{path}:{said};")
    path.write_bytes('[{"a": "\u20ac"},\n {"a": "caf\xe9"}]'.encode().replace(b"\xc3\xa9", b"\xe9"))
    with pytest.raises(DatasetError, match=f"{path}:2: the byte at offset 26 is not UTF-8"):
        list(read(path))


def read(path: Path) -> Iterator[tuple[str, Any]]:
    return iter(reader_for(None, path)(path))


def test_other_encodings_are_one_line(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_bytes(JSONL.encode("utf-32"))
    assert complaint(path) == f"{path}: is UTF-32; save the file as UTF-8"
    path.write_bytes(JSONL.encode("utf-16")[:-1])
    assert "is not UTF-16, despite its byte-order mark" in complaint(path)
    path.write_bytes('{"id": 1, "prompt": "caf\xe9"}\n'.encode("latin-1"))
    assert complaint(path) == (
        f"{path}:1: the byte at offset 24 is not UTF-8; save the file as UTF-8,"
        " or name one after the path, as in 'd.jsonl#cp1252'"
    )


def test_arrow_files_streams_and_feather(tmp_path, right):
    table = pyarrow.Table.from_pylist(ROWS)
    file, stream, feather = tmp_path / "d.arrow", tmp_path / "s.arrow", tmp_path / "d.feather"
    with pyarrow.ipc.new_file(str(file), table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    with pyarrow.ipc.new_stream(str(stream), table.schema) as writer:
        writer.write_table(table)
    pyarrow.feather.write_feather(table, str(feather))
    assert {load(path).fingerprint for path in (file, stream, feather)} == {right.fingerprint}
    file.write_bytes(b"not arrow")
    assert "not an arrow file" in complaint(file)


def workbook(path: Path, rows: list[dict[str, Any]]) -> Path:
    with xlsxwriter.Workbook(path, {"default_date_format": "yyyy-mm-dd"}) as book:
        sheet = book.add_worksheet()
        for column, name in enumerate(rows[0]):
            sheet.write_column(0, column, [name, *(row[name] for row in rows)])
        book.add_worksheet("other").write(0, 0, "not read")
    return path


def test_a_workbook_has_the_rows_of_its_first_sheet(tmp_path, right):
    path = workbook(tmp_path / "d.xlsx", ROWS)
    assert load(path).fingerprint == right.fingerprint
    row = {
        "prompt": "p",
        "response": "x",
        "n": 3,
        "half": 0.5,
        "yes": True,
        "day": datetime.date(2026, 1, 2),
        "no": "",
    }
    cells = load(workbook(path, [row]), "pointwise").cases[0].metadata
    assert cells == {"n": 3, "half": 0.5, "yes": True, "day": "2026-01-02", "no": ""}


TEXTS = {
    "cp1252": "Prüfer;ungenügend",
    "cp1250": "Żółć;źle wyłącznie",
    "cp1251": "Судья;неверно и верно",
    "gb18030": "编号;问题;不合格",
    "cp932": "番号;判定モデル;不正解",
    "euc-jp": "番号;モデル評価;悪い",
    "cp949": "번호;모델 판정;오답",
    "big5": "編號;模型評分;錯誤",
}


@pytest.mark.parametrize("encoding", TEXTS)
def test_an_encoding_is_offered_and_can_be_named(tmp_path, encoding):
    path = tmp_path / "d.csv"
    path.write_bytes(f"prompt,response\np,{TEXTS[encoding]}\n".encode(encoding))
    with pytest.raises(OpenFileError) as caught:
        load(path, "pointwise")
    assert encoding in [name for name, _ in caught.value.parts]
    named = load(f"{path}#{encoding}", "pointwise")
    assert named.cases[0].responses[0].text == TEXTS[encoding]
    with pytest.raises(ConfigError, match="no encoding 'nothing'"):
        load(f"{path}#nothing", "pointwise")


def test_a_text_in_another_encoding_is_refused(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes("prompt,response\np,ü\n".encode("cp1252"))
    with pytest.raises(ConfigError, match="is not utf-8"):
        load(f"{path}#utf-8", "pointwise")


HEADERS = {
    "groups above": (",Judge,,Human\nid,verdict,why,verdict\n", ["Judge verdict", "Human verdict"]),
    "groups in the header": (",Judge,Judge,Human\nid,verdict,why,verdict\n",
                             ["Judge verdict", "Human verdict"]),
    "merged cells in the header": ("id,Judge,,Human\n,verdict,why,verdict\n",
                                   ["Judge verdict", "Human verdict"]),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_may_have_two_rows(tmp_path, name):
    header, verdicts = HEADERS[name]
    path = tmp_path / "d.csv"
    path.write_text(header + "a,pass,x,fail\nb,fail,x,pass\n", encoding="utf-8")
    rows = [row for _, row in reader_for(None, path)(path)]
    assert [[*row] for row in rows] == [["id", verdicts[0], "why", verdicts[1]]] * 2


TEXT_TABLES = {
    "footer.csv": "id,judge\na,pass\nb,x | y\n\nGenerated on 2026-02-01\nBy a program\n",
    "d.md": "# Results\n\n| id | judge |\n|:---|---:|\n| a | pass |\n| b | x \\| y |\n\nThe end.\n",
    "grid.txt": "+----+-------+\n| id | judge |\n+====+=======+\n| a  | pass  |\n| b  | x | y |\n",
    "rich.txt": "  Results\n┏━━━━┳━━━━━━━┓\n┃ id ┃ judge ┃\n┡━━━━╇━━━━━━━┩\n│ a  │ pass  │\n"
    "├────┼───────┤\n│ b  │ x \\| y│\n└────┴───────┘\n",
    "psql.txt": " id | judge\n----+------\n a  | pass\n b  | x \\| y\n(2 rows)\n",
    "pandas.txt": "  id  judge\n0  a   pass\n1  b  x | y\n\n[2 rows x 2 columns]\n",
    "fixed.txt": "id   judge\na    pass\nb    x | y\n",
    "spaces.dat": "id judge\na pass\nb x|y\n",
    "tabs.txt": "id\tjudge\na\tpass\nb\tx | y\n",
    "carets.csv": "id^judge\na^pass\nb^x | y\n",
    "mac.csv": "id,judge\ra,pass\rb,x | y\r",
    "jira.txt": "||id||judge||\n|a|pass|\n|b|x \\| y|\n",
    "pairs.txt": "id=a judge=pass\nid=b judge=x|y\n",
    "json.csv": '[{"id": "a", "judge": "pass"}, {"id": "b", "judge": "x | y"}]',
    "quoted.csv": '"id,judge"\n"a,pass"\n"b,x | y"\n',
    "lists.jsonl": '["id", "judge"]\n["a", "pass"]\n["b", "x | y"]\n',
    "objects.json": '{\n"id": "a", "judge": "pass"}\n{\n"id": "b", "judge": "x | y"}\n',
    "json.txt": '[{"id": "a", "judge": "pass"}, {"id": "b", "judge": "x | y"}]',
}


@pytest.mark.parametrize("name", [name for name in TEXT_TABLES if name != "grid.txt"])
def test_a_table_in_plain_text_is_read(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(TEXT_TABLES[name].encode())
    rows = [row for _, row in reader_for(None, path)(path)]
    assert [row["id"] for row in rows] == ["a", "b"]
    assert [row["judge"].replace(" ", "") for row in rows] == ["pass", "x|y"]


@pytest.mark.parametrize(("text", "problem"), [
    ("A note on the results.\nThey are good.\nAll is well that ends well.\n", "is no table"),
    ("  id judge\n0  a  pass\n.. ..  ...\n9  b  fail\n", "rows are left out"),
    (TEXT_TABLES["grid.txt"], "is no table"),
    ("<table><tr><th>id</th></tr>\n</table>\n", "is HTML, and no table of cells"),
    ("\\begin{tabular}{ll}\nid & judge", "is LaTeX, and no table of cells"),
    ("{| class=wikitable\n! id !! judge", "is a table of a wiki, and no table of cells"),
])  # fmt: skip
def test_a_text_without_a_whole_table_is_refused(tmp_path, text, problem):
    path = tmp_path / ("d.csv" if "of cells" in problem else "d.txt")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DatasetError, match=problem):
        list(reader_for(None, path)(path))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["d.csv", "d.json"])
def test_utf_16_without_a_mark_is_asked(tmp_path, encoding, name):
    path = tmp_path / name
    table = "prompt,response\nwhat,this\n"
    rows = '[{"prompt": "what", "response": "this"}]'
    path.write_bytes((table if name == "d.csv" else rows).encode(encoding))
    with pytest.raises(OpenFileError, match="every other byte is zero") as caught:
        load(path, "pointwise")
    assert [part for part, _ in caught.value.parts] == [encoding]
    assert load(f"{path}#{encoding}", "pointwise").cases[0].prompt == "what"


def test_a_row_below_two_equal_names_is_no_header(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("id,score,score\na,pass,fail\nb,pass,pass\n", encoding="utf-8")
    (_, row), _ = reader_for(None, path)(path)
    assert row == {"id": "a", "score (column 2)": "pass", "score (column 3)": "fail"}


def test_a_sheet_is_named_after_the_path(tmp_path):
    path = tmp_path / "d.xlsx"
    with xlsxwriter.Workbook(path) as book:
        for name in ("one", "two"):
            sheet = book.add_worksheet(name)
            for column, values in enumerate((("prompt", name, "q"), ("response", "x", "y"))):
                sheet.write_column(0, column, values)
    with pytest.raises(OpenFileError) as caught:
        load(path, "pointwise")
    assert [part for part, _ in caught.value.parts] == ["one", "two"]
    assert [case.prompt for case in load(f"{path}#two", "pointwise").cases] == ["two", "q"]


def test_a_cell_of_a_sheet_next_to_the_table_is_one_line(tmp_path):
    path = tmp_path / "d.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        for row, cells in enumerate((("prompt", "response"), ("q", "x"), ("q", "y", "", "note"))):
            sheet.write_row(row, 0, cells)
    with pytest.raises(DatasetError) as caught:
        load(path, "pointwise")
    message = str(caught.value)
    assert ":3: the row has 4 cells and the header 2; name the columns" in message
    assert "delete the cells next to the table" in message


def test_a_bad_workbook_is_one_line(tmp_path, monkeypatch):
    path = workbook(tmp_path / "d.xlsx", ROWS)
    content = path.read_bytes()
    for bad in (
        b"",
        b"prompt,label\n",
        content[:-30],
        content[: len(content) // 2],
        content.replace(b"sheet1", b"sheat1"),
    ):
        path.write_bytes(bad)
        assert "not an Excel workbook" in complaint(path)
    path.write_bytes(content)
    monkeypatch.setattr(workbooks, "_LARGEST", 1000)
    assert "GiB when decompressed" in complaint(path)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    assert "pip install 'evalkit-judge[excel]'" in complaint(path)


def test_parquet_of_several_row_groups_and_nested_columns(tmp_path):
    rows = [
        {"prompt": f"p{i}", "responses": ["a", "b"], "n": i, "m": {"k": [i, None]}}
        for i in range(10)
    ]
    path = tmp_path / "d.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=3)
    cases = load(path).cases
    assert [case.prompt for case in cases] == [f"p{i}" for i in range(10)]
    assert cases[9].metadata == {"n": 9, "m": {"k": [9, None]}}
    twice = pyarrow.table([[1], [2]], names=["prompt", "prompt"])
    pyarrow.parquet.write_table(twice, path)
    assert "two columns are named 'prompt'" in complaint(path)


def test_folders_and_patterns_are_read_file_by_file_in_order(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    for name, number in (
        ("b.jsonl", 2),
        ("a.jsonl", 1),
        ("deep/c.jsonl", 3),
        (".hidden.jsonl", 4),
        ("README.md", 5),
    ):
        (folder / name).write_text(
            json.dumps({**ROWS[0], "id": str(number)}) + "\n", encoding="utf-8"
        )
    monkeypatch.chdir(tmp_path)

    def ids(path: str) -> list[str]:
        return [case.id for case in load(path).cases]

    assert ids("data") == ids("data/*.jsonl") == ids(f"{folder}/[ab].jsonl") == ["1", "2"]
    assert ids("data/**/*.jsonl") == ["1", "2", "3"]
    assert complaint("data/*.csv") == "dataset.path=data/*.csv: no file matches; fix the glob"
    (folder / "b.jsonl").write_text(json.dumps({**ROWS[0], "id": "1"}) + "\n", encoding="utf-8")
    assert (
        complaint("data")
        == "data/b.jsonl:1: id '1' is already used in data/a.jsonl:1; make ids unique"
    )
    (folder / "b[1].jsonl").write_text(json.dumps({**ROWS[0], "id": "9"}) + "\n", encoding="utf-8")
    assert ids("data/b[1].jsonl") == ["9"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    config = DatasetConfig(path="data/a*.jsonl")
    assert [case.id for case in load_cases(config, mode="pairwise", base=tmp_path).cases] == ["1"]


@pytest.fixture
def stdin(monkeypatch):
    def give(content: bytes) -> None:
        sources._spool_standard_input.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    yield give
    sources._spool_standard_input.cache_clear()


def test_standard_input_is_read_once_and_can_be_used_twice(stdin, right):
    stdin(gzip.compress(JSONL.encode()))
    first, second = (load("-", format="jsonl") for _ in range(2))
    assert first.fingerprint == second.fingerprint == right.fingerprint
    assert first.source == "stdin"


def test_complaints_about_standard_input(stdin, monkeypatch):
    stdin(b'{"id": 1}\n')
    assert complaint("-").startswith("dataset.format: not set, and standard input has no suffix")
    assert complaint("-", format="jsonl").startswith("stdin:1: no column 'response'")
    stdin(b"{\n")
    assert complaint("-", format="jsonl").startswith("stdin:1: the row is not JSON")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert "standard input is a terminal; pipe a file into it" in complaint("-", format="jsonl")


def test_paths_that_are_not_fetched(tmp_path):
    assert complaint("s3://bucket/d.jsonl") == (
        "dataset.path=s3://bucket/d.jsonl: 's3:' paths are not supported; download the file"
    )
    assert "no such file" in complaint(tmp_path / "a:b.jsonl")


def test_fast_and_slow_json_agree(tmp_path):
    floats = [
        *("0.1", "1e22", "123456789.123456789", "5e-324", "2.2250738585072014e-308", "1e999"),
        *("-0.0", "12345678901234567890"),
    ]
    path = tmp_path / "d.jsonl"
    odd = [
        f'{{"prompt": "p", "response": "r", "v": {value}}}'
        for value in (*floats, "NaN", "Infinity")
    ]
    path.write_text(
        "\n".join([*odd, '{"prompt": "\\ud800", "response": "r", "v": [1, 1]}']), encoding="utf-8"
    )
    cases = load(path, "pointwise").cases
    found = [case.metadata["v"] for case in cases]
    assert found == [
        *(float(v) if v != "1e999" else "inf" for v in floats[:-1]),
        int(floats[-1]),
        None,
        "Infinity",
        [1, 1],
    ]
    assert cases[-1].prompt == "\ud800"


def test_ids_are_compared_beyond_what_is_held(tmp_path, monkeypatch):
    from evalkit.core import spool
    from evalkit.datasets import load as loading

    monkeypatch.setattr(loading, "HELD", 4)
    monkeypatch.setattr(spool, "_HELD", 8)
    path = tmp_path / "d.jsonl"

    def write(*ids: int) -> None:
        path.write_text(
            "".join(json.dumps({**ROWS[0], "id": id_}) + "\n" for id_ in ids), encoding="utf-8"
        )

    write(*range(100))
    assert len(load(path).cases) == 100
    write(*range(100), 17, *range(200, 230))
    assert complaint(path) == f"{path}:101: id '17' is already used in line 18; make ids unique"
    assert [case.id for case in load(path, limit=50).cases] == [str(i) for i in range(50)]
    stream = CaseStream(DatasetConfig(path=str(path), limit=3), mode="pairwise")
    assert [case.id for case in stream] == ["0", "1", "2"]
    assert stream.rows == 3


# In a process of its own: threads that other tests left may allocate meanwhile.
PEAKS = """
import sys, tracemalloc
from evalkit.config import DatasetConfig
from evalkit.core import spool
from evalkit.datasets import CaseStream, load

load.HELD, spool._HELD = 256, 256
for path in sys.argv[1:]:
    tracemalloc.start()
    count = sum(1 for _ in CaseStream(DatasetConfig(path=path), mode="pairwise"))
    print(count, tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_rows(tmp_path):
    def written(count: int, suffix: str) -> Path:
        rows = [{**ROWS[0], "id": str(i), "response_a": f"{i} " * 100} for i in range(count)]
        path = tmp_path / f"{count}.{suffix}"
        if suffix == "parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=150)
        else:
            path.write_text(
                json.dumps(rows)
                if suffix == "json"
                else "".join(json.dumps(row) + "\n" for row in rows)
            )
        return path

    paths = [
        written(count, suffix)
        for suffix in ("jsonl", "parquet", "json")
        for count in (500, 500, 2000)
    ]
    command = [sys.executable, "-c", PEAKS, *paths]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    found = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert [count for count, _ in found] == [500, 500, 2000] * 3
    for (_, few), (_, many) in zip(found[1::3], found[2::3], strict=True):
        assert many < 1.2 * few + 50_000


@pytest.mark.parametrize(("source", "name"), [
    ("data/pairs.v2.jsonl.gz", "pairs.v2"),
    ("data/*.jsonl", "data"),
    ("*.jsonl", "files"),
    ("evalkit:sample.jsonl", "evalkit:sample"),
    ("runs:/0a/data/cases.parquet", "cases"),
    ("frame", "frame"),
])  # fmt: skip
def test_a_data_set_has_a_short_name(source, name):
    assert Dataset((), "", source).name == name


FLAWS = {"factual_error", "ignored_instruction", "omission", "padding"}


def shipped(name: str, mode: str) -> Dataset:
    return load_cases(DatasetConfig(path=f"evalkit:{name}"), mode=mode)


def better_is_shorter(case: Case) -> bool:
    a, b = (len(r.text) for r in case.responses)
    return a < b if case.label == "A" else b < a


def test_sample_is_balanced():
    dataset = shipped("sample.jsonl", "pairwise")
    cells = Counter((c.label, c.metadata["language"], better_is_shorter(c)) for c in dataset.cases)
    assert len(dataset.cases) == 24
    assert dataset.notes == ()
    for label in "AB":
        for shorter in (True, False):
            assert cells[label, "en", shorter] == 4
            assert cells[label, "zh", shorter] == 2


def test_quick_is_a_balanced_part_of_the_sample():
    cases, all_of_them = (
        shipped(name, "pairwise").cases for name in ("quick.jsonl", "sample.jsonl")
    )
    assert {c.id: c for c in cases}.items() <= {c.id: c for c in all_of_them}.items()
    assert Counter((c.label, better_is_shorter(c)) for c in cases) == {
        (a, b): 3 for a in "AB" for b in (True, False)
    }
    assert {c.metadata["flaw"] for c in cases} == FLAWS
    assert sum(c.metadata["language"] == "zh" for c in cases) == 2


@pytest.mark.parametrize("mode", ["pairwise", "pointwise", "listwise"])
def test_graded_holds_four_levels_a_case(mode):
    dataset = shipped("graded.jsonl", mode)
    assert len(dataset.cases) == 6
    assert dataset.notes == ()
    assert sum(c.metadata["language"] == "zh" for c in dataset.cases) == 2
    for case in dataset.cases:
        assert {r.model for r in case.responses} == {f"system-{s}" for s in "abcd"}
        assert len({r.grade for r in case.responses}) == 4
        assert {r.grade for r in case.responses} <= {1, 2, 3, 4, 5}
        assert case.label is None
