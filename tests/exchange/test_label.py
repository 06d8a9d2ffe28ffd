"""People's labels into a finished run: from CSV, Argilla and Label Studio, annotators apart, a run scored again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.exchange.teaching import kind, worth_labelling
from evalkit.runs import read_run
from evalkit.types import Orders


def pair(number: int, winners: tuple[str, str], **more: Any) -> list[dict[str, Any]]:
    base = {"id": f"c{number}", "prompt": f"q{number}", "response_a": "x", "response_b": "yy", "judge": "j", **more}
    return [{**base, "winner": winner, "order": order} for winner, order in zip(winners, ("ab", "ba"), strict=True)]


@pytest.fixture
def ran(bring, write):
    """Twelve pairs: the judge says A in 0-3, B in 4-7, and changes its mind in 8-11."""
    rows = [row for n in range(12) for row in pair(n, [("A", "A"), ("B", "B"), ("A", "B")][n // 4])]
    return bring("generic", str(write("pairs.jsonl", rows)))


def label(ran, *words: str) -> int:
    return main(["label", str(ran.folder), *words])


def test_labels_of_two_people(ran, write, capsys):
    lines = ["id,annotator,label"]
    lines += [f"c{n},ann,{'A' if n < 4 else 'B'}" for n in range(8)]
    lines += [f"c{n},bob,{'A' if n < 6 else 'B'}" for n in range(8)]
    write("labels.csv", "\n".join(lines) + "\n")
    assert label(ran, "labels.csv") == 0
    assert "labels: 16 by 2 annotators (ann 8, bob 8)" in capsys.readouterr().out
    cases = {row["id"]: row for row in ran.rows("cases.jsonl")}
    assert cases["c5"]["labels"] == {"ann": "B", "bob": "A"}
    assert cases["c5"]["label"] is None
    assert cases["c0"]["label"] == "A"
    # Agreed: c0-c3 and c6, c7, on all of which the judge is right; the ceiling is 6 of 8 for each of the two.
    assert ran.metrics["agreement/accuracy"]["value"] == 1
    assert ran.metrics["agreement/accuracy"]["n"] == 6
    assert ran.metrics["human/ceiling"]["value"] == 0.75
    assert ran.metrics["corrected/win_rate/a"]["n"] == 6
    assert ran.json("manifest.json")["labels"][0]["annotators"] == {"ann": 8, "bob": 8}


def test_a_later_label_of_one_person_stands_in_place_of_the_former(ran, write):
    write("one.csv", "case_id,annotator,label\nc0,ann,A\n")
    write("two.csv", "case_id,annotator,label\nc0,ann,B\nc1,bob,tie\n")
    assert label(ran, "one.csv") == label(ran, "two.csv") == 0
    cases = {row["id"]: row for row in ran.rows("cases.jsonl")}
    assert (cases["c0"]["labels"], cases["c1"]["labels"]) == ({"ann": "B"}, {"bob": "TIE"})
    assert len(ran.json("manifest.json")["labels"]) == 2


def test_a_label_of_the_data_set_stays_what_verdicts_are_held_against(bring, write):
    ran = bring("generic", str(write("p.jsonl", pair(0, ("A", "A"), label="A"))))
    write("l.csv", "id,annotator,label\nc0,ann,B\n")
    assert label(ran, "l.csv") == 0
    (case,) = ran.rows("cases.jsonl")
    assert (case["label"], case["labels"]) == ("A", {"ann": "B"})


def test_grades(bring, write):
    rows = [{"id": "1", "prompt": "p", "response": text, "model": text, "score": s} for text, s in [("a", 4), ("b", 2)]]
    ran = bring("generic", str(write("s.jsonl", rows)))
    write("g.csv", "id,annotator,grade,response_index\n1,ann,5,0\n1,ann,1,1\n1,bob,3,0\n")
    assert label(ran, "g.csv") == 0
    (case,) = ran.rows("cases.jsonl")
    assert case["labels"] == {"ann": [5.0, 1.0], "bob": [3.0, None]}
    assert [one["grade"] for one in case["responses"]] == [4.0, 1.0]


def exported(ran, layout: str) -> list[dict[str, Any]]:
    assert main(["export", str(ran.folder), "--to", layout]) == 0
    return json.loads((ran.folder / f"{layout}.json").read_text("utf-8"))


def better(shown: str) -> str:
    """What a person says who holds the case's first response for the better one."""
    return "A" if shown == "0,1" else "B"


