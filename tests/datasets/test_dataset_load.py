"""Reading cases: every format and mapping, labels of one annotator or several, and one line for each mistake."""

import csv
import json
import random
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import DatasetConfig
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.hashing import canonical_json
from evalkit.core.types import Response
from evalkit.datasets import Dataset, load_cases
from evalkit.datasets.labels import Labels, normalize_label, read_choice

PAIR = {
    "id": "one",
    "prompt": "Q",
    "response_a": "x",
    "response_b": "y",
    "label": "A",
    "topic": "t",
}


def load(path: Path, mode: str = "pairwise", **settings: object) -> Dataset:
    return load_cases(DatasetConfig(path=str(path), **settings), mode=mode)


@pytest.fixture
def write(tmp_path):
    def write(*rows: object, name: str = "data.jsonl") -> Path:
        path = tmp_path / name
        path.write_text(
            "".join(r if isinstance(r, str) else json.dumps(r) + "\n" for r in rows),
            encoding="utf-8",
        )
        return path

    return write


def complaint(path: Path, mode: str = "pairwise", **settings: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, mode, **settings)
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix(f"{path}")


# Formats


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("\n\n".join(map(json.dumps, rows)), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8-sig")
    elif path.suffix == ".parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, rows[0], delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "tsv", "parquet"])
def test_each_format_gives_the_same_cases(tmp_path, suffix):
    rows = [PAIR, {**PAIR, "id": "二", "prompt": 'two\nlines, "quoted"\tand 中文', "label": "tie"}]
    dataset = load(written(tmp_path / f"d.{suffix}", rows))
    assert [c.id for c in dataset.cases] == ["one", "二"]
    assert dataset.cases[1].prompt == rows[1]["prompt"]
    assert [c.label for c in dataset.cases] == ["A", "TIE"]
    assert dataset.cases[0].responses == (Response("x"), Response("y"))
    assert dataset.cases[0].metadata == {"topic": "t"}
    reference = load(written(tmp_path / "same.jsonl", rows))
    assert dataset.fingerprint == reference.fingerprint
    assert dataset.notes == ()


def test_format_setting_goes_before_the_suffix(write):
    path = write(PAIR, name="data.dump")
    assert len(load(path, format="jsonl").cases) == 1
    assert "dataset.format: no reader for format 'dump'; choose from arrow, csv" in complaint(path)
    for document in ("html", "tex", "xls"):
        assert "save the table as CSV or .xlsx" in complaint(write(PAIR, name=f"data.{document}"))
    assert "did you mean 'jsonl'?" in complaint(path, format="jsnol")
    assert "no suffix" in complaint(write(PAIR, name="data"))


def test_rows_are_read_only_up_to_the_limit(write):
    path = write(PAIR, {**PAIR, "id": "two"}, "not json\n")
    assert [c.id for c in load(path, limit=2).cases] == ["one", "two"]


def test_parquet_values_become_json_values(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [
        {**PAIR, "when": date(2024, 5, 1), "raw": b"ab\xff", "cost": float("nan"),
         "far": float("inf")},
    ]  # fmt: skip
    path = tmp_path / "d.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    metadata = load(path).cases[0].metadata
    assert metadata == {
        "topic": "t",
        "when": "2024-05-01",
        "raw": "ab\\xff",
        "cost": None,
        "far": "inf",
    }
    assert canonical_json(metadata)
    parquet.write_table(pyarrow.Table.from_pylist([PAIR, PAIR]), path)
    assert complaint(path) == ":row 2: id 'one' is already used in row 1; make ids unique"
    path.write_text("not parquet at all", encoding="utf-8")
    assert "not a parquet file" in complaint(path)


# Fields


def test_fields_map_columns_and_parts_of_them(write):
    row = {
        "conversation": [{"role": "user", "content": "hello"}],
        "out": {"left": "x", "right": "y"},
        "a.b": "dotted",
        "verdict": 2,
        "who": "m1",
        "prompt": "not this",
    }
    fields = {
        "prompt": "conversation.0.content",
        "response_a": "out.left",
        "response_b": "out.right",
    }
    fields |= {"reference": "a.b", "label": "verdict", "model_a": "who"}
    dataset = load(write(row), fields=fields, label_map={"1": "A", "2": "B"})
    case = dataset.cases[0]
    assert (case.id, case.prompt, case.reference, case.label) == ("1", "hello", "dotted", "B")
    assert case.responses == (Response("x", "m1"), Response("y"))
    assert set(case.metadata) == {"conversation", "out", "prompt"}
    assert dataset.notes == (
        f"cases without an id, identified by row number: 1 (first: {dataset.source}:1)",
    )


def test_an_optional_column_may_be_missing_in_some_rows_but_not_in_all(write):
    path = write({**PAIR, "info": "c"}, {**PAIR, "id": "two"})
    assert [c.context for c in load(path, fields={"context": "info"}).cases] == ["c", None]
    assert "no column 'inof' for context" in complaint(path, fields={"context": "inof"})
    assert "did you mean" in complaint(path, fields={"label": "labels"})
    assert "is not used" in complaint(
        write({"prompt": "p", "response": "r", "m": 1}), "pointwise", fields={"model_a": "m"}
    )


def test_a_missing_column_names_the_columns_there_are(write):
    path = write(PAIR)
    assert complaint(path, fields={"response_b": "respones_b"}) == (
        ":1: no column 'respones_b' for response_b; the columns are id, prompt, response_a, response_b, label, topic; "
        "did you mean 'response_b'?"
    )
    assert "name one of them in" in complaint(write({"x": 1, "response": "r"}), mode="pointwise")
    assert "no column 'response_b'" in complaint(write({"prompt": "p", "response_a": "r"}))
    assert "no column 'response_a'" in complaint(write({"prompt": "p", "response_b": "r"}))
    assert "no column 'key' for id" in complaint(
        write({**PAIR, "key": "k"}, {**PAIR}), fields={"id": "key"}
    )


def test_unknown_canonical_field(write):
    said = complaint(write(PAIR), fields={"respons_a": "x"})
    assert said == "dataset.fields.respons_a: no such field; did you mean 'response_a'?"


def test_responses_as_texts_and_as_objects(write):
    row = {
        "id": 3,
        "prompt": "p",
        "responses": ["a", {"model": "m", "text": "b", "label": 4, "tokens": 9}],
    }
    dataset = load(write(row))
    assert dataset.cases[0].id == "3"
    assert dataset.cases[0].responses == (Response("a"), Response("b", "m", 4.0))
    assert dataset.notes == (
        f"responses with a 'tokens', which is not used: 1 (first: {dataset.source}:1)",
    )


def test_a_column_with_the_name_of_labels_is_not_ignored_silently(write):
    rows = {"id": "1", "prompt": "p", "response": "r", "Grade": 3}
    note = "column 'Grade' is metadata: if it has the labels, set dataset.fields.label=Grade"
    assert load(write(rows), "pointwise").notes == (note,)
    assert load(write(rows), "pointwise", fields={"label": "Grade"}).notes == ()
    assert load(write({**rows, "label": 2}), "pointwise").notes == ()


def test_csv_may_hold_lists_as_json(tmp_path):
    rows = [
        {"id": "1", "prompt": "p", "context": "", "responses": '["a", "b", "c"]',
         "label": "[1, null, 2.5]"},
    ]  # fmt: skip
    case = load(written(tmp_path / "d.csv", rows)).cases[0]
    assert [r.grade for r in case.responses] == [1.0, None, 2.5]
    assert case.context is None


# Errors that name their place


@pytest.mark.parametrize(("row", "said"), [
    ('{"id": 1,\n', ":2: the row is not JSON (column "),
    ("[1, 2]\n", ":2: the row is a list, not an object; write one JSON object per line"),
    ("null\n", ":2: the row is null, not an object"),
    ("[" * 100_000 + "\n", ":2: the row is not JSON (nested too deeply)"),
    (PAIR, ":2: id 'one' is already used in line 1; make ids unique"),
    ({**PAIR, "id": "2", "response_b": None}, ":2: response_b is null; remove the row"),
    ({**PAIR, "id": "2", "prompt": None}, ":2: prompt is null"),
    ({**PAIR, "id": "2", "response_a": float("nan")}, ":2: response_a is null"),
    ({**PAIR, "id": "2", "prompt": [{"content": "x"}]}, ":2: prompt is a list, not a text"),
    ({**PAIR, "id": {"n": 1}}, ":2: id is an object, not a text"),
    ({**PAIR, "id": "2", "label": "better"}, ':2: label "better" is not mapped to A, B or'),
    ({**PAIR, "id": "2", "label": True}, ":2: label true is not mapped to A, B or TIE"),
    ({**PAIR, "id": "2", "label": [1]}, ":2: label has 1 grades for 2 responses"),
    ({**PAIR, "id": "2", "label": [1, "good"]}, ':2: the grade "good" is not a number; map it'),
    ({**PAIR, "id": "2", "label": "[1, "}, ':2: label "[1, " is not a JSON list'),
    ({"prompt": "p", "responses": "text"}, ":2: responses is not a list"),
    ({"prompt": "p", "responses": "[1, "}, ":2: responses is not a JSON list"),
    ({"prompt": "p", "responses": []}, ":2: no responses, and mode pairwise needs 2"),
    ({"prompt": "p", "responses": ["a"]}, ":2: 1 response, and mode pairwise needs 2; set"),
    ({"prompt": "p", "responses": ["a", {"txt": "b"}]},
     ":2: responses.1 has no 'text'; did you mean 'txt'?"),
    ({"prompt": "p", "responses": ["a", None]}, ":2: responses.1 is null"),
])  # fmt: skip
def test_a_bad_row_is_named_by_file_and_line(write, row, said):
    assert complaint(write(PAIR, row)).startswith(said)


def test_an_array_in_a_jsonl_file_is_recognised(write):
    assert "set dataset.format=json" in complaint(write(json.dumps([PAIR])))
    assert "set dataset.format=json" in complaint(write("[\n"))


@pytest.mark.parametrize(("content", "said"), [
    ("a,b,a\n1,2,3\n", ":1: two columns are named 'a'"),
    ("prompt,response\np\n", ":2: the row has 1 cells and the header 2"),
    ("prompt,response\np,r,s\n", ":2: the row has 3 cells"),
    ('prompt,response\n"p,r\n', ":2: not csv (unexpected end of data)"),
    ("prompt,response\n", ": the file has no rows"),
    ("", ": the file has no rows"),
    ('prompt,response\n"two\nlines",r\n\np\n', ":5: the row has 1 cells"),
    ('prompt,response\n"two\nlines"\n', ":2: the row has 1 cells"),
])  # fmt: skip
def test_a_bad_csv_file(write, content, said):
    assert complaint(write(content, name="d.csv"), mode="pointwise").startswith(said)


def test_a_long_csv_cell_is_read(tmp_path):
    rows = [{"prompt": "p", "response": "x" * 200_000}]
    assert (
        len(load(written(tmp_path / "d.csv", rows), "pointwise").cases[0].responses[0].text)
        == 200_000
    )


def test_bad_encoding_names_the_byte(tmp_path):
    path = tmp_path / "d.jsonl"
    good = json.dumps(PAIR).encode() + b"\n"
    path.write_bytes(b"\xef\xbb\xbf\xff" + good)
    assert complaint(path).startswith(":1: the byte at offset 3 is not UTF-8")
    path.write_bytes(b"\xef\xbb\xbf" + good + b'{"id": "\xff"}\n')
    problem = f":2: the byte at offset {3 + len(good) + 8} is not UTF-8; save the file as UTF-8"
    assert complaint(path).startswith(problem)


def test_missing_files(write, tmp_path, monkeypatch):
    path = write(PAIR, name="cases.jsonl")
    assert complaint(tmp_path / "case.jsonl") == ": no such file; did you mean 'cases.jsonl'?"
    assert "set dataset.path" in complaint(tmp_path / "zzz.csv")
    assert "no such file or folder" in complaint(tmp_path / "nowhere" / "cases.jsonl")
    (tmp_path / "empty").mkdir()
    assert "is a folder with no data files" in complaint(tmp_path / "empty")
    with pytest.raises(ConfigError, match=r"^dataset\.path: not set"):
        load_cases(DatasetConfig(), mode="pairwise")
    with pytest.raises(
        DatasetError, match=r"no such shipped sample; did you mean 'sample\.jsonl'\?"
    ):
        load_cases(DatasetConfig(path="evalkit:sampel.jsonl"), mode="pairwise")
    inside = tmp_path / "elsewhere"
    inside.mkdir()
    monkeypatch.chdir(inside)
    config = DatasetConfig(path=path.name)
    assert load_cases(config, mode="pairwise", base=tmp_path).source == path.name
    with pytest.raises(DatasetError):
        load_cases(config, mode="pairwise")


def test_a_file_that_cannot_be_opened(write, monkeypatch):
    path = write(PAIR)

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    assert (
        complaint(path)
        == ": cannot be read (Permission denied); check the file and its permissions"
    )


# What is said


def test_what_had_to_be_interpreted_is_said_once_with_its_count(write):
    rows = [
        {"prompt": 5, "response_a": True, "response_b": 1.5, "label": "A"},
        {"prompt": "p", "response_a": "", "response_b": "y", "context": ""},
        {"prompt": "p", "response_a": "s", "response_b": "s"},
    ]
    dataset = load(write(*rows))
    assert [r.text for r in dataset.cases[0].responses] == ["true", "1.5"]
    assert dataset.cases[0].prompt == "5"
    path = dataset.source
    assert set(dataset.notes) == {
        f"cases without an id, identified by row number: 3 (first: {path}:1)",
        f"numbers and booleans read as text: 3 (first: {path}:1)",
        f"empty responses, judged as they are: 1 (first: {path}:2)",
        f"cases with two identical responses: 1 (first: {path}:3)",
        "cases without a label: 2 of 3",
    }


def test_row_numbers_that_meet_given_ids_are_refused(write):
    assert "id '2' is already used in" in complaint(write({**PAIR, "id": 2}, {**PAIR, "id": None}))


def test_surrogates_and_control_characters_survive(write):
    text = "a\ud800b\x00c\u2028d"
    dataset = load(write({**PAIR, "prompt": text}, {**PAIR, "id": "2"}))
    assert dataset.cases[0].prompt == text
    assert len(dataset.fingerprint) == 64


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(list(PAIR)) | st.text(max_size=3), json_values, max_size=8),
        max_size=4,
    )
)
def test_any_rows_give_their_cases_or_one_line(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("any") / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    try:
        dataset = load(path)
    except DatasetError as bad:
        said = str(bad)
        assert said.startswith(str(path)) and "\n" not in said  # noqa: PT018 - either way out is right
    else:
        assert len(dataset.cases) == len(rows)
        assert all(canonical_json(dict(c.metadata)) for c in dataset.cases)


def test_fingerprint_follows_content_and_order_only(write):
    rows = [{**PAIR, "id": str(i)} for i in range(4)]
    first = load(write(*rows)).fingerprint
    assert (
        load(write(*(dict(reversed(r.items())) for r in rows), name="other.jsonl")).fingerprint
        == first
    )
    assert load(write(*reversed(rows))).fingerprint != first
    for change in (
        {"prompt": "z"},
        {"response_a": "z"},
        {"label": "B"},
        {"topic": "z"},
        {"model_a": "z"},
    ):
        assert load(write(rows[0], rows[1], rows[2], {**rows[3], **change})).fingerprint != first


# Published data


@pytest.mark.shared
@pytest.mark.parametrize(("subset", "count"), [("Natural", 100), ("Adversarial/GPTInst", 92)])
def test_llmbar_is_read_with_settings_alone(shared, subset, count):
    path = shared / "data" / "llmbar" / subset / "dataset.json"
    fields = {"prompt": "input", "response_a": "output_1", "response_b": "output_2"}
    dataset = load(path, fields=fields, label_map={"1": "A", "2": "B"})
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert len(dataset.cases) == count
    assert Counter(c.label for c in dataset.cases) == Counter("AB"[r["label"] - 1] for r in rows)
    at = random.Random(1).randrange(count)
    assert dataset.cases[at].responses[1].text == rows[at]["output_2"]
    unmapped = complaint(path, fields=fields)
    assert "is not mapped to A, B or TIE; map it, for example " in unmapped


ONE, TWO, THREE = (tuple(Response(t) for t in "xyz"[:n]) for n in (1, 2, 3))


@pytest.mark.parametrize("value", [1, "1", 1.0, "1.0", " 1 "])
def test_one_label_in_many_spellings(value):
    assert normalize_label(value) == "1"
    for key in ("1", "1.0"):
        assert Labels({key: "B"}).attach(value, TWO, "here") == ("B", TWO)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("A", "A"), ("b", "B"), ("Tie", "TIE"), (" TIE ", "TIE"), (None, None), ("", None)],
)
def test_plain_choices_need_no_map(value, expected):
    assert Labels({}).attach(value, THREE, "here") == (expected, THREE)


