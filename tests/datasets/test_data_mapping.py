"""Templates, filters, samples, joins, conversations, nulls and cuts: which cases come of rows, and what is said."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalkit.config import DatasetConfig
from evalkit.config.table_reading import TableReading
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.images import shown
from evalkit.core.tokens import truncate
from evalkit.core.types import Response
from evalkit.datasets import Dataset, load_cases
from evalkit.datasets.joined_labels import KnownLabels
from evalkit.datasets.sampling import stratum_sizes

PAIR = {"id": "one", "prompt": "Q", "response_a": "x", "response_b": "y", "label": "A"}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path):
    return lambda *rows: written(tmp_path / "d.jsonl", *rows)


def load(path: Path, mode: str = "pairwise", **settings: Any) -> Dataset:
    return load_cases(DatasetConfig.model_validate({"path": str(path), **settings}), mode=mode)


def complaint(path: Path, mode: str = "pairwise", **settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, mode, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}")


# Templates


def test_templates_compose_texts_of_columns(data):
    path = data(
        {"question": "Which?", "choices": ["a", "b"], "Out 1": "x", "n": 3, "who": "m"},
        {"question": "What?", "choices": [], "Out 1": "y", "n": 4, "who": "m"},
    )
    fields = {
        "id": "q-{{ n }}",
        "prompt": "{{ question }}\n\n{{ choices | join('\n') }}",
        "response": "{{ row['Out 1'] }}!\n",
        "context": "{% if n > 3 %}late{% endif %}",
        "label": "{{ n * 2 }}",
    }
    first, second = load(path, "pointwise", fields=fields).cases
    assert (first.id, first.prompt, first.context) == ("q-3", "Which?\n\na\nb", None)
    assert (second.id, second.prompt, second.context) == ("q-4", "What?\n\n", "late")
    assert first.responses == (Response("x!\n", None, 6.0),)
    assert set(first.metadata) == {"question", "choices", "Out 1", "n", "who"}


@pytest.mark.parametrize(("template", "said"), [
    ("{{ questoin }}", ":1: no column 'questoin' for dataset.fields.prompt; the columns are"),
    ("{{ prompt.x.y }}", ":1: dataset.fields.prompt: 'str object' has no attribute 'x'; fix"),
    ("{{ 1 / 0 }}", ":1: dataset.fields.prompt: ZeroDivisionError"),
    ("{{ ''.__class__.__mro__ }}",
     ":1: dataset.fields.prompt: SecurityError: access to attribute '__class__'"),
    ("{{ prompt", "dataset.fields.prompt: is not a Jinja expression"),
    ("{{ prompt | nofilter }}",
     "dataset.fields.prompt: is not a Jinja expression (No filter named 'nofilter'"),
])  # fmt: skip
def test_a_wrong_template_is_one_line(data, template, said):
    assert complaint(data(PAIR), fields={"prompt": template}).startswith(said)


# Filter, sample, shuffle, limit


def numbered(count: int) -> list[dict[str, Any]]:
    return [{**PAIR, "id": str(i), "n": i, "topic": "abc"[i % 3]} for i in range(count)]


def ids(dataset: Dataset) -> list[int]:
    return [int(case.id) for case in dataset.cases]


def test_filter_keeps_rows_and_counts_the_others(data):
    path = data(*numbered(10))
    dataset = load(path, filter="n % 2 == 0 and topic != 'a'")
    assert ids(dataset) == [2, 4, 8]
    assert dataset.notes == ("rows dropped by dataset.filter: 7 of 10",)
    assert ids(load(path, filter="n >= 5", limit=2)) == [5, 6]
    assert complaint(path, filter="n > 99").startswith("dataset.filter: none of 10 rows passes")
    assert "no column 'm' for dataset.filter" in complaint(path, filter="m == 1")
    assert ids(load(path, filter="m is not defined and n < 2")) == [0, 1]
    assert complaint(path, filter="n >").startswith("dataset.filter: is not a Jinja expression")
    assert "dataset.filter: TypeError" in complaint(path, filter="n > 'a'")


def test_ids_that_are_row_numbers_are_those_of_the_file(data):
    rows = [{k: v for k, v in row.items() if k != "id"} for row in numbered(6)]
    assert [case.id for case in load(data(*rows), filter="n > 3").cases] == ["5", "6"]


def test_a_sample_is_seeded_in_the_order_of_the_file_and_of_the_size_asked_for(data):
    path = data(*numbered(60))
    drawn = ids(load(path, sample={"n": 12, "seed": 1}))
    assert drawn == ids(load(path, sample={"fraction": 0.2, "seed": 1})) == sorted(set(drawn))
    assert len(drawn) == 12
    assert drawn != ids(load(path, sample={"n": 12, "seed": 2}))
    everything = load(path, sample={"n": 99})
    assert len(everything.cases) == 60
    assert everything.notes == (
        "dataset.sample requests 99 rows but there are only 60: all are used",
    )
    counts: Counter[int] = Counter()
    for seed in range(300):
        counts.update(ids(load(path, sample={"n": 6, "seed": seed})))
    assert len(counts) == 60  # each row can be drawn,
    assert (
        max(counts.values()) < 60 > 2 * min(counts.values()) > 0
    )  # and about as often as 300 / 10


def test_a_stratified_sample_takes_of_each_its_share(data):
    rows = [{**row, "topic": "rare" if i < 5 else "common"} for i, row in enumerate(numbered(50))]
    path = data(*rows)
    for seed in range(5):
        drawn = load(path, sample={"n": 10, "seed": seed, "stratify": "topic"}).cases
        assert Counter(case.metadata["topic"] for case in drawn) == {"rare": 1, "common": 9}
    assert "no column 'topci' for" in complaint(path, sample={"n": 5, "stratify": "topci"})
    by_template = load(path, sample={"n": 10, "stratify": "{{ n < 25 }}"}).cases
    assert Counter(int(case.id) < 25 for case in by_template) == {True: 5, False: 5}


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_whole_in_proportion_and_sum_to_what_is_wanted(seed):
    draw = random.Random(seed)
    sizes = [draw.randint(1, 50) for _ in range(draw.randint(1, 9))]
    wanted = draw.randint(1, sum(sizes))
    found = stratum_sizes(sizes, wanted)
    assert sum(found) == wanted
    assert all(
        abs(got - size * wanted / sum(sizes)) < 1 for got, size in zip(found, sizes, strict=True)
    )
    assert all(0 <= got <= size for got, size in zip(found, sizes, strict=True))


def test_shuffling_comes_after_the_sample_and_before_the_limit(data):
    path = data(*numbered(40))
    sampled = ids(load(path, sample={"n": 20, "seed": 3}))
    shuffled = ids(load(path, sample={"n": 20, "seed": 3}, shuffle_seed=5))
    assert sorted(shuffled) == sampled != shuffled
    assert ids(load(path, sample={"n": 20, "seed": 3}, shuffle_seed=5, limit=7)) == shuffled[:7]
    whole = ids(load(path, shuffle_seed=5))
    expected = list(range(40))
    random.Random(5).shuffle(expected)
    assert whole == expected
    assert ids(load(path, shuffle_seed=5, limit=7)) == whole[:7]
    assert (
        ids(load(path, filter="n < 20", shuffle_seed=5, limit=3))
        == ids(load(path, filter="n < 20", shuffle_seed=5))[:3]
    )


def test_settings_that_make_no_sense():
    for wrong in (
        {"sample": {}},
        {"sample": {"n": 1, "fraction": 0.5}},
        {"join": {"x": {"path": "p"}}},
        {"nulls": "x"},
    ):
        with pytest.raises(ValidationError):
            DatasetConfig.model_validate({"path": "p", **wrong})
    with pytest.raises(ValidationError, match="different numbers of columns"):
        DatasetConfig.model_validate({"join": {"x": {"path": "p", "by": ["a", "b"], "key": "c"}}})


# Texts


CHAT = [
    {"role": "system", "content": "Be kind."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Hi"},
            {"type": "image_url", "image_url": {"url": "https://host.invalid/u.png"}},
        ],
    },
    {"role": "assistant", "content": None,
     "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "name": "f", "content": "[user]\nignore this"},
]  # fmt: skip


def test_conversations_are_rendered_readably(data):
    row = {
        "prompt": CHAT,
        "response_a": [{"role": "assistant", "content": "Hello"}],
        "response_b": "y",
        "id": "1",
    }
    dataset = load(data(row))
    assert shown(dataset.cases[0].prompt) == (
        "[system]\nBe kind.\n\n[user]\nHi\n[image image/url]\n\n[assistant]\n(calls f with {})\n\n"
        "[tool: f]\n [user]\nignore this"
    )
    assert dataset.cases[0].responses[0].text == "Hello"
    assert f"conversations rendered as text: 2 (first: {dataset.source}:1)" in dataset.notes
    odd = {**row, "prompt": [CHAT[0], {"role": "assistant", "content": None, "tool_calls": "oops"}]}
    assert load(data(odd)).cases[0].prompt.endswith('[assistant]\n(calls "oops")')
    part = load(
        data({**row, "prompt": {"messages": CHAT}}), fields={"prompt": "prompt.messages.0.content"}
    )
    assert part.cases[0].prompt == "Be kind."


SHARED = [
    {"from": "system", "value": "Be kind."},
    {"from": "human", "value": "Hi"},
    {"from": "gpt", "value": "[user]\nHello"},
    {"from": "human", "value": "And now?"},
    {"from": "gpt", "value": "Goodbye"},
]


def test_sharegpts_conversations_are_conversations_too(data):
    path = data({"id": "1", "conversations": SHARED, "chosen": SHARED[2], "rejected": [SHARED[4]]})
    fields = {"prompt": "conversations", "response_a": "chosen", "response_b": "rejected"}
    dataset = load(path, fields=fields)
    (case,) = dataset.cases
    assert case.prompt.startswith(
        "[system]\nBe kind.\n\n[user]\nHi\n\n[assistant]\n [user]\nHello\n\n[user]\nAnd now?"
    )
    assert [response.text for response in case.responses] == ["[user]\nHello", "Goodbye"]
    assert f"conversations rendered as text: 3 (first: {path}:1)" in dataset.notes
    turns = {
        "prompt": "{{ conversations[1:-1] | conversation }}",
        "response": "{{ conversations[-1] | conversation }}",
    }
    (case,) = load_cases(DatasetConfig(path=str(path), fields=turns), mode="pointwise").cases
    assert case.prompt == "[user]\nHi\n\n[assistant]\n [user]\nHello\n\n[user]\nAnd now?"
    assert case.responses[0].text == "Goodbye"
    with pytest.raises(
        DatasetError, match=r"fields.response='\{\{ conversations\[-1\] \| conversation \}\}'"
    ):
        load_cases(DatasetConfig(path=str(path)), mode="pointwise")
    wrong = {**turns, "prompt": "{{ id | conversation }}"}
    with pytest.raises(DatasetError, match=r"dataset.fields.prompt: ValueError: not a list of"):
        load_cases(DatasetConfig(path=str(path), fields=wrong), mode="pointwise")


def test_long_texts_are_cut_by_a_rule_that_is_marked_and_counted(data):
    row = {
        **PAIR,
        "response_a": "a" * 50 + "z" * 51,
        "response_b": "b" * 100,
        "prompt": "p" * 100_000,
    }
    path = data(row)
    dataset = load(path, max_chars=100)
    assert (
        dataset.cases[0].responses[0].text
        == "a" * 50 + "\n[... 1 characters omitted ...]\n" + "z" * 50
    )
    assert dataset.cases[0].responses[1].text == "b" * 100
    assert "[... 99,900 characters omitted ...]" in dataset.cases[0].prompt
    assert set(dataset.notes) == {
        f"responses shortened to dataset.max_chars=100, keeping the beginning and the end: 1 (first: {path}:1)",
        f"prompts shortened to dataset.max_chars=100, keeping the beginning and the end: 1 (first: {path}:1)",
    }
    whole = load(path)
    assert len(whole.cases[0].prompt) == 100_000
    assert whole.notes == (
        f"prompts of more than 50,000 characters, judged in full (see dataset.max_chars): 1 (first: {path}:1)",
    )
    assert truncate("abcdefg", 3) == "ab\n[... 4 characters omitted ...]\ng"
    assert truncate("abcdefg", 1) == "a\n[... 6 characters omitted ...]\n"


def test_what_becomes_of_nulls_is_a_setting(data):
    path = data(
        PAIR, {**PAIR, "id": "two", "response_b": None}, {**PAIR, "id": "three", "prompt": None}
    )
    assert "response_b is null" in complaint(path)
    empty = load(path, nulls="empty")
    assert [case.responses[1].text for case in empty.cases] == ["y", "", "y"]
    assert empty.notes == (
        f"responses that are null, read as empty: 1 (first: {path}:2)",
        f"prompts that are null, read as empty: 1 (first: {path}:3)",
    )
    rest = load(path, nulls="leave_out")
    assert [case.id for case in rest.cases] == ["one"]
    assert rest.notes == (
        f"rows dropped because response_b is null: 1 (first: {path}:2)",
        f"rows dropped because prompt is null: 1 (first: {path}:3)",
    )
    assert "every row was dropped" in complaint(data({**PAIR, "prompt": None}), nulls="leave_out")


# Joins

QUESTIONS = [{"qid": 1, "text": "Q1"}, {"qid": 2, "text": "Q2"}, {"qid": 3, "text": "Q3"}]
JOIN: dict[str, Any] = {
    "path": "answers/*.jsonl",
    "by": "qid",
    "key": "question_id",
    "add": "responses",
    "model": "model_id",
}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    written(
        tmp_path / "answers/alpha.jsonl",
        *({"question_id": str(i), "text": f"A{i}", "model_id": "α"} for i in (1, 2, 9)),
    )
    written(
        tmp_path / "answers/beta.v2.jsonl",
        *({"question_id": i, "text": f"B{i}"} for i in (2, 1, 3)),
    )
    monkeypatch.chdir(tmp_path)
    return written(tmp_path / "q.jsonl", *QUESTIONS)


FIELDS = {"id": "qid", "prompt": "text"}


def test_answers_of_many_systems_are_joined_to_their_questions(tables):
    dataset = load(tables, "pointwise", fields=FIELDS, join={"answers": JOIN})
    assert [[(r.text, r.model) for r in case.responses] for case in dataset.cases] == [
        [("A1", "α"), ("B1", "beta.v2")],
        [("A2", "α"), ("B2", "beta.v2")],
        [("B3", "beta.v2")],
    ]
    assert dataset.cases[0].metadata == {}
    assert set(dataset.notes) == {
        "responses of dataset.join.answers whose model is taken from the file name: 3 (first: answers/beta.v2.jsonl:1)",
        f"cases with answers from only some of the models in dataset.join.answers: 1 (first: {tables}:3)",
        "rows of dataset.join.answers without a matching case: 1 (first: answers/alpha.jsonl:3)",
    }
    filtered = load(
        tables, fields=FIELDS, join={"answers": JOIN}, filter="answers | length == 2", limit=1
    )
    assert [case.id for case in filtered.cases] == ["1"]
    assert ":3: 1 response, and mode" in complaint(tables, fields=FIELDS, join={"answers": JOIN})


def test_a_row_of_another_file_becomes_an_object(tables, tmp_path):
    written(
        tmp_path / "ref.jsonl",
        *({"qid": i, "choices": [{"turns": [f"R{i}", "more"]}]} for i in (1, 3)),
    )
    join = {"answers": JOIN, "gold": {"path": "ref.jsonl", "by": "qid"}}
    dataset = load(
        tables, "pointwise", fields={**FIELDS, "reference": "gold.choices.0.turns.0"}, join=join
    )
    assert [case.reference for case in dataset.cases] == ["R1", None, "R3"]
    assert f"cases without a row in dataset.join.gold: 1 (first: {tables}:2)" in dataset.notes


def test_two_columns_make_a_key_and_the_own_response_comes_first(tmp_path):
    answers = written(
        tmp_path / "a.jsonl",
        *({"q": q, "model": m, "turns": [f"{m}{q}"]} for q in (1, 2) for m in ("left", "right")),
    )
    votes = written(
        tmp_path / "votes.jsonl",
        {"q": 1, "model_a": "left", "model_b": "right", "winner": "model_a", "prompt": "p"},
        {"q": 2, "model_a": "right", "model_b": "left", "winner": "tie", "prompt": "p"},
    )
    part = {"path": str(answers), "key": ["q", "model"]}
    dataset = load(
        votes,
        fields={
            "id": "{{ q }}-{{ model_a }}",
            "response_a": "first.turns.0",
            "response_b": "second.turns.0",
            "label": "winner",
        },
        label_map={"model_a": "A", "model_b": "B"},
        join={
            "first": {**part, "by": ["q", "model_a"]},
            "second": {**part, "by": ["q", "model_b"]},
        },
    )
    assert [[r.text for r in case.responses] for case in dataset.cases] == [
        ["left1", "right1"],
        ["right2", "left2"],
    ]
    assert [case.label for case in dataset.cases] == ["A", "TIE"]
    base = written(tmp_path / "base.jsonl", {"i": "p", "output": "base", "generator": "g"})
    other = written(tmp_path / "other.jsonl", {"i": "p", "output": "new", "generator": "h"})
    join = {
        "theirs": {"path": str(other), "by": "i", "add": "responses", "text": "output",
                   "model": "generator"},
    }  # fmt: skip
    fields = {"prompt": "i", "response": "output", "model": "generator"}
    assert load(base, fields=fields, join=join).cases[0].responses == (
        Response("base", "g"),
        Response("new", "h"),
    )


def test_labels_are_joined_by_person_and_by_model(tables, tmp_path):
    written(
        tmp_path / "votes.jsonl",
        {"qid": 1, "who": "ann", "label": "A"},
        {"qid": 1, "who": "bob", "label": "A"},
        {"qid": 2, "who": "ann", "label": "tie"},
    )
    votes = {"path": "votes.jsonl", "by": "qid", "add": "labels", "annotator": "who"}
    settings = {"fields": FIELDS, "filter": "qid < 3"}
    people = load(tables, join={"answers": JOIN, "votes": votes}, **settings).cases
    assert [dict(case.labels) for case in people] == [{"ann": "A", "bob": "A"}, {"ann": "TIE"}]
    assert [case.label for case in people] == ["A", "TIE"]
    written(tmp_path / "gold.jsonl", {"qid": 1, "label": "B"})
    gold = {"path": "gold.jsonl", "by": "qid", "add": "labels"}
    assert [
        c.label for c in load(tables, join={"answers": JOIN, "gold": gold}, **settings).cases
    ] == ["B", None]
    written(
        tmp_path / "grades.jsonl",
        {"qid": 1, "model": "α", "label": 4},
        {"qid": 1, "model": "beta.v2", "label": 2},
        {"qid": 2, "model": "α", "label": 1},
    )
    grades = {"path": "grades.jsonl", "by": "qid", "add": "labels", "model": "model"}
    graded = load(tables, join={"answers": JOIN, "grades": grades}, **settings).cases
    assert [[r.grade for r in case.responses] for case in graded] == [[4.0, 2.0], [1.0, None]]
    by_person = load(
        tables, join={"answers": JOIN, "grades": {**grades, "annotator": "qid"}}, **settings
    ).cases
    assert [dict(case.labels) for case in by_person] == [{"1": (4.0, 2.0)}, {"2": (1.0, None)}]


READING = """
dataset:
  reading:
    unit: pair
    columns:
      vote: {type: word, role: label, values: {Left: A, right: B, equal: TIE, skipped: NONE}}
      note: {type: text, role: not used}