def test_argilla(ran, write):
    records = exported(ran, "argilla")
    assert {record["metadata"]["shown"] for record in records} == {"0,1", "1,0"}
    for place, record in enumerate(records):
        said = [{"value": better(record["metadata"]["shown"]), "user_id": user} for user in ("u-1", "u-2")]
        record["responses"] = {"better": said if place else [{**said[0], "status": "discarded"}]}
    write("records.json", records)
    assert label(ran, "records.json") == 0
    people = [case["labels"] for case in ran.rows("cases.jsonl")]
    assert sorted(map(len, people)) == [0] + [2] * 11
    assert {value for labels in people for value in labels.values()} == {"A"}


def test_label_studio(ran, write):
    tasks = exported(ran, "label_studio")
    for number, task in enumerate(tasks):
        said = [{"from_name": "better", "type": "choices", "value": {"choices": [better(task["data"]["shown"])]}}]
        task |= {
            "id": number,
            "annotations": [
                {"completed_by": {"id": 1, "email": "ann@x.org"}, "result": said},
                {"completed_by": 2, "result": said, "was_cancelled": number == 0},
            ],
        }
    write("export.json", tasks)
    assert label(ran, "export.json") == 0
    people = [case["labels"] for case in ran.rows("cases.jsonl")]
    assert sorted(map(len, people)) == [1] + [2] * 11
    assert {name for labels in people for name in labels} == {"ann@x.org", "2"}
    assert {value for labels in people for value in labels.values()} == {"A"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("id,annotator,label\nc99,ann,A\n", "the run has no case 'c99'"),
        ("id,annotator,label\nc0,ann,Z\n", "l.csv:2: 'Z' is not a winner"),
        ("id,label\nc0,A\n", "l.csv:2: a label does not say who gave it"),
        ("annotator,label\nann,A\n", "a label does not say which case it is of"),
        ("id,annotator,label\nc0,ann,4\n", "the grade 4 does not say which of 2 responses it is of"),
        ("id,annotator,label,shown\nc0,ann,A,first\n", "'first' is not an order of responses"),
        ("id,annotator,label\n", "holds no labels"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(ran, write, capsys, content, said):
    before = (ran.folder / "cases.jsonl").read_bytes()
    write("l.csv", content)
    capsys.readouterr()
    assert label(ran, "l.csv") == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line
    assert (ran.folder / "cases.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "needs a run folder, and where labels come from"),
        (("--to", "paper"), "--to paper: labels are not asked for there"),
        (("--to", "mlflow", "--n", "none"), "--n none: is not a whole number"),
        (("--to", "mlflow", "--annotators", "ann,ann"), "--annotators: needs different names"),
        (("labels.csv", "--from", "mlflow"), "needs a run folder, and where labels come from"),
        (("absent.csv",), "absent.csv: no such file"),
        (("--from", "mlflow", "tracking.uri=sqlite:///no.db"), "no.db: no such store"),
    ],
)
def test_wrong_words(ran, capsys, words, said):
    capsys.readouterr()
    assert label(ran, *words) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_what_teaches_most_comes_first_and_verdicts_are_balanced(ran):
    result = read_run(ran.folder)
    chosen = [name for name, _ in worth_labelling(result, 12)]
    flipped, plain = {f"c{n}" for n in range(8, 12)}, [f"c{n}" for n in range(8)]
    assert sorted(chosen) == sorted([*flipped, *plain])
    assert [name in flipped for name in chosen[:8]] == [True, False] * 4
    winners = {verdict.case_id: verdict.winner for verdict in result.verdicts}
    kept = [winners[name] for name in chosen if name not in flipped]
    assert kept[:4].count("A") == kept[:4].count("B") == 2
    assert chosen == [name for name, _ in worth_labelling(result, 12)]
    assert chosen != [name for name, _ in worth_labelling(result, 12, seed=1)]


def test_what_is_labelled_already_comes_last(ran, write):
    write("l.csv", "id,annotator,label\n" + "".join(f"c{n},ann,A\n" for n in range(8, 12)))
    label(ran, "l.csv")
    chosen = [name for name, _ in worth_labelling(read_run(ran.folder), 12)]
    assert set(chosen[8:]) == {f"c{n}" for n in range(8, 12)}


def test_kinds(ran):
    verdict = read_run(ran.folder).verdicts[0]
    assert kind(replace(verdict, votes={"a": "A", "b": "B"}), 0.0) == "disagreement"
    assert kind(replace(verdict, orders=Orders("A", "B", False)), 0.0) == "flip"
    assert kind(replace(verdict, margin=0.3), 0.0) == "near"
    assert kind(replace(verdict, margin=-0.8), 0.5) == "near"
    assert kind(replace(verdict, margin=1.0), 0.0) == "plain"