@pytest.mark.parametrize(
    "word", ["left", "Right", "first", "model_a", "C", "[[A]]", "tie (both bad)", "none", "1", 2]
)
def test_an_annotators_choice_has_no_other_spelling(word):
    assert [read_choice(one, "l.csv:2") for one in (" a", "B", "Tie")] == ["A", "B", "TIE"]
    with pytest.raises(DatasetError) as error:
        read_choice(word, "l.csv:2")
    assert str(error.value) == f"l.csv:2: '{word}' is not a winner; write A, B or TIE"


def test_the_map_goes_before_the_plain_reading():
    labels = Labels({"A": "B", "model_b": "B", "true": "A", "中": "TIE"})
    assert [labels.attach(v, TWO, "here")[0] for v in ("A", "model_b", True, "中", "B")] == [
        *("B", "B", "A", "TIE", "B"),
    ]


def test_grades():
    labels = Labels({"good": 5, "true": 0, "4": 40})
    assert [labels.attach(v, ONE, "here")[1][0].grade for v in (3, "2.5", "good", True, 4)] == [
        *(3, 2.5, 5, 0, 40),
    ]
    assert [r.grade for r in labels.attach([1, None, "good"], THREE, "here")[1]] == [1, None, 5]
    assert labels.grade("", "here") is None