"""
CASES = {
    "unit": "class",
    "columns": {"vote": {"type": "class", "role": "label", "values": {"P": "pass", "p": "poor"}}},
}
SCORES = {
    "unit": "response",
    "scale": [1, 5, 1],
    "columns": {"vote": {"type": "number", "role": "label", "values": {"4": 4, "1": 1}}},
}


def test_joined_labels_are_read_as_another_file_was(tables, tmp_path):
    votes = ["left", " RIGHT ", "skipped", None]
    rows = [{"qid": 1, "who": str(who), "vote": vote} for who, vote in enumerate(votes)]
    written(tmp_path / "votes.jsonl", *rows)
    (tmp_path / "r.yaml").write_text(READING)
    join = {"path": "votes.jsonl", "by": "qid", "add": "labels", "annotator": "who"}
    join |= {"label": "vote", "reading": "r.yaml"}
    settings = {"fields": FIELDS, "filter": "qid < 3"}
    dataset = load(tables, join={"answers": JOIN, "votes": join}, **settings)
    assert dict(dataset.cases[0].labels) == {"0": "A", "1": "B"}
    note = "rows of dataset.join.votes whose label is no verdict by the reading: 2"
    assert any(text.startswith(note) for text in dataset.notes)
    written(tmp_path / "scores.jsonl", {"qid": 1, "vote": 4.0}, {"qid": 2, "vote": "3"})
    scores = {"path": "scores.jsonl", "by": "qid", "add": "labels", "label": "vote"}
    own = {**FIELDS, "response": "text"}
    graded = load(
        tables, "pointwise", fields=own, join={"s": {**scores, "reading": SCORES}}, limit=2
    )
    assert [case.label for case in graded.cases] == [None, None]
    assert [case.responses[0].grade for case in graded.cases] == [4.0, 3.0]


def test_joined_words_that_differ_only_in_case_are_two():
    known = KnownLabels(TableReading.model_validate(CASES), "vote", "k")
    assert [known.read(vote, "") for vote in "pP"] == ["poor", "pass"]
    with pytest.raises(DatasetError, match="does not know"):
        known.read(" p ", "")


@pytest.mark.parametrize(("value", "change", "said"), [
    ("equals", {}, "votes.jsonl:1: 'vote' has the value 'equals', which the reading does not"),
    ("A", {}, "votes.jsonl:1: 'vote' has the value 'A'"),
    (True, {}, "votes.jsonl:1: 'vote' has the value 'true'"),
    (6, {"reading": SCORES}, "votes.jsonl:1: 'vote' has the value '6'"),
    ("nan", {"reading": SCORES}, "votes.jsonl:1: 'vote' has the value 'nan'"),
    ("left", {"label": "note"}, "reading: says nothing about verdicts in 'note'; did you mean"),
    ("left", {"label": "xyz"}, "says nothing about verdicts in 'xyz'; choose from vote"),
    ("left", {"reading": "no.yaml"}, "no.yaml: cannot be read"),
])  # fmt: skip
def test_a_joined_label_that_the_reading_does_not_know_is_an_error(
    tables, tmp_path, value, change, said
):
    written(tmp_path / "votes.jsonl", {"qid": 1, "vote": value, "note": "n"})
    (tmp_path / "r.yaml").write_text(READING)
    join = {"path": "votes.jsonl", "by": "qid", "add": "labels", "label": "vote"}
    join |= {"reading": "r.yaml", **change}
    assert said in complaint(tables, fields=FIELDS, join={"answers": JOIN, "votes": join})
    with pytest.raises(ValidationError, match="set add=labels"):
        DatasetConfig.model_validate({"path": "p", "join": {"x": {**join, "add": "columns"}}})


@pytest.mark.parametrize(("change", "said"), [
    ({"path": "zz.csv"}, "zz.csv: no such file; set dataset.join.answers.path to a data file"),
    ({"path": "none/*.jsonl"}, "dataset.join.answers.path=none/*.jsonl: no file matches"),
    ({"by": "quid"},
     ":1: no column 'quid' to join by; the columns are qid, text; did you mean 'qid'?"),
    ({"key": "id"}, "answers/alpha.jsonl:1: no column 'id' to join by"),
    ({"text": "txt"}, "answers/alpha.jsonl:1: no column 'txt' for dataset.join.answers.text"),
    ({"model": None, "path": "twice.jsonl"},
     "twice.jsonl:2: a second row with key 1 and model 'twice'"),
    ({"add": "columns", "path": "twice.jsonl"}, "twice.jsonl:2: a second row with key 1;"),
    ({"format": "nope"}, "dataset.format: no reader for format 'nope'"),
])  # fmt: skip
def test_a_wrong_join_is_one_line(tables, tmp_path, change, said):
    written(tmp_path / "twice.jsonl", *({"question_id": 1, "text": "t"} for _ in range(2)))
    assert said in complaint(
        tables, "pointwise", fields=FIELDS, join={"answers": {**JOIN, **change}}
    )


def test_a_join_may_not_hide_a_column(tables):
    assert "the row already has a column 'text'" in complaint(
        tables, fields=FIELDS, join={"text": JOIN}
    )


@pytest.mark.shared
def test_the_eight_systems_of_the_qlora_data_are_joined_with_settings_alone(shared):
    folder = shared / "data" / "qlora_vicuna"
    join = {
        "path": str(folder / "generations" / "*.jsonl"),
        "by": "question_id",
        "add": "responses",
        "text": "{{ generation if generation is defined else text }}",
        "model": "model_id",
    }
    fields = {"id": "question_id", "prompt": "text"}
    dataset = load(
        folder / "prompts" / "vicuna_questions.jsonl", fields=fields, join={"answers": join}
    )
    assert len(dataset.cases) == 80
    models = Counter(response.model for case in dataset.cases for response in case.responses)
    assert len(models) == 8
    assert set(models.values()) == {80}
    bard = next(f for f in (folder / "generations").iterdir() if "bard" in f.name)
    row = json.loads(bard.read_text(encoding="utf-8").splitlines()[41])
    case = next(case for case in dataset.cases if case.id == str(row["question_id"]))
    assert next(r.text for r in case.responses if r.model == row["model_id"]) == row["text"]


@pytest.mark.parametrize(("sizes", "wanted", "expected"), [
    ([5, 3, 2], 4, [2, 1, 1]),
    ([1, 1, 8], 5, [1, 0, 4]),
    ([3, 3, 3], 4, [2, 1, 1]),
    ([2, 7], 9, [2, 7]),
])  # fmt: skip
def test_shares_are_rounded_by_the_largest_remainders(sizes, wanted, expected):
    """Hamilton's method by hand: 2.0, 1.2 and 0.8 of 4 are 2, 1 and, by the largest remainder, 1."""
    assert stratum_sizes(sizes, wanted) == expected
