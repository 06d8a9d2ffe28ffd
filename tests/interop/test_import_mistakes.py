"""Mistakes in `evalkit import` and in files of labels: one line each, with what to do."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.types import Case, Response
from evalkit.interop import import_cases
from evalkit.interop.import_cases import to_cases
from evalkit.interop.importers.openai_batch import read_texts
from evalkit.interop.layouts.judgment_files import load_object, rows_of
from evalkit.interop.layouts.records import Answer, Options, ParsedFile, Record, RecordedJudgment
from evalkit.labels.label_files import read_labels

PAIR = {"id": "1", "prompt": "?", "response_a": "a", "response_b": "b"}


@pytest.mark.parametrize(("words", "what"), [
    (("import", "generic", "dataset.limit=3"), "needs FORMAT and PATH before the overrides"),
    (("import", "rows.jsonl", "generic"), "needs FORMAT before PATH; write evalkit import"),
    (("import", "promptfo", "rows.jsonl"), "no such format 'promptfo'; did you mean 'promptfoo'"),
    (("import", "generic", "none.jsonl"), "none.jsonl: no such file; use the file with the"),
    (("import", "promptfoo", "rows.jsonl"), "rows.jsonl: does not look like promptfoo; "),
])  # fmt: skip
def test_a_mistake_is_one_line(call, tmp_path, words, what):
    (tmp_path / "rows.jsonl").write_text(json.dumps(PAIR) + "\n", "utf-8")
    assert what in call(*words, status=1).line()


@pytest.mark.parametrize(
    ("rows", "kept", "status"),
    [(["A", None], ["1"], 0), ([None, None], [], 1)],
    ids=["some", "none"],
)
def test_only_complete_cases_are_kept(bring, write, rows, kept, status):
    made = [{**PAIR, "id": str(number), "winner": winner} for number, winner in enumerate(rows, 1)]
    fields = ("id=id", "response_a=response_a", "response_b=response_b", "winner=winner")
    ran = bring(
        "generic", str(write("rows.jsonl", made)), "--complete", "--fields", *fields, status=status
    )
    if kept:
        assert [row["id"] for row in ran.rows("cases.jsonl")] == kept
        assert "cases omitted because not all their judgments could be read: 1 of 2" in ran.out
    else:
        assert "--complete: no case has all its judgments; omit it" in ran.err


CASES = (Case("q", "?", (Response("a"), Response("b"))),)


def batch(folder: Path, *names: str) -> Path:
    rows = [
        {"custom_id": name, "response": {"body": {"choices": [{"message": {"content": "x"}}]}}}
        for name in names
    ]
    path = folder / "out.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize(("options", "what"), [
    ({"cases": ()}, "has a model's answers and no verdicts; read them with their cases"),
    ({"custom_id": "("}, r"--custom-id \(: is not a regular expression"),
    ({"custom_id": "(?P<id>.*)"}, "has no group 'case'"),
    ({"custom_id": "(?P<case>.)-(?P<response>.)"}, "names response 2, but case 'q' has 2"),
    ({"custom_id": "(?P<case>.)"}, "custom_id 'q-2' matches no case"),
])  # fmt: skip
def test_a_batch_of_other_cases_is_refused(tmp_path, options, what):
    with pytest.raises((ConfigError, DatasetError), match=what):
        read_texts(batch(tmp_path, "q-2"), Options(**{"cases": CASES, **options}))


def test_the_id_of_a_request_may_name_one_response(tmp_path):
    path = batch(tmp_path, "q-0", "q-1", "q-1")
    found = read_texts(path, Options(cases=CASES, custom_id="(?P<case>.)-(?P<response>.)"))
    assert [(one.unit, one.sample) for one in found.judgments] == [((0,), 0), ((1,), 0), ((1,), 1)]
    assert found.judgments[0].completion.usage.prompt_tokens is None


ARGILLA = {
    "fields": {},
    "metadata": {"case_id": "q"},
    "responses": {"better": [{"value": None}, {"value": "A", "user_id": "u"}]},
}
STUDIO = {"data": {"case_id": "q"}, "annotations": [{"completed_by": 7, "result": [{"value": {}}]}]}


@pytest.mark.parametrize(("row", "what"), [
    ({"id": "q", "annotator": "ann", "label": "perhaps"}, "'perhaps' is not a winner; write"),
    ({"id": "q", "annotator": "ann", "label": "none"}, "'none' is not a winner; write A, B or"),
    ({**ARGILLA, "metadata": {}}, "the record has no metadata.case_id; export it with evalkit"),
    ({**STUDIO, "data": {}}, "the task has no data.case_id; export it with evalkit export"),
])  # fmt: skip
def test_a_label_that_cannot_be_read_is_one_line(tmp_path, row, what):
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps(row) + "\n", "utf-8")
    with pytest.raises(DatasetError) as error:
        read_labels(path)
    assert what in str(error.value)


def record(key: str, score: float, **more: Any) -> Record:
    said = RecordedJudgment("m", scores={"quality": score}, status="ok")
    return Record("q", more.pop("prompt", "?"), (Answer(key, f"text of {key}"),), said, **more)


def test_conflicts_between_rows_are_counted_and_the_first_is_kept():
    records = [
        record("a", 4, grades={"ann": 3.0}, metadata={"topic": "x"}, context="one"),
        record("a", 5, grades={"ann": 4.0}, metadata={"topic": "y"}, context="two"),
        record("b", 2, grades={"ann": 1.0}),
    ]
    [case], judgments, notes = to_cases(ParsedFile(records), "generic")
    assert case.labels == {"ann": (3.0, 1.0)}
    assert (case.context, case.metadata["topic"]) == ("one", "x")
    assert [(one.unit, one.sample) for one in judgments] == [((0,), 0), ((0,), 1), ((1,), 0)]
    assert {
        "responses with conflicting grades: the first is kept: 1",
        "cases with conflicting values of context: the first is kept: 1",
        "cases with conflicting values of 'topic': the first is kept: 1",
    } <= set(notes)


APART = [{}, {"context": "c"}, {"metadata": {"topic": "x"}}]
MERGED = [{"labels": {"ann": "a"}}, {"grades": {"ann": 1.0}}, {"better": "a"}]


@pytest.mark.parametrize("more", [*APART, *MERGED])
@pytest.mark.parametrize("judges", [("m",), ("m", "n"), ("m", "m")])
@pytest.mark.parametrize("questions", ["pqr", "pqp"])
@pytest.mark.parametrize("text", ["text", ""])
def test_rows_of_different_questions_become_the_cases_of_rows_that_are_merged(
    monkeypatch, more, judges, questions, text
):
    said = [RecordedJudgment(name, class_name=text, status="ok", sample=None) for name in judges]
    answer = Answer("a", text, "a", messages=[{"role": "user", "content": text}])
    records = [
        Record(question, "?", (answer,), said[0], others=tuple(said[1:]), **more)
        for question in questions
    ]
    result = to_cases(ParsedFile(records), "generic")
    apart = more in APART and len({*judges}) == len(judges) and questions == "pqr"
    assert import_cases._are_apart(records) == apart
    monkeypatch.setattr(import_cases, "_are_apart", lambda records: False)
    assert to_cases(ParsedFile(records), "generic") == result


def test_conflicting_classes_are_counted():
    records = [record("a", 4, classes={"ann": name}) for name in ("good", "bad")]
    [case], _, notes = to_cases(ParsedFile(records), "generic")
    assert case.labels == {"ann": ("good",)}
    assert "responses with conflicting classes: the first is kept: 1" in notes


def test_a_label_of_no_response_is_omitted_and_a_system_may_meet_itself():
    pair = (Answer("a", "text"), Answer("a", "text"))
    records = [
        Record("q", "?", pair, RecordedJudgment("m", value=0.0, status="ok"), labels={"ann": "c"})
    ]
    [case], _, notes = to_cases(ParsedFile(records), "generic")
    assert len(case.responses) == 2
    assert not case.labels
    assert "labels that match no response in their row, omitted: 1" in notes


@pytest.mark.parametrize(("content", "what"), [
    (b"[" * 100_000, "not JSON ("),
    (b"\xff\xfe{", "not JSON ("),
    (b"{", "not JSON (column 2: expecting property name"),
    (b"[]", "is not one JSON object; use another file or format"),
])  # fmt: skip
def test_a_file_that_is_no_json_object_is_refused(tmp_path, content, what):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError) as error:
        load_object(path)
    assert what in str(error.value)


def test_what_cannot_be_read_at_all_is_refused(tmp_path):
    with pytest.raises(DatasetError, match=r"cannot be read \(Is a directory\); check the file"):
        load_object(tmp_path)
    with pytest.raises(DatasetError, match=r"the folder has no \.jsonl or \.json file; use"):
        list(rows_of(tmp_path))