@pytest.mark.parametrize(
    ("value", "responses", "said"),
    [
        ("A", ONE, 'here: label "A" chooses between two responses, but there is one'),
        ("fine", ONE, 'here: label "fine" is not a number; map it'),
        (False, ONE, "here: label false is not a number"),
        ("nan", ONE, 'here: label "nan" is not a number'),
        ("inf", TWO, 'here: label "inf" is not mapped'),
        (
            2,
            TWO,
            "here: label 2 is not mapped to A, B or TIE; map it, for example 'dataset.label_map=\"2=A\"', or",
        ),
        ("x" * 99, TWO, 'here: label "' + "x" * 38 + "… is not mapped"),
        ({"a": 1}, TWO, 'here: label {"a": 1} is not mapped'),
    ],
)
def test_a_label_that_says_nothing_is_refused(value, responses, said):
    with pytest.raises(DatasetError) as caught:
        Labels({}).attach(value, responses, "here")
    assert str(caught.value).startswith(said)


def test_a_winner_is_no_grade():
    with pytest.raises(DatasetError, match="not a number"):
        Labels({"good": "A"}).grade("good", "here")


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_number_is_its_own_grade(value):
    assert Labels({}).grade(value, "here") == pytest.approx(value, rel=1e-12, abs=0)


LABELED = {"prompt": "q", "response_a": "x", "response_b": "y"}


def load_labeled(tmp_path: Path, *rows: dict, mode: str = "pairwise", **config):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_cases(DatasetConfig(path=str(path), **config), mode=mode)


PEOPLE = {"ann": "A", "bo": "b", "cy": "tie", "di": None, "ed": "B"}
GRADED = [{"text": "x", "labels": {"ann": 1, "bo": 3}}, {"text": "y", "labels": {"bo": 5}}]
NO_GRADES = [None, None]
BY_PEOPLE = {
    # Columns; annotators' labels, the case's label, and the responses' grades.
    "choices": (
        {"labels": PEOPLE},
        {"ann": "A", "bo": "B", "cy": "TIE", "ed": "B"},
        "B",
        NO_GRADES,
    ),
    "split": ({"labels": {"ann": "A", "bo": "B"}}, {"ann": "A", "bo": "B"}, None, NO_GRADES),
    "a text": ({"labels": '{"ann": "A"}'}, {"ann": "A"}, "A", NO_GRADES),
    "a label of its own": ({"label": "A", "labels": {"ann": "B"}}, {"ann": "B"}, "A", NO_GRADES),
    "grades": ({"labels": {"ann": [1, 4], "bo": [2, None]}},
               *({"ann": (1.0, 4.0), "bo": (2.0, None)}, None, [1.5, 4.0])),
    "on responses": ({"responses": [*GRADED, {"text": "z"}]},
                     *({"ann": (1.0, None, None), "bo": (3.0, 5.0, None)}, None, [2.0, 5.0, None])),
    "one response": ({"response": "x", "labels": {"ann": 4, "bo": "5"}},
                     *({"ann": (4.0,), "bo": (5.0,)}, None, [4.5])),
    "metadata": ({"labels": ["news", "short"]}, {}, None, NO_GRADES),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_PEOPLE)
def test_labels_of_several_people(tmp_path, name):
    columns, labels, label, grades = BY_PEOPLE[name]
    alone = {"response", "responses"} & columns.keys()
    row = {**({"prompt": "q"} if alone else LABELED), **columns, "source": "s"}
    dataset = load_labeled(tmp_path, row, mode="pointwise" if alone else "pairwise")
    (case,) = dataset.cases
    assert (dict(case.labels), case.label) == (labels, label)
    assert [response.grade for response in case.responses] == grades
    kept = {"labels": columns["labels"]} if name == "metadata" else {}
    assert case.metadata == {"source": "s", **kept}
    notes = " ".join(dataset.notes)
    assert ("evenly split" in notes) == (name == "split")
    from_people = name not in ("split", "a label of its own", "metadata")
    assert ("labels from the majority of annotators" in notes) == from_people


def test_the_fingerprint_knows_of_people_and_of_nothing_else(tmp_path):
    plain, labelled = (
        load_labeled(tmp_path, {**LABELED, "label": "A"}),
        load_labeled(tmp_path, {**LABELED, "label": "A", "labels": {"n": "A"}}),
    )
    assert plain.fingerprint != labelled.fingerprint


@pytest.mark.parametrize(("labels", "mapped", "said"), [
    ({"ann": "first"}, False, 'label "first" is not mapped'),
    ({"ann": [1, 2, 3]}, False, "label has 3 grades for 2 responses"),
    ({"ann": 3}, False, "label 3 is not mapped to A, B or TIE"),
    ("{broken", False, "labels is not a JSON object"),
    (["A"], True, "labels is not an object; write {annotator: label}"),
])  # fmt: skip
def test_what_is_no_label_is_refused_with_its_place(tmp_path, labels, mapped, said):
    fields = {"labels": "labels"} if mapped else {}
    with pytest.raises(DatasetError) as caught:
        load_labeled(tmp_path, LABELED, {**LABELED, "labels": labels}, fields=fields)
    assert "rows.jsonl:2: " in str(caught.value)
    assert said in str(caught.value)


def test_spellings_are_mapped_for_people_too(tmp_path):
    row = {**LABELED, "votes": {"ann": 1, "bo": 2}}
    words = {"1": "A", "2": "B"}
    (case,) = load_labeled(tmp_path, row, label_map=words, fields={"labels": "votes"}).cases
    assert case.metadata == {}
    assert dict(case.labels) == {"ann": "A", "bo": "B"}
